// The load generator against the Go baseline: joins, connects, reports, changes and watches, and
// the server's own counters agree with what it says. Durations are not judged.
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/baseline_server.h"
#include "test/support/json_lines.h"
#include "test/support/peers.h"
#include "test/support/process.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

std::int64_t NumberOf(const json::Value& line, std::string_view key) {
  const json::Value* value = line.Find(key);
  const std::int64_t* number = value == nullptr ? nullptr : value->if_integer();
  return number == nullptr ? -1 : *number;
}

// Runs the generator with these commands to its end; its answers in order.
std::vector<json::Value> Generate(const BaselineServer& server, const TempDir& dir,
                                  const std::string& commands) {
  const Result<ProcessOutput> output = RunProcess(
      {.argv = {NSTANCE_GENERATOR_PROGRAM, "--ca", server.File("ca.crt"), "--registration",
                server.Address("registration"), "--agent", server.Address("agent"), "--operator",
                server.Address("operator"), "--tokens", server.File("tokens.jsonl"),
                "--operator-tokens", server.File("operator-tokens.jsonl"), "--sources", "4"},
       .input = commands,
       .deadline = Duration::Minutes(5)});
  EXPECT_TRUE(output.has_value()) << output.error().ToString();
  if (!output.has_value()) return {};
  EXPECT_EQ(output->exit_code, 0) << output->err;
  JsonLines lines(dir.Write("answers", output->out));
  return lines.Read();
}

std::string Metrics(const BaselineServer& server) {
  const Result<ProcessOutput> answer =
      RunProcess({.argv = {"curl", "-s", "http://" + server.Address("health") + "/metrics"}});
  return answer.has_value() ? answer->out : answer.error().message;
}

TEST(GeneratorPeersTest, AgentsJoinConnectAndReport) {
  NSTANCE_GO_PROGRAM_OR_SKIP(program, "bench/baseline_go", "baseline-server");
  const TempDir dir;
  RealLoop loop;
  auto server =
      BaselineServer::Start(loop, program, dir.path().string(), {"-instances", "20", "-keys", "k"});
  ASSERT_TRUE(server.has_value()) << server.error().ToString();
  const std::vector<json::Value> answers = Generate(
      *server, dir, "join 20 100\nconnect 100\nreport 100 2 10\nsettle 0\njoin 1 1\nnonsense\n");
  ASSERT_EQ(answers.size(), 6U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(TextOf(answers[i], "error"), "") << json::Write(answers[i]);
  }
  EXPECT_EQ(NumberOf(answers[0], "good"), 20);
  EXPECT_EQ(NumberOf(answers[1], "up"), 20);
  EXPECT_EQ(NumberOf(answers[2], "good"), 200);
  EXPECT_GE(NumberOf(*answers[2].Find("latency"), "count"), 10) << json::Write(answers[2]);
  EXPECT_EQ(NumberOf(answers[3], "lost"), 0) << json::Write(answers[3]);
  EXPECT_GE(NumberOf(answers[3], "patches"), 20);
  EXPECT_THAT(TextOf(answers[4], "error"), testing::HasSubstr("tokens are left"));
  EXPECT_THAT(TextOf(answers[5], "error"), testing::HasSubstr("not a command"));
  const std::string metrics = Metrics(*server);
  EXPECT_THAT(metrics, testing::HasSubstr("nstance_health_reports_total 200\n"));
  EXPECT_THAT(metrics, testing::HasSubstr("nstance_registrations_total 20\n"));
}

TEST(GeneratorPeersTest, OperatorsChangeAndWatch) {
  NSTANCE_GO_PROGRAM_OR_SKIP(program, "bench/baseline_go", "baseline-server");
  const TempDir dir;
  RealLoop loop;
  auto server = BaselineServer::Start(loop, program, dir.path().string(), {"-tenants", "red,blue"});
  ASSERT_TRUE(server.has_value()) << server.error().ToString();
  const std::vector<json::Value> answers =
      Generate(*server, dir, "operators 2\nupsert 1\nwatch 20 1\n");
  ASSERT_EQ(answers.size(), 3U);
  for (const json::Value& answer : answers) {
    EXPECT_EQ(TextOf(answer, "error"), "") << json::Write(answer);
  }
  EXPECT_EQ(NumberOf(answers[0], "good"), 6) << "three tenants, two connections each";
  EXPECT_GT(NumberOf(answers[1], "good"), 0);
  EXPECT_EQ(NumberOf(answers[1], "bad"), 0);
  EXPECT_EQ(NumberOf(answers[2], "good"), 20);
  EXPECT_GE(NumberOf(*answers[2].Find("latency"), "count"), 40)
      << "each change is seen by both operators of its tenant";
}

TEST(GeneratorPeersTest, ATokenServesOneKeyOnly) {
  NSTANCE_GO_PROGRAM_OR_SKIP(program, "bench/baseline_go", "baseline-server");
  const TempDir dir;
  RealLoop loop;
  auto server = BaselineServer::Start(loop, program, dir.path().string(), {"-instances", "2"});
  ASSERT_TRUE(server.has_value()) << server.error().ToString();
  const std::string before = "join 2 10\nconnect 10\n";
  const std::vector<json::Value> answers = Generate(*server, dir, before);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(NumberOf(answers[1], "up"), 2);
  // A second process has no identity: the token is bound to the key of the first.
  const std::vector<json::Value> again = Generate(*server, dir, "join 2 10\n");
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(NumberOf(again[0], "bad"), 2) << json::Write(again[0]);
  EXPECT_THAT(TextOf(again[0], "error"), testing::HasSubstr("registration refused"));
}

}  // namespace
}  // namespace nstance::test

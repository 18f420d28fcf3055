// go-agent and go-operator against the Go baseline: what they tell is what happened, so that tests
// of our own server may believe them.
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/baseline_server.h"
#include "test/support/json_lines.h"
#include "test/support/peers.h"
#include "test/support/process.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

class GoPeersTest : public testing::Test {
 public:
  void StartServer(std::vector<std::string> flags) {
    NSTANCE_GO_PROGRAM_OR_SKIP(program, "bench/baseline_go", "baseline-server");
    flags.insert(flags.end(), {"-tenants", "red"});
    std::filesystem::create_directories(dir_.path() / "server");
    auto started =
        BaselineServer::Start(loop_, program, (dir_.path() / "server").string(), std::move(flags));
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
    server_.emplace(*std::move(started));
  }

  // The line of a token file.
  json::Value TokenLine(std::string_view file, std::size_t number) {
    JsonLines lines(server_->File(file));
    return lines.Read().at(number);
  }

  // Folders of an agent with token number `number`; its environment.
  std::vector<std::string> AgentEnvironment(std::size_t number) {
    const json::Value line = TokenLine("tokens.jsonl", number);
    const std::filesystem::path home = dir_.path() / fmt::format("agent{}", number);
    for (const char* name : {"identity", "keys", "recv"}) {
      std::filesystem::create_directories(home / name);
    }
    std::filesystem::copy_file(server_->File("ca.crt"), home / "identity/ca.crt");
    static_cast<void>(
        dir_.Write(fmt::format("agent{}/identity/nonce.jwt", number), TextOf(line, "token")));
    return {"NSTANCE_SERVER_REGISTRATION_ADDR=" + server_->Address("registration"),
            "NSTANCE_SERVER_AGENT_ADDR=" + server_->Address("agent"),
            "NSTANCE_INSTANCE_ID=" + TextOf(line, "instance_id"),
            "NSTANCE_IDENTITY_DIR=" + (home / "identity").string(),
            "NSTANCE_KEYS_DIR=" + (home / "keys").string(),
            "NSTANCE_RECV_DIR=" + (home / "recv").string(),
            "NSTANCE_REPORT_INTERVAL=100ms"};
  }

  // go-operator, to its end.
  ProcessOutput Operator(const std::string& program, std::vector<std::string> arguments) {
    std::vector<std::string> argv = {program,
                                     "-dir",
                                     (dir_.path() / "operator").string(),
                                     "-registration",
                                     server_->Address("registration"),
                                     "-operator",
                                     server_->Address("operator"),
                                     "-token",
                                     (dir_.path() / "operator/token").string()};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    Result<ProcessOutput> output = RunProcess({.argv = argv});
    EXPECT_TRUE(output.has_value());
    return output.has_value() ? *output : ProcessOutput{};
  }

  void PrepareOperator() {
    std::filesystem::create_directories(dir_.path() / "operator");
    std::filesystem::copy_file(server_->File("ca.crt"), dir_.path() / "operator/ca.crt");
    static_cast<void>(
        dir_.Write("operator/token", TextOf(TokenLine("operator-tokens.jsonl", 0), "token")));
  }

  TempDir dir_;
  RealLoop loop_;
  std::optional<BaselineServer> server_;
};

TEST_F(GoPeersTest, TheAgentJoinsMakesKeysTakesFilesAndReports) {
  NSTANCE_GO_PROGRAM_OR_SKIP(agent, "test/go_peers", "go-agent");
  StartServer({"-instances", "1", "-keys", "node"});
  if (!server_.has_value()) return;
  const std::string output = (dir_.path() / "agent.log").string();
  auto process =
      BackgroundProcess::Start({.argv = {agent}, .environment = AgentEnvironment(0)}, output);
  ASSERT_TRUE(process.has_value()) << process.error().ToString();
  JsonLines told(output);
  ASSERT_TRUE(RunUntil(loop_, [&] { return told.Count("event", "reported") >= 2; }))
      << (*process)->OutputTail();
  for (const char* event : {"registered", "keys-submitted", "patch-applied"}) {
    EXPECT_TRUE(told.Has("event", event)) << event;
  }
  EXPECT_EQ(told.Count("event", "stream-opened"), 3U);
  const std::filesystem::path home = dir_.path() / "agent0";
  EXPECT_TRUE(std::filesystem::exists(home / "recv/node.env"));
  EXPECT_TRUE(std::filesystem::exists(home / "recv/write-files.last"));
  EXPECT_TRUE(std::filesystem::exists(home / "keys/node.key"));
  EXPECT_FALSE(std::filesystem::exists(home / "identity/nonce.jwt"));
  (*process)->Signal(SIGTERM);
  ASSERT_TRUE(RunUntil(loop_, [&] { return !(*process)->Running(); }));
  EXPECT_TRUE(told.Has("event", "stopped"));
}

TEST_F(GoPeersTest, TheAgentEndsWithItsStreamsAndItsManagerStartsItAgain) {
  NSTANCE_GO_PROGRAM_OR_SKIP(agent, "test/go_peers", "go-agent");
  StartServer({"-instances", "1"});
  if (!server_.has_value()) return;
  const std::string output = (dir_.path() / "agent.log").string();
  auto process = BackgroundProcess::Start(
      {.argv = {agent, "--supervise"}, .environment = AgentEnvironment(0)}, output);
  ASSERT_TRUE(process.has_value()) << process.error().ToString();
  JsonLines told(output);
  ASSERT_TRUE(RunUntil(loop_, [&] { return told.Has("event", "reported"); }));
  server_->Kill();
  ASSERT_TRUE(RunUntil(loop_, [&] { return told.Has("event", "identity"); }))
      << (*process)->OutputTail();
  EXPECT_TRUE(told.Has("event", "restarting"));
  EXPECT_GE(told.Count("event", "started"), 2U);
  EXPECT_EQ(TextOf(*told.Last("event", "identity"), "from"), "file")
      << "it does not register again";
  EXPECT_TRUE((*process)->Running());
}

TEST_F(GoPeersTest, TheAgentRefusesAnEnvironmentWithHoles) {
  NSTANCE_GO_PROGRAM_OR_SKIP(agent, "test/go_peers", "go-agent");
  const Result<ProcessOutput> output =
      RunProcess({.argv = {agent}, .environment = {"NSTANCE_SERVER_AGENT_ADDR=nonsense"}});
  ASSERT_TRUE(output.has_value());
  EXPECT_EQ(output->exit_code, 1);
  EXPECT_THAT(output->err, testing::HasSubstr("NSTANCE_INSTANCE_ID is required"));
  EXPECT_THAT(output->err, testing::HasSubstr("NSTANCE_SERVER_AGENT_ADDR: "));
}

TEST_F(GoPeersTest, TheOperatorJoinsAsksChangesAndWatches) {
  NSTANCE_GO_PROGRAM_OR_SKIP(program, "test/go_peers", "go-operator");
  StartServer({"-instances", "1"});
  if (!server_.has_value()) return;
  PrepareOperator();
  EXPECT_EQ(Operator(program, {"groups"}).exit_code, 1) << "before it has joined";
  EXPECT_EQ(Operator(program, {"register"}).exit_code, 0);
  EXPECT_EQ(Operator(program, {"register"}).exit_code, 0) << "the same key may ask again";
  const std::string output = (dir_.path() / "watch.log").string();
  auto watch = BackgroundProcess::Start(
      {.argv = {program, "-dir", (dir_.path() / "operator").string(), "-operator",
                server_->Address("operator"), "watch", "-ack"}},
      output);
  ASSERT_TRUE(watch.has_value());
  JsonLines told(output);
  ASSERT_TRUE(RunUntil(loop_, [&] { return told.Count("event", "stream-opened") == 3; }));
  EXPECT_THAT(Operator(program, {"upsert", "web", "-size", "2"}).out,
              testing::HasSubstr("InvalidArgument"))
      << "without a template";
  EXPECT_EQ(Operator(program, {"upsert", "web", "-size", "2", "-template", "t"}).exit_code, 0);
  ASSERT_TRUE(
      RunUntil(loop_, [&] { return told.Has("stream", "groups") && told.Has("event", "event"); }));
  const std::string id = TextOf(TokenLine("tokens.jsonl", 0), "instance_id");
  EXPECT_THAT(Operator(program, {"status", id}).out, testing::HasSubstr("\"pending\""));
  EXPECT_THAT(Operator(program, {"create", "web"}).out, testing::HasSubstr("\"created\""));
  EXPECT_THAT(Operator(program, {"ack", "nobody"}).out, testing::HasSubstr("NotFound"));
  EXPECT_THAT(Operator(program, {"delete", id}).out, testing::HasSubstr("\"deleted\""));
  EXPECT_EQ(Operator(program, {"delete-group", "web"}).exit_code, 0);
  EXPECT_EQ(Operator(program, {"fly"}).exit_code, 2);
}

}  // namespace
}  // namespace nstance::test

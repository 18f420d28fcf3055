// What is written is read back; what is damaged is refused with a word on where; what a request may
// hold. Tables of bad input.
#include "adapters/provider_local/records.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance::provider_local {
namespace {

InstanceId Id() {
  UuidBytes bytes{};
  bytes[6] = 0x70;
  bytes[8] = 0x80;
  return {"wrk", bytes};
}

Meta SomeMeta() {
  return {.instance_id = Id(),
          .cluster_id = "prod",
          .shard = "a",
          .tenant = "default",
          .group = "w\"<>\n",
          .template_name = "small",
          .kind = "wrk",
          .instance_type = "local.small",
          .subnet = "s",
          .region = "local",
          .zone = "local",
          .created_at = Timestamp::FromUnix(1'760'000'000, 5),
          .tags = {{"team", "blä"}, {"", ""}},
          .request_sha256 = "00ff",
          .shell = "/bin/bash",
          .environment = {{"A", "1\n2"}, {"PATH", "/bin"}},
          .run_limit = Duration::Seconds(90),
          .kill_grace = Duration::Seconds(10)};
}

Run SomeRun() {
  return {.keeper = {.pid = 4'711, .start_time = 123'456'789'012},
          .boot_id = "b",
          .pid_namespace = "pid:[4026531836]",
          .started_at = Timestamp::FromUnix(1'760'000'001),
          .exit_code = 137};
}

ProviderCreate SomeRequest() {
  return {.instance_id = Id(), .tenant = DefaultTenant(), .created_at = Timestamp::FromUnix(1)};
}

TEST(RecordsTest, MetaIsReadBackAsItWasWritten) {
  EXPECT_EQ(ParseMeta(WriteMeta(SomeMeta())), SomeMeta());
  Meta bare = SomeMeta();
  bare.run_limit.reset();
  bare.tags.clear();
  EXPECT_EQ(ParseMeta(WriteMeta(bare)), bare);
}

TEST(RecordsTest, RunIsReadBackAsItWasWritten) {
  EXPECT_EQ(ParseRun(WriteRun(SomeRun())), SomeRun());
  auto running = SomeRun();
  running.exit_code.reset();
  EXPECT_EQ(ParseRun(WriteRun(running)), running);
}

TEST(RecordsTest, AnyPrefixAndAnyFlippedByteIsReadOrRefusedAsDamage) {
  Prng prng(1);
  for (const std::string& text : {WriteMeta(SomeMeta()), WriteRun(SomeRun())}) {
    for (std::size_t length = 0; length + 2 < text.size(); ++length) {
      for (const Code code : {ParseMeta(text.substr(0, length)).error().code,
                              ParseRun(text.substr(0, length)).error().code}) {
        EXPECT_EQ(code, Code::kDataLoss) << length;
      }
    }
    for (int i = 0; i < 2'000; ++i) {
      std::string bent = text;
      bent[static_cast<std::size_t>(prng.Below(bent.size()))] = static_cast<char>(prng.Next());
      if (const auto meta = ParseMeta(bent); !meta) {
        EXPECT_EQ(meta.error().code, Code::kDataLoss);
      }
      if (const auto run = ParseRun(bent); !run) {
        EXPECT_EQ(run.error().code, Code::kDataLoss);
      } else {
        EXPECT_GT(run->keeper.pid, 1);
      }
    }
  }
}

TEST(RecordsTest, APidThatNoKeeperCanHaveIsDamage) {
  for (const std::int64_t pid : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 40}) {
    std::string text = WriteRun(SomeRun());
    text.replace(text.find("4711"), 4, std::to_string(pid));
    const auto run = ParseRun(text);
    ASSERT_FALSE(run) << pid;
    EXPECT_NE(run.error().message.find("pid"), std::string::npos);
  }
  std::string negative = WriteRun(SomeRun());
  negative.replace(negative.find("4711"), 4, "-1");
  EXPECT_FALSE(ParseRun(negative));
}

TEST(RecordsTest, AnotherVersionIsRefused) {
  std::string text = WriteMeta(SomeMeta());
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  const auto meta = ParseMeta(text);
  ASSERT_FALSE(meta);
  EXPECT_NE(meta.error().message.find("version"), std::string::npos) << meta.error().message;
}

TEST(RecordsTest, EveryMemberOfARequestChangesItsDigest) {
  const std::string digest = RequestDigest(SomeRequest());
  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(RequestDigest(SomeRequest()), digest);
  std::vector<ProviderCreate> others(12, SomeRequest());
  UuidBytes bytes = Id().uuid();
  bytes[15] = 1;
  others[0].instance_id = InstanceId("wrk", bytes);
  others[1].tenant = *TenantId::Parse("other");
  others[2].group = "g";
  others[3].template_name = "t";
  others[4].kind = "k";
  others[5].arch = config::Arch::kArm64;
  others[6].instance_type = "t";
  others[7].subnet = "s";
  others[8].args = {{.key = "Timeout", .key_position = {}, .value = json::Value::String("1s")}};
  others[9].user_data = "x";
  others[10].tags = {{"a", "b"}};
  others[11].created_at = Timestamp::FromUnix(2);
  for (std::size_t i = 0; i < others.size(); ++i) EXPECT_NE(RequestDigest(others[i]), digest) << i;
}

TEST(RecordsTest, ArgsAreEnvironmentAndRunLimit) {
  const auto parsed = json::Parse(R"({"Env": {"A": "1", "_b2": ""}, "Timeout": "1h30m"})");
  ASSERT_TRUE(parsed);
  const auto args = ParseArgs(*parsed->if_object());
  ASSERT_TRUE(args) << args.error().ToString();
  EXPECT_EQ(args->environment, (std::map<std::string, std::string>{{"A", "1"}, {"_b2", ""}}));
  EXPECT_EQ(args->run_limit, Duration::Minutes(90));
  EXPECT_TRUE(ParseArgs({})->environment.empty());
}

TEST(RecordsTest, BadArgsAreRefusedWithTheKeyAndWhatIsAllowed) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"env": {}})", "Env and Timeout"},
      {R"({"Env": []})", "args.Env"},
      {R"({"Env": {"A": 1}})", "args.Env.\"A\""},
      {R"({"Env": {"1A": "x"}})", "letters, digits"},
      {R"({"Env": {"": "x"}})", "letters, digits"},
      {R"({"Env": {"A=B": "x"}})", "letters, digits"},
      {R"({"Env": {"A B": "x"}})", "letters, digits"},
      {R"({"Env": {"BASH_FUNC_x%%": "() { :; }"}})", "letters, digits"},
      {R"({"Env": {"A": "x\u0000y"}})", "zero byte"},
      {R"({"Env": {"NSTANCE_LOCAL_ID": "x"}})", "reserved"},
      {R"({"Timeout": 5})", "args.Timeout"},
      {R"({"Timeout": "0s"})", "above zero"},
      {R"({"Timeout": "-5s"})", "above zero"},
      {R"({"Timeout": "soon"})", "args.Timeout"},
  };
  for (const auto& [text, word] : rows) {
    const auto parsed = json::Parse(text);
    ASSERT_TRUE(parsed) << text;
    const auto args = ParseArgs(*parsed->if_object());
    ASSERT_FALSE(args) << text;
    EXPECT_EQ(args.error().code, Code::kInvalidArgument);
    EXPECT_NE(args.error().message.find(word), std::string::npos) << args.error().message;
  }
  EXPECT_FALSE(CheckEnvironment({{"A", std::string(kMaxEnvironmentBytes, 'x')}}, "env"));
  EXPECT_TRUE(CheckEnvironment({{"A", std::string(kMaxEnvironmentBytes - 3, 'x')}}, "env"));
}

}  // namespace
}  // namespace nstance::provider_local

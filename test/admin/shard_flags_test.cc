// The grammar of the commands that talk to servers: tables of lines and what they mean.
#include "admin/shard_flags.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "admin/command_line.h"

namespace nstance::admin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Environment = std::map<std::string, std::string>;

std::expected<CommandLine, Ending> Parse(const std::vector<std::string>& words,
                                         const Environment& environment) {
  return ParseCommandLine(words, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

const Environment kOne = {{"NSTANCE_ADMIN_SERVERS", "a=a.example:8993"}};
const Environment kThree = {
    {"NSTANCE_ADMIN_SERVERS", "a=a.example:8993,b=10.0.0.2:1,c=[fd00::3]:65535"}};

template <class T>
T Action(const std::vector<std::string>& words, const Environment& environment = kOne) {
  const auto line = Parse(words, environment);
  if (!line) throw std::runtime_error(line.error().err);
  return std::get<T>(std::get<ShardCommand>(line->command).action);
}

ShardFlags Flags(const std::vector<std::string>& words, const Environment& environment) {
  const auto line = Parse(words, environment);
  if (!line) throw std::runtime_error(line.error().err);
  return std::get<ShardCommand>(line->command).flags;
}

TEST(ShardFlagsTest, ServersNameEachShardOnce) {
  const auto servers = ParseServers("a=a.example:8993,b=[fd00::3]:1");
  ASSERT_TRUE(servers);
  ASSERT_EQ(servers->size(), 2U);
  EXPECT_EQ((*servers)[0].shard.text(), "a");
  EXPECT_EQ((*servers)[0].address, (RpcAddress{.host = "a.example", .port = 8993}));
  EXPECT_EQ((*servers)[1].address, (RpcAddress{.host = "fd00::3", .port = 1}));
  const std::map<std::string, std::string> bad = {
      {"a.example:8993", "is not shard=host:port"},
      {"a=b:1,", "is not shard=host:port"},
      {"A=b:1", "shard"},
      {"a=b", "is not host:port"},
      {"a=b:0", "is not host:port"},
      {"a=b:65536", "is not host:port"},
      {"a=:1", "is not host:port"},
      {"a=b c:1", "is not host:port"},
      {"a=fd00::3:1", "in brackets"},
      {"a=b:1,a=c:1", "named twice"},
  };
  for (const auto& [text, message] : bad) {
    const auto parsed = ParseServers(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error(), HasSubstr(message)) << text;
  }
}

TEST(ShardFlagsTest, FlagsComeBeforeVariablesBeforeDefaults) {
  const ShardFlags plain = Flags({"group", "list"}, kOne);
  EXPECT_EQ(plain.identity_dir, "./temp/cli-operator-identity");
  EXPECT_EQ(plain.timeout, Duration::Seconds(30));
  Environment more = kThree;
  more["NSTANCE_ADMIN_SHARD"] = "b";
  more["NSTANCE_ADMIN_IDENTITY_DIR"] = "/etc/id/";
  const ShardFlags by_variable = Flags({"group", "list"}, more);
  ASSERT_EQ(by_variable.servers.size(), 1U);
  EXPECT_EQ(by_variable.servers[0].shard.text(), "b");
  EXPECT_EQ(by_variable.identity_dir, "/etc/id");
  const ShardFlags by_flag =
      Flags({"group", "list", "--shard", "c", "--identity-dir", "x", "--timeout", "5s"}, more);
  EXPECT_EQ(by_flag.servers[0].shard.text(), "c");
  EXPECT_EQ(by_flag.identity_dir, "x");
  EXPECT_EQ(by_flag.timeout, Duration::Seconds(5));
  EXPECT_EQ(Flags({"group", "list", "--all-shards"}, more).servers.size(), 3U);
  EXPECT_EQ(Flags({"group", "list", "--temp-dir", "/t"}, kOne).identity_dir,
            "/t/cli-operator-identity");
}

TEST(ShardFlagsTest, CommandsThatLookForAnInstanceAskAllShards) {
  constexpr const char* kId = "knd06bgm7733st2576nx5jht4ecjw";
  EXPECT_EQ(Flags({"instance", "show", kId}, kThree).servers.size(), 3U);
  EXPECT_EQ(Flags({"instance", "delete", kId}, kThree).servers.size(), 3U);
  EXPECT_EQ(Flags({"why", kId}, kThree).servers.size(), 3U);
  EXPECT_EQ(Flags({"why", kId, "--shard", "b"}, kThree).servers.size(), 1U);
}

TEST(ShardFlagsTest, WaitTakesItsDurationOnlyBehindAnEqualsSign) {
  EXPECT_EQ(Action<GroupChange>({"group", "scale", "w", "3"}).wait, std::nullopt);
  EXPECT_EQ(Action<GroupChange>({"group", "scale", "--wait", "w", "3"}).wait,
            Duration::Minutes(10));
  EXPECT_EQ(Action<GroupChange>({"group", "scale", "w", "3", "--wait=90s"}).wait,
            Duration::Seconds(90));
  EXPECT_EQ(Action<ConfigRefresh>({"config", "refresh", "--wait"}).wait, Duration::Minutes(10));
}

TEST(ShardFlagsTest, TotalIsDividedLargerPartsFirst) {
  EXPECT_THAT(Divide(10, 3), ElementsAre(4, 3, 3));
  EXPECT_THAT(Divide(2, 3), ElementsAre(1, 1, 0));
  EXPECT_THAT(Divide(0, 2), ElementsAre(0, 0));
  const auto total =
      Action<GroupChange>({"group", "scale", "w", "10", "--all-shards", "--total"}, kThree);
  EXPECT_THAT(std::get<GroupScale>(total.what).sizes, ElementsAre(4, 3, 3));
  const auto each = Action<GroupChange>({"group", "scale", "w", "10", "--all-shards"}, kThree);
  EXPECT_THAT(std::get<GroupScale>(each.what).sizes, ElementsAre(10, 10, 10));
}

TEST(ShardFlagsTest, EveryCommandBecomesWhatItSays) {
  const auto create = Action<GroupChange>({"group", "create", "w", "--template", "knd", "--size",
                                           "3", "--var", "A=1", "--arg", "x.y=z=", "--dry-run"});
  const auto& spec = std::get<GroupCreate>(create.what);
  EXPECT_TRUE(create.dry_run);
  EXPECT_EQ(spec.template_name, "knd");
  EXPECT_EQ(spec.size, 3);
  EXPECT_EQ(spec.vars.at("A"), "1");
  EXPECT_EQ(spec.args.at("x.y"), "z=");
  EXPECT_TRUE(std::get<GroupDelete>(Action<GroupChange>({"group", "delete", "w", "-y"}).what).yes);
  const auto list =
      Action<InstanceList>({"instance", "list", "--phase", "draining,gone", "--wide"});
  EXPECT_THAT(list.phases, ElementsAre(api::InstancePhase::kDraining, api::InstancePhase::kGone));
  const auto made = Action<InstanceCreate>({"instance", "create", "--group", "w", "--wait=1m"});
  EXPECT_EQ(made.wait, Duration::Minutes(1));
  constexpr const char* kId = "knd06bgm7733st2576nx5jht4ecjw";
  const auto gone =
      Action<InstanceDelete>({"instance", "delete", kId, kId, "--drain-timeout", "5m"});
  EXPECT_THAT(gone.ids, ElementsAre(kId));
  EXPECT_EQ(gone.drain_timeout, Duration::Minutes(5));
  for (const char* zero : {"0", "0s"}) {  // At once, on the wire as on the line.
    EXPECT_EQ(
        Action<InstanceDelete>({"instance", "delete", kId, "--drain-timeout", zero}).drain_timeout,
        Duration());
  }
  EXPECT_EQ(Action<InstanceDelete>({"instance", "delete", kId}).drain_timeout, std::nullopt);
  EXPECT_TRUE(Action<Why>({"why", kId}).is_instance);
  EXPECT_FALSE(Action<Why>({"why", "workers"}).is_instance);
  EXPECT_EQ(Action<ShowPlan>({"plan", "w", "--size", "0"}).size, 0);
  EXPECT_EQ(Action<Watch>({"watch", "--instances"}).view, WatchView::kInstances);
}

TEST(ShardFlagsTest, ABadLineSaysWhatIsWrongAndWhatIsAllowed) {
  struct Row {
    std::vector<std::string> words;
    std::string message;
  };
  const std::vector<Row> rows = {
      {{"group", "list"}, "which shard? --shard with one of: a, b, c; or --all-shards"},
      {{"group", "list", "--shard", "a", "--all-shards"}, "contradict each other"},
      {{"group", "list", "--shard", "d"}, "\"d\" is not in --servers; one of: a, b, c"},
      {{"group", "scale", "w", "ten", "--shard", "a"},
       "\"ten\" is not a whole number from 0 to 10000"},
      {{"group", "scale", "w", "10001", "--shard", "a"}, "from 0 to 10000"},
      {{"group", "scale", "w", "30001", "--all-shards", "--total"}, "from 0 to 30000"},
      {{"group", "scale", "w", "1.5", "--shard", "a"}, "is not a whole number"},
      {{"group", "scale", "w"}, "size"},
      {{"group", "scale", "W!", "1", "--shard", "a"}, "group"},
      {{"group", "create", "w", "--shard", "a"}, "--template is missing"},
      {{"group", "scale", "w", "1", "--shard", "a", "--dry-run", "--wait"},
       "--dry-run changes nothing"},
      {{"group", "scale", "w", "1", "--shard", "a", "--wait=0s"},
       "--wait: \"0s\" is not a duration"},
      {{"group", "list", "--shard", "a", "--timeout", "soon"}, "--timeout: \"soon\""},
      {{"instance", "list", "--shard", "a", "--phase", "drainin"}, "Did you mean \"draining\"?"},
      {{"instance", "show", "i-123"}, "is not the id of an instance"},
      {{"instance", "delete", "knd06bgm7733st2576nx5jht4ecjw", "--drain-timeout", "-1s"},
       "--drain-timeout: \"-1s\" is not a duration from 0 to 168h"},
      {{"instance", "create", "--shard", "a"}, "--group is missing"},
      {{"instance", "create", "--group", "w", "--all-shards"}, "this is done in one shard"},
      {{"plan", "--size", "3", "--shard", "a"}, "--size and --var need a group"},
      {{"why", "Not/A/Name"}, "neither the id of an instance nor a group's name"},
      {{"watch", "--instances", "--events", "--shard", "a"}, "contradict each other"},
  };
  for (const Row& row : rows) {
    const auto line = Parse(row.words, kThree);
    ASSERT_FALSE(line) << row.message;
    EXPECT_EQ(line.error().exit_code, kExitBadCommandLine) << row.message;
    EXPECT_THAT(line.error().err, HasSubstr(row.message));
    EXPECT_EQ(line.error().out, "");
  }
  const auto none = Parse({"group", "list"}, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().exit_code, kExitBadCommandLine);
  EXPECT_THAT(none.error().err, HasSubstr("--servers is missing"));
  EXPECT_THAT(none.error().err, HasSubstr("NSTANCE_ADMIN_SERVERS"));
}

TEST(ShardFlagsTest, NoColorInTheEnvironmentCounts) {
  Environment with = kOne;
  with["NO_COLOR"] = "1";
  EXPECT_TRUE(Parse({"group", "list"}, with)->common.no_color);
  EXPECT_FALSE(Parse({"group", "list"}, kOne)->common.no_color);
}

}  // namespace
}  // namespace nstance::admin

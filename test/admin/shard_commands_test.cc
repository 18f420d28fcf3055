// The commands against fake shards in virtual time: what they ask, what they print, how they end.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "test/admin/shard_world.h"

namespace nstance::admin::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ShardCommandsTest : public testing::Test {
 public:
  ShardCommandsTest() {
    for (const char* name : {"a", "b"}) {
      world.shard(name).groups["workers"] = {.key = "workers",
                                             .tenant = "prod",
                                             .template_name = "knd",
                                             .size = 2,
                                             .actual_size = 2,
                                             .ready = 2};
    }
    world.shard("a").groups["ingress"] = {
        .key = "ingress", .tenant = "prod", .template_name = "knd", .size = 12, .is_static = true};
    world.shard("b").instances[kId] = {.instance_id = kId,
                                       .tenant = "prod",
                                       .group = "workers",
                                       .phase = api::InstancePhase::kDraining,
                                       .instance_type = "t4g.small",
                                       .private_ipv4 = "10.0.0.7",
                                       .created_at = kToday - Duration::Hours(5),
                                       .health = "stale",
                                       .reason = "unhealthy",
                                       .delete_at = kToday + Duration::Seconds(288)};
  }

  static json::Value Json(const std::string& text) {
    const auto value = json::Parse(text);
    EXPECT_TRUE(value) << text;
    return value.value_or(json::Value());
  }

  ShardWorld world{{"a", "b"}};
};

TEST_F(ShardCommandsTest, ConfigStatusIsATableInTheOrderOfServers) {
  world.shard("a").config.last_modified = kToday - Duration::Days(1);
  world.shard("b").config.etag = "ffff";
  const Ending ending = world.Run({"config", "status", "--all-shards"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_EQ(ending.out,
            "SHARD  ETAG    LAST_MODIFIED         SIZE\n"
            "a      abc123  2030-03-16T17:46:40Z  4711\n"
            "b      ffff    -                     4711\n");
  EXPECT_EQ(ending.err, "");
}

TEST_F(ShardCommandsTest, GroupListIsATableWithNumbersToTheRight) {
  const Ending ending = world.Run({"group", "list", "--shard", "a"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_EQ(ending.out,
            "SHARD  GROUP    SIZE  TEMPLATE  STATIC\n"
            "a      ingress    12  knd       yes\n"
            "a      workers     2  knd       no\n");
  EXPECT_THAT(world.Run({"group", "list", "--all-shards", "--wide"}).out,
              HasSubstr("READY  CREATING  DRAINING  WARM  CLAIMED  TYPE  POOL"));
}

TEST_F(ShardCommandsTest, JsonIsOneDocumentWithTheNamesOfTheContract) {
  const Ending ending = world.Run({"group", "list", "--all-shards", "--json"});
  const json::Value document = Json(ending.out);
  const json::Array& shards = *document.Find("shards")->if_array();
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(*shards[0].Find("shard")->if_string(), "a");
  const json::Value& group = shards[0].Find("groups")->if_array()->at(0);
  EXPECT_EQ(*group.Find("template")->if_string(), "knd");
  EXPECT_EQ(*group.Find("is_static")->if_bool(), true);
  EXPECT_TRUE(group.Find("instance_ids")->if_array()->empty());
}

TEST_F(ShardCommandsTest, InstanceListTakesAllPages) {
  for (int i = 0; i < 2'500; ++i) {
    const std::string id = fmt::format("knd{:026}", i);
    world.shard("a").instances[id] = {.instance_id = id, .group = "workers"};
  }
  const Ending ending = world.Run({"instance", "list", "--all-shards"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_EQ(std::ranges::count(ending.out, '\n'), 2'500 + 1 + 1);
  EXPECT_EQ(world.shard("a").Calls("ListInstances"), 3);
  EXPECT_THAT(ending.out, HasSubstr("workers  draining  stale   t4g.small  10.0.0.7   5h  "
                                    "unhealthy, 4m4"));
  const Ending some = world.Run({"instance", "list", "--all-shards", "--phase", "draining"});
  EXPECT_EQ(std::ranges::count(some.out, '\n'), 2);
}

TEST_F(ShardCommandsTest, InstanceShowFindsTheShardByAskingAll) {
  world.shard("b").explanation = api::ExplainResponse{
      .holds = {{.code = "waiting-drain",
                 .instance_id = kId,
                 .detail = "not acknowledged yet",
                 .until = kToday + Duration::Seconds(288)}},
      .history = {{.time = kToday, .type = "phase", .phase = api::InstancePhase::kDraining}}};
  const Ending ending = world.Run({"instance", "show", kId});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out, StartsWith(std::string(kId) + " in b\n"));
  EXPECT_THAT(ending.out, AllOf(HasSubstr("Phase          draining"), HasSubstr("waiting-drain"),
                                HasSubstr("History:")));
  EXPECT_EQ(world.shard("a").Calls("Explain"), 0);
}

TEST_F(ShardCommandsTest, AServerThatExplainsNothingStillShowsTheInstance) {
  world.shard("b").refuse["Explain"] = {.code = Code::kUnimplemented, .message = "no"};
  const Ending ending = world.Run({"instance", "show", kId, "--json"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_EQ(*Json(ending.out).Find("instance")->Find("phase")->if_string(), "draining");
}

TEST_F(ShardCommandsTest, ScaleSendsOnlyTheSize) {
  const Ending ending = world.Run({"group", "scale", "workers", "5", "--all-shards", "--total"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  ASSERT_EQ(world.shard("a").upserts.size(), 1U);
  EXPECT_EQ(world.shard("a").upserts[0].config, (api::GroupConfig{.size = 3}));
  EXPECT_FALSE(world.shard("a").upserts[0].size_unset);
  EXPECT_EQ(world.shard("b").upserts[0].config, (api::GroupConfig{.size = 2}));
  EXPECT_EQ(ending.out, "a: group workers has size 3\nb: group workers has size 2\n");
}

TEST_F(ShardCommandsTest, DryRunAsksForThePlanAndChangesNothing) {
  world.shard("a").plan = {.actions = {{.kind = "create",
                                        .group = "workers",
                                        .reason = "scale-up",
                                        .priority = 2,
                                        .detail = "one more"}},
                           .holds = {{.code = "surge-limit", .group = "workers", .detail = "full"}},
                           .replan_at = kToday + Duration::Seconds(20)};
  const Ending ending = world.Run({"group", "scale", "workers", "3", "--shard", "a", "--dry-run"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_EQ(ending.out,
            "PRIORITY  ACTION  INSTANCE  REASON    DETAIL\n"
            "       2  create  -         scale-up  one more\n"
            "Held:\n"
            "CODE         SUBJECT  UNTIL  DETAIL\n"
            "surge-limit  workers  -      full\n"
            "Next look: 17:47:00\n");
  EXPECT_TRUE(world.shard("a").upserts.empty());
  ASSERT_EQ(world.shard("a").plans.size(), 1U);
  EXPECT_EQ(world.shard("a").plans[0].what_if->config->size, 3);
  const Ending removal =
      world.Run({"group", "delete", "workers", "--shard", "a", "--dry-run", "--json"});
  EXPECT_TRUE(world.shard("a").plans.back().remove);
  EXPECT_EQ(world.shard("a").group_deletes.size(), 0U);
  EXPECT_NE(Json(removal.out).Find("shards"), nullptr);
}

TEST_F(ShardCommandsTest, PlanSaysWhenThereIsNothingToDo) {
  EXPECT_EQ(world.Run({"plan", "--shard", "a"}).out, "Nothing to do.\n");
  EXPECT_EQ(world.Run({"plan", "--all-shards"}).out, "a:\nNothing to do.\n\nb:\nNothing to do.\n");
}

TEST_F(ShardCommandsTest, CreateRefusesAnExistingGroupUnlessToldToUpdate) {
  const Ending refused =
      world.Run({"group", "create", "workers", "--template", "knd", "--shard", "a"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.err, "Error on a: group workers exists, with size 2; --update changes it\n");
  EXPECT_TRUE(world.shard("a").upserts.empty());
  const Ending updated =
      world.Run({"group", "create", "workers", "--update", "--var", "A=1", "--shard", "a"});
  EXPECT_EQ(updated.exit_code, 0) << updated.err;
  ASSERT_EQ(world.shard("a").upserts.size(), 1U);
  EXPECT_TRUE(world.shard("a").upserts[0].size_unset);
  EXPECT_EQ(world.shard("a").upserts[0].config->vars.at("A"), "1");
  const Ending fresh =
      world.Run({"group", "create", "new", "--template", "knd", "--size", "3", "--shard", "a"});
  EXPECT_EQ(fresh.exit_code, 0) << fresh.err;
  EXPECT_EQ(world.shard("a").groups.at("new").size, 3);
}

TEST_F(ShardCommandsTest, DeleteAsksOnATerminalAndNeedsYesElsewhere) {
  const Ending nobody = world.Run({"group", "delete", "workers", "--shard", "a"});
  EXPECT_EQ(nobody.exit_code, kExitBadCommandLine);
  EXPECT_THAT(nobody.err, HasSubstr("--yes"));
  world.terminal.in_is_terminal = world.terminal.err_is_terminal = true;
  world.terminal.lines = {"n"};
  EXPECT_EQ(world.Run({"group", "delete", "workers", "--shard", "a"}).exit_code, 1);
  EXPECT_THAT(world.terminal.err, HasSubstr("Delete group workers and its instances in 1 shard?"));
  EXPECT_TRUE(world.shard("a").group_deletes.empty());
  world.terminal.lines = {"y"};
  EXPECT_EQ(world.Run({"group", "delete", "workers", "--shard", "a"}).exit_code, 0);
  EXPECT_EQ(world.shard("a").group_deletes.size(), 1U);
  EXPECT_EQ(world.Run({"instance", "delete", kId}).exit_code, 1);  // The end of input: no.
  EXPECT_TRUE(world.shard("b").deletes.empty());
}

TEST_F(ShardCommandsTest, InstanceDeleteGoesToTheShardThatHasIt) {
  world.shard("a").instances[kOtherId] = {.instance_id = kOtherId};
  const Ending ending = world.Run({"instance", "delete", kId, kOtherId, "--drain", "--yes"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_EQ(ending.out,
            fmt::format("a: instance {} draining\nb: instance {} draining\n", kOtherId, kId));
  ASSERT_EQ(world.shard("b").deletes.size(), 1U);
  EXPECT_TRUE(world.shard("b").deletes[0].drain);
}

// An error in the middle: what was taken before is told, and so is the error.
TEST_F(ShardCommandsTest, InstanceDeleteTellsWhatWasTakenBeforeAnError) {
  const std::string third = "knd06bgm9z1k8q3tw5hv0m2xrjc4s";
  for (const std::string& id : {std::string(kId), std::string(kOtherId), third}) {
    world.shard("a").instances[id] = {.instance_id = id};
  }
  world.shard("b").instances.clear();
  world.shard("a").before = [&](const std::string& method) {
    if (method == "DeleteInstance" && !world.shard("a").deletes.empty()) {
      world.shard("a").refuse[method] = FailedPrecondition("the journal is full");
    }
  };
  const Ending ending = world.Run({"instance", "delete", kId, kOtherId, third, "--yes"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_EQ(ending.out, fmt::format("a: instance {} deleting\n", kId));
  EXPECT_THAT(ending.err, HasSubstr(fmt::format("Error on a: {}: the journal is full", kOtherId)));
  EXPECT_EQ(world.shard("a").Calls("DeleteInstance"), 2) << "and nothing is asked for after it";
}

TEST_F(ShardCommandsTest, NothingIsDeletedWhenOneOfTheInstancesIsUnknown) {
  const Ending ending = world.Run({"instance", "delete", kId, kOtherId, "--yes"});
  EXPECT_EQ(ending.exit_code, kExitNotFound);
  EXPECT_THAT(ending.err,
              HasSubstr(fmt::format("tenant prod has no instance {} in a, b", kOtherId)));
  EXPECT_TRUE(world.shard("b").deletes.empty());
}

TEST_F(ShardCommandsTest, InstanceCreateCarriesARequestIdThatARetryKeeps) {
  int lost = 1;
  world.shard("a").before = [&](const std::string& method) {
    if (method == "CreateInstance" && lost-- > 0) {
      world.shard("a").refuse[method] = Unavailable("stepping down");
    } else {
      world.shard("a").refuse.clear();
    }
  };
  const Ending ending =
      world.Run({"instance", "create", "--group", "workers", "--shard", "a", "--var", "A=1"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_EQ(ending.out, fmt::format("a: instance {} pending\n", kId));
  EXPECT_EQ(world.shard("a").Calls("CreateInstance"), 2);
  EXPECT_EQ(world.shard("a").creates[0].config->vars.at("A"), "1");
  EXPECT_EQ(world.shard("a").creates[0].request_id.size(), 32U);
}

TEST_F(ShardCommandsTest, WhyBeginsWithTheSummary) {
  world.shard("b").explanation =
      api::ExplainResponse{.summary = "Draining since 12s because its agent stopped reporting."};
  const Ending ending = world.Run({"why", kId});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out, StartsWith("Draining since 12s because its agent stopped reporting.\n"));
  const Ending unknown = world.Run({"why", "nobody", "--shard", "a"});
  EXPECT_EQ(unknown.exit_code, kExitNotFound);
  EXPECT_EQ(unknown.err,
            "Error: tenant prod has no group nobody; `nstance-admin group list` shows those there "
            "are\n");
}

TEST_F(ShardCommandsTest, GroupStatusShowsCountsHoldsAndMembers) {
  world.shard("b").explanation = api::ExplainResponse{
      .status = world.shard("b").groups["workers"],
      .holds = {{.code = "brake", .group = "workers", .detail = "budget used up"}}};
  const Ending ending = world.Run({"group", "status", "workers", "--shard", "b"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out, AllOf(StartsWith("workers in b\n"), HasSubstr("Ready"),
                                HasSubstr("brake"), HasSubstr("Members:\n"), HasSubstr(kId)));
}

TEST_F(ShardCommandsTest, AFailoverInsideTheTimeoutIsNoError) {
  world.StopShard("a");
  world.Start({"group", "list", "--shard", "a"});
  world.RunFor(Duration::Seconds(12));
  EXPECT_FALSE(world.ending);
  world.StartShard("a");
  ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }, Duration::Seconds(5)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
  EXPECT_THAT(world.ending->out, HasSubstr("workers"));
  EXPECT_EQ(world.terminal.err, "");
}

TEST_F(ShardCommandsTest, AFrozenLeaderIsAskedAgainOnANewConnection) {
  world.network.Cut("a", "admin");
  world.Start({"group", "list", "--shard", "a"});
  world.RunFor(Duration::Seconds(5));
  world.network.HealAll();
  ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }, Duration::Seconds(20)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
}

TEST_F(ShardCommandsTest, OneShardDownIsExitCodeFourAndTheOthersArePrinted) {
  world.StopShard("b");
  const Ending ending = world.Run({"group", "list", "--all-shards"});
  EXPECT_EQ(ending.exit_code, kExitSomeShardsFailed);
  EXPECT_THAT(ending.out, HasSubstr("a      workers"));
  EXPECT_THAT(ending.err, AllOf(StartsWith("Error on b: "), HasSubstr("(tried for 30s)"),
                                HasSubstr("/leader/health"), HasSubstr("b.example:8993")));
}

TEST_F(ShardCommandsTest, OnATerminalSomebodyIsToldThatAShardIsTriedAgain) {
  world.terminal.err_is_terminal = true;
  world.StopShard("b");
  EXPECT_EQ(world.Run({"group", "list", "--shard", "b", "--timeout", "3s"}).exit_code, 1);
  EXPECT_THAT(world.terminal.err, HasSubstr("trying again for up to 3s"));
}

TEST_F(ShardCommandsTest, ColourOnlyOnTerminals) {
  EXPECT_THAT(world.Run({"instance", "list", "--all-shards"}).out, Not(HasSubstr("\x1b[")));
  world.terminal.out_is_terminal = true;
  EXPECT_THAT(world.Run({"instance", "list", "--all-shards"}).out, HasSubstr("\x1b[33mdraining"));
  EXPECT_THAT(world.Run({"instance", "list", "--all-shards", "--no-color"}).out,
              Not(HasSubstr("\x1b[")));
  EXPECT_THAT(world.Run({"instance", "list", "--all-shards", "--json"}).out,
              Not(HasSubstr("\x1b[")));
}

TEST_F(ShardCommandsTest, CtrlCEndsAtOnce) {
  world.StopShard("a");
  world.Start({"group", "list", "--shard", "a"});
  world.RunFor(Duration::Seconds(1));
  world.terminal.Stop(2);
  ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }, Duration::Seconds(1)));
  EXPECT_EQ(world.ending->exit_code, 130);
}

}  // namespace
}  // namespace nstance::admin::test

// --wait in virtual time: when it looks, what it shows, how it ends.
#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/admin/shard_world.h"

namespace nstance::admin::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ShardWaitTest : public testing::Test {
 public:
  ShardWaitTest() {
    world.shard("a").groups["workers"] = {
        .key = "workers", .tenant = "prod", .size = 2, .ready = 2};
  }
  void Ready(int ready, int creating) {
    api::GroupStatus& status = world.shard("a").groups.at("workers");
    status.ready = ready;
    status.creating = creating;
  }
  [[nodiscard]] bool Ended() const { return world.ending.has_value(); }

  ShardWorld world{{"a"}};
};

TEST_F(ShardWaitTest, EndsWhenTheGroupIsAsItShouldBe) {
  world.Start({"group", "scale", "workers", "4", "--wait"});
  world.RunFor(Duration::Seconds(5));
  Ready(3, 1);
  world.shard("a").Emit({.type = "phase", .group = "workers"});
  world.RunFor(Duration::Seconds(5));
  EXPECT_FALSE(Ended());
  Ready(4, 0);
  world.shard("a").Emit({.type = "phase", .group = "workers"});
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(5)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
  EXPECT_THAT(world.ending->out, HasSubstr("a: group workers has size 4; 4/4 ready after "));
  ASSERT_FALSE(world.shard("a").watches.empty());
  EXPECT_EQ(world.shard("a").watches[0].group, "workers");
  // One line per change, in a file.
  EXPECT_THAT(world.terminal.err,
              AllOf(HasSubstr("2/4 ready  00:0"), HasSubstr("3/4 ready  1 creating"),
                    Not(HasSubstr("\x1b"))));
}

TEST_F(ShardWaitTest, NeverLooksMoreOftenThanEveryTwoSeconds) {
  world.Start({"group", "scale", "workers", "4", "--wait=2m"});
  world.RunFor(Duration::Seconds(5));
  const int before = world.shard("a").Calls("ListGroups");
  for (int i = 0; i < 200; ++i) {
    world.shard("a").Emit({.type = "phase", .group = "workers", .message = std::to_string(i)});
    world.RunFor(Duration::Milliseconds(100));
  }
  EXPECT_LE(world.shard("a").Calls("ListGroups") - before, 11);
  EXPECT_GE(world.shard("a").Calls("ListGroups") - before, 8);
  const int busy = world.shard("a").Calls("ListGroups");
  world.RunFor(Duration::Seconds(40));  // Without events.
  EXPECT_LE(world.shard("a").Calls("ListGroups") - busy, 5);
}

TEST_F(ShardWaitTest, LooksByItselfWhereTheServerOffersNoEvents) {
  world.shard("a").refuse["WatchEvents"] = {.code = Code::kUnimplemented, .message = "no"};
  world.shard("a").refuse["Plan"] = {.code = Code::kUnimplemented, .message = "no"};
  world.Start({"group", "scale", "workers", "3", "--wait"});
  world.RunFor(Duration::Seconds(3));
  Ready(3, 0);
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(3)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
}

TEST_F(ShardWaitTest, GoesOnWhileThePlannerStillHasSomethingToDo) {
  world.shard("a").plan.actions = {{.kind = "replace", .group = "workers"}};
  world.Start({"group", "create", "workers", "--update", "--var", "A=2", "--wait"});
  world.RunFor(Duration::Seconds(30));
  EXPECT_FALSE(Ended());
  EXPECT_THAT(world.terminal.err, HasSubstr("1 action left"));
  world.shard("a").plan.actions.clear();
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(15)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
}

TEST_F(ShardWaitTest, EndsWithTheHoldsWhenTheTimeIsUp) {
  world.shard("a").plan.holds = {
      {.code = "subnet-full", .group = "workers", .detail = "no address left in 10.0.0.0/28"}};
  const Ending ending = world.Run({"group", "scale", "workers", "9", "--wait=1m"});
  EXPECT_EQ(ending.exit_code, kExitWaitedTooLong);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("Error on a: workers@a is not there after 1m: 2/9 ready"),
                                HasSubstr("held: subnet-full: no address left in 10.0.0.0/28")));
  EXPECT_EQ(world.shard("a").groups.at("workers").size, 9);
}

TEST_F(ShardWaitTest, WhatHoldsAGroupThatDoesNotMoveIsShownMeanwhile) {
  world.shard("a").plan.holds = {{.code = "create-backoff", .group = "workers"},
                                 {.code = "create-backoff", .group = "workers"},
                                 {.code = "subnet-full", .group = "workers"}};
  world.shard("a").plan.actions = {{.kind = "create", .group = "workers"}};
  world.Start({"group", "scale", "workers", "4", "--wait"});
  world.RunFor(Duration::Seconds(8));
  EXPECT_THAT(world.terminal.err, Not(HasSubstr("held")));
  world.RunFor(Duration::Seconds(8));
  EXPECT_THAT(world.terminal.err, HasSubstr("2/4 ready  held: create-backoff, subnet-full  00:1"));
  // It moves again: what held it is no longer said.
  Ready(3, 1);
  world.shard("a").Emit({.type = "phase", .group = "workers"});
  world.RunFor(Duration::Seconds(3));
  EXPECT_THAT(world.terminal.err, HasSubstr("3/4 ready  1 creating  00:1"));
  EXPECT_FALSE(Ended());
}

TEST_F(ShardWaitTest, AHoldThatNeedsAnAdministratorEndsTheWaitWithTheReason) {
  for (const char* code : {"config-invalid", "tenant-undefined", "record-corrupt",
                           "pool-unavailable", "image-unresolved", "userdata-unavailable"}) {
    Ready(2, 0);
    world.shard("a").plan.holds = {{.code = "waiting-healthy", .group = "workers"},
                                   {.code = code, .group = "workers", .detail = "line 3"}};
    const Instant before = world.loop.Now();
    const Ending ending = world.Run({"group", "scale", "workers", "9", "--wait"});
    EXPECT_EQ(ending.exit_code, kExitError) << code;
    EXPECT_LT(world.loop.Now() - before, Duration::Seconds(15)) << code;
    EXPECT_THAT(ending.err,
                HasSubstr(fmt::format("Error on a: workers@a does not get there (2/9 ready): held: "
                                      "{}: line 3; this needs an administrator",
                                      code)));
  }
}

TEST_F(ShardWaitTest, AsLongAsSomethingGoesOnAHoldEndsNoWait) {
  world.shard("a").plan.holds = {{.code = "config-invalid", .group = "workers"}};
  world.Start({"group", "scale", "workers", "4", "--wait"});
  Ready(2, 1);
  world.RunFor(Duration::Seconds(40));
  EXPECT_FALSE(Ended());
  EXPECT_THAT(world.terminal.err, HasSubstr("held: config-invalid"));
  // One that keeps nobody from anything ends none either, nor one that is tried again by itself.
  Ready(2, 0);
  world.shard("a").plan.holds = {{.code = "config-pending", .group = "workers"},
                                 {.code = "userdata-unavailable",
                                  .group = "workers",
                                  .until = world.loop.WallNow() + Duration::Minutes(5)}};
  world.RunFor(Duration::Seconds(40));
  EXPECT_FALSE(Ended());
  Ready(4, 0);
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(15)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
}

TEST_F(ShardWaitTest, CtrlCStopsTheWaitingNotTheChange) {
  world.Start({"group", "scale", "workers", "9", "--wait"});
  world.RunFor(Duration::Seconds(3));
  world.terminal.Stop(SIGINT);
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(1)));
  EXPECT_EQ(world.ending->exit_code, 130);
  EXPECT_THAT(world.ending->err, HasSubstr("the change goes on"));
  EXPECT_EQ(world.shard("a").groups.at("workers").size, 9);
}

TEST_F(ShardWaitTest, AFailoverDuringTheWaitIsNoFailure) {
  world.Start({"group", "scale", "workers", "3", "--wait"});
  world.RunFor(Duration::Seconds(3));
  world.StopShard("a");
  world.RunFor(Duration::Seconds(40));
  EXPECT_FALSE(Ended());
  EXPECT_THAT(world.terminal.err, HasSubstr("not reachable, trying again"));
  Ready(3, 0);
  world.StartShard("a");
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(30)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
}

TEST_F(ShardWaitTest, OnATerminalOneLineIsKeptUpToDate) {
  world.terminal.err_is_terminal = true;
  world.Start({"group", "scale", "workers", "4", "--wait"});
  world.RunFor(Duration::Seconds(10));
  EXPECT_THAT(world.terminal.err, AllOf(HasSubstr("\x1b[1A"), HasSubstr("00:09")));
  EXPECT_THAT(world.terminal.err, HasSubstr("[##########----------]"));
}

TEST_F(ShardWaitTest, QuietAndJsonShowNoProgress) {
  for (const char* flag : {"--quiet", "--json"}) {
    world.terminal.err.clear();
    Ready(2, 0);
    const Ending ending = world.Run({"group", "scale", "workers", "9", "--wait=5s", flag});
    EXPECT_EQ(ending.exit_code, kExitWaitedTooLong);
    EXPECT_EQ(world.terminal.err, "") << flag;
  }
}

TEST_F(ShardWaitTest, AnInstanceIsWaitedForUntilItHasRegistered) {
  world.Start({"instance", "create", "--group", "workers", "--wait"});
  world.RunFor(Duration::Seconds(3));
  EXPECT_FALSE(Ended());
  world.shard("a").instances.at(kId).phase = api::InstancePhase::kRegistered;
  world.shard("a").Emit({.type = "phase", .instance_id = kId});
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(5)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
  EXPECT_THAT(world.ending->out, HasSubstr("created; registered after"));
}

TEST_F(ShardWaitTest, AnInstanceThatFailedEndsTheWaitAtOnceWithTheReason) {
  world.Start({"instance", "create", "--group", "workers", "--wait"});
  world.RunFor(Duration::Seconds(3));
  world.shard("a").instances.at(kId).phase = api::InstancePhase::kFailed;
  world.shard("a").instances.at(kId).reason = "registration-timeout";
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(15)));
  EXPECT_EQ(world.ending->exit_code, 1);
  EXPECT_THAT(world.ending->err, HasSubstr("it is failed: registration-timeout"));
}

TEST_F(ShardWaitTest, DeletedInstancesAreWaitedForUntilAllAreGone) {
  world.shard("a").instances[kId] = {.instance_id = kId, .phase = api::InstancePhase::kRegistered};
  world.shard("a").instances[kOtherId] = {.instance_id = kOtherId};
  world.Start({"instance", "delete", kId, kOtherId, "--yes", "--wait"});
  world.RunFor(Duration::Seconds(5));
  world.shard("a").instances.erase(kOtherId);
  world.RunFor(Duration::Seconds(15));
  EXPECT_FALSE(Ended());
  EXPECT_THAT(world.terminal.err, HasSubstr("1/2 gone"));
  world.shard("a").instances.at(kId).phase = api::InstancePhase::kGone;
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(15)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
  EXPECT_THAT(world.ending->out, HasSubstr(fmt::format("a: instance {} gone", kId)));
}

// So many that one look does not get round: what was heard counts, and the next goes on from there.
TEST_F(ShardWaitTest, ManyDeletedInstancesAreWaitedForThoughOneLookIsTooShort) {
  std::vector<std::string> words = {"instance", "delete", "--yes", "--wait", "--timeout", "1h"};
  for (int i = 0; i < 40; ++i) {
    const std::string id = fmt::format("knd06bgm7733st2576nx5jht4e{:02}0", i);
    world.shard("a").instances[id] = {.instance_id = id};
    words.push_back(id);
  }
  world.Start(words);
  ASSERT_TRUE(world.Until([&] { return world.shard("a").deletes.size() == 40; }));
  world.shard("a").instances.clear();
  // After every 15 questions nothing is heard until the look is over.
  int asked = 0;
  world.shard("a").before = [&](const std::string& method) {
    if (method == "GetInstanceStatus" && ++asked % 15 == 0) world.network.Cut("a", "admin");
  };
  for (int i = 0; i < 20 && !Ended(); ++i) {
    world.RunFor(Duration::Seconds(25));
    world.network.HealAll();
  }
  ASSERT_TRUE(Ended()) << world.terminal.err;
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
  EXPECT_THAT(world.terminal.err, HasSubstr("14/40 gone"));
}

TEST_F(ShardWaitTest, WhatIsGoneIsNotAskedForAgainAndTheHoldsAreOfTheRest) {
  for (const char* id : {kId, kOtherId}) {
    world.shard("a").instances[id] = {.instance_id = id, .phase = api::InstancePhase::kDeleting};
  }
  world.shard("a").explanation = api::ExplainResponse{
      .holds = {{.code = "lb-deregistering", .instance_id = kOtherId, .detail = "web-lb"}}};
  world.Start({"instance", "delete", kId, kOtherId, "--yes", "--wait=1m"});
  world.RunFor(Duration::Seconds(5));
  world.shard("a").instances.erase(kId);
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Minutes(2)));
  EXPECT_EQ(world.ending->exit_code, kExitWaitedTooLong);
  EXPECT_THAT(world.ending->err,
              AllOf(HasSubstr(fmt::format("1/2 gone  {} deleting", kOtherId)),
                    HasSubstr(fmt::format("held: lb-deregistering {}: web-lb", kOtherId))));
  EXPECT_EQ(world.shard("a").Calls("Explain"), 1) << "only of the one that is left";
}

TEST_F(ShardWaitTest, ADeletedGroupIsWaitedForUntilItsInstancesAreGone) {
  world.shard("a").instances[kId] = {.instance_id = kId, .group = "workers"};
  world.Start({"group", "delete", "workers", "--yes", "--wait"});
  world.RunFor(Duration::Seconds(5));
  EXPECT_FALSE(Ended());
  world.shard("a").instances.clear();
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(15)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
  EXPECT_THAT(world.ending->out, HasSubstr("a: group workers deleted; 0 instances left after"));
}

TEST_F(ShardWaitTest, ConfigRefreshWaitsUntilNothingIsLeftToDo) {
  world.shard("a").plan.actions = {{.kind = "create"}};
  world.Start({"config", "refresh", "--wait"});
  world.RunFor(Duration::Seconds(5));
  EXPECT_FALSE(Ended());
  world.shard("a").plan.actions.clear();
  ASSERT_TRUE(world.Until([&] { return Ended(); }, Duration::Seconds(15)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
  EXPECT_THAT(world.ending->out, HasSubstr("a      yes      abc123"));
}

TEST_F(ShardWaitTest, DroppedInTheMiddleItLeavesNothingBehind) {
  for (int milliseconds = 0; milliseconds < 4'000; milliseconds += 130) {
    world.Start({"group", "scale", "workers", "9", "--wait"});
    world.RunFor(Duration::Milliseconds(milliseconds));
    world.Drop();
    world.RunFor(Duration::Seconds(1));
  }
}

}  // namespace
}  // namespace nstance::admin::test

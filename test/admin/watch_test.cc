// `watch` against fake shards in virtual time: lines, the screen, failovers, stops.
#include <csignal>
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

class WatchTest : public testing::Test {
 public:
  WatchTest() {
    world.shard("a").groups["workers"] = {.key = "workers", .size = 2, .ready = 2};
    world.shard("b").groups["workers"] = {.key = "workers", .size = 3, .ready = 3};
  }
  void OnATerminal() {
    world.terminal.in_is_terminal = true;
    world.terminal.out_is_terminal = true;
    world.terminal.err_is_terminal = true;
  }
  [[nodiscard]] std::string Shown() const { return world.terminal.LastScreen(); }
  static api::Event Phase(const std::string& message) {
    return {.time = kToday,
            .type = "phase",
            .group = "workers",
            .instance_id = kId,
            .phase = api::InstancePhase::kDraining,
            .message = message};
  }

  ShardWorld world{{"a", "b"}};
};

TEST_F(WatchTest, InAPipeEveryEventIsALine) {
  world.shard("a").backlog = {Phase("earlier")};
  world.Start({"watch", "--all-shards"});
  world.RunFor(Duration::Seconds(2));
  world.shard("b").Emit(Phase("now"));
  world.RunFor(Duration::Seconds(1));
  EXPECT_EQ(world.terminal.out, fmt::format("17:46:40  a  phase  workers  {0}  draining: earlier\n"
                                            "17:46:40  b  phase  workers  {0}  draining: now\n",
                                            kId));
  world.terminal.Stop(SIGTERM);
  ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }, Duration::Seconds(1)));
  EXPECT_EQ(world.ending->exit_code, 143);
}

TEST_F(WatchTest, WithJsonEveryEventIsAnObjectWithItsShard) {
  OnATerminal();
  world.Start({"watch", "--shard", "a", "--json", "--group", "workers"});
  world.RunFor(Duration::Seconds(1));
  world.shard("a").Emit(Phase("now"));
  world.RunFor(Duration::Seconds(1));
  const auto object = json::Parse(world.terminal.out);
  ASSERT_TRUE(object) << world.terminal.out;
  EXPECT_EQ(*object->Find("shard")->if_string(), "a");
  EXPECT_EQ(*object->Find("phase")->if_string(), "draining");
  EXPECT_EQ(*object->Find("time")->if_string(), "2030-03-17T17:46:40Z");
  EXPECT_EQ(world.shard("a").watches.at(0).group, "workers");
}

TEST_F(WatchTest, AFailoverIsToldOnceAndNoEventTwice) {
  world.shard("a").backlog = {Phase("earlier")};
  world.Start({"watch", "--shard", "a"});
  world.RunFor(Duration::Seconds(2));
  world.StopShard("a");
  world.RunFor(Duration::Seconds(20));
  world.StartShard("a");
  world.RunFor(Duration::Seconds(5));
  world.shard("a").Emit(Phase("after"));
  world.RunFor(Duration::Seconds(1));
  EXPECT_EQ(std::ranges::count(world.terminal.out, '\n'), 2) << world.terminal.out;
  EXPECT_THAT(world.terminal.err, AllOf(HasSubstr("a: lost: "), HasSubstr("a: connected\n")));
  EXPECT_EQ(std::ranges::count(world.terminal.err, '\n'), 2) << world.terminal.err;
}

TEST_F(WatchTest, AServerThatGoesSilentIsLeftForTheOneThatLeadsNow) {
  world.Start({"watch", "--shard", "a"});
  world.RunFor(Duration::Seconds(3));
  world.ReplaceSilently("a");
  world.RunFor(Duration::Seconds(25));
  EXPECT_EQ(world.shard("a").watches.size(), 2U) << "opened again";
  world.shard("a").Emit(Phase("by the new leader"));
  world.RunFor(Duration::Seconds(1));
  EXPECT_THAT(world.terminal.out, HasSubstr("by the new leader"));
  EXPECT_THAT(world.terminal.err,
              AllOf(HasSubstr("a: lost: no answer from the server; trying again\n"),
                    HasSubstr("a: connected\n")));
  // One that only has nothing to tell is left alone.
  world.RunFor(Duration::Minutes(10));
  EXPECT_EQ(world.shard("a").watches.size(), 2U);
}

TEST_F(WatchTest, TheScreenLeavesAServerThatGoesSilentForTheOneThatLeadsNow) {
  OnATerminal();
  world.Start({"watch", "--shard", "a"});
  world.RunFor(Duration::Seconds(3));
  ASSERT_THAT(Shown(), HasSubstr("2/2"));
  world.ReplaceSilently("a");
  world.RunFor(Duration::Seconds(25));
  world.shard("a").EmitGroup({.key = "workers", .size = 2, .ready = 1});
  world.shard("a").Emit(Phase("by the new leader"));
  world.RunFor(Duration::Seconds(1));
  EXPECT_THAT(Shown(), AllOf(HasSubstr("1/2"), HasSubstr("by the new lead")));
  world.RunFor(Duration::Minutes(10));
  EXPECT_EQ(world.shard("a").watches.size(), 2U);
}

// Frozen for longer than a look waits: shown as lost, and back when it goes on.
TEST_F(WatchTest, AFrozenServerIsShownAsLostUntilItGoesOn) {
  OnATerminal();
  world.Start({"watch", "--shard", "a"});
  world.RunFor(Duration::Seconds(3));
  world.network.Cut("a", "admin");
  world.RunFor(Duration::Seconds(30));
  EXPECT_THAT(Shown(), HasSubstr("LOST"));
  world.network.HealAll();
  world.RunFor(Duration::Seconds(15));
  EXPECT_THAT(Shown(), AllOf(HasSubstr("2/2"), Not(HasSubstr("LOST"))));
}

TEST_F(WatchTest, EndsWhenNobodyReadsAnyMore) {
  world.Start({"watch", "--shard", "a"});
  world.RunFor(Duration::Seconds(1));
  world.terminal.out_closed = true;
  world.shard("a").Emit(Phase("now"));
  ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }, Duration::Seconds(1)));
  EXPECT_EQ(world.ending->exit_code, 1);
}

TEST_F(WatchTest, EndsWithTheErrorWhenEveryShardRefuses) {
  for (const char* name : {"a", "b"}) {
    world.shard(name).refuse["WatchEvents"] = PermissionDenied("the tenant is not defined");
  }
  const Ending ending = world.Run({"watch", "--all-shards"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("Error on a: the tenant is not defined; "),
                                HasSubstr("Error on b: ")));
}

TEST_F(WatchTest, EndsWhereNoServerOffersEvents) {
  world.shard("a").refuse["WatchEvents"] = {.code = Code::kUnimplemented, .message = "no"};
  const Ending ending = world.Run({"watch", "--shard", "a"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, HasSubstr("the server offers no events"));
}

TEST_F(WatchTest, TheScreenFollowsGroupsAndEvents) {
  OnATerminal();
  world.Start({"watch", "--all-shards"});
  world.RunFor(Duration::Seconds(2));
  EXPECT_TRUE(world.terminal.screen_open());
  EXPECT_THAT(Shown(), AllOf(HasSubstr("2/2"), HasSubstr("3/3"), HasSubstr("2 shards")));
  // Erasing behind a full line would take its last cell along: here the last digit of the time.
  const std::string first = Shown().substr(0, Shown().find("\r\n"));
  EXPECT_TRUE(first.back() >= '0' && first.back() <= '9') << first;
  world.shard("a").EmitGroup({.key = "workers", .size = 2, .creating = 1, .ready = 1});
  world.shard("a").Emit(Phase("gone quiet"));
  world.RunFor(Duration::Milliseconds(300));
  EXPECT_THAT(Shown(), AllOf(HasSubstr("1/2"), HasSubstr("draining")));
  world.terminal.Press('q');
  ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }, Duration::Seconds(1)));
  EXPECT_EQ(world.ending->exit_code, 0);
  EXPECT_FALSE(world.terminal.screen_open());
  EXPECT_EQ(world.ending->out, "");
}

// A look may follow right after another one, a third one only at its time.
TEST_F(WatchTest, WhatHealsWithinASecondIsSeen) {
  OnATerminal();
  world.Start({"watch", "--shard", "a"});
  ASSERT_TRUE(world.Until([&] { return Shown().contains("2/2"); }, Duration::Seconds(3)));
  world.RunFor(Duration::Milliseconds(500));
  world.shard("a").groups["workers"].ready = 1;
  world.shard("a").Emit(Phase("a VM is gone"));
  world.RunFor(Duration::Milliseconds(400));
  EXPECT_THAT(Shown(), HasSubstr("1/2"));
  world.shard("a").groups["workers"].ready = 2;
  world.shard("a").Emit(Phase("registered"));
  world.RunFor(Duration::Milliseconds(400));
  EXPECT_THAT(Shown(), HasSubstr("1/2"));
  world.RunFor(Duration::Seconds(3));
  EXPECT_THAT(Shown(), HasSubstr("2/2"));
}

TEST_F(WatchTest, TheScreenIsLeftByEverySignal) {
  OnATerminal();
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    world.Start({"watch", "--all-shards"});
    world.RunFor(Duration::Seconds(2));
    world.terminal.Stop(number);
    ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }, Duration::Seconds(1)));
    EXPECT_EQ(world.ending->exit_code, 128 + number);
    EXPECT_FALSE(world.terminal.screen_open());
    world.RunFor(Duration::Seconds(3));  // Nothing is drawn any more: SimTerminal would say so.
  }
}

TEST_F(WatchTest, TheScreenFollowsAFailover) {
  OnATerminal();
  world.Start({"watch", "--all-shards"});
  world.RunFor(Duration::Seconds(2));
  world.StopShard("b");
  world.RunFor(Duration::Seconds(5));
  EXPECT_THAT(Shown(), AllOf(HasSubstr("b: LOST for "), HasSubstr("3/3"), HasSubstr("2/2")));
  world.shard("b").groups["workers"].ready = 1;
  world.shard("b").groups["fresh"] = {.key = "fresh", .size = 7, .ready = 7};
  world.StartShard("b");
  world.RunFor(Duration::Seconds(8));
  EXPECT_THAT(Shown(), AllOf(Not(HasSubstr("LOST")), HasSubstr("1/3"), HasSubstr("7/7")));
}

TEST_F(WatchTest, InstancesAreListedOnlyWhereTheyAreShownAndNeverTooOften) {
  OnATerminal();
  world.shard("a").instances[kId] = {.instance_id = kId, .group = "workers", .health = "healthy"};
  world.Start({"watch", "--shard", "a"});
  world.RunFor(Duration::Seconds(5));
  EXPECT_EQ(world.shard("a").Calls("ListInstances"), 0);
  world.terminal.Press('i');
  world.RunFor(Duration::Seconds(3));
  EXPECT_THAT(Shown(), AllOf(HasSubstr(kId), HasSubstr("healthy")));
  const int before = world.shard("a").Calls("ListInstances");
  for (int i = 0; i < 100; ++i) {
    world.shard("a").Emit(Phase(std::to_string(i)));
    world.RunFor(Duration::Milliseconds(100));
  }
  EXPECT_LE(world.shard("a").Calls("ListInstances") - before, 6);
}

TEST_F(WatchTest, AServerWithoutEventsAndPlansIsStillWatched) {
  OnATerminal();
  for (const char* method : {"WatchEvents", "Plan"}) {
    world.shard("a").refuse[method] = {.code = Code::kUnimplemented, .message = "no"};
  }
  world.Start({"watch", "--shard", "a"});
  world.RunFor(Duration::Seconds(3));
  EXPECT_THAT(Shown(), AllOf(HasSubstr("a: the server offers no events"), HasSubstr("2/2")));
  world.shard("a").EmitGroup({.key = "workers", .size = 9, .ready = 2});
  world.RunFor(Duration::Seconds(1));
  EXPECT_THAT(Shown(), HasSubstr("2/9"));
}

TEST_F(WatchTest, ASizeChangeIsDrawnAtOnce) {
  OnATerminal();
  world.Start({"watch", "--shard", "a"});
  world.RunFor(Duration::Seconds(2));
  world.terminal.Resize({.columns = 40, .rows = 10});
  world.RunFor(Duration::Milliseconds(10));
  EXPECT_EQ(std::ranges::count(Shown(), '\n'), 9);
}

TEST_F(WatchTest, DroppedInTheMiddleItLeavesNothingBehind) {
  OnATerminal();
  for (int milliseconds = 0; milliseconds < 4'000; milliseconds += 170) {
    world.Start({"watch", "--all-shards", "--instances"});
    world.RunFor(Duration::Milliseconds(milliseconds));
    world.Drop();
    EXPECT_FALSE(world.terminal.screen_open());
    world.RunFor(Duration::Seconds(1));
  }
}

}  // namespace
}  // namespace nstance::admin::test

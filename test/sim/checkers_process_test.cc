// The checkers of server processes: their store requests, takeovers, stops and caches. One course
// of events that is as it should be, and at least one that is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/journal_table.h"
#include "test/sim/checkers_fixture.h"

namespace nstance::sim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum InstancePhase;

class ProcessTest : public CheckersTest {
 public:
  void Sent(SimMethod method, const std::string& key) {
    Call({.process = process, .method = method, .key = key});
  }
  void Watch(const std::string& name, const std::string& key) {
    Call({.process = name, .key = key});
  }
  void Doubted(const std::string& key) {
    Call({.moment = SimCall::Moment::kAnswered,
          .process = process,
          .method = SimMethod::kPut,
          .key = key,
          .maybe_done = true});
  }
  void Call(const SimCall& call) {
    world.Each([&](Checker& checker) { checker.OnCall(call); });
  }
  void Created(const InstanceId& id, Outcome outcome) {
    Tell({.process = process,
          .method = SimProviderMethod::kCreate,
          .instance_id = id,
          .maybe_done = outcome == Outcome::kMaybeDone});
  }
  void Looked(const InstanceId& id) { Tell({.process = process, .instance_id = id}); }
  void Tell(const SimProviderCall& call) {
    world.Each([&](Checker& checker) { checker.OnProviderCall(call); });
  }
  [[nodiscard]] ServerStanding Server(const std::string& name) const {
    return {.name = name, .shard = ShardA(), .incarnation = kOwn};
  }
  void Exit(const ServerExit& exit) {
    world.Each([&](Checker& checker) { checker.OnServerExit(Server("a1#1"), exit); });
  }

  static constexpr const char* kOwn = "00000000000000aa";
  static constexpr const char* kOther = "00000000000000bb";
  const std::string process = "a1#1";
};

// --- I-4 -----------------------------------------------------------------------------------------

TEST_F(ProcessTest, I04_WhoeverLooksOnTakesOver) {
  world.Add(MakeI04);
  ServerStanding leader = Server("a1#1");
  leader.leads = true;
  world.servers = {leader, Server("a2#1"), Server("a3#1")};
  world.sound_since = {{"a1#1", world.now()}, {"a2#1", world.now()}, {"a3#1", world.now()}};
  Watch("a2#1", "leader/a.json");
  Watch("a3#1", "leader/cluster.json");  // It does not come to its shard's.
  world.Pass(Duration::Seconds(20));
  WriteLease("a1#1", kOwn, 1);
  world.Pass(Duration::Minutes(1));
  WriteLease("a1#1", kOwn, 1);
  world.servers = {Server("a2#1"), Server("a3#1")};
  world.Pass(Duration::Seconds(20));
  EXPECT_THAT(world.violations, IsEmpty());
  world.Pass(Duration::Seconds(2));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("a2#1 has only looked on")));
}

TEST_F(ProcessTest, I04_WhoeverWasDisturbedOrHasJustStartedMayTakeLonger) {
  world.Add(MakeI04);
  world.servers = {Server("a1#1"), Server("a2#1"), Server("a3#1"), Server("a4#1")};
  for (const char* name : {"a1#1", "a2#1", "a3#1"}) Watch(name, "leader/a.json");
  world.sound_since = {{"a4#1", world.now()}};
  world.Pass(Duration::Seconds(20));
  WriteLease("a1#1", kOwn, 1);
  world.Pass(Duration::Seconds(1));
  Watch("a4#1", "leader/a.json");
  world.sound_since["a2#1"] = world.now();
  world.Pass(Duration::Minutes(1));
  EXPECT_THAT(world.violations, IsEmpty());
}

// --- I-9 -----------------------------------------------------------------------------------------

TEST_F(ProcessTest, I09_DoubtIsFollowedByARead) {
  world.Add(MakeI09);
  Sent(SimMethod::kPut, "journal/a.json");
  Doubted("journal/a.json");
  Sent(SimMethod::kPut, "groups/a.jsonc");
  Sent(SimMethod::kGet, "journal/a.json");
  Sent(SimMethod::kPut, "journal/a.json");
  EXPECT_THAT(world.violations, IsEmpty());
  Doubted("journal/a.json");
  Sent(SimMethod::kPut, "journal/a.json");
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("a1#1 writes journal/a.json again")));
}

TEST_F(ProcessTest, I09_AProcessThatIsOverLeavesItsDoubt) {
  world.Add(MakeI09);
  Doubted("journal/a.json");
  world.Each([&](Checker& checker) { checker.OnServerEnd(Server("a1#1")); });
  Sent(SimMethod::kPut, "journal/a.json");
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(ProcessTest, I09_ACreationInDoubtIsLookedForBeforeItIsGivenUp) {
  world.Add(MakeI09);
  for (const int number : {1, 2, 3, 4}) world.Write("a1#1", Record(number, kCreating));
  Created(IdOf(1), Outcome::kNotDone);
  world.Write("a1#1", Record(1, kFailed));
  Created(IdOf(2), Outcome::kMaybeDone);
  Looked(IdOf(2));
  world.Write("a1#1", Record(2, kGone));
  Created(IdOf(3), Outcome::kMaybeDone);
  world.Write("a1#1", Record(3, kProvisioned));
  EXPECT_THAT(world.violations, IsEmpty());
  Created(IdOf(4), Outcome::kMaybeDone);
  Looked(IdOf(3));
  world.Write("a1#1", Record(4, kFailed));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("cannot know whether it has a VM")));
}

TEST_F(ProcessTest, I09_ACreationOfAProcessThatIsOverIsAnothersToSettle) {
  world.Add(MakeI09);
  world.Write("a1#1", Record(1, kCreating));
  Created(IdOf(1), Outcome::kMaybeDone);
  world.Each([&](Checker& checker) { checker.OnServerEnd(Server("a1#1")); });
  world.Write("a2#1", Record(1, kGone));
  EXPECT_THAT(world.violations, IsEmpty());
}

// --- I-10 ----------------------------------------------------------------------------------------

class CacheTest : public ProcessTest {
 public:
  CacheTest() {
    world.Add(MakeI10);
    ServerStanding leader = Server("a1#1");
    leader.leads = true;
    leader.acting = true;
    world.servers = {leader};
    world.desired = {{{DefaultTenant(), Workers()}, 1}};
    record = Record(1, kRegistered);
    world.Write("a1#1", record);
    rows().Apply(cache::InstanceRow{.id = record.instance_id,
                                    .tenant = record.tenant,
                                    .group = record.group,
                                    .phase = std::string(PhaseName(record.phase)),
                                    .provider_id = record.provider_instance_id,
                                    .registered_at = record.registered_at,
                                    .cert_serial = record.cert_serial});
    rows().Apply(cache::GroupRow{.tenant = DefaultTenant(), .group = Workers(), .size = 1});
  }
  SimCacheDisk& rows() { return world.caches["a1#1"]; }

  InstanceRecord record = {.instance_id = IdOf(1), .tenant = DefaultTenant(), .group = Workers()};
};

TEST_F(CacheTest, I10_ACopyIsFine) {
  world.Pass(Duration::Seconds(10));
  world.Write("a1#1", Record(2, kCreating));  // Not on the disk yet.
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(CacheTest, I10_WhatIsOldIsNot) {
  record.phase = kDraining;
  world.Write("a1#1", record);
  world.desired = {{{DefaultTenant(), Workers()}, 2}};
  world.Pass(Duration::Seconds(10));
  AtQuiet();
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("the phase differs"), HasSubstr("has size 2, its row 1")));
}

TEST_F(CacheTest, I10_WhatIsMissingOrTooMuchIsNot) {
  world.Write("a1#1", Record(2, kCreating));
  world.Erase("a1#1", FakeCheckerWorld::KeyOf(record));
  world.desired = {};
  world.Pass(Duration::Seconds(10));
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("has no row"), HasSubstr("and no record"),
                                            HasSubstr("default/workers is over")));
}

// --- I-12 ----------------------------------------------------------------------------------------

class BackoffTest : public ProcessTest {
 public:
  // It was heard `ago`, and is stored now.
  void Refuse(int number, Duration ago = {}) {
    InstanceRecord record = Record(number, kFailed);
    record.failure = RecordFailure{.code = "capacity", .message = "none", .at = world.wall() - ago};
    world.Write("a1#1", record);
  }
  void Intend(int number) {
    world.Commit("a1#1", {IntentFor(Record(number, kCreating), IntentKind::kCreate)});
  }
};

TEST_F(BackoffTest, I12_ARefusedCreationIsNotRepeatedAtOnce) {
  world.Add(MakeI12);
  world.Pass(Duration::Minutes(1));
  Refuse(1);
  world.Pass(Duration::Seconds(5));
  Intend(2);
  EXPECT_THAT(world.violations, IsEmpty());
  Refuse(2);
  world.Pass(Duration::Seconds(1));
  Intend(3);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("after the provider refused one")));
}

TEST_F(BackoffTest, I12_EveryRefusalThatIsKnownCounts) {
  world.Add(MakeI12);
  world.Pass(Duration::Minutes(1));
  Refuse(1);
  Intend(2);  // In the same turn: it knew nothing.
  EXPECT_THAT(world.violations, IsEmpty());
  world.Pass(Duration::Seconds(1));
  Refuse(2);
  Intend(3);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("1s after the provider refused one")));
}

TEST_F(BackoffTest, I12_NothingIsToldByAClockThatWasWrong) {
  world.Add(MakeI12);
  for (const bool was_wrong : {true, false}) {
    world.Pass(Duration::Minutes(1));
    Refuse(1);
    if (was_wrong) world.walls_true_since = world.now();
    world.Pass(Duration::Seconds(20));
    // By a clock that was set to the right time meanwhile.
    InstanceRecord record = Record(2, kCreating);
    Intent intent = IntentFor(record, IntentKind::kCreate);
    intent.opened_at = world.wall() - Duration::Seconds(18);
    world.Commit("a1#1", {intent});
    EXPECT_EQ(world.violations.size(), was_wrong ? 0U : 1U);
    world.Commit("a1#1", {});
  }
}

TEST_F(BackoffTest, I12_ASuccessEndsTheBackoff) {
  world.Add(MakeI12);
  world.Pass(Duration::Minutes(1));
  Refuse(1);
  world.Write("a1#1", Record(2, kProvisioned));
  world.Pass(Duration::Seconds(1));
  Intend(3);
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(BackoffTest, I12_ASuccessEndsTheBackoffOfARefusalThatIsStoredLater) {
  world.Add(MakeI12);
  world.Pass(Duration::Minutes(1));
  world.Write("a1#1", Record(1, kProvisioned));
  world.Pass(Duration::Seconds(2));
  Refuse(2, Duration::Milliseconds(2'200));
  world.Pass(Duration::Seconds(1));
  Intend(3);
  EXPECT_THAT(world.violations, IsEmpty());
  // Not of one that was heard after the success.
  world.Pass(Duration::Minutes(1));
  world.Write("a1#1", Record(4, kProvisioned));
  world.Pass(Duration::Seconds(2));
  Refuse(5, Duration::Milliseconds(500));
  world.Pass(Duration::Seconds(1));
  Intend(6);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("after the provider refused one")));
}

// --- I-41 ----------------------------------------------------------------------------------------

TEST_F(ProcessTest, I41_TheJournalKeepsItsLimit) {
  world.Add(MakeI41);
  std::vector<Intent> intents;
  const auto add = [&](std::size_t many, IntentKind kind) {
    while (intents.size() < many) {
      intents.push_back(IntentFor(Record(static_cast<int>(intents.size()), kRegistered), kind));
    }
  };
  add(JournalLimits().creations, IntentKind::kCreate);
  add(JournalLimits().intents, IntentKind::kDelete);
  world.Commit("a1#1", intents);
  EXPECT_THAT(world.violations, IsEmpty());
  add(JournalLimits().intents + 1, IntentKind::kDelete);
  world.Commit("a1#1", intents);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("has 1025 intents; 1024 are allowed")));
}

TEST_F(ProcessTest, I41_ATurnPlansNoMoreThanItsBudgetOrOneGroup) {
  world.settings.steps_per_turn = 10;
  world.Add(MakeI41);
  const auto turn = [&](PlannerWork so_far) {
    const ServerStanding server = {.name = "a1#1", .shard = ShardA(), .planned = so_far};
    world.Each([&](Checker& checker) { checker.AfterTask(server); });
  };
  turn({.pieces = 2, .steps = 10});
  turn({.pieces = 3, .steps = 40});  // One group.
  turn({.pieces = 3, .steps = 40});
  turn({.pieces = 2, .steps = 10});  // Of the next leadership.
  EXPECT_THAT(world.violations, IsEmpty());
  turn({.pieces = 4, .steps = 21});
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("has planned 11 steps, of 2 groups, in one turn; 10 are")));
}

// --- I-44 ----------------------------------------------------------------------------------------

TEST_F(ProcessTest, I44_AStopIsQuickAndReleasesTheLease) {
  world.Add(MakeI44);
  WriteLease("a1#1", kOther, 1);
  Exit({.stopped = true, .led = true, .took = Duration::Seconds(9), .undisturbed = true});
  EXPECT_THAT(world.violations, IsEmpty());
  WriteLease("a1#1", kOwn, 2);
  Exit({.stopped = true, .led = true, .took = Duration::Seconds(11), .undisturbed = true});
  Exit({.stopped = true, .led = true, .undisturbed = true});
  Exit({.code = 1, .stopped = true, .undisturbed = true});
  Exit({.left_in_loop = 2});
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("took 11s"), HasSubstr("has not released its lease"),
                          HasSubstr("ended with 1"), HasSubstr("2 of its timers")));
}

TEST_F(ProcessTest, I44_WhoeverWasDisturbedMayLeaveItsLease) {
  world.Add(MakeI44);
  WriteLease("a1#1", kOwn, 2);
  Exit({.stopped = true, .led = true, .took = Duration::Seconds(11)});
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(ProcessTest, I44_WhoeverIsToldTwiceMayLeaveItsLeaseAndNothingElse) {
  world.Add(MakeI44);
  WriteLease("a1#1", kOwn, 2);
  Exit({.stopped = true, .led = true, .told_again = true, .undisturbed = true});
  Exit({.stopped = true, .told_again = true, .left_in_loop = 2});  // It stood still.
  EXPECT_THAT(world.violations, IsEmpty());
  Exit({.stopped = true,
        .led = true,
        .took = Duration::Seconds(11),
        .told_again = true,
        .undisturbed = true});
  Exit({.code = 1, .stopped = true, .told_again = true, .undisturbed = true});
  Exit({.stopped = true, .told_again = true, .undisturbed = true, .left_in_loop = 2});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("took 11s"), HasSubstr("ended with 1"),
                                            HasSubstr("2 of its timers")));
}

}  // namespace
}  // namespace nstance::sim

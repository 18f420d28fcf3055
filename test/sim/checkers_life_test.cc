// The checkers of an instance's later life and of idle costs: one course of events that is as it
// should be, and at least one that is not.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crypto/certificate_authority.h"
#include "test/sim/checkers_fixture.h"

namespace nstance::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum InstancePhase;

// --- I-21: the brake -----------------------------------------------------------------------------

crypto::Certificate SomeCertificate() {
  const std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{};
  return crypto::IssueCa({}, crypto::PrivateKey::FromSeed(seed),
                         {.issued_at = WorldStart(), .life = Duration::Days(1)})
      .value();
}

class BrakeTest : public CheckersTest {
 public:
  BrakeTest() { world.Add(MakeI21); }

  // The agent has heard that it has joined.
  void GiveCertificate(InstanceRecord& record) {
    const IssuedCertificate issued = {.process = "agent", .certificate = SomeCertificate()};
    record.cert_serial = issued.certificate.facts().serial.decimal();
    world.Each([&](Checker& checker) { checker.OnCertificate(issued); });
  }

  // A registered instance with its VM.
  InstanceRecord Member(int number) {
    InstanceRecord record = Record(number, kRegistered);
    record.provider_instance_id = PutVm(record);
    world.Write("a1#1", record);
    return record;
  }
  // It was decided `ago`, and is stored now.
  void Drain(int number, std::string reason, bool ordered = false, Duration ago = {}) {
    Intent intent = IntentFor(Member(number), IntentKind::kDrain, std::move(reason));
    intent.opened_at = world.wall() - ago;
    intent.deadline = world.wall() + Duration::Minutes(1);
    intent.length = Duration::Minutes(1);
    intent.ordered = ordered;
    intent.counted = true;
    world.Commit("a1#1", {intent});
  }
};

TEST_F(BrakeTest, I21_FiveInAWindow) {
  for (int i = 1; i <= 5; ++i) Drain(i, "unhealthy");
  world.Pass(world.settings.brake_window);
  for (int i = 6; i <= 10; ++i) Drain(i, "unhealthy");
  EXPECT_THAT(world.violations, IsEmpty());
  Drain(11, "unhealthy");
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("6 unordered starts")));
}

TEST_F(BrakeTest, I21_HalfOfThemForDrift) {
  Drain(1, "config-drift");
  Drain(2, "eligible-expiry");
  EXPECT_THAT(world.violations, IsEmpty());
  Drain(3, "config-drift");
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("3 opportunistic starts")));
}

TEST_F(BrakeTest, I21_TenThatWereOrdered) {
  for (int i = 1; i <= 10; ++i) Drain(i, "scale-down", true);
  EXPECT_THAT(world.violations, IsEmpty());
  Drain(11, "scale-down", true);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("11 ordered starts")));
}

TEST_F(BrakeTest, I21_AStartCountsFromItsDecision) {
  const Duration window = world.settings.brake_window;
  world.Pass(window);
  Drain(1, "config-drift", false, window / 2);
  world.Pass(Duration::Seconds(1));
  Drain(2, "config-drift");
  Drain(3, "config-drift");
  EXPECT_THAT(world.violations, IsEmpty());
  // Between the first one and these.
  Drain(4, "config-drift", false, window / 4);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("3 opportunistic starts")));
}

TEST_F(BrakeTest, I21_WrongClocksAreAnExcuse) {
  world.walls_true_since = Instant::Never();
  for (int i = 1; i <= 12; ++i) Drain(i, "unhealthy");
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(BrakeTest, I21_ADeletionWithoutADrainCounts) {
  for (int i = 1; i <= 6; ++i) {
    InstanceRecord record = Member(i);
    record.phase = kDeleting;
    record.deletion = RecordDeletion{.reason = "provider-gone", .counted = true};
    world.Write("a1#1", record);
  }
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("6 unordered starts")));
}

TEST_F(BrakeTest, I21_ARunningVmIsCounted) {
  InstanceRecord record = Member(1);
  record.phase = kDeleting;
  record.deletion = RecordDeletion{.reason = "provider-stopped", .counted = false};
  ASSERT_TRUE(
      world.real_cloud.SetStatusByHand(record.provider_instance_id, ProviderStatus::kStopped));
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, IsEmpty());
  record = Member(2);
  record.phase = kDeleting;
  record.deletion = RecordDeletion{.reason = "requested", .counted = false};
  world.Pass(Duration::Minutes(1));
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("is not counted")));
}

// A replaced leader's write brings the registration: its successor has read the records before, the
// one after that has not.
TEST_F(BrakeTest, I21_WhoeverCouldNotKnowOfARegistrationNeedNotCount) {
  for (const std::int64_t decided_by : {2, 3}) {
    const int number = static_cast<int>(decided_by);
    world.journal.epoch = 1;
    InstanceRecord record = Record(number, kRegistered);
    GiveCertificate(record);
    world.journal.epoch = 2;
    world.Commit("a2#1", {});
    record.provider_instance_id = PutVm(record);
    world.Write("a1#1", record);
    world.Pass(Duration::Minutes(1));
    world.journal.epoch = decided_by;
    world.Commit("a3#1", {IntentFor(record, IntentKind::kDelete, "registration-timeout")});
    record.epoch = decided_by;
    record.phase = kDeleting;
    record.deletion = RecordDeletion{.reason = "registration-timeout", .counted = false};
    world.Write("a3#1", record);
    EXPECT_EQ(world.violations.size(), decided_by == 2 ? 0U : 1U);
  }
}

TEST_F(BrakeTest, I21_WhoNeverHeardThatItHasJoinedNeedNotBeCounted) {
  for (const bool heard : {false, true}) {
    InstanceRecord record = Record(heard ? 2 : 1, kRegistered);
    if (heard) GiveCertificate(record);
    record.provider_instance_id = PutVm(record);
    world.Write("a1#1", record);
    world.Pass(Duration::Minutes(1));
    world.Commit("a1#1", {IntentFor(record, IntentKind::kDelete, "registration-timeout")});
    record.phase = kDeleting;
    record.deletion = RecordDeletion{.reason = "registration-timeout", .counted = false};
    world.Write("a1#1", record);
    EXPECT_EQ(world.violations.size(), heard ? 1U : 0U);
  }
}

TEST_F(BrakeTest, I21_AVmThatHasTheProviderIdOfADeadOneIsNotTheDeadOne) {
  InstanceRecord record = Member(1);
  record.provider_instance_id = Member(2).provider_instance_id;
  world.Write("a1#1", record);
  record.phase = kDeleting;
  record.deletion = RecordDeletion{.reason = "provider-gone", .counted = false};
  world.Pass(Duration::Minutes(1));
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(BrakeTest, I21_ADrainedInstanceCountsOnce) {
  for (int i = 1; i <= 5; ++i) Drain(i, "unhealthy");
  for (int i = 1; i <= 5; ++i) {
    InstanceRecord record = Record(i, kDeleting);
    record.deletion = RecordDeletion{.reason = "unhealthy", .counted = true};
    world.Write("a1#1", record);
  }
  EXPECT_THAT(world.violations, IsEmpty());
}

// --- I-22: replaced first ------------------------------------------------------------------------

TEST_F(CheckersTest, I22_AReplacementComesFirst) {
  world.Add(MakeI22);
  Configure(2);
  world.Write("a1#1", Record(1, kRegistered));
  world.Write("a1#1", Record(2, kRegistered));
  world.Commit("a1#1", {IntentFor(Record(1, kRegistered), IntentKind::kDrain, "unhealthy"),
                        IntentFor(Record(3, kCreating), IntentKind::kCreate, "replace")});
  EXPECT_THAT(world.violations, IsEmpty());
  world.Commit("a1#1", {IntentFor(Record(2, kRegistered), IntentKind::kDrain, "unhealthy"),
                        IntentFor(Record(3, kCreating), IntentKind::kCreate, "replace")});
  EXPECT_THAT(world.violations, IsEmpty());  // The first drain is not open any more: it counts.
  world.Write("a1#1", Record(1, kDraining));
  world.Commit("a1#1", {IntentFor(Record(3, kCreating), IntentKind::kCreate, "replace"),
                        IntentFor(Record(2, kRegistered), IntentKind::kDrain, "config-drift")});
  EXPECT_THAT(world.violations, IsEmpty());  // The same opening as before.
}

TEST_F(CheckersTest, I22_ADrainWithoutAReplacementIsFound) {
  world.Add(MakeI22);
  Configure(2);
  world.Write("a1#1", Record(1, kRegistered));
  world.Write("a1#1", Record(2, kRegistered));
  world.Commit("a1#1", {IntentFor(Record(1, kRegistered), IntentKind::kDrain, "scale-down")});
  EXPECT_THAT(world.violations, IsEmpty());
  world.Commit("a1#1", {IntentFor(Record(2, kRegistered), IntentKind::kDrain, "unhealthy")});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("without it 1 instances")));
}

TEST_F(CheckersTest, I22_ARevokedDrainCountsAtOnce) {
  world.Add(MakeI22);
  Configure(1);
  world.Write("a1#1", Record(1, kRegistered));
  world.Commit("a1#1", {IntentFor(Record(2, kDraining), IntentKind::kDrain, "scale-down")});
  world.Write("a1#1", Record(2, kDraining));
  world.Commit("a1#1", {IntentFor(Record(1, kRegistered), IntentKind::kDrain, "unhealthy")});
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(CheckersTest, I22_WhatJustEndedStillCounts) {
  world.Add(MakeI22);
  Configure(1);
  world.Write("a1#1", Record(1, kRegistered));
  world.Write("a1#1", Record(2, kCreating));
  world.Write("a1#1", Record(2, kFailed));
  world.Commit("a1#1", {IntentFor(Record(1, kRegistered), IntentKind::kDrain, "unhealthy")});
  EXPECT_THAT(world.violations, IsEmpty());
  std::vector<Intent> intents = world.journal.intents;
  world.Pass(Duration::Minutes(1));
  world.Write("a1#1", Record(3, kRegistered));
  intents.push_back(IntentFor(Record(3, kRegistered), IntentKind::kDrain, "unhealthy"));
  world.Commit("a1#1", intents);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("without it 0 instances")));
}

// --- I-23, I-24: deadlines -----------------------------------------------------------------------

class DrainTest : public CheckersTest {
 public:
  DrainTest() { world.Add(MakeI23); }
  // Opens a drain of one minute.
  Intent Open() {
    record = Record(1, kRegistered);
    record.provider_instance_id = PutVm(record);
    world.Write("a1#1", record);
    Intent intent = IntentFor(record, IntentKind::kDrain, "unhealthy");
    intent.deadline = world.wall() + Duration::Minutes(1);
    intent.length = Duration::Minutes(1);
    world.Commit("a1#1", {intent});
    return world.journal.intents.front();
  }
  void Delete(std::string reason = "unhealthy") {
    world.Commit("a1#1", {IntentFor(record, IntentKind::kDelete, std::move(reason))});
  }
  InstanceRecord record = Record(1, kRegistered);
};

TEST_F(DrainTest, I23_ADrainEndsAtItsDeadline) {
  (void)Open();
  world.journal.epoch = 2;
  world.Commit("a2#1", world.journal.intents);
  world.Pass(Duration::Minutes(1));
  Delete();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(DrainTest, I23_AnAckEndsIt) {
  Intent intent = Open();
  intent.acked_at = world.wall();
  world.Commit("a1#1", {intent});
  Delete();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(DrainTest, I23_SoDoesAnOrderOrADeadVm) {
  (void)Open();
  Delete("requested");
  EXPECT_THAT(world.violations, IsEmpty());
  (void)Open();
  ASSERT_TRUE(world.real_cloud.VanishByHand(record.provider_instance_id));
  Delete();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(DrainTest, I23_NothingElseDoes) {
  (void)Open();
  world.Pass(Duration::Seconds(30));
  Delete();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("without an ack, 30s before")));
}

TEST_F(DrainTest, I23_LiesAreAnExcuse) {
  world.real_cloud.lies().finds_nothing = true;
  (void)Open();
  world.Pass(Duration::Seconds(30));
  Delete();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(DrainTest, I23_OnlyItsOwnAckEndsIt) {
  Intent intent = Open();
  const auto answer = [&](std::string drain_id, Status status) {
    world.Each([&](Checker& checker) {
      checker.OnAnswer({.tenant = record.tenant,
                        .shard = ShardA(),
                        .request = api::DrainAckRequest{.instance_id = record.instance_id.text(),
                                                        .drain_id = drain_id},
                        .sent = Instant(),
                        .status = std::move(status)});
    });
  };
  const auto at_end = [&] { world.Each([](Checker& checker) { checker.AtEnd(); }); };
  answer("another", Fail(FailedPrecondition("not open")));
  intent.acked_at = world.wall();
  world.Commit("a1#1", {intent});
  world.calm_from = world.now() + Duration::Hours(1);
  at_end();
  EXPECT_THAT(world.violations, IsEmpty());
  answer("another", {});
  at_end();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("by an ack of another drain")));
  world.violations.clear();
  answer(intent.id, Fail(Unavailable("lost")));
  at_end();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(DrainTest, I23_TheDeadlineStays) {
  Intent intent = Open();
  record.phase = kDraining;
  record.drain = RecordDrain{.id = intent.id,
                             .reason = "unhealthy",
                             .delete_at = intent.deadline,
                             .length = intent.length};
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, IsEmpty());
  record.drain->delete_at = intent.deadline + Duration::Seconds(1);
  world.Write("a1#1", record);
  intent.deadline = intent.deadline + Duration::Seconds(2);
  world.Commit("a2#1", {intent});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("the drain of"), HasSubstr("the drain of")));
}

// A leader that has all it needs, and a drain that is over in a minute.
class LateDrainTest : public DrainTest {
 public:
  LateDrainTest() {
    world.servers = {{.name = "a1#1", .shard = ShardA(), .leads = true, .acting = true}};
    world.sound_since = {{"a1#1", world.now()}};
    world.provider_sound_since = {{"a1#1", world.now()}};
    (void)Open();
    Pass(65);
  }
  void Pass(int seconds) {
    for (int i = 0; i < seconds; ++i) world.Pass(Duration::Seconds(1));
  }
};

TEST_F(LateDrainTest, I23_ADeadlineIsActedUponAtOnce) {
  EXPECT_THAT(world.violations, IsEmpty());
  Pass(6);
  ASSERT_FALSE(world.violations.empty());
  EXPECT_THAT(world.violations.front(), HasSubstr("goes on 10s after its deadline"));
}

TEST_F(LateDrainTest, I23_ADrainThatIsOverIsNotLate) {
  Delete();
  Pass(60);
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(LateDrainTest, I23_WhoeverCannotActIsNotLate) {
  world.sound_since["a1#1"] = Instant::Never();
  Pass(60);
  world.sound_since["a1#1"] = {};
  world.provider_sound_since["a1#1"] = world.now();
  // A listing that was under way is lost, and is waited for.
  Pass(10 + 5 + 9);
  world.real_cloud.lies().lists_nothing = true;
  Pass(60);
  world.servers.clear();
  Pass(5);
  world.real_cloud.lies() = {};
  Pass(60);
  // A new leader needs a moment.
  world.servers = {{.name = "a2#1", .shard = ShardA(), .leads = true, .acting = true}};
  world.sound_since["a2#1"] = world.provider_sound_since["a2#1"] = {};
  Pass(9);
  EXPECT_THAT(world.violations, IsEmpty());
  Pass(3);
  EXPECT_FALSE(world.violations.empty());
}

TEST_F(DrainTest, I23_TheDrainOfAnAnnouncedEndIsNotCalledOff) {
  const Intent intent = Open();
  for (const std::string_view reason : {"scale-down", "spot-terminating"}) {
    record.phase = kDraining;
    record.drain = RecordDrain{.id = intent.id,
                               .reason = std::string(reason),
                               .delete_at = intent.deadline,
                               .length = intent.length};
    world.Write("a1#1", record);
    EXPECT_THAT(world.violations, IsEmpty());
    record.phase = kRegistered;
    record.drain.reset();
    world.Write("a1#1", record);
  }
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("called off the drain")));
}

TEST_F(CheckersTest, I24_NothingIsStuck) {
  world.Add(MakeI24);
  world.calm_from = world.now();
  world.Write("a1#1", Record(1, kRegistered));
  world.Write("a1#1", Record(2, kGone));
  const InstanceRecord stuck = Record(3, kDeleting);
  world.Write("a1#1", stuck);
  world.Commit("a1#1", {IntentFor(stuck, IntentKind::kDelete, "requested")});
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
  world.Pass(Duration::Minutes(15));
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("has been deleting for 15m"),
                                            HasSubstr("has been open for 15m")));
}

TEST_F(CheckersTest, I24_BadTimesDoNotCount) {
  world.Add(MakeI24);
  InstanceRecord record = Record(1, kDraining);
  record.drain = RecordDrain{.id = "1-1-1", .reason = "x", .length = Duration::Minutes(1)};
  world.Write("a1#1", record);
  world.Write("a1#1", Record(2, kCreating));
  world.Pass(Duration::Hours(1));
  world.calm_from = world.now();
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
  world.Pass(Duration::Minutes(2));
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("has been draining")));
}

// --- I-25 to I-27 --------------------------------------------------------------------------------

TEST_F(CheckersTest, I25_AHealthyAgentStays) {
  world.Add(MakeI25);
  world.Commit("a1#1", {IntentFor(Record(1, kRegistered), IntentKind::kDrain, "unhealthy")});
  world.serving = {IdOf(2), IdOf(3)};
  world.unharmed = {IdOf(3)};
  world.Commit("a1#1", {IntentFor(Record(2, kRegistered), IntentKind::kDrain, "unhealthy"),
                        IntentFor(Record(3, kRegistered), IntentKind::kDrain, "config-drift")});
  EXPECT_THAT(world.violations, IsEmpty());
  world.Commit("a1#1", {IntentFor(Record(3, kRegistered), IntentKind::kDrain, "unhealthy")});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("healthy and connected")));
}

class SilenceTest : public CheckersTest {
 public:
  SilenceTest() : vm(world.VmOf(Record(1, kRegistered), "vm")) {
    world.Add(MakeI25);
    vm.shown.status = ProviderStatus::kRunning;
    for (int number = 1; number <= 9; ++number) world.Write("a1#1", Record(number, kRegistered));
    world.sound_since["a1#1"] = world.now();
    world.Pass(world.settings.times.t_mass * 2);
  }
  // So many of the nine fall silent; then the first is let go.
  void Silence(int many) {
    for (int number = 1; number <= many; ++number) {
      world.agents.push_back(
          {.id = IdOf(number), .shard = ShardA(), .vm = &vm, .up = true, .has_joined = true});
    }
    world.Pass(Duration::Seconds(5));
    world.Pass(Duration::Seconds(40));
    world.Commit("a1#1", {IntentFor(Record(1, kRegistered), IntentKind::kDrain, "unhealthy")});
  }

  SimVm vm;
};

TEST_F(SilenceTest, I25_ManySilentOnesAreNotBelieved) {
  Silence(3);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("3 of 9 members of default/workers")));
  world.violations.clear();
  world.Pass(world.settings.times.t_mass);  // Then they are.
  world.Commit("a1#1", {IntentFor(Record(2, kRegistered), IntentKind::kDrain, "unhealthy")});
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(SilenceTest, I25_TwoAreNotMany) {
  Silence(2);
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(SilenceTest, I25_WhoeverIsHeardIsNotSilent) {
  world.served = {IdOf(2)};
  Silence(3);
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(SilenceTest, I25_WhoeverLeavesAlreadyIsNoMember) {
  world.Commit("a1#1", {IntentFor(Record(2, kRegistered), IntentKind::kDelete, "requested")});
  Silence(3);
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(SilenceTest, I25_WhatWasDecidedBeforeAPauseIsNotJudgedByWhatIsNow) {
  world.sound_since["a1#1"] = world.now() + Duration::Seconds(40);
  Silence(3);
  EXPECT_THAT(world.violations, IsEmpty());
}

// Silent for this long, then back for this long, and then let go.
struct Absence {
  Duration silent;
  Duration back;
};

TEST_F(CheckersTest, I25_TheVerdictOnOneThatWasGivenUpMayMeetItsReturn) {
  world.Add(MakeI25);
  SimVm vm = world.VmOf(Record(1, kRegistered), "vm");
  vm.shown.status = ProviderStatus::kRunning;
  const auto pass = [&](Duration length) {
    for (const Instant end = world.now() + length; world.now() < end;) {
      world.Pass(Duration::Seconds(1));
    }
  };
  const auto let_go = [&](int number, const Absence& absence) {
    world.violations.clear();
    AgentStanding agent = {
        .id = IdOf(number), .shard = ShardA(), .vm = &vm, .up = true, .has_joined = true};
    world.agents = {agent};
    pass(absence.silent);
    agent.serving = true;
    world.agents = {agent};
    world.serving = {agent.id};
    world.unharmed = {agent.id};
    pass(absence.back);
    world.Commit("a1#1", {IntentFor(Record(number, kRegistered), IntentKind::kDrain, "unhealthy")});
    return !world.violations.empty();
  };
  EXPECT_FALSE(let_go(1, {.silent = Duration::Seconds(70), .back = Duration()}));
  EXPECT_FALSE(let_go(2, {.silent = Duration::Seconds(70), .back = Duration::Seconds(2)}));
  EXPECT_TRUE(let_go(3, {.silent = Duration::Seconds(70), .back = Duration::Seconds(20)}));
  EXPECT_TRUE(let_go(4, {.silent = Duration::Seconds(20), .back = Duration()}));
}

TEST_F(CheckersTest, I25_ARunningVmIsNotGone) {
  world.Add(MakeI25);
  InstanceRecord record = Record(1, kRegistered);
  record.provider_instance_id = PutVm(record);
  world.Write("a1#1", record);
  world.serving = {IdOf(1)};
  world.unharmed = {IdOf(1)};
  world.Commit("a1#1", {IntentFor(record, IntentKind::kDelete, "provider-gone")});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("provider-gone")));
  world.violations.clear();
  // T_vis is 5 s here.
  world.real_cloud.lies().finds_nothing = true;
  for (int i = 0; i < 5; ++i) world.Pass(Duration::Seconds(1));
  world.Commit("a1#1", {IntentFor(record, IntentKind::kDelete, "provider-gone")});
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(CheckersTest, I25_WhoeverIsDeniedForAMomentIsNotGone) {
  world.Add(MakeI25);
  world.Pass(Duration::Minutes(1));
  InstanceRecord record = Record(1, kRegistered);
  record.provider_instance_id = PutVm(record);
  world.Write("a1#1", record);
  world.real_cloud.lies().finds_nothing = true;
  world.Pass(Duration::Seconds(1));
  world.Pass(Duration::Seconds(1));
  world.real_cloud.lies().finds_nothing = false;
  world.Pass(Duration::Seconds(1));
  world.Commit("a1#1", {IntentFor(record, IntentKind::kDelete, "provider-gone")});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("whose VM is there")));
  ASSERT_TRUE(world.real_cloud.VanishByHand(record.provider_instance_id));
  world.violations.clear();
  world.Commit("a1#1", {IntentFor(record, IntentKind::kDelete, "provider-gone")});
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(CheckersTest, I26_OneInstancePerRequest) {
  world.Add(MakeI26);
  Intent first = IntentFor(Record(1, kCreating), IntentKind::kCreate, "on-demand");
  first.request_id = "r1";
  world.Commit("a1#1", {first});
  InstanceRecord cancelled = Record(1, kGone);
  cancelled.failure = RecordFailure{.code = "cancelled", .message = "x"};
  world.Write("a1#1", cancelled);
  Intent second = IntentFor(Record(2, kCreating), IntentKind::kCreate, "on-demand");
  second.request_id = "r1";
  world.Commit("a1#1", {second});
  InstanceRecord record = Record(2, kCreating);
  record.request_id = "r1";
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, IsEmpty());
  Intent third = IntentFor(Record(3, kCreating), IntentKind::kCreate, "on-demand");
  third.request_id = "r1";
  world.Commit("a1#1", {third});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("for request r1")));
}

TEST_F(CheckersTest, I26_OneAnswerPerRequest) {
  world.Add(MakeI26);
  const auto answer = [&](const std::string& id) {
    const OperatorAnswer told = {.tenant = Prod(),
                                 .shard = ShardA(),
                                 .request = api::CreateInstanceRequest{.request_id = "r1"},
                                 .sent = world.now(),
                                 .instance_id = id};
    world.Each([&](Checker& checker) { checker.OnAnswer(told); });
  };
  answer("x");
  answer("x");
  EXPECT_THAT(world.violations, IsEmpty());
  answer("y");
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("answered with x and with y")));
}

TEST_F(CheckersTest, I27_TheLeaderHasItsAddress) {
  world.Add(MakeI27);
  SimLoop loop(world.scheduler, WorldStart());
  SimProvider provider(world.real_cloud, loop,
                       {.process = "a1#1", .cluster = SimCluster(), .shard = ShardA()});
  const Pending call = provider.AssignLeaderNetwork(
      {.epoch = 1, .deadline = loop.Now() + Duration::Seconds(10)},
      config::LeaderNetwork{.ip = LeaderAddress(ShardA())}, [](const ProviderResult<void>&) {});
  world.Pass(Duration::Seconds(1));
  world.servers = {{.name = "a1#1", .shard = ShardA(), .leads = true, .acting = true}};
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
  world.servers.front().name = "a1#2";
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty()) << "the same machine";
  world.servers.front().name = "a2#1";
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("the address is held by a1#1")));
}

// --- I-12: idle costs ----------------------------------------------------------------------------

class IdleTest : public CheckersTest {
 public:
  IdleTest() {
    world.Add(MakeI12);
    world.servers = {{.name = "a1#1", .shard = ShardA(), .leads = true, .acting = true},
                     {.name = "a2#1", .shard = ShardA()}};
    world.calm_from = world.now();
  }
  void Renew() {
    calls.push_back(store.Put(
        {.key = ObjectKey::Parse("leader/a.json").value(), .bytes = "x", .condition = IfAbsent{}},
        [](const Result<ObjectVersion>&) {}));
  }
  void Read() {
    calls.push_back(
        store.Get(ObjectKey::Parse("leader/a.json").value(), [](const Result<Object>&) {}));
  }
  SimLoop loop{world.scheduler, WorldStart()};
  SimObjectStore store{world.real_bucket, loop, {.process = "a1#1"}};
  std::vector<Pending> calls;
};

TEST_F(IdleTest, I12_RenewalsAndPollsAreFine) {
  for (int i = 0; i < 100; ++i) {
    Renew();
    Read();
    world.Pass(Duration::Seconds(2));
  }
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(IdleTest, I12_MoreIsNot) {
  for (int i = 0; i < 200; ++i) {
    for (int n = 0; n < 4; ++n) Read();
    Renew();
    Renew();
    world.Pass(Duration::Seconds(1));
  }
  AtQuiet();
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("reads by 2 servers"), HasSubstr("writes of leases")));
}

TEST_F(IdleTest, I12_WritesThatArriveLateAreNotOfTheCalm) {
  const ObjectKey key = ObjectKey::Parse("probe/a/1").value();
  world.real_bucket.SetByHand(key, "x");
  store.faults() = {
      .applied_late = 10'000, .late_min = Duration::Minutes(2), .late_max = Duration::Minutes(4)};
  for (int i = 0; i < 10; ++i) {
    calls.push_back(store.Put({.key = key, .bytes = "y", .condition = IfAbsent{}},
                              [](const Result<ObjectVersion>&) {}));
  }
  store.faults() = {};
  world.Pass(Duration::Minutes(5));
  EXPECT_EQ(world.real_bucket.Count(SimMethod::kPut, "probe"), 10U) << "all were refused";
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(IdleTest, I12_WritesThatAreRefusedCount) {
  const ObjectKey key = ObjectKey::Parse("probe/a/1").value();
  world.real_bucket.SetByHand(key, "x");
  for (int i = 0; i < 100; ++i) {
    calls.push_back(store.Put({.key = key, .bytes = "y", .condition = IfAbsent{}},
                              [](const Result<ObjectVersion>&) {}));
    world.Pass(Duration::Seconds(1));
  }
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("other writes by 2 servers")));
}

TEST_F(IdleTest, I12_WhoIsGivenItsCertificateAgainIsWork) {
  const ObjectKey key = ObjectKey::Parse("operator/default.x.json").value();
  world.real_bucket.SetByHand(key, "x");
  const IssuedCertificate again = {.process = "operator-default", .certificate = SomeCertificate()};
  for (int i = 0; i < 4; ++i) {
    world.Pass(Duration::Minutes(1));
    calls.push_back(store.Put({.key = key, .bytes = "y", .condition = IfAbsent{}},
                              [](const Result<ObjectVersion>&) {}));
    world.Pass(Duration::Seconds(1));
    world.Each([&](Checker& checker) { checker.OnCertificate(again); });
  }
  world.Pass(Duration::Minutes(2));
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(IdleTest, I12_WorkIsNotIdleness) {
  for (int i = 0; i < 200; ++i) {
    for (int n = 0; n < 4; ++n) Read();
    world.Pass(Duration::Seconds(1));
    world.Put("a1#1", "certlog/a/x", "y");
  }
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
}

}  // namespace
}  // namespace nstance::sim

// Every checker sees one course of events that is as it should be, and at least one that is not.
// The events are said by the test: test/sim/fake_checker_world.h.
#include "sim/checkers/checkers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/checkers/size_history.h"
#include "test/sim/checkers_fixture.h"

namespace nstance::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using enum InstancePhase;

// --- I-13 to I-15: records and VMs ---------------------------------------------------------------

TEST_F(CheckersTest, I13_AVmNeedsARecordOrAnIntent) {
  world.Add(MakeI13);
  const InstanceRecord record = Record(1, kCreating);
  world.Write("a1#1", record);
  world.Created(world.VmOf(record, "sim-000001"));
  const InstanceRecord intended = Record(2, kCreating);
  world.Commit("a1#1", {IntentFor(intended, IntentKind::kCreate)});
  world.Created(world.VmOf(intended, "sim-000002"));
  EXPECT_THAT(world.violations, IsEmpty());
  world.Created(world.VmOf(Record(3, kCreating), "sim-000003"));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("neither record nor intent")));
}

TEST_F(CheckersTest, I13_MarksAgreeWithTheRecord) {
  world.Add(MakeI13);
  const InstanceRecord record = Record(1, kCreating);
  world.Write("a1#1", record);
  SimVm vm = world.VmOf(record, "sim-000001");
  vm.shown.tenant = "prod";
  world.Created(vm);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("another tenant")));
}

TEST_F(CheckersTest, I13_ATombstoneIsKeptForItsTime) {
  world.Add(MakeI13);
  for (const int number : {1, 2}) world.Write("a1#1", Record(number, kGone));
  world.Pass(Duration::Minutes(20));
  world.Erase("", FakeCheckerWorld::KeyOf(Record(1, kGone)));
  EXPECT_THAT(world.violations, IsEmpty());
  world.Erase("a1#1", FakeCheckerWorld::KeyOf(Record(2, kGone)));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("after 20m")));
}

TEST_F(CheckersTest, I13_TheTimeOfATombstoneIsNotWhatItSays) {
  world.Add(MakeI13);
  InstanceRecord record = Record(1, kGone);
  record.phase_at = world.wall() - Duration::Days(2);
  world.Write("a1#1", record);
  world.Pass(Duration::Minutes(1));
  world.Write("a2#1", record);
  world.Pass(Duration::Minutes(19));
  world.walls_true_since = Instant::Never();
  world.Erase("a1#1", FakeCheckerWorld::KeyOf(record));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("after 20m")));
}

TEST_F(CheckersTest, I13_ARecordStaysAsLongAsItsVm) {
  world.Add(MakeI13);
  const InstanceRecord gone = Record(1, kGone);
  world.Write("a1#1", gone);
  const InstanceRecord late = Record(2, kGone);
  world.Write("a1#1", late);
  world.Pass(Duration::Hours(26));
  world.Erase("a1#1", FakeCheckerWorld::KeyOf(gone));
  EXPECT_THAT(world.violations, IsEmpty());
  PutVm(late);
  world.Erase("a1#1", FakeCheckerWorld::KeyOf(late));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("still there")));
}

TEST_F(CheckersTest, I14_RecordsAndVmsMatch) {
  world.Add(MakeI14);
  InstanceRecord record = Record(1, kRegistered);
  record.provider_instance_id = PutVm(record);
  world.Write("a1#1", record);
  world.Write("a1#1", Record(2, kGone));
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(CheckersTest, I14_APhantomIsFound) {
  world.Add(MakeI14);
  world.Write("a1#1", Record(1, kRegistered));
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("phantom")));
}

TEST_F(CheckersTest, I14_OfABlockedIdentityTheRecordStays) {
  world.Add(MakeI14);
  InstanceRecord record = Record(1, kRegistered);
  record.blocked = RecordMark{.reason = "clone", .at = world.wall()};
  world.Write("a1#1", record);
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(CheckersTest, I14_ALeakIsFound) {
  world.Add(MakeI14);
  const InstanceRecord gone = Record(1, kGone);
  world.Write("a1#1", gone);
  PutVm(gone);
  PutVm(Record(2, kGone));
  AtQuiet();
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("its record is gone"), HasSubstr("there is no record")));
}

TEST_F(CheckersTest, I14_AnotherVmThanTheRecordedIsFound) {
  world.Add(MakeI14);
  InstanceRecord record = Record(1, kRegistered);
  PutVm(record);
  record.provider_instance_id = "sim-000077";
  world.Write("a1#1", record);
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("its VM is sim-000001")));
}

TEST_F(CheckersTest, I15_OneVmPerInstance) {
  world.Add(MakeI15);
  const InstanceRecord record = Record(1, kCreating);
  const SimVm first = world.VmOf(record, "sim-000001");
  world.Created(first);
  world.Vm({.at = world.now(),
            .process = {},
            .vm = &first,
            .before = ProviderStatus::kPending,
            .after = ProviderStatus::kDeleted});
  world.Created(world.VmOf(record, "sim-000002"));
  EXPECT_THAT(world.violations, IsEmpty());
  world.Created(world.VmOf(record, "sim-000003"));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("has 2 VMs")));
}

TEST_F(CheckersTest, I15_AProvidersDuplicateIsGoneInTheEnd) {
  world.Add(MakeI15);
  const InstanceRecord record = Record(1, kCreating);
  world.real_cloud.lies().forgets_token = 1;
  world.Created(world.VmOf(record, "sim-000001"));
  world.Created(world.VmOf(record, "sim-000002"));
  EXPECT_THAT(world.violations, IsEmpty());
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("still has 2 VMs")));
}

// --- I-16 to I-18: phases and sizes --------------------------------------------------------------

TEST_F(CheckersTest, I16_ALifeFromCreatingToGone) {
  world.Add(MakeI16);
  for (const InstancePhase phase :
       {kCreating, kProvisioned, kRegistered, kDraining, kRegistered, kDeleting, kGone}) {
    world.Write("a1#1", Record(1, phase));
  }
  world.Erase("a1#1", FakeCheckerWorld::KeyOf(Record(1, kGone)));
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(CheckersTest, I16_WrongTurnsAreFound) {
  world.Add(MakeI16);
  world.Write("a1#1", Record(1, kRegistered));
  world.Write("a1#1", Record(1, kDeleting));
  world.Write("a1#1", Record(1, kRegistered));
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("begins as registered"), HasSubstr("deleting -> registered")));
  world.violations.clear();
  world.Write("", Record(1, kCreating));  // By hand.
  EXPECT_THAT(world.violations, IsEmpty());
  world.Erase("a1#1", FakeCheckerWorld::KeyOf(Record(1, kCreating)));
  world.Write("a1#1", Record(1, kCreating));
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("removed while creating"), HasSubstr("used again")));
}

TEST_F(CheckersTest, I16_AnInstanceStaysInItsGroup) {
  world.Add(MakeI16);
  InstanceRecord record = Record(1, kCreating);
  world.Write("a1#1", record);
  record.group = GroupKey::Parse("other").value();
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("another group")));
}

TEST_F(CheckersTest, I17_GroupsHaveTheirSize) {
  world.Add(MakeI17);
  world.desired[{DefaultTenant(), Workers()}] = 2;
  world.Write("a1#1", Record(1, kRegistered));
  InstanceRecord replacement = Record(2, kProvisioned);
  replacement.replaces = IdOf(1);
  world.Write("a1#1", replacement);
  world.Write("a1#1", Record(3, kRegistered));
  world.Commit("a1#1", {IntentFor(Record(4, kDraining), IntentKind::kDrain, "scale-down")});
  world.Write("a1#1", Record(4, kDraining));
  InstanceRecord extra = Record(5, kRegistered);
  extra.on_demand = true;
  world.Write("a1#1", extra);
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
  world.Write("a1#1", Record(6, kRegistered));
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("2 are desired")));
}

TEST_F(CheckersTest, I17_WhatIsOnDemandIsNotScaledDown) {
  world.Add(MakeI17);
  InstanceRecord record = Record(1, kRegistered);
  record.on_demand = true;
  world.Write("a1#1", record);
  world.Write("a1#1", Record(2, kRegistered));
  world.Commit("a1#1", {IntentFor(record, IntentKind::kDelete, "requested"),
                        IntentFor(Record(2, kRegistered), IntentKind::kDrain, "scale-down")});
  EXPECT_THAT(world.violations, IsEmpty());
  world.Commit("a1#1", {IntentFor(record, IntentKind::kDrain, "scale-down")});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("which is on-demand")));
}

TEST_F(CheckersTest, I17_ARotationIsAPairFromItsIntentOn) {
  world.Add(MakeI17);
  world.desired[{DefaultTenant(), Workers()}] = 1;
  world.Write("a1#1", Record(1, kRegistered));
  Intent rotation = IntentFor(Record(2, kCreating), IntentKind::kCreate, "config-drift");
  rotation.replaces = IdOf(1);
  world.Commit("a1#1", {rotation});
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
  rotation.replaces.reset();
  world.Commit("a1#1", {rotation});
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("2 instances count (0 pairs)")));
}

TEST_F(CheckersTest, I17_AGroupThatNobodyWantsIsEmpty) {
  world.Add(MakeI17);
  world.Write("a1#1", Record(1, kRegistered));
  world.lost = {ShardA()};
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
  world.lost = {};
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("0 are desired")));
}

TEST_F(CheckersTest, I18_AFileThatDoesNotValidateIsNotInForce) {
  world.Add(MakeI18);
  Configure(0);
  for (const std::string_view other : {R"("grups": {},)", R"("server": {"shard": "b"},)"}) {
    world.Put(
        "", "config/a.jsonc",
        fmt::format(R"({{{} "groups": {{"default": {{"workers": {{"size": 9}}}}}}}})", other));
  }
  world.Write("a1#1", Record(1, kRegistered));
  world.Commit("a1#1", {IntentFor(Record(2, kCreating), IntentKind::kCreate)});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("the size is at most 0")));
}

TEST_F(CheckersTest, I18_SurgeIsOne) {
  world.Add(MakeI18);
  Configure(1);
  world.Write("a1#1", Record(1, kRegistered));
  const Intent second = IntentFor(Record(2, kCreating), IntentKind::kCreate);
  world.Commit("a1#1", {second});
  EXPECT_THAT(world.violations, IsEmpty());
  world.Commit("a1#1", {second, IntentFor(Record(3, kCreating), IntentKind::kCreate)});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("3 instances count")));
}

TEST_F(CheckersTest, I18_WhoIsLeavingDoesNotCount) {
  world.Add(MakeI18);
  Configure(1);
  world.Write("a1#1", Record(1, kRegistered));
  world.Write("a1#1", Record(2, kRegistered));
  world.Commit("a1#1", {IntentFor(Record(1, kRegistered), IntentKind::kDrain, "unhealthy"),
                        IntentFor(Record(2, kRegistered), IntentKind::kDelete, "provider-gone"),
                        IntentFor(Record(3, kCreating), IntentKind::kCreate),
                        IntentFor(Record(4, kCreating), IntentKind::kCreate, "on-demand"),
                        IntentFor(Record(5, kCreating), IntentKind::kCreate)});
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(CheckersTest, I18_ALoweredSizeCountsAfterAWhile) {
  world.Add(MakeI18);
  Configure(1);
  const auto set = [&](int size) {
    config::DynamicGroups groups;
    groups[DefaultTenant()][Workers()].layer.size = size;
    world.Put("a1#1", "groups/a.jsonc",
              config::EncodeDynamicGroups(groups, {.epoch = 1, .seq = 1, .write_id = "w"}));
  };
  set(5);
  for (int i = 1; i <= 5; ++i) world.Write("a1#1", Record(i, kRegistered));
  set(2);
  world.Commit("a1#1", {IntentFor(Record(6, kCreating), IntentKind::kCreate)});
  EXPECT_THAT(world.violations, IsEmpty());
  world.Pass(SizeHistory::kLag + Duration::Seconds(1));
  world.Commit("a1#1", {IntentFor(Record(7, kCreating), IntentKind::kCreate)});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("the size is at most 2")));
}

// --- I-19, I-20: deletions -----------------------------------------------------------------------

TEST_F(CheckersTest, I19_ADeletionNeedsItsIntent) {
  world.Add(MakeI19);
  const InstanceRecord record = Record(1, kDeleting);
  const SimVm vm = world.VmOf(record, record.provider_instance_id);
  world.Commit("a1#1", {IntentFor(record, IntentKind::kDelete, "requested")});
  world.Commit("a1#1", {});
  world.Deleted(vm);
  EXPECT_THAT(world.violations, IsEmpty());
  world.Deleted(vm, 0);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("the intent is of epoch 1")));
  world.violations.clear();
  world.Commit("a1#1", {IntentFor(Record(2, kDraining), IntentKind::kDrain, "unhealthy")});
  world.Deleted(world.VmOf(Record(2, kDraining), "sim-000002"));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("no delete intent was ever durable")));
}

TEST_F(CheckersTest, I20_OnlyWhatIsDurablyDeletingGoes) {
  world.Add(MakeI20);
  const InstanceRecord record = Record(1, kDeleting);
  world.Write("a1#1", record);
  world.Deleted(world.VmOf(record, record.provider_instance_id));
  const InstanceRecord healthy = Record(2, kRegistered);
  world.Write("a1#1", healthy);
  world.Deleted(world.VmOf(healthy, "sim-000099"));  // A duplicate.
  EXPECT_THAT(world.violations, IsEmpty());
  world.Deleted(world.VmOf(healthy, healthy.provider_instance_id));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("its record is registered")));
}

TEST_F(CheckersTest, I20_WhatIsNotOursStays) {
  world.Add(MakeI20);
  SimVm vm = world.VmOf(Record(1, kDeleting), "sim-000001");
  vm.shown.cluster_id = "other";
  world.Deleted(vm);
  vm.shown.cluster_id = SimCluster().text();
  vm.shown.instance_id.reset();
  world.Deleted(vm);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("none of ours"), HasSubstr("none of ours")));
}

// --- I-1 to I-8: leadership and storage ----------------------------------------------------------

TEST_F(CheckersTest, I01_AnOldEpochIsOver) {
  world.Add(MakeI01);
  world.Commit("a1#1", {});
  world.journal.epoch = 2;
  world.Commit("a2#1", {});
  EXPECT_THAT(world.violations, IsEmpty());
  world.journal.epoch = 1;
  world.Commit("a1#1", {});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("under epoch 1, after a write of epoch 2")));
}

TEST_F(CheckersTest, I01_AnOldEpochOfGroupsIsOver) {
  world.Add(MakeI01);
  const auto write = [&](std::int64_t epoch) {
    world.Put("a1#1", "groups/a.jsonc",
              config::EncodeDynamicGroups({}, {.epoch = epoch, .seq = 1, .write_id = "w"}));
  };
  write(1);
  write(2);
  EXPECT_THAT(world.violations, IsEmpty());
  write(1);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("groups/a.jsonc")));
}

TEST_F(CheckersTest, I01_ALateRequestWasReadByTheNewLeader) {
  world.Add(MakeI01);
  const InstanceRecord early = Record(1, kCreating);
  const InstanceRecord late = Record(2, kCreating);
  world.Commit("a1#1", {IntentFor(early, IntentKind::kCreate)});
  world.journal.epoch = 2;
  world.Commit("a2#1", world.journal.intents);
  world.Created(world.VmOf(early, "sim-000001"), 1);
  EXPECT_THAT(world.violations, IsEmpty());
  world.Commit("a2#1", {IntentFor(late, IntentKind::kCreate)});
  world.Created(world.VmOf(late, "sim-000002"), 1);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("its intent first stood in epoch 2")));
}

TEST_F(CheckersTest, I01_ADuplicateGoesByTheRecordThatItsLeaderHadRead) {
  world.Add(MakeI01);
  world.Commit("a1#1", {});
  const InstanceRecord record = Record(1, kRegistered);
  world.Write("a1#1", record);
  world.journal.epoch = 2;
  world.Commit("a2#1", {});
  world.Deleted(world.VmOf(record, "sim-000099"), 2);
  world.Deleted(world.VmOf(record, "sim-000098"), 1);  // It comes late; the record is older.
  EXPECT_THAT(world.violations, IsEmpty());
  world.Deleted(world.VmOf(record, record.provider_instance_id), 2);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("its intent was never durable")));
  world.violations.clear();
  // Which one is kept was decided by a later leader: the older one had nothing to go by.
  const InstanceRecord later = Record(2, kRegistered);
  world.Write("a2#1", later);
  world.Deleted(world.VmOf(later, "sim-000097"), 1);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("its intent was never durable")));
  world.violations.clear();
  // No record names a VM.
  InstanceRecord nameless = Record(3, kRegistered);
  nameless.provider_instance_id.clear();
  world.Write("a2#1", nameless);
  world.Deleted(world.VmOf(nameless, "sim-000096"), 2);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("its intent was never durable")));
}

TEST_F(CheckersTest, I01_ALeaderThatWasReplacedSignsNothing) {
  world.Add(MakeI01);
  world.Pass(Duration::Minutes(1));
  world.journal.epoch = 2;
  world.Commit("a2#1", {});
  ServerStanding server = {.name = "a2#1", .shard = ShardA(), .leads = true, .epoch = 2};
  world.Each([&](Checker& checker) { checker.OnStep(server, Step::kR6); });
  EXPECT_THAT(world.violations, IsEmpty());
  server.epoch = 1;
  world.rates_true_since = world.now();
  world.Each([&](Checker& checker) { checker.OnStep(server, Step::kR6); });
  EXPECT_THAT(world.violations, IsEmpty());
  world.rates_true_since = {};
  world.Each([&](Checker& checker) { checker.OnStep(server, Step::kR6); });
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("signs under epoch 1")));
}

TEST_F(CheckersTest, I01_WhoeverDoesNotLeadBeginsNoEffect) {
  world.Add(MakeI01);
  world.Commit("a1#1", {});
  ServerStanding server = {.name = "a1#1", .shard = ShardA(), .leads = true, .epoch = 1};
  const auto pass = [&](Step step) {
    world.Each([&](Checker& checker) { checker.OnStep(server, step); });
  };
  for (const Step step : {Step::kC4, Step::kX3, Step::kR6, Step::kW5}) pass(step);
  server.leads = false;
  pass(Step::kL8);
  EXPECT_THAT(world.violations, IsEmpty());
  for (const Step step : {Step::kC4, Step::kX3, Step::kR6, Step::kW5}) pass(step);
  EXPECT_THAT(world.violations, SizeIs(4));
}

TEST_F(CheckersTest, I02_OneHolderPerEpoch) {
  world.Add(MakeI02);
  world.Commit("a1#1", {});
  world.Commit("a1#1", {});
  world.journal.epoch = 2;
  world.Commit("a2#1", {});
  EXPECT_THAT(world.violations, IsEmpty());
  world.Commit("a1#1", {});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("held by a2#1 and by a1#1")));
  world.violations.clear();
  world.journal.epoch = 4;
  world.Commit("a1#1", {});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("from epoch 2 to 4")));
}

TEST_F(CheckersTest, I02_TermsRiseWithTheHolder) {
  world.Add(MakeI02);
  WriteLease("a1#1", "0000000000000001", 1);
  WriteLease("a1#1", "0000000000000001", 1);
  WriteLease("a2#1", "0000000000000002", 2);
  EXPECT_THAT(world.violations, IsEmpty());
  WriteLease("a1#1", "0000000000000001", 2);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("term 2 over term 2")));
}

TEST_F(CheckersTest, I03_WhoLeadsHasTheLease) {
  world.Add(MakeI03);
  world.Pass(Duration::Minutes(1));
  WriteLease("a1#1", "0000000000000001", 1);
  const ServerStanding server = {
      .name = "a1#1", .shard = ShardA(), .leads = true, .incarnation = "0000000000000001"};
  const auto after_task = [&] { world.Each([&](Checker& checker) { checker.AfterTask(server); }); };
  after_task();
  EXPECT_THAT(world.violations, IsEmpty());
  WriteLease("a2#1", "0000000000000002", 2);
  world.rates_true_since = world.now();
  after_task();
  EXPECT_THAT(world.violations, IsEmpty());
  world.rates_true_since = {};
  after_task();
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("a1#1 (0000000000000001) says that it leads")));
}

TEST_F(CheckersTest, I05_OneLeader) {
  world.Add(MakeI05);
  world.servers = {{.name = "a1#1", .shard = ShardA(), .leads = true, .acting = true},
                   {.name = "a2#1", .shard = ShardA()},
                   {.name = "b1#1", .shard = ShardB(), .leads = true, .acting = true}};
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
  world.servers[1].leads = true;
  world.servers[1].acting = true;
  world.servers[2].acting = false;
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("shard a has 2 leaders: a1#1, a2#1"),
                                            HasSubstr("shard b has 0 leaders")));
}

TEST_F(CheckersTest, I06_WritesAreConditional) {
  world.Add(MakeI06);
  world.Put("a1#1", "secret/x", "1");
  world.Put("", "secret/x", "2", SimMethod::kPutUnconditionally);
  EXPECT_THAT(world.violations, IsEmpty());
  world.Put("a1#1", "secret/x", "3", SimMethod::kPutUnconditionally);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("a1#1 wrote secret/x unconditionally")));
}

TEST_F(CheckersTest, I07_TheJournalCountsItsWrites) {
  world.Add(MakeI07);
  world.Commit("a1#1", {IntentFor(Record(1, kCreating), IntentKind::kCreate)});
  world.Commit("a1#1", {});
  EXPECT_THAT(world.violations, IsEmpty());
  world.journal.seq += 1;
  world.Commit("a1#1", {});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("seq 4 after 2")));
}

TEST_F(CheckersTest, I07_ATakeOverKeepsIntentsAndAcks) {
  world.Add(MakeI07);
  Intent drain = IntentFor(Record(1, kDraining), IntentKind::kDrain, "scale-down");
  drain.acked_at = world.wall();
  world.Commit("a1#1", {drain});
  world.journal.epoch = 2;
  world.Commit("a2#1", world.journal.intents);
  EXPECT_THAT(world.violations, IsEmpty());
  std::vector<Intent> without = world.journal.intents;
  without.front().acked_at.reset();
  world.Commit("a2#1", without);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("lost its ack")));
  world.violations.clear();
  world.journal.epoch = 3;
  world.Commit("a1#2", {});
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("take-over lost the intent")));
}

TEST_F(CheckersTest, I07_ATakeOverKeepsGroups) {
  world.Add(MakeI07);
  config::DynamicGroups groups;
  groups[Prod()][Workers()].layer.size = 3;
  const auto write = [&](std::int64_t epoch, std::int64_t seq) {
    world.Put("a1#1", "groups/a.jsonc",
              config::EncodeDynamicGroups(groups, {.epoch = epoch, .seq = seq, .write_id = "w"}));
  };
  write(1, 1);
  groups[Prod()][Workers()].layer.size = 4;
  write(1, 2);
  write(2, 3);
  EXPECT_THAT(world.violations, IsEmpty());
  groups.clear();
  write(3, 4);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("the take-over changed the groups")));
}

TEST_F(CheckersTest, I07_RecordsKeepWhatOtherProgramsNote) {
  world.Add(MakeI07);
  InstanceRecord record = Record(1, kProvisioned);
  record.unknown = {{.key = "note", .key_position = {}, .value = json::Value::String("seen")}};
  world.Write("", record);
  record.hostname = "x";
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, IsEmpty());
  record.unknown = {};
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("not ours was lost")));
}

TEST_F(CheckersTest, I07_RecordsKeepWhatWasSet) {
  world.Add(MakeI07);
  world.journal.epoch = 2;
  InstanceRecord record = Record(1, kProvisioned);
  world.Write("a1#1", record);
  record = Record(1, kRegistered);
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, IsEmpty());
  InstanceRecord worse = record;
  worse.provider_instance_id.clear();
  world.Write("a1#1", worse);
  world.Write("", record);
  worse = record;
  worse.generation = 0;
  world.Write("a1#1", worse);
  world.Write("", record);
  worse = record;
  worse.epoch = 1;
  world.Write("a1#1", worse);
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("provider_instance_id was lost"), HasSubstr("generation was"),
                          HasSubstr("epoch 1 seq 0 after epoch 2")));
}

class AnswersTest : public CheckersTest {
 public:
  AnswersTest() { world.Add(MakeI08); }
  void Set(std::optional<int> size) {
    config::DynamicGroups groups;
    if (size) groups[Prod()][Workers()].layer.size = *size;
    world.Put("a1#1", "groups/a.jsonc",
              config::EncodeDynamicGroups(groups, {.epoch = 1, .seq = 1, .write_id = "w"}));
  }
  void Answer(OperatorAnswer::Request request, Instant sent, std::string id = {}) {
    Tell({.tenant = Prod(),
          .shard = ShardA(),
          .request = std::move(request),
          .sent = sent,
          .instance_id = std::move(id)});
  }
  void Refuse(OperatorAnswer::Request request, Instant sent, Error why) {
    Tell({.tenant = Prod(),
          .shard = ShardA(),
          .request = std::move(request),
          .sent = sent,
          .status = Fail(std::move(why))});
  }
  void Tell(const OperatorAnswer& answer) {
    world.Each([&](Checker& checker) { checker.OnAnswer(answer); });
  }
  // Until every call that was under way is answered.
  void PassCalls() { world.Pass(Duration::Seconds(15)); }
  [[nodiscard]] static api::DeleteGroupRequest Delete() { return {.key = "workers"}; }
  [[nodiscard]] static api::UpsertGroupRequest Upsert(int size, std::string request_id = {}) {
    return {.key = "workers",
            .config = api::GroupConfig{.size = size},
            .request_id = std::move(request_id)};
  }
};

TEST_F(AnswersTest, I08_AnUpsertWasStoredSinceItWasSent) {
  Set(3);
  world.Pass(Duration::Seconds(10));
  const Instant sent = world.now();
  Answer(Upsert(3), sent);
  world.Pass(Duration::Seconds(1));
  Set(4);
  Answer(Upsert(4), sent);
  world.Pass(Duration::Seconds(1));
  Set(5);
  Answer(Upsert(4), sent);
  PassCalls();
  EXPECT_THAT(world.violations, IsEmpty());
  world.Pass(Duration::Seconds(1));
  Answer(Upsert(4), world.now());
  PassCalls();
  Answer(Upsert(9), world.now());
  PassCalls();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("never had size 4"), HasSubstr("size 9")));
}

TEST_F(AnswersTest, I08_ChangesThatShareAWriteOvertakeEachOther) {
  Set(std::nullopt);
  world.Pass(Duration::Seconds(10));
  const Instant sent = world.now();
  world.Pass(Duration::Seconds(3));
  // Together they changed nothing; who is answered first does not matter.
  Answer(Upsert(8), sent);
  Answer(Delete(), sent);
  Answer(Upsert(9), sent);
  PassCalls();
  EXPECT_THAT(world.violations, IsEmpty());
  // The last of them is what was written.
  const Instant again = world.now();
  world.Pass(Duration::Seconds(1));
  Set(2);
  world.Pass(Duration::Seconds(1));
  Answer(Upsert(8), again);
  Refuse(Upsert(2), again, Unavailable("no answer"));
  PassCalls();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(AnswersTest, I08_OnlyACallThatGotItsWishAtThatTimeOvertakes) {
  Set(3);
  world.Pass(Duration::Seconds(20));
  const Instant sent = world.now();
  // One that was over before; one without its wish; one about another group; one that was refused.
  Answer(Upsert(3), sent - Duration::Seconds(10));
  world.Pass(Duration::Seconds(1));
  const Instant later = world.now();
  Answer(Upsert(8), later);
  Answer(Upsert(9), later);
  Answer(api::DeleteGroupRequest{.key = "others"}, later);
  Refuse(Upsert(3), later, InvalidArgument("no"));
  world.Pass(Duration::Seconds(1));
  // After it.
  Answer(Upsert(3), world.now());
  PassCalls();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("size 8"), HasSubstr("size 9")));
  world.violations.clear();
  // And one that nothing can overtake any more.
  Answer(Upsert(8), world.now());
  world.Each([](Checker& checker) { checker.AtEnd(); });
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("size 8")));
}

TEST_F(AnswersTest, I08_ARepeatMayBeOld) {
  Set(3);
  world.Pass(Duration::Minutes(5));
  Set(4);
  world.Pass(Duration::Minutes(5));
  Answer(Upsert(3, "r1"), world.now());
  PassCalls();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(AnswersTest, I08_AFilesSizeNeedsNoLayer) {
  world.Put("", "config/a.jsonc", R"({"groups": {"prod": {"workers": {"size": 7}}}})");
  Answer(Upsert(7), world.now());
  PassCalls();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(AnswersTest, I08_ADeletedGroupIsGone) {
  Set(3);
  world.Pass(Duration::Seconds(1));
  Answer(Delete(), world.now());
  PassCalls();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("was never deleted")));
  world.violations.clear();
  const Instant sent = world.now();
  Set(std::nullopt);
  Answer(Delete(), sent);
  PassCalls();
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(AnswersTest, I08_InstancesAreStored) {
  InstanceRecord record = Record(1, kCreating);
  record.tenant = Prod();
  record.on_demand = true;
  record.request_id = "r1";
  const api::CreateInstanceRequest create = {.request_id = "r1"};
  Answer(create, world.now(), record.instance_id.text());
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("has no record")));
  world.violations.clear();
  world.Write("a1#1", record);
  Answer(create, world.now(), record.instance_id.text());
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(AnswersTest, I08_DeletionsAndAcksAreStored) {
  InstanceRecord record = Record(1, kRegistered);
  record.tenant = Prod();
  world.Write("a1#1", record);
  const std::string id = record.instance_id.text();
  Answer(api::DeleteInstanceRequest{.instance_id = id}, world.now());
  Answer(api::DrainAckRequest{.instance_id = id}, world.now());
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("has no intent"), HasSubstr("its drain has no ack")));
  world.violations.clear();
  Answer(api::DeleteInstanceRequest{.instance_id = IdOf(2).text()}, world.now());
  world.Commit("a1#1", {IntentFor(record, IntentKind::kDelete, "requested")});
  world.Commit("a1#1", {});
  Answer(api::DeleteInstanceRequest{.instance_id = id}, world.now());
  Answer(api::DrainAckRequest{.instance_id = id}, world.now());
  EXPECT_THAT(world.violations, IsEmpty());
}

}  // namespace
}  // namespace nstance::sim

// The fleet engine in a simulated world: what operators see of it, one test each; then failovers at
// every moment over seeds, with the cloud and the bucket as judges.
#include "server/fleet/fleet.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/object_layout.h"
#include "test/server/fleet/fleet_world.h"

namespace nstance::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<InstanceId> Registered(World& world) {
  std::vector<InstanceId> out;
  for (const Instance* instance : world.leader().fleet().OfTenant(DefaultTenant())) {
    if (instance->phase() == InstancePhase::kRegistered) out.push_back(instance->id);
  }
  return out;
}

TEST(FleetTest, AGroupComesUp) {
  World world({.size = 3});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(3));
  EXPECT_THAT(world.leader().journal().journal().intents, SizeIs(testing::Le(3)));
  world.For(Duration::Seconds(5));
  EXPECT_THAT(world.leader().journal().journal().intents, IsEmpty());
  EXPECT_THAT(world.leader().errors, IsEmpty());
}

TEST(FleetTest, ItScalesUpAndDown) {
  World world({.size = 3});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(3));
  world.leader().SetSize(7);
  ASSERT_TRUE(world.UntilReady(7));
  world.leader().SetSize(2);
  ASSERT_TRUE(world.UntilReady(2));
  int drained = 0;
  for (const api::InstanceEvent& event : world.leader().events) {
    if (event.status == "pending_deletion") {
      ++drained;
      EXPECT_EQ(event.reason, "scale-down");
    }
  }
  EXPECT_EQ(drained, 5);
}

TEST(FleetTest, AMachineThatDiesIsReplacedAtOnce) {
  World world({.size = 3});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(3));
  const auto creates = world.cloud().Count(sim::SimProviderMethod::kCreate);
  const sim::SimVm* victim = world.cloud().Vms().front();
  ASSERT_TRUE(world.cloud().SetStatusByHand(victim->provider_id, ProviderStatus::kStopped));
  // Well below any interval of health checks.
  ASSERT_TRUE(
      world.Until([&] { return world.cloud().Count(sim::SimProviderMethod::kCreate) > creates; },
                  Duration::Seconds(2)));
  ASSERT_TRUE(world.UntilReady(3));
}

TEST(FleetTest, AVmThatCameAfterTheEndOfItsInstanceIsDeletedByItsOwnId) {
  World world({.size = 1});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(1));
  const ProviderInstance late = world.cloud().Vms().front()->shown;
  world.leader().SetSize(0);
  ASSERT_TRUE(world.Until([&] { return world.cloud().Vms().empty(); }));
  world.For(Duration::Minutes(1));
  // A creation that was under way all the time: the same instance, another VM.
  world.cloud().AddByHand(late);
  ASSERT_EQ(world.cloud().Vms().size(), 1U);
  EXPECT_TRUE(world.Until([&] { return world.cloud().Vms().empty(); }, Duration::Minutes(20)));
}

TEST(FleetTest, OfTwoVmsForOneInstanceTheRecordedOneStays) {
  World world({.size = 1});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(1));
  ProviderInstance second = world.cloud().Vms().front()->shown;
  const std::string recorded = second.provider_instance_id;
  second.status = ProviderStatus::kPending;  // The world runs one agent per instance.
  world.cloud().AddByHand(second);
  ASSERT_EQ(world.cloud().Vms().size(), 2U);
  EXPECT_TRUE(world.UntilReady(1, Duration::Minutes(20)));
  EXPECT_EQ(world.cloud().Vms().front()->provider_id, recorded);
}

TEST(FleetTest, ASecondVmIsAnAlarmOfItsTenant) {
  World world({.size = 1});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(1));
  ProviderInstance second = world.cloud().Vms().front()->shown;
  second.status = ProviderStatus::kPending;
  world.cloud().AddByHand(second);
  ASSERT_TRUE(world.Until([&] { return !world.leader().alarms.empty(); }));
  EXPECT_THAT(world.leader().alarms, ElementsAre("duplicate_vm"));
  ASSERT_THAT(world.leader().errors, SizeIs(1));
  EXPECT_TRUE(world.leader().errors[0].starts_with("alarm duplicate_vm: "));
}

// Both when the new leader cannot see its VM at first, and when nothing is listed to it.
TEST(FleetTest, I14_AnInstanceThatRegisteredUnderAnEarlierLeaderLearnsItsVm) {
  for (const bool blind : {false, true}) {
    World world({.size = 1});
    world.Lead("s1");
    ASSERT_TRUE(world.UntilReady(1));
    const InstanceId id = Registered(world).front();
    const std::string vm = world.cloud().VmsOf(id).front()->provider_id;
    // The agent was faster than the answer to its creation, and the leader ended in between.
    bool edited = false;
    world.leader().fleet().EditRecord(
        id,
        [](InstanceRecord& record) -> Status {
          record.provider_instance_id.clear();
          return {};
        },
        [&](const Result<StoredRecord>&) { edited = true; });
    ASSERT_TRUE(world.Until([&] { return edited; }));
    if (blind) world.For(Duration::Minutes(10));  // Old enough to be expected in a listing.
    world.cloud().lies().lists_nothing = true;
    world.Lead("s2");
    ASSERT_TRUE(world.Until([&] { return world.leader().ready(); }));
    world.cloud().lies().lists_nothing = false;
    world.Reconnect();
    EXPECT_TRUE(world.Until([&] {
      return world.leader().fleet().Find(id)->record()->provider_instance_id == vm;
    })) << blind;
    EXPECT_THAT(world.cloud().Vms(), SizeIs(1));
  }
}

// None of them had registered, so no replacement comes before they are given up.
TEST(FleetTest, RU7_ANewLeaderOfAShardWhoseVmsAreAllGoneMakesNewOnes) {
  World world({.size = 2});
  world.Lead("s1");
  const auto provisioned = [&] {
    return world.leader().ready() &&
           std::ranges::count(world.leader().fleet().OfTenant(DefaultTenant()),
                              InstancePhase::kProvisioned, &Instance::phase) == 2;
  };
  ASSERT_TRUE(world.Until(provisioned));
  world.KillLeader();
  while (!world.cloud().Vms().empty()) {
    ASSERT_TRUE(world.cloud().VanishByHand(world.cloud().Vms().front()->provider_id));
  }
  world.For(Duration::Minutes(10));
  world.Lead("s2");
  EXPECT_TRUE(world.UntilReady(2, Duration::Minutes(20)));
}

// An empty listing proves nothing, but every VM is there when it is asked for by name.
TEST(FleetTest, I23_ADrainEndsUnderALeaderToWhomNothingIsListed) {
  World world({.size = 3, .drain_timeout = "60s"});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(3));
  world.leader().SetSize(2);
  ASSERT_TRUE(world.Until([&] { return !world.leader().events.empty(); }));
  const InstanceId id = *ParsePuidv7(world.leader().events.front().instance_id);
  world.cloud().lies().lists_nothing = true;
  world.Lead("s2");
  ASSERT_TRUE(world.Until([&] { return world.leader().ready(); }));
  world.Reconnect();
  world.For(Duration::Seconds(40));
  EXPECT_THAT(world.cloud().VmsOf(id), SizeIs(1)) << "its time is not over";
  EXPECT_TRUE(world.Until([&] { return world.cloud().VmsOf(id).empty(); }, Duration::Minutes(1)));
  EXPECT_THAT(world.cloud().Vms(), SizeIs(2));
}

TEST(FleetTest, I23_ALeaderThatIsListedNothingAndFindsNothingListsAgainSoon) {
  World world({.size = 3, .drain_timeout = "30s", .consistency_window = Duration::Seconds(60)});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(3));
  world.For(Duration::Minutes(10));  // Old enough to be expected in a listing.
  world.leader().SetSize(2);
  ASSERT_TRUE(world.Until([&] { return !world.leader().events.empty(); }));
  const InstanceId id = *ParsePuidv7(world.leader().events.front().instance_id);
  world.cloud().lies().lists_nothing = true;
  world.cloud().lies().finds_nothing = true;
  world.Lead("s2");
  ASSERT_TRUE(world.Until([&] { return world.leader().ready(); }));
  world.Reconnect();
  world.For(Duration::Seconds(45));
  EXPECT_EQ(world.leader().fleet().Find(id)->phase(), InstancePhase::kDraining)
      << "nothing is deleted without a listing";
  world.cloud().lies() = {};
  EXPECT_TRUE(world.Until(
      [&] { return world.leader().fleet().Find(id)->phase() == InstancePhase::kDeleting; },
      Duration::Seconds(8)));
}

// An order to delete, answered when it is durable.
void DeleteNow(World& world, const InstanceId& id) {
  bool answered = false;
  world.leader().fleet().Delete({.tenant = DefaultTenant(), .instance_id = id},
                                [&](const Result<std::string>&) { answered = true; });
  ASSERT_TRUE(world.Until([&] { return answered; }));
}

TEST(FleetTest, C4_F10_AnInstanceWhoseProviderIdIsAnothersByNowIsReplaced) {
  World world({.size = 2});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(2));
  const InstanceId lost = *world.cloud().Vms().front()->shown.instance_id;
  const std::string provider_id = world.cloud().Vms().front()->provider_id;
  // Nobody hears of it before the id is in use again.
  world.leader().provider().faults().event_lost = 10'000;
  ASSERT_TRUE(world.cloud().VanishByHand(provider_id));
  world.cloud().lies().reuses_ids = true;
  world.leader().SetSize(3);
  ASSERT_TRUE(world.UntilReady(3, Duration::Minutes(20)));
  EXPECT_EQ(world.cloud().Find(provider_id)->users, 2);
  EXPECT_THAT(world.leader().alarms, Contains("identity_mismatch"));
  const std::vector<InstanceId> ids = Registered(world);
  EXPECT_EQ(std::ranges::count(ids, lost), 0);
}

TEST(FleetTest, OnlyTheVmOfAnotherInstanceIsAMismatch) {
  World world({.size = 2});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(2));
  const std::vector<InstanceId> ids = Registered(world);
  // A request under an epoch that is over is refused with the same code.
  bool seen = false;
  const Pending call = world.leader().provider().Delete(
      {.epoch = 99, .deadline = world.leader().loop().Now() + Duration::Minutes(1)},
      {.instance_id = *ParsePuidv7("wrk06bgm7733st2576nx5jht4ecjw")},
      [&](const ProviderResult<ProviderDeleted>&) { seen = true; });
  ASSERT_TRUE(world.Until([&] { return seen; }));
  DeleteNow(world, ids[0]);
  ASSERT_TRUE(world.Until([&] { return !world.leader().errors.empty(); }));
  EXPECT_TRUE(world.leader().errors[0].contains("epoch")) << world.leader().errors[0];
  EXPECT_THAT(world.leader().alarms, IsEmpty());
}

TEST(FleetTest, AProviderIdThatIsAnotherVmsNowIsAMismatchAndOnlyTheTaggedVmIsDeleted) {
  World world({.size = 2});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(2));
  const std::vector<InstanceId> ids = Registered(world);
  const std::string other = world.cloud().VmsOf(ids[1]).front()->provider_id;
  bool edited = false;
  world.leader().fleet().EditRecord(
      ids[0],
      [&](InstanceRecord& record) -> Status {
        record.provider_instance_id = other;
        return {};
      },
      [&](const Result<StoredRecord>&) { edited = true; });
  ASSERT_TRUE(world.Until([&] { return edited; }));
  DeleteNow(world, ids[0]);
  ASSERT_TRUE(world.Until([&] { return !world.leader().alarms.empty(); }));
  EXPECT_EQ(world.leader().alarms.front(), "identity_mismatch");
  EXPECT_THAT(world.cloud().VmsOf(ids[1]), SizeIs(1));
  // It goes on by the tag: its own VM goes, and the deletion ends.
  EXPECT_TRUE(world.Until(
      [&] { return world.leader().fleet().Find(ids[0])->phase() == InstancePhase::kGone; }));
  EXPECT_THAT(world.cloud().VmsOf(ids[1]), SizeIs(1));
  EXPECT_THAT(world.leader().alarms, SizeIs(1));
}

TEST(FleetTest, ARecordThatDoesNotReadIsAnAlarm) {
  World world({.size = 1});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(1));
  const InstanceId id = Registered(world).front();
  world.KillLeader();
  world.bucket().SetByHand(
      InstanceRecordKey(kShard, {.tenant = DefaultTenant(), .instance_id = id}), "{");
  world.Lead("s2");
  ASSERT_TRUE(world.Until([&] { return world.leader().ready(); }));
  EXPECT_THAT(world.leader().alarms, ElementsAre("corrupt_record"));
  ASSERT_THAT(world.leader().errors, SizeIs(1));
  EXPECT_TRUE(world.leader().errors[0].contains(id.text()));
}

TEST(FleetTest, ManyAgentsThatFallSilentAtOnceAreOneAlarm) {
  World world({.size = 6});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(6));
  for (const InstanceId& id : Registered(world)) world.Freeze(id);
  ASSERT_TRUE(world.Until([&] { return !world.leader().alarms.empty(); }));
  world.For(Duration::Minutes(2));
  EXPECT_THAT(world.leader().alarms, ElementsAre("mass_silence"));
}

// --- The store's clock ---------------------------------------------------------------------------

TEST(FleetTest, RU8_ADrainKeepsItsDeadlineUnderALeaderWhoseClockIsWrong) {
  for (const Duration off : {Duration::Hours(-3), Duration::Hours(3)}) {
    World world({.size = 3, .drain_timeout = "10m"});
    const Timestamp start = Timestamp::FromUnix(1'700'000'000);
    world.Lead("s1").store_now = start;
    ASSERT_TRUE(world.UntilReady(3));
    world.leader().SetSize(2);
    ASSERT_TRUE(world.Until([&] { return !world.leader().events.empty(); }));
    const InstanceId drained = *ParsePuidv7(world.leader().events.front().instance_id);
    world.For(Duration::Minutes(4));
    Leader& second = world.Lead("s2");
    second.loop().JumpWall(off);
    second.store_now = start;
    ASSERT_TRUE(world.Until([&] { return second.ready(); }));
    world.Reconnect();
    world.For(Duration::Minutes(5));
    EXPECT_THAT(world.cloud().VmsOf(drained), SizeIs(1)) << "its time is not over";
    EXPECT_TRUE(
        world.Until([&] { return world.cloud().VmsOf(drained).empty(); }, Duration::Minutes(3)));
  }
}

TEST(FleetTest, RU8_TombstonesAreKeptTheirTimeByALeaderWhoseClockIsWrong) {
  World world({.size = 2});
  Leader& leader = world.Lead("s1");
  leader.loop().JumpWall(Duration::Days(-3));
  leader.store_now = Timestamp::FromUnix(1'700'000'000);
  ASSERT_TRUE(world.UntilReady(2));
  const InstanceId id = Registered(world).front();
  DeleteNow(world, id);
  ASSERT_TRUE(
      world.Until([&] { return leader.fleet().Find(id)->phase() == InstancePhase::kGone; }));
  const auto failed = [&]() -> std::optional<InstanceId> {
    for (const Instance* instance : leader.fleet().OfTenant(DefaultTenant())) {
      if (instance->phase() == InstancePhase::kFailed) return instance->id;
    }
    return std::nullopt;
  };
  leader.provider().faults().refused_capacity = 10'000;
  leader.SetSize(3);
  ASSERT_TRUE(world.Until([&] { return failed().has_value(); }));
  const InstanceId refused = *failed();
  world.For(Duration::Minutes(10));
  EXPECT_NE(leader.fleet().Find(id), nullptr);
  EXPECT_NE(leader.fleet().Find(refused), nullptr);
}

TEST(FleetTest, AnAgentThatHangsIsReplacedAndDrained) {
  World world({.size = 4});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(4));
  const InstanceId frozen = Registered(world).front();
  world.Freeze(frozen);
  ASSERT_TRUE(world.Until([&] {
    const Instance* instance = world.leader().fleet().Find(frozen);
    return instance->phase() == InstancePhase::kGone;
  }));
  ASSERT_TRUE(world.UntilReady(4));
  bool drained = false;
  for (const api::InstanceEvent& event : world.leader().events) {
    drained = drained || (event.status == "pending_deletion" && event.reason == "unhealthy");
  }
  EXPECT_TRUE(drained);
}

TEST(FleetTest, AnAcknowledgedDrainEndsAtOnce) {
  World world({.size = 3, .drain_timeout = "1h"});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(3));
  world.leader().SetSize(2);
  ASSERT_TRUE(world.Until([&] { return !world.leader().events.empty(); }));
  const api::InstanceEvent drain = world.leader().events.front();
  bool answered = false;
  world.leader().fleet().Acknowledge({.tenant = DefaultTenant(),
                                      .instance_id = *ParsePuidv7(drain.instance_id),
                                      .drain_id = drain.drain_id},
                                     [&](const Status& status) {
                                       EXPECT_TRUE(status.has_value());
                                       answered = true;
                                     });
  ASSERT_TRUE(world.Until([&] { return answered; }));
  ASSERT_TRUE(world.UntilReady(2, Duration::Minutes(1)));
}

// A group of three that was asked to be two: one is draining for an hour.
api::InstanceEvent DrainOne(World& world) {
  world.Lead("s1");
  EXPECT_TRUE(world.UntilReady(3));
  world.leader().SetSize(2);
  EXPECT_TRUE(world.Until([&] { return !world.leader().events.empty(); }));
  return world.leader().events.front();
}

TEST(FleetTest, D6_AnAcknowledgementThatComesAgainWhileItIsWrittenDoesNotMoveItsTime) {
  World world({.size = 3, .drain_timeout = "1h"});
  const api::InstanceEvent drain = DrainOne(world);
  const InstanceId id = *ParsePuidv7(drain.instance_id);
  const Timestamp first = world.leader().loop().WallNow();
  int answered = 0;
  const auto acknowledge = [&] {
    world.leader().fleet().Acknowledge(
        {.tenant = DefaultTenant(), .instance_id = id, .drain_id = drain.drain_id},
        [&](const Status& status) {
          EXPECT_TRUE(status.has_value());
          ++answered;
        });
  };
  acknowledge();
  world.For(Duration::Milliseconds(1));
  ASSERT_EQ(answered, 0) << "the first must still be under way";
  acknowledge();
  ASSERT_TRUE(world.Until([&] { return answered == 2; }));
  ASSERT_TRUE(world.UntilReady(2, Duration::Minutes(1)));
  EXPECT_EQ(world.leader().fleet().Find(id)->record()->drain->acked_at, first);
}

TEST(FleetTest, D6_ADrainIsNotRevokedWhileItsAcknowledgementIsWritten) {
  World world({.size = 3, .drain_timeout = "1h"});
  const api::InstanceEvent drain = DrainOne(world);
  const InstanceId id = *ParsePuidv7(drain.instance_id);
  bool answered = false;
  world.leader().fleet().Acknowledge(
      {.tenant = DefaultTenant(), .instance_id = id, .drain_id = drain.drain_id},
      [&](const Status& status) {
        EXPECT_TRUE(status.has_value());
        answered = true;
      });
  world.leader().SetSize(3);  // It could stay, if it had not been acknowledged.
  ASSERT_TRUE(world.Until([&] { return answered; }));
  EXPECT_TRUE(world.Until(
      [&] { return world.leader().fleet().Find(id)->phase() == InstancePhase::kGone; }));
  for (const api::InstanceEvent& event : world.leader().events) {
    EXPECT_NE(event.status, "drain_cancelled");
  }
  EXPECT_TRUE(world.UntilReady(3));
}

// One of three instances, which is no longer wanted, while the intent of its drain is still being
// written. Null: it did not come to that.
const Instance* WithDrainBeingWritten(World& world) {
  world.Lead("s1");
  if (!world.UntilReady(3)) return nullptr;
  const std::vector<InstanceId> ids = Registered(world);
  world.leader().SetSize(2);
  const Instance* found = nullptr;
  EXPECT_TRUE(world.Until(
      [&] {
        const auto at = std::ranges::find_if(ids, [&](const InstanceId& id) {
          const Instance* instance = world.leader().fleet().Find(id);
          return instance->drain && !instance->drain->durable;
        });
        if (at != ids.end()) found = world.leader().fleet().Find(*at);
        return found != nullptr;
      },
      Duration::Milliseconds(1)));
  return found;
}

// No time passes while a leader plans again and again.
void ExpectRest(World& world) {
  constexpr int kMost = 1'000;
  const Instant begin = world.scheduler().now();
  int turns = 0;
  for (; world.scheduler().now() == begin && turns < kMost; ++turns) world.scheduler().Step();
  ASSERT_LT(turns, kMost) << "the same plan was made over and over";
}

TEST(FleetTest, D3_ADrainThatIsWantedBackBeforeItIsDurableWaitsForItsIntent) {
  World world({.size = 3, .drain_timeout = "1h"});
  ASSERT_NE(WithDrainBeingWritten(world), nullptr);
  world.leader().SetSize(3);
  ASSERT_NO_FATAL_FAILURE(ExpectRest(world));
  EXPECT_TRUE(world.Until([&] {
    return std::ranges::any_of(world.leader().events, [](const api::InstanceEvent& event) {
      return event.status == "drain_cancelled";
    });
  }));
  EXPECT_TRUE(world.UntilReady(3));
}

TEST(FleetTest, X1_ADeletionOfWhoseDrainIsNotYetDurableWaitsForItsIntent) {
  World world({.size = 3, .drain_timeout = "1h"});
  const Instance* instance = WithDrainBeingWritten(world);
  ASSERT_NE(instance, nullptr);
  const InstanceId id = instance->id;
  std::string answer;
  world.leader().fleet().Delete({.tenant = DefaultTenant(), .instance_id = id},
                                [&](Result<std::string> status) { answer = status.value(); });
  ASSERT_NO_FATAL_FAILURE(ExpectRest(world));
  ASSERT_TRUE(world.Until(
      [&] { return world.leader().fleet().Find(id)->phase() == InstancePhase::kGone; }));
  EXPECT_FALSE(answer.empty());
}

TEST(FleetTest, RU11_AnOrderToDrainIsAnsweredWhenTheDrainThatIsUnderWayIsDurable) {
  World world({.size = 3, .drain_timeout = "1h"});
  const Instance* instance = WithDrainBeingWritten(world);
  ASSERT_NE(instance, nullptr);
  const InstanceId id = instance->id;
  std::string answer;
  world.leader().fleet().Delete({.tenant = DefaultTenant(), .instance_id = id, .drain = true},
                                [&](Result<std::string> status) { answer = status.value(); });
  EXPECT_EQ(answer, "");
  ASSERT_TRUE(world.Until([&] { return !answer.empty(); }));
  EXPECT_EQ(answer, "draining");
  EXPECT_TRUE(world.leader().fleet().Find(id)->drain->durable);
}

TEST(FleetTest, AnInstanceIsDeletedOnRequestAndReplaced) {
  World world({.size = 3});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(3));
  const InstanceId id = Registered(world).front();
  std::string answer;
  world.leader().fleet().Delete({.tenant = DefaultTenant(), .instance_id = id},
                                [&](Result<std::string> status) { answer = status.value(); });
  ASSERT_TRUE(world.Until([&] { return !answer.empty(); }));
  EXPECT_EQ(answer, "deleting");
  ASSERT_TRUE(world.Until(
      [&] { return world.leader().fleet().Find(id)->phase() == InstancePhase::kGone; }));
  ASSERT_TRUE(world.UntilReady(3));
}

TEST(FleetTest, AnOnDemandInstanceIsOutsideTheCount) {
  World world({.size = 2});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(2));
  std::string made;
  const auto create = [&] {
    world.leader().fleet().CreateOnDemand(
        {.tenant = DefaultTenant(), .group = kWorkers, .request_id = "r1"},
        [&](Result<api::CreateInstanceResponse> answer) { made = answer.value().instance_id; });
  };
  create();
  ASSERT_TRUE(world.Until([&] { return !made.empty(); }));
  const std::string first = made;
  ASSERT_TRUE(world.Until([&] { return world.cloud().Vms().size() == 3; }));
  create();
  EXPECT_EQ(made, first);
  world.For(Duration::Minutes(2));
  EXPECT_EQ(world.Ready(), 2);
  EXPECT_THAT(world.cloud().Vms(), SizeIs(3));
}

TEST(FleetTest, ANewLeaderReplacesNothing) {
  World world({.size = 5});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(5));
  const auto creates = world.cloud().Count(sim::SimProviderMethod::kCreate);
  const auto deletes = world.cloud().Count(sim::SimProviderMethod::kDelete);
  world.KillLeader();
  world.For(Duration::Seconds(10));
  world.Lead("s2");
  world.Reconnect();
  ASSERT_TRUE(world.UntilReady(5));
  world.For(Duration::Minutes(5));
  EXPECT_EQ(world.cloud().Count(sim::SimProviderMethod::kCreate), creates);
  EXPECT_EQ(world.cloud().Count(sim::SimProviderMethod::kDelete), deletes);
}

TEST(FleetTest, X5_F2_ADeletionWhoseEndWasNotNotedEndsUnderALeaderThatCouldNotList) {
  World world({.size = 2});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(2));
  world.For(Duration::Seconds(5));
  const InstanceId id = Registered(world).front();
  // The tombstone is there; the intent is closed with a later write of the journal.
  DeleteNow(world, id);
  ASSERT_TRUE(world.Until(
      [&] { return world.leader().fleet().Find(id)->phase() == InstancePhase::kGone; }));
  world.KillLeader();
  world.cloud().lies().lists_nothing = true;
  world.Lead("s2");
  ASSERT_TRUE(world.Until([&] { return world.leader().ready(); }));
  const auto open = [&] {
    return std::ranges::any_of(world.leader().journal().journal().intents,
                               [&](const Intent& i) { return i.instance_id == id; });
  };
  ASSERT_TRUE(open());
  world.cloud().lies().lists_nothing = false;
  world.Reconnect();
  ASSERT_TRUE(world.UntilReady(2));
  EXPECT_TRUE(world.Until([&] { return !open(); }));
  EXPECT_EQ(world.leader().fleet().Find(id)->phase(), InstancePhase::kGone);
}

TEST(FleetTest, ADrainKeepsItsDeadlineAcrossLeaders) {
  World world({.size = 3, .drain_timeout = "60s"});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(3));
  world.leader().SetSize(2);
  ASSERT_TRUE(world.Until([&] { return !world.leader().events.empty(); }));
  const api::InstanceEvent drain = world.leader().events.front();
  world.For(Duration::Seconds(20));
  world.Lead("s2");
  world.Reconnect();
  world.For(Duration::Seconds(30));
  const InstanceId id = *ParsePuidv7(drain.instance_id);
  const Instance* instance = world.leader().fleet().Find(id);
  ASSERT_EQ(instance->phase(), InstancePhase::kDraining);
  EXPECT_EQ(instance->record()->drain->delete_at, *drain.delete_at);
  EXPECT_EQ(instance->record()->drain->id, drain.drain_id);
  ASSERT_TRUE(world.UntilReady(2, Duration::Seconds(40)));
}

// --- Failovers at random moments -----------------------------------------------------------------

// Live records and live VMs match one to one, and the group has its size.
void ExpectSettled(World& world, int size) {
  ASSERT_TRUE(world.UntilReady(size, Duration::Minutes(30)))
      << "ready " << world.Ready() << ", VMs " << world.cloud().Vms().size();
  world.For(Duration::Minutes(15));
  EXPECT_EQ(world.Ready(), size);
  std::set<std::string> records;
  std::set<std::string> vms;
  for (const Instance* instance : world.leader().fleet().OfTenant(DefaultTenant())) {
    if (instance->live()) records.insert(instance->id.text());
  }
  for (const sim::SimVm* vm : world.cloud().Vms()) vms.insert(vm->shown.instance_id->text());
  EXPECT_EQ(records, vms);
  for (const Intent& intent : world.leader().journal().journal().intents) {
    ADD_FAILURE() << "open: " << EncodeIntent(intent) << " "
                  << PhaseName(world.leader().fleet().Find(intent.instance_id)->phase());
  }
}

class FleetFailoverTest : public testing::TestWithParam<int> {};

TEST_P(FleetFailoverTest, LeavesNoLeakAndNoPhantom) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  World world({.seed = seed, .size = 5});
  Prng prng(seed * 77 + 1);
  world.Lead("s0");
  int size = 5;
  for (int round = 0; round < 12; ++round) {
    world.For(Duration::Milliseconds(prng.Between(1, 8'000)));
    if (world.leader().ready() && prng.Chance(2, 3)) {
      size = static_cast<int>(prng.Between(0, 9));
      world.leader().SetSize(size);
      world.For(Duration::Milliseconds(prng.Between(0, 3'000)));
    }
    world.KillLeader();
    world.For(Duration::Milliseconds(prng.Between(0, 2'000)));
    world.settings().size = size;
    Leader& leader = world.Lead("s" + std::to_string(round + 1));
    leader.provider().faults().answer_lost = 500;
    leader.provider().faults().error_maybe_done = 500;
    leader.store().faults().answer_lost = 300;
    leader.store().faults().error_maybe_done = 300;
    world.Reconnect();
  }
  world.KillLeader();
  world.Lead("calm");
  world.Reconnect();
  ExpectSettled(world, size);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FleetFailoverTest, testing::Range(0, 20));

}  // namespace
}  // namespace nstance::test

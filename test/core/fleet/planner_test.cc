// The planner by example: each guarantee and each row of its tables is a small group, and what is
// planned for it.
#include "core/fleet/planner.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "test/core/fleet/views.h"

namespace nstance::fleet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- the table of verdicts ---------------------------------------------------------------------

TEST(PlannerTest, AGroupThatMatchesItsSpecIsLeftAlone) {
  const Plan plan = PlanNow(GroupOf(2, {Healthy(1), Healthy(2)}));
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(plan.holds, IsEmpty());
  EXPECT_EQ(plan.counts, (GroupCounts{.members = 2, .slots = 2, .ready = 2}));
}

TEST(PlannerTest, MissingInstancesAreCreated) {
  const Plan plan = PlanNow(GroupOf(3, {Healthy(1)}));
  EXPECT_THAT(Short(plan), ElementsAre("create", "create"));
  EXPECT_EQ(plan.actions[0].priority, 5);
  EXPECT_EQ(plan.actions[0].reason, Reason::kScaleUp);
}

TEST(PlannerTest, WhatIsOnItsWayCounts) {
  EXPECT_THAT(PlanNow(GroupOf(4, {Intended(1), Creating(2), Provisioned(3), Healthy(4)})).actions,
              IsEmpty());
}

TEST(PlannerTest, ADeadInstanceIsDeletedAndReplacedInOneCommit) {
  for (const auto& [status, reason] : std::vector<std::pair<ProviderStatus, std::string>>{
           {ProviderStatus::kStopping, "provider-stopped"},
           {ProviderStatus::kStopped, "provider-stopped"},
           {ProviderStatus::kSuspending, "provider-stopped"},
           {ProviderStatus::kSuspended, "provider-stopped"},
           {ProviderStatus::kRepairing, "provider-stopped"},
           {ProviderStatus::kFailed, "provider-stopped"},
           {ProviderStatus::kDeleting, "provider-gone"},
           {ProviderStatus::kDeleted, "provider-gone"}}) {
    const Plan plan = PlanNow(GroupOf(2, {Dead(1, status), Healthy(2)}));
    EXPECT_THAT(Short(plan), ElementsAre("create for 1", "delete 1 " + reason)) << Word(status);
    EXPECT_FALSE(plan.actions[1].counted);
  }
}

TEST(PlannerTest, ADeadStateWaitsForTheEndOfAnOpenStream) {
  InstanceView instance = Healthy(1);
  instance.looks.OnFound(ProviderStatus::kStopped, At(kNow - 10));
  GroupView view = GroupOf(1, {instance});
  const Plan plan = PlanNow(view);
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(ShortHolds(plan), ElementsAre("second-look 1"));
  EXPECT_EQ(plan.replan_at, At(kNow + 50));
  // T_vis later it is believed, and counts in the brake.
  view.instances[0].health.reported_at = At(kNow + 49);
  const Plan later = PlanGroup(view, At(kNow + 50));
  EXPECT_THAT(Short(later), ElementsAre("create for 1", "delete 1 provider-stopped"));
  EXPECT_TRUE(later.actions[1].counted);
}

TEST(PlannerTest, InTheGraceOfANewLeaderADeadOneWithoutStreamGoesButCounts) {
  InstanceView instance = Unknown(1);
  instance.looks.OnFound(ProviderStatus::kStopped, At(kNow));
  GroupView view = GroupOf(1, {instance});
  view.leadership = {.epoch = 7, .began_at = At(kNow - 10), .counting_since = At(kNow - 10)};
  Plan plan = PlanNow(view);
  ASSERT_THAT(Short(plan), ElementsAre("create for 1", "delete 1 provider-stopped"));
  EXPECT_TRUE(plan.actions[1].counted);
  plan = PlanGroup(view, At(kNow + 35));
  EXPECT_FALSE(plan.actions[1].counted);
}

TEST(PlannerTest, TwoLooksApartProveAbsenceAndItCounts) {
  const Plan plan = PlanNow(GroupOf(1, {Absent(1)}));
  ASSERT_THAT(Short(plan), ElementsAre("create for 1", "delete 1 provider-gone"));
  EXPECT_TRUE(plan.actions[1].counted);
}

TEST(PlannerTest, ASpotNoticeDrainsUntilItsDeadlineAndCreatesInOneCommit) {
  const Plan plan = PlanNow(GroupOf(1, {Notified(1, 120)}));
  ASSERT_THAT(Short(plan), ElementsAre("create for 1", "drain 1 spot-terminating"));
  EXPECT_EQ(plan.actions[1].length, Duration::Seconds(120));
  EXPECT_FALSE(plan.actions[1].counted);
  // Longer notice: the group's timeout.
  EXPECT_EQ(PlanNow(GroupOf(1, {Notified(1, 3'600)})).actions[1].length, Duration::Minutes(5));
}

TEST(PlannerTest, ASpotNoticeDoesNotWaitForAReplacementThatCannotBeMade) {
  GroupView view = GroupOf(1, {Notified(1)});
  view.creation.block = {.code = HoldCode::kImageUnresolved, .detail = "base"};
  const Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("drain 1 spot-terminating"));
  EXPECT_THAT(ShortHolds(plan), ElementsAre("image-unresolved"));
}

TEST(PlannerTest, AnUnhealthyInstanceIsReplacedWithItsDrain) {
  const Plan plan = PlanNow(GroupOf(2, {Stale(1), Healthy(2)}));
  ASSERT_THAT(Short(plan), ElementsAre("create for 1", "drain 1 unhealthy"));
  EXPECT_TRUE(plan.actions[1].counted);
  EXPECT_FALSE(plan.actions[1].ordered);
  EXPECT_EQ(plan.actions[1].length, Duration::Minutes(5));
}

TEST(PlannerTest, StaleAloneIsNoVerdictTheProviderMustSayRunning) {
  InstanceView instance = Stale(1);
  instance.looks = {};
  const Plan plan = PlanNow(GroupOf(1, {instance}));
  ASSERT_EQ(plan.actions.size(), 1U);
  EXPECT_EQ(plan.actions[0].kind, ActionKind::kLook);
  // A failed look, and one that says nothing.
  instance.looks.OnBegun(At(kNow - 1));
  instance.looks.OnError();
  EXPECT_THAT(ShortHolds(PlanNow(GroupOf(1, {instance}))), ElementsAre("provider-unavailable 1"));
  instance.looks.OnFound(ProviderStatus::kUnknown, At(kNow));
  EXPECT_THAT(PlanNow(GroupOf(1, {instance})).actions, IsEmpty());
}

TEST(PlannerTest, ZeroDrainTimeoutDeletesWithoutCoordination) {
  GroupView view = GroupOf(2, {Stale(1), Notified(2)});
  view.spec.drain_timeout = Duration();
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create for 2", "create for 1",
                                                "delete 1 unhealthy", "delete 2 spot-terminating"));
}

TEST(PlannerTest, ASuspectGetsAReplacementInsideSurgeAndNothingIsDeleted) {
  const Plan plan = PlanNow(GroupOf(2, {Suspect(1), Healthy(2)}));
  EXPECT_THAT(Short(plan), ElementsAre("create for 1"));
  EXPECT_THAT(ShortHolds(plan), ElementsAre("second-look 1"));
  // Found again: the pair is closed and the surplus goes, the unregistered one first.
  EXPECT_THAT(Short(PlanNow(GroupOf(2, {Disconnected(1), Healthy(2), Replacing(Creating(3), 1)}))),
              ElementsAre("delete 3 scale-down"));
  // Confirmed: it goes, and its replacement is there already.
  EXPECT_THAT(Short(PlanNow(GroupOf(2, {Absent(1), Healthy(2), Replacing(Creating(3), 1)}))),
              ElementsAre("delete 1 provider-gone"));
}

TEST(PlannerTest, WhoDoesNotRegisterInTimeIsDeletedAndTheNextCreationWaits) {
  InstanceView instance = Provisioned(1);
  instance.vm_since = At(kNow - 300);
  const GroupView view = GroupOf(1, {instance});
  EXPECT_THAT(PlanGroup(view, At(kNow - 1)).actions, IsEmpty());
  const Plan plan = PlanNow(view);
  ASSERT_THAT(Short(plan), ElementsAre("delete 1 registration-timeout"));
  EXPECT_EQ(plan.actions[0].failure, FailureClass::kNoRegistration);
  EXPECT_FALSE(plan.actions[0].counted);
  EXPECT_THAT(ShortHolds(plan), ElementsAre("create-backoff"));
}

TEST(PlannerTest, ANewLeaderGivesAgentsTimeToRegisterOrReport) {
  InstanceView late = Provisioned(1);
  late.vm_since = At(kNow - 3'000);
  GroupView view = GroupOf(2, {late, Unknown(2)});
  view.leadership = {.epoch = 7, .began_at = At(kNow - 10), .counting_since = At(kNow - 10)};
  const Plan plan = PlanNow(view);
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(ShortHolds(plan), ElementsAre("reconnect-grace 1", "reconnect-grace 2"));
  EXPECT_EQ(plan.replan_at, At(kNow + 35));
}

// ---- guarantees --------------------------------------------------------------------------------

TEST(PlannerTest, Guarantee1MembersNeverRiseAboveSizePlusSurge) {
  // A rotation would need one more than allowed while a size that was lowered is being reached.
  GroupView view = GroupOf(2, {Suspect(1), Healthy(2), Replacing(Creating(3), 9)});
  view.brake = FreeBrake(0);
  const Plan plan = PlanNow(view);
  EXPECT_LE(plan.counts.members, 3);
  for (int surge = 1; surge <= 3; ++surge) {
    view = GroupOf(4, {Suspect(1), Suspect(2), Drifted(3), Drifted(4)});
    view.spec.surge = surge;
    EXPECT_EQ(PlanNow(view).counts.members, 5);
  }
}

// One rotation at a time stays below the limit by itself. There are two pairs when a drain was
// taken back: 1 was drained for its drift with 3 in its place, 2 got 4 beside it as a suspect, then
// the size was raised and 1 came back.
TEST(PlannerTest, Guarantee1ATakenBackDrainBesideARotationWaitsForTheSurge) {
  GroupView view =
      GroupOf(3, {Drifted(1), Suspect(2), Replacing(Healthy(3), 1), Replacing(Creating(4), 2)});
  const Plan plan = PlanNow(view);
  EXPECT_EQ(plan.counts.members, 4);
  EXPECT_THAT(Short(plan), Not(Contains(testing::StartsWith("create"))));
  EXPECT_THAT(ShortHolds(plan), Contains("surge-limit"));
  view.spec.surge = 2;
  EXPECT_THAT(Short(PlanNow(view)), Contains(testing::StartsWith("create")));
}

TEST(PlannerTest, Guarantee2ScaleDownPrefersWhatIsNotReady) {
  GroupView view = GroupOf(4, {Healthy(1), Drifted(2), Provisioned(3), Disconnected(4), Healthy(5),
                               Healthy(6), Healthy(7), Healthy(8)});
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 scale-down", "drain 2 scale-down",
                                                "drain 4 scale-down", "delete 3 scale-down"));
  view.spec.size = 6;
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 4 scale-down", "delete 3 scale-down"));
  // Named ones go before all others.
  view.spec.remove = {Id(8), Id(99)};
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 8 scale-down", "delete 3 scale-down"));
}

TEST(PlannerTest, Guarantee2RotationDrainsOnlyWhenTheReplacementAndAllOthersAreHealthy) {
  GroupView view = GroupOf(2, {Drifted(1), Healthy(2), Replacing(Provisioned(3), 1)});
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  EXPECT_THAT(ShortHolds(PlanNow(view)), ElementsAre("waiting-replacement 1"));
  view.instances[2] = Replacing(Unknown(3), 1);
  view.instances[2].health.registered_at = At(kNow - 5);
  EXPECT_THAT(ShortHolds(PlanNow(view)), ElementsAre("waiting-healthy 1"));
  view.instances[2] = Replacing(Healthy(3), 1);
  view.instances[1] = Disconnected(2);
  EXPECT_THAT(ShortHolds(PlanNow(view)), ElementsAre("waiting-healthy 1"));
  view.instances[1] = Healthy(2);
  const Plan plan = PlanNow(view);
  ASSERT_THAT(Short(plan), ElementsAre("drain 1 config-drift"));
  EXPECT_EQ(plan.actions[0].priority, 4);
}

TEST(PlannerTest, Guarantee3NoDrainWithoutAReplacement) {
  struct Row {
    std::string name;
    void (*change)(GroupView&);
    std::string hold;
  };
  const std::vector<Row> rows = {
      {"blocked", [](GroupView& view) { view.creation.block = {.code = HoldCode::kFileInvalid}; },
       "no-replacement 1"},
      {"full", [](GroupView& view) { view.subnets[0].full = true; }, "no-replacement 1"},
      {"places", [](GroupView& view) { view.creation.places = 0; }, "waiting-replacement 1"},
      {"failed",
       [](GroupView& view) {
         Prng prng(1);
         view.creation.backoff.OnFailure(FailureClass::kQuota, "no", At(kNow - 1), prng);
       },
       "waiting-replacement 1"}};
  for (const Row& row : rows) {
    GroupView view = GroupOf(2, {Stale(1), Healthy(2)});
    row.change(view);
    const Plan plan = PlanNow(view);
    EXPECT_THAT(plan.actions, IsEmpty()) << row.name;
    EXPECT_THAT(ShortHolds(plan), Contains(row.hold)) << row.name;
    EXPECT_EQ(plan.counts.members, 2) << row.name;
  }
}

TEST(PlannerTest, Guarantee3AnEmptySlotIsFilledBeforeAnUnhealthyOneIsDrained) {
  GroupView view = GroupOf(3, {Stale(1), Healthy(2)});
  view.creation.places = 1;
  const Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("create"));
  EXPECT_THAT(ShortHolds(plan), ElementsAre("waiting-replacement 1"));
}

TEST(PlannerTest, Guarantee4OneRotationAtATime) {
  GroupView view = GroupOf(3, {Drifted(1), Drifted(2), Drifted(3)});
  view.spec.surge = 5;
  Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("create for 1"));
  EXPECT_THAT(ShortHolds(plan), ElementsAre("one-rotation 2", "one-rotation 3"));
  view.instances.push_back(Replacing(Creating(4), 1));
  plan = PlanNow(view);
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(ShortHolds(plan),
              ElementsAre("waiting-replacement 1", "one-rotation 2", "one-rotation 3"));
}

TEST(PlannerTest, Guarantee5OneNotFoundDestroysNothing) {
  for (const InstanceView& instance : {Suspect(1), With(Care::kOnDemand, Suspect(1))}) {
    for (int size = 0; size < 3; ++size) {
      const bool surplus = size < (instance.care == Care::kManaged ? 2 : 1);
      for (const Action& action : PlanNow(GroupOf(size, {instance, Healthy(2)})).actions) {
        const bool harmless =
            action.kind == ActionKind::kCreate || action.kind == ActionKind::kLook;
        const bool scales =
            surplus && action.kind == ActionKind::kDrain && action.reason == Reason::kScaleDown;
        EXPECT_TRUE(harmless || scales) << size << ": " << Describe(action);
      }
    }
  }
  // Young VMs are not even suspect.
  InstanceView young = Disconnected(1);
  young.vm_since = At(kNow - 60);
  young.looks.OnNotFound(At(kNow), *young.vm_since, FleetTimes{});
  EXPECT_THAT(Short(PlanNow(GroupOf(1, {young}))), IsEmpty());
}

TEST(PlannerTest, Guarantee6OnDemandAndClaimedInstancesAreOutsideAllCounts) {
  for (const Care care : {Care::kOnDemand, Care::kClaimed}) {
    GroupView view = GroupOf(1, {Healthy(1), With(care, Healthy(2)), With(care, Drifted(3))});
    EXPECT_THAT(PlanNow(view).actions, IsEmpty());
    view.spec.size = 0;
    EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 scale-down"));
    view.spec.size = 2;
    EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create"));
    view.removal = GroupRemoval{.ordered = true};
    EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 group-deleted"));
  }
}

TEST(PlannerTest, ADeadOnDemandInstanceIsCleanedUpWithoutReplacement) {
  EXPECT_THAT(Short(PlanNow(GroupOf(0, {With(Care::kOnDemand, Dead(1))}))),
              ElementsAre("delete 1 provider-stopped"));
  EXPECT_THAT(Short(PlanNow(GroupOf(0, {With(Care::kClaimed, Notified(1))}))),
              ElementsAre("drain 1 spot-terminating"));
}

TEST(PlannerTest, AStaleOnDemandInstanceIsHeldNeverDeleted) {
  EXPECT_THAT(ShortHolds(PlanNow(GroupOf(0, {With(Care::kOnDemand, Stale(1))}))),
              ElementsAre("on-demand 1"));
  EXPECT_THAT(ShortHolds(PlanNow(GroupOf(0, {With(Care::kClaimed, Stale(1))}))),
              ElementsAre("claimed 1"));
  EXPECT_THAT(PlanNow(GroupOf(0, {With(Care::kOnDemand, Stale(1))})).actions, IsEmpty());
}

TEST(PlannerTest, OnDemandInstancesExpireByTheirOwnAgeClaimedOnesDoNot) {
  GroupView view =
      GroupOf(0, {With(Care::kOnDemand, Healthy(1)), With(Care::kClaimed, Healthy(2))});
  view.spec.expiry = {.eligible_age = Duration::Seconds(1),
                      .forced_age = Duration::Seconds(2),
                      .ondemand_age = Duration::Hours(1)};
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 ondemand-expiry"));
}

TEST(PlannerTest, Guarantee7And8PlanningTwiceOrInAnotherOrderIsTheSame) {
  GroupView view = GroupOf(6, {Healthy(1), Stale(2), Dead(3), Drifted(4), Notified(5), Suspect(6),
                               Creating(7), Draining(8, Reason::kScaleDown), Deleting(9)});
  const Plan plan = PlanNow(view);
  EXPECT_EQ(PlanNow(view), plan);
  Prng prng(3);
  for (int i = 0; i < 20; ++i) {
    prng.Shuffle(std::span(view.instances));
    EXPECT_EQ(PlanNow(view), plan);
  }
  std::uint32_t next_id = 100;
  ApplyPlan(plan, At(kNow), next_id, view);
  EXPECT_THAT(Short(PlanNow(view)), IsEmpty());
}

TEST(PlannerTest, Guarantee9OpenIntentsAreNotContradicted) {
  // Deleting ones are not touched again, not even by name.
  GroupView view = GroupOf(0, {Deleting(1)});
  view.spec.remove = {Id(1)};
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  // A draining one is neither drained again nor a victim nor due.
  view = GroupOf(0, {Draining(1, Reason::kUnhealthy)});
  view.instances[0].infra_hash = "old";
  view.spec.expiry.forced_age = Duration::Seconds(1);
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  EXPECT_THAT(ShortHolds(PlanNow(view)), ElementsAre("waiting-drain 1"));
}

// ---- rotation ----------------------------------------------------------------------------------

TEST(PlannerTest, ForcedExpiryDrainsOnceTheReplacementIsProvisioned) {
  GroupView view = GroupOf(2, {Healthy(1), Healthy(2)});
  view.spec.expiry.forced_age = Duration::Days(1) - Duration::Seconds(2);
  // Only the older one is due.
  EXPECT_THAT(Short(PlanGroup(view, At(kNow - 1))), ElementsAre("create for 1"));
  view.instances.push_back(Replacing(Creating(3), 1));
  EXPECT_THAT(ShortHolds(PlanGroup(view, At(kNow - 1))), ElementsAre("waiting-replacement 1"));
  view.instances.back() = Replacing(Provisioned(3), 1);
  const Plan plan = PlanGroup(view, At(kNow - 1));
  EXPECT_THAT(Short(plan), ElementsAre("drain 1 forced-expiry"));
  EXPECT_EQ(plan.actions[0].priority, 2);
}

TEST(PlannerTest, ForcedExpiryGoesWithoutAReplacementOnlyAfterThreeFailures) {
  GroupView view = GroupOf(2, {Healthy(1), Healthy(2)});
  view.spec.expiry.forced_age = Duration::Hours(1);
  Prng prng(1);
  for (int failures = 1; failures <= 3; ++failures) {
    view.creation.backoff.OnFailure(FailureClass::kCapacity, "none left", At(kNow - 1), prng);
    const Plan plan = PlanNow(view);
    if (failures < 3) {
      EXPECT_THAT(plan.actions, IsEmpty());
      EXPECT_THAT(ShortHolds(plan), ElementsAre("create-backoff 1", "one-rotation 2"));
    } else {
      // One after the other: the next waits for a full group.
      EXPECT_THAT(Short(plan), ElementsAre("drain 1 forced-expiry"));
    }
  }
}

TEST(PlannerTest, ForcedExpiryTakesOverTheReplacementOfAQuietRotation) {
  InstanceView old = Healthy(1);
  old.created_at = At(kNow - 200'000);
  GroupView view = GroupOf(3, {old, Drifted(2), Healthy(3), Replacing(Creating(4), 2)});
  view.spec.expiry.forced_age = Duration::Seconds(150'000);
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  view.instances[3] = Replacing(Provisioned(4), 2);
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 forced-expiry", "create for 1"));
  // A ready replacement belongs to the rotation that it was made for.
  view.instances[3] = Replacing(Healthy(4), 2);
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create for 1", "drain 2 config-drift"));
}

TEST(PlannerTest, EligibleExpiryGoesBeforeDriftAndWaitsForAQuietGroup) {
  InstanceView old = Healthy(2);
  old.created_at = At(kNow - 200'000);
  GroupView view = GroupOf(3, {Drifted(1), old, Healthy(3)});
  view.spec.expiry.eligible_age = Duration::Seconds(150'000);
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create for 2"));
  view.instances.push_back(Draining(4, Reason::kUnhealthy));
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  EXPECT_THAT(ShortHolds(PlanNow(view)), Contains("waiting-healthy 2"));
  // Forced expiry does not wait.
  view.spec.expiry.forced_age = Duration::Seconds(180'000);
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create for 2"));
  view.instances.back() = With(Care::kOnDemand, Draining(4, Reason::kUnhealthy));
  view.spec.expiry.forced_age = Duration();
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create for 2"));
}

TEST(PlannerTest, BlockedAndCorruptMembersDoNotStopAQuietRotation) {
  InstanceView corrupt = Healthy(3);
  corrupt.corrupt = true;
  const GroupView view = GroupOf(3, {Drifted(1), Blocked(Stale(2)), corrupt});
  const Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("create for 1"));
  EXPECT_THAT(ShortHolds(plan), ElementsAre("identity-blocked 2", "record-corrupt 3"));
}

TEST(PlannerTest, AboveTwentyMembersOneInTwentyMayBeUnhealthy) {
  for (const auto& [size, rotates] :
       std::vector<std::pair<int, bool>>{{20, false}, {21, true}, {22, true}}) {
    GroupView view = GroupOf(size, {Drifted(1), Disconnected(2)});
    for (std::uint32_t n = 3; n <= static_cast<std::uint32_t>(size); ++n) {
      view.instances.push_back(Healthy(n));
    }
    EXPECT_EQ(!Short(PlanNow(view)).empty(), rotates) << size;
    view.instances[2] = Disconnected(3);
    EXPECT_TRUE(Short(PlanNow(view)).empty()) << size;
  }
}

TEST(PlannerTest, AMissingHashIsNoDrift) {
  GroupView view = GroupOf(2, {Healthy(1), Drifted(2)});
  view.instances[0].infra_hash.clear();
  view.instances[1].infra_hash = "new";
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  view.instances[1].infra_hash = "old";
  view.spec.infra_hash.clear();
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
}

TEST(PlannerTest, WhenTheOldOneIsNoLongerDueTheSurplusGoes) {
  EXPECT_THAT(Short(PlanNow(GroupOf(2, {Healthy(1), Healthy(2), Replacing(Provisioned(3), 1)}))),
              ElementsAre("delete 3 scale-down"));
}

TEST(PlannerTest, ScaleDownDropsAnUnreadyReplacementFirstAndStillTakesItsVictims) {
  const GroupView view =
      GroupOf(2, {Drifted(1), Healthy(2), Healthy(3), Replacing(Provisioned(4), 1)});
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 scale-down", "delete 4 scale-down"));
  // A ready one stays: the old one goes, and one more.
  EXPECT_THAT(
      Short(PlanNow(GroupOf(2, {Drifted(1), Healthy(2), Healthy(3), Replacing(Healthy(4), 1)}))),
      ElementsAre("drain 1 scale-down", "drain 2 scale-down"));
}

TEST(PlannerTest, WhileCreationsFailAnUnhealthyOneWaitsForAProvisionedReplacement) {
  GroupView view = GroupOf(2, {Stale(1), Healthy(2)});
  Prng prng(1);
  view.creation.backoff.OnFailure(FailureClass::kCapacity, "none left", At(kNow - 100), prng);
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create for 1"));
  view.instances.push_back(Replacing(Creating(3), 1));
  EXPECT_THAT(Short(PlanNow(view)), IsEmpty());
  EXPECT_THAT(ShortHolds(PlanNow(view)), ElementsAre("waiting-replacement 1"));
  view.instances.back() = Replacing(Provisioned(3), 1);
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 unhealthy"));
}

TEST(PlannerTest, WhileCreationsFailAnOrderWithADrainWaitsForAProvisionedReplacement) {
  GroupView view = GroupOf(1, {Ordered(Healthy(1), Duration::Seconds(40))});
  Prng prng(1);
  view.creation.backoff.OnFailure(FailureClass::kCapacity, "none left", At(kNow - 100), prng);
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create for 1"));
  view.instances.push_back(Replacing(Provisioned(2), 1));
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 requested"));
}

// ---- drains ------------------------------------------------------------------------------------

TEST(PlannerTest, ADrainEndsWithItsAckItsDeadlineOrTheDeathOfTheVm) {
  GroupView view = GroupOf(0, {Draining(1, Reason::kUnhealthy)});
  Plan plan = PlanNow(view);
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(plan.holds[0].until, At(kNow + 300));
  EXPECT_THAT(Short(PlanGroup(view, At(kNow + 300))), ElementsAre("delete 1 unhealthy"));
  view.instances[0].drain->acked = true;
  plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("delete 1 unhealthy"));
  EXPECT_FALSE(plan.actions[0].counted);
  view.instances[0].drain->acked = false;
  view.instances[0].looks = Dead(1).looks;
  view.instances[0].health = Dead(1).health;
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("delete 1 unhealthy"));
  view.instances[0].looks = Suspect(1).looks;
  EXPECT_THAT(Short(PlanNow(view)), IsEmpty());
}

TEST(PlannerTest, DrainsOfScaleDownDriftAndEligibleExpiryAreRevokedWhenASlotIsEmpty) {
  for (const Reason reason :
       {Reason::kScaleDown, Reason::kConfigDrift, Reason::kEligibleExpiry, Reason::kUnhealthy,
        Reason::kForcedExpiry, Reason::kRequested, Reason::kSpotTerminating}) {
    const Plan plan = PlanNow(GroupOf(2, {Healthy(1), Draining(2, reason)}));
    if (IsRevocable(reason)) {
      EXPECT_EQ(Short(plan), (std::vector{"cancel-drain 2 " + std::string(Word(reason))}));
    } else {
      EXPECT_EQ(Short(plan), (std::vector<std::string>{"create"})) << Word(reason);
    }
  }
}

TEST(PlannerTest, ADrainIsNotRevokedOnceItCannotBeTakenBack) {
  const GroupView good = GroupOf(2, {Healthy(1), Draining(2, Reason::kScaleDown)});
  ASSERT_THAT(Short(PlanNow(good)), ElementsAre("cancel-drain 2 scale-down"));
  const std::vector<void (*)(GroupView&)> changes = {
      [](GroupView& view) { view.instances[1].drain->acked = true; },
      [](GroupView& view) { view.instances[1].drain->told_for_good = true; },
      [](GroupView& view) { view.instances[1].drain->epoch = 6; },
      [](GroupView& view) { view.instances[1].health.stream_open = false; },
      [](GroupView& view) { view.instances[1].looks = Suspect(2).looks; },
      [](GroupView& view) { view.instances[1].looks = Dead(2).looks; },
      [](GroupView& view) { view.instances[1].blocked = true; },
      [](GroupView& view) { view.spec.remove = {Id(2)}; },
      [](GroupView& view) { view.instances[1].drain->deadline = At(kNow); }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    GroupView view = good;
    changes[i](view);
    EXPECT_THAT(Short(PlanNow(view)), Not(Contains("cancel-drain 2 scale-down"))) << i;
    EXPECT_THAT(Short(PlanNow(view)), Contains("create")) << i;
  }
}

TEST(PlannerTest, I22_NobodyLeavesForADrainThatCannotBeRevokedYet) {
  GroupView view = GroupOf(2, {Stale(1), Healthy(2), Draining(3, Reason::kScaleDown)});
  ASSERT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 unhealthy", "cancel-drain 3 scale-down"));
  view.instances[2].drain->unsettled = true;
  EXPECT_THAT(Short(PlanNow(view)), IsEmpty());
  EXPECT_THAT(ShortHolds(PlanNow(view)), Contains("waiting-replacement 1"));
  // Nor beside one that is wanted back for an empty slot.
  view.spec.size = 3;
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("cancel-drain 3 scale-down"));
  EXPECT_THAT(ShortHolds(PlanNow(view)), Contains("waiting-replacement 1"));
  // Who is not needed may go.
  view = GroupOf(1, {Stale(1), Healthy(2), Draining(3, Reason::kScaleDown)});
  view.instances[2].drain->unsettled = true;
  EXPECT_THAT(Short(PlanNow(view)), Not(IsEmpty()));
}

// ---- creation ----------------------------------------------------------------------------------

TEST(PlannerTest, CreationsStopAtTheirPlacesAndTheRestIsToldOf) {
  GroupView view = GroupOf(10, {});
  view.creation.places = 4;
  view.creation.short_of_places = HoldCode::kCreateRateLimit;
  view.creation.places_at = At(kNow + 9);
  const Plan plan = PlanNow(view);
  EXPECT_EQ(plan.actions.size(), 4U);
  EXPECT_EQ(plan.creations_waiting, 6);
  EXPECT_THAT(ShortHolds(plan), ElementsAre("create-rate-limit"));
  EXPECT_EQ(plan.replan_at, At(kNow + 9));
}

TEST(PlannerTest, CreationsSpreadOverTheSubnetsThatAreNotFull) {
  GroupView view = GroupOf(4, {});
  view.subnets = {{.id = "c", .live = 0, .full = true},
                  {.id = "b", .live = 1, .full = false},
                  {.id = "a", .live = 2, .full = false}};
  std::vector<std::string> subnets;
  for (const Action& action : PlanNow(view).actions) subnets.push_back(action.subnet);
  EXPECT_THAT(subnets, ElementsAre("b", "a", "b", "a"));
  for (SubnetView& subnet : view.subnets) subnet.full = true;
  EXPECT_THAT(ShortHolds(PlanNow(view)), ElementsAre("subnet-full"));
}

TEST(PlannerTest, AfterAFailureOneCreationAtATimeWhenItsTimeHasCome) {
  GroupView view = GroupOf(3, {});
  Prng prng(1);
  view.creation.backoff.OnFailure(FailureClass::kCapacity, "none left", At(kNow), prng);
  Plan plan = PlanNow(view);
  EXPECT_THAT(plan.actions, IsEmpty());
  ASSERT_THAT(ShortHolds(plan), ElementsAre("create-backoff"));
  EXPECT_EQ(plan.holds[0].detail, "capacity: none left");
  EXPECT_EQ(plan.replan_at, view.creation.backoff.until());
  plan = PlanGroup(view, *view.creation.backoff.until());
  EXPECT_THAT(Short(plan), ElementsAre("create"));
  view.instances = {Creating(1)};
  EXPECT_THAT(PlanGroup(view, *view.creation.backoff.until()).actions, IsEmpty());
  view.instances = {Provisioned(1)};
  EXPECT_THAT(Short(PlanGroup(view, *view.creation.backoff.until())), ElementsAre("create"));
}

TEST(PlannerTest, WhileAgentsDoNotRegisterOneUnregisteredMemberAtATime) {
  GroupView view = GroupOf(3, {Provisioned(1)});
  Prng prng(1);
  view.creation.backoff.OnFailure(FailureClass::kNoRegistration, "no", At(kNow - 1'000), prng);
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  // An older member proves nothing.
  view.instances = {Healthy(1)};
  EXPECT_FALSE(PlanNow(view).registration_proven);
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create"));
  // One that registered since, healthy for a minute: it works again.
  view.instances[0].health.registered_at = At(kNow - 90);
  view.instances[0].health.healthy_since = At(kNow - 60);
  const Plan plan = PlanNow(view);
  EXPECT_TRUE(plan.registration_proven);
  EXPECT_THAT(Short(plan), ElementsAre("create", "create"));
  view.instances[0].health.healthy_since = At(kNow - 59);
  EXPECT_FALSE(PlanNow(view).registration_proven);
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create"));
}

TEST(PlannerTest, AGroupWithAPoolMakesNoInstances) {
  GroupView view = GroupOf(2, {});
  view.spec.pool = true;
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  EXPECT_THAT(ShortHolds(PlanNow(view)), ElementsAre("pool-unavailable"));
  view = GroupOf(0, {Healthy(1), Drifted(2), Stale(3)});
  view.spec.pool = true;
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 3 unhealthy"));
}

// ---- the brake ---------------------------------------------------------------------------------

TEST(PlannerTest, I21TheBrakeHoldsAndAHeldInstanceKeepsCounting) {
  GroupView view = GroupOf(4, {Stale(1), Absent(2), Healthy(3), Healthy(4)});
  view.brake.unordered = {.free = 1, .limit = 1};
  view.brake.opportunistic.free = 1;
  Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("create for 2", "delete 2 provider-gone"));
  EXPECT_THAT(ShortHolds(plan), ElementsAre("brake 1"));
  view.brake.unordered = {.free = 0, .limit = 1, .frees_at = At(kNow + 77)};
  plan = PlanNow(view);
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(plan.counts.members, 4);
  EXPECT_EQ(plan.replan_at, At(kNow + 77));
}

TEST(PlannerTest, I21RotationUsesItsHalfOnly) {
  GroupView view = GroupOf(2, {Drifted(1), Healthy(2), Replacing(Healthy(3), 1)});
  view.brake.opportunistic = {.free = 0, .limit = 2, .frees_at = At(kNow + 5)};
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  EXPECT_THAT(ShortHolds(PlanNow(view)), ElementsAre("brake 1"));
}

TEST(PlannerTest, I21ScaleDownIsOrderedWhenTheApiSetTheSize) {
  GroupView view = GroupOf(0, {Healthy(1), Healthy(2), Healthy(3)});
  view.brake.ordered = {.free = 2, .limit = 2};
  Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("drain 1 scale-down", "drain 2 scale-down"));
  EXPECT_TRUE(plan.actions[0].ordered);
  EXPECT_THAT(ShortHolds(plan), ElementsAre("brake 3"));
  view.spec.size_ordered = false;
  view.brake.unordered = {.free = 1, .limit = 1};
  plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("drain 1 scale-down"));
  EXPECT_FALSE(plan.actions[0].ordered);
}

TEST(PlannerTest, I21ScaleDownFromTheConfigurationGoesBeforeHealth) {
  GroupView view = GroupOf(1, {Stale(1), Healthy(2), Healthy(3)});
  view.spec.size_ordered = false;
  view.spec.remove = {Id(3)};
  view.brake.unordered = {.free = 1, .limit = 1};
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 3 scale-down"));
}

TEST(PlannerTest, I21WhatNeverRegisteredIsNotBraked) {
  GroupView view = GroupOf(0, {Provisioned(1), Creating(2), Intended(3)});
  view.brake = FreeBrake(0);
  EXPECT_THAT(Short(PlanNow(view)),
              ElementsAre("delete 1 scale-down", "delete 2 scale-down", "delete 3 scale-down"));
}

TEST(PlannerTest, AHeldUnhealthyOneMayLeaveAsAnOrderedVictim) {
  GroupView view = GroupOf(1, {Stale(1), Healthy(2)});
  view.brake.unordered = {.free = 0, .limit = 1};
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 scale-down"));
}

// ---- orders ------------------------------------------------------------------------------------

TEST(PlannerTest, AnOrderedDeletionIsReplacedAndCounted) {
  const Plan plan = PlanNow(GroupOf(2, {Ordered(Healthy(1)), Healthy(2)}));
  ASSERT_THAT(Short(plan), ElementsAre("delete 1 requested", "create for 1"));
  EXPECT_TRUE(plan.actions[0].ordered);
  EXPECT_TRUE(plan.actions[0].counted);
}

TEST(PlannerTest, AnOrderUnderTheBrakeIsAcceptedAndItsStartWaits) {
  GroupView view = GroupOf(2, {Ordered(Healthy(1)), Healthy(2)});
  view.brake.ordered = {.free = 0, .limit = 1, .frees_at = At(kNow + 9)};
  Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("accept-delete 1 requested"));
  EXPECT_THAT(ShortHolds(plan), ElementsAre("brake 1"));
  EXPECT_EQ(plan.counts.members, 2);
  std::uint32_t next_id = 10;
  ApplyPlan(plan, At(kNow), next_id, view);
  view.brake.ordered.free = 0;
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  // While it waits it is nobody's reason to take another one.
  view.spec.size = 1;
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  view.spec.size = 2;
  view.brake.ordered.free = 1;
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("delete 1 requested", "create for 1"));
}

TEST(PlannerTest, AnOrderWithADrainGetsItsReplacementFirst) {
  GroupView view = GroupOf(2, {Ordered(Healthy(1), Duration::Seconds(40)), Healthy(2)});
  Plan plan = PlanNow(view);
  ASSERT_THAT(Short(plan), ElementsAre("drain 1 requested", "create for 1"));
  EXPECT_EQ(plan.actions[0].length, Duration::Seconds(40));
  view.creation.block = {.code = HoldCode::kKeyMissing};
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  // An on-demand instance needs none.
  view.instances[0].care = Care::kOnDemand;
  view.spec.size = 1;
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 requested"));
  // Nothing runs on one that never registered.
  view.instances[0] = Ordered(Creating(1));
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("delete 1 requested"));
}

TEST(PlannerTest, AnOrderEndsADrain) {
  EXPECT_THAT(Short(PlanNow(GroupOf(0, {Ordered(Draining(1, Reason::kUnhealthy))}))),
              ElementsAre("delete 1 requested"));
}

// ---- blocked and corrupt -----------------------------------------------------------------------

TEST(PlannerTest, ABlockedIdentityIsNotReplacedAndIsTheLastVictim) {
  for (const InstanceView& instance : {Blocked(Stale(1)), Blocked(Dead(1)), Blocked(Absent(1))}) {
    GroupView view = GroupOf(2, {instance, Healthy(2)});
    EXPECT_THAT(PlanNow(view).actions, IsEmpty());
    EXPECT_THAT(ShortHolds(PlanNow(view)), ElementsAre("identity-blocked 1"));
    view.spec.size = 1;
    EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 2 scale-down"));
    view.spec.remove = {Id(1)};
    EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 scale-down"));
    view.spec.remove.clear();
    view.spec.size = 0;
    EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 1 scale-down", "drain 2 scale-down"));
    view.instances[0].order = OrderView{};
    view.spec.size = 1;
    EXPECT_THAT(Short(PlanNow(view)), ElementsAre("delete 1 requested"));
  }
}

TEST(PlannerTest, ACorruptRecordCountsAndIsNeverTouched) {
  InstanceView corrupt = Absent(1);
  corrupt.corrupt = true;
  corrupt.order = OrderView{};
  GroupView view = GroupOf(2, {corrupt, Healthy(2)});
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  EXPECT_THAT(ShortHolds(PlanNow(view)), ElementsAre("record-corrupt 1"));
  view.spec.size = 0;
  view.spec.remove = {Id(1)};
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 2 scale-down"));
  view.removal = GroupRemoval{};
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("drain 2 group-deleted"));
}

// ---- restraints --------------------------------------------------------------------------------

TEST(PlannerTest, OnACachedConfigurationMembersAreHealedAndNothingElse) {
  InstanceView due = Healthy(4);
  due.created_at = At(kNow - 200'000);
  GroupView view = GroupOf(5, {Dead(1), Stale(2), Drifted(3), due, Healthy(5)});
  view.spec.expiry.forced_age = Duration::Seconds(150'000);
  view.restraint = Restraint::kConfigInvalid;
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create for 1", "create for 2", "drain 2 unhealthy",
                                                "delete 1 provider-stopped"));
  view.instances = {Healthy(1), Drifted(2), due};
  view.spec.size = 1;
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  view.removal = GroupRemoval{};
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  EXPECT_THAT(ShortHolds(PlanNow(view)), Contains("config-invalid"));
  // What the API asks for is done.
  view.instances[0].order = OrderView{};
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("delete 1 requested"));
}

TEST(PlannerTest, AnUndefinedTenantIsFrozen) {
  InstanceView over = Draining(4, Reason::kUnhealthy);
  over.drain->acked = true;
  GroupView view = GroupOf(9, {Dead(1), Stale(2), Notified(3), over, Ordered(Healthy(5))});
  view.restraint = Restraint::kTenantUndefined;
  const Plan plan = PlanNow(view);
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(ShortHolds(plan), ElementsAre("tenant-undefined"));
}

TEST(PlannerTest, BeforeTheFirstListingNothingIsDeleted) {
  InstanceView over = Draining(4, Reason::kUnhealthy);
  over.drain->acked = true;
  GroupView view = GroupOf(4, {Dead(1), Stale(2), Notified(3), over, Ordered(Healthy(5))});
  view.leadership.provider_listed = false;
  EXPECT_THAT(Short(PlanNow(view)),
              ElementsAre("accept-delete 5 requested", "create for 3", "drain 3 spot-terminating"));
}

TEST(PlannerTest, ADeletedGroupDrainsItsMembersUnderTheBrake) {
  GroupView view = GroupOf(7, {Healthy(1), Provisioned(2), Healthy(3)});
  view.removal = GroupRemoval{.ordered = false};
  view.brake.unordered = {.free = 1, .limit = 1};
  Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("drain 1 group-deleted", "delete 2 group-deleted"));
  EXPECT_FALSE(plan.actions[0].ordered);
  view.removal->ordered = true;
  plan = PlanNow(view);
  EXPECT_EQ(plan.actions.size(), 3U);
  EXPECT_TRUE(plan.actions[0].ordered);
}

// ---- mass silence ------------------------------------------------------------------------------

TEST(PlannerTest, ManySilentAgentsAtOnceAreNotReplaced) {
  GroupView view = GroupOf(5, {Stale(1), Stale(2), Stale(3), Healthy(4), Healthy(5)});
  view.instances[0].health.reported_at = At(kNow - 185);
  view.instances[1].health.reported_at = At(kNow - 185);
  view.instances[2].health.reported_at = At(kNow - 185);
  for (int i = 0; i < 3; ++i) {
    view.instances[static_cast<std::size_t>(i)].health.stream_ended_at = At(kNow - 184);
  }
  Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), IsEmpty());
  EXPECT_THAT(ShortHolds(plan), ElementsAre("mass-silence 1", "mass-silence 2", "mass-silence 3"));
  // T_mass later, with others reporting, the verdicts stand.
  const std::int64_t later = kNow - 184 + 600;
  for (std::size_t i = 3; i < 5; ++i) view.instances[i].health.reported_at = At(later - 1);
  EXPECT_THAT(Short(PlanGroup(view, At(later - 1))), IsEmpty());
  plan = PlanGroup(view, At(later));
  EXPECT_THAT(Short(plan),
              ElementsAre("create for 1", "create for 2", "create for 3", "drain 1 unhealthy",
                          "drain 2 unhealthy", "drain 3 unhealthy"));
}

TEST(PlannerTest, SilentAgentsWhoseVmsOneLookHasMissedAreManyAllTheSame) {
  GroupView view = GroupOf(5, {Stale(1), Stale(2), Stale(3), Healthy(4), Healthy(5)});
  for (std::size_t i = 0; i < 3; ++i) {
    view.instances[i].health.reported_at = At(kNow - 185);
    view.instances[i].health.stream_ended_at = At(kNow - 184);
  }
  for (std::size_t i = 1; i < 3; ++i) {
    view.instances[i].looks.missing_first = At(kNow - 3);
    view.instances[i].looks.missing_last = At(kNow - 3);
  }
  // Room may be made for one that is suspected to be gone; nobody leaves.
  EXPECT_THAT(Short(PlanNow(view)), ElementsAre("create for 2"));
  // Two looks are the provider's word: then only one is silent, and that is not many.
  for (std::size_t i = 1; i < 3; ++i) view.instances[i].looks.missing_first = At(kNow - 300);
  EXPECT_THAT(Short(PlanNow(view)), testing::Contains("drain 1 unhealthy"));
}

TEST(PlannerTest, WhenNobodyReportsOneReplacementProbesTheSilence) {
  GroupView view = GroupOf(3, {Stale(1), Stale(2), Stale(3)});
  Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("create for 1"));
  view.instances.push_back(Replacing(Creating(4), 1));
  EXPECT_THAT(Short(PlanNow(view)), IsEmpty());
  // Its first report ends the hold.
  view.instances.back() = Replacing(Healthy(4), 1);
  plan = PlanNow(view);
  EXPECT_THAT(Short(plan), ElementsAre("create for 2", "create for 3", "drain 1 unhealthy",
                                       "drain 2 unhealthy", "drain 3 unhealthy"));
}

TEST(PlannerTest, ASmallGroupIsJudgedWithItsTenant) {
  GroupView view = GroupOf(2, {Stale(1), Stale(2)});
  EXPECT_EQ(Short(PlanNow(view)).size(), 4U);
  view.tenant_health.silence = {.many = true, .held = true, .next_change = At(kNow + 8)};
  const Plan plan = PlanNow(view);
  EXPECT_THAT(Short(plan), IsEmpty());
  EXPECT_EQ(plan.replan_at, At(kNow + 8));
}

// ---- the time of the next plan -----------------------------------------------------------------

TEST(PlannerTest, ReplanAtIsTheNextMomentAtWhichSomethingComesDue) {
  GroupView view = GroupOf(1, {Healthy(1)});
  EXPECT_EQ(PlanNow(view).replan_at, At(kNow - 1 + 90));  // Late.
  view.spec.expiry.eligible_age = Duration::Seconds(86'420);
  EXPECT_EQ(PlanNow(view).replan_at, At(kNow + 21));
  EXPECT_EQ(PlanNow(GroupOf(0, {Draining(1, Reason::kUnhealthy)})).replan_at, At(kNow + 89));
  EXPECT_EQ(PlanNow(Group(0)).replan_at, std::nullopt);
}

TEST(PlannerTest, AWallClockThatJumpedPausesExpiry) {
  GroupView view = GroupOf(1, {Healthy(1)});
  view.spec.expiry.eligible_age = Duration::Hours(1);
  view.leadership.expiry_paused_until = At(kNow + 8);
  EXPECT_THAT(PlanNow(view).actions, IsEmpty());
  EXPECT_EQ(PlanNow(view).replan_at, At(kNow + 8));
  EXPECT_THAT(Short(PlanGroup(view, At(kNow + 8))), ElementsAre("create for 1"));
}

TEST(PlannerTest, EveryActionAndHoldHasASentence) {
  GroupView view = GroupOf(4, {Stale(1), Absent(2), Draining(3, Reason::kScaleDown), Suspect(4)});
  view.brake.unordered.free = 1;
  const Plan plan = PlanNow(view);
  ASSERT_FALSE(plan.actions.empty());
  for (const Action& action : plan.actions) EXPECT_GT(Describe(action).size(), 20U);
  for (const Hold& hold : plan.holds) EXPECT_GT(Describe(hold).size(), 10U);
  EXPECT_EQ(Describe(Hold{.code = HoldCode::kCreateBackoff, .detail = "quota: 5 of 5"}),
            "creations wait after a failure (quota: 5 of 5)");
}

TEST(PlannerTest, ADeletionThatTheProviderDoesNotTakeIsHeld) {
  InstanceView stuck = Deleting(1);
  EXPECT_THAT(ShortHolds(PlanNow(GroupOf(1, {stuck, Healthy(2)}))), IsEmpty());
  stuck.deletion->trouble = "quota of requests is used up";
  const Plan plan = PlanNow(GroupOf(1, {stuck, Healthy(2)}));
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(ShortHolds(plan), ElementsAre("provider-unavailable 1"));
  EXPECT_EQ(plan.holds[0].detail, "quota of requests is used up");
}

}  // namespace
}  // namespace nstance::fleet

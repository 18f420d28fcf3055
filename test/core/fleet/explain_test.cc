// The words for people: each phase, each health state, each hold code and each reason by its text,
// and totality by walking the enums. Then what a summary may never do, over random plans.
#include "core/fleet/explain.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "test/core/fleet/views.h"

namespace nstance::fleet {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr int kPhases = static_cast<int>(InstancePhase::kFailed) + 1;
constexpr int kHealthStates = static_cast<int>(HealthState::kTerminating) + 1;
constexpr int kHoldCodes = static_cast<int>(HoldCode::kPoolUnavailable) + 1;
constexpr int kReasons = static_cast<int>(Reason::kOrphan) + 1;

std::string Tell(const InstanceStory& story, const Plan& plan = {}) {
  return Summarize(story, plan, At(kNow));
}

Plan Holding(HoldCode code, std::optional<Instant> until = {}, std::string detail = {}) {
  Plan plan;
  plan.holds = {{.code = code, .instance = Id(1), .detail = std::move(detail), .until = until}};
  return plan;
}

// ---- lengths -----------------------------------------------------------------------------------

TEST(ExplainTest, LengthsHaveTheirTwoLargestUnits) {
  const std::vector<std::pair<Duration, std::string>> rows = {
      {Duration(), "0s"},
      {Duration::Milliseconds(999), "0s"},
      {Duration::Seconds(-5), "0s"},
      {Duration::Seconds(12), "12s"},
      {Duration::Seconds(60), "1m"},
      {Duration::Seconds(288), "4m48s"},
      {Duration::Seconds(3'600), "1h"},
      {Duration::Seconds(3'605), "1h"},
      {Duration::Seconds(3 * 3'600 + 5 * 60 + 59), "3h5m"},
      {Duration::Hours(24), "1d"},
      {Duration::Hours(52), "2d4h"},
      {Duration::Minutes(24 * 60 + 5), "1d"},
  };
  for (const auto& [length, text] : rows) EXPECT_EQ(ForPeople(length), text);
  EXPECT_THAT(ForPeople(Duration::Max()), EndsWith("h"));
}

TEST(ExplainTest, ForeignTextIsCutBetweenCharacters) {
  EXPECT_EQ(Shortened("short"), "short");
  EXPECT_EQ(Shortened(std::string(256, 'x')), std::string(256, 'x'));
  EXPECT_EQ(Shortened(std::string(300, 'x')), std::string(256, 'x') + "...");
  std::string umlauts = "x";
  for (int i = 0; i < 200; ++i) umlauts += "\u00e4";
  EXPECT_EQ(Shortened(umlauts).size(), 255U + 3U);
  EXPECT_EQ(Shortened(std::string(300, '\xff')).size(), 259U);
}

// ---- phases ------------------------------------------------------------------------------------

TEST(ExplainTest, EachPhaseHasItsSentence) {
  const Duration age = Duration::Seconds(12);
  EXPECT_EQ(
      Tell({.phase = InstancePhase::kIntended,
            .in_phase = age,
            .reason = "scale-up",
            .durable = false}),
      "Decided on 12s ago because the group has fewer instances than its size (scale-up); its "
      "creation begins when the decision is durable.");
  EXPECT_EQ(Tell({.phase = InstancePhase::kCreating, .in_phase = age}),
            "Being created since 12s; the provider has not answered yet.");
  EXPECT_EQ(Tell({.phase = InstancePhase::kProvisioned,
                  .in_phase = age,
                  .register_in = Duration::Minutes(4)}),
            "Made by the provider 12s ago; its agent has not registered yet. If it does not within "
            "4m, the instance is deleted and another one made.");
  EXPECT_EQ(Tell({.phase = InstancePhase::kRegistered,
                  .in_phase = age,
                  .health = HealthState::kHealthy,
                  .last_report = Duration::Seconds(3)}),
            "Running and healthy, registered since 12s; its last report came 3s ago.");
  EXPECT_EQ(
      Tell({.phase = InstancePhase::kDraining,
            .in_phase = age,
            .reason = "unhealthy",
            .deleted_in = Duration::Seconds(288),
            .replacement = InstanceStory::Other{Id(2), InstancePhase::kCreating}},
           Holding(HoldCode::kWaitingDrain, At(kNow + 288))),
      "Draining since 12s because its agent is silent although the provider says that it runs "
      "(unhealthy); it will be deleted in 4m48s or when the operator acknowledges. "
      "Replacement: " +
          Id(2).text() + " (creating).");
  EXPECT_EQ(Tell({.phase = InstancePhase::kDeleting, .in_phase = age, .reason = "requested"}),
            "Being deleted since 12s because it was asked for (requested); it is gone when the "
            "provider confirms.");
  EXPECT_EQ(Tell({.phase = InstancePhase::kGone, .in_phase = age, .reason = "scale-down"}),
            "Deleted 12s ago because the group has more instances than its size (scale-down).");
  EXPECT_EQ(Tell({.phase = InstancePhase::kFailed, .in_phase = age, .failure = "no capacity"}),
            "Could not be created, 12s ago: no capacity. Another one is made under a new id.");
}

TEST(ExplainTest, EveryPhaseAndHealthStateHasASentenceOfItsOwn) {
  std::set<std::string> texts;
  for (int phase = 0; phase < kPhases; ++phase) {
    texts.insert(Tell({.phase = static_cast<InstancePhase>(phase)}));
  }
  EXPECT_THAT(texts, SizeIs(kPhases));
  texts.clear();
  for (int state = 0; state < kHealthStates; ++state) {
    const std::string text = Tell({.phase = InstancePhase::kRegistered,
                                   .health = static_cast<HealthState>(state),
                                   .last_report = Duration::Minutes(2)});
    EXPECT_THAT(text, EndsWith("."));
    texts.insert(text);
  }
  EXPECT_THAT(texts, SizeIs(kHealthStates));
}

TEST(ExplainTest, WhatIsSpecialAboutAPhaseIsSaid) {
  EXPECT_THAT(Tell({.phase = InstancePhase::kDraining, .reason = "scale-down", .acked = true}),
              EndsWith("the operator has acknowledged, and it is deleted now."));
  EXPECT_THAT(Tell({.phase = InstancePhase::kDraining, .deleted_in = Duration::Seconds(-3)}),
              EndsWith("its time is over, and it is deleted now."));
  EXPECT_THAT(Tell({.phase = InstancePhase::kProvisioned,
                    .on_demand = true,
                    .register_in = Duration::Minutes(1)}),
              EndsWith("the instance is deleted."));
  EXPECT_THAT(Tell({.phase = InstancePhase::kFailed, .on_demand = true}),
              HasSubstr("Ask for a new one"));
  EXPECT_THAT(Tell({.phase = InstancePhase::kGone, .failure = "cancelled"}),
              HasSubstr("its creation came to nothing (cancelled)"));
  EXPECT_THAT(Tell({.phase = InstancePhase::kRegistered, .corrupt = true}),
              StartsWith("Its record does not read"));
  EXPECT_THAT(Tell({.phase = InstancePhase::kDeleting, .reason = "of-a-later-version"}),
              HasSubstr("because of of-a-later-version"));
  EXPECT_THAT(Tell({.phase = InstancePhase::kIntended}), EndsWith("its creation begins."));
  for (const InstancePhase phase : {InstancePhase::kIntended, InstancePhase::kCreating}) {
    EXPECT_THAT(Tell({.phase = phase, .in_queue = true, .trouble = "the token ran out"}),
                EndsWith("it waits for its turn to be created. What is in its way: the token ran "
                         "out."));
  }
  EXPECT_THAT(Tell({.phase = InstancePhase::kCreating,
                    .replaces = InstanceStory::Other{Id(9), InstancePhase::kDraining}}),
              HasSubstr("It stands in for " + Id(9).text() + " (draining)."));
}

// ---- holds -------------------------------------------------------------------------------------

struct HoldRow {
  HoldCode code;
  std::string_view why;   // What is said of the cause.
  std::string_view what;  // What a person can do; empty: nothing.
};

const std::vector<HoldRow>& HoldRows() {
  using enum HoldCode;
  static const std::vector<HoldRow> rows = {
      {kBrake, "deletion budget", "server.deletion_brake"},
      {kCreateBackoff, "after a failure", "Mend what the error names"},
      {kCreateRateLimit, "rate limit of the shard", "server.create_rate_limit"},
      {kCreateConcurrency, "those that are under way", "server.create_concurrency"},
      {kSurgeLimit, "size + surge", "surge"},
      {kOneRotation, "another rotation", ""},
      {kWaitingReplacement, "replacement is not ready", ""},
      {kWaitingHealthy, "not every other member is healthy", "not healthy"},
      {kNoReplacement, "no replacement can be made", "keeps the group from making"},
      {kWaitingDrain, "drain runs", "Acknowledge"},
      {kSecondLook, "a second time", ""},
      {kReconnectGrace, "leadership is young", ""},
      {kMassSilence, "our own side is suspected", "Check the network"},
      {kLbDeregistering, "load balancer", "Check the load balancer"},
      {kSubnetFull, "subnet of the pool is full", "Add a subnet"},
      {kImageUnresolved, "image is not resolved", "fallback"},
      {kUserdataUnavailable, "user data", "Mend the user data"},
      {kSecretUnavailable, "secret", "Mend the secret"},
      {kKeyMissing, "key is missing", "agent runs"},
      {kFileInvalid, "file cannot be made", "Mend the file"},
      {kProviderUnavailable, "provider cannot be asked", "Check the provider"},
      {kStoreUnavailable, "store cannot be reached", "Check the object store"},
      {kJournalFull, "journal is full", ""},
      {kTenantUndefined, "tenant is not defined", "Define the tenant"},
      {kRecordCorrupt, "record is corrupt", "Restore or remove the record"},
      {kConfigInvalid, "configuration in storage is invalid", "Mend the configuration"},
      {kConfigPending, "newer configuration", "Refresh"},
      {kIdentityBlocked, "identity was cloned", "Delete the instance"},
      {kOnDemand, "on-demand instances are not replaced", "Delete the instance"},
      {kClaimed, "claimed instances are not replaced", "Release"},
      {kPoolUnavailable, "warm pools are not served", "Remove `pool`"},
  };
  return rows;
}

TEST(ExplainTest, EachHoldSaysWhyUntilWhenAndWhatToDo) {
  std::set<HoldCode> seen;
  for (const HoldRow& row : HoldRows()) {
    seen.insert(row.code);
    const std::string text =
        Summarize({.code = row.code, .detail = "the detail", .until = At(kNow + 75)}, At(kNow));
    EXPECT_THAT(text, StartsWith(fmt::format("Held ({}): ", Word(row.code))));
    EXPECT_THAT(text, HasSubstr(row.why));
    EXPECT_THAT(text, HasSubstr("(the detail); it goes on in 1m15s."));
    EXPECT_THAT(text, EndsWith("."));
    if (row.what.empty()) {
      EXPECT_THAT(text, EndsWith("it goes on in 1m15s."));
    } else {
      EXPECT_THAT(text, HasSubstr(row.what));
    }
    // The same about an instance, in whatever phase.
    for (int phase = 0; phase < kPhases; ++phase) {
      const std::string told =
          Tell({.phase = static_cast<InstancePhase>(phase)}, Holding(row.code, At(kNow + 75)));
      const bool said = row.code == HoldCode::kWaitingDrain &&
                        static_cast<InstancePhase>(phase) == InstancePhase::kDraining;
      EXPECT_EQ(told.contains(fmt::format("Held ({})", Word(row.code))), !said) << told;
    }
  }
  EXPECT_THAT(seen, SizeIs(kHoldCodes)) << "a code without a row";
}

TEST(ExplainTest, AHoldWithoutATimeWaitsForAChangeAndOneThatIsOverForNothing) {
  EXPECT_THAT(Summarize({.code = HoldCode::kOneRotation}, At(kNow)),
              EndsWith("it waits until something changes."));
  EXPECT_THAT(Summarize({.code = HoldCode::kSecondLook, .until = At(kNow)}, At(kNow)),
              EndsWith("it goes on now."));
}

TEST(ExplainTest, EveryReasonHasAClauseOfItsOwn) {
  std::set<std::string_view> clauses;
  for (int i = 0; i < kReasons; ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_THAT(Because(reason), Not(IsEmpty())) << Word(reason);
    clauses.insert(Because(reason));
    EXPECT_THAT(Tell({.phase = InstancePhase::kDeleting, .reason = std::string(Word(reason))}),
                HasSubstr(fmt::format("because {} ({})", Because(reason), Word(reason))));
  }
  EXPECT_THAT(clauses, SizeIs(kReasons));
}

// ---- plans -------------------------------------------------------------------------------------

TEST(ExplainTest, APlanIsNarrowedToWhatConcernsTheInstance) {
  GroupView view = GroupOf(3, {Stale(1), Drifted(2), Healthy(3)});
  view.brake = {};  // Nothing may leave.
  const Plan plan = PlanNow(view);
  const Plan one = NarrowTo(plan, Id(1));
  EXPECT_THAT(one.holds, Not(IsEmpty()));
  for (const Hold& hold : one.holds) EXPECT_EQ(hold.instance, Id(1));
  EXPECT_EQ(one.replan_at, plan.replan_at);
  EXPECT_THAT(NarrowTo(plan, Id(3)).holds, IsEmpty());
  EXPECT_THAT(NarrowTo(plan, Id(99)).actions, IsEmpty());
}

TEST(ExplainTest, WhoWaitsForAReplacementIsToldWhyNoneIsMade) {
  Plan plan;
  plan.holds = {{.code = HoldCode::kSubnetFull},
                {.code = HoldCode::kNoReplacement, .instance = Id(1)},
                {.code = HoldCode::kWaitingHealthy, .instance = Id(2)}};
  EXPECT_THAT(NarrowTo(plan, Id(1)).holds, SizeIs(2));
  EXPECT_THAT(NarrowTo(plan, Id(2)).holds, SizeIs(1));
  plan.holds[0].code = HoldCode::kTenantUndefined;
  EXPECT_THAT(NarrowTo(plan, Id(2)).holds, SizeIs(2)) << "what concerns all concerns each";
}

TEST(ExplainTest, AnInstanceThatLeavesNextIsToldSo) {
  const Plan plan = PlanNow(GroupOf(2, {Stale(1), Healthy(2)}));
  const std::string text = Tell(
      {.phase = InstancePhase::kRegistered, .health = HealthState::kStale}, NarrowTo(plan, Id(1)));
  EXPECT_THAT(text, HasSubstr(" Next: create an instance in place of " + Id(1).text() + "."));
  EXPECT_THAT(text, HasSubstr(" Next: drain " + Id(1).text() + ": its agent is silent"));
}

TEST(ExplainTest, AGroupIsToldByItsCounts) {
  const auto tell = [](const GroupStory& story, const Plan& plan = {}) {
    return Summarize(story, plan, At(kNow));
  };
  EXPECT_EQ(tell({.size = 3, .ready = 3}), "3 of 3 instances are ready. Nothing to do.");
  EXPECT_EQ(tell({.size = 1, .ready = 1}), "1 of 1 instance is ready. Nothing to do.");
  EXPECT_EQ(tell({.size = 0}), "The group has size 0. Nothing to do.");
  EXPECT_EQ(tell({.size = 0, .ready = 2, .draining = 1}),
            "The group has size 0; 2 still ready; 1 draining. Nothing else is to be done.");
  EXPECT_EQ(tell({.draining = 1, .removed = true}),
            "The group is deleted; 1 instance is still leaving.");
  EXPECT_EQ(tell({.size = 5, .ready = 2, .creating = 1, .draining = 1, .others = 1}),
            "2 of 5 instances are ready; 1 being created; 1 draining; 1 not healthy. Nothing "
            "else is to be done.");
  const Plan plan = PlanNow(GroupOf(4, {Healthy(1), Stale(2)}));
  EXPECT_THAT(tell({.size = 4, .ready = 1, .others = 1}, plan),
              HasSubstr(" Next: create 1 (replace), drain 1 (unhealthy), create 2 (scale-up)."));
}

TEST(ExplainTest, ManyHoldsOfAGroupAreCounted) {
  Plan plan;
  plan.holds = {{.code = HoldCode::kCreateBackoff, .detail = "quota: 5 of 5"}};
  for (std::uint32_t i = 1; i <= 12; ++i) {
    plan.holds.push_back({.code = HoldCode::kOneRotation, .instance = Id(i)});
  }
  const std::string text = Summarize(GroupStory{.size = 13, .ready = 12}, plan, At(kNow));
  EXPECT_THAT(text, HasSubstr("Held (create-backoff): creations wait after a failure (quota: 5 of "
                              "5); it waits until something changes."));
  EXPECT_THAT(text, HasSubstr(" 12 instances are held so."));
}

// Whatever a plan is, its summary is whole sentences of bounded length.
TEST(ExplainTest, SummariesAreBoundedAndEndWithAFullStop) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Prng prng(seed);
    Plan plan;
    const auto some = [&] { return static_cast<std::uint32_t>(prng.Below(200)); };
    for (std::uint32_t i = some(); i > 0; --i) {
      plan.holds.push_back({.code = static_cast<HoldCode>(prng.Below(kHoldCodes)),
                            .instance = Id(i),
                            .detail = std::string(some() * 10, 'x')});
    }
    for (std::uint32_t i = some(); i > 0; --i) {
      plan.actions.push_back({.kind = static_cast<ActionKind>(prng.Below(6)),
                              .reason = static_cast<Reason>(prng.Below(kReasons)),
                              .instance = Id(i)});
    }
    const InstanceStory story = {.phase = static_cast<InstancePhase>(prng.Below(kPhases)),
                                 .in_phase = Duration::Seconds(some()),
                                 .health = static_cast<HealthState>(prng.Below(kHealthStates)),
                                 .failure = std::string(some() * 10, 'y')};
    for (const std::string& text :
         {Tell(story, plan), Summarize(GroupStory{.size = 3}, plan, At(kNow))}) {
      EXPECT_THAT(text, EndsWith(".")) << seed;
      EXPECT_LT(text.size(), 6'000U) << seed;
    }
  }
}

// ---- events ------------------------------------------------------------------------------------

InstanceRecord Record(InstancePhase phase) {
  InstanceRecord record = {
      .instance_id = Id(1), .tenant = DefaultTenant(), .group = GroupKey::Parse("workers").value()};
  record.phase = phase;
  record.provider_instance_id = "i-1";
  return record;
}

TEST(ExplainTest, EveryChangeOfAPhaseHasNews) {
  std::set<std::string> texts;
  for (int phase = 0; phase < kPhases; ++phase) {
    texts.insert(PhaseNews(InstancePhase::kIntended, Record(static_cast<InstancePhase>(phase))));
  }
  EXPECT_THAT(texts, SizeIs(kPhases));
  EXPECT_EQ(PhaseNews(InstancePhase::kDraining, Record(InstancePhase::kRegistered)),
            "its drain was cancelled: the group needs it");
  InstanceRecord draining = Record(InstancePhase::kDraining);
  draining.drain = RecordDrain{.reason = "scale-down", .length = Duration::Minutes(5)};
  EXPECT_EQ(ReasonOf(draining), "scale-down");
  EXPECT_EQ(PhaseNews(InstancePhase::kRegistered, draining),
            "draining because the group has more instances than its size (scale-down); deleted in "
            "5m unless acknowledged before");
  InstanceRecord failed = Record(InstancePhase::kFailed);
  failed.failure = RecordFailure{.code = "quota", .message = "5 of 5 are used"};
  EXPECT_EQ(ReasonOf(failed), "quota");
  EXPECT_EQ(PhaseNews(InstancePhase::kCreating, failed),
            "it could not be created: 5 of 5 are used");
}

}  // namespace
}  // namespace nstance::fleet

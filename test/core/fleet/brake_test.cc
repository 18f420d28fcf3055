// The deletion brake by example, then over seeds against a window that is counted by hand; the
// creation back-off.
#include "core/fleet/brake.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "core/fleet/backoff.h"
#include "test/core/fleet/views.h"
#include "test/core/random_record.h"

namespace nstance::fleet {
namespace {

TenantBrake DefaultBrake() { return TenantBrake(config::DeletionBrake{}); }

TEST(BrakeTest, I21TheDefaultsAllowFiveInTenMinutesAndTenPercent) {
  TenantBrake brake = DefaultBrake();
  EXPECT_EQ(brake.Budget(At(0), 3).unordered.free, 5);
  EXPECT_EQ(brake.Budget(At(0), 99).unordered.free, 9);
  EXPECT_EQ(brake.Budget(At(0), 200).unordered.free, 20);
  EXPECT_EQ(brake.Budget(At(0), 3).ordered.free, 10);
  EXPECT_EQ(brake.Budget(At(0), 200).ordered.free, 50);
  EXPECT_EQ(brake.Budget(At(0), 200).opportunistic.free, 10);
  for (int i = 0; i < 5; ++i) brake.Note({.at = At(100 + i)});
  const BrakeBudget budget = brake.Budget(At(200), 3);
  EXPECT_EQ(budget.unordered.free, 0);
  EXPECT_EQ(budget.unordered.frees_at, At(700));
  EXPECT_EQ(budget.opportunistic.free, 0);
  EXPECT_EQ(budget.opportunistic.frees_at, At(700));
  EXPECT_EQ(budget.ordered.free, 10);
  EXPECT_EQ(brake.Budget(At(699), 3).unordered.free, 0);
  EXPECT_EQ(brake.Budget(At(700), 3).unordered.free, 1);
}

TEST(BrakeTest, I21ExpiryDriftAndPoolAgeUseHalfAtLeastOne) {
  config::DeletionBrake limits;
  limits.unordered.count = 1;
  limits.unordered.percent = 0;
  EXPECT_EQ(TenantBrake(limits).Budget(At(0), 0).opportunistic.free, 1);
  limits.unordered.count = 5;
  TenantBrake brake(limits);
  brake.Note({.at = At(0), .opportunistic = true});
  brake.Note({.at = At(1), .opportunistic = true});
  const BrakeBudget budget = brake.Budget(At(2), 0);
  EXPECT_EQ(budget.opportunistic.free, 0);
  EXPECT_EQ(budget.opportunistic.frees_at, At(600));
  EXPECT_EQ(budget.unordered.free, 3);
}

TEST(BrakeTest, AWindowOfZeroIsOffAndALimitOfZeroNeverFrees) {
  config::DeletionBrake limits;
  limits.unordered = {.window = Duration(), .count = 0, .percent = 0};
  limits.ordered = {.window = Duration::Minutes(1), .count = 0, .percent = 0};
  TenantBrake brake(limits);
  for (int i = 0; i < 100; ++i) brake.Note({.at = At(i)});
  EXPECT_GT(brake.Budget(At(100), 0).unordered.free, 1'000'000);
  EXPECT_GT(brake.Budget(At(100), 0).opportunistic.free, 1'000'000);
  EXPECT_EQ(brake.Budget(At(100), 0).ordered.free, 0);
  EXPECT_EQ(brake.Budget(At(100), 0).ordered.frees_at, std::nullopt);
}

TEST(BrakeTest, I21NoWindowHoldsMoreStartsThanItsLimit) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Prng prng(seed);
    config::DeletionBrake limits;
    limits.unordered = {.window = Duration::Seconds(prng.Between(1, 60)),
                        .count = static_cast<int>(prng.Between(1, 4)),
                        .percent = 0};
    TenantBrake brake(limits);
    std::vector<Instant> starts;
    Instant now = At(1'000);
    for (int step = 0; step < 100; ++step) {
      const BudgetOf budget = brake.Budget(now, 0).unordered;
      if (budget.free > 0) {
        brake.Note({.at = now});
        starts.push_back(now);
      } else {
        ASSERT_TRUE(budget.frees_at.has_value());
        ASSERT_GT(*budget.frees_at, now);
        ASSERT_GT(brake.Budget(*budget.frees_at, 0).unordered.free, 0) << seed;
      }
      brake.Forget(now);
      const auto in_window = std::ranges::count_if(
          starts, [&](Instant at) { return now - at < limits.unordered.window; });
      ASSERT_LE(in_window, limits.unordered.count) << seed;
      now = now + Duration::Seconds(prng.Between(0, 20));
    }
  }
}

TEST(BrakeTest, ANewLeaderRebuildsTheWindowFromRecordsAndIntents) {
  const ClockReading clock{.mono = At(10'000), .wall = Timestamp::FromUnix(2'000'000)};
  const Timestamp ago = clock.wall - Duration::Seconds(30);
  Prng prng(1);
  InstanceRecord record = RandomRecord(prng);
  record.drain.reset();
  record.deletion.reset();
  EXPECT_EQ(StartOf(record, clock), std::nullopt);
  record.deletion = RecordDeletion{
      .reason = "provider-gone", .started_at = ago, .ordered = false, .counted = true};
  EXPECT_EQ(StartOf(record, clock), (BrakeStart{.at = At(9'970)}));
  record.deletion->counted = false;
  EXPECT_EQ(StartOf(record, clock), std::nullopt);
  // With a drain it counted once, when that began; the deletion after it does not count.
  record.deletion = RecordDeletion{
      .reason = "config-drift", .started_at = clock.wall, .ordered = false, .counted = true};
  record.drain =
      RecordDrain{.id = "1-1-1", .reason = "config-drift", .started_at = ago, .counted = true};
  EXPECT_EQ(StartOf(record, clock), (BrakeStart{.at = At(9'970), .opportunistic = true}));
  record.drain->ordered = true;
  EXPECT_EQ(StartOf(record, clock), (BrakeStart{.at = At(9'970), .kind = BrakeKind::kOrdered}));
  record.drain->reason = "of a newer program";
  record.drain->ordered = false;
  EXPECT_EQ(StartOf(record, clock), (BrakeStart{.at = At(9'970)}));

  Intent drain = ExampleIntent(IntentKind::kDrain, prng);
  drain.opened_at = clock.wall + Duration::Hours(1);  // A clock was wrong: it counts from now.
  drain.counted = true;
  EXPECT_EQ(StartOf(drain, clock), (BrakeStart{.at = At(10'000)}));
  Intent deletion = ExampleIntent(IntentKind::kDelete, prng);
  deletion.counted = true;
  EXPECT_EQ(StartOf(deletion, clock), std::nullopt);
}

// ---- back-off ----------------------------------------------------------------------------------

TEST(BackoffTest, ItDoublesUpToFiveMinutesWithJitter) {
  for (const FailureClass failure : {FailureClass::kCapacity, FailureClass::kOther,
                                     FailureClass::kNoRegistration, FailureClass::kAuth}) {
    Prng prng(1);
    CreationBackoff backoff;
    EXPECT_FALSE(backoff.active());
    EXPECT_EQ(backoff.until(), std::nullopt);
    for (const std::int64_t wait : {5, 10, 20, 40, 80, 160, 300, 300, 300}) {
      backoff.OnFailure(failure, "why", At(0), prng);
      EXPECT_GE(*backoff.until(), At(wait));
      EXPECT_LE(*backoff.until(), At(wait) + Duration::Seconds(wait) / 4);
    }
    EXPECT_EQ(backoff.failures(), 9);
    EXPECT_EQ(backoff.Describe(), std::string(Word(failure)) + ": why");
    EXPECT_EQ(ParseFailureClass(Word(failure)), failure);
  }
  EXPECT_EQ(ParseFailureClass("?"), FailureClass::kOther);
}

TEST(BackoffTest, ClassInvalidWaitsForAChangeAtMostTenMinutes) {
  Prng prng(1);
  CreationBackoff backoff;
  backoff.OnFailure(FailureClass::kInvalid, "no such type", At(0), prng);
  EXPECT_EQ(backoff.until(), At(600));
  backoff.OnChange();
  EXPECT_LT(*backoff.until(), At(7));
}

TEST(BackoffTest, ASuccessResetsTheProvidersClassesAndHealthTheOther) {
  Prng prng(1);
  CreationBackoff backoff;
  backoff.OnFailure(FailureClass::kQuota, "q", At(0), prng);
  backoff.OnFailure(FailureClass::kNoRegistration, "r", At(100), prng);
  EXPECT_TRUE(backoff.registration_failing());
  EXPECT_EQ(backoff.Describe(), "no-registration: r");
  backoff.OnCreated();
  EXPECT_TRUE(backoff.active());
  backoff.OnRegistrationProven();
  EXPECT_EQ(backoff, CreationBackoff());
}

}  // namespace
}  // namespace nstance::fleet

// Health, looks and times by tables of moments; mass silence by shares; then properties over seeds.
#include "core/fleet/health.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "core/fleet/look.h"
#include "core/fleet/times.h"
#include "test/core/fleet/views.h"

namespace nstance::fleet {
namespace {

const FleetTimes kTimes{};

HealthJudgement Judge(const HealthFacts& facts, std::int64_t now, std::int64_t since = 0) {
  return JudgeHealth(facts, At(since), kTimes, At(now));
}

TEST(HealthTest, StatesFollowTheTable) {
  const HealthFacts reporting{
      .registered_at = At(10), .reported_at = At(1'000), .stream_open = true};
  HealthFacts ended = reporting;
  ended.stream_open = false;
  ended.stream_ended_at = At(1'005);
  const HealthFacts silent{.registered_at = At(900)};
  HealthFacts noticed = reporting;
  noticed.notice = TerminationNotice{};
  struct Row {
    HealthFacts facts;
    std::int64_t now;
    HealthState state;
  };
  const std::vector<Row> rows = {
      {reporting, 1'000, HealthState::kHealthy},  {reporting, 1'089, HealthState::kHealthy},
      {reporting, 1'090, HealthState::kLate},     {reporting, 1'179, HealthState::kLate},
      {reporting, 1'180, HealthState::kStale},    {ended, 1'006, HealthState::kDisconnected},
      {ended, 1'179, HealthState::kDisconnected}, {ended, 1'180, HealthState::kStale},
      {silent, 900, HealthState::kUnknown},       {silent, 1'079, HealthState::kUnknown},
      {silent, 1'080, HealthState::kStale},       {noticed, 1'000, HealthState::kTerminating},
      {noticed, 5'000, HealthState::kTerminating}};
  for (const Row& row : rows) {
    EXPECT_EQ(Judge(row.facts, row.now).state, row.state) << row.now << " " << Word(row.state);
  }
}

TEST(HealthTest, ANewLeaderCountsFromItsBeginningAndNotLessThanTheGrace) {
  const HealthFacts facts{.registered_at = At(10)};
  EXPECT_EQ(Judge(facts, 10'000, 9'900).state, HealthState::kUnknown);
  EXPECT_EQ(Judge(facts, 10'080, 9'900).state, HealthState::kStale);
  FleetTimes quick = kTimes;
  quick.interval = Duration::Seconds(5);
  EXPECT_EQ(JudgeHealth(facts, At(9'900), quick, At(9'944)).state, HealthState::kUnknown);
  EXPECT_EQ(JudgeHealth(facts, At(9'900), quick, At(9'945)).state, HealthState::kStale);
  // With a report of this leadership the interval alone decides.
  const HealthFacts reported{
      .registered_at = At(10), .reported_at = At(9'901), .stream_open = true};
  EXPECT_EQ(JudgeHealth(reported, At(9'900), quick, At(9'916)).state, HealthState::kStale);
}

// Members of a group are stale within moments of each other when a leader has heard none of them:
// the first must find the others silent.
TEST(HealthTest, WhoHasNotComeToANewLeaderIsSilentBeforeItIsStale) {
  const HealthFacts facts{.registered_at = At(10)};
  EXPECT_EQ(Judge(facts, 9'989, 9'900).silent_since, std::nullopt);
  EXPECT_EQ(Judge(facts, 9'989, 9'900).next_change, At(9'990));
  EXPECT_EQ(Judge(facts, 9'990, 9'900).silent_since, At(9'990));
  EXPECT_EQ(Judge(facts, 9'990, 9'900).state, HealthState::kUnknown);
  EXPECT_EQ(Judge(facts, 10'080, 9'900).silent_since, At(9'990));
  HealthFacts connected = facts;
  connected.stream_open = true;
  EXPECT_EQ(Judge(connected, 9'990, 9'900).silent_since, std::nullopt);
  connected.reported_at = At(9'950);
  EXPECT_EQ(Judge(connected, 9'990, 9'900).silent_since, std::nullopt);
  EXPECT_EQ(Judge(connected, 10'040, 9'900).silent_since, At(10'040));
}

TEST(HealthTest, AGapOfOurOwnIsUnknownTime) {
  const HealthFacts facts{.registered_at = At(10), .reported_at = At(1'000), .stream_open = true};
  // Paused from 1,010 to 1,610.
  EXPECT_EQ(Judge(facts, 1'610, 1'610).state, HealthState::kUnknown);
  EXPECT_EQ(Judge(facts, 1'790, 1'610).state, HealthState::kStale);
}

TEST(HealthTest, ASlowerAgentIsJudgedByItsOwnIntervalUpToTenMinutes) {
  HealthFacts facts{.registered_at = At(0),
                    .reported_at = At(1'000),
                    .stream_open = true,
                    .announced_interval = Duration::Seconds(100)};
  EXPECT_EQ(Judge(facts, 1'149).state, HealthState::kHealthy);
  EXPECT_EQ(Judge(facts, 1'300).state, HealthState::kStale);
  facts.announced_interval = Duration::Seconds(1);
  EXPECT_EQ(Judge(facts, 1'089).state, HealthState::kHealthy);
  facts.announced_interval = Duration::Hours(9);
  EXPECT_EQ(Judge(facts, 2'799).state, HealthState::kLate);
  EXPECT_EQ(Judge(facts, 2'800).state, HealthState::kStale);
}

TEST(HealthTest, TroubleBeginsWithTheEndOfTheStreamOrWithLateness) {
  HealthFacts facts{.registered_at = At(0), .reported_at = At(1'000), .stream_open = true};
  EXPECT_EQ(Judge(facts, 1'050).trouble_since, std::nullopt);
  EXPECT_EQ(Judge(facts, 1'095).trouble_since, At(1'090));
  facts.stream_open = false;
  facts.stream_ended_at = At(1'100);
  EXPECT_EQ(Judge(facts, 1'101).trouble_since, At(1'090));
  facts.stream_ended_at = At(1'020);
  EXPECT_EQ(Judge(facts, 1'101).trouble_since, At(1'020));
}

HealthFacts RandomFacts(Prng& prng) {
  HealthFacts facts{.registered_at = At(prng.Between(0, 300))};
  if (prng.Chance(2, 3)) facts.reported_at = At(prng.Between(0, 600));
  facts.stream_open = prng.Chance(1, 2);
  if (prng.Chance(1, 2)) facts.stream_ended_at = At(prng.Between(0, 600));
  if (prng.Chance(1, 8)) facts.notice = TerminationNotice{};
  return facts;
}

TEST(HealthTest, NothingChangesBeforeNextChange) {
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    Prng prng(seed);
    const HealthFacts facts = RandomFacts(prng);
    const std::int64_t now = prng.Between(600, 1'200);
    const Instant since = At(prng.Between(0, 600));
    const HealthJudgement first = JudgeHealth(facts, since, kTimes, At(now));
    const Duration free =
        first.next_change ? *first.next_change - At(now) : Duration::Seconds(100'000);
    ASSERT_GT(free, Duration()) << seed;
    const Instant later = At(now) + prng.UpTo(free - Duration::Nanoseconds(1));
    const HealthJudgement second = JudgeHealth(facts, since, kTimes, later);
    ASSERT_EQ(second.state, first.state) << seed;
    if (first.state == HealthState::kTerminating) continue;  // Never left, whatever else is wrong.
    ASSERT_EQ(second.trouble_since, first.trouble_since) << seed;
    ASSERT_EQ(second.silent_since, first.silent_since) << seed;
  }
}

TEST(HealthTest, WhoReportsEveryIntervalIsHealthyAtEveryMoment) {
  Prng prng(1);
  HealthFacts facts{.registered_at = At(0), .reported_at = At(0), .stream_open = true};
  for (std::int64_t report = 0; report < 6'000; report += 60) {
    facts.reported_at = At(report);
    const std::int64_t now = report + prng.Between(0, 60);
    EXPECT_EQ(Judge(facts, now).state, HealthState::kHealthy);
  }
}

// ---- mass silence ------------------------------------------------------------------------------

SilenceFacts Silent(int registered, int silent, std::int64_t since = 1'000) {
  return {.registered = registered,
          .silent_since = std::vector<Instant>(static_cast<std::size_t>(silent), At(since))};
}

TEST(SilenceTest, MoreThanThirtyPercentAndAtLeastThree) {
  for (const auto& [registered, silent, many] :
       std::vector<std::tuple<int, int, bool>>{{3, 3, true},
                                               {3, 2, false},
                                               {5, 2, false},
                                               {9, 3, true},
                                               {10, 3, false},
                                               {10, 4, true},
                                               {100, 30, false},
                                               {100, 31, true},
                                               {0, 0, false},
                                               {11, 3, false},
                                               {1'000, 301, true}}) {
    const SilenceJudgement judged = JudgeSilence(Silent(registered, silent), kTimes, At(1'001));
    EXPECT_EQ(judged.many, many) << silent << " of " << registered;
    EXPECT_EQ(judged.held, many);
  }
}

TEST(SilenceTest, ItBeganWhenTheShareWasPassed) {
  SilenceFacts facts{.registered = 10, .silent_since = {At(40), At(10), At(30), At(20), At(50)}};
  const SilenceJudgement judged = JudgeSilence(facts, kTimes, At(60));
  EXPECT_EQ(judged.began, At(40));
  EXPECT_EQ(judged.next_change, At(640));
}

TEST(SilenceTest, AfterTMassAReportOfAnotherAgentEndsItElseAProbeIsWanted) {
  SilenceFacts facts = Silent(3, 3);
  EXPECT_FALSE(JudgeSilence(facts, kTimes, At(1'599)).wants_probe);
  SilenceJudgement judged = JudgeSilence(facts, kTimes, At(1'600));
  EXPECT_TRUE(judged.held);
  EXPECT_TRUE(judged.wants_probe);
  facts.last_report = At(999);
  EXPECT_TRUE(JudgeSilence(facts, kTimes, At(1'600)).held);
  facts.last_report = At(1'000);
  judged = JudgeSilence(facts, kTimes, At(1'600));
  EXPECT_TRUE(judged.many);
  EXPECT_FALSE(judged.held);
  EXPECT_FALSE(judged.wants_probe);
}

// ---- looks -------------------------------------------------------------------------------------

TEST(LookTest, RU7AbsenceNeedsTwoLooksApartAndAnOldEnoughVm) {
  LookLog looks;
  EXPECT_EQ(JudgeAbsence(looks, kTimes), Absence::kPresent);
  looks.OnNotFound(At(299), At(0), kTimes);  // Younger than T_settle.
  EXPECT_EQ(JudgeAbsence(looks, kTimes), Absence::kPresent);
  looks.OnNotFound(At(300), At(0), kTimes);
  EXPECT_EQ(JudgeAbsence(looks, kTimes), Absence::kSuspect);
  looks.OnNotFound(At(359), At(0), kTimes);
  EXPECT_EQ(JudgeAbsence(looks, kTimes), Absence::kSuspect);
  looks.OnError();
  EXPECT_EQ(JudgeAbsence(looks, kTimes), Absence::kSuspect);
  looks.OnNotFound(At(360), At(0), kTimes);
  EXPECT_EQ(JudgeAbsence(looks, kTimes), Absence::kAbsent);
  looks.OnFound(ProviderStatus::kRunning, At(361));
  EXPECT_EQ(JudgeAbsence(looks, kTimes), Absence::kPresent);
}

TEST(LookTest, AReportProvesThatTheVmExists) {
  LookLog looks;
  looks.OnNotFound(At(300), At(0), kTimes);
  looks.OnReport();
  looks.OnNotFound(At(360), At(0), kTimes);
  EXPECT_EQ(JudgeAbsence(looks, kTimes), Absence::kSuspect);
}

TEST(LookTest, DeadSinceIsTheFirstOfAnUnbrokenRun) {
  LookLog looks;
  looks.OnFound(ProviderStatus::kStopping, At(1));
  looks.OnFound(ProviderStatus::kStopped, At(2));
  EXPECT_EQ(looks.dead_since, At(1));
  looks.OnFound(ProviderStatus::kRunning, At(3));
  EXPECT_EQ(looks.dead_since, std::nullopt);
  looks.OnFound(ProviderStatus::kDeleted, At(4));
  EXPECT_EQ(looks.dead_since, At(4));
}

TEST(LookTest, LooksComeAtOnceThenEverSlowerUpToThirtySeconds) {
  LookLog looks;
  std::int64_t now = 100;
  std::vector<std::int64_t> gaps;
  for (int i = 0; i < 7; ++i) {
    const auto due = NextLook(looks, At(100), kTimes);
    ASSERT_TRUE(due.has_value());
    gaps.push_back((*due - At(now)).seconds());
    now += gaps.back();
    looks.OnBegun(At(now));
    EXPECT_EQ(NextLook(looks, At(100), kTimes), std::nullopt);
    looks.OnFound(ProviderStatus::kRunning, At(now));
  }
  EXPECT_EQ(gaps, (std::vector<std::int64_t>{0, 3, 6, 12, 24, 30, 30}));
  // New trouble after a report starts over.
  looks.OnReport();
  EXPECT_EQ(NextLook(looks, At(now + 50), kTimes), At(now + 50));
}

TEST(LookTest, TheSecondLookWaitsForTVis) {
  LookLog looks;
  looks.OnBegun(At(400));
  looks.OnNotFound(At(400), At(0), kTimes);
  EXPECT_EQ(NextLook(looks, At(400), kTimes), At(460));
}

// ---- times -------------------------------------------------------------------------------------

TEST(FleetTimesTest, AConsistencyWindowOfZeroShortensTheWaits) {
  EXPECT_EQ(ForProvider({}, Duration()).t_vis, Duration::Seconds(5));
  EXPECT_EQ(ForProvider({}, Duration()).t_settle, Duration());
  EXPECT_EQ(ForProvider({}, Duration::Seconds(10)).t_vis, Duration::Seconds(60));
  EXPECT_EQ(ForProvider({}, Duration::Minutes(7)).t_settle, Duration::Minutes(7));
}

TEST(FleetTimesTest, RU8StoredTimesAreClampedToWhatTheyCanBe) {
  const Timestamp wall = Timestamp::FromUnix(1'000'000);
  const ClockReading clock{.mono = At(50), .wall = wall};
  EXPECT_EQ(MomentOf(wall - Duration::Seconds(20), clock), At(30));
  EXPECT_EQ(MomentOf(wall + Duration::Hours(9), clock), At(50));
  const auto deadline = [&](std::int64_t in) {
    return DeadlineOf({.deadline = wall + Duration::Seconds(in), .length = Duration::Minutes(5)},
                      clock);
  };
  EXPECT_EQ(deadline(60), At(110));
  EXPECT_EQ(deadline(-60), At(50));      // Over.
  EXPECT_EQ(deadline(99'999), At(350));  // Never later than its full length.
  EXPECT_EQ(WallTimeOf(At(110), clock), wall + Duration::Seconds(60));
}

TEST(TimesTest, RU8_AClockThatIsAMinuteAwayFromTheStoresIsNotBelieved) {
  const Timestamp wall = Timestamp::FromUnix(1'700'000'000);
  EXPECT_EQ(CorrectedNow(wall, std::nullopt), wall);
  for (const std::int64_t off : {-60, -1, 0, 1, 60}) {
    EXPECT_EQ(CorrectedNow(wall, wall + Duration::Seconds(off)), wall) << off;
  }
  for (const std::int64_t off : {-86'400, -61, 61, 86'400}) {
    const Timestamp store = wall + Duration::Seconds(off);
    EXPECT_EQ(CorrectedNow(wall, store), store) << off;
  }
}

}  // namespace
}  // namespace nstance::fleet

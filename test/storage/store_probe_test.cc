// The store probe against simulated stores: those that lie must be refused by the rule that they
// break, those with odd manners must pass, and one that is only hard to reach must never be taken
// for a liar.
#include "storage/store_probe.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "sim/seeded_random.h"
#include "sim/sim_object_store.h"

namespace nstance {
namespace {

using sim::SeededRandom;
using sim::SimBucket;
using sim::SimLoop;
using sim::SimObjectStore;
using sim::SimPersonality;
using sim::SimScheduler;
using sim::SimStoreFaults;

const Timestamp kWall = Timestamp::FromUnix(1'767'225'600);

// One probe of one bucket through two endpoints.
struct World {
  explicit World(std::uint64_t seed, const SimBucket::Options& options = {},
                 const SimStoreFaults& faults = {})
      : scheduler(seed),
        bucket(scheduler, options),
        loop(scheduler, kWall),
        first(bucket, loop, {.process = "first", .faults = faults}),
        second(bucket, loop, {.process = "second", .faults = faults}),
        random(seed),
        jitter(seed) {}

  StoreProbeReport Probe() {
    std::optional<StoreProbeReport> report;
    StoreProbeRunner runner(
        {.loop = loop, .endpoints = {first, second}, .random = random, .jitter = jitter}, "a",
        [&](StoreProbeReport result) { report = std::move(result); });
    runner.Start();
    EXPECT_FALSE(report.has_value());
    EXPECT_TRUE(scheduler.RunUntilTrue([&] { return report.has_value(); }, Duration::Minutes(30)));
    return report.value_or(StoreProbeReport{});
  }

  SimScheduler scheduler;
  SimBucket bucket;
  SimLoop loop;
  SimObjectStore first;
  SimObjectStore second;
  SeededRandom random;
  Prng jitter;
};

std::vector<int> Failed(const StoreProbeReport& report) {
  std::vector<int> numbers;
  for (const ProbeCheck& check : report.checks) {
    if (check.status == ProbeStatus::kFailed) numbers.push_back(check.number);
  }
  return numbers;
}

// Probes a store of this personality with several seeds; all verdicts must be the same.
std::vector<StoreProbeReport> ProbeMany(const SimPersonality& personality) {
  std::vector<StoreProbeReport> reports;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    World world(seed, {.personality = personality});
    reports.push_back(world.Probe());
    EXPECT_TRUE(world.bucket.Keys().empty()) << world.bucket.Keys().front().text();
  }
  return reports;
}

void ExpectRefused(const SimPersonality& personality, const std::vector<int>& rules,
                   const std::string& message) {
  for (const StoreProbeReport& report : ProbeMany(personality)) {
    EXPECT_EQ(report.verdict, ProbeVerdict::kRefused) << report.message;
    EXPECT_EQ(Failed(report), rules) << report.message;
    EXPECT_TRUE(report.message.starts_with(message)) << report.message;
  }
}

void ExpectAccepted(const SimPersonality& personality) {
  for (const StoreProbeReport& report : ProbeMany(personality)) {
    EXPECT_EQ(report.verdict, ProbeVerdict::kAccepted) << report.message;
    EXPECT_EQ(Failed(report), std::vector<int>());
  }
}

TEST(StoreProbeTest, AStoreThatKeepsItsWordIsAccepted) {
  World world(1, {.wall_start = kWall});
  const StoreProbeReport report = world.Probe();
  EXPECT_EQ(report.verdict, ProbeVerdict::kAccepted);
  EXPECT_EQ(report.message, "the store honours conditional writes");
  ASSERT_EQ(report.checks.size(), 9U);
  for (const ProbeCheck& check : report.checks) {
    EXPECT_EQ(check.status, check.number <= 6 ? ProbeStatus::kPassed : ProbeStatus::kReported)
        << check.number << ": " << check.detail;
  }
  EXPECT_TRUE(report.conditional_delete);
  EXPECT_EQ(report.listing_lag, Duration());
  ASSERT_TRUE(report.clock_offset);
  EXPECT_LT(*report.clock_offset, Duration::Seconds(1));
}

TEST(StoreProbeTest, ManyWinnersAreRefused) {
  ExpectRefused({.judges_before_it_writes = true}, {1, 2},
                "the store breaks rule 1 (of concurrent creates of one key exactly one wins, and "
                "its bytes are what is read): ");
}

TEST(StoreProbeTest, AStoreThatWritesOnAMissingKeyIsRefused) {
  ExpectRefused({.writes_on_missing_key = true}, {4},
                "the store breaks rule 4 (an update of a missing key is refused): the write was "
                "acknowledged");
}

TEST(StoreProbeTest, AStoreThatIgnoresConditionsIsRefused) {
  ExpectRefused({.ignores_conditions = true}, {1, 2, 3, 4, 5}, "the store breaks rule 1 ");
}

TEST(StoreProbeTest, AStoreThatIgnoresConditionsOfRewritesOnVersionedBucketsIsRefused) {
  ExpectRefused({.ignores_conditions_of_rewrites = true}, {1, 2, 3, 4, 5},
                "the store breaks rule 1 ");
}

TEST(StoreProbeTest, AStaleReadAfterAWriteIsRefused) {
  ExpectRefused({.reads_lag = Duration::Seconds(2)}, {1, 2, 3, 4, 5, 6},
                "the store breaks rule 1 (of concurrent creates of one key exactly one wins, and "
                "its bytes are what is read): write");
}

TEST(StoreProbeTest, AStoreThatRefusesEveryUpdateIsRefused) {
  ExpectRefused({.refuses_all_updates = true}, {2, 3, 6},
                "the store breaks rule 2 (of concurrent updates from one version exactly one wins):"
                " all of 32 were refused");
}

TEST(StoreProbeTest, AnErrorForALostRaceIsAccepted) {
  ExpectAccepted({.lost_race_gets_error = true});
}

TEST(StoreProbeTest, AConflictForTheLoserIsAccepted) {
  ExpectAccepted({.rival_gets_conflict = true});
}

TEST(StoreProbeTest, AStoreThatTellsNoVersionIsAccepted) {
  ExpectAccepted({.tells_no_version = true});
}

TEST(StoreProbeTest, AStoreThatIgnoresTheConditionOfADeleteIsAcceptedAndReported) {
  for (const StoreProbeReport& report : ProbeMany({.ignores_delete_condition = true})) {
    EXPECT_EQ(report.verdict, ProbeVerdict::kAccepted);
    EXPECT_FALSE(report.conditional_delete);
    EXPECT_EQ(report.checks[8].status, ProbeStatus::kReported);
    EXPECT_EQ(report.checks[8].detail, "ignored: the object is gone");
  }
}

TEST(StoreProbeTest, AListingThatLagsIsAWarningAndItsLagIsMeasured) {
  for (const StoreProbeReport& report : ProbeMany({.listings_lag = Duration::Seconds(4)})) {
    EXPECT_EQ(report.verdict, ProbeVerdict::kAccepted);
    EXPECT_EQ(report.checks[6].status, ProbeStatus::kWarning);
    EXPECT_GT(report.listing_lag, Duration::Milliseconds(3'500));
    EXPECT_LT(report.listing_lag, Duration::Milliseconds(5'000));
  }
  for (const StoreProbeReport& report : ProbeMany({.listings_lag = Duration::Minutes(5)})) {
    EXPECT_EQ(report.verdict, ProbeVerdict::kAccepted);
    EXPECT_EQ(report.listing_lag, Duration::Seconds(30));
    EXPECT_EQ(report.checks[6].detail, "still wrong after 30s");
  }
}

TEST(StoreProbeTest, AClockThatIsFarOffIsAWarning) {
  for (const auto& [offset, status] : {std::pair(Duration::Seconds(-59), ProbeStatus::kReported),
                                       std::pair(Duration::Seconds(59), ProbeStatus::kReported),
                                       std::pair(Duration::Seconds(62), ProbeStatus::kWarning),
                                       std::pair(Duration::Hours(-3), ProbeStatus::kWarning)}) {
    World world(1, {.wall_start = kWall + offset});
    const StoreProbeReport report = world.Probe();
    EXPECT_EQ(report.verdict, ProbeVerdict::kAccepted);
    EXPECT_EQ(report.checks[7].status, status) << report.checks[7].detail;
  }
  World silent(1);
  EXPECT_EQ(silent.Probe().checks[7].detail, "the store tells no time");
}

TEST(StoreProbeTest, AStoreThatCannotBeReachedProvesNothing) {
  for (const auto& [requests, answers] : {std::pair(true, false), std::pair(false, true)}) {
    World world(1);
    for (SimObjectStore* store : {&world.first, &world.second}) {
      store->link() = {.requests_lost = requests, .answers_lost = answers};
    }
    const StoreProbeReport report = world.Probe();
    EXPECT_EQ(report.verdict, ProbeVerdict::kUnreachable);
    EXPECT_EQ(report.message, "the store could not be probed: the store did not answer in time");
    for (const ProbeCheck& check : report.checks) {
      EXPECT_TRUE(check.number == 8 || check.status == ProbeStatus::kNotRun) << check.number;
    }
  }
}

TEST(StoreProbeTest, WhatFailsAllTheTimeIsUnreachableAndWhatItSaysIsTold) {
  World world(1, {}, {.error_not_done = 10'000});
  const StoreProbeReport report = world.Probe();
  EXPECT_EQ(report.verdict, ProbeVerdict::kUnreachable);
  EXPECT_EQ(report.message, "the store could not be probed: 503: slow down");
}

TEST(StoreProbeTest, ErrorsLostAndLateAnswersNeverMakeALiarOfAnHonestStore) {
  int accepted = 0;
  int unreachable = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    // From hardly any trouble to a lot of it.
    const auto chance = static_cast<std::uint32_t>(20 * (seed % 30));
    World world(seed,
                {.personality = {.rival_gets_conflict = seed % 3 == 1,
                                 .lost_race_gets_error = seed % 3 == 2}},
                {.error_not_done = chance,
                 .error_maybe_done = chance,
                 .request_lost = chance,
                 .answer_lost = chance,
                 .applied_late = chance,
                 .delivered_twice = chance});
    const StoreProbeReport report = world.Probe();
    EXPECT_NE(report.verdict, ProbeVerdict::kRefused) << report.message;
    ++(report.verdict == ProbeVerdict::kAccepted ? accepted : unreachable);
  }
  EXPECT_GT(accepted, 12);
  EXPECT_GT(unreachable, 4);
}

TEST(StoreProbeTest, ALiarIsFoundOutAlsoWhenAnswersGetLost) {
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    World world(seed, {.personality = {.judges_before_it_writes = true}},
                {.error_not_done = 200, .answer_lost = 200});
    const StoreProbeReport report = world.Probe();
    EXPECT_NE(report.verdict, ProbeVerdict::kAccepted) << "seed " << seed;
    if (report.verdict == ProbeVerdict::kRefused) ++refused;
  }
  EXPECT_GT(refused, 30);
}

TEST(StoreProbeTest, KeysLieBelowTheShardAndAreRemovedAlsoFromALiar) {
  World world(
      1, {.personality = {.ignores_conditions = true}, .log = SimBucket::Options::Log::kRequests});
  EXPECT_EQ(world.Probe().verdict, ProbeVerdict::kRefused);
  EXPECT_GT(world.bucket.requests().size(), 100U);
  for (const sim::SimRequest& request : world.bucket.requests()) {
    EXPECT_TRUE(request.key.starts_with("probe/a/")) << request.key;
    EXPECT_NE(request.method, sim::SimMethod::kPutUnconditionally);
  }
  EXPECT_TRUE(world.bucket.Keys().empty());
}

TEST(StoreProbeTest, NothingRunsOnceTheRunnerIsGone) {
  for (int steps = 0; steps < 300; steps += 7) {
    World world(1);
    bool called = false;
    {
      StoreProbeRunner runner({.loop = world.loop,
                               .endpoints = {world.first},
                               .random = world.random,
                               .jitter = world.jitter},
                              "a", [&](const StoreProbeReport&) { called = true; });
      runner.Start();
      for (int i = 0; i < steps; ++i) world.scheduler.Step();
    }
    world.scheduler.RunFor(Duration::Hours(1));
    EXPECT_FALSE(called) << steps;
  }
}

}  // namespace
}  // namespace nstance

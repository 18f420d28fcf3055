// What is drawn beside the events that every scenario has: the named schedules of faults.md 2, and
// faults at the cells that runs have to hit. Only drawn here; world_test runs them.
#include "sim/world/schedule.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "sim/world/occasions.h"
#include "sim/world/required_cells.h"
#include "sim/world/scenario.h"

namespace nstance::sim {
namespace {

constexpr std::uint64_t kSeeds = 1'000;

std::vector<std::string> Told(const std::vector<Event>& events) {
  std::vector<std::string> lines;
  for (const Event& event : events) {
    lines.push_back(Describe(event) + " " + std::to_string(event.draw));
  }
  return lines;
}

std::vector<Event> EventsOf(Schedule schedule, std::uint64_t seed) {
  Scenario scenario = DrawScenario({.seed = seed, .schedule = Schedule::kNone});
  scenario.schedule = schedule;
  Prng prng(seed);
  return DrawSchedule(scenario, prng);
}

TEST(OccasionsTest, EachIsPartOfOneSeedInSix) {
  std::map<EventKind, int> seeds;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Prng prng(seed);
    std::set<EventKind> kinds;
    for (const Event& event : DrawOccasions({.hostile = Duration::Minutes(15)}, prng)) {
      EXPECT_LT(event.at, Duration::Minutes(15));
      kinds.insert(event.kind);
    }
    for (const EventKind kind : kinds) ++seeds[kind];
  }
  EXPECT_EQ(seeds.size(), 12U);
  for (const auto& [kind, count] : seeds) {
    EXPECT_GT(count, 120) << EventName(kind);
    EXPECT_LT(count, 215) << EventName(kind);
  }
}

TEST(OccasionsTest, TheyAreDrawnApart) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Scenario scenario = DrawScenario({.seed = seed});
    Prng prng(seed ^ 0x0CCA510000CCA510U);
    const std::vector<std::string> own = Told(DrawOccasions(scenario, prng));
    const std::vector<std::string> all = Told(scenario.events);
    EXPECT_TRUE(own.empty() || !std::ranges::search(all, own).empty()) << "seed " << seed;
  }
}

TEST(ScheduleTest, NamesReadBack) {
  for (std::size_t i = 0; i <= kSchedules; ++i) {
    const auto schedule = static_cast<Schedule>(i);
    EXPECT_EQ(ParseSchedule(ScheduleName(schedule)), schedule);
  }
  EXPECT_FALSE(ParseSchedule(""));
  EXPECT_FALSE(ParseSchedule("no-such-schedule"));
}

TEST(ScheduleTest, OneSeedInFiveHasOneAndEachIsAsFrequentAsTheOthers) {
  std::map<Schedule, int> counts;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
    ++counts[DrawScenario({.seed = seed}).schedule];
  EXPECT_EQ(counts.size(), kSchedules + 1);
  for (const auto& [schedule, count] : counts) {
    if (schedule == Schedule::kNone) continue;
    EXPECT_GT(count, 20) << ScheduleName(schedule);
    EXPECT_LT(count, 60) << ScheduleName(schedule);
  }
}

TEST(ScheduleTest, EventsOfAScheduleChangeNothingAboutTheOthers) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Scenario without = DrawScenario({.seed = seed, .schedule = Schedule::kNone});
    const std::vector<std::string> others = Told(without.events);
    for (std::size_t i = 1; i <= kSchedules; ++i) {
      const Scenario with = DrawScenario({.seed = seed, .schedule = static_cast<Schedule>(i)});
      std::vector<std::string> all = Told(with.events);
      EXPECT_GT(all.size(), others.size());
      EXPECT_TRUE(std::ranges::includes(std::set(all.begin(), all.end()),
                                        std::set(others.begin(), others.end())));
      EXPECT_EQ(with.setting.workers, without.setting.workers);
      EXPECT_EQ(with.setting.database_seed, without.setting.database_seed);
    }
  }
}

TEST(ScheduleTest, EveryCallThatChangesSomethingLosesAnAnswer) {
  const std::vector<Event> events = EventsOf(Schedule::kLostAnswers, 1);
  for (const auto& [step, fault] : RequiredCells()) {
    if (fault != Fault::kF4 && fault != Fault::kF8) continue;
    EXPECT_TRUE(std::ranges::any_of(events,
                                    [&](const Event& event) {
                                      return event.kind == EventKind::kAtStep &&
                                             event.step == step && event.fault == fault;
                                    }))
        << StepName(step) << '.' << FaultName(fault);
  }
}

TEST(ScheduleTest, EveryLinkOfEveryServerStopsAndTheFirstHealsWhenTheLastHasStopped) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Scenario scenario = DrawScenario({.seed = seed});
    const std::vector<Event> events = EventsOf(Schedule::kClog, seed);
    std::set<std::pair<EventKind, std::size_t>> links;
    Duration last_stop;
    Duration first_heal = scenario.hostile;
    for (const Event& event : events) {
      links.emplace(event.kind, event.machine.value());
      last_stop = std::max(last_stop, event.at);
      first_heal = std::min(first_heal, event.at + event.length);
      EXPECT_LE(event.at + event.length, scenario.hostile);
    }
    EXPECT_EQ(links.size(), events.size());
    EXPECT_EQ(links.size(), 4U * static_cast<std::size_t>(scenario.setting.servers_a +
                                                          scenario.setting.servers_b));
    EXPECT_LE(last_stop, first_heal);
  }
}

TEST(ScheduleTest, APauseAtTheFenceIsLongerThanALease) {
  const std::vector<Event> events = EventsOf(Schedule::kPauseAtFence, 1);
  EXPECT_GT(events.size(), 10U);
  for (const Event& event : events) {
    EXPECT_EQ(event.fault, Fault::kF12);
    EXPECT_GE(event.length, Setting().lease);
  }
}

TEST(ScheduleTest, StormsAndEmptyWorldsStrikeSeveralTimes) {
  const std::vector<Event> storms = EventsOf(Schedule::kRestartStorm, 1);
  EXPECT_GE(std::ranges::count(storms, EventKind::kRestartStorm, &Event::kind), 2);
  EXPECT_GE(std::ranges::count(storms, EventKind::kAgentStorm, &Event::kind), 2);
  const std::vector<Event> empty = EventsOf(Schedule::kEmptyWorld, 1);
  EXPECT_GE(std::ranges::count(empty, EventKind::kEmptyWorld, &Event::kind), 1);
}

TEST(ScheduleTest, WithoutAScheduleThereAreNoEventsOfOne) {
  EXPECT_TRUE(EventsOf(Schedule::kNone, 1).empty());
}

TEST(ScheduleTest, OneSeedInThreeHasFaultsAtRequiredCellsAndEveryCellIsDrawn) {
  int with = 0;
  std::set<std::pair<Step, Fault>> drawn;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    bool any = false;
    for (const Event& event : DrawScenario({.seed = seed, .schedule = Schedule::kNone}).events) {
      if (!event.insists) continue;
      any = true;
      drawn.emplace(event.step, event.fault);
    }
    if (any) ++with;
  }
  EXPECT_GT(with, 280);
  EXPECT_LT(with, 390);
  const auto& required = RequiredCells();
  EXPECT_EQ(drawn, std::set(required.begin(), required.end()));
}

int SeedsWith(const std::set<EventKind>& kinds) {
  int with = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Scenario scenario = DrawScenario({.seed = seed});
    with += std::ranges::any_of(scenario.events,
                                [&](const Event& event) { return kinds.contains(event.kind); })
                ? 1
                : 0;
  }
  return with;
}

TEST(ScheduleTest, OneSeedInEightHasServersThatAreRestored) {
  const int with = SeedsWith({EventKind::kRestoreServer});
  EXPECT_GT(with, 90);
  EXPECT_LT(with, 165);
}

TEST(ScheduleTest, OneSeedInEightHasTwoMachinesWithOneName) {
  const std::set<EventKind> twins = {EventKind::kTwoVms, EventKind::kReuseIds, EventKind::kCloneVm};
  const int with = SeedsWith(twins);
  EXPECT_GT(with, 90);
  EXPECT_LT(with, 165);
  for (const EventKind kind : twins) EXPECT_GT(SeedsWith({kind}), 50) << EventName(kind);
}

TEST(ScheduleTest, OneSeedInSixHasWhatIsRareOtherwise) {
  const std::set<EventKind> rare = {EventKind::kShortage, EventKind::kTouchLease,
                                    EventKind::kRenameTemplate};
  const int with = SeedsWith(rare);
  EXPECT_GT(with, 110);
  EXPECT_LT(with, 200);
  for (const EventKind kind : rare) EXPECT_GT(SeedsWith({kind}), 50) << EventName(kind);
}

TEST(ScheduleTest, OneSeedInTenHasAnHeirThatIsListedNothing) {
  const int with = SeedsWith({EventKind::kUnlistedHeir});
  EXPECT_GT(with, 70);
  EXPECT_LT(with, 135);
}

// The seeds of test/sim/regress.tsv mean what they did when they were found.
TEST(ScheduleTest, WhatIsDrawnApartComesAfterTheEventsThatEveryScenarioHas) {
  const std::set<EventKind> apart = {EventKind::kRestoreServer,  EventKind::kTwoVms,
                                     EventKind::kReuseIds,       EventKind::kCloneVm,
                                     EventKind::kShortage,       EventKind::kTouchLease,
                                     EventKind::kRenameTemplate, EventKind::kUnlistedHeir};
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<Event> events = DrawScenario({.seed = seed}).events;
    const auto is_apart = [&](const Event& event) { return apart.contains(event.kind); };
    EXPECT_TRUE(std::ranges::is_partitioned(events, std::not_fn(is_apart))) << "seed " << seed;
  }
  for (const std::uint64_t seed : {1194U, 2012U, 197U, 3041U, 77U, 144U}) {
    for (const Event& event : DrawScenario({.seed = seed}).events) {
      EXPECT_FALSE(apart.contains(event.kind)) << "seed " << seed << ": " << Describe(event);
    }
  }
}

TEST(ScheduleTest, OneSeedInFiveIsALivenessRunInWhichEveryShardKeepsAServer) {
  int with = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Scenario scenario = DrawScenario({.seed = seed});
    std::set<std::size_t> lost;
    for (const Event& event : scenario.events) {
      if (event.kind == EventKind::kLoseServer) lost.insert(event.machine.value());
    }
    if (lost.empty()) continue;
    ++with;
    const auto a = static_cast<std::size_t>(scenario.setting.servers_a);
    const auto b = static_cast<std::size_t>(scenario.setting.servers_b);
    const auto lost_of_a = static_cast<std::size_t>(
        std::ranges::count_if(lost, [&](std::size_t machine) { return machine < a; }));
    EXPECT_LT(lost_of_a, a) << "seed " << seed;
    EXPECT_LT(lost.size() - lost_of_a, b) << "seed " << seed;
    EXPECT_LT(*lost.rbegin(), a + b) << "seed " << seed;
  }
  EXPECT_GT(with, 150);
  EXPECT_LT(with, 250);
}

}  // namespace
}  // namespace nstance::sim

// Whole simulated clusters: a few fixed seeds, and that a seed is one run. Without the fault points
// of the preset `sim` events strike at times only. Longer runs: `make sim`.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/checkers/seen.h"
#include "sim/world/run.h"

namespace nstance::sim {
namespace {

std::string Verdict(const RunReport& report) {
  return report.violation ? report.violation->invariant + ": " + report.violation->what : "";
}

TEST(WorldTest, WithoutFaultsAndWorkEveryInvariantHolds) {
  Scenario scenario = DrawScenario({.seed = 1});
  scenario.events.clear();
  const RunReport report = RunScenario(scenario, {});
  EXPECT_EQ(Verdict(report), "");
  EXPECT_GE(report.simulated, scenario.hostile + scenario.setting.Quiet());
}

TEST(WorldTest, SomeSeedsHold) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(Verdict(RunScenario(DrawScenario({.seed = seed}), {})), "") << "seed " << seed;
  }
}

TEST(WorldTest, ASeedHoldsUnderEverySchedule) {
  for (std::size_t i = 1; i <= kSchedules; ++i) {
    const auto schedule = static_cast<Schedule>(i);
    const RunReport report = RunScenario(DrawScenario({.seed = 0, .schedule = schedule}), {});
    EXPECT_EQ(Verdict(report), "") << ScheduleName(schedule);
  }
}

TEST(WorldTest, WithServersLostForGoodTheOthersDo) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Scenario scenario = DrawScenario({.seed = seed, .liveness = true});
    EXPECT_GE(std::ranges::count(scenario.events, EventKind::kLoseServer, &Event::kind), 1);
    EXPECT_EQ(Verdict(RunScenario(scenario, {})), "") << "seed " << seed;
  }
}

TEST(WorldTest, ASeedIsOneRun) {
  const Scenario scenario = DrawScenario({.seed = 12});
  const RunReport once = RunScenario(scenario, {});
  const RunReport again = RunScenario(scenario, {});
  EXPECT_EQ(once.trace_hash, again.trace_hash);
  EXPECT_EQ(once.tasks, again.tasks);
  EXPECT_NE(once.trace_hash, RunScenario(DrawScenario({.seed = 13}), {}).trace_hash);
}

TEST(WorldTest, WithRowsInSqliteOnBadDisksSomeSeedsHoldAndAreOneRun) {
  for (std::uint64_t seed = 20; seed < 22; ++seed) {
    SCOPED_TRACE(seed);
    Scenario scenario = DrawScenario({.seed = seed});
    scenario.setting.database_seed = 1 + seed;
    const RunReport once = RunScenario(scenario, {});
    EXPECT_EQ(Verdict(once), "");
    EXPECT_EQ(once.trace_hash, RunScenario(scenario, {}).trace_hash);
  }
}

TEST(WorldTest, AQuarterOfTheSeedsKeepTheirRowsInSqlite) {
  int with = 0;
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    if (DrawScenario({.seed = seed}).setting.database_seed > 0) ++with;
  }
  EXPECT_GT(with, 200);
  EXPECT_LT(with, 300);
}

// Of steps that calls of several kinds pass, of looks that lag behind a change, and of an agent.
TEST(WorldTest, AFaultThatInsistsStrikesWhereItCan) {
  if (!kHasFaultPoints) GTEST_SKIP() << "only the preset sim has steps";
  constexpr std::array kCells = {
      std::pair(Step::kL4, Fault::kF8),  std::pair(Step::kL5, Fault::kF7),
      std::pair(Step::kL5, Fault::kF10), std::pair(Step::kC4, Fault::kF9),
      std::pair(Step::kK2, Fault::kF3),  std::pair(Step::kW7, Fault::kF1)};
  for (const auto& [step, fault] : kCells) {
    SCOPED_TRACE(fmt::format("{}.{}", StepName(step), FaultName(fault)));
    Scenario scenario = DrawScenario({.seed = 1});
    scenario.setting.consistency_window = Duration::Seconds(15);
    scenario.events = {{.kind = EventKind::kAtStep,
                        .length = Duration::Seconds(20),
                        .draw = 1,
                        .step = step,
                        .passing = 1,
                        .fault = fault,
                        .insists = true}};
    const RunReport report = RunScenario(scenario, {});
    EXPECT_EQ(Verdict(report), "");
    EXPECT_GE(report.cells.at(static_cast<std::size_t>(step)).at(static_cast<std::size_t>(fault)),
              1U);
  }
}

// What servers decided, in whatever order: kind, group and reason of every intent.
using Decisions = std::map<std::string, int>;

class DecisionsOf final : public Checker {
 public:
  DecisionsOf(CheckerWorld& world, Decisions& decisions)
      : Checker("decisions", world), decisions_(decisions) {}

  void OnChange(const SimChange& /*change*/) override {
    if (world().truth().last().kind != TruthChange::Kind::kJournal) return;
    for (const Intent* intent : NewIntents(world().truth())) {
      ++decisions_[fmt::format("{} {}/{} {}", IntentKindName(intent->kind), intent->tenant.text(),
                               intent->group.text(), intent->reason)];
    }
  }

 private:
  Decisions& decisions_;
};

Decisions Decide(const Scenario& scenario) {
  Decisions decisions;
  const RunReport report = RunScenario(scenario, {.another_checker = [&](CheckerWorld& world) {
                                         return std::make_unique<DecisionsOf>(world, decisions);
                                       }});
  EXPECT_EQ(Verdict(report), "");
  return decisions;
}

// Servers lead one after the other, groups change, and each machine loses what it has cached.
TEST(WorldTest, I11_ALostCacheChangesNoDecision) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Scenario scenario = DrawScenario({.seed = seed});
    scenario.events.clear();
    scenario.setting.eligible_age = {};  // How many grow old depends on how long the run takes.
    for (int i = 0; i < 5; ++i) {
      scenario.events.push_back({.kind = EventKind::kUpsertGroup,
                                 .at = Duration::Seconds(30 + i * 150),
                                 .draw = seed * 100 + static_cast<std::uint64_t>(i)});
      scenario.events.push_back({.kind = EventKind::kRestartStorm,
                                 .at = Duration::Seconds(100 + i * 150),
                                 .draw = static_cast<std::uint64_t>(i)});
    }
    const Decisions with_cache = Decide(scenario);
    for (int i = 0; i < 40; ++i) {
      scenario.events.push_back({.kind = EventKind::kLoseCache,
                                 .at = Duration::Seconds(20 + i * 20),
                                 .draw = static_cast<std::uint64_t>(i)});
    }
    EXPECT_EQ(Decide(scenario), with_cache) << "seed " << seed;
    EXPECT_GE(with_cache.size(), 3U);
  }
}

TEST(WorldTest, ATimelineTellsWhatHappenedAndChangesNothing) {
  const Scenario scenario = DrawScenario({.seed = 12});
  const RunReport told = RunScenario(scenario, {.trace = true});
  EXPECT_EQ(told.trace_hash, RunScenario(scenario, {}).trace_hash);
  EXPECT_GT(told.timeline.size(), 100U);
}

void CorrectWalls(World& world) {
  for (const std::string& name : world.MachineNames()) world.CorrectWall(name);
  world.BeginCalm();
}

TEST(WorldTest, AGroupInBackOffHasTheTimeThatItNeedsBeforeTheVerdict) {
  World world({.seed = 1});
  world.RunFor(Duration::Minutes(1));
  // No certificate of yesterday can be signed: what is created cannot register.
  for (const std::string& name : world.MachineNames())
    world.JumpWall(name, Duration() - Duration::Days(1));
  world.Edits(ShardA()).sizes.at({"prod", "api"}) += 2;
  world.WriteConfig(ShardA());
  world.Operator(Prod()).RefreshConfig(ShardA());
  world.RunFor(Duration::Minutes(14));
  ASSERT_TRUE(world.Holds("create-backoff"));
  CorrectWalls(world);
  RunUntilQuiet(world);
  EXPECT_FALSE(world.Holds("create-backoff"));
  world.Quiet();
  EXPECT_FALSE(world.violation()) << world.violation()->what;
}

TEST(WorldTest, AnOperatorWithACertificateOfTomorrowJoinsAgain) {
  World world({.seed = 1});
  const auto acts = [](const ServerStanding& server) {
    return server.shard == ShardA() && server.acting;
  };
  // The leader has its own certificate by then, and the operator none yet.
  while (std::ranges::none_of(world.Servers(), acts)) world.RunFor(Duration::Milliseconds(1));
  ASSERT_FALSE(world.Operator(Prod()).joined());
  for (const std::string& name : world.MachineNames()) {
    // By an hour or more nothing would be signed.
    if (world.Machine(name).shard == ShardA()) world.JumpWall(name, Duration::Minutes(59));
  }
  world.RunFor(Duration::Minutes(1));
  ASSERT_TRUE(world.Operator(Prod()).joined()) << "shard a gives out certificates";
  world.Edits(ShardB()).sizes.at({"prod", "edge"}) += 2;
  world.WriteConfig(ShardB());
  CorrectWalls(world);
  world.Operator(Prod()).JoinAgainIfRefused();
  world.Operator(Prod()).RefreshConfig(ShardB());
  RunUntilQuiet(world);
  world.Quiet();
  EXPECT_FALSE(world.violation()) << world.violation()->what;
}

}  // namespace
}  // namespace nstance::sim

// How a failing run is made smaller: a checker of the test's own is violated by a few things that
// happen in whole worlds, and exactly those have to be left.
#include "sim/world/shrink.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance::sim {
namespace {

constexpr Duration kMinute = Duration::Minutes(1);

// Violated by the `deaths`-th server process that ends before the calm.
class NoServerDies final : public Checker {
 public:
  NoServerDies(CheckerWorld& world, int deaths) : Checker("I-99", world), deaths_(deaths) {}
  void OnServerEnd(const ServerStanding& /*server*/) override {
    if (!world().calm() && ++seen_ == deaths_) Violated("a server died");
  }

 private:
  int deaths_;
  int seen_ = 0;
};

RunOptions Deaths(int deaths) {
  return {.another_checker = [deaths](CheckerWorld& world) {
    return std::make_unique<NoServerDies>(world, deaths);
  }};
}

// Violated at the end of a run in which the group has an instance and a server has died.
class NothingInTheEnd final : public Checker {
 public:
  explicit NothingInTheEnd(CheckerWorld& world) : Checker("I-99", world) {}
  void OnServerEnd(const ServerStanding& server) override { died_ = server.shard == ShardA(); }
  void AtQuiet() override {
    if (died_ && !world().truth().Of(ShardA()).records.empty()) Violated("as it was planned");
  }

 private:
  bool died_ = false;
};

Event Kill(std::size_t machine, Duration at) {
  return {.kind = EventKind::kKillServer,
          .at = at,
          .length = Duration::Seconds(40),
          .draw = 1,
          .machine = machine};
}

// Work and faults, two of which kill a server.
Scenario Busy() {
  Scenario scenario = DrawScenario({.seed = 12});
  scenario.setting.database_seed = 5;
  scenario.setting.consistency_window = Duration::Seconds(15);
  scenario.setting.servers_a = 3;
  scenario.events.clear();
  for (int i = 0; i < 6; ++i) {
    scenario.events.push_back({.kind = EventKind::kScaleGroup,
                               .at = kMinute + Duration::Seconds(i * 90),
                               .draw = static_cast<std::uint64_t>(i)});
  }
  scenario.events.insert(scenario.events.begin() + 2, Kill(0, kMinute * 2));
  scenario.events.insert(scenario.events.begin() + 5, Kill(1, kMinute * 5));
  return scenario;
}

TEST(ShrinkTest, WhatIsNotNeededGoes) {
  const Scenario scenario = Busy();
  const Shrunk small = Shrink(scenario, Deaths(2), {.most_runs = 120});
  ASSERT_TRUE(small.report.violation.has_value());
  EXPECT_EQ(small.report.violation->invariant, "I-99");
  EXPECT_EQ(small.cut.keep, (std::vector<std::size_t>{2, 5}));
  const Setting& setting = small.scenario.setting;
  EXPECT_EQ(setting.servers_a, 1) << "one that dies twice";
  EXPECT_EQ(setting.servers_b, 0);
  EXPECT_EQ(setting.workers + setting.api + setting.edge, 0);
  EXPECT_EQ(setting.database_seed, 0U);
  EXPECT_EQ(setting.consistency_window, Duration());
  EXPECT_LE(small.scenario.hostile, kMinute * 5 + Duration::Seconds(2));
  for (const Event& event : small.scenario.events) EXPECT_EQ(event.length, Duration::Seconds(1));
}

TEST(ShrinkTest, TheFlagsOfACutMakeTheSameRun) {
  const Scenario scenario = Busy();
  const Shrunk small = Shrink(scenario, Deaths(1), {.most_runs = 60});
  const RunReport again = RunScenario(Apply(small.cut, scenario).value(), Deaths(1));
  ASSERT_TRUE(again.violation.has_value());
  EXPECT_EQ(again.trace_hash, small.report.trace_hash);
  EXPECT_EQ(again.violation->what, small.report.violation->what);
  EXPECT_EQ(again.violation->at, small.report.violation->at);
}

TEST(ShrinkTest, AViolationInCalmTimeNeedsNoMoreFaultsThanItsOwn) {
  const Scenario scenario = Busy();
  const RunOptions options = {.another_checker = [](CheckerWorld& world) {
    return std::make_unique<NothingInTheEnd>(world);
  }};
  const Shrunk small = Shrink(scenario, options, {.most_runs = 60});
  ASSERT_TRUE(small.report.violation.has_value());
  EXPECT_EQ(small.cut.keep, (std::vector<std::size_t>{5}));
  EXPECT_LE(small.scenario.hostile, kMinute * 5 + Duration::Seconds(42));
  const Setting& setting = small.scenario.setting;
  EXPECT_EQ(setting.workers + setting.api, 1);
  EXPECT_EQ(setting.edge, 0);
}

TEST(ShrinkTest, AnotherInvariantIsAnotherFailure) {
  // Without the events I-98 is violated instead.
  const RunOptions options = {.another_checker = [](CheckerWorld& world) {
    class Fickle final : public Checker {
     public:
      explicit Fickle(CheckerWorld& its_world) : Checker("I-99", its_world) {}
      void OnServerEnd(const ServerStanding& /*server*/) override { ++ends_; }
      void EverySecond() override {
        if (world().now().since_zero() < kMinute * 6) return;
        if (ends_ >= 2) return Violated("two died");
        world().Violated("I-98", "fewer died");
      }

     private:
      int ends_ = 0;
    };
    return std::make_unique<Fickle>(world);
  }};
  const Shrunk small = Shrink(Busy(), options, {.most_runs = 40});
  EXPECT_EQ(small.report.violation.value().invariant, "I-99");
  const std::vector<std::size_t> kept = small.cut.keep.value();
  EXPECT_TRUE(std::ranges::includes(kept, std::vector<std::size_t>{2, 5}));
}

TEST(ShrinkTest, RunsAreBounded) {
  int told = 0;
  const Shrunk small =
      Shrink(Busy(), Deaths(2), {.most_runs = 7, .told = [&](const Shrunk& so_far) {
                                   ++told;
                                   EXPECT_LE(so_far.runs, 7);
                                   EXPECT_TRUE(so_far.report.violation);
                                 }});
  EXPECT_EQ(small.runs, 7);
  EXPECT_GE(told, 1);
  EXPECT_TRUE(small.report.violation.has_value());
  EXPECT_EQ(Shrink(Busy(), Deaths(2), {.most_runs = 1}).runs, 1);
}

TEST(ShrinkTest, ARunThatHoldsIsLeftAsItIs) {
  Scenario scenario = Busy();
  scenario.events.clear();
  const Shrunk small = Shrink(scenario, {}, {});
  EXPECT_FALSE(small.report.violation.has_value());
  EXPECT_EQ(small.runs, 1);
  EXPECT_EQ(small.cut, Cut());
}

TEST(ShrinkTest, ServersStayWhereSomeAreLostForGood) {
  std::uint64_t dead = 0;  // The draw of a machine on which no process starts.
  while (Prng(dead).Below(3) != 0) ++dead;
  Scenario scenario = Busy();
  scenario.events = {
      {.kind = EventKind::kLoseServer, .at = kMinute, .draw = dead, .machine = 0},
      {.kind = EventKind::kLoseServer, .at = kMinute * 2, .draw = dead, .machine = 1}};
  const RunOptions options = {.another_checker = [](CheckerWorld& world) {
    class NoneIsLost final : public Checker {
     public:
      explicit NoneIsLost(CheckerWorld& its_world) : Checker("I-99", its_world) {}
      void EverySecond() override {
        if (world().now().since_zero() > kMinute * 3 && !world().Healed()) Violated("one is lost");
      }
    };
    return std::make_unique<NoneIsLost>(world);
  }};
  const Shrunk small = Shrink(scenario, options, {.most_runs = 40});
  ASSERT_TRUE(small.report.violation.has_value());
  EXPECT_EQ(small.scenario.events.size(), 1U);
  EXPECT_EQ(small.scenario.setting.workers, 0);
  EXPECT_EQ(small.scenario.setting.servers_a, 3);
  EXPECT_EQ(small.scenario.setting.servers_b, scenario.setting.servers_b);
}

// What a cut may make of a setting is a world in which every invariant holds: else a failure could
// be made smaller into another one.
TEST(ShrinkTest, TheSmallestWorldsHold) {
  const Scenario drawn = DrawScenario({.seed = 12});
  const std::vector<std::size_t> none;
  for (const Cut& cut :
       {Cut{.keep = none, .servers_a = 1, .servers_b = 0, .workers = 0, .api = 0, .edge = 0},
        Cut{.keep = none, .servers_a = 1, .servers_b = 0},
        Cut{.keep = none,
            .servers_a = 1,
            .servers_b = 1,
            .workers = 1,
            .api = 0,
            .edge = 1,
            .hostile = Duration::Seconds(1)}}) {
    const RunReport report = RunScenario(Apply(cut, drawn).value(), {});
    EXPECT_FALSE(report.violation.has_value())
        << report.violation->invariant << ": " << report.violation->what << FormatCut(cut);
  }
}

}  // namespace
}  // namespace nstance::sim

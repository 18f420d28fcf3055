// Whole simulated clusters: a few fixed seeds, and that a seed is one run. Without the fault points
// of the preset `sim` events strike at times only. Longer runs: `make sim`.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "crypto/certificate_authority.h"
#include "sim/checkers/seen.h"
#include "sim/world/director.h"
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

TEST(WorldTest, ASixthOfTheSeedsPlanLittleInATurn) {
  int with = 0;
  for (std::uint64_t seed = 0; seed < 1'200; ++seed) {
    if (DrawScenario({.seed = seed}).setting.steps_per_turn <= 30) ++with;
  }
  EXPECT_GT(with, 160);
  EXPECT_LT(with, 240);
  // These mean what they meant when they found something (test/sim/regress.tsv).
  for (const std::uint64_t seed : {1194U, 2012U, 197U, 3041U, 77U, 144U}) {
    const Scenario scenario = DrawScenario({.seed = seed});
    EXPECT_EQ(scenario.setting.steps_per_turn, 10'000U) << seed;
    EXPECT_EQ(std::ranges::count(scenario.events, EventKind::kChangeBundle, &Event::kind), 0)
        << seed;
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

#ifdef NSTANCE_SIM  // Only there are steps.
// Of steps that calls of several kinds pass, of looks that lag behind a change, and of an agent.
TEST(WorldTest, AFaultThatInsistsStrikesWhereItCan) {
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
#endif

TEST(WorldTest, I44_WhoeverDoesTheSameOverAndOverIsFound) {
  World world({.seed = 1});
  Task again = [&] { world.Later({}, [&] { again(); }); };
  world.Later(Duration::Seconds(30), [&] { again(); });
  world.RunFor(Duration::Minutes(1));
  ASSERT_TRUE(world.violation().has_value());
  EXPECT_EQ(world.violation()->invariant, "I-44");
  EXPECT_EQ(world.violation()->at.seconds(), 30);
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

// What the operator of the default tenant was told, without ids and times: answers, and the course
// of events of each instance. How often each of them, in whatever order.
using Told = std::map<std::string, int>;

class ToldToDefault final : public Checker {
 public:
  ToldToDefault(CheckerWorld& world, Told& told) : Checker("told", world), told_(told) {}

  void OnAnswer(const OperatorAnswer& answer) override {
    if (answer.tenant != DefaultTenant()) return;
    ++told_[fmt::format("call {}: {}", answer.request.index(),
                        answer.status.has_value() ? "done" : answer.status.error().ToString())];
  }
  void OnInstanceEvent(const TenantId& operator_of, const ShardId& /*shard*/,
                       const api::InstanceEvent& event) override {
    if (operator_of != DefaultTenant()) return;
    courses_[event.instance_id] +=
        fmt::format("{}: {} {}; ", event.group, event.status, event.reason);
  }
  void AtEnd() override {
    for (const auto& [id, course] : courses_) ++told_[course];
  }

 private:
  Told& told_;
  std::map<std::string, std::string> courses_;
};

enum class OtherTenant : std::uint8_t { kNone, kSameNames, kOtherNames };

// The tenant's groups come, grow, shrink and go, and some of its calls are wrong. Without faults.
Told Serve(OtherTenant other) {
  Told told;
  Setting setting = {.servers_a = 1, .servers_b = 0, .workers = 3, .api = 3, .edge = 0};
  World world({.seed = 3, .setting = setting, .another_checker = [&](CheckerWorld& its) {
                 return std::make_unique<ToldToDefault>(its, told);
               }});
  if (other == OtherTenant::kNone) {
    world.Edits(ShardA()).sizes.erase({"prod", "api"});
    world.WriteConfig(ShardA());
  }
  world.RunFor(Duration::Minutes(2));
  const auto ask = [&](const auto& make) {
    world.Operator(DefaultTenant()).Ask(ShardA(), make("g"));
    if (other == OtherTenant::kSameNames) world.Operator(Prod()).Ask(ShardA(), make("g"));
    if (other == OtherTenant::kOtherNames) world.Operator(Prod()).Ask(ShardA(), make("h"));
    world.RunFor(Duration::Minutes(2));
  };
  const auto upsert = [&](int size, const std::string& request) {
    ask([&](const std::string& name) {
      return api::UpsertGroupRequest{.key = name,
                                     .config = api::GroupConfig{.template_name = "t", .size = size},
                                     .request_id = request};
    });
  };
  const auto create = [&](const std::string& group, const std::string& request) {
    ask([&](const std::string& name) {
      return api::CreateInstanceRequest{.config = api::InstanceConfig{.group = name + group},
                                        .request_id = request};
    });
  };
  upsert(3, "r1");
  upsert(2, "r1");  // Used before with other content.
  create("", "r2");
  create("", "r2");
  create("-none", "r3");
  upsert(1, "r4");
  ask([](const std::string& name) { return api::DeleteGroupRequest{.key = name}; });
  ask([](const std::string& name) { return api::DeleteGroupRequest{.key = name}; });
  ask([](const std::string& /*name*/) {
    return api::DeleteInstanceRequest{.instance_id = "wrk065wzsbm5dzvf8np1epkwcbw78"};
  });
  world.BeginCalm();
  world.RunFor(setting.Quiet());
  world.Quiet();
  EXPECT_FALSE(world.violation()) << world.violation()->what;
  return told;
}

TEST(WorldTest, I32_WhatATenantIsToldIsTheSameWhateverAnotherHas) {
  const Told alone = Serve(OtherTenant::kNone);
  EXPECT_GE(alone.size(), 6U);
  EXPECT_EQ(Serve(OtherTenant::kSameNames), alone);
  EXPECT_EQ(Serve(OtherTenant::kOtherNames), alone);
}

std::ptrdiff_t CertificatesIn(std::string_view pem) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = pem.find("BEGIN CERT"); at != std::string_view::npos;
       at = pem.find("BEGIN CERT", at + 1)) {
    ++count;
  }
  return count;
}

// In its first minute three roots come behind the first one. A running server has them within ten
// minutes and gives them to what it makes; whoever has the bundle of before is trusted, and trusts.
TEST(WorldTest, I39_RootsThatComeAreTakenAndEverybodyIsTrusted) {
  std::uint64_t draw = 0;
  for (Prng prng(draw); (void)prng.Next(), prng.Between(0, 3) != 3; prng = Prng(draw)) ++draw;
  const std::vector<Event> events = {
      {.kind = EventKind::kChangeBundle, .at = Duration::Minutes(1), .draw = draw}};
  World world({.seed = 1});
  Director director(world, events);
  director.Start();
  world.RunFor(Duration::Minutes(12));
  std::set<std::string> before;
  for (const AgentMachine* agent : world.Agents()) before.insert(agent->name());
  // Templates see what the leader had when it began to lead; everybody connects anew.
  for (const std::string& name : world.MachineNames()) {
    world.KillServer(name);
    world.StartServer(name);
  }
  world.RunFor(Duration::Minutes(1));
  world.Edits(ShardA()).sizes.at({"prod", "api"}) += 2;
  world.WriteConfig(ShardA());
  world.Operator(Prod()).RefreshConfig(ShardA());
  world.RunFor(Duration::Minutes(3));
  ASSERT_FALSE(world.violation()) << world.violation()->what;
  int made = 0;
  for (const AgentMachine* agent : world.Agents()) {
    if (before.contains(agent->name())) continue;
    ++made;
    EXPECT_EQ(CertificatesIn(agent->Roots()), 4);
    EXPECT_TRUE(agent->serving());
  }
  EXPECT_EQ(made, 2);
}

TEST(WorldTest, I39_AnAgentThatTrustsSomebodyElseIsFound) {
  World world({.seed = 1});
  world.RunFor(Duration::Minutes(2));
  ASSERT_FALSE(world.violation()) << world.violation()->what;
  AgentMachine* agent = world.Agents().front();
  const std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{};
  agent->SetRoots(crypto::IssueCa({}, crypto::PrivateKey::FromSeed(seed),
                                  {.issued_at = WorldStart(), .life = Duration::Days(1)})
                      .value()
                      .ToPem());
  agent->Kill();
  agent->Start();
  world.RunFor(Duration::Minutes(1));
  ASSERT_TRUE(world.violation().has_value());
  EXPECT_EQ(world.violation()->invariant, "I-39");
}

TEST(WorldTest, ATimelineTellsWhatHappenedAndChangesNothing) {
  const Scenario scenario = DrawScenario({.seed = 12});
  const RunReport told = RunScenario(scenario, {.trace = true});
  EXPECT_EQ(told.trace_hash, RunScenario(scenario, {}).trace_hash);
  EXPECT_GT(told.timeline.size(), 100U);
}

std::string LeaderOf(World& world, const ShardId& shard) {
  for (const ServerStanding& server : world.Servers()) {
    const std::string machine = server.name.substr(0, server.name.find('#'));
    if (server.shard == shard && server.acting && server.leads) return machine;
  }
  return {};
}

// Saved for a moment while it leads, and restored as `how` says.
struct AfterRestore {
  std::string incarnation_before = {};
  std::string incarnation_after = {};
  bool leads_at_once = true;
  std::string verdict = {};
};
AfterRestore RestoreLeader(Duration back, bool other_boot, Plant plant = Plant::kNone) {
  World world({.seed = 1, .plant = plant});
  world.RunFor(Duration::Minutes(1));
  const std::string name = LeaderOf(world, ShardA());
  ServerNode& node = *world.Server(name);
  AfterRestore after = {.incarnation_before = node.standing().incarnation};
  const Instant saved = node.loop().Now();
  node.loop().Pause();
  world.RunFor(Duration::Seconds(1));
  world.Restore(name, {.clock = saved - back, .other_boot = other_boot, .wall_is_set = true});
  after.leads_at_once = node.standing().leads;
  world.RunFor(Duration::Minutes(3));
  if (world.violation()) {
    after.verdict = world.violation()->invariant;
    return after;
  }
  after.incarnation_after = node.process().elector()->machine().incarnation();
  world.BeginCalm();
  RunUntilQuiet(world);
  world.Quiet();
  if (world.violation()) after.verdict = world.violation()->what;
  return after;
}

TEST(WorldTest, RU9_AServerWhoseClockWentBackBeginsAgain) {
  for (const Duration back : {Duration::Seconds(20), Duration::Minutes(2)}) {
    const AfterRestore after = RestoreLeader(back, false);
    EXPECT_FALSE(after.leads_at_once);
    EXPECT_NE(after.incarnation_after, after.incarnation_before);
    EXPECT_EQ(after.verdict, "");
  }
}

TEST(WorldTest, RU9_AServerOfAnotherBootBeginsAgain) {
  const AfterRestore after = RestoreLeader(Duration(), true);
  EXPECT_FALSE(after.leads_at_once);
  EXPECT_NE(after.incarnation_after, after.incarnation_before);
  EXPECT_EQ(after.verdict, "");
}

#ifdef NSTANCE_SIM  // Only there are planted bugs.
TEST(WorldTest, RU9_AServerThatIgnoresItsClockIsFound) {
  EXPECT_EQ(RestoreLeader(Duration::Seconds(40), false, Plant::kIgnoresClockGoneBack).verdict,
            "I-3");
}
#endif

// Somewhere else, and as a VM with the same marks: whoever renews second is known as a copy.
TEST(WorldTest, F10_ACopyOfAMachineIsFoundOut) {
  for (const World::CloneAt at : {World::CloneAt::kElsewhere, World::CloneAt::kCloud}) {
    Setting setting;
    setting.agent_life = Duration::Minutes(15);
    World world({.seed = 1, .setting = setting});
    world.RunFor(Duration::Minutes(2));
    AgentMachine& agent = *world.Agents().front();
    ASSERT_TRUE(agent.has_joined());
    const InstanceId id = agent.id();
    world.CloneAgent(agent, at);
    EXPECT_TRUE(world.AgentCloned(id));
    world.RunFor(Duration::Minutes(13));
    world.EndClones();
    world.BeginCalm();
    RunUntilQuiet(world);
    world.Quiet();
    EXPECT_FALSE(world.violation()) << world.violation()->what;
    EXPECT_TRUE(world.reached().contains(at == World::CloneAt::kCloud
                                             ? "alarms_total{duplicate_vm}"
                                             : "alarms_total{identity_clone}"));
    EXPECT_LE(world.cloud().VmsOf(id).size(), 1U);
  }
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

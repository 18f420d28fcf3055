// The request budgets of load.md section 4, counted in worlds without faults: the real server,
// agents and operators against the simulated store and provider. Each test lets one kind of work
// happen, by itself, and compares what it cost by class of key with what it may cost. The checkers
// of all invariants run along.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/fleet/step_budget.h"
#include "sim/world/world.h"

namespace nstance::sim {
namespace {

constexpr std::size_t kMaxJournalBytes = std::size_t{512} * 1024;
constexpr std::size_t kMaxOpenIntents = 1'024;

// Requests of one class of key.
struct Cost {
  std::int64_t puts = 0;
  std::int64_t reads = 0;
  std::int64_t deletes = 0;
  std::int64_t lists = 0;
};

struct Costs {
  std::map<std::string, Cost> store = {};
  std::map<SimProviderMethod, std::int64_t> provider = {};

  [[nodiscard]] Cost Of(const std::string& key_class) const {
    const auto at = store.find(key_class);
    return at == store.end() ? Cost() : at->second;
  }
  [[nodiscard]] Cost All() const {
    Cost sum;
    for (const auto& [name, cost] : store) {
      sum.puts += cost.puts;
      sum.reads += cost.reads;
      sum.deletes += cost.deletes;
      sum.lists += cost.lists;
    }
    return sum;
  }
};

// A world whose operator acknowledges at once, and what was asked of store and provider in it.
class Budget {
 public:
  using MakeChecker = std::function<std::unique_ptr<Checker>(CheckerWorld&)>;

  explicit Budget(const Setting& setting, MakeChecker another = {})
      : world_({.seed = 7, .setting = setting, .another_checker = std::move(another)}) {}

  [[nodiscard]] World& world() { return world_; }

  // In small steps, to see the journal in between.
  void Run(Duration length) {
    constexpr Duration kStep = Duration::Seconds(1);
    for (Duration done; done < length && !world_.violation(); done = done + kStep) {
      world_.RunFor(kStep);
      LookAtJournal();
    }
    ASSERT_FALSE(world_.violation().has_value())
        << world_.violation()->invariant << ": " << world_.violation()->what;
  }
  // Without a look at anything: for days.
  void RunFast(Duration length) {
    world_.RunFor(length);
    ASSERT_FALSE(world_.violation().has_value())
        << world_.violation()->invariant << ": " << world_.violation()->what;
  }

  void Resize(const std::string& tenant, const std::string& group, int size) {
    world_.Edits(ShardA()).sizes[{tenant, group}] = size;
    world_.WriteConfig(ShardA());
    world_.Operator(DefaultTenant()).RefreshConfig(ShardA());
  }
  [[nodiscard]] std::int64_t Serving() {
    return std::ranges::count_if(world_.Agents(), &AgentMachine::serving);
  }

  [[nodiscard]] Costs Now() {
    Costs costs;
    for (const auto& [counter, number] : world_.bucket().counts()) {
      const auto& [method, key_class, result] = counter;
      Cost& cost = costs.store[key_class];
      const auto count = static_cast<std::int64_t>(number);
      switch (method) {
        case SimMethod::kPut:
        case SimMethod::kPutUnconditionally: cost.puts += count; break;
        case SimMethod::kDelete: cost.deletes += count; break;
        case SimMethod::kList: cost.lists += count; break;
        case SimMethod::kGet:
        case SimMethod::kHead: cost.reads += count; break;
      }
    }
    for (const SimProviderMethod method :
         {SimProviderMethod::kCreate, SimProviderMethod::kDelete, SimProviderMethod::kGet,
          SimProviderMethod::kList, SimProviderMethod::kStart, SimProviderMethod::kStop,
          SimProviderMethod::kTypeArch, SimProviderMethod::kSubnetCapacity}) {
      costs.provider[method] = static_cast<std::int64_t>(world_.cloud().Count(method));
    }
    return costs;
  }
  // Since then.
  [[nodiscard]] Costs Since(const Costs& before) {
    Costs costs = Now();
    for (auto& [key_class, cost] : costs.store) {
      const Cost old = before.Of(key_class);
      cost = {.puts = cost.puts - old.puts,
              .reads = cost.reads - old.reads,
              .deletes = cost.deletes - old.deletes,
              .lists = cost.lists - old.lists};
    }
    for (auto& [method, count] : costs.provider) count -= before.provider.at(method);
    return costs;
  }

  [[nodiscard]] std::size_t largest_journal() const { return largest_journal_; }
  [[nodiscard]] std::size_t most_intents() const { return most_intents_; }

 private:
  void LookAtJournal() {
    const Object* journal = world_.bucket().Find(ObjectKey::Parse("journal/a.json").value());
    if (journal == nullptr) return;
    largest_journal_ = std::max(largest_journal_, journal->bytes.size());
    const auto& decoded = world_.truth().Of(ShardA()).journal;
    if (decoded) most_intents_ = std::max(most_intents_, decoded->intents.size());
  }

  World world_;
  std::size_t largest_journal_ = 0;
  std::size_t most_intents_ = 0;
};

// One server and no groups: what is done besides is what the test asks for.
Setting Alone() { return {.servers_a = 1, .servers_b = 0, .workers = 0, .api = 0, .edge = 0}; }

// For days: little happens between what is counted.
Setting Slow() {
  Setting setting = Alone();
  setting.renew = Duration::Seconds(10);
  setting.lease = Duration::Seconds(40);
  setting.report = Duration::Minutes(1);
  setting.interval = Duration::Minutes(2);
  setting.sweep = Duration::Minutes(2);
  return setting;
}

TEST(BudgetsTest, HealthReportsCostNoStorageRequests) {  // LB1.
  Setting setting = Alone();
  setting.workers = 30;
  setting.api = 20;
  setting.agent_life = Duration::Hours(24);
  Budget with(setting);
  with.Run(Duration::Minutes(10));
  ASSERT_EQ(with.Serving(), 50);
  Budget without(Alone());
  without.Run(Duration::Minutes(10));
  const Costs before = with.Now();
  const Costs idle_before = without.Now();
  with.RunFast(Duration::Hours(1));
  without.RunFast(Duration::Hours(1));
  const Cost spent = with.Since(before).All();
  const Cost idle = without.Since(idle_before).All();
  // The two worlds draw different latencies: a renewal more or less falls into the hour.
  EXPECT_NEAR(static_cast<double>(spent.puts), static_cast<double>(idle.puts), 4);
  EXPECT_NEAR(static_cast<double>(spent.reads), static_cast<double>(idle.reads), 4);
  EXPECT_NEAR(static_cast<double>(spent.lists), static_cast<double>(idle.lists), 4);
  EXPECT_EQ(spent.deletes, 0);
}

TEST(BudgetsTest, AnInstanceLifeCostsFivePutsAndADelete) {  // LB2, and LB3 of agents.
  constexpr std::int64_t kInstances = 10;
  Setting setting = Slow();
  setting.drain_timeout = {};
  setting.agent_life = Duration::Hours(12);
  Budget budget(setting);
  budget.Run(Duration::Minutes(2));
  const Costs before = budget.Now();
  budget.Resize("default", "workers", kInstances);
  budget.Run(Duration::Minutes(5));
  ASSERT_EQ(budget.Serving(), kInstances);
  const Costs made = budget.Since(before);
  EXPECT_EQ(made.Of("instance").puts, kInstances * 3);  // C3, C5, R5.
  EXPECT_EQ(made.Of("certlog").puts, kInstances);
  budget.Resize("default", "workers", 0);
  budget.Run(Duration::Minutes(15));
  ASSERT_TRUE(budget.world().cloud().Vms().empty());
  EXPECT_EQ(budget.Since(before).Of("instance").puts, kInstances * 5);  // X1, X5.
  EXPECT_EQ(budget.Since(before).Of("instance").deletes, 0);
  budget.RunFast(Duration::Hours(26));  // The tombstones' time.
  const Costs life = budget.Since(before);
  EXPECT_EQ(life.Of("instance").puts, kInstances * 5);
  EXPECT_EQ(life.Of("instance").deletes, kInstances);
  EXPECT_TRUE(budget.world().truth().Of(ShardA()).records.empty());
}

TEST(BudgetsTest, AnOperatorJoinsWithThreePuts) {  // LB3 of operators.
  Budget budget(Alone());
  budget.Run(Duration::Minutes(2));
  ASSERT_TRUE(budget.world().Operator(DefaultTenant()).joined());
  ASSERT_TRUE(budget.world().Operator(Prod()).joined());
  const Costs costs = budget.Now();
  EXPECT_EQ(costs.Of("operator-nonce").puts, 2);
  EXPECT_EQ(costs.Of("certlog").puts, 2);
  EXPECT_EQ(costs.Of("operator").puts, 2);
}

TEST(BudgetsTest, ARenewalCostsTwoPutsAndIsDueTwiceADayAtMost) {  // LB4.
  constexpr std::int64_t kAgents = 3;
  constexpr std::int64_t kDays = 7;
  Setting setting = Slow();
  setting.workers = kAgents;
  setting.agent_life = Duration::Hours(24);
  Budget budget(setting);
  budget.Run(Duration::Minutes(10));
  ASSERT_EQ(budget.Serving(), kAgents);
  const Costs before = budget.Now();
  budget.RunFast(Duration::Days(kDays));
  const Costs spent = budget.Since(before);
  const std::int64_t renewals = spent.Of("certlog").puts;
  EXPECT_EQ(spent.Of("instance").puts, renewals);
  EXPECT_GE(renewals * 2, kAgents * kDays * 3);
  EXPECT_LE(renewals, kAgents * kDays * 2);
  EXPECT_EQ(budget.Serving(), kAgents);
}

TEST(BudgetsTest, IdleServersReadAndWriteLittle) {  // LB5, LB6, LB10.
  constexpr std::int64_t kHours = 10;
  Setting setting = Alone();
  setting.servers_a = 2;
  setting.sweep = Duration::Minutes(2);
  Budget budget(setting);
  budget.Run(Duration::Minutes(10));
  const Costs before = budget.Now();
  budget.RunFast(Duration::Hours(kHours));
  const Costs spent = budget.Since(before);
  const std::int64_t renewals = 3'600 / setting.renew.seconds();
  // The shard's lease and the cluster's: one renews, the other server looks.
  EXPECT_LE(spent.Of("leader").puts, 2 * kHours * (renewals + 2));
  EXPECT_LE(spent.Of("leader").reads, 2 * kHours * (renewals + 2));
  EXPECT_EQ(spent.Of("journal").puts, 0);
  EXPECT_EQ(spent.All().puts, spent.Of("leader").puts);
  EXPECT_EQ(spent.All().deletes, 0);
  // Deny list, configuration and the rest of the leader; the same of the standby.
  EXPECT_LE(spent.All().reads - spent.Of("leader").reads, kHours * (360 + 60 + 10 + 420));
  EXPECT_LE(spent.provider.at(SimProviderMethod::kList), kHours * 30);
  EXPECT_EQ(spent.provider.at(SimProviderMethod::kCreate), 0);
}

TEST(BudgetsTest, AThousandInstancesTakeAHundredCommits) {  // LB7, LB9, LB15.
  constexpr std::int64_t kInstances = 1'000;
  Budget budget(Alone());
  budget.Run(Duration::Minutes(2));
  const Costs before = budget.Now();
  budget.Resize("default", "workers", kInstances);
  for (int minutes = 0; minutes < 60 && budget.Serving() < kInstances; ++minutes) {
    budget.Run(Duration::Minutes(1));
    if (HasFatalFailure()) return;
  }
  ASSERT_EQ(budget.Serving(), kInstances);
  const Costs spent = budget.Since(before);
  EXPECT_LE(spent.Of("journal").puts, kInstances / 10);
  EXPECT_EQ(spent.provider.at(SimProviderMethod::kCreate), kInstances);
  EXPECT_EQ(spent.provider.at(SimProviderMethod::kDelete), 0);
  EXPECT_EQ(spent.provider.at(SimProviderMethod::kStart), 0);
  EXPECT_EQ(spent.provider.at(SimProviderMethod::kStop), 0);
  EXPECT_LE(spent.provider.at(SimProviderMethod::kGet) +
                spent.provider.at(SimProviderMethod::kTypeArch) +
                spent.provider.at(SimProviderMethod::kSubnetCapacity) +
                spent.provider.at(SimProviderMethod::kList),
            kInstances);
  EXPECT_GT(budget.most_intents(), 0U);
  EXPECT_LE(budget.most_intents(), kMaxOpenIntents);
  EXPECT_LE(budget.largest_journal(), kMaxJournalBytes);
}

TEST(BudgetsTest, AHundredWritersShareTheirCommits) {  // LB8.
  constexpr std::int64_t kWriters = 100;
  Budget budget(Alone());
  budget.Run(Duration::Minutes(2));
  const Costs before = budget.Now();
  // No tenant may have a hundred calls in flight.
  const std::vector<TenantId> tenants = {DefaultTenant(), Prod()};
  for (std::int64_t i = 0; i < kWriters / 2; ++i) {
    for (const TenantId& tenant : tenants) {
      budget.world().Operator(tenant).Ask(
          ShardA(),
          api::UpsertGroupRequest{.key = fmt::format("g{}", i),
                                  .config = api::GroupConfig{.template_name = "t", .size = 0},
                                  .request_id = fmt::format("{}-{}", tenant.text(), i)});
    }
  }
  budget.Run(Duration::Minutes(2));
  std::int64_t accepted = 0;
  for (const auto& [tenant, groups] : budget.world().truth().Of(ShardA()).dynamic) {
    accepted += std::ssize(groups);
  }
  ASSERT_EQ(accepted, kWriters);
  EXPECT_LE(budget.Since(before).Of("groups").puts, kWriters / 4);
}

// The most that a server has planned in one turn of its loop.
class MostPlanned final : public Checker {
 public:
  MostPlanned(CheckerWorld& world, PlannerWork& most) : Checker("most", world), most_(most) {}

  void AfterTask(const ServerStanding& server) override {
    const std::uint64_t pieces = server.planned.pieces - before_.pieces;
    const std::uint64_t steps = server.planned.steps - before_.steps;
    if (steps > most_.steps) most_ = {.pieces = pieces, .steps = steps};
    before_ = server.planned;
  }

 private:
  PlannerWork& most_;
  PlannerWork before_;
};

// Plans a hundred groups, and all of them again with a changed template.
PlannerWork MostOfATurn(std::size_t steps_per_turn) {
  PlannerWork most;
  Setting setting = Alone();
  setting.steps_per_turn = steps_per_turn;
  Budget budget(
      setting, [&most](CheckerWorld& world) { return std::make_unique<MostPlanned>(world, most); });
  budget.Run(Duration::Minutes(2));
  for (int i = 0; i < 100; ++i) {
    budget.world().Edits(ShardA()).sizes[{"default", fmt::format("g{}", i)}] = i % 20 == 0 ? 1 : 0;
  }
  budget.Resize("default", "workers", 10);
  budget.Run(Duration::Minutes(5));
  EXPECT_EQ(budget.Serving(), 15);
  ++budget.world().Edits(ShardA()).generation;
  budget.Resize("default", "workers", 11);
  budget.Run(Duration::Minutes(5));
  EXPECT_GE(budget.Serving(), 16);
  return most;
}

TEST(BudgetsTest, ATurnOfTheLoopPlansNoMoreThanItsBudget) {  // LB16.
  const PlannerWork all = MostOfATurn(StepBudget::kPerTurn);
  EXPECT_GE(all.pieces, 100U) << "there is more to plan at once than the small budget has";
  EXPECT_LE(all.steps, StepBudget::kPerTurn);
  const PlannerWork some = MostOfATurn(40);
  EXPECT_GT(some.pieces, 1U);
  EXPECT_LE(some.steps, 40U);
}

}  // namespace
}  // namespace nstance::sim

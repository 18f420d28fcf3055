// Previews: what Plan shows is what the engine then does, and asking changes nothing.
//
// A world is run through random trouble. Before every single task of the simulation the group is
// previewed; whenever the engine has planned, its plan must be the preview of the moment before,
// word for word, and its actions must be in the table. Changes of the group are previewed first and
// then made. The same world without previews must take the very same course.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/server/fleet/fleet_world.h"

namespace nstance::test {
namespace {

constexpr int kSeeds = 12;
constexpr int kRounds = 12;

std::uint64_t PlansOf(Leader& leader) {
  static const metrics::Family kPlans = {
      .name = "plans_total", .help = "Groups that were planned.", .labels = {}, .buckets = {}};
  return leader.metrics().Counter(kPlans, {}).value();
}

struct Course {
  std::uint64_t hash = 0;
  std::map<std::string, std::string> objects = {};
  std::uint64_t compared = 0;
  std::uint64_t acted = 0;  // Plans among them that did something.
};

class Trouble {
 public:
  enum class Previews : std::uint8_t { kOff, kOn };

  Trouble(std::uint64_t seed, Previews previews)
      : prng_(seed * 7'919),
        previews_(previews),
        world_({.seed = seed,
                .size = static_cast<int>(1 + seed % 5),
                .drain_timeout = seed % 3 == 0 ? "0s" : "20s",
                .brake = seed % 2 == 0
                             ? R"({"unordered": {"count": 2, "percent": 10, "window": "2m"},
                                   "ordered": {"count": 2, "percent": 10, "window": "2m"}})"
                             : R"({"unordered": {"window": "0s"}, "ordered": {"window": "0s"}})"}) {
  }

  Course Run() {
    world_.Lead("s1");
    Pass(Duration::Seconds(40));
    for (int round = 0; round < kRounds; ++round) {
      Disturb();
      Pass(Duration::Seconds(static_cast<std::int64_t>(prng_.Below(40))));
    }
    course_.hash = world_.scheduler().trace_hash();
    for (const ObjectKey& key : world_.bucket().Keys()) {
      course_.objects[key.text()] = world_.bucket().Find(key)->bytes;
    }
    return course_;
  }

 private:
  [[nodiscard]] Fleet& fleet() { return world_.leader().fleet(); }

  void Pass(Duration length) {
    const Instant end = world_.scheduler().now() + length;
    (void)world_.Until(
        [&] {
          if (previews_ == Previews::kOn && world_.leader().ready()) Compare();
          return world_.scheduler().now() >= end;
        },
        length);
  }

  // Between two tasks: was something planned, and is it what was foretold?
  void Compare() {
    const std::uint64_t plans = PlansOf(world_.leader());
    if (plans > plans_ && foretold_) {
      ++course_.compared;
      const fleet::Plan* made = fleet().LastPlan(DefaultTenant(), kWorkers);
      ASSERT_NE(made, nullptr);
      EXPECT_EQ(made->actions, foretold_->actions);
      EXPECT_EQ(made->holds, foretold_->holds);
      EXPECT_EQ(made->replan_at, foretold_->replan_at);
      EXPECT_EQ(made->counts, foretold_->counts);
      CheckDone(*foretold_);
    }
    plans_ = plans;
    entries_ = fleet().size();
    foretold_ = fleet().Preview(DefaultTenant(), kWorkers);
  }

  void CheckDone(const fleet::Plan& plan) {
    std::size_t created = 0;
    for (const fleet::Action& action : plan.actions) {
      if (action.kind == fleet::ActionKind::kCreate) {
        ++created;
        continue;
      }
      const Instance& instance = *fleet().Find(*action.instance);
      switch (action.kind) {
        case fleet::ActionKind::kDrain: EXPECT_TRUE(instance.drain.has_value()); break;
        case fleet::ActionKind::kOpenDelete: EXPECT_TRUE(instance.deletion.has_value()); break;
        case fleet::ActionKind::kLook: EXPECT_TRUE(instance.looks.in_flight); break;
        case fleet::ActionKind::kDelete:
          // One whose drain is not durable yet is asked for again.
          EXPECT_TRUE(instance.deletion_started || instance.drain.has_value());
          break;
        case fleet::ActionKind::kRevokeDrain:
          EXPECT_TRUE(instance.revoking || instance.drain.has_value());
          break;
        case fleet::ActionKind::kCreate: break;
      }
    }
    EXPECT_EQ(fleet().size(), entries_ + created);
    if (!plan.actions.empty()) ++course_.acted;
  }

  // First foretold, then made: the plan of the what-if is that of the group once it is so.
  void Resize(int size) {
    config::DynamicGroups dynamic;
    dynamic[DefaultTenant()][kWorkers].layer.size = size;
    const GroupsRef groups = BuildGroups(
        {.config = fleet().groups()->config, .dynamic = std::move(dynamic)}, fleet().groups());
    std::optional<fleet::Plan> what_if;
    if (previews_ == Previews::kOn) {
      what_if = fleet().Preview(DefaultTenant(), kWorkers, *groups);
    }
    fleet().SetGroups(groups);
    if (what_if) {
      foretold_ = fleet().Preview(DefaultTenant(), kWorkers);
      EXPECT_EQ(*what_if, *foretold_);
    }
  }

  void Disturb() {
    if (!world_.leader().ready()) return;
    const std::vector<const sim::SimVm*> vms = world_.cloud().Vms();
    const std::vector<const Instance*> all = fleet().OfTenant(DefaultTenant());
    const std::uint64_t what = prng_.Below(8);
    const auto pick = [&](std::size_t count) {
      return static_cast<std::size_t>(prng_.Below(std::max<std::size_t>(1, count)));
    };
    if (what == 0 && !vms.empty()) {
      world_.cloud().SetStatusByHand(vms[pick(vms.size())]->provider_id, ProviderStatus::kStopped);
    } else if (what == 1 && !vms.empty()) {
      world_.cloud().VanishByHand(vms[pick(vms.size())]->provider_id);
    } else if (what == 2 && !world_.agents().empty()) {
      std::next(world_.agents().begin(), static_cast<std::ptrdiff_t>(pick(world_.agents().size())))
          ->second.frozen = true;
    } else if (what == 3 && !all.empty()) {
      fleet().Delete({.tenant = DefaultTenant(),
                      .instance_id = all[pick(all.size())]->id,
                      .drain = prng_.Below(2) == 0},
                     [](const Result<std::string>&) {});
      Foretell();
    } else if (what == 4) {
      world_.cloud().limits().vms = static_cast<std::size_t>(prng_.Below(8));
    } else {
      Resize(static_cast<int>(prng_.Below(8)));
    }
  }

  void Foretell() {
    if (previews_ == Previews::kOn) foretold_ = fleet().Preview(DefaultTenant(), kWorkers);
  }

  Prng prng_;
  Previews previews_;
  World world_;
  Course course_;
  std::uint64_t plans_ = 0;
  std::size_t entries_ = 0;
  std::optional<fleet::Plan> foretold_;
};

TEST(PreviewTest, WhatIsForetoldIsDoneAndAskingChangesNothing) {
  std::uint64_t compared = 0;
  std::uint64_t acted = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const Course asked = Trouble(seed, Trouble::Previews::kOn).Run();
    const Course left_alone = Trouble(seed, Trouble::Previews::kOff).Run();
    EXPECT_EQ(asked.hash, left_alone.hash) << "a preview changed the course of the world";
    EXPECT_EQ(asked.objects, left_alone.objects);
    compared += asked.compared;
    acted += asked.acted;
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(compared, kSeeds * 30U);
  EXPECT_GT(acted, kSeeds * 5U);
}

// A group that nobody has planned yet, and one that is to go.
TEST(PreviewTest, AGroupThatIsNotThereYetAndOneThatWillBeGone) {
  World world({.size = 2});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(2));
  Fleet& fleet = world.leader().fleet();
  const GroupKey fresh = *GroupKey::Parse("fresh");
  config::DynamicGroups dynamic;
  dynamic[DefaultTenant()][fresh].layer.size = 3;
  dynamic[DefaultTenant()][fresh].layer.template_name = "t";
  const GroupsRef with =
      BuildGroups({.config = fleet.groups()->config, .dynamic = dynamic}, fleet.groups());
  const fleet::Plan made = fleet.Preview(DefaultTenant(), fresh, *with);
  EXPECT_EQ(made.actions.size(), 3U);
  EXPECT_EQ(fleet.LastPlan(DefaultTenant(), fresh), nullptr) << "nobody has planned it";
  EXPECT_FALSE(fleet.Knows(DefaultTenant(), fresh));
  fleet.SetGroups(with);
  ASSERT_TRUE(world.Until([&] { return fleet.Figures(DefaultTenant(), fresh).ready == 3; }));
  const GroupsRef without = BuildGroups({.config = fleet.groups()->config}, fleet.groups());
  const fleet::Plan gone = fleet.Preview(DefaultTenant(), fresh, *without);
  ASSERT_EQ(gone.actions.size(), 3U);
  for (const fleet::Action& action : gone.actions) {
    EXPECT_EQ(action.kind, fleet::ActionKind::kDrain);
    EXPECT_EQ(action.reason, fleet::Reason::kGroupDeleted);
    EXPECT_TRUE(action.ordered) << "as DeleteGroup orders it";
  }
  EXPECT_EQ(fleet.Figures(DefaultTenant(), fresh).ready, 3);
  fleet.SetGroups(without);
  EXPECT_EQ(fleet.Preview(DefaultTenant(), fresh), gone);
}

}  // namespace
}  // namespace nstance::test

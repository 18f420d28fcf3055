// The planner over seeds: a hostile world applies each plan while it breaks what it can; after
// every step the invariants hold. Then it calms down, and the group must converge. A failure prints
// the seed that replays it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "core/fleet/verdict.h"
#include "test/core/fleet/views.h"
#include "test/core/fleet/world.h"

namespace nstance::fleet {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t kSeeds = 600;
#else
constexpr std::uint64_t kSeeds = 2'000;
#endif
constexpr int kHostileSteps = 40;
constexpr int kCalmSteps = 600;

const InstanceView& Find(const GroupView& view, const InstanceId& id) {
  return *std::ranges::find(view.instances, id, &InstanceView::id);
}

// Counted apart from the planner: managed, before draining, without a deletion that has begun.
bool IsCounted(const InstanceView& instance) {
  return instance.care == Care::kManaged && CountsTowardSize(instance.phase) && !instance.drain &&
         !(instance.deletion && instance.deletion->started);
}

int Counted(const GroupView& view) {
  return static_cast<int>(std::ranges::count_if(view.instances, IsCounted));
}

int Ready(const GroupView& view, Instant now) {
  return static_cast<int>(std::ranges::count_if(view.instances, [&](const InstanceView& instance) {
    return IsCounted(instance) && instance.phase == InstancePhase::kRegistered &&
           JudgeHealth(instance.health, view.leadership.counting_since, view.times, now).state ==
               HealthState::kHealthy;
  }));
}

bool IsDestructive(const Action& action) {
  return action.kind == ActionKind::kDrain || action.kind == ActionKind::kDelete;
}

// What a plan may never do, checked on the view before and after it.
class Checker {
 public:
  Checker(const World& world, const Plan& plan)
      : world_(world), before_(world.view()), after_(world.view()), plan_(plan) {
    std::uint32_t next_id = 1'000'000;
    ApplyPlan(plan, world.now(), next_id, after_);
  }

  // Empty, or what is wrong.
  std::string Check() {
    for (const Action& action : plan_.actions) {
      if (!action.instance) continue;
      const InstanceView& instance = Find(before_, *action.instance);
      CheckTarget(action, instance);
      if (IsDestructive(action)) CheckEvidence(action, instance);
    }
    CheckCounts();
    CheckReplacements();
    CheckApart();
    CheckRotation();
    CheckBrake();
    return wrong_;
  }

  std::string CheckStability(Prng& prng) {
    if (PlanGroup(before_, world_.now()) != plan_) Wrong("planning twice differs");
    const Plan again = PlanGroup(after_, world_.now());
    // Who leaves changes the share of silent agents, and with it what is held.
    const bool silence = std::ranges::any_of(
        plan_.holds, [](const Hold& hold) { return hold.code == HoldCode::kMassSilence; });
    if (!silence && !again.actions.empty()) {
      Wrong(fmt::format("planning after applying [{}] gives [{}]", fmt::join(Short(plan_), ", "),
                        fmt::join(Short(again), ", ")));
    }
    GroupView shuffled = before_;
    prng.Shuffle(std::span(shuffled.instances));
    if (PlanGroup(shuffled, world_.now()) != plan_) Wrong("the order of instances matters");
    const Duration until =
        plan_.replan_at ? *plan_.replan_at - world_.now() : Duration::Seconds(10'000);
    if (until <= Duration()) Wrong("replan_at is not in the future");
    const Duration early = prng.UpTo(until - Duration::Nanoseconds(1));
    const Plan later = PlanGroup(before_, world_.now() + early);
    if (Short(later) != Short(plan_)) {
      Wrong(fmt::format("[{}] becomes [{}] before replan_at", fmt::join(Short(plan_), ", "),
                        fmt::join(Short(later), ", ")));
    }
    return wrong_;
  }

 private:
  void Wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  void CheckTarget(const Action& action, const InstanceView& instance) {
    if (instance.deletion && instance.deletion->started) Wrong("acts on a deleting instance");
    if (action.kind == ActionKind::kLook) return;
    if (!touched_.insert(instance.id).second) Wrong("two actions for one instance");
    if (action.kind == ActionKind::kDrain) {
      if (instance.drain || instance.phase != InstancePhase::kRegistered) {
        Wrong("drains what is not registered");
      }
      if (action.length <= Duration()) Wrong("a drain without length");
    }
    if (action.kind == ActionKind::kRevokeDrain && !instance.drain) Wrong("revokes no drain");
  }

  void CheckEvidence(const Action& action, const InstanceView& instance) {
    const Absence absence = JudgeAbsence(instance.looks, before_.times);
    const bool ordered = instance.order || instance.deletion;
    switch (action.reason) {
      case Reason::kProviderGone:
        if (absence != Absence::kAbsent && !instance.looks.dead_since) Wrong("gone by one look");
        break;
      case Reason::kUnhealthy:
        if (!instance.drain && world_.AlwaysHealthy(instance.id)) Wrong("I-25 unhealthy");
        if (instance.care != Care::kManaged) Wrong("an on-demand instance for its health");
        break;
      case Reason::kScaleDown:
      case Reason::kConfigDrift:
      case Reason::kEligibleExpiry:
      case Reason::kForcedExpiry:
        if (instance.care != Care::kManaged) Wrong("an on-demand instance is no victim");
        if (before_.restraint != Restraint::kNone && !instance.drain) Wrong("under restraint");
        break;
      case Reason::kRequested:
        if (!ordered && !instance.drain) Wrong("nobody asked");
        break;
      default: break;
    }
    if (absence == Absence::kSuspect && action.reason == Reason::kProviderStopped) {
      Wrong("stopped on one look");
    }
  }

  // I-18, I-22 and guarantee 2.
  void CheckCounts() {
    const int size = before_.spec.size;
    const int counted = Counted(after_);
    if (counted > std::max(Counted(before_), size + before_.spec.surge)) Wrong("I-18 too many");
    if (plan_.counts.members > std::max(Counted(before_), size + before_.spec.surge)) {
      Wrong("members above size + surge");
    }
    bool quiet = false;
    bool others = false;
    for (const Action& action : plan_.actions) {
      if (!IsDestructive(action)) continue;
      const InstanceView& instance = Find(before_, *action.instance);
      if (!IsCounted(instance)) continue;
      const bool decided =
          action.reason == Reason::kUnhealthy || action.reason == Reason::kScaleDown ||
          action.reason == Reason::kConfigDrift || action.reason == Reason::kEligibleExpiry;
      if (decided && instance.phase == InstancePhase::kRegistered && counted < size) {
        Wrong(fmt::format("I-22 {} of {} are left", counted, size));
      }
      const bool named =
          std::ranges::find(before_.spec.remove, instance.id) != before_.spec.remove.end();
      const bool rotates =
          action.reason == Reason::kConfigDrift || action.reason == Reason::kEligibleExpiry;
      if (rotates || (action.reason == Reason::kScaleDown && !named)) {
        quiet = true;
      } else {
        others = true;
      }
    }
    const int ready = Ready(before_, world_.now());
    if (quiet && !others && Ready(after_, world_.now()) < std::min(size, ready)) {
      Wrong("guarantee 2: ready instances fall");
    }
  }

  // Guarantee 3 where I-22 does not ask for it. After a spot notice: all that can be made is made
  // in the same plan. Before forced expiry: what stands in is provisioned, unless none can be made.
  void CheckReplacements() {
    int creations = 0;
    int leaving = 0;
    bool spot = false;
    bool forced = false;
    bool failed = before_.creation.backoff.active();
    for (const Action& action : plan_.actions) {
      if (action.kind == ActionKind::kCreate) ++creations;
      if (action.failure) failed = true;
      if (!IsDestructive(action) || !IsCounted(Find(before_, *action.instance))) continue;
      ++leaving;
      if (action.reason == Reason::kSpotTerminating) spot = true;
      if (action.reason == Reason::kForcedExpiry) forced = true;
    }
    const bool no_subnet = std::ranges::all_of(before_.subnets, &SubnetView::full);
    const bool more = creations < before_.creation.places && !no_subnet && !failed;
    if (spot && more && Counted(after_) < before_.spec.size) {
      Wrong("guarantee 3: a spot notice without its replacement");
    }
    const auto provisioned = std::ranges::count_if(after_.instances, [](const InstanceView& one) {
      return IsCounted(one) && one.phase >= InstancePhase::kProvisioned;
    });
    const bool none = no_subnet || before_.creation.backoff.failures() >= 3;
    // Others that leave with it do so for their own reasons, and may come after it.
    if (forced && leaving == 1 && !none && provisioned < before_.spec.size) {
      Wrong("guarantee 3: forced expiry before its replacement is provisioned");
    }
  }

  // Guarantee 6: without those that stand apart everything else is planned and counted alike. They
  // share the brake, which is left out here.
  void CheckApart() {
    const auto apart = [](const InstanceView& one) { return one.care != Care::kManaged; };
    if (std::ranges::none_of(before_.instances, apart)) return;
    GroupView whole = before_;
    whole.brake = FreeBrake();
    GroupView managed = whole;
    std::erase_if(managed.instances, apart);
    Plan plan = PlanGroup(whole, world_.now());
    const Plan alone = PlanGroup(managed, world_.now());
    std::erase_if(plan.actions, [&](const Action& action) {
      return action.instance && apart(Find(before_, *action.instance));
    });
    if (plan.counts != alone.counts) Wrong("guarantee 6: counts change");
    if (plan.actions != alone.actions) {
      Wrong(fmt::format("guarantee 6: [{}] without those apart [{}]", fmt::join(Short(plan), ", "),
                        fmt::join(Short(alone), ", ")));
    }
  }

  void CheckRotation() {
    int begun = 0;
    for (const Action& action : plan_.actions) {
      if (!action.replaces) continue;
      if (IsCounted(Find(after_, *action.replaces))) ++begun;
    }
    if (begun > 1) Wrong("two rotations begin");
    if (begun > 0) {
      for (const InstanceView& successor : before_.instances) {
        if (IsOpenRotation(successor)) Wrong("a rotation begins while another is open");
      }
    }
    // Nobody gets two replacements in one plan.
    std::set<InstanceId> replaced;
    for (const Action& action : plan_.actions) {
      if (action.replaces && !replaced.insert(*action.replaces).second) Wrong("replaced twice");
    }
  }

  // A member and its successor, both there before and after the plan; the member is still to go.
  bool IsOpenRotation(const InstanceView& successor) const {
    if (!IsCounted(successor) || !successor.replaces) return false;
    const auto old = std::ranges::find(before_.instances, *successor.replaces, &InstanceView::id);
    if (old == before_.instances.end() || !IsCounted(*old)) return false;
    if (!IsCounted(Find(after_, successor.id)) || !IsCounted(Find(after_, old->id))) return false;
    AlarmClock clock(world_.now());
    const VerdictKind kind = JudgeInstance(*old, before_, clock).verdict.kind;
    return kind == VerdictKind::kDue || kind == VerdictKind::kSuspect ||
           kind == VerdictKind::kDoomed;
  }

  void CheckBrake() {
    const BrakeBudget budget = world_.brake().Budget(world_.now(), world_.population());
    int unordered = 0;
    int opportunistic = 0;
    int ordered = 0;
    for (const Action& action : plan_.actions) {
      if (!action.counted || !IsDestructive(action)) continue;
      ++(action.ordered ? ordered : unordered);
      if (!action.ordered && IsOpportunistic(action.reason)) ++opportunistic;
    }
    if (unordered > budget.unordered.free || ordered > budget.ordered.free ||
        opportunistic > budget.opportunistic.free) {
      Wrong("I-21 the brake is passed");
    }
    for (const Action& action : plan_.actions) {
      if (!IsDestructive(action) || action.counted) continue;
      const InstanceView& instance = Find(before_, *action.instance);
      const bool exempt = instance.phase != InstancePhase::kRegistered ||
                          action.reason == Reason::kSpotTerminating || instance.looks.dead_since;
      if (!exempt) Wrong("I-21 not counted: " + Describe(action));
    }
  }

  const World& world_;
  const GroupView& before_;
  GroupView after_;
  const Plan& plan_;
  std::set<InstanceId> touched_;
  std::string wrong_;
};

struct Seen {
  std::map<std::string, int> actions;
  std::map<std::string, int> holds;
};

// One seed; empty, or what went wrong and when.
std::string RunSeed(std::uint64_t seed, Seen& seen) {
  World world(seed);
  Prng prng(seed + 1);
  for (int step = 0; step < kHostileSteps + kCalmSteps; ++step) {
    if (step == kHostileSteps) world.Calm();
    if (step < kHostileSteps) world.Disturb();
    const Plan plan = PlanGroup(world.view(), world.now());
    for (const Action& action : plan.actions) {
      ++seen.actions[fmt::format("{} {}", Word(action.kind), Word(action.reason))];
    }
    for (const Hold& hold : plan.holds) ++seen.holds[std::string(Word(hold.code))];
    Checker checker(world, plan);
    std::string wrong = checker.Check();
    if (wrong.empty() && step % 4 == 0) wrong = checker.CheckStability(prng);
    if (!wrong.empty()) {
      return fmt::format("seed {} step {}: {}; plan [{}], holds [{}]", seed, step, wrong,
                         fmt::join(Short(plan), ", "), fmt::join(ShortHolds(plan), ", "));
    }
    if (step > kHostileSteps && plan.actions.empty() && world.Converged()) return {};
    world.Apply(plan);
    world.Step(Duration::Seconds(prng.Between(1, 10)));
  }
  std::string state;
  const Plan plan = PlanGroup(world.view(), world.now());
  for (const std::string& hold : ShortHolds(plan)) state += " " + hold;
  return fmt::format("seed {}: size {}, {} members, {} ready, holds{}", seed,
                     world.view().spec.size, plan.counts.members, plan.counts.ready, state);
}

TEST(PlannerPropertyTest, TheGroupConvergesAndNoStepBreaksAnInvariant) {
  Seen seen;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string wrong = RunSeed(seed, seen);
    ASSERT_TRUE(wrong.empty()) << wrong;
  }
  // The world is hostile enough to reach these.
  for (const std::string action :
       {"create scale-up", "create replace", "drain unhealthy", "drain spot-terminating",
        "drain scale-down", "drain config-drift", "drain eligible-expiry", "drain forced-expiry",
        "drain ondemand-expiry", "drain requested", "delete provider-gone",
        "delete provider-stopped", "delete registration-timeout", "delete requested",
        "accept-delete requested"}) {
    EXPECT_GT(seen.actions[action], 0) << action;
  }
  for (const std::string hold :
       {"brake", "create-backoff", "create-concurrency", "one-rotation", "waiting-replacement",
        "waiting-healthy", "no-replacement", "waiting-drain", "second-look", "reconnect-grace",
        "mass-silence", "subnet-full", "provider-unavailable", "config-invalid", "on-demand"}) {
    EXPECT_GT(seen.holds[hold], 0) << hold;
  }
}

}  // namespace
}  // namespace nstance::fleet

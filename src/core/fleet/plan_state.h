// The state of one planning pass; planner.cc and the plan_*.cc files are its only users.
//
// Instances stand sorted by id, so the order in which a view has them cannot matter. Members, pairs
// and budgets are counted as the plan goes on: every step sees what the steps before it decided.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fault_point.h"
#include "core/fleet/alarm_clock.h"
#include "core/fleet/plan.h"
#include "core/fleet/verdict.h"
#include "core/fleet/view.h"

namespace nstance::fleet {

inline constexpr int kScaleDownPriority = 1;
inline constexpr int kForcedPriority = 2;
inline constexpr int kReplacePriority = 3;
inline constexpr int kQuietPriority = 4;
inline constexpr int kScaleUpPriority = 5;

struct PlanItem {
  enum class Standing : std::uint8_t {
    kMember,
    kApart,     // On-demand or claimed, and not draining or deleting.
    kDraining,  // Of any care.
    kOut,       // Deleting, or leaves with this plan.
  };

  const InstanceView* view = nullptr;
  Standing standing = Standing::kOut;
  HealthJudgement health = {};
  Verdict verdict = {};
  DrainingJudgement draining = {};
  PlanItem* replacement = nullptr;  // Of an open pair: who stands in for this one.
  PlanItem* replaced = nullptr;     // Of an open pair: whom this one stands in for.
  bool looked = false;              // A look is part of this plan.
  bool silenced = false;            // Its verdict `unhealthy` waits for mass silence.

  [[nodiscard]] bool member() const { return standing == Standing::kMember; }
  [[nodiscard]] bool registered() const {
    return view->phase == InstancePhase::kRegistered || view->phase == InstancePhase::kDraining;
  }
  // Asked of members only; a drain that this plan revokes makes one of a draining instance.
  [[nodiscard]] bool ready() const {
    return registered() && !view->blocked && !view->corrupt &&
           health.state == HealthState::kHealthy;
  }
  [[nodiscard]] bool provisioned() const {
    return registered() || view->phase == InstancePhase::kProvisioned;
  }
};

// How an instance leaves.
struct Leaving {
  Reason reason = Reason::kScaleDown;
  int priority = kScaleDownPriority;
  bool ordered = false;
  bool counted = false;
  std::optional<FailureClass> failure = std::nullopt;
};

// Leaving for what the verdict says.
[[nodiscard]] inline Leaving ByVerdict(const Verdict& verdict) {
  return {.reason = verdict.reason,
          .priority = verdict.priority,
          .ordered = verdict.ordered,
          .counted = verdict.counted,
          .failure = verdict.failure};
}

class PlanState {
 public:
  PlanState(const GroupView& view, Instant now);

  PlanState(const PlanState&) = delete;
  PlanState& operator=(const PlanState&) = delete;

  const GroupView& view;
  AlarmClock clock;
  std::vector<PlanItem> items;  // By id; never grows after construction.
  Plan plan;

  // 0 while the group is being removed.
  [[nodiscard]] int size() const { return view.removal ? 0 : view.spec.size; }
  [[nodiscard]] int members() const { return members_; }
  [[nodiscard]] int slots() const {
    return members_ - pairs_ + (Planted(Plant::kCountsDraining) ? draining() : 0);
  }
  [[nodiscard]] int draining() const;
  [[nodiscard]] int deficit() const { return size() - slots(); }
  // Members of an open rotation, the old ones. At most one by our own doing.
  [[nodiscard]] PlanItem* OpenRotation();
  [[nodiscard]] bool IsScaledDownOrRotated() const {
    return view.restraint == Restraint::kNone && !view.spec.pool;
  }

  // ---- decisions --------------------------------------------------------------------------------

  // Whether the brake and the provider let it go now; if not, says why in a hold.
  [[nodiscard]] bool MayLeave(const PlanItem& item, const Leaving& leaving);
  // Drain if it is registered and there is a drain timeout, else delete. Takes from the brake.
  // REQUIRES: MayLeave.
  void Leave(PlanItem& item, const Leaving& leaving);
  // Delete without a drain, whatever the timeout.
  void Delete(PlanItem& item, const Leaving& leaving);
  void Drain(PlanItem& item, const Leaving& leaving, Duration length);

  // Why nothing can be created now; nothing when it can. `freed`: members that will have left.
  [[nodiscard]] std::optional<Hold> CreationHold(int freed);
  // No replacement can be made, not only not now.
  [[nodiscard]] bool NoneCanBeMade() const;
  // One more member in place of one that left, or of nobody: a drain is revoked, or an instance
  // created. REQUIRES: CanRefill(0).
  void Refill();
  [[nodiscard]] bool CanRefill(int freed);
  // This plan revokes a drain that is not settled: that member counts for nobody who leaves.
  [[nodiscard]] bool CountsOnUnsettled() const;
  // The next refill would be such a one.
  [[nodiscard]] bool RefillIsUnsettled();
  // One more member beside `of`: opens a rotation. REQUIRES: no CreationHold(0).
  void CreateBeside(const PlanItem& of, int priority);

  void AddHold(HoldCode code, const PlanItem* item, std::optional<Instant> until = {},
               std::string detail = {});
  void AddLook(PlanItem& item);

  [[nodiscard]] const SilenceJudgement& silence() const { return silence_; }
  [[nodiscard]] bool creation_is_failing() const { return backoff_.active(); }
  // By this plan so far: members that are not ready.
  [[nodiscard]] int created() const { return created_; }
  // Nothing was created and no managed instance drained by the steps so far, and no drain is open.
  [[nodiscard]] bool IsStill() const;

  // Sorted actions and holds, counts, replan_at.
  [[nodiscard]] Plan Finish();

 private:
  [[nodiscard]] std::span<const SubnetView> subnets() const {
    return subnets_.empty() ? view.subnets : subnets_;
  }
  [[nodiscard]] BudgetOf& BudgetFor(const Leaving& leaving);
  [[nodiscard]] PlanItem* Revocable();
  void Create(const PlanItem* of, Reason reason, int priority);
  void GoOut(PlanItem& item, const Leaving& leaving);
  void Unpair(PlanItem& item);
  void LinkPairs();
  void JudgeAll();
  void ApplySilence();
  [[nodiscard]] bool ProvesRegistration(const InstanceView& instance);

  BrakeBudget brake_;
  CreationBackoff backoff_;
  std::vector<SubnetView> subnets_;  // As this plan fills them; empty: as the view has them.
  int places_ = 0;
  int members_ = 0;
  int pairs_ = 0;
  int created_ = 0;
  int drained_ = 0;                          // Managed ones, by this plan.
  std::vector<const PlanItem*> unreplaced_;  // Members that left and are to be replaced.
  SilenceJudgement silence_ = {};
  bool creation_failed_ = false;  // By this very plan.
};

// ---- the steps, in their order ------------------------------------------------------------------

// How victims count those that the brake may still let go: kLeaving assumes that they leave,
// kStaying that what is still here stays.
enum class Doomed : std::uint8_t { kLeaving, kStaying };

void PlanOrders(PlanState& state);                   // plan_leaving.cc
void PlanEndedDrains(PlanState& state);              // plan_leaving.cc
void PlanUnbrakedLeaving(PlanState& state);          // plan_leaving.cc
void PlanVictims(PlanState& state, Doomed assumed);  // plan_victims.cc
void PlanForcedExpiry(PlanState& state);             // plan_rotation.cc
void PlanBrakedDead(PlanState& state);               // plan_leaving.cc
void PlanRefill(PlanState& state);                   // plan_leaving.cc
void PlanUnhealthy(PlanState& state);                // plan_leaving.cc
void PlanRotation(PlanState& state);                 // plan_rotation.cc
void PlanApartExpiry(PlanState& state);              // plan_leaving.cc
void PlanOpenDrains(PlanState& state);               // plan_leaving.cc
void PlanOpenDeletions(PlanState& state);            // plan_leaving.cc

// A member that leaves by itself as soon as the brake, or a replacement, lets it.
[[nodiscard]] bool IsDoomed(const PlanItem& item);

// An order that drains first, on something that can be drained.
[[nodiscard]] bool WantsDrain(const PlanItem& item);

}  // namespace nstance::fleet

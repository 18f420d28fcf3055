#include "core/fleet/planner.h"

#include "core/fleet/plan_state.h"

namespace nstance::fleet {

Plan PlanGroup(const GroupView& view, Instant now) {
  PlanState state(view, now);
  if (view.restraint == Restraint::kTenantUndefined) {
    state.plan = {};
    state.AddHold(HoldCode::kTenantUndefined, nullptr, std::nullopt, view.restraint_detail);
    return state.Finish();
  }
  if (view.restraint == Restraint::kConfigInvalid) {
    state.AddHold(HoldCode::kConfigInvalid, nullptr, std::nullopt, view.restraint_detail);
  }
  PlanOrders(state);
  PlanEndedDrains(state);
  PlanUnbrakedLeaving(state);
  PlanVictims(state, Doomed::kLeaving);
  PlanForcedExpiry(state);
  PlanBrakedDead(state);
  PlanRefill(state);
  PlanUnhealthy(state);
  PlanVictims(state, Doomed::kStaying);
  PlanRotation(state);
  PlanApartExpiry(state);
  PlanOpenDrains(state);
  PlanOpenDeletions(state);
  return state.Finish();
}

}  // namespace nstance::fleet

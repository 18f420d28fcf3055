// What leaves because it was asked for, is dead or doomed; what comes in its place; and drains.
#include <algorithm>
#include <tuple>

#include "base/fault_point.h"
#include "core/fleet/plan_state.h"

namespace nstance::fleet {
namespace {

using Standing = PlanItem::Standing;

void PlanOrder(PlanState& state, PlanItem& item) {
  Leaving leaving = ByVerdict(item.verdict);
  if (item.standing == Standing::kDraining) {
    // Its drain was counted when it began.
    const InstanceView& instance = *item.view;
    leaving = {.reason = instance.deletion ? instance.deletion->reason : instance.order->reason,
               .priority = kScaleDownPriority,
               .ordered = instance.deletion ? instance.deletion->ordered : true};
    if (state.MayLeave(item, leaving)) state.Delete(item, leaving);
    return;
  }
  if (WantsDrain(item)) {
    // A member's replacement comes first: PlanUnhealthy().
    if (!item.member() && state.MayLeave(item, leaving)) {
      state.Drain(item, leaving, item.view->order->drain);
    }
    return;
  }
  if (state.MayLeave(item, leaving)) {
    state.Delete(item, leaving);
  } else if (!item.view->deletion) {
    state.plan.actions.push_back({.kind = ActionKind::kOpenDelete,
                                  .reason = leaving.reason,
                                  .priority = leaving.priority,
                                  .instance = item.view->id,
                                  .ordered = leaving.ordered,
                                  .counted = leaving.counted});
  }
}

bool IsUnhealthy(const PlanItem& item) {
  return item.verdict.kind == VerdictKind::kDoomed && item.verdict.reason == Reason::kUnhealthy;
}

// Whether what takes its place is far enough; says in a hold what is missing.
bool GateIsOpen(PlanState& state, const PlanItem& item) {
  if (Planted(Plant::kDrainsUnreplaced)) return true;
  const auto held = [&](HoldCode code) {
    state.AddHold(code, &item);
    return false;
  };
  if (state.CountsOnUnsettled()) return held(HoldCode::kWaitingReplacement);
  if (item.replacement != nullptr) {
    const bool far_enough = !state.creation_is_failing() || item.replacement->provisioned();
    if (far_enough && state.deficit() <= 0) return true;
    return held(HoldCode::kWaitingReplacement);
  }
  if (state.slots() - 1 >= state.size()) return true;
  if (state.deficit() > 0 || state.creation_is_failing() || !state.CanRefill(1)) {
    return held(state.NoneCanBeMade() ? HoldCode::kNoReplacement : HoldCode::kWaitingReplacement);
  }
  if (state.RefillIsUnsettled()) return held(HoldCode::kWaitingReplacement);
  return true;
}

bool HasDrain(const PlanItem& item) {
  return item.standing == Standing::kDraining && item.view->drain && !item.view->corrupt;
}

}  // namespace

bool WantsDrain(const PlanItem& item) {
  return !item.view->deletion && item.view->order && item.view->order->drain > Duration() &&
         item.registered() && !item.verdict.lifeless;
}

bool IsDoomed(const PlanItem& item) {
  if (!item.member() || item.silenced) return false;
  return item.verdict.kind == VerdictKind::kDead || IsUnhealthy(item);
}

void PlanOrders(PlanState& state) {
  std::vector<PlanItem*> ordered;
  for (PlanItem& item : state.items) {
    const bool asked = item.view->order || item.view->deletion;
    if (asked && item.standing != Standing::kOut && !item.view->corrupt) ordered.push_back(&item);
  }
  // Accepted ones first, in the order of their acceptance.
  std::ranges::stable_sort(ordered, {}, [](const PlanItem* item) {
    const auto& deletion = item->view->deletion;
    return deletion ? deletion->opened_at : Instant::Never();
  });
  for (PlanItem* item : ordered) PlanOrder(state, *item);
}

void PlanUnbrakedLeaving(PlanState& state) {
  for (PlanItem& item : state.items) {
    if (!item.member() && item.standing != Standing::kApart) continue;
    const bool dead = item.verdict.kind == VerdictKind::kDead;
    const bool doomed = item.verdict.kind == VerdictKind::kDoomed;
    if ((!dead && !doomed) || item.verdict.counted) continue;
    const Leaving leaving = ByVerdict(item.verdict);
    if (state.MayLeave(item, leaving)) state.Leave(item, leaving);
  }
}

void PlanBrakedDead(PlanState& state) {
  for (PlanItem& item : state.items) {
    if (!item.member() && item.standing != Standing::kApart) continue;
    if (item.verdict.kind != VerdictKind::kDead || !item.verdict.counted) continue;
    const Leaving leaving = ByVerdict(item.verdict);
    if (state.MayLeave(item, leaving)) state.Delete(item, leaving);
  }
}

void PlanRefill(PlanState& state) {
  while (state.deficit() > 0) {
    if (state.CanRefill(0)) {
      state.Refill();
      continue;
    }
    const std::optional<Hold> hold = state.CreationHold(0);
    state.AddHold(hold->code, nullptr, hold->until, hold->detail);
    if (hold->code == state.view.creation.short_of_places) {
      state.plan.creations_waiting = state.deficit();
    }
    return;
  }
}

void PlanUnhealthy(PlanState& state) {
  for (PlanItem& item : state.items) {
    if (!item.member() || item.silenced) continue;
    const bool ordered = item.verdict.kind == VerdictKind::kOrdered && WantsDrain(item);
    if (!ordered && !IsUnhealthy(item)) continue;
    const Leaving leaving = ByVerdict(item.verdict);
    if (!GateIsOpen(state, item) || !state.MayLeave(item, leaving)) continue;
    if (ordered) {
      state.Drain(item, leaving, item.view->order->drain);
    } else {
      state.Leave(item, leaving);
    }
    if (state.deficit() > 0 && !Planted(Plant::kDrainsUnreplaced)) state.Refill();
  }
}

void PlanApartExpiry(PlanState& state) {
  for (PlanItem& item : state.items) {
    if (item.standing != Standing::kApart || item.verdict.kind != VerdictKind::kDue) continue;
    const Leaving leaving = ByVerdict(item.verdict);
    if (state.MayLeave(item, leaving)) state.Leave(item, leaving);
  }
}

void PlanEndedDrains(PlanState& state) {
  for (PlanItem& item : state.items) {
    if (!HasDrain(item)) continue;
    const DrainView& drain = *item.view->drain;
    if (!drain.acked && !item.draining.dead && !state.clock.Reached(drain.deadline)) continue;
    // It was counted when it began.
    const Leaving leaving{.reason = drain.reason, .priority = kReplacePriority};
    if (state.MayLeave(item, leaving)) state.Delete(item, leaving);
  }
}

void PlanOpenDrains(PlanState& state) {
  for (PlanItem& item : state.items) {
    if (!HasDrain(item)) continue;
    if (item.draining.look) state.AddLook(item);
    state.AddHold(HoldCode::kWaitingDrain, &item, item.view->drain->deadline);
  }
}

// A deletion that the provider does not take is repeated for ever (server.md 9).
void PlanOpenDeletions(PlanState& state) {
  for (const PlanItem& item : state.items) {
    const std::optional<DeletionView>& deletion = item.view->deletion;
    if (!deletion || !deletion->started || deletion->trouble.empty()) continue;
    state.AddHold(HoldCode::kProviderUnavailable, &item, std::nullopt, deletion->trouble);
  }
}

}  // namespace nstance::fleet

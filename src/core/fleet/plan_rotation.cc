// Rotation: a member that is due, suspect, or doomed while creations fail gets its replacement
// first. One at a time per group.
#include <algorithm>
#include <tuple>

#include "base/fault_point.h"
#include "core/fleet/plan_state.h"

namespace nstance::fleet {
namespace {

constexpr int kManyMembers = 20;
constexpr int kToleratedShare = 20;  // One in twenty.

bool IsForced(const PlanItem& item) {
  return item.member() && item.verdict.kind == VerdictKind::kDue &&
         item.verdict.reason == Reason::kForcedExpiry;
}

bool IsQuietRotation(const PlanItem& item) {
  return item.verdict.kind == VerdictKind::kDue && item.verdict.priority == kQuietPriority;
}

// Every member is healthy but those of the rotation, blocked and corrupt ones; in a large group one
// in twenty may be unhealthy.
bool OthersAreHealthy(const PlanState& state, const PlanItem& rotated) {
  int unhealthy = state.created();
  for (const PlanItem& item : state.items) {
    if (!item.member() || &item == &rotated || item.replaced == &rotated) continue;
    if (!item.ready() && !item.view->blocked && !item.view->corrupt) ++unhealthy;
  }
  if (state.members() <= kManyMembers) return unhealthy == 0;
  return unhealthy * kToleratedShare <= state.members();
}

// Which wants a rotation most: smaller goes first. Nothing for a member that wants none.
using Urgency = std::tuple<int, int, Instant>;
std::optional<Urgency> UrgencyOf(const PlanState& state, const PlanItem& item) {
  if (!item.member() || item.view->corrupt) return std::nullopt;
  if (Planted(Plant::kTwoRotations) && item.replacement != nullptr) return std::nullopt;
  const Verdict& verdict = item.verdict;
  if (verdict.kind == VerdictKind::kDue) {
    const int order = verdict.reason == Reason::kConfigDrift ? 1 : 0;
    return Urgency{verdict.priority, order, item.view->created_at};
  }
  if (!item.registered()) return std::nullopt;
  if (verdict.kind == VerdictKind::kSuspect) {
    return Urgency{kReplacePriority, 0, item.view->created_at};
  }
  const bool unhealthy =
      verdict.kind == VerdictKind::kDoomed && verdict.reason == Reason::kUnhealthy;
  const bool asked = verdict.kind == VerdictKind::kOrdered && WantsDrain(item);
  if (((unhealthy && !item.silenced) || asked) && state.creation_is_failing()) {
    return Urgency{kReplacePriority, 1, item.view->created_at};
  }
  // The probe that shows whether the silence is on our side.
  if (unhealthy && item.silenced && state.silence().wants_probe) {
    return Urgency{kReplacePriority, 2, item.view->created_at};
  }
  return std::nullopt;
}

PlanItem* MostUrgent(PlanState& state) {
  PlanItem* best = nullptr;
  std::optional<Urgency> best_urgency;
  for (PlanItem& item : state.items) {
    const std::optional<Urgency> urgency = UrgencyOf(state, item);
    if (!urgency || (best_urgency && *urgency >= *best_urgency)) continue;
    best = &item;
    best_urgency = urgency;
  }
  return best;
}

// Counted instances without it are at least size (I-22).
bool GroupCanSpareOne(const PlanState& state) {
  return state.members() - 1 >= state.size() && !state.CountsOnUnsettled();
}

// The same, counting only what the provider has made: the gate of forced expiry.
bool ProvisionedCanSpareOne(const PlanState& state) {
  const auto provisioned = std::ranges::count_if(
      state.items, [](const PlanItem& item) { return item.member() && item.provisioned(); });
  return provisioned - 1 >= state.size();
}

void HoldTheOthers(PlanState& state, const PlanItem* rotated) {
  for (const PlanItem& item : state.items) {
    if (&item == rotated || item.verdict.kind != VerdictKind::kDue) continue;
    if (item.member()) state.AddHold(HoldCode::kOneRotation, &item);
  }
}

void Advance(PlanState& state, PlanItem& old) {
  if (!IsQuietRotation(old)) return;  // Decided by its own step.
  if (!old.replacement->registered()) {
    state.AddHold(HoldCode::kWaitingReplacement, &old);
    return;
  }
  const bool healthy = old.replacement->ready() && OthersAreHealthy(state, old);
  if (!healthy || !GroupCanSpareOne(state)) {
    state.AddHold(HoldCode::kWaitingHealthy, &old);
    return;
  }
  const Leaving leaving = ByVerdict(old.verdict);
  if (state.MayLeave(old, leaving)) state.Leave(old, leaving);
}

void Begin(PlanState& state, PlanItem& item) {
  const bool quiet = IsQuietRotation(item) && !Planted(Plant::kTwoRotations);
  if (quiet && !(state.IsStill() && OthersAreHealthy(state, item))) {
    state.AddHold(HoldCode::kWaitingHealthy, &item);
    return;
  }
  const std::optional<Hold> hold = state.CreationHold(0);
  const bool another = Planted(Plant::kTwoRotations) && hold && hold->code == HoldCode::kSurgeLimit;
  if (!hold || another) {
    state.CreateBeside(item, item.verdict.priority);
    return;
  }
  state.AddHold(hold->code, &item, hold->until, hold->detail);
  if (!state.NoneCanBeMade()) return;
  const Leaving leaving = ByVerdict(item.verdict);
  if (!IsForced(item)) {
    state.AddHold(HoldCode::kNoReplacement, &item);
  } else if (state.MayLeave(item, leaving)) {
    state.Leave(item, leaving);
  }
}

}  // namespace

void PlanForcedExpiry(PlanState& state) {
  if (state.view.removal) return;
  PlanItem* old = state.OpenRotation();
  if (old == nullptr) return;
  PlanItem* forced = IsForced(*old) ? old : nullptr;
  if (forced == nullptr && IsQuietRotation(*old) && !old->replacement->ready()) {
    // It takes over the replacement of a rotation that can wait.
    PlanItem* urgent = MostUrgent(state);
    if (urgent != nullptr && IsForced(*urgent)) forced = urgent;
  }
  if (forced == nullptr) return;
  if (!old->replacement->provisioned() || !ProvisionedCanSpareOne(state)) {
    state.AddHold(HoldCode::kWaitingReplacement, forced);
    return;
  }
  const Leaving leaving = ByVerdict(forced->verdict);
  if (state.MayLeave(*forced, leaving)) state.Leave(*forced, leaving);
}

void PlanRotation(PlanState& state) {
  if (state.view.removal || !state.IsScaledDownOrRotated()) return;
  if (PlanItem* old = state.OpenRotation()) Advance(state, *old);
  // Closed by now if the old one leaves: the next may begin.
  if (const PlanItem* old = state.OpenRotation();
      old != nullptr && !Planted(Plant::kTwoRotations)) {
    HoldTheOthers(state, old);
    return;
  }
  PlanItem* item = MostUrgent(state);
  if (item == nullptr) return;
  if (state.deficit() != 0) {
    HoldTheOthers(state, nullptr);
    return;
  }
  HoldTheOthers(state, item);
  Begin(state, *item);
}

}  // namespace nstance::fleet

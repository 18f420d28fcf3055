// Scale-down: who leaves when slots are above size.
#include <algorithm>
#include <tuple>
#include <vector>

#include "core/fleet/plan_state.h"

namespace nstance::fleet {
namespace {

// Smaller goes first.
int ClassOf(const PlanItem& item) {
  if (!item.registered()) return 0;
  switch (item.health.state) {
    case HealthState::kStale:
    case HealthState::kDisconnected:
    case HealthState::kLate:
    case HealthState::kTerminating: return 1;
    case HealthState::kUnknown: return 2;
    case HealthState::kHealthy: return 3;
  }
  return 3;
}

struct Rank {
  bool blocked = false;  // Only when named, or when nothing else is left.
  bool unnamed = false;
  int health = 0;
  bool current = false;  // Not drifted.
  Instant created_at = {};
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

Rank RankOf(const PlanItem& item, const GroupView& view) {
  const std::vector<InstanceId>& remove = view.spec.remove;
  const bool named = std::ranges::find(remove, item.view->id) != remove.end();
  return {.blocked = item.view->blocked && !named,
          .unnamed = !named,
          .health = ClassOf(item),
          .current = !IsDrifted(*item.view, view),
          .created_at = item.view->created_at};
}

class Victims {
 public:
  explicit Victims(PlanState& state) : state_(state) {}

  void Choose(int surplus, Doomed assumed) {
    struct Candidate {
      Rank rank;
      PlanItem* item = nullptr;
    };
    std::vector<Candidate> candidates;
    for (PlanItem& item : state_.items) {
      if (!item.member() || item.view->corrupt) continue;
      if (assumed == Doomed::kLeaving && IsDoomed(item)) continue;
      if (item.verdict.kind == VerdictKind::kOrdered) continue;
      candidates.push_back({.rank = RankOf(item, state_.view), .item = &item});
    }
    std::ranges::stable_sort(candidates, {}, &Candidate::rank);
    for (const Candidate& candidate : candidates) {
      if (surplus <= 0) return;
      const int before = state_.slots();
      // One that the brake holds is a victim all the same: nobody goes in its place.
      surplus -= Remove(*candidate.item) ? before - state_.slots() : 1;
    }
  }

  // A replacement that is not ready goes first, and does not fill the quota: its slot stays filled.
  void DropReplacement() {
    PlanItem* old = state_.OpenRotation();
    if (old == nullptr || old->replacement->ready() || old->replacement->view->corrupt) return;
    Remove(*old->replacement);
  }

 private:
  bool Remove(PlanItem& item) {
    const bool removal = state_.view.removal.has_value();
    const Leaving leaving{
        .reason = removal ? Reason::kGroupDeleted : Reason::kScaleDown,
        .priority = kScaleDownPriority,
        .ordered = removal ? state_.view.removal->ordered : state_.view.spec.size_ordered,
        .counted = item.registered()};
    if (!state_.MayLeave(item, leaving)) return false;
    state_.Leave(item, leaving);
    return true;
  }

  PlanState& state_;
};

// Slots above size, when what leaves by itself has left.
int Surplus(const PlanState& state, Doomed assumed) {
  int surplus = -state.deficit();
  for (const PlanItem& item : state.items) {
    const bool doomed = assumed == Doomed::kLeaving && IsDoomed(item);
    // An accepted deletion leaves by itself once the brake lets it.
    const bool ordered = item.member() && item.verdict.kind == VerdictKind::kOrdered;
    // One of a pair leaves its slot filled.
    const bool paired = item.replacement != nullptr || item.replaced != nullptr;
    if ((doomed || ordered) && !paired) --surplus;
  }
  return surplus;
}

}  // namespace

void PlanVictims(PlanState& state, Doomed assumed) {
  if (Surplus(state, assumed) <= 0) return;
  if (!state.IsScaledDownOrRotated()) {
    state.AddHold(state.view.spec.pool ? HoldCode::kPoolUnavailable : HoldCode::kConfigInvalid,
                  nullptr, std::nullopt, state.view.restraint_detail);
    return;
  }
  Victims victims(state);
  victims.DropReplacement();
  victims.Choose(Surplus(state, assumed), assumed);
}

}  // namespace nstance::fleet

#include "core/fleet/plan_state.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"

namespace nstance::fleet {
namespace {

using Standing = PlanItem::Standing;

constexpr std::size_t kSmallGroup = 3;
// Failures in a row after which a replacement counts as impossible.
constexpr int kTriesBeforeNone = 3;

Standing StandingOf(const InstanceView& instance) {
  if (instance.phase == InstancePhase::kDeleting) return Standing::kOut;
  if (instance.deletion && instance.deletion->started) return Standing::kOut;
  if (instance.phase == InstancePhase::kDraining || instance.drain) return Standing::kDraining;
  return instance.care == Care::kManaged ? Standing::kMember : Standing::kApart;
}

// One "not found" does not explain a silence: whatever keeps agents from us may keep the provider's
// answers from us, too.
bool IsSilent(const PlanItem& item, const FleetTimes& times) {
  return item.health.silent_since && !item.view->looks.dead_since &&
         JudgeAbsence(item.view->looks, times) != Absence::kAbsent;
}

bool MayBeRevoked(const InstanceView& instance, const GroupView& view) {
  return instance.drain && IsRevocable(instance.drain->reason) && !instance.drain->acked &&
         !instance.drain->told_for_good && instance.drain->epoch == view.leadership.epoch &&
         instance.care == Care::kManaged && !instance.deletion && !instance.order &&
         !instance.blocked && !instance.corrupt &&
         std::ranges::find(view.spec.remove, instance.id) == view.spec.remove.end();
}

}  // namespace

PlanState::PlanState(const GroupView& group_view, Instant now)
    : view(group_view),
      clock(now),
      brake_(group_view.brake),
      backoff_(group_view.creation.backoff),
      places_(group_view.creation.places) {
  items.reserve(view.instances.size());
  for (const InstanceView& instance : view.instances) {
    items.push_back({.view = &instance, .standing = StandingOf(instance)});
  }
  std::ranges::sort(items, {},
                    [](const PlanItem& item) -> const InstanceId& { return item.view->id; });
  JudgeAll();
  ApplySilence();
  LinkPairs();
}

void PlanState::JudgeAll() {
  for (PlanItem& item : items) {
    const InstanceView& instance = *item.view;
    if (item.member() || item.standing == Standing::kApart) {
      Judged judged = JudgeInstance(instance, view, clock);
      item.health = judged.health;
      item.verdict = std::move(judged.verdict);
      if (item.member()) ++members_;
    } else if (item.standing == Standing::kDraining) {
      item.draining = JudgeDraining(instance, view, clock);
      item.health = item.draining.health;
      // What it will be judged as should its drain be revoked.
      if (MayBeRevoked(instance, view)) {
        InstanceView back = instance;
        back.phase = InstancePhase::kRegistered;
        back.drain.reset();
        item.verdict = JudgeInstance(back, view, clock).verdict;
      }
      continue;
    } else {
      continue;
    }
    if (item.verdict.look) AddLook(item);
    if (item.verdict.hold) {
      clock.Wake(item.verdict.hold->until);
      plan.holds.push_back(*item.verdict.hold);
    }
    if (item.member() && item.ready() && ProvesRegistration(instance)) {
      plan.registration_proven = true;
    }
  }
  if (plan.registration_proven) backoff_.OnRegistrationProven();
}

bool PlanState::ProvesRegistration(const InstanceView& instance) {
  const std::optional<Instant> failed_at = backoff_.registration_failed_at();
  return failed_at && instance.health.registered_at >= failed_at && instance.health.healthy_since &&
         clock.Reached(*instance.health.healthy_since + view.times.proven_after);
}

void PlanState::ApplySilence() {
  SilenceFacts facts;
  facts.last_report = view.tenant_health.last_report;
  for (const PlanItem& item : items) {
    const InstanceView& instance = *item.view;
    if (!item.member() || !item.registered() || instance.blocked || instance.corrupt) continue;
    ++facts.registered;
    if (IsSilent(item, view.times)) {
      facts.silent_since.push_back(*item.health.silent_since);
    } else if (instance.health.reported_at) {
      facts.last_report = std::max(facts.last_report, instance.health.reported_at);
    }
  }
  const bool small = facts.registered < static_cast<int>(kSmallGroup);
  silence_ =
      small ? view.tenant_health.silence : JudgeSilence(std::move(facts), view.times, clock.now());
  clock.Wake(silence_.next_change);
  if (!silence_.held || Planted(Plant::kNoMassSilence)) return;
  for (PlanItem& item : items) {
    const bool unhealthy =
        item.verdict.kind == VerdictKind::kDoomed && item.verdict.reason == Reason::kUnhealthy;
    if (!item.member() || !unhealthy) continue;
    item.silenced = true;
    AddHold(HoldCode::kMassSilence, &item, silence_.next_change);
  }
}

// `replaces` names a member with a verdict. Of several that name the same one the readiest counts.
void PlanState::LinkPairs() {
  const auto rank = [](const PlanItem& item) {
    return std::tuple(item.ready() ? 0 : 1, item.registered() ? 0 : 1, item.provisioned() ? 0 : 1);
  };
  for (PlanItem& item : items) {
    if (!item.member() || !item.view->replaces) continue;
    const auto old = std::ranges::lower_bound(
        items, *item.view->replaces, {},
        [](const PlanItem& one) -> const InstanceId& { return one.view->id; });
    if (old == items.end() || old->view->id != *item.view->replaces) continue;
    if (!old->member() || old->verdict.kind == VerdictKind::kFine || &*old == &item) continue;
    if (old->replacement != nullptr) {
      if (rank(item) >= rank(*old->replacement)) continue;
      Unpair(*old);
    }
    // Nobody is in two pairs.
    if (old->replaced != nullptr || item.replacement != nullptr) continue;
    old->replacement = &item;
    item.replaced = &*old;
    ++pairs_;
  }
}

int PlanState::draining() const {
  return static_cast<int>(std::ranges::count(items, Standing::kDraining, &PlanItem::standing));
}

PlanItem* PlanState::OpenRotation() {
  for (PlanItem& item : items) {
    if (item.replacement != nullptr) return &item;
  }
  return nullptr;
}

bool PlanState::IsStill() const {
  return created_ == 0 && drained_ == 0 && std::ranges::none_of(items, [](const PlanItem& item) {
           return item.standing == Standing::kDraining && item.view->care == Care::kManaged;
         });
}

void PlanState::Unpair(PlanItem& item) {
  PlanItem* old = item.replacement != nullptr ? &item : item.replaced;
  if (old == nullptr) return;
  old->replacement->replaced = nullptr;
  old->replacement = nullptr;
  --pairs_;
}

// ---- leaving -----------------------------------------------------------------------------------

BudgetOf& PlanState::BudgetFor(const Leaving& leaving) {
  if (leaving.ordered || (IsOpportunistic(leaving.reason) && Planted(Plant::kExpiryUnlimited))) {
    return brake_.ordered;
  }
  return IsOpportunistic(leaving.reason) ? brake_.opportunistic : brake_.unordered;
}

bool PlanState::MayLeave(const PlanItem& item, const Leaving& leaving) {
  const bool spot = leaving.reason == Reason::kSpotTerminating;
  if (!view.leadership.provider_listed && !(spot && view.spec.drain_timeout > Duration())) {
    AddHold(HoldCode::kProviderUnavailable, &item);
    return false;
  }
  if (!leaving.counted) return true;
  const BudgetOf& budget = BudgetFor(leaving);
  if (budget.free > 0) return true;
  AddHold(HoldCode::kBrake, &item, budget.frees_at);
  return false;
}

void PlanState::Leave(PlanItem& item, const Leaving& leaving) {
  Duration length = view.spec.drain_timeout;
  if (item.verdict.lifeless || !item.registered()) length = Duration();
  if (leaving.reason == Reason::kSpotTerminating && item.view->health.notice->deadline) {
    const Instant deadline = *item.view->health.notice->deadline;
    length = clock.Reached(deadline) ? Duration() : std::min(length, deadline - clock.now());
  }
  if (length > Duration()) {
    Drain(item, leaving, length);
  } else {
    Delete(item, leaving);
  }
}

void PlanState::Drain(PlanItem& item, const Leaving& leaving, Duration length) {
  plan.actions.push_back({.kind = ActionKind::kDrain,
                          .reason = leaving.reason,
                          .priority = leaving.priority,
                          .instance = item.view->id,
                          .length = length,
                          .ordered = leaving.ordered,
                          .counted = leaving.counted});
  if (item.view->care == Care::kManaged) ++drained_;
  // What would be looked at while it drains is looked at now.
  if (JudgeDraining(*item.view, view, clock).look) AddLook(item);
  GoOut(item, leaving);
}

void PlanState::Delete(PlanItem& item, const Leaving& leaving) {
  plan.actions.push_back({.kind = ActionKind::kDelete,
                          .reason = leaving.reason,
                          .priority = leaving.priority,
                          .instance = item.view->id,
                          .ordered = leaving.ordered,
                          .counted = leaving.counted,
                          .failure = leaving.failure});
  if (leaving.failure) creation_failed_ = true;
  GoOut(item, leaving);
}

void PlanState::GoOut(PlanItem& item, const Leaving& leaving) {
  if (leaving.counted) {
    BudgetOf& budget = BudgetFor(leaving);
    CHECK(budget.free > 0, "{}", item.view->id.text());
    --budget.free;
    if (&budget == &brake_.opportunistic) {
      --brake_.unordered.free;
    } else if (&budget == &brake_.unordered) {
      brake_.opportunistic.free = std::min(brake_.opportunistic.free, brake_.unordered.free);
    }
  }
  if (item.member()) {
    // With a replacement in place, or as a victim, nobody is missed.
    const bool victim =
        leaving.reason == Reason::kScaleDown || leaving.reason == Reason::kGroupDeleted;
    const bool paired = item.replacement != nullptr || item.replaced != nullptr;
    if (!paired && !victim) unreplaced_.push_back(&item);
    Unpair(item);
    --members_;
  }
  item.standing = Standing::kOut;
}

// ---- coming ------------------------------------------------------------------------------------

bool PlanState::NoneCanBeMade() const {
  return view.spec.pool || view.creation.block || !ChooseSubnet(subnets()) ||
         backoff_.failures() >= kTriesBeforeNone;
}

std::optional<Hold> PlanState::CreationHold(int freed) {
  const auto hold = [](HoldCode code, std::optional<Instant> until = {}, std::string detail = {}) {
    return Hold{.code = code, .detail = std::move(detail), .until = until};
  };
  if (view.spec.pool) return hold(HoldCode::kPoolUnavailable);
  if (const auto& block = view.creation.block) {
    return hold(block->code, block->until, block->detail);
  }
  if (creation_failed_) return hold(HoldCode::kCreateBackoff);
  if (backoff_.active()) {
    if (!clock.Reached(*backoff_.until())) {
      return hold(HoldCode::kCreateBackoff, backoff_.until(), backoff_.Describe());
    }
    const bool trying = std::ranges::any_of(items, [&](const PlanItem& item) {
      const bool open = backoff_.registration_failing() ? !item.registered() : !item.provisioned();
      return item.member() && open && !item.view->corrupt;
    });
    if (trying || created_ > 0) {
      return hold(HoldCode::kCreateBackoff, {}, "one at a time after " + backoff_.Describe());
    }
  }
  if (!ChooseSubnet(subnets())) return hold(HoldCode::kSubnetFull);
  if (members_ - freed + 1 > size() + view.spec.surge && !Planted(Plant::kNoSurgeLimit)) {
    return hold(HoldCode::kSurgeLimit);
  }
  if (places_ <= 0) return hold(view.creation.short_of_places, view.creation.places_at);
  return std::nullopt;
}

PlanItem* PlanState::Revocable() {
  PlanItem* best = nullptr;
  const auto rank = [&](const PlanItem& item) {
    return std::tuple(IsDrifted(*item.view, view), Instant::Never() - item.view->drain->deadline);
  };
  for (PlanItem& item : items) {
    if (item.standing != Standing::kDraining || !MayBeRevoked(*item.view, view)) continue;
    if (item.draining.dead || item.draining.suspect || item.view->looks.dead_since) continue;
    if (item.health.state != HealthState::kHealthy) continue;
    if (clock.Reached(item.view->drain->deadline)) continue;
    if (best == nullptr || rank(item) < rank(*best)) best = &item;
  }
  return best;
}

bool PlanState::CanRefill(int freed) {
  const bool room = members_ - freed + 1 <= size() + view.spec.surge;
  return (room && Revocable() != nullptr) || !CreationHold(freed);
}

bool PlanState::CountsOnUnsettled() const {
  if (Planted(Plant::kCountsOnUnsettled)) return false;
  return std::ranges::any_of(items, [](const PlanItem& item) {
    return item.member() && item.view->drain && item.view->drain->unsettled;
  });
}

bool PlanState::RefillIsUnsettled() {
  const PlanItem* back = Revocable();
  return back != nullptr && back->view->drain->unsettled && !Planted(Plant::kCountsOnUnsettled);
}

void PlanState::Refill() {
  const PlanItem* of = nullptr;
  if (!unreplaced_.empty()) {
    of = unreplaced_.back();
    unreplaced_.pop_back();
  }
  const int priority = of != nullptr ? kReplacePriority : kScaleUpPriority;
  if (PlanItem* back = Revocable()) {
    plan.actions.push_back({.kind = ActionKind::kRevokeDrain,
                            .reason = back->view->drain->reason,
                            .priority = priority,
                            .instance = back->view->id});
    back->standing = Standing::kMember;
    ++members_;
    return;
  }
  Create(of, of != nullptr ? Reason::kReplace : Reason::kScaleUp, priority);
}

void PlanState::CreateBeside(const PlanItem& of, int priority) {
  Create(&of, Reason::kReplace, priority);
  ++pairs_;
}

void PlanState::Create(const PlanItem* of, Reason reason, int priority) {
  if (subnets_.empty()) subnets_ = view.subnets;
  const std::optional<std::size_t> subnet = ChooseSubnet(subnets_);
  CHECK(subnet.has_value());
  Action action{.kind = ActionKind::kCreate, .reason = reason, .priority = priority};
  if (of != nullptr) action.replaces = of->view->id;
  action.subnet = subnets_[*subnet].id;
  ++subnets_[*subnet].live;
  if (subnets_[*subnet].room) --*subnets_[*subnet].room;
  plan.actions.push_back(std::move(action));
  --places_;
  ++created_;
  ++members_;
}

// ---- the result --------------------------------------------------------------------------------

void PlanState::AddHold(HoldCode code, const PlanItem* item, std::optional<Instant> until,
                        std::string detail) {
  clock.Wake(until);
  Hold hold{.code = code, .detail = std::move(detail), .until = until};
  if (item != nullptr) hold.instance = item->view->id;
  plan.holds.push_back(std::move(hold));
}

void PlanState::AddLook(PlanItem& item) {
  if (item.looked) return;
  item.looked = true;
  plan.actions.push_back({.kind = ActionKind::kLook,
                          .reason = item.verdict.reason,
                          .priority = kReplacePriority,
                          .instance = item.view->id});
}

Plan PlanState::Finish() {
  for (const PlanItem& item : items) {
    if (item.standing == Standing::kDraining && item.view->care == Care::kManaged) {
      ++plan.counts.draining;
    }
    if (!item.member()) continue;
    if (item.ready()) ++plan.counts.ready;
    if (!item.registered()) ++plan.counts.creating;
  }
  plan.counts.draining += drained_;
  plan.counts.creating += created_;
  plan.counts.members = members_;
  plan.counts.slots = slots();
  std::ranges::stable_sort(plan.actions, [](const Action& a, const Action& b) {
    return std::tie(a.priority, a.kind, a.instance) < std::tie(b.priority, b.kind, b.instance);
  });
  std::ranges::stable_sort(plan.holds, [](const Hold& a, const Hold& b) {
    return std::tie(a.instance, a.code) < std::tie(b.instance, b.code);
  });
  const auto same = [](const Hold& a, const Hold& b) {
    return a.instance == b.instance && a.code == b.code;
  };
  const auto rest = std::ranges::unique(plan.holds, same);
  plan.holds.erase(rest.begin(), rest.end());
  plan.replan_at = clock.next();
  return std::move(plan);
}

}  // namespace nstance::fleet

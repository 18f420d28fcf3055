#include "test/core/fleet/views.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/prng.h"

namespace nstance::fleet {
namespace {

std::uint32_t NumberOf(const InstanceId& id) {
  std::uint32_t n = 0;
  for (std::size_t i = 12; i < 16; ++i) n = (n << 8U) | id.uuid().at(i);
  return n;
}

InstanceView& Find(GroupView& view, const InstanceId& id) {
  const auto found = std::ranges::find(view.instances, id, &InstanceView::id);
  CHECK(found != view.instances.end());
  return *found;
}

void TakeFromBrake(const Action& action, BrakeBudget& brake) {
  if (!action.counted || action.kind == ActionKind::kOpenDelete) return;
  if (action.ordered) {
    --brake.ordered.free;
    return;
  }
  --brake.unordered.free;
  if (IsOpportunistic(action.reason)) --brake.opportunistic.free;
  brake.opportunistic.free = std::min(brake.opportunistic.free, brake.unordered.free);
}

void ApplyCreate(const Action& action, Instant now, std::uint32_t& next_id, GroupView& view) {
  InstanceView instance{.id = Id(next_id++), .phase = InstancePhase::kIntended, .created_at = now};
  instance.infra_hash = view.spec.infra_hash;
  instance.replaces = action.replaces;
  view.instances.push_back(std::move(instance));
  --view.creation.places;
  for (SubnetView& subnet : view.subnets) {
    if (subnet.id == action.subnet) ++subnet.live;
  }
}

}  // namespace

std::vector<std::string> Short(const Plan& plan) {
  std::vector<std::string> texts;
  for (const Action& action : plan.actions) {
    switch (action.kind) {
      case ActionKind::kLook: break;
      case ActionKind::kCreate:
        texts.push_back(action.replaces ? fmt::format("create for {}", NumberOf(*action.replaces))
                                        : "create");
        break;
      default:
        texts.push_back(fmt::format("{} {} {}", Word(action.kind), NumberOf(*action.instance),
                                    Word(action.reason)));
    }
  }
  return texts;
}

std::vector<std::string> ShortHolds(const Plan& plan) {
  std::vector<std::string> texts;
  for (const Hold& hold : plan.holds) {
    texts.push_back(hold.instance ? fmt::format("{} {}", Word(hold.code), NumberOf(*hold.instance))
                                  : std::string(Word(hold.code)));
  }
  return texts;
}

void ApplyPlan(const Plan& plan, Instant now, std::uint32_t& next_id, GroupView& view) {
  Prng prng(1);
  if (plan.registration_proven) view.creation.backoff.OnRegistrationProven();
  for (const Action& action : plan.actions) {
    TakeFromBrake(action, view.brake);
    if (action.kind == ActionKind::kCreate) {
      ApplyCreate(action, now, next_id, view);
      continue;
    }
    InstanceView& instance = Find(view, *action.instance);
    switch (action.kind) {
      case ActionKind::kCreate: break;
      case ActionKind::kDrain:
        instance.phase = InstancePhase::kDraining;
        instance.order.reset();
        instance.drain = DrainView{.reason = action.reason,
                                   .deadline = now + action.length,
                                   .epoch = view.leadership.epoch};
        break;
      case ActionKind::kRevokeDrain:
        instance.phase = InstancePhase::kRegistered;
        instance.drain.reset();
        break;
      case ActionKind::kDelete:
      case ActionKind::kOpenDelete:
        instance.order.reset();
        instance.deletion = DeletionView{.reason = action.reason,
                                         .opened_at = now,
                                         .ordered = action.ordered,
                                         .counted = action.counted,
                                         .started = action.kind == ActionKind::kDelete};
        break;
      case ActionKind::kLook: instance.looks.OnBegun(now); break;
    }
    if (action.failure) {
      view.creation.backoff.OnFailure(*action.failure, "no agent came", now, prng);
    }
  }
}

}  // namespace nstance::fleet

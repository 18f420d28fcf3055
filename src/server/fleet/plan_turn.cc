#include <algorithm>
#include <utility>

#include "base/fault_point.h"
#include "core/fleet/planner.h"
#include "server/fleet/engine.h"
#include "server/fleet/step_budget.h"

namespace nstance {

void Fleet::Engine::SetGroups(GroupsRef groups) {
  const GroupsRef before = std::exchange(groups_, std::move(groups));
  const config::Config& config = groups_->config->config;
  const config::Server& server = config.server;
  times_ = options_.times;
  times_.interval = server.health_check_interval;
  times_.registration_timeout = server.garbage_collection.registration_timeout;
  times_ = fleet::ForProvider(times_, deps_.provider.capabilities().consistency_window);
  times_.t_intent = std::max(times_.t_intent, deps_.provider.capabilities().max_create_time * 2);
  request_timeout_ = server.request_timeout;
  gc_interval_ = server.garbage_collection.interval;
  orphan_grace_ = server.garbage_collection.orphan_grace;
  retention_ = server.garbage_collection.deleted_record_retention;
  pace_ = {.rate_limit = server.create_rate_limit, .concurrency = server.create_concurrency};
  brake_limits_ = server.deletion_brake;
  for (auto& [tenant, brake] : brakes_) brake.SetLimits(brake_limits_);
  images_.clear();
  for (const auto& [name, image] : config.images) {
    if (!image.fallback.empty()) images_[name] = image.fallback;
    if (!image.path.empty()) images_[name] = image.path;
  }
  shared_data_.emplace(options_.server, images_);
  if (read_) BuildTable();
  if (before != nullptr && before->config != groups_->config) AtStep(Step::kK7);
  AtStep(Step::kG6);
  TakeGroups(before);
  rows_.WriteGroups(groups_, deps_.loop.WallNow());
  Schedule();
  if (before == nullptr) ScheduleSweep(provider_listed_ ? gc_interval_ : Duration::Seconds(1));
}

// Every group is told of its change, and planned.
void Fleet::Engine::TakeGroups(const GroupsRef& before) {
  const auto take = [&](const GroupName& name, const MergedGroup* old, const MergedGroup* group) {
    group_states_[name].memory.OnChange(old, group);
    if (before != nullptr && old != group) NoteGroup(name, old, group);
  };
  if (before == nullptr) {
    NoteLeadership();
  } else {
    for (const auto& [tenant, of_tenant] : before->groups) {
      for (const auto& [key, old] : of_tenant) {
        if (groups_->Find(tenant, key) == nullptr) take({tenant, key}, old.get(), nullptr);
      }
    }
  }
  for (const auto& [tenant, of_tenant] : groups_->groups) {
    for (const auto& [key, group] : of_tenant) {
      take({tenant, key}, before == nullptr ? nullptr : before->Find(tenant, key), group.get());
      dirty_.insert({tenant, key});
    }
  }
  for (const auto& [name, ids] : by_group_) {
    if (!ids.empty()) dirty_.insert(name);
  }
}

void Fleet::Engine::PauseExpiry(Instant until) {
  expiry_paused_until_ = until;
  for (const auto& [group, state] : group_states_) dirty_.insert(group);
  Schedule();
}

void Fleet::Engine::MarkDirty(const Entry& entry) {
  census_.Set(entry.instance);
  MarkDirty(GroupName{entry.instance.tenant, entry.instance.group});
}

void Fleet::Engine::MarkDirty(const GroupName& group) {
  dirty_.insert(group);
  Schedule();
}

void Fleet::Engine::Schedule() {
  if (plan_scheduled_ || groups_ == nullptr) return;
  plan_scheduled_ = true;
  plan_turn_ = deps_.loop.CallAfter({}, [this] { PlanSome(); });
}

void Fleet::Engine::PlanSome() {
  plan_scheduled_ = false;
  StepBudget budget(options_.steps_per_turn);
  while (!dirty_.empty()) {
    if (!budget.Take(StepsOf(*dirty_.begin()))) break;
    const auto node = dirty_.extract(dirty_.begin());
    PlanOne(node.value());
  }
  if (!dirty_.empty()) Schedule();
  ArmReplan();
}

std::size_t Fleet::Engine::StepsOf(const GroupName& group) const {
  const auto members = by_group_.find(group);
  return 1 + (members == by_group_.end() ? 0 : members->second.size());
}

void Fleet::Engine::PlanOne(const GroupName& group) {
  planned_.Add(StepsOf(group));
  GroupState& state = group_states_[group];
  (void)BrakeOf(group.first);  // It is shown from the first plan on.
  const Instant now = deps_.loop.Now();
  const Instant begun = Stopwatch();
  const fleet::GroupView& view = ScratchView(group);
  AskAboutSubnets(view);
  const std::vector<fleet::Hold> before = std::exchange(state.plan.holds, {});
  state.plan = fleet::PlanGroup(view, now);
  state.planned = true;
  state.replan_at = state.plan.replan_at;
  if (state.plan.registration_proven) state.memory.backoff.OnRegistrationProven();
  const fleet::Plan plan = state.plan;
  NoteHolds(group, before, plan.holds);
  Apply(group, plan);
  RefuseHeldOrders(group, plan);
  AskForRoom(view, plan);
  TellGroup(group);
  probe_.Planned(Stopwatch() - begun);
  const bool gone = groups_->Find(group.first, group.second) == nullptr &&
                    std::ranges::none_of(by_group_[group], [&](const InstanceId& id) {
                      return entries_.at(id)->instance.live();
                    });
  if (gone) group_states_.erase(group);
}

// Where something is made, the room shrinks; where nothing can be, it may come back.
void Fleet::Engine::AskForRoom(const fleet::GroupView& view, const fleet::Plan& plan) {
  const bool creates = std::ranges::any_of(plan.actions, [](const fleet::Action& action) {
    return action.kind == fleet::ActionKind::kCreate;
  });
  const bool held = std::ranges::any_of(plan.holds, [](const fleet::Hold& hold) {
    return hold.code == fleet::HoldCode::kSubnetFull;
  });
  for (const fleet::SubnetView& subnet : view.subnets) {
    if (creates) subnets_.Want(subnet.id);
    if (held) subnets_.Await(subnet.id);
  }
}

// The earliest moment at which time alone may change a plan.
void Fleet::Engine::ArmReplan() {
  std::optional<Instant> next;
  for (const auto& [group, state] : group_states_) {
    if (state.replan_at && (!next || *state.replan_at < *next)) next = state.replan_at;
  }
  if (next == replan_armed_) return;
  replan_armed_ = next;
  if (!next) {
    replan_.Cancel();
    return;
  }
  replan_ = deps_.loop.CallAt(*next, [this] {
    replan_armed_.reset();
    const Instant now = deps_.loop.Now();
    for (auto& [group, state] : group_states_) {
      if (!state.replan_at || *state.replan_at > now) continue;
      state.replan_at.reset();
      dirty_.insert(group);
    }
    Schedule();
  });
}

void Fleet::Engine::TellGroup(const GroupName& group) {
  FillFigures(group, figures_, spare_texts_);
  GroupState& state = group_states_[group];
  if (figures_ == state.told) return;
  state.told = figures_;
  owner_.group_changed(group.first, group.second);
}

// --- Whose creation is next ----------------------------------------------------------------------

void Fleet::Engine::PickCreationsSoon() {
  pick_turn_ = deps_.loop.CallAfter({}, [this] { PickCreations(); });
}

void Fleet::Engine::PickCreations() {
  std::vector<fleet::WaitingCreation> waiting;
  std::map<GroupName, int> in_flight;
  for (const auto& [id, entry] : entries_) {
    if (entry->creation == nullptr) continue;
    const GroupName group = {entry->instance.tenant, entry->instance.group};
    if (entry->creation->machine().calling()) ++in_flight[group];
    if (!entry->creation->machine().waits_for_turn()) continue;
    waiting.push_back({.id = id,
                       .group = group,
                       .priority = entry->creation->priority(),
                       .since = entry->creation->waiting_since(),
                       .not_before = entry->creation->not_before()});
  }
  const fleet::CreationPicks picks = turns_.Pick(waiting, in_flight, pace_, deps_.loop.Now());
  if (picks.next_at) {
    pick_timer_ = deps_.loop.CallAt(*picks.next_at, [this] { PickCreations(); });
  }
  for (const InstanceId& id : picks.start) {
    Entry* entry = Find(id);
    if (entry != nullptr && entry->creation != nullptr) entry->creation->TurnCame();
  }
}

}  // namespace nstance

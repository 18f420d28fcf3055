#include <algorithm>
#include <utility>

#include "core/fleet/planner.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

// Groups and instances that one turn of the loop may look at (LB16): the rest waits for the next.
constexpr std::size_t kStepsPerTurn = 10'000;

}  // namespace

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
  if (before != nullptr) {
    for (const auto& [tenant, of_tenant] : before->groups) {
      for (const auto& [key, group] : of_tenant) {
        // Only DeleteGroup takes a group out of the dynamic layer.
        if (groups_->Find(tenant, key) == nullptr) {
          group_states_[{tenant, key}].removal_ordered = !group->group.is_static;
        }
      }
    }
  }
  for (const auto& [tenant, of_tenant] : groups_->groups) {
    for (const auto& [key, group] : of_tenant) {
      GroupState& state = group_states_[{tenant, key}];
      state.removal_ordered = false;
      const MergedGroup* old = before == nullptr ? nullptr : before->Find(tenant, key);
      if (old != group.get()) state.backoff.OnChange();
      dirty_.insert({tenant, key});
    }
  }
  for (const auto& [name, ids] : by_group_) {
    if (!ids.empty()) dirty_.insert(name);
  }
  rows_.WriteGroups(groups_, deps_.loop.WallNow());
  Schedule();
  if (before == nullptr) ScheduleSweep(provider_listed_ ? gc_interval_ : Duration::Seconds(1));
}

void Fleet::Engine::MarkDirty(const Entry& entry) {
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
  std::size_t steps = 0;
  while (!dirty_.empty() && steps < kStepsPerTurn) {
    const GroupName group = *dirty_.begin();
    dirty_.erase(dirty_.begin());
    const auto members = by_group_.find(group);
    steps += 1 + (members == by_group_.end() ? 0 : members->second.size());
    PlanOne(group);
  }
  if (!dirty_.empty()) Schedule();
  ArmReplan();
}

void Fleet::Engine::PlanOne(const GroupName& group) {
  GroupState& state = group_states_[group];
  const Instant now = deps_.loop.Now();
  const Instant begun = Stopwatch();
  const fleet::GroupView view = ViewOf(group);
  state.plan = fleet::PlanGroup(view, now);
  state.planned = true;
  state.replan_at = state.plan.replan_at;
  if (state.plan.registration_proven) state.backoff.OnRegistrationProven();
  const fleet::Plan plan = state.plan;
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
  if (!next) {
    replan_.Cancel();
    return;
  }
  replan_ = deps_.loop.CallAt(*next, [this] {
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
  GroupFigures figures = Figures(group);
  GroupState& state = group_states_[group];
  if (figures == state.told) return;
  state.told = std::move(figures);
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

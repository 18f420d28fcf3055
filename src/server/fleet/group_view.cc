#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/fault_point.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

fleet::Reason ReasonOf(const std::string& word) {
  return fleet::ParseReason(word).value_or(fleet::Reason::kRequested);
}

}  // namespace

// --- One instance --------------------------------------------------------------------------------

bool Fleet::Engine::IsBeingAcked(const Instance& instance) const {
  const Entry* entry = Find(instance.id);
  return entry != nullptr && !entry->ackers.empty();
}

void Fleet::Engine::FillView(const Instance& instance, fleet::InstanceView& view) const {
  view.id = instance.id;
  const bool apart = instance.on_demand && !Planted(Plant::kOnDemandCounted);
  view.care = apart ? fleet::Care::kOnDemand : fleet::Care::kManaged;
  view.phase = instance.revoking ? InstancePhase::kRegistered : instance.phase();
  view.created_at = instance.created_at;
  view.vm_since = instance.vm_since;
  view.corrupt = instance.corrupt;
  view.looks = instance.looks;
  view.health = instance.health;
  view.order = instance.order;
  view.blocked = false;
  if (const InstanceRecord* record = instance.record()) {
    view.infra_hash = record->infra_config_hash;
    view.replaces = record->replaces;
    view.blocked = record->blocked.has_value();
    if (record->claim) view.care = fleet::Care::kClaimed;
  } else {
    view.infra_hash.clear();
    view.replaces.reset();
    if (instance.create) view.replaces = instance.create->intent.replaces;
  }
  view.drain.reset();
  if (instance.drain) {
    const Intent& intent = instance.drain->intent;
    view.drain = fleet::DrainView{.reason = ReasonOf(intent.reason),
                                  .deadline = instance.drain_deadline,
                                  .epoch = intent.epoch,
                                  .acked = intent.acked_at.has_value(),
                                  .told_for_good = instance.told_for_good,
                                  .unsettled = !instance.drain->durable || IsBeingAcked(instance)};
  }
  view.deletion.reset();
  if (instance.deletion) {
    const Intent& intent = instance.deletion->intent;
    view.deletion = fleet::DeletionView{.reason = ReasonOf(intent.reason),
                                        .opened_at = instance.deletion_opened_at,
                                        .ordered = intent.ordered,
                                        .counted = intent.counted,
                                        .started = instance.deletion_started};
    const Entry* entry = Find(instance.id);
    if (entry != nullptr && entry->deletion != nullptr) {
      view.deletion->trouble = entry->deletion->machine().trouble();
    }
  }
}

// --- The group -----------------------------------------------------------------------------------

// What SetGroups() makes of a group's memory, and what a preview makes of its copy.
void Fleet::Engine::GroupMemory::OnChange(const MergedGroup* before, const MergedGroup* after) {
  if (after != nullptr) {
    removal_ordered = false;
    if (before != after) backoff.OnChange();
  } else if (before != nullptr) {
    // Only DeleteGroup takes a group out of the dynamic layer.
    removal_ordered = !before->group.is_static;
  }
}

Fleet::Engine::GroupMemory Fleet::Engine::MemoryUnder(const GroupName& group,
                                                      const GroupsSnapshot& groups) const {
  GroupMemory memory;
  const auto at = group_states_.find(group);
  if (at != group_states_.end()) memory = at->second.memory;
  if (&groups != groups_.get()) {
    memory.OnChange(groups_->Find(group.first, group.second),
                    groups.Find(group.first, group.second));
  }
  return memory;
}

fleet::GroupView Fleet::Engine::ViewOf(const GroupName& group, const GroupsSnapshot& groups) const {
  fleet::GroupView view = {.tenant = group.first, .group = group.second};
  (void)FillView(group, groups, view);
  return view;
}

const fleet::GroupView& Fleet::Engine::ScratchView(const GroupName& group) {
  if (!scratch_) scratch_ = fleet::GroupView{.tenant = group.first, .group = group.second};
  std::vector<fleet::InstanceView>& views = scratch_->instances;
  const auto members = by_group_.find(group);
  const std::size_t most = members == by_group_.end() ? 0 : members->second.size();
  while (views.size() < most && !spare_views_.empty()) {
    views.push_back(std::move(spare_views_.back()));
    spare_views_.pop_back();
  }
  const std::size_t used = FillView(group, *groups_, *scratch_);
  while (views.size() > used) {
    spare_views_.push_back(std::move(views.back()));
    views.pop_back();
  }
  return *scratch_;
}

std::size_t Fleet::Engine::FillView(const GroupName& group, const GroupsSnapshot& groups,
                                    fleet::GroupView& view) const {
  view.tenant = group.first;
  view.group = group.second;
  view.times = times_;
  view.leadership = {.epoch = deps_.leader.epoch,
                     .began_at = began_at_,
                     .counting_since = Planted(Plant::kOldLeadersHealth) ? Instant() : began_at_,
                     .expiry_paused_until = expiry_paused_until_,
                     .provider_listed = provider_listed_};
  FillSpec(group, groups, view);
  bool silent = false;
  std::size_t used = 0;
  if (const auto at = by_group_.find(group); at != by_group_.end()) {
    for (const InstanceId& id : at->second) {
      const Instance& instance = entries_.at(id)->instance;
      const bool failed = instance.phase() == InstancePhase::kFailed;
      if (!instance.live() && !(failed && Planted(Plant::kFailedKeepsSlot))) continue;
      if (used == view.instances.size()) view.instances.push_back({.id = id});
      FillView(instance, view.instances[used++]);
      silent = silent || HealthOf(instance).silent_since.has_value();
    }
  }
  FillCreation(group, groups, view);
  view.brake = BudgetFor(group.first);
  // How the rest of the tenant does matters only to what is silent itself.
  view.tenant_health = silent ? TenantHealth(group.first) : fleet::TenantHealthView{};
  return used;
}

void Fleet::Engine::FillSpec(const GroupName& name, const GroupsSnapshot& groups,
                             fleet::GroupView& view) const {
  const config::Config& config = groups.config->config;
  const bool cached = groups.config->origin == ConfigOrigin::kCachedCopy;
  const bool defined = name.first == DefaultTenant() || config.tenants.contains(name.first);
  const MergedGroup* group = groups.Find(name.first, name.second);
  view.restraint = fleet::Restraint::kNone;
  view.restraint_detail.clear();
  view.removal.reset();
  if (!defined) {
    view.restraint = fleet::Restraint::kTenantUndefined;
    view.restraint_detail = fmt::format("tenant {} is not in the configuration", name.first.text());
  } else if (cached) {
    view.restraint = fleet::Restraint::kConfigInvalid;
    view.restraint_detail = "a cached copy of the configuration is in force";
  } else if (groups.dynamic_invalid && (group == nullptr || group->has_dynamic_layer)) {
    view.restraint = fleet::Restraint::kConfigInvalid;
    view.restraint_detail = groups.dynamic_invalid->message;
  } else if (group != nullptr && group->frozen) {
    view.restraint = fleet::Restraint::kConfigInvalid;
    view.restraint_detail = group->frozen->message;
  }
  if (group == nullptr) {
    view.removal = fleet::GroupRemoval{.ordered = MemoryUnder(name, groups).removal_ordered};
    view.spec = {};
    view.spec.drain_timeout = config.server.default_drain_timeout;
    view.spec.expiry = config.server.expiry;
    return;
  }
  const config::GroupLayer& layer = group->group.layer;
  view.spec.size = group->group.size();
  view.spec.surge = layer.surge.value_or(config::kDefaultSurge);
  view.spec.drain_timeout = layer.drain_timeout.value_or(config.server.default_drain_timeout);
  view.spec.expiry =
      layer.expiry ? config::Overlay(config.server.expiry, *layer.expiry) : config.server.expiry;
  view.spec.infra_hash = group->infra_hash;
  view.spec.remove = group->group.remove;
  view.spec.size_ordered = group->group.size_is_ordered;
  view.spec.pool = layer.pool.has_value();
}

void Fleet::Engine::FillCreation(const GroupName& name, const GroupsSnapshot& groups,
                                 fleet::GroupView& view) const {
  view.creation = {.backoff = MemoryUnder(name, groups).backoff};
  const MergedGroup* group = groups.Find(name.first, name.second);
  if (group == nullptr || !group->config) return view.subnets.clear();
  if (!group->config->userdata) {
    view.creation.block = {.code = fleet::HoldCode::kUserdataUnavailable,
                           .detail = "neither the template nor the defaults have user data"};
  }
  const std::string image = MissingImage(*group->config, images_, groups.config->config.images);
  if (!image.empty()) {
    view.creation.block = {.code = fleet::HoldCode::kImageUnresolved,
                           .detail = fmt::format("image {} has no fallback", image)};
  }
  if (group->config->subnet_pool) {
    const auto& pools = groups.config->config.server.subnet_pools;
    if (const auto pool = pools.find(*group->config->subnet_pool); pool != pools.end()) {
      FillSubnets(pool->second, view);
    } else {
      view.subnets.clear();
    }
  } else {
    view.subnets.clear();
  }
  view.creation.places = SharePlaces(name);
  if (!deps_.journal.machine().table().HasPlace(IntentKind::kCreate, name.first, Brake::kFree)) {
    view.creation.places = 0;
    view.creation.short_of_places = fleet::HoldCode::kJournalFull;
  } else if (pace_.rate_limit > Duration()) {
    view.creation.short_of_places = fleet::HoldCode::kCreateRateLimit;
  }
}

// Instances that are only intended count as well, so that two plans in a row do not choose alike.
void Fleet::Engine::FillSubnets(const std::vector<std::string>& subnets,
                                fleet::GroupView& view) const {
  view.subnets.resize(subnets.size());
  for (std::size_t i = 0; i < subnets.size(); ++i) {
    fleet::SubnetView& one = view.subnets[i];
    one.id = subnets[i];
    one.live = static_cast<int>(census_.LiveIn(one.id));
    one.room.reset();
    if (const auto room = subnets_.Find(one.id); room) {
      // What was made, or is about to be, after the provider counted takes of it.
      const std::uint64_t taken = census_.NewIn(one.id, room->asked_at);
      one.room = room->free - std::min<std::uint64_t>(room->free, taken);
    }
  }
}

void Fleet::Engine::AskAboutSubnets(const fleet::GroupView& view) {
  for (const fleet::SubnetView& subnet : view.subnets) {
    if (!subnets_.Asked(subnet.id)) subnets_.Want(subnet.id);
  }
}

// With a rate limit the places of the shard are shared out in turn among the groups that waited for
// some when they were planned last.
int Fleet::Engine::SharePlaces(const GroupName& name) const {
  if (pace_.rate_limit == Duration()) return fleet::OpenLimit(pace_, census_.OpenCreations(name));
  std::vector<fleet::CreationDemand> demands = {{.group = name, .wanted = config::kMaxGroupSize}};
  for (const auto& [group, state] : group_states_) {
    if (group == name || state.plan.creations_waiting == 0) continue;
    demands.push_back({.group = group, .wanted = state.plan.creations_waiting});
  }
  return fleet::ShareCreations(demands, fleet::OpenLimit(pace_, census_.OpenCreations())).front();
}

// --- The tenant ----------------------------------------------------------------------------------

fleet::TenantBrake& Fleet::Engine::BrakeOf(const TenantId& tenant) {
  return brakes_.try_emplace(tenant, brake_limits_).first->second;
}

fleet::BrakeBudget Fleet::Engine::BudgetFor(const TenantId& tenant) const {
  const Instant now = deps_.loop.Now();
  const int population = census_.Population(tenant);
  const auto at = brakes_.find(tenant);
  if (at != brakes_.end()) return at->second.Budget(now, population);
  return fleet::TenantBrake(brake_limits_).Budget(now, population);
}

fleet::TenantHealthView Fleet::Engine::TenantHealth(const TenantId& tenant) const {
  fleet::SilenceFacts facts;
  for (const Instance* instance : OfTenant(tenant)) {
    if (instance->phase() != InstancePhase::kRegistered) continue;
    ++facts.registered;
    const fleet::HealthJudgement health = HealthOf(*instance);
    if (!health.silent_since) {
      facts.last_report = std::max(facts.last_report, instance->health.reported_at);
      continue;
    }
    const bool vm_is_gone = fleet::IsDead(instance->looks.status) ||
                            fleet::JudgeAbsence(instance->looks, times_) == fleet::Absence::kAbsent;
    if (!vm_is_gone) facts.silent_since.push_back(*health.silent_since);
  }
  const std::optional<Instant> last_report = facts.last_report;
  return {.silence = fleet::JudgeSilence(std::move(facts), times_, deps_.loop.Now()),
          .last_report = last_report};
}

}  // namespace nstance

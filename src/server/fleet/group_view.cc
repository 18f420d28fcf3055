#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/fleet/engine.h"

namespace nstance {
namespace {

fleet::Reason ReasonOf(const std::string& word) {
  return fleet::ParseReason(word).value_or(fleet::Reason::kRequested);
}

bool IsSilent(fleet::HealthState state) {
  return state == fleet::HealthState::kLate || state == fleet::HealthState::kDisconnected ||
         state == fleet::HealthState::kStale;
}

}  // namespace

// --- One instance --------------------------------------------------------------------------------

fleet::InstanceView Fleet::Engine::ViewOf(const Instance& instance) const {
  fleet::InstanceView view = {.id = instance.id};
  view.care = instance.on_demand ? fleet::Care::kOnDemand : fleet::Care::kManaged;
  view.phase = instance.revoking ? InstancePhase::kRegistered : instance.phase();
  view.created_at = instance.created_at;
  view.vm_since = instance.vm_since;
  view.corrupt = instance.corrupt;
  view.looks = instance.looks;
  view.health = instance.health;
  view.order = instance.order;
  if (const InstanceRecord* record = instance.record()) {
    view.infra_hash = record->infra_config_hash;
    view.replaces = record->replaces;
    view.blocked = record->blocked.has_value();
    if (record->claim) view.care = fleet::Care::kClaimed;
  } else if (instance.create) {
    view.replaces = instance.create->intent.replaces;
  }
  if (instance.drain) {
    const Intent& intent = instance.drain->intent;
    view.drain = fleet::DrainView{.reason = ReasonOf(intent.reason),
                                  .deadline = instance.drain_deadline,
                                  .epoch = intent.epoch,
                                  .acked = intent.acked_at.has_value(),
                                  .told_for_good = instance.told_for_good};
  }
  if (instance.deletion) {
    const Intent& intent = instance.deletion->intent;
    view.deletion = fleet::DeletionView{.reason = ReasonOf(intent.reason),
                                        .opened_at = instance.deletion_opened_at,
                                        .ordered = intent.ordered,
                                        .counted = intent.counted,
                                        .started = instance.deletion_started};
  }
  return view;
}

// --- The group -----------------------------------------------------------------------------------

fleet::GroupView Fleet::Engine::ViewOf(const GroupName& group) {
  fleet::GroupView view = {.tenant = group.first, .group = group.second};
  view.times = times_;
  view.leadership = {.epoch = deps_.leader.epoch,
                     .began_at = began_at_,
                     .counting_since = began_at_,
                     .expiry_paused_until = std::nullopt,
                     .provider_listed = provider_listed_};
  FillSpec(group, view);
  if (const auto at = by_group_.find(group); at != by_group_.end()) {
    for (const InstanceId& id : at->second) {
      const Instance& instance = entries_.at(id)->instance;
      if (instance.live()) view.instances.push_back(ViewOf(instance));
    }
  }
  FillCreation(group, view);
  view.brake = BrakeOf(group.first).Budget(deps_.loop.Now(), Population(group.first));
  view.tenant_health = TenantHealth(group.first);
  return view;
}

void Fleet::Engine::FillSpec(const GroupName& name, fleet::GroupView& view) {
  const config::Config& config = groups_->config->config;
  const bool cached = groups_->config->origin == ConfigOrigin::kCachedCopy;
  const bool defined = name.first == DefaultTenant() || config.tenants.contains(name.first);
  const MergedGroup* group = groups_->Find(name.first, name.second);
  if (!defined) {
    view.restraint = fleet::Restraint::kTenantUndefined;
    view.restraint_detail = fmt::format("tenant {} is not in the configuration", name.first.text());
  } else if (cached) {
    view.restraint = fleet::Restraint::kConfigInvalid;
    view.restraint_detail = "a cached copy of the configuration is in force";
  } else if (groups_->dynamic_invalid && (group == nullptr || group->has_dynamic_layer)) {
    view.restraint = fleet::Restraint::kConfigInvalid;
    view.restraint_detail = groups_->dynamic_invalid->message;
  } else if (group != nullptr && group->frozen) {
    view.restraint = fleet::Restraint::kConfigInvalid;
    view.restraint_detail = group->frozen->message;
  }
  if (group == nullptr) {
    view.removal = fleet::GroupRemoval{.ordered = group_states_[name].removal_ordered};
    view.spec.drain_timeout = config.server.default_drain_timeout;
    view.spec.expiry = config.server.expiry;
    return;
  }
  const config::GroupLayer& layer = group->group.layer;
  view.spec = {.size = group->group.size(),
               .surge = layer.surge.value_or(config::kDefaultSurge),
               .drain_timeout = layer.drain_timeout.value_or(config.server.default_drain_timeout),
               .expiry = layer.expiry ? config::Overlay(config.server.expiry, *layer.expiry)
                                      : config.server.expiry,
               .infra_hash = group->infra_hash,
               .remove = group->group.remove,
               .size_ordered = group->group.size_is_ordered,
               .pool = layer.pool.has_value()};
}

void Fleet::Engine::FillCreation(const GroupName& name, fleet::GroupView& view) {
  view.creation.backoff = group_states_[name].backoff;
  const MergedGroup* group = groups_->Find(name.first, name.second);
  if (group == nullptr || !group->config) return;
  if (!group->config->userdata) {
    view.creation.block = {.code = fleet::HoldCode::kUserdataUnavailable,
                           .detail = "neither the template nor the defaults have user data"};
  }
  const std::string image = MissingImage(*group->config, images_, groups_->config->config.images);
  if (!image.empty()) {
    view.creation.block = {.code = fleet::HoldCode::kImageUnresolved,
                           .detail = fmt::format("image {} has no fallback", image)};
  }
  if (group->config->subnet_pool) {
    const auto& pools = groups_->config->config.server.subnet_pools;
    if (const auto pool = pools.find(*group->config->subnet_pool); pool != pools.end()) {
      FillSubnets(pool->second, view);
    }
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
void Fleet::Engine::FillSubnets(const std::vector<std::string>& subnets, fleet::GroupView& view) {
  std::map<std::string_view, fleet::SubnetView> views;
  for (const std::string& subnet : subnets) {
    if (!subnets_.Asked(subnet)) subnets_.Want(subnet);
    fleet::SubnetView& one = views[subnet] = {.id = subnet};
    if (const auto room = subnets_.Find(subnet)) one.room = room->free;
  }
  for (const auto& [id, entry] : entries_) {
    const Instance& instance = entry->instance;
    const auto at = views.find(instance.subnet);
    if (at == views.end() || !instance.live()) continue;
    fleet::SubnetView& one = at->second;
    ++one.live;
    // Made, or about to be, after the provider counted.
    const auto room = subnets_.Find(at->second.id);
    const bool counted = room && instance.vm_since && *instance.vm_since < room->asked_at;
    if (one.room && !counted && *one.room > 0) --*one.room;
  }
  for (const std::string& subnet : subnets) view.subnets.push_back(views.at(subnet));
}

// Create intents that are open, in one group or in the shard.
int Fleet::Engine::OpenCreations(const GroupName* group) const {
  int open = 0;
  for (const auto& [id, entry] : entries_) {
    if (!entry->instance.create) continue;
    if (group != nullptr &&
        (entry->instance.tenant != group->first || entry->instance.group != group->second)) {
      continue;
    }
    ++open;
  }
  return open;
}

// With a rate limit the places of the shard are shared out in turn among the groups that waited for
// some when they were planned last.
int Fleet::Engine::SharePlaces(const GroupName& name) {
  if (pace_.rate_limit == Duration()) return fleet::OpenLimit(pace_, OpenCreations(&name));
  std::vector<fleet::CreationDemand> demands;
  for (const auto& [group, state] : group_states_) {
    const int wanted =
        group == name && !state.planned ? config::kMaxGroupSize : state.plan.creations_waiting;
    if (wanted > 0 || group == name) demands.push_back({.group = group, .wanted = wanted});
  }
  for (fleet::CreationDemand& demand : demands) {
    if (demand.group == name) demand.wanted = std::max(demand.wanted, config::kMaxGroupSize);
  }
  const std::vector<int> shares =
      fleet::ShareCreations(demands, fleet::OpenLimit(pace_, OpenCreations(nullptr)));
  for (std::size_t i = 0; i < demands.size(); ++i) {
    if (demands[i].group == name) return shares[i];
  }
  return 0;
}

// --- The tenant ----------------------------------------------------------------------------------

fleet::TenantBrake& Fleet::Engine::BrakeOf(const TenantId& tenant) {
  return brakes_.try_emplace(tenant, brake_limits_).first->second;
}

int Fleet::Engine::Population(const TenantId& tenant) const {
  const auto at = by_tenant_.find(tenant);
  if (at == by_tenant_.end()) return 0;
  return static_cast<int>(std::ranges::count_if(
      at->second, [&](const InstanceId& id) { return entries_.at(id)->instance.live(); }));
}

fleet::TenantHealthView Fleet::Engine::TenantHealth(const TenantId& tenant) {
  fleet::SilenceFacts facts;
  for (const Instance* instance : OfTenant(tenant)) {
    if (instance->phase() != InstancePhase::kRegistered) continue;
    ++facts.registered;
    const fleet::HealthJudgement health = HealthOf(*instance);
    if (!IsSilent(health.state)) {
      facts.last_report = std::max(facts.last_report, instance->health.reported_at);
      continue;
    }
    const bool vm_in_doubt =
        fleet::IsDead(instance->looks.status) ||
        fleet::JudgeAbsence(instance->looks, times_) != fleet::Absence::kPresent;
    if (!vm_in_doubt && health.trouble_since) facts.silent_since.push_back(*health.trouble_since);
  }
  const std::optional<Instant> last_report = facts.last_report;
  return {.silence = fleet::JudgeSilence(std::move(facts), times_, deps_.loop.Now()),
          .last_report = last_report};
}

}  // namespace nstance

#include "core/group/group_merge.h"

#include <utility>

#include "core/group/group_rules.h"

namespace nstance {
namespace {

using config::Config;
using config::DynamicGroup;
using config::DynamicGroups;
using config::GroupLayer;

// What a static group takes from its dynamic layer.
void Overlay(EffectiveGroup& group, const GroupLayer& dynamic) {
  if (dynamic.size) group.layer.size = dynamic.size;
  if (!dynamic.instance_type.empty()) group.layer.instance_type = dynamic.instance_type;
  for (const auto& [name, value] : dynamic.vars) group.layer.vars[name] = value;
}

const GroupLayer* FindStatic(const Config& config, const TenantId& tenant, const GroupKey& key) {
  const auto groups = config.groups.find(tenant);
  if (groups == config.groups.end()) return nullptr;
  const auto group = groups->second.find(key);
  return group == groups->second.end() ? nullptr : &group->second;
}

}  // namespace

std::optional<EffectiveGroup> MergeGroup(const GroupLayer* static_layer,
                                         const DynamicGroup* dynamic) {
  if (static_layer == nullptr && dynamic == nullptr) return std::nullopt;
  EffectiveGroup group;
  group.is_static = static_layer != nullptr;
  if (dynamic != nullptr) {
    group.size_is_ordered = dynamic->layer.size.has_value();
    group.remove = dynamic->remove;
  }
  group.layer = static_layer != nullptr ? *static_layer : dynamic->layer;
  if (static_layer != nullptr && dynamic != nullptr) Overlay(group, dynamic->layer);
  return group;
}

EffectiveGroups MergeGroups(const Config& config, const DynamicGroups& dynamic) {
  EffectiveGroups merged;
  for (const auto& [tenant, groups] : config.groups) {
    for (const auto& [key, layer] : groups) {
      merged[tenant].emplace(key, *MergeGroup(&layer, nullptr));
    }
  }
  for (const auto& [tenant, groups] : dynamic) {
    for (const auto& [key, group] : groups) {
      merged[tenant].insert_or_assign(key, *MergeGroup(FindStatic(config, tenant, key), &group));
    }
  }
  return merged;
}

Status CheckGroup(const Config& config, const EffectiveGroup& group) {
  Status status = CheckLayer(config, group.layer);
  if (!status) status.error().code = Code::kFailedPrecondition;
  return status;
}

DynamicGroup DynamicAfterRemoval(const GroupLayer& last_static, const DynamicGroup& dynamic) {
  DynamicGroup kept = dynamic;
  if (!kept.layer.template_name) kept.layer = MergeGroup(&last_static, &dynamic)->layer;
  return kept;
}

DynamicGroups DynamicAfterReload(const Config& before, const Config& after, DynamicGroups dynamic) {
  for (auto& [tenant, groups] : dynamic) {
    for (auto& [key, group] : groups) {
      const GroupLayer* const was = FindStatic(before, tenant, key);
      if (was != nullptr && FindStatic(after, tenant, key) == nullptr) {
        group = DynamicAfterRemoval(*was, group);
      }
    }
  }
  return dynamic;
}

}  // namespace nstance

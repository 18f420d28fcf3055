#include "server/groups_snapshot.h"

#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "core/instance_config/config_hash.h"
#include "core/stored_object.h"
#include "crypto/digest.h"
#include "crypto/md5.h"

namespace nstance {
namespace {

template <class Groups>
auto FindIn(const Groups& groups, const TenantId& tenant, const GroupKey& key)
    -> decltype(&groups.begin()->second.begin()->second) {
  const auto of_tenant = groups.find(tenant);
  if (of_tenant == groups.end()) return nullptr;
  const auto group = of_tenant->second.find(key);
  return group == of_tenant->second.end() ? nullptr : &group->second;
}

void AppendVars(std::string& out, const EffectiveGroup& group) {
  out += ",\"vars\":";
  if (group.layer.vars.empty() && !group.is_static) {
    out += "null";
    return;
  }
  json::Object members;
  for (const auto& [name, value] : group.layer.vars) {
    members.push_back({.key = name, .key_position = {}, .value = json::Value::String(value)});
  }
  out += json::Write(json::Value::Map(std::move(members)), {.key_order = json::KeyOrder::kSorted});
}

void AddConfig(MergedGroup& merged, const config::Config& config) {
  if (Status usable = CheckGroup(config, merged.group); !usable) {
    merged.frozen = std::move(usable).error();
    return;
  }
  Result<MergedInstanceConfig> instance = MergeInstanceConfig(config, merged.group.layer);
  if (!instance) {
    merged.frozen = std::move(instance).error();
    return;
  }
  merged.runtime_hash = RuntimeConfigHash(*instance);
  merged.infra_hash = InfraConfigHash(*instance);
  if (merged.group.layer.pool) {
    merged.warm_hash = WarmConfigHash(*instance, merged.group.layer.pool->warm_files);
  }
  merged.config = *std::move(instance);
}

class Builder {
 public:
  Builder(GroupsSnapshot& snapshot, const GroupsRef& before)
      : snapshot_(snapshot),
        before_(before != nullptr && before->config == snapshot.config ? before.get() : nullptr) {}

  void Add(const TenantId& tenant, const GroupKey& key) {
    MergedGroupRef& slot = snapshot_.groups[tenant][key];
    if (slot != nullptr) return;
    const config::DynamicGroup* dynamic = FindIn(snapshot_.dynamic, tenant, key);
    slot = Unchanged(tenant, key, dynamic);
    if (slot == nullptr) slot = Make(tenant, key, dynamic);
  }

 private:
  // The static layer is the same, since the configuration is.
  [[nodiscard]] MergedGroupRef Unchanged(const TenantId& tenant, const GroupKey& key,
                                         const config::DynamicGroup* dynamic) const {
    if (before_ == nullptr) return nullptr;
    const MergedGroupRef* merged = FindIn(before_->groups, tenant, key);
    const config::DynamicGroup* was = FindIn(before_->dynamic, tenant, key);
    if (merged == nullptr || (was == nullptr) != (dynamic == nullptr)) return nullptr;
    if (was != nullptr && *was != *dynamic) return nullptr;
    return *merged;
  }

  [[nodiscard]] MergedGroupRef Make(const TenantId& tenant, const GroupKey& key,
                                    const config::DynamicGroup* dynamic) const {
    const config::Config& config = snapshot_.config->config;
    MergedGroup merged;
    merged.group = *MergeGroup(FindIn(config.groups, tenant, key), dynamic);
    merged.has_dynamic_layer = dynamic != nullptr;
    merged.etag = GroupEtag(tenant, key, merged.group);
    AddConfig(merged, config);
    return std::make_shared<const MergedGroup>(std::move(merged));
  }

  GroupsSnapshot& snapshot_;
  const GroupsSnapshot* before_;
};

}  // namespace

const MergedGroup* GroupsSnapshot::Find(const TenantId& tenant, const GroupKey& key) const {
  const MergedGroupRef* group = FindIn(groups, tenant, key);
  return group == nullptr ? nullptr : group->get();
}

GroupsRef BuildGroups(GroupsInput input, const GroupsRef& before) {
  CHECK(input.config != nullptr, "groups without a configuration");
  auto snapshot = std::make_shared<GroupsSnapshot>();
  snapshot->config = std::move(input.config);
  snapshot->dynamic = std::move(input.dynamic);
  snapshot->dynamic_invalid = std::move(input.dynamic_invalid);
  Builder builder(*snapshot, before);
  for (const auto& [tenant, groups] : snapshot->config->config.groups) {
    for (const auto& [key, layer] : groups) builder.Add(tenant, key);
  }
  for (const auto& [tenant, groups] : snapshot->dynamic) {
    for (const auto& [key, group] : groups) builder.Add(tenant, key);
  }
  return snapshot;
}

std::string GroupEtag(const TenantId& tenant, const GroupKey& key, const EffectiveGroup& group) {
  const config::GroupLayer& layer = group.layer;
  std::string out = "{\"instance_type\":";
  json::AppendString(out, layer.instance_type);
  out += group.is_static ? ",\"is_static\":true" : ",\"is_static\":false";
  AppendText(out, "key", key.text());
  AppendInteger(out, "size", group.size());
  AppendText(out, "subnet_pool", layer.subnet_pool ? layer.subnet_pool->text() : "");
  AppendText(out, "template", layer.template_name.value_or(""));
  AppendText(out, "tenant", tenant.text());
  AppendVars(out, group);
  out += '}';
  std::string etag = crypto::Md5Hex(AsBytes(out));
  // No other program sees the difference: it is an opaque text.
  if (etag.empty()) etag = crypto::Sha256Hex(AsBytes(out)).substr(0, 32);
  return etag;
}

}  // namespace nstance

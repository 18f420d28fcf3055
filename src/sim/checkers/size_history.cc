#include "sim/checkers/size_history.h"

#include <algorithm>
#include <ranges>

#include "base/json.h"

namespace nstance::sim {

void SizeHistory::OnChange(const SimChange& change, const Truth& truth) {
  if (truth.last().kind == TruthChange::Kind::kGroups) return OnGroups(change.at, truth);
  if (change.after == nullptr || !change.key.text().starts_with("config/")) return;
  for (const ShardId& shard : {ShardA(), ShardB()}) {
    if (change.key.text() == "config/" + shard.text() + ".jsonc") {
      OnConfig(shard, change.after->bytes);
    }
  }
}

void SizeHistory::OnConfig(const ShardId& shard, std::string_view text) {
  const Result<json::Value> file = json::Parse(text, {.syntax = json::Syntax::kJsonc});
  const json::Value* tenants = file.has_value() ? file->Find("groups") : nullptr;
  if (tenants == nullptr || tenants->if_object() == nullptr) return;
  // What does not validate is never in force: it is another shard's, or broken as in setting.cc.
  const json::Value* server = file->Find("server");
  const json::Value* of = server == nullptr ? nullptr : server->Find("shard");
  const std::string* named = of == nullptr ? nullptr : of->if_string();
  if ((named != nullptr && *named != shard.text()) || file->Find("grups") != nullptr) return;
  for (const json::Member& tenant : *tenants->if_object()) {
    const Result<TenantId> tenant_id = TenantId::Parse(tenant.key);
    if (!tenant_id.has_value() || tenant.value.if_object() == nullptr) continue;
    for (const json::Member& group : *tenant.value.if_object()) {
      const Result<GroupKey> key = GroupKey::Parse(group.key);
      const json::Value* size = group.value.Find("size");
      if (!key.has_value() || size == nullptr || size->if_integer() == nullptr) continue;
      groups_[{shard, {*tenant_id, *key}}].stored.insert(static_cast<int>(*size->if_integer()));
    }
  }
}

// The groups object is written at every take-over: only what changed is remembered.
void SizeHistory::OnGroups(Instant at, const Truth& truth) {
  const ShardId& shard = *truth.last().shard;
  const config::DynamicGroups& now = truth.Of(shard).dynamic;
  const auto size_in = [](const config::DynamicGroups& groups,
                          const GroupName& name) -> std::optional<int> {
    const auto tenant = groups.find(name.first);
    if (tenant == groups.end()) return std::nullopt;
    const auto group = tenant->second.find(name.second);
    return group == tenant->second.end() ? std::nullopt : group->second.layer.size;
  };
  for (const config::DynamicGroups* side : {&now, &truth.last().dynamic}) {
    for (const auto& [tenant, groups] : *side) {
      for (const auto& [key, group] : groups) {
        const GroupName name = {tenant, key};
        std::vector<Entry>& entries = groups_[{shard, name}].entries;
        const std::optional<int> set = size_in(now, name);
        if (!entries.empty() && entries.back().set == set) continue;
        if (entries.empty()) entries.push_back({.at = {}, .set = std::nullopt});
        entries.push_back({.at = at, .set = set});
      }
    }
  }
}

SizeHistory::Bounds SizeHistory::Of(const ShardId& shard, const GroupName& group,
                                    Instant now) const {
  const auto at = groups_.find({shard, group});
  if (at == groups_.end()) return {};
  std::set<int> possible;
  const auto add_stored = [&] {
    possible.insert(at->second.stored.begin(), at->second.stored.end());
    if (at->second.stored.empty()) possible.insert(0);
  };
  for (const Entry& entry : at->second.entries | std::views::reverse) {
    if (entry.set) {
      possible.insert(*entry.set);
    } else {
      add_stored();
    }
    if (entry.at + kLag < now) break;
  }
  if (at->second.entries.empty()) add_stored();
  return {.least = *possible.begin(), .most = *possible.rbegin()};
}

bool SizeHistory::WasStored(const ShardId& shard, const GroupName& group, int size) const {
  const auto at = groups_.find({shard, group});
  return at != groups_.end() && at->second.stored.contains(size);
}

}  // namespace nstance::sim

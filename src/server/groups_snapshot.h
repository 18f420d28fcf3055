// GroupsSnapshot: all groups of a shard as one immutable value: static and dynamic layers merged,
// the configuration of their instances merged, hashes and etags taken.
//
//   GroupsRef groups = BuildGroups({.config = config, .dynamic = dynamic}, before);
//   if (const MergedGroup* group = groups->Find(tenant, key)) Plan(*group);
//
// It carries the configuration that it was made from, so that whoever holds a snapshot never mixes
// an old configuration with new groups. Groups that did not change are shared with the snapshot
// before: publishing one change in a thousand groups costs one merge.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/name.h"
#include "base/result.h"
#include "core/config/dynamic_groups.h"
#include "core/group/group_merge.h"
#include "core/instance_config/merge.h"
#include "server/config_source.h"

namespace nstance {

struct MergedGroup {
  EffectiveGroup group = {};
  bool has_dynamic_layer = false;
  std::string etag = {};  // wire.md 5.2: of the group's own values.

  // Why nothing can be made of the group (hold `config-invalid`): it is healed at most, never
  // scaled down or deleted. The members below are then empty.
  std::optional<Error> frozen = std::nullopt;
  std::optional<MergedInstanceConfig> config = std::nullopt;
  std::string runtime_hash = {};
  std::string infra_hash = {};
  std::string warm_hash = {};  // Only pools: of an unclaimed member.
};
using MergedGroupRef = std::shared_ptr<const MergedGroup>;
using MergedGroups = std::map<TenantId, std::map<GroupKey, MergedGroupRef>>;

struct GroupsSnapshot {
  ConfigRef config = {};
  config::DynamicGroups dynamic = {};
  MergedGroups groups = {};
  // Set when the stored groups object does not parse (message: file, line, column): `dynamic` is
  // then the last good copy or empty, and every group with a dynamic layer is under hold
  // `config-invalid`.
  std::optional<Error> dynamic_invalid = std::nullopt;

  // Null pointer: no such group.
  [[nodiscard]] const MergedGroup* Find(const TenantId& tenant, const GroupKey& key) const;
};
using GroupsRef = std::shared_ptr<const GroupsSnapshot>;

struct GroupsInput {
  ConfigRef config = {};  // REQUIRES: not null.
  config::DynamicGroups dynamic = {};
  std::optional<Error> dynamic_invalid = std::nullopt;
};
// `before` may be null.
[[nodiscard]] GroupsRef BuildGroups(GroupsInput input, const GroupsRef& before);

// Lower-case hex MD5 over compact JSON, as the Go implementation takes it.
[[nodiscard]] std::string GroupEtag(const TenantId& tenant, const GroupKey& key,
                                    const EffectiveGroup& group);

}  // namespace nstance

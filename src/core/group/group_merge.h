// What a group is: its static layer (the configuration file) under its dynamic one (the API).
//
//   layers present | the group is
//   ---------------+-----------------------------------------------------------------------------
//   static         | the static layer
//   dynamic        | the dynamic layer
//   both           | the static layer, except: `size` if the dynamic one sets it, `instance_type`
//                  | if it names one, `vars` overlaid key by key. The rest of it is ignored
//   none           | no group
//
//   const std::optional<EffectiveGroup> group = MergeGroup(static_layer, dynamic_group);
//   if (group && !CheckGroup(config, *group)) Hold("config-invalid");
//
// Everything here copies: the layers that go in are not changed.
//
// Removing a group from the configuration must not destroy anything by itself. Its dynamic layer
// stays; when that names no template it could not live alone, so what the group was until then
// (template, subnet pool, size and the rest of the merged values) is written into it. A group that
// nothing defines any more is gone, and its members are deleted as after DeleteGroup.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/result.h"
#include "core/config/config.h"
#include "core/config/dynamic_groups.h"

namespace nstance {

struct EffectiveGroup {
  config::GroupLayer layer = {};  // Without a template the group is frozen: CheckGroup().
  // Templates, subnet pools, args and draw_from of a static group are changed in the file only.
  bool is_static = false;
  // The size in force was asked for through the API: a scale-down is an ordered one.
  bool size_is_ordered = false;
  std::vector<InstanceId> remove = {};  // Members that go first when the size falls.
  friend bool operator==(const EffectiveGroup&, const EffectiveGroup&) = default;

  [[nodiscard]] int size() const { return layer.size.value_or(0); }
};

using TenantEffectiveGroups = std::map<GroupKey, EffectiveGroup>;
using EffectiveGroups = std::map<TenantId, TenantEffectiveGroups>;

// Null pointers stand for layers that are absent. Nothing when both are.
[[nodiscard]] std::optional<EffectiveGroup> MergeGroup(const config::GroupLayer* static_layer,
                                                       const config::DynamicGroup* dynamic);
[[nodiscard]] EffectiveGroups MergeGroups(const config::Config& config,
                                          const config::DynamicGroups& dynamic);

// Whether instances can be made for the group under this configuration. kFailedPrecondition says
// why not: the group is frozen (hold `config-invalid`), never deleted. Whether a pool is among the
// `dynamic_subnet_pools` is not asked: that rule is for what is new (core/group/group_upsert.h).
[[nodiscard]] Status CheckGroup(const config::Config& config, const EffectiveGroup& group);

// The dynamic layer of a group whose static one has just been removed.
[[nodiscard]] config::DynamicGroup DynamicAfterRemoval(const config::GroupLayer& last_static,
                                                       const config::DynamicGroup& dynamic);
// The same for all groups that `before` has and `after` has not. Equal to `dynamic` when there is
// nothing to write.
[[nodiscard]] config::DynamicGroups DynamicAfterReload(const config::Config& before,
                                                       const config::Config& after,
                                                       config::DynamicGroups dynamic);

}  // namespace nstance

// The dynamic layer of groups, `groups/{shard}.jsonc`: what operators set through the API.
//
//   // nstance epoch=3 seq=17 write_id=AAECAwQFBgcICQoLDA0ODw sha256=<of all bytes after this line>
//   {
//     "prod": {
//       "workers": {
//         "size": 20,
//         "template": "knd"
//       }
//     }
//   }
//
// Read as JSONC, written as above: two-space indent, sorted keys. Empty values are left out, empty
// tenants are removed, members that this program does not know are kept. A missing or wrong stamp
// is a person's edit: accepted if the rest is valid, and stamped by the next write.
//
// Only shape and ranges are checked here. Whether a template or a subnet pool exists depends on the
// configuration in force, and is the planner's question: a layer that does not fit freezes its
// group, it never deletes one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/name.h"
#include "base/puidv7.h"
#include "core/config/config.h"
#include "core/config/problem.h"

namespace nstance::config {

inline constexpr std::size_t kMaxRemove = 256;

// Which operator process wrote last: its lease, so that an older one is refused.
struct Fence {
  std::string lease_uid = {};
  std::int64_t transitions = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
};

struct DynamicGroup {
  GroupLayer layer = {};
  std::vector<InstanceId> remove = {};  // Named by the last UpsertGroup; at most kMaxRemove.
  std::optional<Fence> fence = std::nullopt;
  json::Object unknown = {};
  friend bool operator==(const DynamicGroup&, const DynamicGroup&) = default;
};

using DynamicGroups = std::map<TenantId, std::map<GroupKey, DynamicGroup>>;

struct GroupsStamp {
  std::int64_t epoch = 0;
  std::int64_t seq = 0;
  std::string write_id = {};
  friend bool operator==(const GroupsStamp&, const GroupsStamp&) = default;
};

struct DynamicGroupsResult {
  std::optional<DynamicGroups> groups = std::nullopt;  // Set exactly when there are no errors.
  std::optional<GroupsStamp> stamp = std::nullopt;  // Only when it is there and its hash is right.
  std::vector<Problem> errors = {};
};

[[nodiscard]] DynamicGroupsResult DecodeDynamicGroups(std::string_view bytes);
[[nodiscard]] std::string EncodeDynamicGroups(const DynamicGroups& groups,
                                              const GroupsStamp& stamp);

}  // namespace nstance::config

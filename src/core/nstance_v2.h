// Layout `nstance-v2`: the names that the Go implementation gives to objects (formats.md, appendix
// A), for taking a shard over from it, or sharing a cluster with it shard by shard.
//
// Everywhere else objects have the names of object_layout.h; this is the only place that knows the
// others. `S` is the scope of a shard, `shard/{shard}/` unless --prefix says otherwise; `C` that of
// the cluster, `cluster/`.
//
//   ours                                        | nstance-v2
//   --------------------------------------------+------------------------------------------------
//   config/{shard}.jsonc, groups/{shard}.jsonc  | S config.jsonc, S groups.jsonc
//   leader/{shard}.json, leader/cluster.json    | S leader.json, C leader.json
//   journal/{shard}.json                        | S journal.json
//   instance/{shard}/{tenant}.{id}.json         | S instance/{tenant}.{uuid}-{prefix}.json
//   certlog/{shard}/{rest}, probe/{shard}/{rest}| S certlog/{rest}, S probe/{rest}
//   certlog/cluster/{rest}                      | C certlog/{rest}
//   file/{name}                                 | S {name}, of this server's shard
//   everything else: ca.crt, operator/,         | C, the same name
//     operator-nonce/, secret/, deny/ ...       |
//
// Both directions are exact: a name that two of ours would share belongs to the one that the table
// names first, and the other is refused; a name of theirs that none of ours has is not shown.
//
// Guarantees, each held by a test:
//   - Ours(Theirs(key)) is the key, for every key that Theirs() takes
//   - Theirs(Ours(key)) is the key, for every key that Ours() shows
//   - no key leaves the scopes
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/name.h"
#include "base/result.h"
#include "core/object_key.h"

namespace nstance {

inline constexpr std::string_view kNstanceV2ClusterScope = "cluster/";

// "shard/a/".
[[nodiscard]] std::string NstanceV2ShardScope(const ShardId& shard);

class NstanceV2Names final {
 public:
  struct Options {
    // Whose `file/` objects there are; empty: nobody's, which is right for tools.
    std::optional<ShardId> shard = std::nullopt;
    // Of that shard. Empty: `shard/{shard}/`. Other shards always have theirs.
    std::string shard_scope = {};
    std::string cluster_scope = std::string(kNstanceV2ClusterScope);
  };

  // REQUIRES: the scopes are empty or end with `/`.
  explicit NstanceV2Names(Options options);

  // kInvalidArgument: too long, or the name of something else over there.
  [[nodiscard]] Result<ObjectKey> Theirs(const ObjectKey& ours) const;
  // Empty: nothing of ours has that name.
  [[nodiscard]] std::optional<ObjectKey> Ours(const ObjectKey& theirs) const;

  // Where to look for everything of ours that begins so.
  struct Region {
    std::string prefix = {};
    // What is found there comes in the order of our names.
    bool in_order = false;
  };
  [[nodiscard]] std::vector<Region> Regions(std::string_view our_prefix) const;

  [[nodiscard]] std::string ScopeOf(const ShardId& shard) const;

 private:
  [[nodiscard]] std::string TheirText(std::string_view ours) const;
  [[nodiscard]] std::optional<std::string> OurText(std::string_view theirs) const;

  Options options_;
};

// Tenants that `tenants.jsonc` of a shard says are asleep, or on their way to or from it: nobody
// here can wake them. kInvalidArgument: it does not parse.
[[nodiscard]] Result<std::vector<std::string>> SleepingTenants(std::string_view tenants_jsonc);

}  // namespace nstance

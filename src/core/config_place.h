// ConfigPlace: where the configuration of a shard is, which tells what names all objects of the
// bucket have (formats.md, appendix A). The one place of this rule, for servers and tools.
//
//   the first that is there                    | layout
//   -------------------------------------------+-----------
//   config/{shard}.jsonc, below the prefix     | kNstance
//   config.jsonc in the shard's scope          | kNstanceV2
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/name.h"
#include "base/result.h"
#include "core/config/load.h"
#include "core/object_key.h"

namespace nstance {

struct ConfigPlace {
  ObjectKey key;
  config::Layout layout = config::Layout::kNstance;
  friend bool operator==(const ConfigPlace&, const ConfigPlace&) = default;
};

struct ConfigScopes {
  std::string prefix = {};       // Of layout kNstance: what all keys begin with.
  std::string shard_scope = {};  // Of layout kNstanceV2; empty: `shard/{shard}/`.
};

// In the order in which they are looked at. kInvalidArgument: a scope is too long.
[[nodiscard]] Result<std::vector<ConfigPlace>> ConfigPlaces(const ShardId& shard,
                                                            const ConfigScopes& scopes);

// What the names of all configurations of a layout begin with, for a bucket whose shards are not
// known, and whether a name that begins so is one. REQUIRES: shards have the scopes of the rule.
[[nodiscard]] std::string ConfigsBegin(config::Layout layout, std::string_view prefix);
[[nodiscard]] bool IsConfig(config::Layout layout, std::string_view prefix, const ObjectKey& key);

}  // namespace nstance

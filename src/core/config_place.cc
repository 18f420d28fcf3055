#include "core/config_place.h"

#include <utility>

#include <fmt/format.h>

#include "core/nstance_v2.h"

namespace nstance {
namespace {

constexpr std::string_view kSuffix = ".jsonc";
constexpr std::string_view kTheirShards = "shard/";
constexpr std::string_view kTheirName = "config.jsonc";

}  // namespace

Result<std::vector<ConfigPlace>> ConfigPlaces(const ShardId& shard, const ConfigScopes& scopes) {
  ASSIGN_OR_RETURN(ObjectKey ours,
                   ObjectKey::Parse(ConfigsBegin(config::Layout::kNstance, scopes.prefix) +
                                    shard.text() + std::string(kSuffix)));
  const std::string scope =
      scopes.shard_scope.empty() ? NstanceV2ShardScope(shard) : scopes.shard_scope;
  ASSIGN_OR_RETURN(ObjectKey theirs, ObjectKey::Parse(scope + std::string(kTheirName)));
  return std::vector<ConfigPlace>{{.key = std::move(ours), .layout = config::Layout::kNstance},
                                  {.key = std::move(theirs), .layout = config::Layout::kNstanceV2}};
}

std::string ConfigsBegin(config::Layout layout, std::string_view prefix) {
  if (layout == config::Layout::kNstanceV2) return std::string(kTheirShards);
  return fmt::format("{}config/", prefix);
}

bool IsConfig(config::Layout layout, std::string_view prefix, const ObjectKey& key) {
  std::string_view text = key.text();
  const std::string begin = ConfigsBegin(layout, prefix);
  if (!text.starts_with(begin)) return false;
  text.remove_prefix(begin.size());
  if (layout == config::Layout::kNstance) return text.ends_with(kSuffix);
  // "a/config.jsonc".
  const std::size_t slash = text.find('/');
  return slash != std::string_view::npos && text.substr(slash + 1) == kTheirName &&
         ShardId::Parse(text.substr(0, slash)).has_value();
}

}  // namespace nstance

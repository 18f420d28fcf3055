#include "core/nstance_v2.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/json.h"
#include "base/puidv7.h"
#include "base/text.h"

namespace nstance {
namespace {

constexpr std::string_view kAllShards = "shard/";
constexpr std::string_view kFiles = "file/";
constexpr std::string_view kClusterLease = "leader/cluster.json";
constexpr std::string_view kLease = "leader.json";
constexpr std::string_view kInstances = "instance/";
// Of certificates that no shard has issued, but the admin tool.
constexpr std::string_view kClusterLog = "certlog/cluster/";
constexpr std::string_view kLog = "certlog/";
constexpr std::string_view kRecordEnd = ".json";

// One object of each shard: ours is folder + shard + suffix, theirs a name in the shard's scope.
struct Single {
  std::string_view folder;
  std::string_view suffix;
  std::string_view theirs;
};
constexpr std::array kSingles = {
    Single{"config/", ".jsonc", "config.jsonc"}, Single{"groups/", ".jsonc", "groups.jsonc"},
    Single{"leader/", ".json", kLease}, Single{"journal/", ".json", "journal.json"}};
// Folders with one folder for each shard.
constexpr std::array<std::string_view, 3> kFolders = {kInstances, kLog, "probe/"};

struct InShard {
  ShardId shard;
  std::string_view rest;
};

// "a/x" is x of shard a.
std::optional<InShard> SplitShard(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  Result<ShardId> shard = ShardId::Parse(text.substr(0, slash));
  if (!shard.has_value()) return std::nullopt;
  return InShard{.shard = std::move(shard).value(), .rest = text.substr(slash + 1)};
}

// "prod.wrk06bgm7733st2576nx5jht4ecjw.json" is "prod.01970a1c-...-wrk.json"; others stay.
std::string TheirRecord(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos || !name.ends_with(kRecordEnd)) return std::string(name);
  const std::string_view id = name.substr(dot + 1, name.size() - dot - 1 - kRecordEnd.size());
  const Result<Puidv7> parsed = ReadPuidv7(id);
  if (!parsed.has_value() || parsed->text() != id) return std::string(name);
  return fmt::format("{}.{}{}", name.substr(0, dot), parsed->StorageKey(), kRecordEnd);
}

// The 16 bytes of "01970a1c-e31e-7422-9cd5-e9651d11cc97".
std::optional<UuidBytes> ParseUuid(std::string_view text) {
  constexpr std::array<std::size_t, 4> kDashes = {8, 13, 18, 23};
  if (text.size() != 36) return std::nullopt;
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = std::ranges::find(kDashes, i) != kDashes.end();
    if (dash != (text[i] == '-')) return std::nullopt;
    if (!dash) digits += text[i];
  }
  const Result<Bytes> bytes = HexDecode(digits);
  if (!bytes.has_value()) return std::nullopt;
  UuidBytes uuid{};
  std::ranges::copy(*bytes, uuid.begin());
  return uuid;
}

std::string OurRecord(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos || !name.ends_with(kRecordEnd)) return std::string(name);
  const std::string_view key = name.substr(dot + 1, name.size() - dot - 1 - kRecordEnd.size());
  constexpr std::size_t kUuidLength = 36;
  if (key.size() != kUuidLength + 1 + Puidv7::kPrefixLength || key[kUuidLength] != '-') {
    return std::string(name);
  }
  const std::optional<UuidBytes> uuid = ParseUuid(key.substr(0, kUuidLength));
  const std::string_view prefix = key.substr(kUuidLength + 1);
  if (!uuid || !CheckPuidPrefix(prefix).has_value()) return std::string(name);
  return fmt::format("{}.{}{}", name.substr(0, dot), Puidv7(prefix, *uuid).text(), kRecordEnd);
}

// Ours for a name in the scope of a shard; empty: none.
std::optional<std::string> OfShard(const ShardId& shard, std::string_view name) {
  for (const Single& single : kSingles) {
    if (name != single.theirs) continue;
    return fmt::format("{}{}{}", single.folder, shard.text(), single.suffix);
  }
  for (const std::string_view folder : kFolders) {
    if (!name.starts_with(folder)) continue;
    const std::string_view rest = name.substr(folder.size());
    return fmt::format("{}{}/{}", folder, shard.text(),
                       folder == kInstances ? OurRecord(rest) : std::string(rest));
  }
  return std::nullopt;
}

// Whether something of a shard, in a folder of its kind, may begin so.
bool MayBeOfShards(std::string_view prefix) {
  const auto meets = [prefix](std::string_view word) {
    return prefix.starts_with(word) || word.starts_with(prefix);
  };
  return std::ranges::any_of(kSingles, meets, &Single::folder) ||
         std::ranges::any_of(kFolders, meets);
}

}  // namespace

std::string NstanceV2ShardScope(const ShardId& shard) {
  return fmt::format("{}{}/", kAllShards, shard.text());
}

NstanceV2Names::NstanceV2Names(Options options) : options_(std::move(options)) {
  if (options_.shard && options_.shard_scope.empty()) {
    options_.shard_scope = NstanceV2ShardScope(*options_.shard);
  }
}

std::string NstanceV2Names::ScopeOf(const ShardId& shard) const {
  return options_.shard == shard ? options_.shard_scope : NstanceV2ShardScope(shard);
}

std::string NstanceV2Names::TheirText(std::string_view ours) const {
  if (ours == kClusterLease) return options_.cluster_scope + std::string(kLease);
  if (ours.starts_with(kClusterLog)) {
    return fmt::format("{}{}{}", options_.cluster_scope, kLog, ours.substr(kClusterLog.size()));
  }
  for (const Single& single : kSingles) {
    if (!ours.starts_with(single.folder) || !ours.ends_with(single.suffix)) continue;
    std::string_view name = ours.substr(single.folder.size());
    if (name.size() < single.suffix.size()) continue;
    name.remove_suffix(single.suffix.size());
    const Result<ShardId> shard = ShardId::Parse(name);
    if (shard.has_value()) return ScopeOf(*shard) + std::string(single.theirs);
  }
  for (const std::string_view folder : kFolders) {
    if (!ours.starts_with(folder)) continue;
    const std::optional<InShard> in = SplitShard(ours.substr(folder.size()));
    if (!in) continue;
    return fmt::format("{}{}{}", ScopeOf(in->shard), folder,
                       folder == kInstances ? TheirRecord(in->rest) : std::string(in->rest));
  }
  if (options_.shard && ours.starts_with(kFiles)) {
    return options_.shard_scope + std::string(ours.substr(kFiles.size()));
  }
  return options_.cluster_scope + std::string(ours);
}

std::optional<std::string> NstanceV2Names::OurText(std::string_view theirs) const {
  if (options_.shard && theirs.starts_with(options_.shard_scope)) {
    const std::string_view name = theirs.substr(options_.shard_scope.size());
    if (auto ours = OfShard(*options_.shard, name)) return ours;
    return std::string(kFiles) + std::string(name);
  }
  if (theirs.starts_with(kAllShards)) {
    const std::optional<InShard> in = SplitShard(theirs.substr(kAllShards.size()));
    if (in) return OfShard(in->shard, in->rest);
  }
  if (!theirs.starts_with(options_.cluster_scope)) return std::nullopt;
  const std::string_view name = theirs.substr(options_.cluster_scope.size());
  if (name.starts_with(kLog)) return fmt::format("{}{}", kClusterLog, name.substr(kLog.size()));
  return name == kLease ? std::string(kClusterLease) : std::string(name);
}

Result<ObjectKey> NstanceV2Names::Theirs(const ObjectKey& ours) const {
  ASSIGN_OR_RETURN(ObjectKey theirs, ObjectKey::Parse(TheirText(ours.text())));
  if (OurText(theirs.text()) == ours.text()) return theirs;
  return Fail(InvalidArgument(
      fmt::format("{}: layout nstance-v2 has something else at {}", ours.text(), theirs.text())));
}

std::optional<ObjectKey> NstanceV2Names::Ours(const ObjectKey& theirs) const {
  const std::optional<std::string> text = OurText(theirs.text());
  if (!text || TheirText(*text) != theirs.text()) return std::nullopt;
  Result<ObjectKey> key = ObjectKey::Parse(*text);
  if (!key.has_value()) return std::nullopt;
  return std::move(key).value();
}

std::vector<NstanceV2Names::Region> NstanceV2Names::Regions(std::string_view prefix) const {
  if (prefix.starts_with(kClusterLog)) {
    return {{.prefix = fmt::format("{}{}{}", options_.cluster_scope, kLog,
                                   prefix.substr(kClusterLog.size())),
             .in_order = true}};
  }
  for (const std::string_view folder : kFolders) {
    if (!prefix.starts_with(folder)) continue;
    const std::optional<InShard> in = SplitShard(prefix.substr(folder.size()));
    if (!in) continue;
    const std::string scope = ScopeOf(in->shard) + std::string(folder);
    if (folder != kInstances) return {{.prefix = scope + std::string(in->rest), .in_order = true}};
    // Ids are spelled differently there; what is before them is not.
    const std::size_t dot = in->rest.find('.');
    return {{.prefix = scope + std::string(in->rest.substr(
                                   0, dot == std::string_view::npos ? dot : dot + 1))}};
  }
  std::vector<Region> regions;
  if (MayBeOfShards(prefix)) regions.push_back({.prefix = std::string(kAllShards)});
  const bool files = options_.shard && (prefix.starts_with(kFiles) || kFiles.starts_with(prefix));
  const bool elsewhere = options_.shard && !options_.shard_scope.starts_with(kAllShards);
  if (files || (elsewhere && MayBeOfShards(prefix))) {
    regions.push_back({.prefix = options_.shard_scope});
  }
  if (kClusterLease.starts_with(prefix)) {
    regions.push_back({.prefix = options_.cluster_scope + std::string(kLease)});
  }
  if (kClusterLog.starts_with(prefix)) {
    regions.push_back({.prefix = options_.cluster_scope + std::string(kLog)});
  }
  // Whatever is in no folder of a shard, however it begins.
  const bool alone = regions.empty();
  regions.push_back({.prefix = options_.cluster_scope + std::string(prefix), .in_order = alone});
  return regions;
}

Result<std::vector<std::string>> SleepingTenants(std::string_view tenants_jsonc) {
  ASSIGN_OR_RETURN(
      const json::Value states,
      Under(json::Parse(tenants_jsonc, {.syntax = json::Syntax::kJsonc}), "tenants.jsonc"));
  if (states.if_object() == nullptr) {
    return Fail(InvalidArgument("tenants.jsonc: not an object of tenants"));
  }
  std::vector<std::string> asleep;
  for (const json::Member& tenant : *states.if_object()) {
    const auto has = [&tenant](std::string_view key) {
      const json::Value* value = tenant.value.Find(key);
      return value != nullptr && !value->is_null();
    };
    if (tenant.value.if_object() == nullptr) {
      return Fail(
          InvalidArgument(fmt::format("tenants.jsonc: {} is not an object", Quote(tenant.key))));
    }
    if (has("sleep") || has("transition")) asleep.push_back(tenant.key);
  }
  return asleep;
}

}  // namespace nstance

#include "admin/storage/bucket_layout.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/nstance_v2.h"
#include "storage/nstance_v2_store.h"
#include "storage/prefixed_store.h"

namespace nstance::admin {
namespace {

constexpr std::string_view kAllShards = "shard/";
constexpr std::string_view kTheirConfig = "/config.jsonc";
constexpr std::string_view kBundle = "ca.crt";

class LayoutSearch final {
 public:
  LayoutSearch(const StorageDeps& bucket, std::string prefix)
      : store_(bucket), prefix_(std::move(prefix)) {}

  Result<config::Layout> Find(const std::optional<ShardId>& shard) {
    if (shard) {
      const std::string ours = fmt::format("{}config/{}.jsonc", prefix_, shard->text());
      ASSIGN_OR_RETURN(const bool seed, Exists(ours));
      if (seed) return config::Layout::kNstance;
      ASSIGN_OR_RETURN(const bool v2, Exists(NstanceV2ShardScope(*shard) + "config.jsonc"));
      if (v2) return config::Layout::kNstanceV2;
    }
    ASSIGN_OR_RETURN(const std::vector<ObjectKey> ours, store_.List(prefix_ + "config/"));
    const auto is_config = [](const ObjectKey& key) { return key.text().ends_with(".jsonc"); };
    if (std::ranges::any_of(ours, is_config)) return config::Layout::kNstance;
    ASSIGN_OR_RETURN(const std::vector<ObjectKey> theirs, store_.List(std::string(kAllShards)));
    if (std::ranges::any_of(theirs, IsTheirConfig)) return config::Layout::kNstanceV2;
    return OfCluster();
  }

 private:
  // "shard/a/config.jsonc".
  static bool IsTheirConfig(const ObjectKey& key) {
    std::string_view text = key.text();
    if (!text.ends_with(kTheirConfig)) return false;
    text.remove_suffix(kTheirConfig.size());
    return ShardId::Parse(text.substr(kAllShards.size())).has_value();
  }

  // A prefix is there for those who know what they have: of a seed cluster it has a ca.crt as well.
  Result<config::Layout> OfCluster() {
    if (!prefix_.empty()) return config::Layout::kNstance;
    ASSIGN_OR_RETURN(const bool ours, Exists(std::string(kBundle)));
    if (ours) return config::Layout::kNstance;
    ASSIGN_OR_RETURN(const bool theirs,
                     Exists(fmt::format("{}{}", kNstanceV2ClusterScope, kBundle)));
    return theirs ? config::Layout::kNstanceV2 : config::Layout::kNstance;
  }

  Result<bool> Exists(const std::string& name) {
    ASSIGN_OR_RETURN(const ObjectKey key, ObjectKey::Parse(name));
    const Result<Object> object = store_.Get(key);
    if (object.has_value()) return true;
    if (object.error().code == Code::kNotFound) return false;
    return Fail(object.error());
  }

  StoreSession store_;
  std::string prefix_;
};

}  // namespace

Result<config::Layout> FindLayout(const StorageDeps& bucket, const StorageFlags& flags,
                                  const std::optional<ShardId>& shard) {
  if (flags.layout == LayoutFlag::kSeed) return config::Layout::kNstance;
  if (flags.layout == LayoutFlag::kNstanceV2) return config::Layout::kNstanceV2;
  ASSIGN_OR_RETURN(std::string prefix, CheckStorePrefix(flags.prefix));
  return LayoutSearch(bucket, std::move(prefix)).Find(shard);
}

Result<std::unique_ptr<ObjectStore>> NameBucket(Loop& loop, ObjectStore& bucket,
                                                const StorageFlags& flags, config::Layout layout) {
  ASSIGN_OR_RETURN(std::string prefix, CheckStorePrefix(flags.prefix));
  if (layout != config::Layout::kNstanceV2) {
    return std::make_unique<PrefixedStore>(loop, bucket, std::move(prefix));
  }
  if (prefix.empty()) prefix = kNstanceV2ClusterScope;
  return std::make_unique<NstanceV2Store>(loop, bucket,
                                          NstanceV2Names({.cluster_scope = std::move(prefix)}));
}

}  // namespace nstance::admin

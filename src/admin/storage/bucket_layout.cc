#include "admin/storage/bucket_layout.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/config_place.h"
#include "core/nstance_v2.h"
#include "storage/nstance_v2_store.h"
#include "storage/prefixed_store.h"

namespace nstance::admin {
namespace {

constexpr std::string_view kBundle = "ca.crt";

class LayoutSearch final {
 public:
  LayoutSearch(const StorageDeps& bucket, std::string prefix)
      : store_(bucket), prefix_(std::move(prefix)) {}

  Result<config::Layout> Find(const std::optional<ShardId>& shard) {
    if (shard) {
      // The prefix is the cluster's scope in the other layout, and no shard's.
      ASSIGN_OR_RETURN(const std::vector<ConfigPlace> places,
                       ConfigPlaces(*shard, {.prefix = prefix_}));
      for (const ConfigPlace& place : places) {
        ASSIGN_OR_RETURN(const bool there, Exists(place.key));
        if (there) return place.layout;
      }
    }
    for (const config::Layout layout : {config::Layout::kNstance, config::Layout::kNstanceV2}) {
      ASSIGN_OR_RETURN(const std::vector<ObjectKey> keys,
                       store_.List(ConfigsBegin(layout, prefix_)));
      const auto is_config = [&](const ObjectKey& key) { return IsConfig(layout, prefix_, key); };
      if (std::ranges::any_of(keys, is_config)) return layout;
    }
    return OfCluster();
  }

 private:
  // A prefix is there for those who know what they have: of a seed cluster it has a ca.crt as well.
  Result<config::Layout> OfCluster() {
    if (!prefix_.empty()) return config::Layout::kNstance;
    ASSIGN_OR_RETURN(const ObjectKey our_bundle, ObjectKey::Parse(kBundle));
    ASSIGN_OR_RETURN(const bool ours, Exists(our_bundle));
    if (ours) return config::Layout::kNstance;
    ASSIGN_OR_RETURN(const ObjectKey their_bundle,
                     ObjectKey::Parse(fmt::format("{}{}", kNstanceV2ClusterScope, kBundle)));
    ASSIGN_OR_RETURN(const bool theirs, Exists(their_bundle));
    return theirs ? config::Layout::kNstanceV2 : config::Layout::kNstance;
  }

  Result<bool> Exists(const ObjectKey& key) {
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

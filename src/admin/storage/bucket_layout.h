// Which names the objects of a bucket have, and the bucket by our names whichever they are.
//
// `--layout auto` decides as a server does (core/config_place.h), which has a shard to look for.
// A command without a shard, or whose shard is in neither place, asks the same of any shard; where
// there is none at all, `cluster/ca.crt` without a `ca.crt` is the cluster of an nstance-v2 whose
// shards are in other buckets, and anything else is seed.
#pragma once

#include <memory>
#include <optional>

#include "admin/storage/store_session.h"
#include "admin/storage_command.h"
#include "base/name.h"
#include "base/result.h"
#include "core/config/load.h"
#include "ports/loop.h"
#include "ports/object_store.h"

namespace nstance::admin {

// `bucket.store` is the whole bucket. Flags that name a layout are believed.
[[nodiscard]] Result<config::Layout> FindLayout(const StorageDeps& bucket,
                                                const StorageFlags& flags,
                                                const std::optional<ShardId>& shard);

// The bucket by our names. Loop and bucket outlive it. kInvalidArgument: the prefix is none.
[[nodiscard]] Result<std::unique_ptr<ObjectStore>> NameBucket(Loop& loop, ObjectStore& bucket,
                                                              const StorageFlags& flags,
                                                              config::Layout layout);

}  // namespace nstance::admin

// A command on the object store, whatever it is: finds out which names the bucket has, and runs it.
#pragma once

#include "admin/common_flags.h"
#include "admin/ending.h"
#include "admin/storage/store_session.h"
#include "admin/storage_command.h"

namespace nstance::admin {

// `bucket.store` is the whole bucket: prefix and layout are the command's.
// REQUIRES: the command needs a store (StorageOf()).
[[nodiscard]] Ending RunOnBucket(const StorageCommand& command, const CommonFlags& common,
                                 const StorageDeps& bucket);

}  // namespace nstance::admin

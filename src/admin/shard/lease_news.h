// Who leads a shard, by what its bucket says: the lease's holder and age in one clause, for the end
// of an error about a shard that nobody answers for.
//
//   "its lease is held by srv-1 (10.0.0.1:8991), renewed 3s ago: correct --servers, or ..."
#pragma once

#include <functional>
#include <string>

#include "admin/storage_command.h"
#include "base/name.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/object_store.h"
#include "ports/pending.h"

namespace nstance::admin {

// `object`: the answer to reading the lease. Its age is by the store's clock where that tells both
// moments, else by `now` against when the store, or at last the holder, says that it was written.
[[nodiscard]] std::string LeaseClause(const Result<Object>& object, Timestamp now);

// Where leases are.
struct LeaseBucket {
  ObjectStore* store = nullptr;  // The whole bucket; null: nobody has said.
  std::string prefix = {};       // Of our names; it ends with a slash, unless empty.
  LayoutFlag layout = LayoutFlag::kAuto;
};

using LeaseTold = std::move_only_function<void(const Result<Object>& object)>;
// Reads the lease of a shard: one call of the store, or with kAuto a second one when it is not
// there by our name: then it may have that of layout nstance-v2.
// REQUIRES: there is a store; it outlives the Pending.
[[nodiscard]] Pending ReadLease(const LeaseBucket& bucket, const ShardId& shard, LeaseTold told);

}  // namespace nstance::admin

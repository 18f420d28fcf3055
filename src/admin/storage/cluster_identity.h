// The cluster's CA and token key, for commands: read, and where a command may, created.
#pragma once

#include "admin/storage/cluster_view.h"
#include "admin/storage/store_session.h"
#include "base/result.h"
#include "core/cluster_keys_machine.h"

namespace nstance::admin {

// CA and token key; what is missing is created. The error of the first look ends it, but for one
// of the store that may pass, which is given 20 s.
[[nodiscard]] Result<ClusterIdentityRef> CreateIdentity(const StorageDeps& deps,
                                                        StoreSession& store, Secrets& secrets,
                                                        ClusterKeysMachine::Options options);

// The same, where nothing may be created: what is missing is kFailedPrecondition, with what to do.
[[nodiscard]] Result<ClusterIdentityRef> ReadIdentity(const StorageDeps& deps, StoreSession& store,
                                                      Secrets& secrets, const ClusterView& view);

}  // namespace nstance::admin

// `nstance-admin cert ...`: the deny list, `deny/cluster.json` (core/deny_list.h).
//
// Changes are compare-and-swap: two that run at the same time are both in the list afterwards.
#pragma once

#include "admin/common_flags.h"
#include "admin/ending.h"
#include "admin/storage/store_session.h"
#include "admin/storage_command.h"

namespace nstance::admin {

[[nodiscard]] Ending Run(const CertDeny& command, const CommonFlags& common,
                         const StorageDeps& deps);
[[nodiscard]] Ending Run(const CertDenied& command, const CommonFlags& common,
                         const StorageDeps& deps);

}  // namespace nstance::admin

// `nstance-admin cluster init`: a cluster that is ready to run, in one command.
//
// What is absent is created, each piece create-only and in an order in which a process that dies
// anywhere leaves nothing wrong behind: the key file, the configuration (which says where the key
// is and whose the secrets are), then CA and token key. The same command again completes it; on a
// complete cluster it changes nothing. What is there is never replaced, nor is a new key made for
// secrets that an old one has sealed. A bucket of layout nstance-v2 is refused: what would be
// written beside its cluster is another one, with a CA of its own.
#pragma once

#include "admin/common_flags.h"
#include "admin/ending.h"
#include "admin/storage/store_session.h"
#include "admin/storage_command.h"

namespace nstance::admin {

// Makes the folder that is to be the bucket, if it is one: before that nothing can be asked of it.
[[nodiscard]] Status PrepareBucket(const ClusterInit& command, const StorageDeps& deps);

[[nodiscard]] Ending Run(const ClusterInit& command, const CommonFlags& common,
                         const StorageDeps& deps);

}  // namespace nstance::admin

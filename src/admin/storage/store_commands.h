// `nstance-admin store ...`: the store itself: is it honest, what is in it, its repair, its price.
#pragma once

#include "admin/common_flags.h"
#include "admin/ending.h"
#include "admin/storage/store_session.h"
#include "admin/storage_command.h"

namespace nstance::admin {

// The server's own check of conditional writes. Exit 1 when a rule fails or nothing can be said.
[[nodiscard]] Ending Run(const StoreProbeOrder& command, const CommonFlags& common,
                         const StorageDeps& deps);

// The bytes of an object on stdout; on stderr what they are. Secrets stay sealed. Exit 3: no such.
[[nodiscard]] Ending Run(const StoreShow& command, const CommonFlags& common,
                         const StorageDeps& deps);

// A new journal above every epoch that the shard's objects tell of, and without intents: they are
// in the records too. Refused while somebody leads; written only over what was looked at.
[[nodiscard]] Ending Run(const StoreResetJournal& command, const CommonFlags& common,
                         const StorageDeps& deps);

// Requests per month of an idle cluster, by the budgets that the tests hold it to.
[[nodiscard]] Ending Run(const StoreCost& command, const CommonFlags& common);

}  // namespace nstance::admin

// `nstance-admin secrets reseal`: after a change of the encryption key, or of the envelope.
//
// Every secret is rewritten with the present key in the envelope v1, each by compare-and-swap: one
// that is not opened, or changes meanwhile, stays as it is. The command may die and be repeated at
// any point; what is sealed so already is left alone.
#pragma once

#include "admin/common_flags.h"
#include "admin/ending.h"
#include "admin/storage/store_session.h"
#include "admin/storage_command.h"

namespace nstance::admin {

[[nodiscard]] Ending Run(const SecretsReseal& command, const CommonFlags& common,
                         const StorageDeps& deps);

}  // namespace nstance::admin

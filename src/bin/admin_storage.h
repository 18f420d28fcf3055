// nstance-admin's commands on the object store, on this machine: wires the real parts and runs one.
#pragma once

#include "admin/common_flags.h"
#include "admin/ending.h"
#include "admin/storage_command.h"

namespace nstance::admin {

[[nodiscard]] Ending RunStorageCommand(const StorageCommand& command, const CommonFlags& common);

}  // namespace nstance::admin

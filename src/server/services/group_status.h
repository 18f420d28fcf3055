// GroupStatus of wire.md 5 and 7.5, from the groups in force and the fleet.
#pragma once

#include "ports/api/groups.h"
#include "server/fleet/fleet.h"
#include "server/groups_snapshot.h"

namespace nstance {

[[nodiscard]] api::GroupStatus GroupStatusOf(const Fleet& fleet, const TenantId& tenant,
                                             const GroupKey& key, const MergedGroup& group);

}  // namespace nstance

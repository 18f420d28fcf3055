// What a valid configuration asks for and this build does not do yet: one line per feature and
// place, so that nobody waits for something that never comes.
//
//   for (const std::string& line : InactiveFeatures(config)) log.Warning("not yet active", ...);
//
//   groups.default.web.pool: not yet active: the group makes no instances
#pragma once

#include <string>
#include <vector>

#include "core/config/config.h"

namespace nstance {

// In the order of the file's roots, then by name. Empty: everything that is configured is in force.
[[nodiscard]] std::vector<std::string> InactiveFeatures(const config::Config& config);

// Of one group, which need not be in the file.
[[nodiscard]] std::vector<std::string> InactiveFeatures(const TenantId& tenant, const GroupKey& key,
                                                        const config::GroupLayer& group);

}  // namespace nstance

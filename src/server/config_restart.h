// What of a changed configuration a reload does not apply (server.md 12).
#pragma once

#include <string_view>
#include <vector>

#include "core/config/config.h"

namespace nstance {

// The keys ("server.bind", "server.secrets.provider") in which `now` differs from what this process
// was started with. They take effect at the next start.
[[nodiscard]] std::vector<std::string_view> NeedsRestart(const config::Config& started,
                                                         const config::Config& now);

}  // namespace nstance

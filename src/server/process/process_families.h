// The metrics that the process itself keeps (server.md 15).
#pragma once

#include "base/metrics.h"

namespace nstance {

[[nodiscard]] const metrics::Family& AlarmsTotal();
[[nodiscard]] const metrics::Family& LeaderChangesTotal();
[[nodiscard]] const metrics::Family& TakeOverSeconds();
[[nodiscard]] const metrics::Family& LoopLagSeconds();
// Observed by whoever owns the loop.
[[nodiscard]] const metrics::Family& LoopTurnSeconds();

}  // namespace nstance

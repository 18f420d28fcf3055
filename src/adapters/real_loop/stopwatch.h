// A clock for what something costs: RealLoop's Now() stands still inside a turn, this one goes on.
#pragma once

#include "base/time.h"

namespace nstance {

// Monotonic, of the same kind as RealLoop's. Any thread.
[[nodiscard]] Instant ReadStopwatch();

}  // namespace nstance

// The cells that runs have to hit: step and fault, as test/sim/cells.tsv marks them `required`
// (cells_test holds the two against each other).
#pragma once

#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "sim/world/scenario.h"

namespace nstance::sim {

// In the order of the file.
[[nodiscard]] const std::vector<std::pair<Step, Fault>>& RequiredCells();

}  // namespace nstance::sim

// The cells that runs have to hit: step and fault, as test/sim/cells.tsv marks them `required`
// (cells_test holds the lists against the file).
#pragma once

#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "sim/world/scenario.h"

namespace nstance::sim {

// Those that are drawn for some of the runs (scenario.h), in the order of the file. Another one
// among them gives every seed with cells another meaning.
[[nodiscard]] const std::vector<std::pair<Step, Fault>>& RequiredCells();

// Those that need no draw, in the order of the file: events bring them about.
[[nodiscard]] const std::vector<std::pair<Step, Fault>>& CellsOfEvents();

}  // namespace nstance::sim

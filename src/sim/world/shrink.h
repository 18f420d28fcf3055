// Shrink: the smallest run that still violates the invariant that a run has violated.
//
//   const Shrunk small = Shrink(scenario, {}, {.most_runs = 200});
//   fmt::print("nstance-sim --seed {}{} --trace\n", scenario.seed, FormatCut(small.cut));
//
// Parts are left out by trial, each by a run of its own, and stay out when the same invariant is
// still violated:
//   1. what comes after the violation: later events, and the rest of the hostile phase
//   2. events: halves of them, quarters, ..., single ones
//   3. servers, then instances of the groups
//   4. what makes a setting special: disks, lags of the provider, expiry, short lives
//   5. the length of events; the hostile phase up to its last event
// and again from 2 on, since a smaller world may need fewer events, until nothing more can go or
// `most_runs` is reached.
//
// Guarantees, each held by a test:
//   - Apply(cut, scenario) is `scenario` of the result, and running it gives `report`.
//   - `report` violates the invariant that the given scenario violates, if it violates one.
//   - At most `most_runs` runs are made, and one at least.
//   - Servers stay as many as were drawn while some of them are lost for good: no shard that a
//     scenario would have left a server is left without one.
#pragma once

#include <functional>

#include "sim/world/cut.h"
#include "sim/world/run.h"

namespace nstance::sim {

struct Shrunk {
  Cut cut = {};
  Scenario scenario;
  RunReport report;
  int runs = 0;
};

struct ShrinkOptions {
  int most_runs = 200;
  // Hears of every step on the way: what has become smaller, and after how many runs.
  std::function<void(const Shrunk& so_far)> told = {};
};

[[nodiscard]] Shrunk Shrink(const Scenario& scenario, const RunOptions& run,
                            const ShrinkOptions& options);

}  // namespace nstance::sim

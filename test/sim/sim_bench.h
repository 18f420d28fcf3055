// How fast the simulator runs: three servers and fifty agents in a quiet world, with every checker.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"

namespace nstance::sim {

struct BenchResult {
  Duration simulated = {};  // After all agents have joined.
  Duration cpu = {};        // Of this process, for that.
  std::uint64_t tasks = 0;
  std::uint64_t trace_hash = 0;
};
// kInternal: an invariant is violated, or the agents do not join.
[[nodiscard]] Result<BenchResult> RunBench(Duration length);

// For people, in one line.
void PrintBench(const BenchResult& result);

}  // namespace nstance::sim

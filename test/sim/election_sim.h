// Election simulation: two to four servers, each an elector and a journal writer, over one simulated
// bucket, against everything that faults.md allows: pauses, crashes at any task, wall clocks that jump,
// monotonic clocks of other rates, one-way partitions, lost and late answers, writes that land minutes
// later, lease objects that are corrupt, foreign or gone, two servers of one id, memory restored from a
// saved state. Invariants are checked after every task (election_checkers.h); then the faults stop and
// exactly one leader must come forth, and replace itself in time when it is killed.
//
// A run is a function of its options: same seed, same trace hash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "test/sim/election_plants.h"

namespace nstance::sim {

struct ElectionOptions {
  std::uint64_t seed = 0;
  Plant plant = Plant::kNone;
  enum class Trace : std::uint8_t { kOff, kOn } trace = Trace::kOff;
};

struct ElectionReport {
  std::optional<std::string> violation;
  std::uint64_t trace_hash = 0;
  std::uint64_t steps = 0;
  std::vector<std::string> trace;

  // What was reached, so that a test can tell that the run was worth something.
  std::uint64_t acquisitions = 0;
  std::uint64_t take_overs = 0;
  std::uint64_t losses = 0;
  std::uint64_t commits = 0;
  std::uint64_t effects = 0;
  std::uint64_t refused_effects = 0;  // The lease left no time for them.
  std::uint64_t restores = 0;
  std::uint64_t vandalisms = 0;
};

[[nodiscard]] ElectionReport RunElection(const ElectionOptions& options);

// The command that replays a run.
[[nodiscard]] std::string ReplayCommand(const ElectionOptions& options);

}  // namespace nstance::sim

// Election simulation: two to four servers, each an elector and a journal writer, over one
// simulated bucket, against everything that faults.md allows: pauses, crashes at any task, restarts
// of all at once, wall clocks that jump, monotonic clocks of other rates, one-way partitions, lost
// and late answers, stale reads, writes that land minutes later, lease objects that are corrupt,
// foreign or gone, a damaged journal, two servers of one id, memory restored from a saved state,
// take-overs that hang. Invariants are checked after every task (election_checkers.h); then the
// faults stop and exactly one leader must come forth, stay, and be replaced in time when it is
// killed.
//
// A run is a function of its options: same seed, same trace hash.
//
//   const ElectionReport report = RunElection({.seed = 7});
//   if (report.violation) fmt::print("{}; {}", *report.violation, ReplayCommand({.seed = 7}));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "test/sim/election_plants.h"
#include "test/sim/election_server.h"

namespace nstance::sim {

struct ElectionOptions {
  std::uint64_t seed = 0;
  Plant plant = Plant::kNone;
  std::string blind_to = {};  // Of ElectionCheckers.
  enum class Trace : std::uint8_t { kOff, kOn } trace = Trace::kOff;
};

struct ElectionReport {
  std::optional<std::string> violation;
  std::uint64_t trace_hash = 0;
  std::uint64_t steps = 0;
  std::vector<std::string> trace;

  ElectionCounts counts;
};

[[nodiscard]] ElectionReport RunElection(const ElectionOptions& options);

// The command that replays a run.
[[nodiscard]] std::string ReplayCommand(const ElectionOptions& options);

}  // namespace nstance::sim

// RunScenario: one simulated run from its seed to its verdict.
//
//   const RunReport report = RunScenario(DrawScenario({.seed = 7}), {});
//   if (report.violation) fmt::print("{}: {}", report.violation->invariant, ...);
//
// A run is a function of scenario and options: same seed, same build, same trace hash.
//
//   hostile   faults and work, 15 minutes
//   calm      no faults, no work; T_quiet of faults.md 1, longer while the brake or a
//             creation's back-off holds
//   verdict   the checkers of quiescence and of the whole trace
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/world/scenario.h"
#include "sim/world/step_faults.h"
#include "sim/world/world.h"

namespace nstance::sim {

struct RunOptions {
  Plant plant = Plant::kNone;
  bool trace = false;
  std::set<std::string, std::less<>> blind_to = {};
  // One more, for tests.
  std::function<std::unique_ptr<Checker>(CheckerWorld&)> another_checker = {};
};

// The calm time, after BeginCalm(): until Quiet() may be asked for.
void RunUntilQuiet(World& world);

struct RunReport {
  std::optional<Violation> violation = std::nullopt;
  std::uint64_t trace_hash = 0;
  std::uint64_t tasks = 0;
  Duration simulated = {};
  std::vector<std::string> timeline = {};
  std::set<std::string> reached = {};
  Cells cells = {};
};

[[nodiscard]] RunReport RunScenario(const Scenario& scenario, const RunOptions& options);

}  // namespace nstance::sim

#include "sim/world/run.h"

#include <algorithm>
#include <utility>

#include "sim/world/director.h"

namespace nstance::sim {
namespace {

std::vector<Event> AtSteps(const std::vector<Event>& events) {
  std::vector<Event> some;
  std::ranges::copy_if(events, std::back_inserter(some),
                       [](const Event& event) { return event.kind == EventKind::kAtStep; });
  return some;
}

// T_quiet has room for the longest back-off of a group whose creations have failed, but only with
// the times as they are shipped: this one is no setting (server.md 5), so it is not shrunk with the
// others. It ends when one creation has proved itself; whoever waits longer is stuck.
void WaitForBackoffs(World& world) {
  constexpr Duration kStep = Duration::Seconds(15);
  const Duration longest = Duration::Seconds(300 + 75);  // With its jitter.
  const fleet::FleetTimes& times = world.setting().times;
  const Duration proof = times.registration_timeout + times.proven_after;
  const Instant most = world.now() + longest + proof;
  while (!world.violation() && world.now() < most && world.Holds("create-backoff")) {
    world.RunFor(kStep);
  }
}

}  // namespace

void RunUntilQuiet(World& world) {
  if (!world.violation()) world.RunFor(world.setting().Quiet());
  WaitForBackoffs(world);
  // Whole windows until nothing waits for the brake any more.
  for (int windows = 0; windows < 20 && !world.violation() && world.Holds("brake"); ++windows) {
    world.RunFor(world.setting().brake_window);
  }
}

RunReport RunScenario(const Scenario& scenario, const RunOptions& options) {
  World world({.seed = scenario.seed,
               .setting = scenario.setting,
               .at_steps = AtSteps(scenario.events),
               .plant = options.plant,
               .trace = options.trace,
               .blind_to = options.blind_to,
               .another_checker = options.another_checker});
  Director director(world, scenario.events);
  director.Start();
  world.RunFor(scenario.hostile);
  if (!world.violation()) {
    const Duration late = director.EndFaults();
    world.RunFor(late);
    RunUntilQuiet(world);
    if (!world.violation()) world.Quiet();
  }
  return {.violation = world.violation(),
          .trace_hash = world.TraceHash(),
          .tasks = world.scheduler().steps(),
          .simulated = world.now().since_zero(),
          .timeline = world.timeline(),
          .reached = world.reached(),
          .cells = world.step_faults().cells()};
}

}  // namespace nstance::sim

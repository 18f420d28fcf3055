#include "test/sim/sim_bench.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "sim/world/world.h"

namespace nstance::sim {
namespace {

constexpr int kAgents = 50;

Duration CpuTime() {
  return Duration::Microseconds(static_cast<std::int64_t>(std::clock()) * 1'000'000 /
                                CLOCKS_PER_SEC);
}

bool AllServe(World& world) {
  const std::vector<AgentMachine*> agents = world.Agents();
  return std::ssize(agents) == kAgents && std::ranges::all_of(agents, &AgentMachine::serving);
}

}  // namespace

Result<BenchResult> RunBench(Duration length) {
  World world({.seed = 1,
               .setting = {.servers_a = 3, .servers_b = 0, .workers = 30, .api = 20, .edge = 0}});
  for (int minutes = 0; minutes < 30 && !world.violation() && !AllServe(world); ++minutes) {
    world.RunFor(Duration::Minutes(1));
  }
  if (!world.violation() && !AllServe(world)) return Fail(Internal("the agents do not join"));
  const std::uint64_t tasks = world.scheduler().steps();
  const Duration before = CpuTime();
  world.RunFor(length);
  const Duration cpu = CpuTime() - before;
  if (world.violation()) {
    return Fail(Internal(world.violation()->invariant + ": " + world.violation()->what));
  }
  return BenchResult{.simulated = length,
                     .cpu = cpu,
                     .tasks = world.scheduler().steps() - tasks,
                     .trace_hash = world.TraceHash()};
}

void PrintBench(const BenchResult& result) {
  const auto seconds = [](Duration length) {
    return static_cast<double>(length.nanoseconds()) / 1e9;
  };
  const double cpu = std::max(seconds(result.cpu), 1e-6);
  fmt::print(
      "3 servers, {} agents: {:.0f} simulated s per CPU s, {:.0f} tasks per CPU s ({:.1f} tasks a "
      "simulated second; {:.2f} CPU s for {:.0f} simulated s; trace {:016x})\n",
      kAgents, seconds(result.simulated) / cpu, static_cast<double>(result.tasks) / cpu,
      static_cast<double>(result.tasks) / std::max(seconds(result.simulated), 1e-6), cpu,
      seconds(result.simulated), result.trace_hash);
}

}  // namespace nstance::sim

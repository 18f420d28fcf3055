#include "sim/world/schedule.h"

#include <algorithm>
#include <array>
#include <span>

#include "sim/world/required_cells.h"

namespace nstance::sim {
namespace {

constexpr Duration kMinute = Duration::Minutes(1);

// Journal, groups, records, provider, signatures, the address.
constexpr std::array kEffects = {Step::kC2, Step::kC3, Step::kC4, Step::kC5, Step::kR5, Step::kR6,
                                 Step::kR7, Step::kD3, Step::kD6, Step::kX1, Step::kX3, Step::kX5,
                                 Step::kG4, Step::kL4, Step::kL8, Step::kW4, Step::kW5, Step::kW8};

Duration Between(Duration least, Duration most, Prng& prng) {
  return least + prng.UpTo(most - least);
}

std::vector<Event> LostAnswers(Prng& prng) {
  std::vector<Event> events;
  for (const auto& [step, fault] : RequiredCells()) {
    if (fault != Fault::kF4 && fault != Fault::kF8) continue;
    // One of the first calls, and one of those that follow.
    for (const std::int64_t most : {3, 30}) {
      events.push_back({.kind = EventKind::kAtStep,
                        .length = Between(Duration::Seconds(1),
                                          prng.Chance(1, 4) ? kMinute * 10 : kMinute, prng),
                        .draw = prng.Next(),
                        .step = step,
                        .passing = static_cast<std::uint32_t>(prng.Between(1, most)),
                        .fault = fault,
                        .insists = true});
    }
  }
  return events;
}

std::vector<Event> Clog(const Scenario& scenario, Prng& prng) {
  constexpr std::array kLinks = {EventKind::kCutStore, EventKind::kCutProvider,
                                 EventKind::kCutAgents, EventKind::kCutOperator};
  const auto machines = static_cast<std::size_t>(scenario.setting.servers_a) +
                        static_cast<std::size_t>(scenario.setting.servers_b);
  std::vector<Event> events;
  for (std::size_t machine = 0; machine < machines; ++machine) {
    for (const EventKind link : kLinks) {
      events.push_back({.kind = link, .draw = prng.Next(), .machine = machine});
    }
  }
  prng.Shuffle(std::span(events));
  const Duration each = Between(Duration::Seconds(1), Duration::Seconds(12), prng);
  const Duration whole = each * static_cast<std::int64_t>(events.size());
  const Duration first = prng.UpTo(scenario.hostile - whole - whole - kMinute);
  for (std::size_t i = 0; i < events.size(); ++i) {
    events[i].at = first + each * static_cast<std::int64_t>(i);
    events[i].length = first + whole + prng.UpTo(whole) - events[i].at;
  }
  return events;
}

std::vector<Event> PauseAtFence(const Scenario& scenario, Prng& prng) {
  std::vector<Event> events;
  events.reserve(kEffects.size());
  for (const Step step : kEffects) {
    events.push_back({.kind = EventKind::kAtStep,
                      .length = scenario.setting.lease + prng.UpTo(kMinute),
                      .draw = prng.Next(),
                      .step = step,
                      .passing = static_cast<std::uint32_t>(prng.Between(1, 12)),
                      .fault = Fault::kF12,
                      .insists = true});
  }
  return events;
}

std::vector<Event> RestartStorms(const Scenario& scenario, Prng& prng) {
  std::vector<Event> events;
  Duration at = prng.UpTo(scenario.hostile / 2);
  for (std::int64_t storms = prng.Between(2, 5); storms > 0; --storms) {
    for (const EventKind kind : {EventKind::kRestartStorm, EventKind::kAgentStorm}) {
      events.push_back({.kind = kind, .at = at, .draw = prng.Next()});
    }
    // In the middle of what the last one has begun, or when all is well again.
    at = at + (prng.Chance(1, 2) ? prng.UpTo(scenario.setting.lease * 3) : prng.UpTo(kMinute * 4));
  }
  return events;
}

std::vector<Event> EmptyWorlds(const Scenario& scenario, Prng& prng) {
  std::vector<Event> events;
  for (std::int64_t times = prng.Between(1, 3); times > 0; --times) {
    const Duration length = Between(kMinute / 2, kMinute * 5, prng);
    const Duration at = prng.UpTo(scenario.hostile - length);
    events.push_back(
        {.kind = EventKind::kEmptyWorld, .at = at, .length = length, .draw = prng.Next()});
    // Whoever leads next has never seen the machines.
    if (!prng.Chance(2, 3)) continue;
    events.push_back(
        {.kind = EventKind::kRestartStorm, .at = at + prng.UpTo(length / 2), .draw = prng.Next()});
  }
  return events;
}

}  // namespace

std::vector<Event> DrawSchedule(const Scenario& scenario, Prng& prng) {
  switch (scenario.schedule) {
    case Schedule::kLostAnswers: return LostAnswers(prng);
    case Schedule::kClog: return Clog(scenario, prng);
    case Schedule::kPauseAtFence: return PauseAtFence(scenario, prng);
    case Schedule::kRestartStorm: return RestartStorms(scenario, prng);
    case Schedule::kEmptyWorld: return EmptyWorlds(scenario, prng);
    default: return {};
  }
}

}  // namespace nstance::sim

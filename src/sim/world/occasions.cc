#include "sim/world/occasions.h"

#include <array>

namespace nstance::sim {
namespace {

struct Occasion {
  EventKind kind;
  std::int64_t most;
  std::int64_t shortest_s;
  std::int64_t longest_s;
};
constexpr std::array kOccasions = {
    Occasion{EventKind::kSpotNotice, 4, 5, 90},     Occasion{EventKind::kSameRequest, 2, 0, 0},
    Occasion{EventKind::kWornLease, 3, 5, 15},      Occasion{EventKind::kBrokenConfig, 2, 20, 90},
    Occasion{EventKind::kBlink, 3, 0, 0},           Occasion{EventKind::kGreatShrink, 1, 1, 10},
    Occasion{EventKind::kResetDisk, 3, 1, 5},       Occasion{EventKind::kPauseAtLog, 4, 12, 30},
    Occasion{EventKind::kLateCreation, 1, 60, 100}, Occasion{EventKind::kNoCapacity, 2, 20, 90},
    Occasion{EventKind::kTwoHang, 2, 120, 200},
};

// Somebody else writes to a record right before its leader does.
Event DrawRival(Prng& prng) {
  constexpr std::array kSteps = {Step::kC5, Step::kR5, Step::kX1, Step::kX5};
  return {.kind = EventKind::kAtStep,
          .length = Duration::Seconds(1),
          .draw = prng.Next(),
          .step = kSteps.at(prng.Below(kSteps.size())),
          .passing = 1 + static_cast<std::uint32_t>(prng.Below(12)),
          .fault = Fault::kF5};
}

}  // namespace

std::vector<Event> DrawOccasions(const Scenario& scenario, Prng& prng) {
  std::vector<Event> events;
  if (!prng.Chance(1, 2)) return events;
  for (const Occasion& occasion : kOccasions) {
    if (!prng.Chance(1, 3)) continue;
    for (std::int64_t count = prng.Between(1, occasion.most); count > 0; --count) {
      events.push_back(
          {.kind = occasion.kind,
           .at = prng.UpTo(scenario.hostile),
           .length = Duration::Seconds(prng.Between(occasion.shortest_s, occasion.longest_s)),
           .draw = prng.Next()});
    }
  }
  if (!prng.Chance(1, 3)) return events;
  for (std::int64_t count = prng.Between(1, 4); count > 0; --count) {
    events.push_back(DrawRival(prng));
  }
  return events;
}

}  // namespace nstance::sim

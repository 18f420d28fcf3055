// What of the holds of a plan is news: holds that began, and holds that are over, since the plan
// before. A hold that only goes on is no news, also when its detail or its time changes.
//
//   for (const HoldNews& news : CompareHolds(before.holds, after.holds)) Tell(news);
//
// Many instances of a group are often held by one cause (drift, mass silence). More than a few of
// one code that begin, or end, together are one piece of news that names them all.
//
// Guarantees, each held by a test:
//   - no allocation when nothing changed (LB12)
//   - every (instance, code) that is in exactly one of the two is in exactly one piece of news
//   - the news of one comparison are at most a few for each code
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/puidv7.h"
#include "base/time.h"
#include "core/fleet/plan.h"

namespace nstance::fleet {

// Up to this many instances are told of one by one.
inline constexpr std::size_t kFewHolds = 4;

struct HoldNews {
  enum class Kind : std::uint8_t { kBegan, kOver };
  Kind kind = Kind::kBegan;
  Hold hold = {};                          // Of many: the first one.
  std::vector<InstanceId> instances = {};  // Empty: the group.
};

// REQUIRES: both are sorted as Plan::holds are, by instance, then code, and have nothing twice.
[[nodiscard]] std::vector<HoldNews> CompareHolds(std::span<const Hold> before,
                                                 std::span<const Hold> after);

// "creations wait after a failure (quota: ...), for 25s", "no longer: ...".
[[nodiscard]] std::string Describe(const HoldNews& news, Instant now);

}  // namespace nstance::fleet

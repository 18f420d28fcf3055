#include "core/fleet/times.h"

#include <algorithm>

#include "base/fault_point.h"

namespace nstance::fleet {
namespace {

constexpr Duration kMaxDifference = Duration::Seconds(60);

}  // namespace

Timestamp CorrectedNow(Timestamp wall, std::optional<Timestamp> store_now) {
  if (!store_now) return wall;
  const Duration ahead = wall - *store_now;
  const bool agree = ahead <= kMaxDifference && ahead >= Duration() - kMaxDifference;
  return agree ? wall : *store_now;
}

FleetTimes ForProvider(FleetTimes times, Duration consistency_window) {
  if (consistency_window == Duration()) {
    times.t_vis = Duration::Seconds(5);
    times.t_settle = Duration();
    return times;
  }
  times.t_vis = std::max(times.t_vis, consistency_window);
  times.t_settle = std::max(times.t_settle, consistency_window);
  return times;
}

Instant MomentOf(Timestamp stored, const ClockReading& clock) {
  return clock.mono - std::max(clock.wall - stored, Duration());
}

Instant DeadlineOf(const StoredDeadline& stored, const ClockReading& clock) {
  const Duration longest = std::max(stored.length, Duration());
  if (Planted(Plant::kRestartsDrainDeadline)) return clock.mono + longest;
  return clock.mono + std::clamp(stored.deadline - clock.wall, Duration(), longest);
}

Timestamp WallTimeOf(Instant at, const ClockReading& clock) {
  return clock.wall + (at - clock.mono);
}

}  // namespace nstance::fleet

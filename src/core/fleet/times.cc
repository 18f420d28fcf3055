#include "core/fleet/times.h"

#include <algorithm>

namespace nstance::fleet {

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
  return clock.mono + std::clamp(stored.deadline - clock.wall, Duration(), longest);
}

Timestamp WallTimeOf(Instant at, const ClockReading& clock) {
  return clock.wall + (at - clock.mono);
}

}  // namespace nstance::fleet

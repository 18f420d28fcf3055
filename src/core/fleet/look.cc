#include "core/fleet/look.h"

#include <algorithm>

#include "base/fault_point.h"

namespace nstance::fleet {

void LookLog::OnBegun(Instant now) {
  in_flight = true;
  attempted_at = now;
  ++attempts;
}

void LookLog::OnFound(ProviderStatus found, Instant now) {
  in_flight = false;
  failed = false;
  status = found;
  found_at = now;
  missing_first.reset();
  missing_last.reset();
  if (!IsDead(found)) {
    dead_since.reset();
  } else if (!dead_since) {
    dead_since = now;
  }
}

void LookLog::OnNotFound(Instant now, Instant vm_since, const FleetTimes& times) {
  in_flight = false;
  failed = false;
  if (now - vm_since < times.t_settle) {
    if (!Planted(Plant::kIgnoresSettle)) return;
    missing_first = now - times.t_vis;
  }
  if (!missing_first) missing_first = now;
  missing_last = now;
}

void LookLog::OnError() {
  in_flight = false;
  failed = true;
}

void LookLog::OnReport() {
  attempts = 0;
  // Whoever reports exists.
  missing_first.reset();
  missing_last.reset();
}

Absence JudgeAbsence(const LookLog& looks, const FleetTimes& times) {
  if (!looks.missing_first || !looks.missing_last) return Absence::kPresent;
  if (Planted(Plant::kFirstNotFound)) return Absence::kAbsent;
  return *looks.missing_last - *looks.missing_first >= times.t_vis ? Absence::kAbsent
                                                                   : Absence::kSuspect;
}

std::optional<Instant> NextLook(const LookLog& looks, Instant since, const FleetTimes& times) {
  constexpr Duration kFirstGap = Duration::Seconds(3);
  constexpr Duration kLongestGap = Duration::Seconds(30);
  constexpr int kDoublings = 4;  // 3 s x 2^4 is above the cap.
  if (looks.in_flight) return std::nullopt;
  Instant due = since;
  if (looks.attempted_at && *looks.attempted_at >= since) {
    const int doublings = std::clamp(looks.attempts - 1, 0, kDoublings);
    due = *looks.attempted_at + std::min(kFirstGap * (std::int64_t{1} << doublings), kLongestGap);
  }
  if (JudgeAbsence(looks, times) == Absence::kSuspect) {
    due = std::max(due, *looks.missing_first + times.t_vis);
  }
  return due;
}

}  // namespace nstance::fleet

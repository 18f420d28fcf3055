#include "core/agent/report_schedule.h"

#include <algorithm>

namespace nstance::agent {
namespace {

constexpr Duration kUrgentSpacing = Duration::Seconds(1);

}  // namespace

void ReportSchedule::Opened(Instant now) {
  open_ = true;
  full_ = false;
  next_ = now;
}

void ReportSchedule::Urgent(Instant now) {
  next_ = std::min(next_, std::max(now, last_sent_ + kUrgentSpacing));
}

void ReportSchedule::Sent(Instant now, Prng& jitter) {
  last_sent_ = now;
  const Duration tenth = interval_ / 10;
  next_ = now + (interval_ - tenth) + jitter.UpTo(tenth * 2);
}

Instant ReportSchedule::due() const {
  if (!open_ || full_ || interval_ <= Duration()) return Instant::Never();
  return next_;
}

}  // namespace nstance::agent

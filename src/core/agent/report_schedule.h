// ReportSchedule: when the next health report is due.
//
//   - at once when the stream opens
//   - every interval, give or take a tenth
//   - at once for news (Urgent), but such reports are at least 1 s after the one before
//   - not while the stream is closed or its queue is full: then only the newest waits, because a
//     report is made when it is due, not when it was asked for
// An interval of zero disables reports altogether.
#pragma once

#include "base/prng.h"
#include "base/time.h"

namespace nstance::agent {

class ReportSchedule final {
 public:
  explicit ReportSchedule(Duration interval) : interval_(interval) {}

  void Opened(Instant now);
  void Closed() { open_ = false; }
  // Something changed that the server should know.
  void Urgent(Instant now);
  // A report was taken by the stream.
  void Sent(Instant now, Prng& jitter);
  // The stream's queue is full; Drained() ends that.
  void Full() { full_ = true; }
  void Drained() { full_ = false; }

  // Never() when none is due by itself.
  [[nodiscard]] Instant due() const;

 private:
  Duration interval_;
  bool open_ = false;
  bool full_ = false;
  Instant next_ = Instant::Never();
  Instant last_sent_ = Instant::FromClock(Duration::Min());
};

}  // namespace nstance::agent

#include "adapters/real_loop/stopwatch.h"

#include <cerrno>
#include <ctime>

#include "base/check.h"

namespace nstance {

Instant ReadStopwatch() {
  timespec now{};
  CHECK(clock_gettime(CLOCK_BOOTTIME, &now) == 0, "errno {}", errno);
  return Instant::FromClock(Duration::Seconds(now.tv_sec) + Duration::Nanoseconds(now.tv_nsec));
}

}  // namespace nstance

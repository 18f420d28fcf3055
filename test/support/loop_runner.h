// RunUntil: runs a real loop until something is true, or until a limit that only a broken test
// meets.
#pragma once

#include <functional>

#include "adapters/real_loop/real_loop.h"

namespace nstance::test {

// Runs turns of `loop` on this thread until `condition` holds; true if it did within `limit`. The
// condition is looked at every millisecond, so it may depend on other threads.
[[nodiscard]] inline bool RunUntil(RealLoop& loop, const std::function<bool()>& condition,
                                   Duration limit = Duration::Seconds(30)) {
  if (condition()) return true;
  const Instant end = loop.Now() + limit;
  bool met = false;
  Pending timer;
  const std::function<void()> look = [&] {
    met = condition();
    if (met || loop.Now() >= end) {
      loop.Stop();
    } else {
      timer = loop.CallAfter(Duration::Milliseconds(1), look);
    }
  };
  timer = loop.CallAfter({}, look);
  loop.Run();
  return met;
}

}  // namespace nstance::test

// BackOff: how long to wait before the next try: first, twice that, and so on up to a cap, each
// lengthened by chance by up to a quarter. The server's rule for everything that has none of its
// own (1 s, at most 30 s).
#pragma once

#include <algorithm>

#include "base/prng.h"
#include "base/time.h"

namespace nstance {

class BackOff final {
 public:
  struct Limits {
    Duration first = Duration::Seconds(1);
    Duration cap = Duration::Seconds(30);
  };

  BackOff() : BackOff(Limits{}) {}
  explicit BackOff(Limits limits) : limits_(limits), next_(limits.first) {}

  [[nodiscard]] Duration Next(Prng& jitter) {
    const Duration length = next_;
    next_ = std::min(next_ * 2, limits_.cap);
    return length + jitter.UpTo(length / 4);
  }
  void Reset() { next_ = limits_.first; }

 private:
  Limits limits_;
  Duration next_;
};

}  // namespace nstance

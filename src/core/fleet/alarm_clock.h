// AlarmClock: the moment of planning, and the next moment at which a comparison with it would come
// out differently. All comparisons with time go through it, so `replan_at` cannot be forgotten.
#pragma once

#include <optional>

#include "base/time.h"

namespace nstance::fleet {

class AlarmClock {
 public:
  explicit AlarmClock(Instant now) : now_(now) {}

  [[nodiscard]] Instant now() const { return now_; }
  // Whether `at` has come; if not, the clock remembers it.
  [[nodiscard]] bool Reached(Instant at) {
    if (now_ >= at) return true;
    Wake(at);
    return false;
  }
  void Wake(std::optional<Instant> at) {
    if (at && *at > now_ && (!next_ || *at < *next_)) next_ = at;
  }
  [[nodiscard]] std::optional<Instant> next() const { return next_; }

 private:
  Instant now_;
  std::optional<Instant> next_ = std::nullopt;
};

}  // namespace nstance::fleet

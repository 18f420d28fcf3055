// Backoff: how long to wait before a stream or a connection of the agent is tried again.
//
//   waits    min(cap, 0.5 s x 2^n) x uniform(0.5, 1.5), n = failures in a row
//   cap      2 s during the first minute of an outage, 30 s afterwards
//   lived    after 30 s of life n is 0 again, and the first wait is uniform(0, 1 s) only
//
// So a fail-over is quick and still no stampede. Some statuses change that:
//
//   kAborted                             replaced by another connection: at least 5 s
//   kUnauthenticated, kPermissionDenied  cap 60 s at any time
//   kUnimplemented                       cap 5 min at any time
//
// One object per stream; an outage begins with the first failure after a life of 30 s (or ever).
#pragma once

#include <optional>

#include "base/error.h"
#include "base/prng.h"
#include "base/time.h"

namespace nstance::agent {

class Backoff final {
 public:
  // The attempt has become a stream or a connection.
  void Opened(Instant now) { opened_at_ = now; }

  // The attempt failed or the stream ended; empty: a clean end, which counts as kUnavailable.
  // Returns how long to wait before the next attempt.
  [[nodiscard]] Duration Ended(Instant now, std::optional<Code> code, Prng& jitter);

  // Since when there was no life of 30 s; empty before the first failure.
  [[nodiscard]] std::optional<Instant> outage_since() const { return outage_since_; }

 private:
  std::optional<Instant> opened_at_;
  std::optional<Instant> outage_since_;
  int failures_ = 0;
};

// `length` times uniform(0.5, 1.5).
[[nodiscard]] Duration Jittered(Duration length, Prng& jitter);
// 0.5 s x 2^n, at most `cap`. REQUIRES: n >= 0.
[[nodiscard]] Duration Doubled(int n, Duration cap);

}  // namespace nstance::agent

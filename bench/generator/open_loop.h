// OpenLoop: work by a fixed schedule that does not wait for anybody.
//
// Number n is due at start + n / rate. Whoever measures a latency counts from that time, not from
// when the work was really begun, so that a slow server cannot hide its slowness by slowing the
// generator down.
//
//   loop_ = std::make_unique<OpenLoop>(loop, OpenLoop::Plan{.per_second = 100, .total = 3'000},
//                                      [](std::uint64_t n, Instant due) { ... }, [] { ... });
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/check.h"
#include "ports/loop.h"

namespace nstance::bench {

class OpenLoop final {
 public:
  struct Plan {
    std::uint64_t per_second = 0;  // REQUIRES: not 0.
    std::uint64_t total = 0;
  };
  using Due = std::function<void(std::uint64_t number, Instant due)>;

  // `done` runs after the last one was begun; it may destroy the OpenLoop.
  OpenLoop(Loop& loop, Plan plan, Due due, std::move_only_function<void()> done)
      : loop_(loop), plan_(plan), due_(std::move(due)), done_(std::move(done)), start_(loop.Now()) {
    CHECK(plan.per_second > 0);
    timer_ = loop_.CallAfter({}, [this] { Turn(); });
  }

  // The most that the beginning of anything was late: the generator's own weakness.
  [[nodiscard]] Duration behind() const { return behind_; }

 private:
  [[nodiscard]] Instant At(std::uint64_t number) const {
    const std::uint64_t seconds = number / plan_.per_second;
    const std::uint64_t rest = number % plan_.per_second;
    return start_ + Duration::Seconds(static_cast<std::int64_t>(seconds)) +
           Duration::Nanoseconds(
               static_cast<std::int64_t>(rest * 1'000'000'000 / plan_.per_second));
  }
  void Turn() {
    const Instant now = loop_.Now();
    while (next_ < plan_.total && At(next_) <= now) {
      behind_ = std::max(behind_, now - At(next_));
      due_(next_, At(next_));
      ++next_;
    }
    if (next_ < plan_.total) {
      timer_ = loop_.CallAt(At(next_), [this] { Turn(); });
      return;
    }
    auto done = std::move(done_);
    done();
  }

  Loop& loop_;
  Plan plan_;
  Due due_;
  std::move_only_function<void()> done_;
  Instant start_;
  std::uint64_t next_ = 0;
  Duration behind_;
  Pending timer_;
};

}  // namespace nstance::bench

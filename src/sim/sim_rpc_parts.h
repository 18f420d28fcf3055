// Parts that both sides of a simulated call share; see sim_rpc.h.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "base/time.h"
#include "ports/loop.h"
#include "ports/pending.h"
#include "ports/rpc.h"

namespace nstance::sim {

// Counts messages between Send() and the moment when the other side has taken them.
class SimSendQueue final {
 public:
  static constexpr std::size_t kFull = 16;
  static constexpr std::size_t kDrained = 4;

  [[nodiscard]] bool full() const { return outstanding_ >= kFull; }
  // REQUIRES: not full.
  RpcSend Take() {
    ++outstanding_;
    if (!full()) return RpcSend::kTaken;
    owes_drained_ = true;
    return RpcSend::kTakenNowFull;
  }
  // One was handed over; whether `drained` is due.
  [[nodiscard]] bool Credit() {
    --outstanding_;
    if (!owes_drained_ || outstanding_ > kDrained) return false;
    owes_drained_ = false;
    return true;
  }

 private:
  std::size_t outstanding_ = 0;
  bool owes_drained_ = false;
};

// Tells the events of one call, one per turn of the loop.
class SimTeller final : public std::enable_shared_from_this<SimTeller> {
 public:
  enum class Begin : std::uint8_t { kAtOnce, kWhenListening };
  SimTeller(Loop& loop, Begin begin) : loop_(loop), listening_(begin == Begin::kAtOnce) {}

  // In order, and not while paused.
  void Tell(Task tell) {
    if (over_) return;
    in_order_.push_back(std::move(tell));
    Schedule();
  }
  // Also while paused, ahead of what waits.
  void TellAtOnce(Task tell) {
    if (over_) return;
    at_once_.push_back(std::move(tell));
    Schedule();
  }
  // The last one; everything that waits is dropped.
  void End(Task tell) {
    if (over_) return;
    Stop();
    at_once_.push_back(std::move(tell));
    Schedule();
  }
  // No more events.
  void Stop() {
    over_ = true;
    in_order_.clear();
    at_once_.clear();
  }
  void Listen() {
    listening_ = true;
    Schedule();
  }
  // Tells now, in one turn, everything that may be told.
  void Flush() {
    const auto self = shared_from_this();
    while (HasWork()) RunNext();
  }
  void Pause() { paused_ = true; }
  void Resume() {
    paused_ = false;
    Schedule();
  }

 private:
  [[nodiscard]] bool HasWork() const {
    return listening_ && (!at_once_.empty() || (!paused_ && !in_order_.empty()));
  }
  void Schedule() {
    if (posted_ || !HasWork()) return;
    posted_ = true;
    loop_.Post([weak = weak_from_this()] {
      if (const auto teller = weak.lock()) teller->Look();
    });
  }
  void Look() {
    posted_ = false;
    if (HasWork()) RunNext();
  }
  void RunNext() {
    auto& queue = at_once_.empty() ? in_order_ : at_once_;
    Task next = std::move(queue.front());
    queue.pop_front();
    Schedule();
    next();
  }

  Loop& loop_;
  bool listening_ = false;
  bool paused_ = false;
  bool over_ = false;
  bool posted_ = false;
  std::deque<Task> in_order_;
  std::deque<Task> at_once_;
};

// Calls an event that may replace or destroy itself: it is out of its place while it runs, and goes
// back unless the place was filled, or `still_there` no longer holds.
template <class Function, class StillThere, class... Arguments>
void CallEvent(Function& place, const StillThere& still_there, Arguments&&... arguments) {
  if (!place) return;
  Function running = std::exchange(place, nullptr);
  running(std::forward<Arguments>(arguments)...);
  if (still_there() && !place) place = std::move(running);
}

// Pings after a silence, and says so when nothing comes back.
class SimKeepalive final {
 public:
  struct Options {
    Duration after;
    Duration limit;
    Task ping;
    Task dead;
  };
  SimKeepalive(Loop& loop, Options options)
      : loop_(loop), options_(std::move(options)), heard_(loop.Now()) {
    Wait();
  }
  // Something came.
  void Heard() { heard_ = loop_.Now(); }

 private:
  void Wait() {
    timer_ = loop_.CallAt(heard_ + options_.after, [this] { OnSilence(); });
  }
  void OnSilence() {
    if (loop_.Now() < heard_ + options_.after) return Wait();
    options_.ping();
    timer_ = loop_.CallAfter(options_.limit, [this, since = heard_] {
      if (heard_ == since) return options_.dead();  // May destroy this.
      Wait();
    });
  }

  Loop& loop_;
  Options options_;
  Instant heard_;
  Pending timer_;
};

}  // namespace nstance::sim

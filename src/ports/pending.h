// Pending: the handle of something that was asked for and has not answered yet.
//
// Every asynchronous call of a port takes a callback and returns a Pending. The rules are the same
// everywhere, so that a component's destructor is all the clean-up it needs:
//   - the callback runs at most once (streams: until the last event), on the loop of the caller,
//     never from inside the call that asked
//   - destroying or replacing the Pending means that the callback will not run; it is destroyed
//     then
//   - it cancels the *answer*, not the effect: a write that was under way may still happen
//   - a default-made Pending waits for nothing
#pragma once

#include <functional>
#include <utility>

namespace nstance {

class [[nodiscard]] Pending {
 public:
  Pending() = default;
  // `cancel` runs once, when the handle goes. It must be harmless after the answer was given.
  explicit Pending(std::move_only_function<void()> cancel) : cancel_(std::move(cancel)) {}
  Pending(Pending&& other) noexcept : cancel_(std::exchange(other.cancel_, nullptr)) {}
  Pending& operator=(Pending&& other) noexcept {
    if (this != &other) {
      Cancel();
      cancel_ = std::exchange(other.cancel_, nullptr);
    }
    return *this;
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() { Cancel(); }

  void Cancel() {
    if (auto cancel = std::exchange(cancel_, nullptr)) cancel();
  }

 private:
  std::move_only_function<void()> cancel_;
};

}  // namespace nstance

// SimScheduler: virtual time for a whole simulated world, on one thread.
//
// Time moves only when nothing is ready: then it jumps to the next timer. Of all tasks that are
// ready at one moment, whichever loop they belong to, the seed picks the next one, so every order
// that the real world could produce is reachable and every run can be repeated: same seed, same
// program, same order, same trace hash.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "ports/loop.h"

namespace nstance::sim {

class SimScheduler final {
 public:
  explicit SimScheduler(std::uint64_t seed) : prng_(seed) {}
  SimScheduler(const SimScheduler&) = delete;
  SimScheduler& operator=(const SimScheduler&) = delete;

  // World time, from zero.
  [[nodiscard]] Instant now() const { return now_; }
  // Chance for faults and workloads of the same run.
  [[nodiscard]] Prng& prng() { return prng_; }

  // Runs one task, moving time forward if none is ready. False when nothing is left to do.
  bool Step();
  // Runs everything that is due up to `end`, then sets the time to `end`.
  void RunUntil(Instant end);
  void RunFor(Duration length) { RunUntil(now_ + length); }
  // Runs until `done` holds (checked after every task) or `limit` has passed; tells which.
  bool RunUntilTrue(const std::function<bool()>& done, Duration limit);

  // Over the times and numbers of all tasks run so far.
  [[nodiscard]] std::uint64_t trace_hash() const { return trace_hash_; }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  friend class SimLoop;

  // Whom tasks belong to: one per loop.
  struct Owner {
    bool paused = false;
    Instant ran_at = {};   // World time of its last task.
    Task first = nullptr;  // Runs before any other of its tasks.
  };

  // What waits is in a place of its own; places are used again. A handle is the number of the task,
  // which is never used again, and its place: handles are ordered as their tasks were added.
  using Handle = std::uint64_t;
  static constexpr unsigned kPlaceBits = 20;

  enum class State : std::uint8_t {
    kGone,     // Nobody is in this place.
    kWaiting,  // In `waiting_` or `fresh_` with the time that it has now.
    kReady,    // In `ready_`.
    kHeld,     // Due, but its owner is paused.
  };
  struct Entry {
    Owner* owner;
    Instant at;  // World time.
    Task task;
    std::optional<Instant> own_at = std::nullopt;  // Timers: the same in the owner's time.
    State state = State::kWaiting;
    Handle handle = 0;
  };
  struct Due {
    Instant at;
    Handle handle = 0;
    friend auto operator<=>(const Due&, const Due&) = default;
  };

  Handle Add(Entry entry);
  void Cancel(Handle handle);
  void Forget(const Owner& owner);
  // Makes ready what came due while the owner was paused.
  void Release(const Owner& owner);
  // The owner's clock has changed: `to_world` tells what its times now mean, and may change them.
  void MoveTimers(const Owner& owner, const std::function<Instant(Instant&)>& to_world);

  // Timers and tasks of the owner that wait.
  [[nodiscard]] std::size_t Waiting(const Owner& owner) const { return Of(owner).size(); }

  // Null when it has been run or cancelled.
  [[nodiscard]] Entry* Find(Handle handle);
  [[nodiscard]] Task TakeOut(Entry& entry);
  // Those of one owner, in the order in which they were added.
  [[nodiscard]] std::vector<Handle> Of(const Owner& owner) const;
  void Wait(Entry& entry, Instant at);
  // Whether this is where the entry waits, and not what is left of an earlier wait.
  [[nodiscard]] bool IsCurrent(const Due& due);
  void Pop();
  // The next time at which something is due. Never() and false: nothing waits.
  struct Next {
    bool any = false;
    Instant at;
  };
  [[nodiscard]] Next NextDue();
  void DropStale();
  void CollectReady();
  void RunReady();
  void Run(Owner& owner, std::uint64_t number, Task task);

  Prng prng_;
  Instant now_;
  std::uint64_t next_number_ = 1;
  std::vector<Entry> places_;
  std::vector<std::uint32_t> free_places_;
  // Both may name what was cancelled or moved since.
  std::vector<Due> waiting_;      // A heap, the earliest first: not yet due.
  std::vector<Due> fresh_;        // Due already when it was added.
  std::vector<Handle> ready_;     // Due now; may name cancelled, moved or held ones.
  std::size_t live_waiting_ = 0;  // How many entries wait, in either.
  std::uint64_t trace_hash_ = 0xCBF29CE484222325U;
  std::uint64_t steps_ = 0;
  const Owner* running_ = nullptr;  // Whose task runs now.
  const Owner* last_ = nullptr;     // Whose task ran last; may be gone since.
};

}  // namespace nstance::sim

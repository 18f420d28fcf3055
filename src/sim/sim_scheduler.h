// SimScheduler: virtual time for a whole simulated world, on one thread.
//
// Time moves only when nothing is ready: then it jumps to the next timer. Of all tasks that are
// ready at one moment, whichever loop they belong to, the seed picks the next one, so every order
// that the real world could produce is reachable and every run can be repeated: same seed, same
// program, same order, same trace hash.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
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
  using Key = std::pair<Instant, std::uint64_t>;  // Due time and number.

  // Whom tasks belong to: one per loop.
  struct Owner {
    bool paused = false;
  };

  struct Entry {
    const Owner* owner;
    Instant at;  // World time.
    Task task;
    std::optional<Instant> own_at = std::nullopt;  // Timers: the same in the owner's time.
    bool held = false;                             // Due, but its owner is paused.
  };

  std::uint64_t Add(Entry entry);
  void Cancel(std::uint64_t number);
  void Forget(const Owner& owner);
  // Makes ready what came due while the owner was paused.
  void Release(const Owner& owner);
  // The owner's clock has changed: `to_world` tells what its times now mean.
  void MoveTimers(const Owner& owner, const std::function<Instant(Instant)>& to_world);
  void CollectReady();
  void RunReady();

  Prng prng_;
  Instant now_;
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, Entry> entries_;  // By number: everything that waits.
  std::map<Key, std::uint64_t> waiting_;    // Not yet due.
  std::vector<std::uint64_t> ready_;        // Due now; may name cancelled, moved or held ones.
  std::uint64_t trace_hash_ = 0xCBF29CE484222325U;
  std::uint64_t steps_ = 0;
};

}  // namespace nstance::sim

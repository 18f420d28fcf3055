// Loop: time, timers and turns. The one door through which time enters.
//
// All mutable state of a process lives on one loop. Tasks run one after the other on its thread and
// never block. Guarantees, held by the contract suite for the real and the simulated loop:
//   - a task never runs from inside Post() or CallAt(), and never inside another task
//   - every posted task runs once; a timer at most once, not early, and not at all once its Pending
//     is gone, even if it is due already
//   - timers of different times run in that order, as long as the earlier one is due first
//   - Now() stands still while a task runs. It never goes back, except in a process that was
//     restored from a saved state: then who watches the clock is told before anything else runs,
//     and timers keep what was left of their length: they run at an earlier Now() than was said
// Tasks that are ready at the same moment run in any order, also those of one poster: whoever needs
// an order keeps a queue of its own and posts "look at the queue".
// Post() may be called from any thread; everything else only on the loop's own.
#pragma once

#include <functional>

#include "base/time.h"
#include "ports/pending.h"

namespace nstance {

using Task = std::move_only_function<void()>;

class Loop {
 public:
  Loop() = default;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  virtual ~Loop() = default;

  // Monotonic; goes on while the machine is suspended.
  [[nodiscard]] virtual Instant Now() const = 0;
  // UTC as this machine believes it; may jump either way.
  [[nodiscard]] virtual Timestamp WallNow() const = 0;

  virtual void Post(Task task) = 0;

  // Runs `task` when Now() has reached `at` (at once if it has), unless the Pending goes first.
  virtual Pending CallAt(Instant at, Task task) = 0;

  // Runs `told` whenever the loop finds that Now() has gone back (faults.md RU9): when it next has
  // something to run, or when its next timer would have been due.
  virtual Pending WatchClock(Task told) = 0;

  Pending CallAfter(Duration delay, Task task) { return CallAt(Now() + delay, std::move(task)); }
};

}  // namespace nstance

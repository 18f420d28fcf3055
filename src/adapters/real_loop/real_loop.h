// RealLoop: the loop of a real process, on epoll.
//
// Besides what ports/loop.h promises, adapters that live on it can wait for descriptors, so that a
// whole agent runs on one thread. Time is CLOCK_BOOTTIME: it goes on while the machine is
// suspended, and a timer that fell due meanwhile fires at once on resume. The clock is read before
// each task and stands still while it runs.
//
// One turn: callbacks of ready descriptors, then timers that are due, then what was posted before
// the turn began. A task that posts itself again therefore never keeps sockets or timers waiting.
//
// Threads: Run() owns the thread that calls it. Post() and Stop() may be called from any thread;
// everything else on the loop's thread, or before Run(). Pendings and DescriptorWatches must not
// outlive the loop. Tasks that have not run when the loop is destroyed are destroyed unrun.
//
// Start-up fails only when the kernel refuses a descriptor; that is a CHECK, since nothing can be
// done without a loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ports/loop.h"

namespace nstance {

struct Interest {
  bool readable = false;
  bool writable = false;
  friend bool operator==(Interest, Interest) = default;
};

struct Readiness {
  bool readable = false;
  bool writable = false;
  // The peer is gone or the descriptor failed; reading tells how.
  bool closed = false;
};

class DescriptorWatch;

class RealLoop final : public Loop {
 public:
  using ReadClock = Instant (*)();

  RealLoop();
  // With another clock, for tests; timers wait by its lengths then.
  explicit RealLoop(ReadClock clock);
  ~RealLoop() override;

  [[nodiscard]] Instant Now() const override;
  [[nodiscard]] Timestamp WallNow() const override;
  void Post(Task task) override;
  Pending CallAt(Instant at, Task task) override;
  Pending WatchClock(Task told) override;

  // Runs turns until Stop(). May be called again afterwards.
  void Run();
  // Ends Run() after the present turn; without a running Run(), the next one returns at once.
  void Stop();

  // Told how long each turn worked, waiting not counted. Before Run().
  void ObserveTurns(std::function<void(Duration)> turn);

  // True on the thread that is inside Run().
  [[nodiscard]] bool OnLoopThread() const;

  using DescriptorCallback = std::move_only_function<void(Readiness)>;
  // Level-triggered; without any interest it is silent. The descriptor stays the caller's: it must
  // stay open while it is watched. Events that were already collected for a watch that is destroyed
  // meanwhile are dropped.
  [[nodiscard]] std::unique_ptr<DescriptorWatch> Watch(int descriptor, Interest interest,
                                                       DescriptorCallback callback);

 private:
  friend class DescriptorWatch;
  struct State;
  std::unique_ptr<State> state_;
};

// Ends when destroyed, also from inside its own callback.
class DescriptorWatch final {
 public:
  DescriptorWatch(const DescriptorWatch&) = delete;
  DescriptorWatch& operator=(const DescriptorWatch&) = delete;
  ~DescriptorWatch();

  void SetInterest(Interest interest);

 private:
  friend class RealLoop;
  DescriptorWatch(RealLoop::State& loop, std::uint64_t id, int descriptor)
      : loop_(loop), id_(id), descriptor_(descriptor) {}

  RealLoop::State& loop_;
  std::uint64_t id_;
  int descriptor_;
  Interest interest_;
};

}  // namespace nstance

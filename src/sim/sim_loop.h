// SimLoop: the loop of one simulated process. Destroying it is what kill -9 does: everything that
// it was going to run is gone.
//
// It is stricter than the real loop: tasks that are ready at the same moment run in an order chosen
// by the seed, also those posted by one task after the other.
//
// A process has clocks of its own. Its monotonic clock may run slower or faster than the world's,
// stand still from outside while the process is paused (it runs on; nothing else does), and go back
// when the process is restored from a saved state, the only case in which Now() does. Its wall
// clock runs at the same rate and may jump.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/check.h"
#include "ports/loop.h"
#include "sim/sim_scheduler.h"

namespace nstance::sim {

class SimLoop final : public Loop {
 public:
  // A rate of 1: the process's seconds are the world's.
  static constexpr std::int64_t kTrueRate = 1'000;

  // The process believes that it is `wall_start` when its monotonic clock is zero. `scheduler` must
  // outlive the loop.
  SimLoop(SimScheduler& scheduler, Timestamp wall_start)
      : scheduler_(scheduler), wall_start_(wall_start) {}
  ~SimLoop() override { scheduler_.Forget(owner_); }

  [[nodiscard]] Instant Now() const override {
    return own_anchor_ + Scale(scheduler_.now() - world_anchor_, rate_, kTrueRate);
  }
  [[nodiscard]] Timestamp WallNow() const override { return wall_start_ + Now().since_zero(); }
  void Post(Task task) override {
    scheduler_.Add({.owner = &owner_, .at = scheduler_.now(), .task = std::move(task)});
  }
  Pending CallAt(Instant at, Task task) override {
    const std::uint64_t number = scheduler_.Add(
        {.owner = &owner_, .at = ToWorld(at), .task = std::move(task), .own_at = at});
    return Pending([scheduler = &scheduler_, number] { scheduler->Cancel(number); });
  }

  Pending WatchClock(Task told) override {
    const std::uint64_t number = ++clock_watches_made_;
    clock_watches_->emplace(number, std::make_shared<Task>(std::move(told)));
    return Pending([watches = clock_watches_, number] { watches->extract(number); });
  }

  // The wall clock is set forward, or back with a negative length.
  void JumpWall(Duration length) { wall_start_ = wall_start_ + length; }

  // From now on the process's clocks run at `thousandths` of the world's speed. REQUIRES: above
  // zero.
  void SetRate(std::int64_t thousandths) {
    CHECK(thousandths > 0, "rate {}", thousandths);
    Anchor(Now());
    rate_ = thousandths;
    MoveTimers();
  }

  // Nothing runs until Resume(); what came due meanwhile runs then, in any order.
  void Pause() {
    owner_.paused = true;
    ++pauses_;
  }
  void Resume() {
    owner_.paused = false;
    scheduler_.Release(owner_);
  }
  [[nodiscard]] bool paused() const { return owner_.paused; }
  [[nodiscard]] std::uint64_t pauses() const { return pauses_; }  // So far.
  // Timers and tasks that wait.
  [[nodiscard]] std::size_t waiting() const { return scheduler_.Waiting(owner_); }
  [[nodiscard]] std::int64_t rate() const { return rate_; }
  // One of its tasks is being run.
  [[nodiscard]] bool running() const { return scheduler_.running_ == &owner_; }
  // The last task of all was one of its own.
  [[nodiscard]] bool ran_last() const { return scheduler_.last_ == &owner_; }

  // The monotonic clock of a saved state goes on from `at`, and the wall clock with it.
  void SetClock(Instant at) {
    const Instant seen = own_anchor_ + Scale(std::max(owner_.ran_at, world_anchor_) - world_anchor_,
                                             rate_, kTrueRate);
    Anchor(at);
    if (at >= seen) return MoveTimers();  // The process cannot know.
    owner_.first = [this] { TellOfClock(); };
    scheduler_.MoveTimers(owner_, [&](Instant& own) {
      if (own != Instant::Never()) own = own - (seen - at);
      return ToWorld(own);
    });
  }

 private:
  // length * numerator / denominator, rounded up, exact for any length of a simulation.
  static Duration Scale(Duration length, std::int64_t numerator, std::int64_t denominator) {
    if (numerator == denominator) return length;
    const std::int64_t whole = length.nanoseconds() / denominator;
    const std::int64_t rest = length.nanoseconds() % denominator * numerator;
    const std::int64_t up = rest > 0 ? denominator - 1 : 0;
    return (Duration::Nanoseconds(whole) * numerator) +
           Duration::Nanoseconds((rest + up) / denominator);
  }
  [[nodiscard]] Instant ToWorld(Instant at) const {
    if (at == Instant::Never()) return at;
    return world_anchor_ + Scale(at - own_anchor_, kTrueRate, rate_);
  }
  void Anchor(Instant own) {
    own_anchor_ = own;
    world_anchor_ = scheduler_.now();
  }
  void MoveTimers() {
    scheduler_.MoveTimers(owner_, [this](Instant at) { return ToWorld(at); });
  }

  void TellOfClock() {
    const std::shared_ptr<ClockWatches> watches = clock_watches_;
    // Who is told may end its own or another watch, or the whole process.
    const std::map<std::uint64_t, std::weak_ptr<Task>> all(watches->begin(), watches->end());
    for (const auto& [number, watch] : all) {
      if (const std::shared_ptr<Task> told = watch.lock()) (*told)();
    }
  }

  using ClockWatches = std::map<std::uint64_t, std::shared_ptr<Task>>;

  SimScheduler& scheduler_;
  SimScheduler::Owner owner_;
  std::shared_ptr<ClockWatches> clock_watches_ = std::make_shared<ClockWatches>();
  std::uint64_t clock_watches_made_ = 0;
  Timestamp wall_start_;
  std::int64_t rate_ = kTrueRate;
  std::uint64_t pauses_ = 0;
  Instant own_anchor_;
  Instant world_anchor_;
};

}  // namespace nstance::sim

// SimLoop: the loop of one simulated process. Destroying it is what kill -9 does: everything that
// it was going to run is gone.
//
// It is stricter than the real loop: tasks that are ready at the same moment run in an order chosen
// by the seed, also those posted by one task after the other.
#pragma once

#include "ports/loop.h"
#include "sim/sim_scheduler.h"

namespace nstance::sim {

class SimLoop final : public Loop {
 public:
  // The process believes that it is `wall_start` when world time is zero. `scheduler` must outlive
  // the loop.
  SimLoop(SimScheduler& scheduler, Timestamp wall_start)
      : scheduler_(scheduler), wall_start_(wall_start) {}
  ~SimLoop() override { scheduler_.Forget(this); }

  [[nodiscard]] Instant Now() const override { return scheduler_.now(); }
  [[nodiscard]] Timestamp WallNow() const override {
    return wall_start_ + scheduler_.now().since_zero();
  }
  void Post(Task task) override { scheduler_.Add(this, scheduler_.now(), std::move(task)); }
  Pending CallAt(Instant at, Task task) override {
    const std::uint64_t number = scheduler_.Add(this, at, std::move(task));
    return Pending([scheduler = &scheduler_, number] { scheduler->Cancel(number); });
  }

  // The wall clock is set forward, or back with a negative length.
  void JumpWall(Duration length) { wall_start_ = wall_start_ + length; }

 private:
  SimScheduler& scheduler_;
  Timestamp wall_start_;
};

}  // namespace nstance::sim

// Elector: holds one lease (of a shard, or of the cluster) for one process: the runner of
// core/lease_machine.h over an object store.
//
// Everything happens on the loop. The owner is told through callbacks, made one at a time after the
// elector's own state has settled; a callback may call any method and may destroy the elector.
//
//   acquired(term)   the lease is ours. The owner takes over and calls TakenOver(); renewal goes on
//                    meanwhile. Not taken over within the limit: lost(kTakeOverFailed), released.
//   lost(why)        leadership has ended: no effect may start any more. Not made for what the
//                    owner itself asked for (StepDown, Stop).
//   alarm(what)      the record was missing, corrupt or another program's; in a turn of its own
//
// Guarantees: those of LeaseMachine, and each held by a test
//   - MayStart(bound) is true only while this process holds the lease and an effect of that length
//     ends before its deadline; to be asked in the turn that starts the effect
//   - a write that the store applied without telling its version is read back
//   - StepDown and Stop call nothing back from inside; after Stop only `stopped` is called
//   - a clock that went back or another boot id ends leadership before the next effect or renewal
//   - destroying the elector leaves no timer and no callback; the record then expires by itself
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/fault_point.h"
#include "core/lease_machine.h"
#include "core/object_key.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"
#include "ports/secure_random.h"

namespace nstance {

class Elector final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;
    SecureRandom& random;
    bool of_shard = true;  // Its steps are those that the simulator knows.
    // LeaseMachine::Input::boot_id. Asked before every event and effect, so it must be quick.
    std::function<std::string()> boot_id = [] { return std::string(); };
  };
  struct Owner {
    std::move_only_function<void(std::int64_t term)> acquired;
    std::move_only_function<void(LeaseLoss)> lost;
    std::move_only_function<void(LeaseAlarm)> alarm = [](LeaseAlarm) {};
  };

  Elector(Deps deps, ObjectKey key, LeaseMachine machine, Owner owner)
      : deps_(std::move(deps)),
        key_(std::move(key)),
        machine_(std::move(machine)),
        owner_(std::make_shared<Owner>(std::move(owner))) {}
  Elector(const Elector&) = delete;
  Elector& operator=(const Elector&) = delete;
  ~Elector() = default;

  void Start();
  // Releases what may be ours, at most until `release_by`; then `stopped`, once, never from inside
  // this call. Nothing else is told afterwards.
  void Stop(Instant release_by, std::move_only_function<void()> stopped);

  void TakenOver() { machine_.TakenOver(); }
  // Releases the lease and leaves it to others for a while. The owner has stopped its effects.
  void StepDown();
  // What the next event would notice, now: time that is over or went back, another boot id.
  void Look() { Do(machine_.OnTime(Input())); }

  [[nodiscard]] bool Leads() { return MayStart(Duration()); }
  [[nodiscard]] bool MayStart(Duration bound);
  [[nodiscard]] const LeaseMachine& machine() const { return machine_; }

 private:
  [[nodiscard]] LeaseMachine::Input Input();
  void Do(LeaseStep step);
  void Tell(const LeaseStep& step);
  // What the simulator knows a call as; `in_standby`: before the lease is ours.
  [[nodiscard]] Step StepOfCall(Step in_standby) const;
  void Read();
  void Write(LeaseStep::Write& write);

  Deps deps_;
  ObjectKey key_;
  LeaseMachine machine_;
  std::shared_ptr<Owner> owner_;  // Also held by the callback that runs: it may destroy us.
  bool stops_ = false;
  std::move_only_function<void()> stopped_;
  Pending call_;
  Pending timer_;
  Pending look_;
  Pending clock_;
  Pending alarm_;
};

}  // namespace nstance

// DeletionRun: carries one deletion out: the runner of deletion_machine.h. The engine owns it and
// is told the end by DeletionFinished().
#pragma once

#include <string>
#include <utility>

#include "server/fleet/deletion_machine.h"
#include "server/fleet/fleet.h"

namespace nstance {

class DeletionRun final {
 public:
  DeletionRun(Fleet::Engine& engine, InstanceId id, DeletionMachine machine)
      : engine_(engine), id_(std::move(id)), machine_(std::move(machine)) {}
  DeletionRun(const DeletionRun&) = delete;
  DeletionRun& operator=(const DeletionRun&) = delete;

  void Start() { Do(machine_.Start(Input())); }
  [[nodiscard]] const DeletionMachine& machine() const { return machine_; }

 private:
  using Machine = DeletionMachine;

  void Do(Machine::Command command);
  // The same after the provider's answer. Whether something is in its way is for the planner to
  // see: a hold.
  void Answered(bool was_troubled, Machine::Command command);
  [[nodiscard]] Machine::Input Input();
  void WriteDeleting();
  void CallDelete();
  void Look();
  void Bury();
  [[nodiscard]] ProviderTarget Target() const;

  Fleet::Engine& engine_;
  InstanceId id_;
  DeletionMachine machine_;
  // The provider id that is recorded has become another VM's: ours is found by its tag, or is gone.
  bool by_tag_ = false;
  Pending call_;
};

}  // namespace nstance

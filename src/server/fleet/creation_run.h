// CreationRun: carries one creation out: the runner of creation_machine.h.
//
// It waits for its turn (plan_turn.cc picks), writes the record, calls the provider, and looks
// where the answer was lost. The engine owns it and is told the end by CreationFinished().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/instance_config/merge.h"
#include "server/fleet/creation_machine.h"
#include "server/fleet/creation_request.h"
#include "server/fleet/fleet.h"
#include "server/user_data_fetch.h"

namespace nstance {

class CreationRun final {
 public:
  struct Plan {
    NewInstance instance;
    int priority = 5;
    // What it is made from; empty: there is a record already, or only a tombstone is to be written.
    std::optional<MergedInstanceConfig> config = std::nullopt;
    // On-demand: the record is written at once, without waiting for a turn.
    std::move_only_function<void(Status)> recorded = nullptr;
  };

  CreationRun(Fleet::Engine& engine, Plan plan, CreationMachine machine);
  CreationRun(const CreationRun&) = delete;
  CreationRun& operator=(const CreationRun&) = delete;
  ~CreationRun();

  void Start();
  void TurnCame();
  void NoLongerWanted();

  [[nodiscard]] const CreationMachine& machine() const { return machine_; }
  [[nodiscard]] int priority() const { return plan_.priority; }
  [[nodiscard]] Instant waiting_since() const { return waiting_since_; }
  [[nodiscard]] std::optional<Instant> not_before() const { return not_before_; }

 private:
  using Machine = CreationMachine;

  void Do(Machine::Command command);
  [[nodiscard]] Machine::Input Input();
  void Prepare();
  void FetchThenRender(const InstanceRecord& record, const config::UserData& userdata);
  void Render(InstanceRecord record, std::optional<std::string> fetched);
  void NotPrepared(const Error& error);
  void WriteFirst(InstanceRecord record);
  void OnRecorded(Result<StoredRecord> stored);
  void Ready();
  // The type's architecture is learnt first.
  void Call();
  void CallNow();
  void Look();
  void WriteProvisioned(const ProviderInstance& vm);
  void WriteFailed(const Error& error, fleet::FailureClass failure);
  void Bury(const Error& why);
  void OnWritten(const Result<StoredRecord>& stored);
  [[nodiscard]] const InstanceRecord* record() const;

  Fleet::Engine& engine_;
  Plan plan_;
  InstanceId id_;
  CreationMachine machine_;
  Instant waiting_since_;
  std::optional<Instant> not_before_ = std::nullopt;
  bool recording_only_ = false;  // On-demand: the record goes out before the turn.
  std::optional<ProviderCreate> request_ = std::nullopt;
  std::unique_ptr<UserDataFetch> fetch_;
  Pending call_;
};

}  // namespace nstance

// World: the whole simulated cluster: servers, machines with agents, operators, one bucket, one
// cloud, one network, on one thread in virtual time; and whatever may be done to it.
//
// The real code runs in it: ServerProcess, Agent, and everything below their ports. The truth is in
// the bucket and the cloud; checkers look at it after every change. A process is killed by
// destroying it between two tasks; at a step (base/fault_point.h) by cutting off what it does
// before that.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/prng.h"
#include "sim/sim_network.h"
#include "sim/sim_object_store.h"
#include "sim/sim_provider.h"
#include "sim/sim_scheduler.h"
#include "sim/world/agent_node.h"
#include "sim/world/checker.h"
#include "sim/world/operator_node.h"
#include "sim/world/scenario.h"
#include "sim/world/server_node.h"
#include "sim/world/step_faults.h"

namespace nstance::sim {

struct WorldOptions {
  std::uint64_t seed = 0;
  Setting setting = {};
  std::vector<Event> at_steps = {};  // Those of kind kAtStep.
  Plant plant = Plant::kNone;
  bool trace = false;
  // Checkers that are not made, by their invariant: to see what else finds a bug.
  std::set<std::string, std::less<>> blind_to = {};
  // One more, for tests.
  std::function<std::unique_ptr<Checker>(CheckerWorld&)> another_checker = {};
};

struct Violation {
  std::string invariant;
  std::string what;
  Duration at = {};  // World time.
};

class World final : public CheckerWorld
#ifdef NSTANCE_SIM
    ,
                    public FaultPoints
#endif
{
 public:
  explicit World(WorldOptions options);
  ~World() override;

  // --- Time ---

  // Until `length` has passed or an invariant is violated.
  void RunFor(Duration length);
  [[nodiscard]] const std::optional<Violation>& violation() const { return violation_; }
  [[nodiscard]] SimScheduler& scheduler() { return scheduler_; }
  [[nodiscard]] Prng& prng() { return prng_; }
  void BeginCalm();
  // Tells the checkers that the world has had its time.
  void Quiet();

  // --- What is there ---

  // By machine name; a machine whose process is down has none.
  [[nodiscard]] std::vector<std::string> MachineNames() const;
  [[nodiscard]] ServerMachine& Machine(const std::string& name) { return *machines_.at(name); }
  [[nodiscard]] ServerNode* Server(const std::string& name);
  [[nodiscard]] std::vector<AgentMachine*> Agents();
  [[nodiscard]] AgentMachine* AgentOn(const std::string& provider_id);
  [[nodiscard]] OperatorNode& Operator(const TenantId& tenant);
  [[nodiscard]] SimBucket& mutable_bucket() { return bucket_; }
  [[nodiscard]] SimCloud& mutable_cloud() { return cloud_; }
  [[nodiscard]] SimNetwork& network() { return network_; }
  [[nodiscard]] ConfigEdits& Edits(const ShardId& shard) {
    return shard == ShardA() ? edits_a_ : edits_b_;
  }
  // Stores the file of the shard as its edits say.
  void WriteConfig(const ShardId& shard);

  // --- What may be done ---

  void StartServer(const std::string& name);  // Nothing when it runs.
  void KillServer(const std::string& name);   // Nothing when it does not.
  void JumpWall(const std::string& name, Duration length);
  void SetRate(const std::string& name, std::int64_t thousandths);
  // A process that was saved (paused) comes back from that: its monotonic clock goes on from where
  // it was then, or from before that, as on a host that has been up for less time.
  //
  // What a simulated process has in memory cannot be copied, so one that runs on after it was saved
  // and is taken back to that is beyond the world. A state that is older than its clock, and a
  // clock that is older than its state, are not: the first is a pause that the process's clock does
  // not know of, and the second is more than a real restore does.
  struct Restored {
    Instant clock;  // What its monotonic clock shows.
    bool other_boot = false;
    bool wall_is_set = false;  // Somebody sets the wall clock at once, as guests' tools do.
  };
  void Restore(const std::string& name, const Restored& restored);
  // The wall clock shows the true time again.
  void CorrectWall(const std::string& name);
  // Another machine runs with a copy of the agent's disk until EndClones(): somewhere else, or as a
  // VM that carries the same marks, which is what some providers' copies are.
  enum class CloneAt : std::uint8_t { kElsewhere, kCloud };
  void CloneAgent(AgentMachine& agent, CloneAt at);
  void EndClones() { clones_.clear(); }
  // Runs on the world's own clock, whoever is dead by then.
  // Of whoever writes to the certificate log next, right after it has sent the entry.
  void PauseAtLog(Duration length) { pause_at_log_ = length; }
  void Later(Duration after, Task task);
  // To the machine of that name, if it is there by then.
  void LaterOnAgent(const std::string& name, Duration after, void (AgentMachine::*act)());
  [[nodiscard]] StepFaults& step_faults() { return step_faults_; }

  // --- Reports ---

  // Whether a leader holds anything back for that reason ("brake").
  [[nodiscard]] bool Holds(std::string_view reason) const;
  [[nodiscard]] const std::vector<std::string>& timeline() const { return timeline_; }
  // Over the order of tasks, what was written and what became of VMs.
  [[nodiscard]] std::uint64_t TraceHash() const { return effects_hash_ ^ scheduler_.trace_hash(); }
  // Everything that metrics have counted: "alarms_total{duplicate_vm}"; and what plans have held
  // back: "holds{brake}".
  [[nodiscard]] const std::set<std::string>& reached() const { return reached_; }

  // --- CheckerWorld ---

  [[nodiscard]] Instant now() const override { return scheduler_.now(); }
  [[nodiscard]] Timestamp wall() const override {
    return WorldStart() + scheduler_.now().since_zero();
  }
  [[nodiscard]] const Setting& setting() const override { return options_.setting; }
  [[nodiscard]] const Truth& truth() const override { return truth_; }
  [[nodiscard]] const SimBucket& bucket() const override { return bucket_; }
  [[nodiscard]] const SimCloud& cloud() const override { return cloud_; }
  [[nodiscard]] bool calm() const override { return calm_since_.has_value(); }
  [[nodiscard]] Instant calm_since() const override { return calm_since_.value(); }
  [[nodiscard]] std::vector<ServerStanding> Servers() const override;
  [[nodiscard]] std::map<std::pair<TenantId, GroupKey>, int> DesiredSizes(
      const ShardId& shard) const override;
  [[nodiscard]] bool InCore(const ShardId& shard) const override;
  [[nodiscard]] bool Healed() const override;
  [[nodiscard]] Instant RatesTrueSince() const override { return rates_true_since_; }
  [[nodiscard]] Instant WallsTrueSince() const override { return walls_true_since_; }
  [[nodiscard]] std::vector<AgentStanding> AgentStandings() const override;
  [[nodiscard]] std::optional<std::vector<std::string>> KeysOnDisk(
      const InstanceId& id) const override;
  [[nodiscard]] std::optional<std::vector<std::string>> SerialsBeside(
      const InstanceId& id, const std::string& public_key_pem) const override;
  [[nodiscard]] bool AgentCloned(const InstanceId& id) const override {
    return cloned_.contains(id);
  }
  [[nodiscard]] Instant SoundSince(const std::string& process) const override;
  [[nodiscard]] Instant ProviderSoundSince(const std::string& process) const override;
  [[nodiscard]] const SimCacheDisk* CacheOf(const std::string& process) const override;
  [[nodiscard]] bool AgentUnharmed(const InstanceId& id) const override;
  [[nodiscard]] bool AgentServing(const InstanceId& id) const override;
  [[nodiscard]] bool AgentServed(const InstanceId& id) const override;
  void Violated(std::string_view invariant, std::string what) override;
  void Note(std::string_view who, std::string what) override;
  [[nodiscard]] bool tracing() const { return options_.trace; }
  // Checkers hear every line that is logged: in one seed of eight, since it costs time.
  [[nodiscard]] bool Listens() const { return options_.seed % 8 == 0; }

#ifdef NSTANCE_SIM
  void OnStep(Step step) override;
  [[nodiscard]] bool IsPlanted(Plant plant) const override { return plant == options_.plant; }
#endif

 private:
  class Log;

  void MakeIdentity();
  void AddMachine(const std::string& name, const ShardId& shard);
  void OnChange(const SimChange& change);
  void OnVm(const SimVmChange& change);
  void OnStarted(const SimVm& vm);
  void OnGone(const SimVm& vm);
  void AfterTask();
  void LookForRest();
  void Reap();
  void EverySecond();
  void CollectMetrics(ServerNode& node);
  void CollectHolds();
  void NoteChange(const SimChange& change);
  void MixEffect(std::string_view what);
  void OnCertificate(const std::string& process, std::string_view pem);
  void JudgeClocks();
  void CountConditions(ServerNode& node, Step step);
  [[nodiscard]] StepFaults::Acts ActsAtSteps();
  void PauseAtStep(ServerNode& node, Duration length);
  void CutAtStep(ServerNode& node, const Event& event);
  // From those whom it talks to in that step; false: nobody.
  bool CutClients(const std::string& server, const Event& event);
  void LagAtStep(ServerNode& node, Duration length);
  void StrikeAgent(AgentMachine& agent, const Event& event);
  [[nodiscard]] const AgentMachine* AgentOf(const InstanceId& id) const;

  WorldOptions options_;
  std::unique_ptr<Log> log_;
  SimScheduler scheduler_;
  Prng prng_;
  SimLoop loop_;
  SimBucket bucket_;
  SimCloud cloud_;
  SimNetwork network_;
  WorldParts parts_;
  Truth truth_;
  StepFaults step_faults_;
  ConfigEdits edits_a_;
  ConfigEdits edits_b_;
  ClusterIdentityRef identity_;
  std::map<std::string, std::unique_ptr<ServerMachine>> machines_;
  std::map<std::string, std::unique_ptr<ServerNode>> nodes_;
  std::map<std::string, std::unique_ptr<AgentMachine>> agents_;  // By provider id.
  std::map<std::string, std::unique_ptr<AgentMachine>> clones_;  // By provider id, or any name.
  std::set<InstanceId> cloned_;                                  // Ever.
  std::vector<std::unique_ptr<AgentMachine>> buried_;            // Destroyed after the task.
  std::vector<std::unique_ptr<OperatorNode>> operators_;
  std::map<std::uint64_t, Pending> later_;
  std::uint64_t next_later_ = 1;
  std::uint64_t boots_ = 1;  // All machines begin with the first.
  std::vector<std::unique_ptr<Checker>> checkers_;
  std::optional<Duration> pause_at_log_ = std::nullopt;
  Instant next_second_;
  Instant last_moment_ = {};
  std::uint64_t steps_before_moment_ = 0;
  Instant rates_true_since_;
  Instant walls_true_since_;
  std::optional<Instant> calm_since_ = std::nullopt;
  std::optional<Violation> violation_ = std::nullopt;
  std::uint64_t effects_hash_ = 0;
  std::vector<std::string> timeline_;
  std::set<std::string> reached_;
};

}  // namespace nstance::sim

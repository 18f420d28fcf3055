// Checker: one invariant of faults.md section 5, held while a world runs. src/sim/checkers has one
// file for each.
//
//   class I15OneVmPerInstance final : public Checker {
//    public:
//     explicit I15OneVmPerInstance(CheckerWorld& world) : Checker("I-15", world) {}
//     void OnVm(const SimVmChange& change) override { ...; if (bad) Violated("..."); }
//   };
//
// Everything a checker sees is the truth at the moment of the event, before anybody was answered.
// Checkers never change the world and draw no chance.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/name.h"
#include "base/result.h"
#include "base/time.h"
#include "crypto/certificate.h"
#include "ports/api/groups.h"
#include "ports/api/instances.h"
#include "server/fleet/step_budget.h"
#include "sim/sim_cache.h"
#include "sim/sim_object_store.h"
#include "sim/sim_provider.h"
#include "sim/world/setting.h"
#include "sim/world/truth.h"

namespace nstance::sim {

// What a server process says of itself, read between two tasks.
struct ServerStanding {
  std::string name;  // Of the machine.
  ShardId shard;
  std::uint64_t run = 0;  // Counts processes of this machine.
  bool paused = false;
  bool leads = false;   // By its elector, at its own clock's now.
  bool acting = false;  // Serves calls.
  std::int64_t epoch = 0;
  std::int64_t term = 0;
  std::string incarnation = {};
  PlannerWork planned = {};  // In this leadership.
};

// A call of an operator that has been answered, with success or not.
struct OperatorAnswer {
  using Request =
      std::variant<api::UpsertGroupRequest, api::DeleteGroupRequest, api::CreateInstanceRequest,
                   api::DeleteInstanceRequest, api::DrainAckRequest>;
  TenantId tenant;
  ShardId shard;
  Request request;
  Instant sent;                  // World time.
  Status status = {};            // As the operator got it.
  std::string instance_id = {};  // CreateInstance: who was made.
};

// A certificate that a client was given, over the network.
struct IssuedCertificate {
  std::string process;  // Who got it.
  crypto::Certificate certificate;
};

// A server process that has ended by itself.
struct ServerExit {
  int code = 0;
  bool stopped = false;          // It was told to stop (SIGTERM).
  bool led = false;              // When it was told to.
  Duration took = {};            // From then to its end, by its own clock.
  bool told_again = false;       // While it was stopping: it then ends at once.
  bool undisturbed = false;      // Nothing was done to it or to its way to the store meanwhile.
  std::size_t left_in_loop = 0;  // Timers and tasks that outlived it.
};

// A machine of the fleet and its agent.
struct AgentStanding {
  InstanceId id;
  ShardId shard;
  const SimVm* vm = nullptr;  // Null: the provider has forgotten it.
  bool up = false;
  bool serving = false;     // Its streams are open, and it does not hang.
  bool harmed = false;      // Something was done to it.
  bool has_joined = false;  // It has a certificate on its disk.
};

// What checkers may look at. The world implements it.
class CheckerWorld {
 public:
  CheckerWorld() = default;
  CheckerWorld(const CheckerWorld&) = delete;
  CheckerWorld& operator=(const CheckerWorld&) = delete;
  virtual ~CheckerWorld() = default;

  [[nodiscard]] virtual Instant now() const = 0;
  [[nodiscard]] virtual Timestamp wall() const = 0;  // True wall time.
  [[nodiscard]] virtual const Setting& setting() const = 0;
  [[nodiscard]] virtual const Truth& truth() const = 0;
  [[nodiscard]] virtual const SimBucket& bucket() const = 0;
  [[nodiscard]] virtual const SimCloud& cloud() const = 0;
  [[nodiscard]] virtual bool calm() const = 0;  // The hostile phase is over.
  // When it ended; only in calm.
  [[nodiscard]] virtual Instant calm_since() const = 0;
  [[nodiscard]] virtual std::vector<ServerStanding> Servers() const = 0;
  // What the shard's groups should have, by the configuration and the groups object that are
  // stored now.
  [[nodiscard]] virtual std::map<std::pair<TenantId, GroupKey>, int> DesiredSizes(
      const ShardId& shard) const = 0;
  // Whether the machine runs an agent that was never killed, hung, cut or moved in time since it
  // registered.
  [[nodiscard]] virtual bool AgentUnharmed(const InstanceId& id) const = 0;
  // By what the agent believes: its health stream is open.
  [[nodiscard]] virtual bool AgentServing(const InstanceId& id) const = 0;
  // A leader that runs has a stream of it open.
  [[nodiscard]] virtual bool AgentServed(const InstanceId& id) const = 0;
  // All machines that the provider started for somebody.
  [[nodiscard]] virtual std::vector<AgentStanding> AgentStandings() const { return {}; }
  // The public keys (PEM) of which some machine of the instance has the private half on its disk.
  // Empty: no machine of it is there.
  [[nodiscard]] virtual std::optional<std::vector<std::string>> KeysOnDisk(
      const InstanceId& /*id*/) const {
    return std::nullopt;
  }
  // The serials of the certificates that machines of the instance show, of those that have the
  // private half of this key (PEM) on their disk. Empty: there is no such machine.
  [[nodiscard]] virtual std::optional<std::vector<std::string>> SerialsBeside(
      const InstanceId& /*id*/, const std::string& /*public_key_pem*/) const {
    return std::nullopt;
  }
  // A copy of the machine's disk was seen to run: two processes claim to be this instance.
  [[nodiscard]] virtual bool AgentCloned(const InstanceId& /*id*/) const { return false; }
  // Since when the process with this name has run without a pause, at the true rate, and without a
  // fault on its way to the store. Never() while one lasts, or when there is no such process.
  [[nodiscard]] virtual Instant SoundSince(const std::string& /*process*/) const { return {}; }
  // The same of its way to the provider.
  [[nodiscard]] virtual Instant ProviderSoundSince(const std::string& /*process*/) const {
    return {};
  }
  // The cache on disk of the process's machine. Null: it was lost, or could not be used for a
  // while, since the process began; or it is a database, whose faults lose rows as they please.
  [[nodiscard]] virtual const SimCacheDisk* CacheOf(const std::string& /*process*/) const {
    return nullptr;
  }
  // Since when the clocks of all servers have run at rates that the lease bears (faults.md 4.7
  // F11), and since when all their wall clocks have shown the true time. Never() while one does
  // not.
  [[nodiscard]] virtual Instant RatesTrueSince() const { return {}; }
  [[nodiscard]] virtual Instant WallsTrueSince() const { return {}; }
  // In calm: whether a server of the shard is free of faults, so that progress may be demanded;
  // and whether no fault is left anywhere.
  [[nodiscard]] virtual bool InCore(const ShardId& /*shard*/) const { return true; }
  [[nodiscard]] virtual bool Healed() const { return true; }

  virtual void Violated(std::string_view invariant, std::string what) = 0;
  // A line of the timeline, when one is kept.
  virtual void Note(std::string_view who, std::string what) = 0;
};

class Checker {
 public:
  Checker(std::string_view invariant, CheckerWorld& world) : invariant_(invariant), world_(world) {}
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;
  virtual ~Checker() = default;

  // --- S: as it happens ---

  // A change of the bucket; truth() is already the new one.
  virtual void OnChange(const SimChange& /*change*/) {}
  virtual void OnVm(const SimVmChange& /*change*/) {}
  // A server passes a step, before its effect.
  virtual void OnStep(const ServerStanding& /*server*/, Step /*step*/) {}
  // A request of a process to the store.
  virtual void OnCall(const SimCall& /*call*/) {}
  // A request of a process about a VM.
  virtual void OnProviderCall(const SimProviderCall& /*call*/) {}
  // Something was logged; only in worlds that listen (World::Listens).
  virtual void OnLog(const log::Record& /*record*/) {}
  // A figure of a server that is not zero: its name and labels.
  virtual void OnMetric(std::string_view /*name*/) {}
  virtual void OnAnswer(const OperatorAnswer& /*answer*/) {}
  virtual void OnCertificate(const IssuedCertificate& /*issued*/) {}
  // One side of a handshake does not trust the other, whose certificate is within its time.
  virtual void OnRefusedPeer(const crypto::Certificate& /*whose*/, const Error& /*why*/) {}
  // An operator was told of an instance.
  virtual void OnInstanceEvent(const TenantId& /*operator_of*/, const ShardId& /*shard*/,
                               const api::InstanceEvent& /*event*/) {}
  // A server process has died, by kill, by step fault or at its end.
  virtual void OnServerEnd(const ServerStanding& /*server*/) {}
  // Before that, of one that ended by itself.
  virtual void OnServerExit(const ServerStanding& /*server*/, const ServerExit& /*exit*/) {}
  // After a task of a server.
  virtual void AfterTask(const ServerStanding& /*server*/) {}
  // Once a second of the world's time.
  virtual void EverySecond() {}

  // --- Q and T ---

  virtual void AtQuiet() {}
  virtual void AtEnd() {}

  [[nodiscard]] std::string_view invariant() const { return invariant_; }

 protected:
  void Violated(std::string what) { world_.Violated(invariant_, std::move(what)); }
  [[nodiscard]] CheckerWorld& world() { return world_; }
  [[nodiscard]] const CheckerWorld& world() const { return world_; }

 private:
  std::string_view invariant_;
  CheckerWorld& world_;
};

// All of them, in the order of their numbers (src/sim/checkers/all_checkers.cc).
[[nodiscard]] std::vector<std::unique_ptr<Checker>> MakeCheckers(CheckerWorld& world);

}  // namespace nstance::sim

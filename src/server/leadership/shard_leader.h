// ShardLeader: one leadership of a shard, from the lease that was acquired to the step-down.
//
// The owner makes one when the elector tells of an acquired lease, and destroys it (after
// StepDown()) when leadership ends; the next leadership has a new one.
//
//   state         | next          | on
//   --------------+---------------+----------------------------------------------------------------
//   looking       | journal       | whether the shard has ever had a journal is known
//   journal       | loading       | the journal is ours: older leaders' commits lose from here
//   loading       | opening       | groups stamped, configuration, records and listing read; the
//                 |               | table is built; the deny list is known; the leader's network
//                 |               | is ours, where there is one
//   opening       | acting        | the three listeners are open (an address in use is tried again
//                 |               | every 200 ms)
//   any           | over          | an error, a higher epoch, StepDown()
//
// Errors before `acting` are told by failed(); the owner releases the lease and waits. The 60 s
// limit of a take-over is the elector's.
//
// Guarantees, each held by a test:
//   - no call is served before the table is built and the deny list is known, nor after StepDown()
//     has been called
//   - a tenant that leaves the configuration, and what is denied, lose their connections
//   - nothing of this leadership acts after it was destroyed
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/input_probe.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/prng.h"
#include "core/cluster_keys_machine.h"
#include "ports/cache.h"
#include "ports/cache_folder.h"
#include "ports/http.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/provider.h"
#include "ports/rpc.h"
#include "ports/secure_random.h"
#include "server/config_source.h"
#include "server/deny_watch.h"
#include "server/fleet/fleet.h"
#include "server/fleet/record_reader.h"
#include "server/group_source.h"
#include "server/services/services.h"
#include "server/type_archs.h"
#include "storage/certificate_issuer.h"
#include "storage/journal_writer.h"
#include "storage/leader_scope.h"

namespace nstance {

class ShardLeader final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;
    ObjectStore& cluster_store;
    Provider& provider;
    HttpClient& http;
    CacheFolder& cache;
    SecureRandom& random;
    Prng& jitter;
    metrics::Registry& metrics;
    InputProbe& probe;
    log::Logger log;
    RpcServer& rpc;
    ConfigSource& config;
    DenyWatch& denied;
    Cache* rows = nullptr;                    // FleetDeps::rows.
    std::function<Instant()> stopwatch = {};  // FleetDeps::stopwatch.
    // The present by the store's clock; empty: not known (LeaderScope::store_now).
    std::function<std::optional<Timestamp>()> store_now = [] { return std::nullopt; };
    // Made for one leadership and dropped with it: server reflection.
    std::function<OtherCalls()> other_calls = {};
  };
  struct Options {
    ClusterId cluster;
    ShardId shard;
    std::string holder;  // "id/incarnation".
    ClusterIdentityRef identity;
    std::map<RpcPort, RpcAddress> bind;
    // Without the three gRPC addresses, which are known when the listeners are open.
    ServerFacts facts;
    // What is advertised; an empty host or port 0 becomes what is really bound.
    std::map<RpcPort, RpcAddress> advertise;
    fleet::FleetTimes times = {};
    Duration store_timeout = Duration::Seconds(3);
    // The longest that sending a request to the provider takes (core/lease.h SendTimeout).
    Duration send_timeout = Duration::Seconds(2);
    // Assigned to this machine before the listeners are opened.
    std::optional<config::LeaderNetwork> network = std::nullopt;
    Duration request_timeout = Duration::Seconds(30);
    std::size_t steps_per_turn = StepBudget::kPerTurn;  // FleetOptions::steps_per_turn.
  };
  struct Owner {
    std::move_only_function<bool(Duration)> may_start;  // Elector::MayStart.
    // Acting: the addresses that are listened on.
    std::move_only_function<void(std::map<RpcPort, RpcAddress>)> acting;
    // Leadership cannot go on. Told once, in a turn of its own; may destroy the leader.
    std::move_only_function<void(Error)> failed;
    std::move_only_function<void(std::string_view alarm, const std::string& detail)> alarm;
  };

  ShardLeader(Deps deps, Options options, Owner owner);
  ShardLeader(const ShardLeader&) = delete;
  ShardLeader& operator=(const ShardLeader&) = delete;
  ~ShardLeader();

  void Start();
  // Ends every call with UNAVAILABLE, closes the listeners and stops all effects. `done` runs when
  // the last connection is gone or at `deadline`.
  void StepDown(Instant deadline, Task done);
  // The wall clock has jumped: nothing is destroyed for its age before `until`. May be called
  // before Start().
  void PauseExpiry(Instant until);
  // Entries of the deny list that are new: their connections are closed.
  void OnDenied(const std::vector<DenyEntry>& entries);
  // Gauges of this moment.
  void Measure(metrics::Registry& gauges) const;

  [[nodiscard]] bool acting() const { return state_ == State::kActing; }
  [[nodiscard]] std::int64_t epoch() const { return scope_.epoch; }
  [[nodiscard]] const Fleet* fleet() const { return fleet_.get(); }
  // What is waited for, for `/readyz`; empty when acting.
  [[nodiscard]] std::string_view waits_for() const;

 private:
  enum class State : std::uint8_t { kNew, kLooking, kJournal, kLoading, kOpening, kActing, kOver };

  void OnJournalHead(const Result<ObjectHead>& head);
  void StartJournal(EpochEvidence evidence);
  void TookOver(std::int64_t epoch);
  void AssignNetwork();
  void MaybeOpen();
  void OnPublished(const GroupsRef& groups);
  void WarnOfGroups(const GroupsRef& before) const;
  void OpenNext();
  void OnOpened(RpcPort port, const Result<RpcAddress>& address);
  void Act();
  void MakeFleet();
  void MakeServices();
  void Drop();
  void FailWith(Error error);
  void CloseIdentity(const InstanceId& id, const Error& why);

  Deps deps_;
  Options options_;
  Owner owner_;
  State state_ = State::kNew;
  LeaderScope scope_;
  ServerFacts facts_;

  std::unique_ptr<RecordReader> evidence_;
  std::unique_ptr<JournalWriter> journal_;
  std::unique_ptr<TypeArchs> types_;
  std::unique_ptr<GroupSource> groups_;
  std::unique_ptr<CertificateIssuer> issuer_;
  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<ServiceContext> context_;
  std::unique_ptr<Services> services_;
  GroupsRef published_;
  bool groups_ready_ = false;
  bool config_ready_ = false;
  bool fleet_ready_ = false;
  bool network_ready_ = false;
  std::optional<Instant> network_since_;  // When it was first assigned.
  std::optional<Instant> expiry_paused_until_ = std::nullopt;
  std::map<RpcPort, RpcAddress> open_;
  Pending call_;
  Pending retry_;
  Pending loading_;
  Pending network_;
  Pending failing_;
  std::vector<Pending> closing_;
};

}  // namespace nstance

// ServerProcess: nstance-server from its start to its end: configuration, store probe, secrets,
// cluster keys, certificates, and then leaderships, one after the other (server.md 1 and 2).
//
//   step          | waits for                                        | fatal
//   --------------+--------------------------------------------------+-----------------------------
//   configuration | a valid one, from storage or the cached copy     | -
//   probe         | the store's verdict on conditional writes        | refused: exit 4
//   secrets       | the encryption key                               | missing or malformed: exit 1
//   keys          | CA and token key, made by the cluster's leader   | do not fit together: exit 1
//   certificate   | -                                                | cannot be signed: exit 1
//   running       | the shard's lease; then it leads                 | -
//
// Nothing blocks, everything is tried again, and Stop() works at every step. Fatal errors are told
// after `error_exit_jitter`, so that a fleet of servers does not restart in step.
#pragma once

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
#include "core/config/advertise.h"
#include "ports/cache.h"
#include "ports/cache_folder.h"
#include "ports/host_facts.h"
#include "ports/http.h"
#include "ports/http_server.h"
#include "ports/key_source.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/provider.h"
#include "ports/rpc.h"
#include "ports/secret_store.h"
#include "ports/secure_random.h"
#include "server/cluster_sweep.h"
#include "server/config_source.h"
#include "server/deny_watch.h"
#include "server/leadership/shard_leader.h"
#include "server/observed_provider.h"
#include "server/process/command_line.h"
#include "server/process/election_pages.h"
#include "server/server_certificates.h"
#include "storage/cluster_keys.h"
#include "storage/elector.h"
#include "storage/observed_store.h"
#include "storage/store_probe.h"

namespace nstance {

struct ServerSettings {
  std::string id;
  ShardId shard;
  // --bind and --advertise: they win over the configuration.
  config::Advertise bind = {};
  config::Advertise advertise = {};
  std::optional<std::string> advertise_host = std::nullopt;
  config::HostAddresses host = {};
  LayoutChoice layout = LayoutChoice::kSeed;
  // What all keys begin with; of nstance-v2: those of the shard (empty: `shard/{shard}/`).
  // REQUIRES: CheckStorePrefix() gave it.
  std::string prefix = {};
  // The constants of faults.md 1, which only the simulator shrinks and stretches.
  fleet::FleetTimes times = {};
  // And how much one turn of the loop may plan (load.md LB16).
  std::size_t steps_per_turn = StepBudget::kPerTurn;
};

// Where the configuration may be, under the names of the bucket.
[[nodiscard]] std::vector<ConfigSource::Place> ConfigPlaces(const ServerSettings& settings);

// What the process cannot make by itself: each names adapters.
struct ServerFactories {
  // For the provider of the configuration. kUnimplemented: this build has no such provider.
  std::function<Result<std::unique_ptr<Provider>>(const config::Config&)> provider;
  std::function<Result<std::unique_ptr<KeySource>>(const config::EncryptionKey&)> key_source;
  // For `server.storage`: where the cluster's objects are, if not in the server's own store.
  std::function<Result<std::unique_ptr<ObjectStore>>(const config::Server&)> cluster_store = {};
};

class ServerProcess final {
 public:
  static constexpr int kExitStopped = 0;
  static constexpr int kExitFatal = 1;
  static constexpr int kExitStoreRefused = 4;

  struct Deps {
    Loop& loop;
    ObjectStore& store;  // The whole bucket.
    HttpClient& http;
    CacheFolder& cache;
    SecureRandom& random;
    metrics::Registry& metrics;
    InputProbe& probe;
    log::Logger log;
    RpcServer& rpc;
    ServerFactories factories;
    Cache* rows = nullptr;                         // The cache on disk; null: none is kept.
    std::function<Instant()> stopwatch = {};       // A clock that goes on inside a turn.
    std::function<OtherCalls()> other_calls = {};  // ShardLeader::Deps::other_calls.
    HttpServer* election = nullptr;                // For TLS; null: no election listener.
    HostFacts* host = nullptr;                     // Null: nothing is known of the boot id.
  };
  struct Owner {
    // The end, told once, in a turn of its own.
    std::move_only_function<void(int exit_code)> ended;
    // Acting leader: for `--addresses-file`.
    std::move_only_function<void(std::int64_t epoch, std::map<RpcPort, RpcAddress>)> acting;
    // Counters that other threads keep, for `/metrics`; may answer later.
    std::function<Pending(std::move_only_function<void(metrics::Snapshot)>)> more_metrics = {};
    // The election listener is open.
    std::function<void(const config::Address&)> election_open = [](const config::Address&) {};
    // Another configuration is in force.
    std::function<void(const config::Config&)> configured = [](const config::Config&) {};
  };

  ServerProcess(Deps deps, ServerSettings settings, Owner owner);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  void Start();
  // Steps down, releases the leases, then `ended`. A second call ends at once, and so does one
  // while a fatal error waits for its delay: with the code of that error.
  void Stop();
  // Whether its end is under way: by a stop, or by a fatal error.
  [[nodiscard]] bool ending() const { return step_ == Step::kStopping || step_ == Step::kEnded; }

  // The present leadership; null: there is none.
  [[nodiscard]] const ShardLeader* leader() const { return leader_.get(); }
  // The shard's elector; null before there is one.
  [[nodiscard]] const Elector* elector() const { return elector_.get(); }

  // The pages of the health listener.
  void Page(const HttpQuestion& question, HttpReply reply);

 private:
  enum class Step : std::uint8_t {
    kConfiguration,
    kProbe,
    kSecrets,
    kKeys,
    kRunning,
    kStopping,
    kEnded,
  };

  void OnConfig(const ConfigRef& config);
  void UseLayout(config::Layout layout);
  // Layout nstance-v2: what the Go implementation has put to sleep is not ours to wake.
  void CheckTenants();
  void Begin();
  void WarnOf(const config::Config& config) const;
  void StartElectionPages();
  void StartProbe();
  void OnProbe(const StoreProbeReport& report);
  void ProbeAgainLater(Duration after);
  void LoadSecrets();
  void LoadKey(std::size_t number);
  void StartKeys();
  void OnKeys(ClusterIdentityRef identity);
  [[nodiscard]] Status MakeCertificates();
  void StartSweep();
  void StartDenyWatch();
  void StartElection(BucketAge bucket);
  [[nodiscard]] std::string BootId() const;
  // What was read before the state of this memory was saved is not believed (faults.md RU9).
  void DropWhatWasSaved();
  void Acquired();
  void Lost(LeaseLoss loss);
  void LeaderFailed(const Error& error);
  void EndLeadership(Task done);
  // Calls `then` when no leadership is stepping down any more, or when a stop cannot wait longer.
  void WhenNoneStepsDown(Task then);
  void SteppedDown(std::uint64_t number);
  void Acting(const std::map<RpcPort, RpcAddress>& addresses);
  void ReleaseLeases(Duration limit, Task done);
  void Fatal(int exit_code, const std::string& why);
  void Finish(int exit_code);
  void FlushThenFinish(int exit_code);
  void Alarm(std::string_view alarm, const std::string& detail);
  [[nodiscard]] std::map<RpcPort, RpcAddress> BindAddresses() const;
  [[nodiscard]] Result<config::Addresses> Advertised() const;
  [[nodiscard]] config::Addresses Bound() const;
  [[nodiscard]] std::vector<std::string> Problems() const;
  [[nodiscard]] HttpAnswer LeaderPage() const;
  void MetricsPage(HttpReply reply);
  [[nodiscard]] metrics::Snapshot Figures() const;
  void Measure(metrics::Registry& gauges) const;
  void WatchLag(Instant due);
  void WatchWallClock();

  Deps deps_;
  ServerSettings settings_;
  Owner owner_;
  Prng jitter_;
  ObservedStore bucket_;
  // With our names, whatever the layout; null: they are the bucket's own.
  std::unique_ptr<ObjectStore> named_store_;
  [[nodiscard]] ObjectStore& store() {
    return named_store_ == nullptr ? static_cast<ObjectStore&>(bucket_) : *named_store_;
  }
  // Of `server.storage`; the cluster's objects are in `cluster_store()`.
  std::unique_ptr<ObjectStore> own_cluster_store_;
  std::unique_ptr<ObservedStore> observed_cluster_store_;
  std::unique_ptr<ObjectStore> named_cluster_store_;
  [[nodiscard]] ObjectStore& cluster_store() {
    if (observed_cluster_store_ == nullptr) return store();
    return named_cluster_store_ == nullptr ? static_cast<ObjectStore&>(*observed_cluster_store_)
                                           : *named_cluster_store_;
  }
  Step step_ = Step::kConfiguration;
  int exit_code_ = kExitStopped;  // Of the end that is under way.
  std::string waits_;             // Why the present step is not done, for `/readyz`.
  ConfigRef started_with_;
  config::Addresses advertised_;  // Port 0 of an RPC listener: it is not bound yet.

  std::unique_ptr<ConfigSource> config_;
  std::unique_ptr<StoreProbeRunner> store_probe_;
  std::vector<crypto::EncryptionKey> keys_found_;
  std::unique_ptr<KeySource> key_source_;
  std::unique_ptr<SecretStore> secrets_;
  std::unique_ptr<Elector> cluster_elector_;
  std::unique_ptr<ClusterKeys> cluster_keys_;
  std::unique_ptr<ServerCertificates> certificates_;
  std::unique_ptr<ElectionPages> election_pages_;
  std::unique_ptr<ServerCertificates> election_certificates_;
  std::unique_ptr<ClusterSweep> cluster_sweep_;
  std::unique_ptr<DenyWatch> denied_;
  std::unique_ptr<Provider> provider_;
  std::unique_ptr<ObservedProvider> observed_provider_;
  std::unique_ptr<Elector> elector_;
  std::unique_ptr<ShardLeader> leader_;
  // Leaderships that have ended and whose listeners or address are still to go.
  std::map<std::uint64_t, std::unique_ptr<ShardLeader>> stepping_down_;
  std::uint64_t next_step_down_ = 0;
  Task none_steps_down_;
  std::string incarnation_;  // Of the shard's elector when what is known here was read.
  ClusterIdentityRef identity_;
  std::optional<Timestamp> acting_since_ = std::nullopt;
  Instant acquired_at_;
  std::optional<bool> probe_ok_ = std::nullopt;
  std::optional<Duration> wall_offset_ = std::nullopt;  // Between the two clocks, as last read.
  // The wall clock has jumped; also for the leadership that begins before this.
  std::optional<Instant> expiry_paused_until_ = std::nullopt;

  Pending call_;
  Pending stepped_down_;
  Pending waiting_;
  Pending ending_;
  Pending flushing_;
  Pending probing_;
  Pending metrics_call_;
  Pending lag_;
};

}  // namespace nstance

// A server of the simulated world: the machine, whose disk and clocks last, and the process on it,
// which is the product's ServerProcess and may be killed at any moment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/metrics.h"
#include "server/process/server_process.h"
#include "sim/seeded_random.h"
#include "sim/sim_cache.h"
#include "sim/sim_cache_folder.h"
#include "sim/sim_host.h"
#include "sim/sim_http.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "sim/sim_provider.h"
#include "sim/sim_rpc.h"
#include "sim/sim_sqlite_cache.h"
#include "sim/world/checker.h"

namespace nstance::sim {

// What all processes of a world share, and who is asked about each of their requests.
struct WorldParts {
  SimScheduler& scheduler;
  SimBucket& bucket;
  SimNetwork& network;
  SimCloud& cloud;
  const Setting& setting;
  log::Sink& log;
  Prng& prng;
};

// What a machine's disk does to the database on it.
struct DatabaseFaults {
  SimFileFaults calls = {};
  // In ten thousand starts of a process.
  std::uint32_t power_loss = 0;
  std::uint32_t old_copy = 0;
  std::uint32_t damage = 0;
};
// Each kind is left out in half of the cases.
[[nodiscard]] DatabaseFaults DrawDatabaseFaults(Prng& prng);

// What became of a machine for good.
enum class Loss : std::uint8_t {
  kNone,
  kDead,    // No process starts on it.
  kFrozen,  // Whatever process is on it stands still.
  kCut,     // As `store_cut` says.
};

struct ServerMachine {
  std::string name;  // "a1"; the network knows it by this name.
  ShardId shard;
  SimDisk files = {};
  SimCacheDisk rows = {};
  bool rows_lost = false;  // Since the present process began.
  Duration wall_skew = {};
  std::int64_t rate = SimLoop::kTrueRate;
  std::string boot_id = "boot-1";
  // What does not get through, whichever process runs.
  SimLink store_cut = {};
  SimLink provider_cut = {};
  bool leases_lost = false;  // Of all that it writes, leases do not arrive.
  Loss loss = Loss::kNone;
  std::uint64_t runs = 0;
  // The rows are kept by the real code, on a disk with these faults. Empty: by SimCache.
  std::optional<DatabaseFaults> database = std::nullopt;
  SimFiles old_database = {};  // As some process found it.
};

class ServerNode final {
 public:
  struct Asked {
    std::function<SimVerdict(ServerNode&, SimMethod, const std::string& key, SimFate)> of_store;
    std::function<SimVerdict(ServerNode&, SimProviderMethod, SimFate)> of_provider;
  };

  // A new process on the machine; both outlive it.
  ServerNode(const WorldParts& parts, ServerMachine& machine, Asked asked);
  ServerNode(const ServerNode&) = delete;
  ServerNode& operator=(const ServerNode&) = delete;

  [[nodiscard]] ServerMachine& machine() { return machine_; }
  [[nodiscard]] SimLoop& loop() { return loop_; }
  [[nodiscard]] SimObjectStore& store() { return store_; }
  [[nodiscard]] const SimRpcServer& rpc() const { return rpc_; }
  // Null before the process has one.
  [[nodiscard]] SimProvider* provider() { return provider_; }
  [[nodiscard]] const metrics::Registry& metrics() const { return metrics_; }
  [[nodiscard]] ServerProcess& process() { return *process_; }
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }
  // Brought up to date.
  [[nodiscard]] const ServerStanding& standing();

  // After a pause; nothing on a machine that stands still for good.
  void Resume() {
    if (machine_.loss != Loss::kFrozen) loop_.Resume();
  }
  // The machine that it finds itself on is another one, or was started anew.
  void SetBoot(std::string boot_id);
  // SIGTERM.
  void Stop();
  // Of a process that has ended by itself: destroys it, and tells how that went.
  [[nodiscard]] ServerExit End();

  // CheckerWorld::SoundSince.
  [[nodiscard]] Instant sound_since() const { return sound_since_; }
  [[nodiscard]] Instant provider_sound_since() const { return provider_sound_since_; }
  // A request of it has met a fault.
  void Troubled() { sound_since_ = scheduler_.now(); }
  void TroubledAtProvider() { provider_sound_since_ = scheduler_.now(); }
  // To be called every second.
  void LookWhetherSound();

  // A part of the way to the store, or to the provider, is cut, or heals as far as the machine lets
  // it.
  enum class Way : std::uint8_t { kStore, kProvider };
  void CutWay(Way way, SimLink part);
  void HealWay(Way way, SimLink part);

  // Nothing that it does from now on leaves the machine: it is about to be destroyed.
  void Mute(SimNetwork& network);
  // Also when it died at a write to its disk.
  [[nodiscard]] bool muted() const { return muted_ || (database_ != nullptr && database_->dead()); }

 private:
  struct Told {
    Instant at;      // World time.
    Instant own_at;  // By its own clock.
    bool led = false;
    std::uint64_t pauses = 0;
    bool again = false;  // Once more, later.
  };
  [[nodiscard]] bool IsSound() const;
  [[nodiscard]] bool IsProviderSound() const;
  // Null: there is none, or nothing leaves the machine anyway.
  [[nodiscard]] SimLink* LinkOf(Way way);

  [[nodiscard]] std::unique_ptr<Cache> OpenRows(const WorldParts& parts);

  SimScheduler& scheduler_;
  ServerMachine& machine_;
  ServerStanding standing_;
  metrics::Registry metrics_;
  InputProbe probe_{metrics_};
  SimLoop loop_;
  SimObjectStore store_;
  SimCacheFolder folder_;
  SimSqliteCache* database_ = nullptr;  // What `rows_` is, when it is one.
  std::unique_ptr<Cache> rows_;
  SeededRandom random_;
  SimHost host_;
  SimHttp http_;
  SimRpcServer rpc_;
  SimProvider* provider_ = nullptr;
  std::optional<int> exit_code_ = std::nullopt;
  bool muted_ = false;
  std::optional<Told> told_to_stop_ = std::nullopt;
  Instant sound_since_;
  Instant provider_sound_since_;
  std::uint64_t pauses_seen_ = 0;
  std::unique_ptr<ServerProcess> process_;
};

// The key that seals the world's secrets.
[[nodiscard]] crypto::EncryptionKey WorldEncryptionKey();

}  // namespace nstance::sim

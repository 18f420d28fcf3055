// LocalHost: the blocking operations of the local provider on one root folder (records.h).
//
// Why it is safe between processes that know nothing of each other, and across crashes:
//   - a folder appears whole: it is made under another name, synced, and renamed; of several rivals
//     one wins, and the others find it there
//   - an instance is started only by whoever holds the lock of a folder that is in its place, and
//     only if it never ran; the keeper keeps the lock for life
//   - a folder is removed only after its last process is gone, by whoever holds that lock, or calls
//     the instance off (records.h) because somebody else has the lock and may keep it for ever: a
//     server that was stopped while it started the instance. It is renamed first, so that half of
//     it is never seen
//   - what a crash leaves is either invisible (`.new-*`, `.trash-*`, swept at the next start), or
//     an instance that never ran (a repeated Create starts it, a Delete removes it)
//
// Methods may be called from any thread at the same time; each names the steps at which tests
// interrupt it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/provider_local/files.h"
#include "adapters/provider_local/processes.h"
#include "adapters/provider_local/records.h"
#include "adapters/secure_random/system_random.h"
#include "base/name.h"
#include "base/result.h"
#include "core/config/config.h"
#include "ports/provider.h"

namespace nstance::provider_local {

struct HostOptions {
  config::LocalOptions options;
  ClusterId cluster;
  ShardId shard;
  std::string region = "local";
  std::string zone = "local";
  // Program and first arguments of a keeper.
  std::vector<std::string> keeper_command;
  // In front of PATH.
  std::string program_folder;
  // Called at each step, on any thread; null: nothing.
  std::function<void(std::string_view)> step = {};
};

// An instance, and the keeper to watch: while it runs, or to the end if it was started just now.
struct Seen {
  ProviderInstance instance;
  std::optional<ProcessName> keeper = std::nullopt;
};

enum class Urge : std::uint8_t {
  kAsk,   // SIGTERM to all.
  kWait,  // Nothing.
  kKill,  // SIGKILL to all; when only the keeper is left, to it.
};

enum class Leaving : std::uint8_t { kGone, kAlreadyGone, kAlive };

struct LeavingReport {
  Leaving state = Leaving::kAlive;
  std::optional<ProcessName> keeper = std::nullopt;  // Alive.
};

class LocalHost final {
 public:
  // Makes the root if it is missing, and sweeps what crashes have left. kFailedPrecondition when
  // others could change what is in it; kInvalidArgument for options that cannot work.
  [[nodiscard]] static Result<std::unique_ptr<LocalHost>> Open(HostOptions options);

  [[nodiscard]] ProviderResult<Seen> Create(const ProviderCreate& request,
                                            const std::stop_token& stop);
  [[nodiscard]] ProviderResult<Seen> Look(const ProviderTarget& target) const;
  struct Page {
    std::vector<Seen> instances = {};
    std::string next_page_token = {};
  };
  [[nodiscard]] ProviderResult<Page> List(const ProviderListRequest& request) const;
  // One step of a deletion; to be called again, with more urgency, while it is kAlive.
  [[nodiscard]] ProviderResult<LeavingReport> Remove(const ProviderTarget& target, Urge urge);

  [[nodiscard]] std::string ProviderId(const InstanceId& id) const;
  [[nodiscard]] const HostOptions& options() const { return options_; }

 private:
  struct Prepared {
    std::string temporary;
    Descriptor folder;
    Descriptor lock;
  };
  // What run.json says, as seen from this boot and this numbering of processes.
  struct History {
    bool ran = false;
    std::optional<Run> run = std::nullopt;  // Empty although it ran: damaged.
    bool this_boot = false;
    bool same_numbers = false;
    [[nodiscard]] std::optional<ProcessName> Keeper() const {
      return same_numbers ? std::optional(run->keeper) : std::nullopt;
    }
  };
  enum class Placed : std::uint8_t { kDone, kTaken, kLost };

  LocalHost(HostOptions options, Descriptor root, std::string host);

  void Step(std::string_view name) const {
    if (options_.step) options_.step(name);
  }
  // The folder of an instance: kNotFound is the positive word that there is none.
  [[nodiscard]] Result<Descriptor> OpenInstance(const InstanceId& id) const;
  [[nodiscard]] Status CheckTarget(const ProviderTarget& target) const;
  // It is of this cluster and shard and of that id, whatever its folder is called.
  [[nodiscard]] Status CheckOwner(const Meta& meta, const InstanceId& id) const;
  [[nodiscard]] Result<History> ReadHistory(int folder) const;
  [[nodiscard]] Result<Seen> Describe(const Meta& meta, int folder) const;

  [[nodiscard]] Result<Meta> MakeMeta(const ProviderCreate& request) const;
  [[nodiscard]] Status CheckRoom() const;
  [[nodiscard]] Result<Prepared> Prepare(const Meta& meta, const std::string& user_data);
  [[nodiscard]] Status Fill(const Prepared& prepared, const Meta& meta,
                            const std::string& user_data) const;
  [[nodiscard]] Result<Placed> Place(const Prepared& prepared, const InstanceId& id) const;
  [[nodiscard]] ProviderResult<std::optional<Seen>> CreateNew(const Meta& meta,
                                                              const ProviderCreate& request,
                                                              const std::stop_token& stop);
  [[nodiscard]] ProviderResult<std::optional<Seen>> Adopt(const Meta& meta,
                                                          const std::stop_token& stop);
  [[nodiscard]] Result<bool> StartUnlessItRan(const InstanceId& id, int folder,
                                              const std::stop_token& stop);
  void RememberKeeper(Seen& seen, int folder) const;
  [[nodiscard]] Status Start(const InstanceId& id, Descriptor lock, const std::stop_token& stop);
  [[nodiscard]] Result<Seen> LookAt(const InstanceId& id) const;

  // The lock of a folder that is in its place; not open when somebody else has it.
  [[nodiscard]] Result<Descriptor> TakeLock(const InstanceId& id, int folder) const;
  [[nodiscard]] Result<bool> IsLocked(int folder) const;
  [[nodiscard]] Result<Leaving> Bury(const InstanceId& id, int folder, Urge urge);
  [[nodiscard]] Status CallOff(const InstanceId& id, int folder) const;
  [[nodiscard]] Status Discard(const std::string& name);
  void KeepLogs(const std::string& trash) const;
  [[nodiscard]] Status Sweep();
  [[nodiscard]] Status SweepOne(const std::string& name);
  [[nodiscard]] Result<std::vector<InstanceId>> InstancesInRoot() const;

  const HostOptions options_;
  const Descriptor root_;
  const std::string host_;  // The first eight characters of the machine's id.
  const std::string boot_id_;
  const std::string pid_namespace_;
  std::mutex room_mutex_;  // Held from the count to the new folder, where there is a limit.
  std::mutex random_mutex_;
  SystemRandom random_;
};

// The first eight characters of /etc/machine-id, or of the SHA-256 of the host's name.
[[nodiscard]] std::string HostMark(std::string_view machine_id, std::string_view host_name);

}  // namespace nstance::provider_local

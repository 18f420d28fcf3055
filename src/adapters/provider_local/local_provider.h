// LocalProvider: instances as process trees of this host (ports/provider.h; providers.md 2).
//
// What an instance is on disk: records.h. Why it survives crashes of everybody: local_host.h. Who
// keeps it alive without a server: keeper.h. It runs as the user of the server, without isolation:
// for development, tests, single hosts and CI.
//
//   auto provider = LocalProvider::Open(
//       loop, {.local = options, .cluster = cluster, .shard = shard,
//              .keeper_command = {"/proc/self/exe", "local-keeper"}});
//   Pending pending = (*provider)->Create(call, request,
//                                         [](ProviderResult<ProviderInstance> result) {});
//
// The program named by `keeper_command` must call RunLocalKeeper() (below) when its first arguments
// are those of the command.
//
// Capabilities: push events; consistency window zero; no power, no leader network. The end of an
// instance is reported by the kernel (pidfd) within milliseconds, also of instances that another
// process has made, as soon as they were seen here by Open(), Create(), Get() or List().
//
// Deletion: SIGTERM to the whole tree, SIGKILL after `kill_grace`, and again until nobody is left;
// then the folder goes. It goes on after the caller's deadline; a second Delete joins the first.
//
// Thread: made, used and destroyed on the thread of its loop, which must outlive it. Blocking work
// runs on a bounded pool. Destroying it drops answers and what has not begun, waits for what has,
// and leaves all instances running.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/provider_local/job_pool.h"
#include "adapters/provider_local/local_host.h"
#include "adapters/real_loop/real_loop.h"
#include "base/result.h"
#include "ports/provider.h"

namespace nstance {

class LocalProvider final : public Provider {
 public:
  struct Options {
    config::LocalOptions local;
    ClusterId cluster;
    ShardId shard;
    std::string region = "local";
    std::string zone = "local";
    std::vector<std::string> keeper_command;
    // In front of PATH, so that user data finds `nstance-agent`; empty: this program's own folder.
    std::string program_folder = {};
    provider_local::JobPool::Options pool = {};
    // For tests: called at each step of the work on disk, on any thread.
    std::function<void(std::string_view)> step = {};
  };

  // Blocks for a few system calls, and for the removal of what crashes have left.
  [[nodiscard]] static Result<std::unique_ptr<LocalProvider>> Open(RealLoop& loop, Options options);
  ~LocalProvider() override;

  [[nodiscard]] const ProviderCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] Pending Create(ProviderCall call, ProviderCreate request,
                               Done<ProviderInstance> done) override;
  [[nodiscard]] Pending Delete(ProviderCall call, ProviderTarget target,
                               Done<ProviderDeleted> done) override;
  [[nodiscard]] Pending Get(ProviderCall call, ProviderTarget target,
                            Done<ProviderInstance> done) override;
  [[nodiscard]] Pending List(ProviderCall call, ProviderListRequest request,
                             Done<ProviderPage> done) override;
  [[nodiscard]] Pending Start(ProviderCall call, ProviderTarget target,
                              Done<ProviderPowered> done) override;
  [[nodiscard]] Pending Stop(ProviderCall call, ProviderTarget target,
                             Done<ProviderPowered> done) override;
  [[nodiscard]] Pending InstanceTypeArch(ProviderCall call, std::string instance_type,
                                         Done<std::optional<config::Arch>> done) override;
  [[nodiscard]] Pending SubnetCapacity(ProviderCall call, std::string subnet,
                                       Done<std::optional<std::uint64_t>> done) override;
  [[nodiscard]] Pending AssignLeaderNetwork(ProviderCall call, config::LeaderNetwork network,
                                            Done<void> done) override;
  [[nodiscard]] Pending ReleaseLeaderNetwork(ProviderCall call, config::LeaderNetwork network,
                                             Done<void> done) override;
  [[nodiscard]] Pending Watch(OnChange on_change) override;

 private:
  enum class Effect : std::uint8_t { kRead, kWrite };
  struct Desk;  // Who waits for an answer, and who for news; only touched on the loop.
  template <class T>
  struct Caller;
  struct Guarded {
    provider_local::Descriptor handle;
    std::unique_ptr<DescriptorWatch> watch;
    provider_local::ProcessName keeper;
  };
  // A deletion under way.
  struct Departure {
    ProviderTarget target;
    std::vector<std::uint64_t> callers = {};
    bool asked = false;     // SIGTERM was sent.
    Instant kill_at = {};   // Once it was.
    Duration pause = {};    // Until the next look.
    bool stepping = false;  // A step is on a thread right now.
    bool again = false;     // Something happened meanwhile.
    Pending timer = {};
  };

  LocalProvider(RealLoop& loop, std::unique_ptr<provider_local::LocalHost> host,
                provider_local::JobPool::Options pool);

  template <class T>
  [[nodiscard]] Pending Answer(Done<T> done, ProviderResult<T> result);
  // What is asked of the threads. Questions with the same key, unless it is empty, wait for each
  // other.
  struct Question {
    const ProviderCall& call;
    Effect effect;
    std::string key;
  };
  template <class T, class Work, class Then>
  [[nodiscard]] Pending Ask(Question question, Done<T> done, Work work, Then then);
  template <class T>
  [[nodiscard]] std::uint64_t Enter(const ProviderCall& call, Effect effect, Done<T> done);
  [[nodiscard]] std::optional<ProviderError> RefuseOld(const ProviderCall& call);

  void Guard(const provider_local::Seen& seen);
  void OnKeeperExit(const InstanceId& id);
  void LookAfterExit(const InstanceId& id);
  void Tell(const ProviderInstance& instance);

  void StepDeparture(const InstanceId& id);
  void OnDepartureStep(const InstanceId& id, ProviderResult<provider_local::LeavingReport> result);
  void FinishDeparture(const InstanceId& id, ProviderResult<ProviderDeleted> result);

  RealLoop& loop_;
  std::unique_ptr<provider_local::LocalHost> host_;
  ProviderCapabilities capabilities_;
  std::int64_t epoch_ = 0;
  std::map<InstanceId, Guarded> guarded_;
  std::map<InstanceId, Departure> departures_;
  std::shared_ptr<Desk> desk_;
  std::unique_ptr<provider_local::JobPool> pool_;  // Last: its threads use all of the above.
};

// The keeper's whole program: `arguments` are those after the command. Never returns while the
// instance lives; the result is the exit code.
[[nodiscard]] int RunLocalKeeper(const std::vector<std::string>& arguments);

}  // namespace nstance

// SimCloud and SimProvider: a provider of VMs in simulated time, stricter than any real one.
//
// A SimCloud is the world's truth: which VMs exist. Each simulated process has a SimProvider of its
// own, which is its way to the cloud: requests and answers take time, get lost, arrive late or
// twice, as the faults of that process say. All chance comes from the seed. A request is judged
// when it arrives, so a Create that arrives ten minutes late makes a VM for somebody who is dead.
//
//   F7   refused: capacity, quota, credentials, arguments   refused_*, SimCloud::Limits
//   F8   applied, but the answer is lost, or late           answer_lost, applied_late,
//                                                           error_maybe_done
//   F9   visibility: looks and listings lag, page by page   stale_look within the window
//   F10  one token two VMs, one VM twice in a listing, ids  SimCloudLies
//        and addresses that are used again
//   F13  one-way partitions                                 SimLink
//
// A VM is pending, then running after its boot time; deleting, then deleted, and then forgotten.
// Hooks tell a simulated agent when its machine starts and ends. VMs can die, stop or vanish by
// hand or by themselves.
//
// Lifetimes: the cloud outlives its providers, a provider goes before the loop that it answers on,
// the scheduler outlives all.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/name.h"
#include "base/prng.h"
#include "base/time.h"
#include "ports/loop.h"
#include "ports/provider.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "sim/sim_scheduler.h"

namespace nstance::sim {

// Of one process's way to the cloud. Chances are in ten thousand.
struct SimProviderFaults {
  Duration latency_min = Duration::Milliseconds(20);
  Duration latency_max = Duration::Milliseconds(200);

  std::uint32_t error_not_done = 0;    // Throttled: surely without effect.
  std::uint32_t error_maybe_done = 0;  // Mutations: a 5xx, applied in half of the cases.
  std::uint32_t request_lost = 0;      // Never arrives; the deadline passes.
  std::uint32_t answer_lost = 0;       // Arrives and is done; the deadline passes.
  std::uint32_t applied_late = 0;      // Mutations: arrive late; the deadline passes.
  Duration late_min = Duration::Seconds(1);
  Duration late_max = Duration::Minutes(10);
  std::uint32_t delivered_twice = 0;  // Mutations: judged twice; the second judgement is answered.

  // Creates: refused, surely without effect.
  std::uint32_t refused_capacity = 0;
  std::uint32_t refused_quota = 0;
  std::uint32_t refused_auth = 0;
  std::uint32_t refused_invalid = 0;

  std::uint32_t stale_look = 0;   // Get, List: what was there up to a consistency window ago.
  std::uint32_t page_failed = 0;  // List: an error instead of the page.
  std::uint32_t short_page = 0;   // List: fewer VMs than asked for, even none, and a token.

  std::uint32_t event_lost = 0;
  std::uint32_t event_twice = 0;
  Duration event_delay = Duration::Milliseconds(50);  // At most.

  friend bool operator==(const SimProviderFaults&, const SimProviderFaults&) = default;
};

// How a cloud breaks the contract. Each is a switch, to see that the code above bears it.
struct SimCloudLies {
  std::uint32_t forgets_token = 0;   // In ten thousand: a repeated Create makes a second VM.
  std::uint32_t makes_two = 0;       // In ten thousand: one Create makes two VMs.
  bool reuses_ids = false;           // A new VM has the id and addresses of one that was forgotten.
  std::uint32_t listed_twice = 0;    // In ten thousand: a VM is in a page twice.
  bool lists_nothing = false;        // Complete, successful, and empty.
  bool finds_nothing = false;        // Get says kNotFound of everything.
  bool lists_other_shards = false;   // Whatever the marks say.
  Duration unmarked_for = {};        // New VMs have no marks for so long, so nobody finds them.
  bool ignores_instance_id = false;  // Delete goes by the provider id alone.
};

// What VMs do by themselves. Zero: nothing.
struct SimVmLives {
  Duration boot_min = Duration::Seconds(1);
  Duration boot_max = Duration::Seconds(20);
  Duration delete_min = Duration::Milliseconds(100);
  Duration delete_max = Duration::Seconds(10);
  // How long a deleted VM is shown as such.
  Duration shown_deleted = Duration::Seconds(30);
  // A running VM dies, stops or vanishes after so long, drawn for each.
  Duration ends_after_min = {};
  Duration ends_after_max = {};
};

enum class SimProviderMethod : std::uint8_t {
  kCreate,
  kDelete,
  kGet,
  kList,
  kStart,
  kStop,
  kTypeArch,
  kSubnetCapacity,
  kAssignLeaderNetwork,
  kReleaseLeaderNetwork,
  kByHand,    // Of changes: by the test.
  kByItself,  // Of changes: booted, ended, forgotten.
};

// The truth about one VM.
struct SimVm {
  std::string provider_id;
  int users = 1;  // Of this id, so far; more than one by SimCloudLies::reuses_ids.
  std::optional<ProviderCreate> request;  // Empty: made by hand.
  std::string process;                    // Who asked for it.
  std::int64_t epoch = 0;                 // Under which leadership.
  Instant created = {};
  ProviderInstance shown;  // As it is now.
};

// A change of the truth, as it happens, before anybody is answered.
struct SimVmChange {
  Instant at;
  std::string process;
  std::int64_t epoch = 0;
  SimProviderMethod method = SimProviderMethod::kByItself;
  const SimVm* vm = nullptr;                  // After the change; its last state when forgotten.
  std::optional<ProviderStatus> before = {};  // Empty: it is new.
  std::optional<ProviderStatus> after = {};   // Empty: no trace of it is left.
};

// A request about one VM as the process that makes it knows of it: a look when it is sent, a
// creation when it is answered. An answer that comes to nobody is not told.
struct SimProviderCall {
  const std::string& process;
  SimProviderMethod method = SimProviderMethod::kGet;  // Or kCreate.
  const InstanceId& instance_id;
  bool maybe_done = false;  // kCreate: the process cannot tell whether there is a VM.
};

class SimProvider;

class SimCloud final {
 public:
  struct Limits {
    std::optional<std::size_t> vms = std::nullopt;      // Quota; deleted ones do not count.
    std::map<std::string, std::size_t> types = {};      // Capacity of an instance type.
    std::map<std::string, std::uint64_t> subnets = {};  // Addresses; others have no limit.
    std::map<std::string, config::Arch> type_architectures = {};
  };
  struct Options {
    ProviderCapabilities capabilities = {.kind = config::ProviderKind::kAws,
                                         .max_create_time = Duration::Seconds(60),
                                         .consistency_window = Duration::Seconds(30),
                                         .push_events = true,
                                         .leader_network = true,
                                         .power = true};
    SimVmLives lives = {};
    SimCloudLies lies = {};
    Limits limits = {};
    // What the cloud's clock shows at world time zero.
    Timestamp wall_start = Timestamp::FromUnix(1'700'000'000);
  };

  SimCloud(SimScheduler& scheduler, Options options);
  ~SimCloud();
  SimCloud(const SimCloud&) = delete;
  SimCloud& operator=(const SimCloud&) = delete;

  // The truth, in the order of creation, without those that are deleted or forgotten.
  [[nodiscard]] std::vector<const SimVm*> Vms() const;
  [[nodiscard]] std::vector<const SimVm*> VmsOf(const InstanceId& id) const;
  // Also deleted ones. Null: forgotten, or never there.
  [[nodiscard]] const SimVm* Find(std::string_view provider_id) const;
  // Who holds the leader's address; empty: nobody.
  [[nodiscard]] std::string LeaderHolder(const std::string& ip) const;

  // What happens behind everybody's back, at once. False when there is no such VM.
  bool SetStatusByHand(std::string_view provider_id, ProviderStatus status);
  bool VanishByHand(std::string_view provider_id);
  // A VM that nobody asked for: an orphan, another cluster's, one without an id. Returns its
  // provider id.
  std::string AddByHand(ProviderInstance vm);

  void set_observer(std::function<void(const SimVmChange&)> observer) {
    observer_ = std::move(observer);
  }
  void set_call_observer(std::function<void(const SimProviderCall&)> observer) {
    call_observer_ = std::move(observer);
  }
  // A machine begins to run (also after a stop), and ends in whatever way.
  void set_on_started(std::function<void(const SimVm&)> hook) { on_started_ = std::move(hook); }
  void set_on_gone(std::function<void(const SimVm&)> hook) { on_gone_ = std::move(hook); }

  // May be changed at any time.
  [[nodiscard]] SimCloudLies& lies() { return options_.lies; }
  [[nodiscard]] const SimCloudLies& lies() const { return options_.lies; }
  [[nodiscard]] SimVmLives& lives() { return options_.lives; }
  [[nodiscard]] Limits& limits() { return options_.limits; }

  // Requests that were sent, whatever became of them.
  [[nodiscard]] std::uint64_t Count(SimProviderMethod method) const;

 private:
  friend class SimProvider;

  struct Revision {
    Instant since;
    std::optional<ProviderInstance> shown;  // Empty: no trace.
  };
  struct Entry {
    SimVm vm;
    std::deque<Revision> revisions;  // The newest last; what is older than a window is dropped.
    bool running = false;            // The started hook was called.
    std::uint64_t life = 0;          // Rises whenever what was scheduled before no longer counts.
  };
  // Who asks, and with which marks.
  struct Asker {
    std::string process;
    std::int64_t epoch = 0;
    std::string cluster;
    std::string shard;
  };
  struct Change {
    Asker by;
    SimProviderMethod method = SimProviderMethod::kByItself;
    std::optional<ProviderStatus> to = {};  // Empty: forgotten.
  };

  // The cloud's side of requests that have arrived.
  [[nodiscard]] ProviderResult<ProviderInstance> Create(const Asker& asker,
                                                        const ProviderCreate& request);
  [[nodiscard]] ProviderResult<ProviderDeleted> Delete(const Asker& asker,
                                                       const ProviderTarget& target);
  [[nodiscard]] ProviderResult<ProviderInstance> Get(const Asker& asker,
                                                     const ProviderTarget& target,
                                                     Duration staleness);
  [[nodiscard]] ProviderResult<ProviderPage> List(const Asker& asker,
                                                  const ProviderListRequest& request,
                                                  Duration staleness);
  [[nodiscard]] ProviderResult<ProviderPowered> Power(const Asker& asker,
                                                      const ProviderTarget& target, bool on);
  [[nodiscard]] std::optional<std::uint64_t> FreeAddresses(const std::string& subnet) const;

  [[nodiscard]] std::optional<ProviderError> CheckLimits(const ProviderCreate& request) const;
  // An empty place for the next VM, perhaps that of one that was forgotten.
  Entry& TakePlace();
  Entry& Make(const Asker& asker, const ProviderCreate& request);
  [[nodiscard]] bool IsShownTo(const Asker& asker, const ProviderInstance& shown) const;
  // What a look as of that moment finds; null: nothing.
  [[nodiscard]] const ProviderInstance* AsOf(const Entry& entry, Instant at) const;
  // Live VMs of a target, the oldest first; kFailedPrecondition when the provider id is of another.
  [[nodiscard]] ProviderResult<std::vector<Entry*>> Targets(const ProviderTarget& target);

  void Apply(Entry& entry, Change change);
  void Boot(Entry& entry);
  void BeginDelete(Entry& entry, const Asker& asker);
  void EndByItself(Entry& entry);
  // Runs `task` on a VM unless its life has taken another turn.
  void LaterInLife(Entry& entry, Duration after, std::function<void(Entry&)> task);
  void Later(Instant at, Task task);
  void Count(SimProviderMethod method, int one) {
    counts_[method] += static_cast<std::uint64_t>(one);
  }
  void Tell(const SimProviderCall& call) const {
    if (call_observer_) call_observer_(call);
  }
  [[nodiscard]] Duration Between(Duration low, Duration high);
  [[nodiscard]] bool Chance(std::uint32_t in_ten_thousand);

  SimScheduler& scheduler_;
  SimLoop loop_;
  Prng prng_;
  Options options_;
  std::map<std::uint64_t, Entry> vms_;  // By number; forgotten ones stay until nobody can see them.
  std::uint64_t next_vm_ = 1;
  std::map<std::string, std::string> leader_holders_;
  std::map<SimProviderMethod, std::uint64_t> counts_;
  std::function<void(const SimVmChange&)> observer_;
  std::function<void(const SimProviderCall&)> call_observer_;
  std::function<void(const SimVm&)> on_started_;
  std::function<void(const SimVm&)> on_gone_;
  std::vector<SimProvider*> providers_;
  std::map<std::uint64_t, Pending> later_;
  std::uint64_t next_later_ = 0;
};

class SimProvider final : public Provider {
 public:
  struct Options {
    std::string process = "process";
    ClusterId cluster;
    ShardId shard;
    SimProviderFaults faults = {};
    // Asked about every request when it is sent, with what chance has drawn for it.
    std::function<SimVerdict(SimProviderMethod, SimFate drawn)> decide = {};
  };

  // Chance is forked from the scheduler's.
  SimProvider(SimCloud& cloud, Loop& loop, Options options);
  ~SimProvider() override;

  [[nodiscard]] const ProviderCapabilities& capabilities() const override;
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

  // May be changed at any time; they hold for requests and answers that are sent from then on.
  [[nodiscard]] SimProviderFaults& faults() { return options_.faults; }
  [[nodiscard]] SimLink& link();

 private:
  friend class SimCloud;
  template <class T>
  struct Call;
  struct Wire;  // What outlives the provider: is there still somebody to answer?

  // What happens to a request, decided when it is sent.
  struct Fate {
    SimFate kind = SimFate::kNormal;
    ProviderReason reason = ProviderReason::kOther;  // kRefused.
    Duration out = {};                               // On its way there.
    Duration back = {};                              // And back.
    Duration staleness = {};
    bool applied = true;  // kErrorMaybeDone.
    std::function<void()> at_answer = {};
  };
  // A request: what the cloud does with it when it arrives.
  template <class T>
  struct Request {
    SimProviderMethod method;
    std::function<ProviderResult<T>(Duration staleness)> judge;
  };

  [[nodiscard]] Fate Draw(SimProviderMethod method);
  [[nodiscard]] SimFate DrawKind(SimProviderMethod method, ProviderReason& reason);
  [[nodiscard]] bool Chance(std::uint32_t in_ten_thousand);
  [[nodiscard]] std::optional<ProviderError> Check(const ProviderCall& call,
                                                   SimProviderMethod method);
  [[nodiscard]] SimCloud::Asker AskerOf(const ProviderCall& call) const;
  template <class T>
  [[nodiscard]] Pending Send(const ProviderCall& call, Done<T> done, Request<T> request);
  template <class T>
  [[nodiscard]] Pending Refuse(Done<T> done, ProviderError error);
  // A change of a VM of this shard: a push event, with this process's luck.
  void Hear(const ProviderInstance& instance);

  SimCloud& cloud_;
  Loop& loop_;
  Options options_;
  Prng prng_;
  std::int64_t epoch_ = 0;
  std::shared_ptr<Wire> wire_;
};

}  // namespace nstance::sim

// Provider: where instances run. A VM below is whatever the provider makes: a machine of a cloud, a
// virtual machine or a process tree of this host.
//
// A provider object is made for one shard of one cluster: what it creates carries their marks, and
// it lists nothing else. All answers come on the loop that it was made for (ports/pending.h), not
// later than the call's deadline. It never blocks the loop, keeps a bounded number of calls waiting
// (one beyond is kUnavailable, kNotDone) and shares its slots among tenants.
//
// Guarantees, each a test of test/contract/provider_contract.h (providers.md 1.1):
//    1  Create is idempotent: one instance id never makes two VMs, also from another process, after
//       a restart and while another Create of it runs. The second one answers the first VM. With
//       other parameters than the first it is kAborted, kMaybeDone: look and adopt.
//    2  Get and List find a VM by its instance id alone, at the latest `consistency_window` after
//       Create has answered.
//    3  A VM carries instance id, managed mark, cluster and shard from the moment it exists.
//       Nothing is deleted, started or stopped unless its instance id is the one asked for.
//    4  Delete of what is gone is success, and may be repeated. Delete while Create runs is safe.
//    5  kNotFound is the provider's positive word about this id. No other error is evidence.
//    6  A listing is complete or an error: a page that fails ends it. An empty one is given so.
//    7  (The caller) absence is believed after two looks, both later than the consistency window.
//    8  Start and Stop may be repeated; the caller's durable intent comes first.
//    9  A call whose effect cannot be excluded fails with kMaybeDone: look before anything else.
//
// Errors. `reason` is the class of back-off; `error.code` and `error.outcome`:
//   not reached, throttled, too many calls     kUnavailable        kNotDone    kOther
//   5xx on a mutation                          kUnavailable        kMaybeDone  kOther
//   no answer by the deadline                  kDeadlineExceeded   kMaybeDone  kOther
//     (the same, never sent)                   kDeadlineExceeded   kNotDone    kOther
//   no capacity of this type or zone           kResourceExhausted  kNotDone    kCapacity
//   quota, limit                               kResourceExhausted  kNotDone    kQuota
//   credentials, permission                    kPermissionDenied   kNotDone    kAuth
//   bad argument, unknown image, type, subnet  kInvalidArgument    kNotDone    kInvalid
//   there is one that is not ours              kAlreadyExists      kNotDone    kInvalid
//   no such VM                                 kNotFound           kNotDone    kOther
//   same id, other parameters                  kAborted            kMaybeDone  kOther
//   an epoch that is over                      kFailedPrecondition kNotDone    kOther
//   the provider id is another instance's VM   kFailedPrecondition kNotDone    kMismatch
//   not offered (see Capabilities)             kUnimplemented      kNotDone    kInvalid
// Messages keep the vendor's code and request id. User data, tokens and credentials never appear.
//
// Cancelling: dropping the Pending drops the answer, not the effect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"
#include "core/config/config.h"
#include "ports/pending.h"

namespace nstance {

enum class ProviderReason : std::uint8_t { kOther, kCapacity, kQuota, kAuth, kInvalid, kMismatch };

// "other", "capacity", "quota", "auth", "invalid", "mismatch".
[[nodiscard]] constexpr std::string_view ProviderReasonName(ProviderReason reason) {
  switch (reason) {
    case ProviderReason::kCapacity: return "capacity";
    case ProviderReason::kQuota: return "quota";
    case ProviderReason::kAuth: return "auth";
    case ProviderReason::kInvalid: return "invalid";
    case ProviderReason::kMismatch: return "mismatch";
    case ProviderReason::kOther: break;
  }
  return "other";
}

struct ProviderError {
  Error error;
  ProviderReason reason = ProviderReason::kOther;
  friend bool operator==(const ProviderError&, const ProviderError&) = default;
};

template <class T>
using ProviderResult = std::expected<T, ProviderError>;

enum class ProviderStatus : std::uint8_t {
  kUnknown,  // The provider said something that we do not know.
  kPending,
  kRunning,
  kStopping,
  kStopped,
  kSuspending,
  kSuspended,
  kDeleting,
  kDeleted,
  kRepairing,
  kFailed,
};

// "pending", "running", ... as records and the API spell them.
[[nodiscard]] constexpr std::string_view ProviderStatusName(ProviderStatus status) {
  switch (status) {
    case ProviderStatus::kPending: return "pending";
    case ProviderStatus::kRunning: return "running";
    case ProviderStatus::kStopping: return "stopping";
    case ProviderStatus::kStopped: return "stopped";
    case ProviderStatus::kSuspending: return "suspending";
    case ProviderStatus::kSuspended: return "suspended";
    case ProviderStatus::kDeleting: return "deleting";
    case ProviderStatus::kDeleted: return "deleted";
    case ProviderStatus::kRepairing: return "repairing";
    case ProviderStatus::kFailed: return "failed";
    case ProviderStatus::kUnknown: break;
  }
  return "unknown";
}

// What the provider itself says of a VM. Text is as the provider has it: not trusted, and empty
// where it says nothing. Nothing in it is a secret.
struct ProviderInstance {
  // Empty: it carries our marks, but no id that parses; such a VM is only reported.
  std::optional<InstanceId> instance_id = std::nullopt;
  // For people: the instance id, or "dangling-<provider id>".
  std::string shown_id = {};
  std::string provider_instance_id = {};  // Never empty.
  ProviderStatus status = ProviderStatus::kUnknown;
  std::string instance_type = {};
  std::string private_ipv4 = {};
  std::string private_ipv6 = {};
  std::string hostname = {};
  std::string region = {};
  std::string zone = {};
  std::optional<Timestamp> launched_at = std::nullopt;
  // The marks of ownership as the VM carries them.
  bool managed = false;
  std::string cluster_id = {};
  std::string shard = {};
  // Annotations: what a person or an orphan sweep can use; records decide.
  std::string tenant = {};
  std::string group = {};
  std::string template_name = {};
  std::string kind = {};
  std::optional<Timestamp> created_at = std::nullopt;
  // All others, without the ones above.
  std::map<std::string, std::string> tags = {};
  friend bool operator==(const ProviderInstance&, const ProviderInstance&) = default;
};

// Constant for the life of a provider object.
struct ProviderCapabilities {
  config::ProviderKind kind = config::ProviderKind::kLocal;
  // A Create that takes longer has failed in some way. `server.request_timeout` if that is longer.
  Duration max_create_time = {};
  // How long Get and List may lag behind an answered Create or Delete; zero: not at all.
  Duration consistency_window = {};
  bool push_events = false;     // Watch() reports.
  bool leader_network = false;  // AssignLeaderNetwork() works.
  bool power = false;           // Start() and Stop() work.
  // How instances reach this host's loopback, where they cannot by its own name; else empty.
  std::string host_alias = {};
};

// Comes with every call.
struct ProviderCall {
  // The leadership under which the call was planned. A mutation with an epoch below one that this
  // object has seen is refused.
  std::int64_t epoch = 0;
  // When the answer is due, by the loop's clock.
  Instant deadline;
  // Whose share of the slots the call uses; empty: the server's own work.
  std::optional<TenantId> tenant = std::nullopt;
};

// Everything of a new VM. The same instance id goes only with the same values of all members.
struct ProviderCreate {
  InstanceId instance_id;  // Also the idempotency token.
  TenantId tenant;
  std::string group = {};
  std::string template_name = {};
  std::string kind = {};  // Of the instance: "wrk".
  config::Arch arch = config::Arch::kAmd64;
  std::string instance_type = {};
  std::string subnet = {};
  json::Object args = {};      // Rendered.
  std::string user_data = {};  // Rendered; holds the registration token: secret.
  std::map<std::string, std::string> tags = {};
  Timestamp created_at;  // Of the record, so that a repeated Create has the same.
  friend bool operator==(const ProviderCreate&, const ProviderCreate&) = default;
};

// Which VM. Without a provider id it is found by its instance id; with both, both must match.
struct ProviderTarget {
  InstanceId instance_id;
  std::string provider_instance_id = {};
};

enum class ProviderDeleted : std::uint8_t { kDone, kAlreadyGone };
enum class ProviderPowered : std::uint8_t { kAccepted, kAlreadySo };

struct ProviderListRequest {
  // From the page before; empty for the first.
  std::string page_token = {};
  // At most this many; the provider may return fewer, also none with a token.
  std::size_t page_size = 500;
};

struct ProviderPage {
  std::vector<ProviderInstance> instances = {};
  std::string next_page_token = {};  // Empty: this was the last page.
};

class Provider {
 public:
  // More is refused with kInvalidArgument by every provider (some allow less).
  static constexpr std::size_t kMaxUserDataBytes = std::size_t{1} << 20U;

  Provider() = default;
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;
  virtual ~Provider() = default;

  template <class T>
  using Done = std::move_only_function<void(ProviderResult<T>)>;
  using OnChange = std::move_only_function<void(const ProviderInstance&)>;

  [[nodiscard]] virtual const ProviderCapabilities& capabilities() const = 0;

  // Answers when the VM exists; it may still be kPending.
  [[nodiscard]] virtual Pending Create(ProviderCall call, ProviderCreate request,
                                       Done<ProviderInstance> done) = 0;

  // kAlreadyGone: there is no such VM. Answers when the VM is gone or surely going; Get tells.
  [[nodiscard]] virtual Pending Delete(ProviderCall call, ProviderTarget target,
                                       Done<ProviderDeleted> done) = 0;

  [[nodiscard]] virtual Pending Get(ProviderCall call, ProviderTarget target,
                                    Done<ProviderInstance> done) = 0;

  // One page of the VMs with the marks of this cluster and shard, in whatever state.
  [[nodiscard]] virtual Pending List(ProviderCall call, ProviderListRequest request,
                                     Done<ProviderPage> done) = 0;

  // Disk and identity stay. The outcome is learnt by Get.
  [[nodiscard]] virtual Pending Start(ProviderCall call, ProviderTarget target,
                                      Done<ProviderPowered> done) = 0;
  [[nodiscard]] virtual Pending Stop(ProviderCall call, ProviderTarget target,
                                     Done<ProviderPowered> done) = 0;

  // Empty: the provider cannot tell.
  [[nodiscard]] virtual Pending InstanceTypeArch(ProviderCall call, std::string instance_type,
                                                 Done<std::optional<config::Arch>> done) = 0;
  // Free addresses; empty: the provider cannot tell, or there is no limit.
  [[nodiscard]] virtual Pending SubnetCapacity(ProviderCall call, std::string subnet,
                                               Done<std::optional<std::uint64_t>> done) = 0;

  // Makes this machine the holder of the leader's address, taking it from whoever has it; and the
  // reverse, which touches nothing that this machine no longer holds. Both may be repeated.
  [[nodiscard]] virtual Pending AssignLeaderNetwork(ProviderCall call,
                                                    config::LeaderNetwork network,
                                                    Done<void> done) = 0;
  [[nodiscard]] virtual Pending ReleaseLeaderNetwork(ProviderCall call,
                                                     config::LeaderNetwork network,
                                                     Done<void> done) = 0;

  // Calls back on the loop with what a VM of this shard has become (kDeleted: it is gone), until
  // the Pending goes. News is a hint, to look sooner than otherwise: it may be lost, late or
  // repeated, and covers at least the VMs that this object has created, got or listed. Without
  // `push_events` it stays silent.
  [[nodiscard]] virtual Pending Watch(OnChange on_change) = 0;
};

}  // namespace nstance

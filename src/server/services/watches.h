// Watches: WatchGroups, WatchInstances, WatchErrors, WatchEvents (wire.md 6.3). Any number of
// clients of a tenant may watch; each sees a snapshot on connect and events afterwards, of its own
// tenant only.
//
// A message that several watchers get is encoded once. What a slow reader has not taken waits in a
// queue of its own, 1,000 messages or 8 MiB; beyond that its stream ends with ABORTED, and the
// client comes back to a new snapshot. Group events are coalesced, at most one per second and
// group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ports/api/events.h"
#include "ports/api/groups.h"
#include "server/services/service_context.h"
#include "server/services/unary_calls.h"

namespace nstance {

class Watches final {
 public:
  explicit Watches(ServiceContext& context) : context_(context) {}
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  void WatchGroups(std::unique_ptr<RpcServerCall> call);
  void WatchInstances(std::unique_ptr<RpcServerCall> call);
  void WatchErrors(std::unique_ptr<RpcServerCall> call);
  // The latest `backlog` events that match, then live ones.
  void WatchEvents(std::unique_ptr<RpcServerCall> call);

  // What happened, told by the fleet and by changes of groups.
  void OnInstanceEvent(const api::InstanceEvent& event);
  void OnGroupChanged(const TenantId& tenant, const GroupKey& group);
  void OnGroupsPublished(const GroupsRef& before, const GroupsRef& now);
  void OnError(const TenantId& tenant, api::ErrorEvent event);
  void OnEvent(const TenantId& tenant, const EventRef& event);

  // Every watcher of the tenant's instances understands `drain_cancelled`.
  [[nodiscard]] bool AllUnderstandCancel(const TenantId& tenant) const;
  void Measure(metrics::Registry& gauges) const;
  static void Declare(metrics::Snapshot& page);
  [[nodiscard]] std::size_t size() const { return streams_.size(); }

 private:
  enum class Kind : std::uint8_t { kGroups, kInstances, kErrors, kEvents };
  struct Stream {
    Kind kind = Kind::kGroups;
    TenantId tenant;
    std::unique_ptr<RpcServerCall> call;
    bool understands_cancel = false;
    bool full = false;
    std::deque<std::pair<RpcMessage, std::size_t>> waiting = {};
    std::size_t waiting_bytes = 0;
    // kEvents: what was asked for; empty before the request has come.
    std::optional<api::WatchEventsRequest> wanted = std::nullopt;
  };
  using GroupName = std::pair<TenantId, GroupKey>;

  std::uint64_t Open(Kind kind, std::unique_ptr<RpcServerCall> call);
  void OnRequest(std::uint64_t number, const RpcMessage& message);
  void SendBacklog(std::uint64_t number);
  void Send(std::uint64_t number, const RpcMessage& message, std::size_t size);
  void OnDrained(std::uint64_t number);
  void SendGroup(const GroupName& name);
  void FlushGroups();
  void End(std::uint64_t number, Status status);
  [[nodiscard]] static std::string_view KindName(Kind kind);

  static constexpr std::size_t kMaxMessages = 1'000;
  static constexpr std::size_t kMaxBytes = std::size_t{8} * 1024 * 1024;

  ServiceContext& context_;
  std::map<std::uint64_t, Stream> streams_;
  std::uint64_t next_ = 1;
  std::set<GroupName> changed_;            // Wait for the next flush.
  std::map<GroupName, Instant> told_at_;   // When the group was told last.
  std::map<std::string, Instant> errors_;  // "tenant/group/text": when it was told last.
  Pending flush_;
};

}  // namespace nstance

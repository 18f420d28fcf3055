#include "server/services/watches.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/fault_point.h"
#include "base/metric_families.h"
#include "server/services/features.h"
#include "server/services/group_status.h"

namespace nstance {
namespace {

constexpr Duration kGroupGap = Duration::Seconds(1);
constexpr Duration kErrorGap = Duration::Minutes(1);
constexpr std::size_t kMaxErrorTexts = 10'000;
constexpr std::int32_t kMaxBacklog = 256;

// What a message holds in a queue, roughly: its texts count, not its encoding.
std::size_t SizeOf(const api::GroupStatus& status) {
  std::size_t size = 256;
  for (const std::string& id : status.provider_ids) size += id.size() + 32;
  for (const std::string& id : status.instance_ids) size += id.size() + 32;
  for (const auto& [name, value] : status.vars) size += name.size() + value.size() + 64;
  return size;
}

std::size_t SizeOf(const api::Event& event) {
  return 256 + event.reason.size() + event.message.size();
}

bool Matches(const api::WatchEventsRequest& wanted, const api::Event& event) {
  return (wanted.group.empty() || wanted.group == event.group) &&
         (wanted.instance_id.empty() || wanted.instance_id == event.instance_id);
}

Status CheckRequest(const api::WatchEventsRequest& request) {
  if (request.backlog < 0 || request.backlog > kMaxBacklog) {
    return Fail(InvalidArgument(fmt::format("backlog: 0 to {}", kMaxBacklog)));
  }
  if (!request.group.empty()) {
    const Result<GroupKey> key = GroupKey::Parse(request.group);
    if (!key.has_value()) return Fail(InvalidArgument("group: " + key.error().message));
  }
  if (request.instance_id.empty()) return {};
  const Result<InstanceId> id = ParseInstanceId(request.instance_id);
  if (!id.has_value()) return Fail(id.error());
  return {};
}

const metrics::Family& Overflows() {
  static const metrics::Family kFamily = {.name = "watch_overflows_total",
                                          .help = "Watchers that were too slow and were ended.",
                                          .labels = {"kind"},
                                          .buckets = {}};
  return kFamily;
}

}  // namespace

// --- Figures -------------------------------------------------------------------------------------

std::string_view Watches::KindName(Kind kind) {
  switch (kind) {
    case Kind::kGroups: return "groups";
    case Kind::kInstances: return "instances";
    case Kind::kErrors: return "errors";
    case Kind::kEvents: break;
  }
  return "events";
}

void Watches::Declare(metrics::Snapshot& page) {
  nstance::Declare(page, Overflows(), metrics::Kind::kCounter);
}

// An operator counts as connected while one of its certificates watches something.
void Watches::Measure(metrics::Registry& gauges) const {
  static const metrics::Family kStreams = {
      .name = "watch_streams", .help = "Watches that are open.", .labels = {"kind"}, .buckets = {}};
  static const metrics::Family kOperators = {.name = "operators_connected",
                                             .help = "Operators that watch something.",
                                             .labels = {"tenant"},
                                             .buckets = {}};
  for (const Kind kind : {Kind::kGroups, Kind::kInstances, Kind::kErrors, Kind::kEvents}) {
    const std::array labels = {KindName(kind)};
    gauges.Gauge(kStreams, labels)
        .Set(AsMetric(std::ranges::count_if(
            streams_, [kind](const auto& at) { return at.second.kind == kind; })));
  }
  std::set<std::pair<std::string_view, std::string_view>> serials;
  for (const auto& [number, stream] : streams_) {
    serials.emplace(stream.tenant.text(), stream.call->info().peer.identity->serial);
  }
  for (const auto& [tenant, serial] : serials) {
    const std::array labels = {tenant};
    gauges.Gauge(kOperators, labels).Add(1);
  }
}

// --- Streams -------------------------------------------------------------------------------------

std::uint64_t Watches::Open(Kind kind, std::unique_ptr<RpcServerCall> call) {
  const std::uint64_t number = next_++;
  const bool understands = HasFeature(call->info().metadata, Feature::kDrainCancel);
  Stream& stream = streams_
                       .try_emplace(number, Stream{.kind = kind,
                                                   .tenant = call->info().peer.identity->tenant,
                                                   .call = std::move(call),
                                                   .understands_cancel = understands})
                       .first->second;
  stream.call->Listen(
      {.message = [this, number](const RpcMessage& message) { OnRequest(number, message); },
       .cancelled =
           [this, number](const Error&) {
             const auto at = streams_.find(number);
             if (at == streams_.end()) return;
             auto gone = std::make_shared<Stream>(std::move(at->second));
             streams_.erase(at);
             context_.loop.Post([gone] {});
           },
       .drained = [this, number] { OnDrained(number); }});
  return number;
}

void Watches::End(std::uint64_t number, Status status) {
  const auto at = streams_.find(number);
  if (at == streams_.end()) return;
  at->second.call->Finish(std::move(status));
  auto gone = std::make_shared<Stream>(std::move(at->second));
  streams_.erase(at);
  context_.loop.Post([gone] {});
}

void Watches::Send(std::uint64_t number, const RpcMessage& message, std::size_t size) {
  const auto at = streams_.find(number);
  if (at == streams_.end()) return;
  Stream& stream = at->second;
  if (!stream.full) {
    const RpcSend sent = stream.call->Send(message);
    stream.full = sent != RpcSend::kTaken;
    if (sent == RpcSend::kTooLarge) {
      return End(number, Fail(ResourceExhausted("an event is above 4 MiB")));
    }
    if (sent != RpcSend::kRefused) return;
  }
  stream.waiting.emplace_back(message, size);
  stream.waiting_bytes += size;
  if (stream.waiting.size() > kMaxMessages || stream.waiting_bytes > kMaxBytes) {
    context_.source.Limit("watch_queue");
    if (context_.metrics != nullptr) {
      const std::array labels = {KindName(stream.kind)};
      context_.metrics->Counter(Overflows(), labels).Add();
    }
    End(number, Fail(Aborted("the watcher is too slow; connect again for a new snapshot")));
  }
}

void Watches::OnDrained(std::uint64_t number) {
  const auto at = streams_.find(number);
  if (at == streams_.end()) return;
  Stream& stream = at->second;
  stream.full = false;
  while (!stream.full && !stream.waiting.empty()) {
    const RpcSend sent = stream.call->Send(stream.waiting.front().first);
    if (sent == RpcSend::kTooLarge) {
      return End(number, Fail(ResourceExhausted("an event is above 4 MiB")));
    }
    stream.full = sent != RpcSend::kTaken;
    stream.waiting_bytes -= stream.waiting.front().second;
    stream.waiting.pop_front();
  }
}

// --- Groups --------------------------------------------------------------------------------------

void Watches::WatchGroups(std::unique_ptr<RpcServerCall> call) {
  const std::uint64_t number = Open(Kind::kGroups, std::move(call));
  const TenantId tenant = streams_.at(number).tenant;
  const GroupsRef groups = context_.groups.groups();
  const auto at = groups->groups.find(tenant);
  if (at == groups->groups.end()) return;
  for (const auto& [key, group] : at->second) {
    api::GroupStatus status = GroupStatusOf(context_.fleet, tenant, key, *group);
    const std::size_t size = SizeOf(status);
    Send(number,
         RpcMessage::Of(
             api::GroupEvent{.type = api::GroupEventType::kUpsert, .group = std::move(status)}),
         size);
  }
}

void Watches::OnGroupChanged(const TenantId& tenant, const GroupKey& group) {
  changed_.insert({tenant, group});
  FlushGroups();
}

void Watches::OnGroupsPublished(const GroupsRef& before, const GroupsRef& now) {
  for (const auto& [tenant, groups] : now->groups) {
    for (const auto& [key, group] : groups) {
      const MergedGroup* old = before == nullptr ? nullptr : before->Find(tenant, key);
      if (old == nullptr || old->etag != group->etag) changed_.insert({tenant, key});
    }
  }
  if (before != nullptr) {
    for (const auto& [tenant, groups] : before->groups) {
      for (const auto& [key, group] : groups) {
        if (now->Find(tenant, key) == nullptr) changed_.insert({tenant, key});
      }
    }
  }
  AtStep(Step::kG7);
  FlushGroups();
}

// Tells what is due; the rest when its second is over.
void Watches::FlushGroups() {
  const Instant now = context_.loop.Now();
  std::optional<Instant> next;
  for (auto at = changed_.begin(); at != changed_.end();) {
    const auto told = told_at_.find(*at);
    if (told != told_at_.end() && now - told->second < kGroupGap) {
      const Instant due = told->second + kGroupGap;
      if (!next || due < *next) next = due;
      ++at;
      continue;
    }
    SendGroup(*at);
    at = changed_.erase(at);
  }
  if (next) flush_ = context_.loop.CallAt(*next, [this] { FlushGroups(); });
}

void Watches::SendGroup(const GroupName& name) {
  told_at_[name] = context_.loop.Now();
  const GroupsRef& groups = context_.groups.groups();
  const MergedGroup* group = groups == nullptr ? nullptr : groups->Find(name.first, name.second);
  api::GroupEvent event;
  if (group == nullptr) {
    event.type = api::GroupEventType::kDelete;
    event.group = api::GroupStatus{.key = name.second.text(), .tenant = name.first.text()};
    told_at_.erase(name);
  } else {
    event.type = api::GroupEventType::kUpsert;
    event.group = GroupStatusOf(context_.fleet, name.first, name.second, *group);
  }
  const std::size_t size = SizeOf(*event.group);
  const RpcMessage message = RpcMessage::Of(std::move(event));
  std::vector<std::uint64_t> to;
  for (const auto& [number, stream] : streams_) {
    if (stream.kind == Kind::kGroups && stream.tenant == name.first) to.push_back(number);
  }
  for (const std::uint64_t number : to) Send(number, message, size);
}

// --- Instances -----------------------------------------------------------------------------------

void Watches::WatchInstances(std::unique_ptr<RpcServerCall> call) {
  const std::uint64_t number = Open(Kind::kInstances, std::move(call));
  const TenantId tenant = streams_.at(number).tenant;
  for (const Instance* instance : context_.fleet.OfTenant(tenant)) {
    if (instance->phase() != InstancePhase::kDraining) continue;
    const InstanceRecord& record = *instance->record();
    if (!record.drain) continue;
    Send(number,
         RpcMessage::Of(api::InstanceEvent{.instance_id = instance->id.text(),
                                           .tenant = tenant.text(),
                                           .provider_instance_id = record.provider_instance_id,
                                           .group = record.group.text(),
                                           .status = "pending_deletion",
                                           .reason = record.drain->reason,
                                           .unhealthy_at = record.drain->started_at,
                                           .delete_at = record.drain->delete_at,
                                           .drain_id = record.drain->id}),
         512);
  }
}

void Watches::OnInstanceEvent(const api::InstanceEvent& event) {
  const bool cancels = event.status == "drain_cancelled";
  const RpcMessage message = RpcMessage::Of(event);
  std::vector<std::uint64_t> to;
  for (const auto& [number, stream] : streams_) {
    if (stream.kind != Kind::kInstances) continue;
    if (stream.tenant.text() != event.tenant && !Planted(Plant::kForeignWatcher)) continue;
    if (!cancels || stream.understands_cancel) to.push_back(number);
  }
  for (const std::uint64_t number : to) Send(number, message, 512);
}

bool Watches::AllUnderstandCancel(const TenantId& tenant) const {
  return std::ranges::all_of(streams_, [&](const auto& at) {
    const Stream& stream = at.second;
    return stream.kind != Kind::kInstances || stream.tenant != tenant || stream.understands_cancel;
  });
}

// --- Errors --------------------------------------------------------------------------------------

void Watches::WatchErrors(std::unique_ptr<RpcServerCall> call) {
  Open(Kind::kErrors, std::move(call));
}

// At most one per group, text and minute.
void Watches::OnError(const TenantId& tenant, api::ErrorEvent event) {
  const Instant now = context_.loop.Now();
  const std::string name = tenant.text() + "/" + event.group + "/" + event.error;
  if (errors_.size() >= kMaxErrorTexts) {
    std::erase_if(errors_, [&](const auto& at) { return now - at.second >= kErrorGap; });
    if (errors_.size() >= kMaxErrorTexts) errors_.clear();
  }
  const auto [at, fresh] = errors_.try_emplace(name, now);
  if (!fresh && now - at->second < kErrorGap) return;
  at->second = now;
  const std::size_t size = event.error.size() + 256;
  const RpcMessage message = RpcMessage::Of(std::move(event));
  std::vector<std::uint64_t> to;
  for (const auto& [number, stream] : streams_) {
    if (stream.kind == Kind::kErrors && stream.tenant == tenant) to.push_back(number);
  }
  for (const std::uint64_t number : to) Send(number, message, size);
}

// --- Events --------------------------------------------------------------------------------------

void Watches::WatchEvents(std::unique_ptr<RpcServerCall> call) {
  Open(Kind::kEvents, std::move(call));
}

// Of the other watches the request says nothing.
void Watches::OnRequest(std::uint64_t number, const RpcMessage& message) {
  const auto at = streams_.find(number);
  if (at == streams_.end() || at->second.kind != Kind::kEvents) return;
  const auto* request = message.As<api::WatchEventsRequest>();
  if (request == nullptr) {
    return End(number, Fail(Internal("the request is of another type")));
  }
  if (Status sound = CheckRequest(*request); !sound.has_value()) {
    return End(number, Fail(BadInput(context_, "watch_events", std::move(sound).error())));
  }
  at->second.wanted = *request;
  SendBacklog(number);
}

void Watches::SendBacklog(std::uint64_t number) {
  const Stream& stream = streams_.at(number);
  const EventRing* log = context_.fleet.Events(stream.tenant);
  if (log == nullptr) return;
  std::vector<EventRef> latest;
  const auto most = static_cast<std::size_t>(stream.wanted->backlog);
  for (std::size_t i = log->size(); i > 0 && latest.size() < most; --i) {
    if (Matches(*stream.wanted, *log->at(i - 1))) latest.push_back(log->at(i - 1));
  }
  for (auto event = latest.rbegin(); event != latest.rend(); ++event) {
    Send(number, RpcMessage::Of(api::Event(**event)), SizeOf(**event));
  }
}

void Watches::OnEvent(const TenantId& tenant, const EventRef& event) {
  std::vector<std::uint64_t> to;
  for (const auto& [number, stream] : streams_) {
    const bool wants = stream.wanted && stream.tenant == tenant && Matches(*stream.wanted, *event);
    if (wants) to.push_back(number);
  }
  if (to.empty()) return;
  const RpcMessage message = RpcMessage::Of(api::Event(*event));
  for (const std::uint64_t number : to) Send(number, message, SizeOf(*event));
}

}  // namespace nstance

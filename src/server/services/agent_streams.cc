#include "server/services/agent_streams.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/fault_point.h"
#include "server/services/features.h"

namespace nstance {
namespace {

constexpr std::int64_t kBurst = 10;
constexpr int kMaxPerSecond = 100;
constexpr Duration kSecond = Duration::Seconds(1);

Error Replaced() { return Aborted("a newer stream of the same agent replaced it"); }

}  // namespace

AgentStreams::Stream& AgentStreams::Replace(Streams& streams, const InstanceId& id,
                                            std::unique_ptr<RpcServerCall> call,
                                            Status to_the_older) {
  const auto at = streams.find(id);
  if (at != streams.end()) {
    at->second.call->Finish(std::move(to_the_older));
    streams.erase(at);
  }
  Stream& stream = streams[id];
  stream.call = std::move(call);
  stream.number = next_++;
  return stream;
}

// --- Health --------------------------------------------------------------------------------------

// Of two streams the newer wins. One that shows an older certificate than the stream it replaces
// may come from a copy of the machine.
void AgentStreams::CheckAge(const InstanceId& id, const crypto::PeerIdentity& newer) {
  const auto at = health_.find(id);
  const Instance* instance = context_.fleet.Find(id);
  if (at == health_.end() || instance == nullptr || instance->record() == nullptr) return;
  const crypto::PeerIdentity& older = *at->second.call->info().peer.identity;
  const std::string& latest = instance->record()->cert_serial;
  if (newer.serial == older.serial || newer.serial == latest) return;
  if (older.serial != latest && newer.not_after >= older.not_after) return;
  context_.alarm({.name = "older_certificate",
                  .detail = "a newer stream shows an older certificate, serial " + newer.serial,
                  .instance_id = id});
}

void AgentStreams::OpenHealth(const InstanceId& id, std::unique_ptr<RpcServerCall> call) {
  CheckAge(id, *call->info().peer.identity);
  Stream& stream = Replace(health_, id, std::move(call), Fail(Replaced()));
  const std::uint64_t number = stream.number;
  stream.tokens = kBurst;
  stream.refilled_at = context_.loop.Now();
  stream.second_began = stream.refilled_at;
  AtStep(Step::kH1);
  context_.fleet.StreamOpened(id);
  stream.call->Listen({.message = [this, id](const RpcMessage& message) { OnReport(id, message); },
                       .half_close =
                           [this, id, number] {
                             const auto at = health_.find(id);
                             if (at == health_.end() || at->second.number != number) return;
                             at->second.call->Send(RpcMessage::Of(api::Empty{}));
                             at->second.call->Finish({});
                             HealthEnded(id, number);
                           },
                       .cancelled = [this, id, number](const Error&) { HealthEnded(id, number); }});
}

void AgentStreams::HealthEnded(const InstanceId& id, std::uint64_t number) {
  const auto at = health_.find(id);
  if (at == health_.end() || at->second.number != number) return;
  Drop(health_, id);
  context_.fleet.StreamEnded(id);
}

bool AgentStreams::MayProcess(Stream& stream, Instant now) {
  const std::int64_t earned = (now - stream.refilled_at).seconds();
  if (earned > 0) {
    stream.tokens = std::min(kBurst, stream.tokens + earned);
    stream.refilled_at = stream.refilled_at + kSecond * earned;
  }
  if (stream.tokens == 0) return false;
  --stream.tokens;
  return true;
}

void AgentStreams::OnReport(const InstanceId& id, const RpcMessage& message) {
  const auto at = health_.find(id);
  if (at == health_.end()) return;
  Stream& stream = at->second;
  AtStep(Step::kH2);
  const auto* report = message.As<api::HealthReportRequest>();
  const Instant now = context_.loop.Now();
  if (now - stream.second_began >= kSecond) {
    stream.second_began = now;
    stream.in_second = 0;
  }
  const std::uint64_t number = stream.number;
  if (report == nullptr || report->instance_id != id.text()) {
    context_.source.Bad("instance_id");
    stream.call->Finish(Fail(PermissionDenied("instance ID mismatch")));
    return HealthEnded(id, number);
  }
  if (++stream.in_second > kMaxPerSecond) {
    context_.source.Limit("health_reports");
    stream.call->Finish(Fail(ResourceExhausted("more than 100 health reports in a second")));
    return HealthEnded(id, number);
  }
  if (report->count <= stream.last_count) {
    context_.source.Bad("health_seq_anomaly");
    if (!std::exchange(stream.out_of_order, true)) {
      context_.alarm(
          {.name = "health_seq_anomaly",
           .detail = fmt::format("its reports count {} after {}", report->count, stream.last_count),
           .instance_id = id});
    }
  }
  stream.last_count = report->count;
  if (!MayProcess(stream, now)) {
    context_.source.Limit("health_report_rate");
    const bool waits = stream.latest.has_value();
    stream.latest = *report;
    if (waits) return;
    stream.turn = context_.loop.CallAt(stream.refilled_at + kSecond,
                                       [this, id, number] { TakeLatest(id, number); });
    return;
  }
  stream.latest.reset();  // This one is newer.
  Take(id, *report);
}

void AgentStreams::TakeLatest(const InstanceId& id, std::uint64_t number) {
  const auto at = health_.find(id);
  if (at == health_.end() || at->second.number != number || !at->second.latest) return;
  if (!MayProcess(at->second, context_.loop.Now())) return;
  const api::HealthReportRequest report = *std::exchange(at->second.latest, std::nullopt);
  Take(id, report);
}

void AgentStreams::Take(const InstanceId& id, const api::HealthReportRequest& report) {
  const auto& notice = report.termination_notice;
  if (notice && !fleet::IsNoticeAction(notice->action)) context_.source.Bad("termination_action");
  context_.fleet.Report(id, report);
}

void AgentStreams::Measure(metrics::Registry& gauges) const {
  static const metrics::Family kConnected = {.name = "agents_connected",
                                             .help = "Agents with an open health stream.",
                                             .labels = {"tenant"},
                                             .buckets = {}};
  for (const auto& [id, stream] : health_) {
    const std::array<std::string_view, 1> labels = {
        stream.call->info().peer.identity->tenant.text()};
    gauges.Gauge(kConnected, labels).Add(1);
  }
}

// --- Keys and files ------------------------------------------------------------------------------

void AgentStreams::OpenKeys(const InstanceId& id, std::unique_ptr<RpcServerCall> call) {
  const bool featureless = !HasAnyFeature(call->info().metadata);
  const auto at = keys_.find(id);
  if (featureless && at != keys_.end()) {
    const std::uint64_t old = at->second.number;
    Stream& left = left_alone_[old] = std::move(at->second);
    keys_.erase(at);
    left.call->Listen({.cancelled = [this, old](const Error&) { Drop(left_alone_, old); }});
  }
  Stream& stream = Replace(keys_, id, std::move(call), Fail(Replaced()));
  const std::uint64_t number = stream.number;
  stream.call->Listen({.cancelled = [this, id, number](const Error&) {
    const auto gone = keys_.find(id);
    if (gone != keys_.end() && gone->second.number == number) Drop(keys_, id);
  }});
}

void AgentStreams::OpenFiles(const InstanceId& id, std::unique_ptr<RpcServerCall> call) {
  Status to_the_older = Fail(Replaced());
  if (!HasAnyFeature(call->info().metadata)) to_the_older = {};
  Stream& stream = Replace(files_, id, std::move(call), std::move(to_the_older));
  const std::uint64_t number = stream.number;
  stream.call->Listen({.cancelled = [this, id, number](const Error&) {
    const auto gone = files_.find(id);
    if (gone != files_.end() && gone->second.number == number) Drop(files_, id);
  }});
}

void AgentStreams::End(const InstanceId& id, const Error& why) {
  std::vector<std::uint64_t> left;
  for (const auto& [number, stream] : left_alone_) {
    if (stream.call->info().peer.identity->id == id.text()) left.push_back(number);
  }
  for (const std::uint64_t number : left) {
    left_alone_.at(number).call->Finish(Fail(why));
    Drop(left_alone_, number);
  }
  for (Streams* streams : {&keys_, &files_, &health_}) {
    const auto at = streams->find(id);
    if (at == streams->end()) continue;
    const std::uint64_t number = at->second.number;
    at->second.call->Finish(Fail(why));
    if (streams == &health_) {
      HealthEnded(id, number);
      continue;
    }
    Drop(*streams, id);
  }
}

}  // namespace nstance

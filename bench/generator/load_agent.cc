#include "bench/generator/load_agent.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "ports/api/methods.h"
#include "ports/rpc_unary.h"

namespace nstance::bench {
namespace {

RpcMetadata Features() { return {{.name = "nstance-features", .value = "renew,rebind"}}; }

api::Metrics SampleMetrics() {
  api::Metrics metrics;
  metrics.cpu_usage = 17.25;
  metrics.cpu_core_usage = {11.5, 23.25, 9.75, 24.5};
  metrics.memory_usage = 41.5;
  metrics.network_interface = api::InterfaceMetrics{.interface_name = "eth0",
                                                    .rx_bytes = 81'234'567'890,
                                                    .tx_bytes = 12'345'678'901,
                                                    .rx_packets = 71'234'567,
                                                    .tx_packets = 41'234'567,
                                                    .rx_drops = 12,
                                                    .tx_drops = 3};
  metrics.ebpf_counters = {{22, 1}, {443, 120}, {6443, 42}, {10250, 7}};
  metrics.conntrack_count = 4'321;
  metrics.conntrack_max = 262'144;
  return metrics;
}

}  // namespace

api::HealthReportRequest SampleReport(const std::string& instance_id,
                                      const std::string& config_hash) {
  const Timestamp at = Timestamp::FromUnix(1'790'000'000, 123'000'000);
  api::HealthReportRequest report;
  report.version = "v0.1.0";
  report.instance_id = instance_id;
  report.timestamp = at;
  report.count = 4'711;
  report.uptime = "123h4m5s";
  report.metrics = SampleMetrics();
  for (const char* name :
       {"ca.crt", "kubelet.crt", "kubelet.key", "kubelet.json", "node.env", "registry.json"}) {
    report.files.emplace(name, api::FileStatus{.status = at - Duration::Hours(1)});
  }
  report.config_hash = config_hash;
  report.one_minute = SampleMetrics();
  report.five_minutes = SampleMetrics();
  report.fifteen_minutes = SampleMetrics();
  report.booted_at = at - Duration::Hours(123);
  report.agent_started_at = at - Duration::Hours(122);
  report.report_interval = Duration::Seconds(60);
  return report;
}

LoadAgent::LoadAgent(Setup setup)
    : setup_(std::move(setup)),
      // The hash of no vars and no files, until a patch says otherwise.
      config_hash_("sha256:e5ae13dd1e88c12b792290cbb21fee11f01e4237521f8869d826a1a7d3b3d30d"),
      report_(SampleReport(setup_.instance_id, config_hash_)) {}

void LoadAgent::Connect(std::function<void()> ready) {
  ready_ = std::move(ready);
  Dial();
}

void LoadAgent::Dial() {
  channel_ = setup_.dialer.Dial(
      {.address = setup_.server, .tls = setup_.tls, .connect_limit = Duration::Seconds(30)},
      {.state = [this](RpcChannelState state, const Status& why) { OnState(state, why); }});
  channel_->Connect();
}

void LoadAgent::OnState(RpcChannelState state, const Status& why) {
  if (state == RpcChannelState::kReady) return StartStreams();
  if (state == RpcChannelState::kGone) Lost(why.has_value() ? "gone" : why.error().message);
}

void LoadAgent::StartStreams() {
  const auto start = [this](std::string_view path, void (LoadAgent::*message)(const RpcMessage&)) {
    RpcCallEvents events;
    if (message != nullptr) {
      events.message = [this, message](const RpcMessage& received) { (this->*message)(received); };
    }
    events.end = [this](const RpcEnd& end) {
      Lost(end.status.has_value() ? "a stream ended" : end.status.error().message);
    };
    return channel_->Start(path, {.metadata = Features()}, std::move(events));
  };
  reports_ = start(api::kSubmitHealthReport.path, nullptr);
  keys_ = start(api::kReceiveKeyRequests.path, &LoadAgent::OnKeys);
  files_ = start(api::kReceiveFiles.path, &LoadAgent::OnFile);
  keys_->Send(RpcMessage::Of(api::Empty{}));
  files_->Send(RpcMessage::Of(api::Empty{}));
  up_ = true;
  failures_ = 0;
  ++setup_.tally.up;
  if (ready_) ready_();
}

void LoadAgent::OnFile(const RpcMessage& message) {
  const auto* file = message.As<api::FileTransfer>();
  if (file == nullptr || file->config_hash.empty()) return;
  ++setup_.tally.patches;
  if (file->config_hash == config_hash_) return;
  config_hash_ = file->config_hash;
  report_.config_hash = config_hash_;
}

// Every key is the same: what is measured is not the making of keys.
void LoadAgent::OnKeys(const RpcMessage& message) {
  const auto* request = message.As<api::KeyGenerationRequest>();
  if (request == nullptr) return;
  api::PublicKeysRequest answer{.instance_id = setup_.instance_id};
  const std::string key = Base64Encode(setup_.tls->key->public_key().ToSpki());
  for (const std::string& name : request->key_names) {
    answer.keys.push_back({.filename = name, .public_key_pem = key});
  }
  submission_ = CallUnary(
      *channel_, api::kSubmitPublicKeys,
      {.message = std::move(answer), .timeout = Duration::Seconds(30), .metadata = Features()},
      [](const Result<api::Empty>&) {});
}

bool LoadAgent::Report() {
  if (!up_) return false;
  ++report_.count;
  const RpcSend sent = reports_->Send(RpcMessage::Of(report_));
  const bool taken = sent == RpcSend::kTaken || sent == RpcSend::kTakenNowFull;
  if (!taken) ++setup_.tally.refused;
  return taken;
}

bool LoadAgent::Probe(std::function<void()> done) {
  if (!up_ || probing_) return false;
  probing_ = true;
  unary_ = CallUnary(*channel_, api::kSubmitPublicKeys,
                     {.message = {.instance_id = setup_.instance_id},
                      .timeout = Duration::Seconds(30),
                      .metadata = Features()},
                     [this, done = std::move(done)](const Result<api::Empty>& answer) {
                       probing_ = false;
                       // A server without keys refuses it, in the same turn of its loop.
                       const bool answered =
                           answer.has_value() || answer.error().code == Code::kUnimplemented;
                       if (answered) done();
                     });
  return true;
}

// Whatever ended first takes the rest of the connection with it.
void LoadAgent::Lost(const std::string& why) {
  if (waiting_) return;
  waiting_ = true;
  if (up_) {
    --setup_.tally.up;
    ++setup_.tally.lost;
  } else {
    ++setup_.tally.failed_connects;
  }
  setup_.tally.last_loss = why;
  const bool was_up = std::exchange(up_, false);
  const std::int64_t base = was_up ? 0 : 500'000'000LL << std::min(failures_, 2);
  const Duration wait =
      Duration::Nanoseconds(base == 0 ? setup_.chance.Between(0, 1'000'000'000)
                                      : setup_.chance.Between(base / 2, base + base / 2));
  ++failures_;
  retry_ = setup_.loop.CallAfter(wait, [this] {
    waiting_ = false;
    probing_ = false;
    unary_ = {};
    submission_ = {};
    reports_.reset();
    keys_.reset();
    files_.reset();
    channel_.reset();
    Dial();
  });
}

}  // namespace nstance::bench

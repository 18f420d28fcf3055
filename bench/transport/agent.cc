#include "bench/transport/agent.h"

#include <cstdlib>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "ports/api/common.h"
#include "ports/api/methods.h"

namespace nstance::bench {
namespace {

[[noreturn]] void Die(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::_Exit(1);
}

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

api::HealthReportRequest SampleReport() {
  const Timestamp at = Timestamp::FromUnix(1'790'000'000, 123'000'000);
  api::HealthReportRequest report;
  report.version = "v0.1.0";
  report.instance_id = "knc06bgm7733st2576nx5jht4ecjw";
  report.timestamp = at;
  report.count = 4'711;
  report.uptime = "123h4m5s";
  report.metrics = SampleMetrics();
  for (const char* name :
       {"ca.crt", "kubelet.crt", "kubelet.key", "kubelet.conf", "node.env", "registry.json"}) {
    report.files.emplace(name, api::FileStatus{.status = at - Duration::Hours(1)});
  }
  report.config_hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
  report.one_minute = SampleMetrics();
  report.five_minutes = SampleMetrics();
  report.fifteen_minutes = SampleMetrics();
  report.booted_at = at - Duration::Hours(123);
  report.agent_started_at = at - Duration::Hours(122);
  report.report_interval = Duration::Seconds(1);
  return report;
}

BenchAgent::BenchAgent(RpcDialer& dialer, RpcAddress server, RpcTls tls)
    : channel_(dialer.Dial(
          {.address = std::move(server),
           .tls = std::move(tls),
           // Every side has to do the same work: no pings of the client.
           .ping_after = Duration::Hours(10)},
          {.state = [this](RpcChannelState state, const Status& why) { OnState(state, why); }})) {}

void BenchAgent::Connect(std::function<void()> ready) {
  ready_ = std::move(ready);
  channel_->Connect();
}

void BenchAgent::OnState(RpcChannelState state, const Status& why) {
  if (state == RpcChannelState::kGone) {
    Die("connection lost: " + (why.has_value() ? "no reason" : why.error().message));
  }
  if (state != RpcChannelState::kReady) return;
  StartStreams();
  ready_();
}

void BenchAgent::StartStreams() {
  const auto start = [this](std::string_view path) {
    return channel_->Start(
        path, {}, {.end = [](const RpcEnd& end) {
          Die("stream ended: " + (end.status.has_value() ? "OK" : end.status.error().message));
        }});
  };
  reports_ = start(api::kSubmitHealthReport.path);
  keys_ = start(api::kReceiveKeyRequests.path);
  files_ = start(api::kReceiveFiles.path);
  static_cast<void>(keys_->Send(RpcMessage::Of(api::Empty{})));
  static_cast<void>(files_->Send(RpcMessage::Of(api::Empty{})));
}

bool BenchAgent::Report(const RpcMessage& report) {
  return reports_->Send(report) == RpcSend::kTaken;
}

void BenchAgent::CallUnary(const RpcMessage& request, std::function<void()> done) {
  unary_done_ = std::move(done);
  unary_ = channel_->Start(api::kSubmitPublicKeys.path, {}, {.end = [this](const RpcEnd& end) {
                             if (!end.status.has_value()) Die(end.status.error().message);
                             unary_done_();
                           }});
  static_cast<void>(unary_->Send(request));
}

}  // namespace nstance::bench

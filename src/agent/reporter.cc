#include "agent/reporter.h"

#include <utility>

#include "base/text.h"
#include "base/version.h"

namespace nstance::agent {
namespace {

constexpr std::string_view kMarker = "write-files.last";
constexpr std::string_view kNoEbpf = "not supported";
// Smaller differences are the kernel's rounding.
constexpr Duration kBootTimeSlack = Duration::Seconds(2);

double Percent(Ppm share) {
  return static_cast<double>(share) / (static_cast<double>(kWhole) / 100);
}

api::InterfaceMetrics ToApi(const std::string& name, const TrafficCounters& traffic) {
  return {.interface_name = name,
          .rx_bytes = traffic.rx_bytes,
          .tx_bytes = traffic.tx_bytes,
          .rx_packets = traffic.rx_packets,
          .tx_packets = traffic.tx_packets,
          .rx_drops = traffic.rx_drops,
          .tx_drops = traffic.tx_drops};
}

// Processor and memory; the rest differs between a sample and a mean.
api::Metrics ToApi(const Usage& usage) {
  api::Metrics metrics;
  if (usage.cpu) metrics.cpu_usage = Percent(*usage.cpu);
  for (const CoreUsage& core : usage.cores) metrics.cpu_core_usage.push_back(Percent(core.share));
  if (usage.memory) metrics.memory_usage = Percent(*usage.memory);
  return metrics;
}

template <class T>
std::optional<T> Optional(const Result<T>& result) {
  return result ? std::optional<T>(*result) : std::nullopt;
}

bool Differ(Timestamp a, Timestamp b) { return a - b > kBootTimeSlack || b - a > kBootTimeSlack; }

}  // namespace

Reporter::Reporter(const Deps& deps, Facts facts, Send send)
    : deps_(deps), facts_(std::move(facts)), send_(std::move(send)), schedule_(facts_.interval) {}

void Reporter::Sample() {
  sample_timer_ = deps_.loop.CallAfter(kSampleEvery, [this] { Sample(); });
  last_reading_ = deps_.host.Sample();
  UsageReading reading{.cpu = Optional(last_reading_->cpu),
                       .memory = Optional(last_reading_->memory)};
  if (last_reading_->traffic) reading.traffic = Optional(*last_reading_->traffic);
  history_.Add(reading);
  const Result<Timestamp> booted = deps_.host.BootedAt();
  if (booted && booted_at_ && Differ(*booted, *booted_at_)) {
    deps_.log.Info("the boot time has changed", {{"from", *booted_at_}, {"to", *booted}});
    schedule_.Urgent(deps_.loop.Now());
    Arm();
  }
  if (booted) booted_at_ = *booted;
}

void Reporter::StreamOpened() {
  schedule_.Opened(deps_.loop.Now());
  Arm();
}

void Reporter::StreamDrained() {
  schedule_.Drained();
  Arm();
}

void Reporter::Arm() {
  const Instant due = schedule_.due();
  report_timer_.Cancel();
  if (due != Instant::Never()) report_timer_ = deps_.loop.CallAt(due, [this] { SendDue(); });
}

void Reporter::SendDue() {
  if (schedule_.due() > deps_.loop.Now()) return Arm();
  const RpcSend sent = send_(Compose());
  if (sent == RpcSend::kTooLarge) {
    deps_.log.Error("a health report is too large and was not sent");
  }
  schedule_.Sent(deps_.loop.Now(), deps_.jitter);
  // Refused: the stream is about to end, or its queue is full, which is told the same way.
  if (sent == RpcSend::kTakenNowFull || sent == RpcSend::kRefused) schedule_.Full();
  Arm();
}

api::Metrics Reporter::LatestMetrics() const {
  api::Metrics metrics = history_.latest() == nullptr ? api::Metrics{} : ToApi(*history_.latest());
  if (facts_.ebpf) metrics.ebpf_error = std::string(kNoEbpf);
  if (!last_reading_) return metrics;
  if (const auto& traffic = last_reading_->traffic) {
    if (*traffic) {
      metrics.network_interface = ToApi(facts_.interface, **traffic);
    } else {
      metrics.network_interface_error = traffic->error().message;
    }
  }
  if (const auto& conntrack = last_reading_->conntrack) {
    if (*conntrack) {
      metrics.conntrack_count = (*conntrack)->count;
      metrics.conntrack_max = (*conntrack)->max;
    } else {
      metrics.conntrack_error = conntrack->error().message;
    }
  }
  return metrics;
}

std::optional<api::Metrics> Reporter::MeanMetrics(std::size_t intervals) const {
  const std::optional<Usage> mean = history_.Mean(intervals);
  if (!mean) return std::nullopt;
  api::Metrics metrics = ToApi(*mean);
  if (mean->traffic) metrics.network_interface = ToApi(facts_.interface, *mean->traffic);
  return metrics;
}

void Reporter::AddFiles(api::HealthReportRequest& report) {
  const auto listed = deps_.received.List();
  if (!listed) {
    deps_.log.Debug("received files cannot be listed", {{"error", listed.error()}});
    return;
  }
  for (const auto& [name, changed] : *listed) {
    if (name == kMarker || !IsValidUtf8(name)) continue;
    report.files.emplace(name, api::FileStatus{.status = changed});
  }
}

api::HealthReportRequest Reporter::Compose() {
  api::HealthReportRequest report;
  report.version = std::string(Version());
  report.instance_id = facts_.instance_id;
  report.timestamp = deps_.loop.WallNow();
  report.count = ++count_;
  if (const auto uptime = deps_.host.Uptime()) report.uptime = FormatDuration(*uptime);
  report.metrics = LatestMetrics();
  report.one_minute = MeanMetrics(UsageHistory::kOneMinute);
  report.five_minutes = MeanMetrics(UsageHistory::kFiveMinutes);
  report.fifteen_minutes = MeanMetrics(UsageHistory::kFifteenMinutes);
  report.config_hash = deps_.store.ConfigHash();
  report.booted_at = booted_at_;
  report.agent_started_at = facts_.started_at;
  report.report_interval = facts_.interval;
  AddFiles(report);
  return report;
}

}  // namespace nstance::agent

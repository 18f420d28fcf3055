// Reporter: samples the host every 5 s and makes the health reports that are due.
//
// When one is due is decided by core/agent/report_schedule.h, what it holds by wire.md 4 and 7.1. A
// source that fails leaves its fields out, or sets the error field that it has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "agent/identity_store.h"
#include "agent/settings.h"
#include "base/log.h"
#include "base/prng.h"
#include "core/agent/report_schedule.h"
#include "core/agent/usage.h"
#include "ports/agent_files.h"
#include "ports/api/agent.h"
#include "ports/host_facts.h"
#include "ports/loop.h"
#include "ports/rpc.h"

namespace nstance::agent {

class Reporter final {
 public:
  struct Deps {
    Loop& loop;
    HostFacts& host;
    IdentityStore& store;
    AgentFiles& received;
    Prng& jitter;
    log::Logger log;
  };
  struct Facts {
    std::string instance_id;
    Duration interval;
    std::string interface;  // Whose traffic is told; empty: none.
    bool ebpf = false;
    Timestamp started_at;
  };
  using Send = std::function<RpcSend(api::HealthReportRequest)>;

  Reporter(const Deps& deps, Facts facts, Send send);
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void Start() { Sample(); }
  void StreamOpened();
  void StreamClosed() { schedule_.Closed(); }
  void StreamDrained();

  // The next report, counted. For tests; what is sent is made by it.
  [[nodiscard]] api::HealthReportRequest Compose();

  static constexpr Duration kSampleEvery = Duration::Seconds(5);

 private:
  void Sample();
  void Arm();
  void SendDue();
  [[nodiscard]] api::Metrics LatestMetrics() const;
  [[nodiscard]] std::optional<api::Metrics> MeanMetrics(std::size_t intervals) const;
  void AddFiles(api::HealthReportRequest& report);

  Deps deps_;
  Facts facts_;
  Send send_;
  ReportSchedule schedule_;
  UsageHistory history_;
  std::optional<HostReading> last_reading_;
  std::optional<Timestamp> booted_at_;
  std::int64_t count_ = 0;
  Pending sample_timer_;
  Pending report_timer_;
};

}  // namespace nstance::agent

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/fault_point.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

// Longer than any drain may take: what lies beyond is as good as never.
constexpr Duration kMaxNotice = Duration::Hours(24);

// The agent's machine has a clock of its own, and its words are not trusted (BI-70): what is past
// is now, what is far away is near.
Instant ClampDeadline(Timestamp deadline, const fleet::ClockReading& clock) {
  if (deadline <= clock.wall) return clock.mono;
  if (deadline >= clock.wall + kMaxNotice) return clock.mono + kMaxNotice;
  return clock.mono + (deadline - clock.wall);
}

constexpr std::size_t kMaxKeptText = 128;

// What is kept of a report's texts for as long as the instance lives, and shown to people.
bool IsKept(std::string_view text) {
  return text.size() <= kMaxKeptText && std::ranges::none_of(text, [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

}  // namespace

void Fleet::Engine::StreamOpened(const InstanceId& id) {
  Entry* entry = Find(id);
  if (entry == nullptr) return;
  fleet::HealthFacts& health = entry->instance.health;
  health.stream_open = true;
  entry->instance.looks.OnReport();
  MarkDirty(*entry);
}

// Evidence: the provider is looked at in the turn that follows.
void Fleet::Engine::StreamEnded(const InstanceId& id) {
  Entry* entry = Find(id);
  if (entry == nullptr) return;
  fleet::HealthFacts& health = entry->instance.health;
  AtStep(Step::kH6);
  health.stream_open = false;
  health.stream_ended_at = deps_.loop.Now();
  health.healthy_since.reset();
  MarkDirty(*entry);
}

// A steady report changes a few numbers of the table and nothing else: no plan, no write.
void Fleet::Engine::Report(const InstanceId& id, const api::HealthReportRequest& report) {
  Entry* entry = Find(id);
  if (entry == nullptr) return;
  Instance& instance = entry->instance;
  fleet::HealthFacts& health = instance.health;
  if (!health.registered_at) return;
  const Instant now = deps_.loop.Now();
  const fleet::HealthState before = HealthOf(instance).state;
  AtStep(Step::kH3);
  health.reported_at = now;
  if (!health.healthy_since || before != fleet::HealthState::kHealthy) health.healthy_since = now;
  health.announced_interval = report.report_interval.value_or(Duration());
  instance.looks.OnReport();
  bool changed = HealthOf(instance).state != before;
  if (report.termination_notice && !health.notice &&
      fleet::IsNoticeAction(report.termination_notice->action)) {
    fleet::TerminationNotice notice;
    if (report.termination_notice->deadline) {
      notice.deadline = ClampDeadline(*report.termination_notice->deadline, Clock());
    }
    health.notice = notice;
    instance.noticed_at = now;
    changed = true;
  }
  if (health.notice && !report.termination_notice && Planted(Plant::kVanishedNoticeCancels)) {
    health.notice.reset();
    if (instance.drain) Revoke(*entry);
  }
  NoteReady(instance);
  if (entry->reports == nullptr) entry->reports = &probe_.HealthReports(instance.tenant);
  entry->reports->Add();
  if (!instance.report) instance.report.emplace();
  ReportFacts& facts = *instance.report;
  facts.at = deps_.loop.WallNow();
  if (facts.booted_at && report.booted_at && *facts.booted_at != *report.booted_at) {
    deps_.log.Info("instance rebooted", {{"instance", id}});
    Note({instance.tenant, instance.group}, entry, {.type = "phase", .message = "it rebooted"});
  }
  facts.booted_at = report.booted_at;
  facts.agent_started_at = report.agent_started_at;
  facts.count = report.count;
  // Assigned only when they differ, so that a steady report allocates nothing.
  if (facts.agent_version != report.version) {
    facts.agent_version = IsKept(report.version) ? report.version : std::string();
  }
  if (facts.config_hash != report.config_hash) {
    facts.config_hash = IsKept(report.config_hash) ? report.config_hash : std::string();
  }
  rows_.Report(instance, now);
  if (changed) MarkDirty(*entry);
}

void Fleet::Engine::NoteReady(Instance& instance) {
  if (instance.was_ready || HealthOf(instance).state != fleet::HealthState::kHealthy) return;
  instance.was_ready = true;
  probe_.Ready(instance.tenant, deps_.loop.Now() - instance.created_at);
}

}  // namespace nstance

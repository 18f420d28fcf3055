#include "core/fleet/health.h"

#include <algorithm>
#include <cstddef>

#include "base/fault_point.h"

namespace nstance::fleet {
namespace {

constexpr Duration kLongestInterval = Duration::Minutes(10);

HealthState StateOf(const HealthFacts& facts, const HealthJudgement& judged, bool has_report,
                    Instant now) {
  if (facts.notice) return HealthState::kTerminating;
  if (now >= judged.stale_at) return HealthState::kStale;
  if (!facts.stream_open && facts.stream_ended_at) return HealthState::kDisconnected;
  if (!has_report) return HealthState::kUnknown;
  if (now >= judged.late_at) return HealthState::kLate;
  return facts.stream_open ? HealthState::kHealthy : HealthState::kDisconnected;
}

// `unheard_at`: when its first report in this leadership would be late.
std::optional<Instant> SilentSince(const HealthFacts& facts, const HealthJudgement& judged,
                                   Instant unheard_at, Instant now) {
  switch (judged.state) {
    case HealthState::kUnknown:
      if (facts.stream_open || now < unheard_at) return std::nullopt;
      return unheard_at;
    case HealthState::kLate:
    case HealthState::kDisconnected:
    case HealthState::kStale:
      return std::min(judged.trouble_since.value_or(judged.stale_at), unheard_at);
    case HealthState::kHealthy:
    case HealthState::kTerminating: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

bool IsNoticeAction(std::string_view action) {
  return action == "terminate" || action == "stop" || action == "hibernate";
}

std::string_view Word(HealthState state) {
  switch (state) {
    case HealthState::kUnknown: return "unknown";
    case HealthState::kHealthy: return "healthy";
    case HealthState::kLate: return "late";
    case HealthState::kDisconnected: return "disconnected";
    case HealthState::kStale: return "stale";
    case HealthState::kTerminating: return "terminating";
  }
  return "unknown";
}

HealthJudgement JudgeHealth(const HealthFacts& facts, Instant counting_since,
                            const FleetTimes& times, Instant now) {
  const Duration interval =
      std::min(std::max(times.interval, facts.announced_interval), kLongestInterval);
  const Instant base = std::max(facts.registered_at.value_or(counting_since), counting_since);
  const bool has_report = facts.reported_at && *facts.reported_at >= base;
  HealthJudgement judged;
  if (has_report) {
    judged.late_at = *facts.reported_at + interval * 3 / 2;
    judged.stale_at = *facts.reported_at + interval * 3;
  } else {
    judged.stale_at = base + std::max(interval * 3, times.t_grace);
    judged.late_at = judged.stale_at;
  }
  judged.state = StateOf(facts, judged, has_report, now);
  if (!facts.stream_open && facts.stream_ended_at) judged.trouble_since = facts.stream_ended_at;
  if (now >= judged.late_at) {
    judged.trouble_since = std::min(judged.late_at, judged.trouble_since.value_or(judged.late_at));
  }
  const bool unheard = !has_report && !Planted(Plant::kUnheardIsNotSilent);
  const Instant unheard_at = unheard ? base + interval * 3 / 2 : Instant::Never();
  judged.silent_since = SilentSince(facts, judged, unheard_at, now);
  switch (judged.state) {
    case HealthState::kHealthy: judged.next_change = judged.late_at; break;
    case HealthState::kUnknown:
      // The state lasts until it is stale, but it is silent before that.
      judged.next_change = !facts.stream_open && now < unheard_at
                               ? std::min(unheard_at, judged.stale_at)
                               : judged.stale_at;
      break;
    case HealthState::kLate: judged.next_change = judged.stale_at; break;
    case HealthState::kDisconnected:
      // The state lasts until it is stale, but being late shows in `trouble_since`.
      judged.next_change = now < judged.late_at ? judged.late_at : judged.stale_at;
      break;
    case HealthState::kStale:
    case HealthState::kTerminating: break;
  }
  return judged;
}

SilenceJudgement JudgeSilence(SilenceFacts facts, const FleetTimes& times, Instant now) {
  constexpr std::size_t kLeast = 3;
  const auto registered = static_cast<std::size_t>(std::max(facts.registered, 0));
  // The smallest number of silent ones that is more than 30 %.
  const std::size_t many = std::max(registered * 3 / 10 + 1, kLeast);
  SilenceJudgement judged;
  if (facts.silent_since.size() < many) return judged;
  const auto decisive = facts.silent_since.begin() + static_cast<std::ptrdiff_t>(many - 1);
  std::ranges::nth_element(facts.silent_since, decisive);
  judged.many = true;
  judged.began = *decisive;
  const Instant patience_ends = *decisive + times.t_mass;
  if (now < patience_ends) {
    judged.held = true;
    judged.next_change = patience_ends;
    return judged;
  }
  const bool others_report = facts.last_report && *facts.last_report >= *decisive;
  judged.held = !others_report;
  judged.wants_probe = !others_report;
  return judged;
}

}  // namespace nstance::fleet

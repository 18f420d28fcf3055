// Health: what the reports of an agent, or their absence, say; and mass silence.
//
//   state        | when
//   -------------+---------------------------------------------------------------------------------
//   terminating  | a termination notice was reported; never left
//   stale        | 3 x interval since the last report, or since counting began (leadership, or the
//                | end of a gap of our own) or registration if later; then at least T_grace
//   disconnected | the health stream has ended
//   unknown      | no report yet since counting began or registration
//   late         | 1.5 x interval since the last report
//   healthy      | otherwise: a young report and an open stream
//
// `interval` is the larger of the server's and what the agent announces, at most 10 min. All times
// are of receipt on this server; what an agent's clock says does not matter.
//
// Guarantees, each held by a test:
//   - an agent that reports every `interval` over an open stream is healthy at every moment
//   - a new leader calls nothing stale before 3 x interval and T_grace have passed
//   - nothing that is judged changes between now and `next_change` unless an event arrives
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/fleet/times.h"

namespace nstance::fleet {

enum class HealthState : std::uint8_t {
  kUnknown,
  kHealthy,
  kLate,
  kDisconnected,
  kStale,
  kTerminating,
};
[[nodiscard]] std::string_view Word(HealthState state);

struct TerminationNotice {
  std::optional<Instant> deadline = std::nullopt;  // When the provider takes the VM, if it said.
  friend bool operator==(const TerminationNotice&, const TerminationNotice&) = default;
};

// "terminate", "stop", "hibernate": they are treated alike. A notice with another action is none.
[[nodiscard]] bool IsNoticeAction(std::string_view action);

// What this leadership knows of one agent. Times of an earlier one are not used.
struct HealthFacts {
  std::optional<Instant> registered_at = std::nullopt;
  std::optional<Instant> reported_at = std::nullopt;    // The last report.
  std::optional<Instant> healthy_since = std::nullopt;  // First report of the unbroken run.
  bool stream_open = false;
  std::optional<Instant> stream_ended_at = std::nullopt;  // The last end, if one ended.
  Duration announced_interval = {};                       // Zero: not announced.
  std::optional<TerminationNotice> notice = std::nullopt;
  friend bool operator==(const HealthFacts&, const HealthFacts&) = default;
};

struct HealthJudgement {
  HealthState state = HealthState::kUnknown;
  // When it becomes, or became, late, disconnected or stale without a further event.
  Instant late_at = {};
  Instant stale_at = {};
  // Since when something is wrong: lateness or the end of the stream, whichever was first.
  std::optional<Instant> trouble_since = std::nullopt;
  // Since when it is silent (faults.md 4.3 F13): late, disconnected or stale. Whoever has not come
  // to this leader at all is silent as long after its beginning as a report would be late.
  std::optional<Instant> silent_since = std::nullopt;
  std::optional<Instant> next_change = std::nullopt;
};

// `counting_since`: when this leadership began, or when a pause of our own ended, if later.
// REQUIRES: registered_at is set.
[[nodiscard]] HealthJudgement JudgeHealth(const HealthFacts& facts, Instant counting_since,
                                          const FleetTimes& times, Instant now);

// ---- mass silence (faults.md 4.3 F13) -----------------------------------------------------------

// The registered, undrained instances of a group, or of a tenant in the shard.
struct SilenceFacts {
  int registered = 0;
  // HealthJudgement::silent_since of each that is. Not those whose VM is dead by the provider's
  // word, or missing by two (RU7): they are judged by that. In any order.
  std::vector<Instant> silent_since = {};
  // The latest report of any agent of the tenant in the shard that is not silent now.
  std::optional<Instant> last_report = std::nullopt;
};

// More than 30 % of the registered instances, and at least 3, are silent: our own side is
// suspected, and no verdict `unhealthy` acts.
//
//   share falls to 30 %                        -> over
//   T_mass passed, another agent reported in it -> over: the verdicts stand
//   T_mass passed, none reported                -> still held; `wants_probe`: one replacement may
//   be
//                                                 made inside surge, and its report ends it
struct SilenceJudgement {
  bool many = false;                            // The share is above the limit.
  bool held = false;                            // Verdicts `unhealthy` wait.
  bool wants_probe = false;                     // Only while held.
  std::optional<Instant> began = std::nullopt;  // When the share passed the limit.
  std::optional<Instant> next_change = std::nullopt;
  friend bool operator==(const SilenceJudgement&, const SilenceJudgement&) = default;
};

[[nodiscard]] SilenceJudgement JudgeSilence(SilenceFacts facts, const FleetTimes& times,
                                            Instant now);

}  // namespace nstance::fleet

// The verdict on one instance: what the evidence says should become of it, before budgets and
// gates.
//
//   verdict   | evidence                                                     | leaves by
//   ----------+--------------------------------------------------------------+-------------------
//   fine      | nothing below                                                | -
//   ordered   | the API asked for it, or an open delete intent waits         | drain or delete
//   dead      | provider: stopping ... failed, and no health stream open or  | delete
//             | T_vis over; or two looks "not found"; or not registered in   |
//             | time                                                         |
//   doomed    | termination notice; or stale and the provider says running   | drain if timeout > 0
//   due       | forced expiry; eligible expiry; drift                        | drain if timeout > 0
//   suspect   | one "not found"                                              | -
//
// Readings of the specification, each the safer one for running VMs:
//   - `stale` alone is no verdict: a look at or after the moment of staleness must have found the
//     VM running (or pending). State `unknown` of a provider is no evidence.
//   - Absence always counts in the brake; the exemption for dead VMs is for provider states only.
//   - A blocked or corrupt instance gets no verdict at all but `ordered` (blocked only).
//   - Expiry and drift are judged on registered instances only; before, registration decides.
//   - A VM that did not register in time is still given T_grace by a new leader.
//   - An on-demand or claimed instance that is stale but running is held, never deleted. Claimed
//     ones do not expire.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "core/fleet/alarm_clock.h"
#include "core/fleet/health.h"
#include "core/fleet/plan.h"
#include "core/fleet/view.h"

namespace nstance::fleet {

enum class VerdictKind : std::uint8_t { kFine, kOrdered, kDead, kDoomed, kDue, kSuspect };

struct Verdict {
  VerdictKind kind = VerdictKind::kFine;
  Reason reason = Reason::kScaleUp;  // Of everything but kFine and kSuspect.
  int priority = 5;
  bool counted = false;  // In the brake, when it leaves for this reason.
  bool ordered = false;
  bool lifeless = false;  // The provider says that it is dead: there is nothing to drain.
  std::optional<FailureClass> failure = std::nullopt;
  // Something that the verdict waits for, or that keeps it from being worse.
  std::optional<Hold> hold = std::nullopt;
  bool look = false;  // A provider look is due now.
};

// Health and verdict of one instance that is neither draining nor deleting.
struct Judged {
  HealthJudgement health = {};
  Verdict verdict = {};
};
[[nodiscard]] Judged JudgeInstance(const InstanceView& instance, const GroupView& view,
                                   AlarmClock& clock);

// For a draining instance: whether the provider says that it is dead (then nothing is left to
// drain), whether a look is due, and its health, for revoking.
struct DrainingJudgement {
  bool dead = false;
  bool suspect = false;
  bool look = false;
  HealthJudgement health = {};
};
[[nodiscard]] DrainingJudgement JudgeDraining(const InstanceView& instance, const GroupView& view,
                                              AlarmClock& clock);

// Both hashes are known and differ.
[[nodiscard]] bool IsDrifted(const InstanceView& instance, const GroupView& view);

}  // namespace nstance::fleet

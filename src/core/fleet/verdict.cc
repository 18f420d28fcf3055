#include "core/fleet/verdict.h"

#include <algorithm>

namespace nstance::fleet {
namespace {

constexpr int kFirstPriority = 1;
constexpr int kForcedPriority = 2;
constexpr int kHealthPriority = 3;
constexpr int kQuietPriority = 4;

Hold HoldOf(HoldCode code, const InstanceView& instance, std::optional<Instant> until = {}) {
  return {.code = code, .instance = instance.id, .detail = {}, .until = until};
}

// The health stream is known to be down: it ended in this leadership, or none was opened in its
// first T_grace. Until then nobody can tell a dead agent from one that has not come back yet.
bool StreamIsDown(const InstanceView& instance, const GroupView& view, AlarmClock& clock) {
  if (instance.health.stream_open) return false;
  return instance.health.stream_ended_at ||
         clock.Reached(view.leadership.began_at + view.times.t_grace);
}

bool IsRegistered(const InstanceView& instance) {
  return instance.phase == InstancePhase::kRegistered || instance.phase == InstancePhase::kDraining;
}

struct Death {
  bool dead = false;
  bool counted = false;
  Reason reason = Reason::kProviderGone;
  std::optional<Instant> waits_until = std::nullopt;  // For the stream to end.
};

Death JudgeDeath(const InstanceView& instance, const GroupView& view, AlarmClock& clock) {
  const LookLog& looks = instance.looks;
  const bool registered = IsRegistered(instance);
  if (JudgeAbsence(looks, view.times) == Absence::kAbsent) {
    return {.dead = true, .counted = registered};
  }
  if (!looks.dead_since) return {};
  Death death;
  const bool gone =
      looks.status == ProviderStatus::kDeleting || looks.status == ProviderStatus::kDeleted;
  death.reason = gone ? Reason::kProviderGone : Reason::kProviderStopped;
  if (instance.health.stream_open) {
    const Instant believed = *looks.dead_since + view.times.t_vis;
    death.dead = clock.Reached(believed);
    death.counted = registered;
    if (!death.dead) death.waits_until = believed;
    return death;
  }
  death.dead = true;
  death.counted = registered && !StreamIsDown(instance, view, clock);
  return death;
}

Verdict Dead(const InstanceView& instance, const Death& death) {
  Verdict verdict{.kind = VerdictKind::kDead,
                  .reason = death.reason,
                  .priority = kHealthPriority,
                  .counted = death.counted,
                  .lifeless = true};
  if (!IsRegistered(instance) && instance.care == Care::kManaged) {
    verdict.failure = FailureClass::kNoRegistration;
  }
  return verdict;
}

// Whether a look is due now for a reason that began at `since`.
bool LookIsDue(const InstanceView& instance, Instant since, const FleetTimes& times,
               AlarmClock& clock) {
  const std::optional<Instant> due = NextLook(instance.looks, since, times);
  return due && clock.Reached(*due);
}

std::optional<Verdict> JudgeOrder(const InstanceView& instance, const GroupView& view,
                                  AlarmClock& clock) {
  if (!instance.deletion && !instance.order) return std::nullopt;
  const Death death = JudgeDeath(instance, view, clock);
  const bool counts = IsRegistered(instance) && (!death.dead || death.counted);
  // Whatever an intent says: it may have registered since that was opened.
  Verdict verdict{.kind = VerdictKind::kOrdered,
                  .priority = kFirstPriority,
                  .counted = counts,
                  .ordered = true,
                  .lifeless = death.dead};
  if (instance.deletion) {
    verdict.reason = instance.deletion->reason;
    verdict.ordered = instance.deletion->ordered;
  } else {
    verdict.reason = instance.order->reason;
  }
  return verdict;
}

Verdict JudgeBeforeRegistration(const InstanceView& instance, const GroupView& view,
                                AlarmClock& clock) {
  if (!instance.vm_since) return {};
  const Death death = JudgeDeath(instance, view, clock);
  if (death.dead) return Dead(instance, death);
  const Instant timeout = *instance.vm_since + view.times.registration_timeout;
  const Instant grace = view.leadership.counting_since + view.times.t_grace;
  if (clock.Reached(std::max(timeout, grace))) {
    return Dead(instance, {.dead = true, .reason = Reason::kRegistrationTimeout});
  }
  Verdict verdict;
  if (clock.now() >= timeout) verdict.hold = HoldOf(HoldCode::kReconnectGrace, instance, grace);
  if (JudgeAbsence(instance.looks, view.times) == Absence::kSuspect) {
    verdict.kind = VerdictKind::kSuspect;
    verdict.priority = kHealthPriority;
    verdict.look = LookIsDue(instance, *instance.looks.missing_first, view.times, clock);
    verdict.hold =
        HoldOf(HoldCode::kSecondLook, instance, *instance.looks.missing_first + view.times.t_vis);
  }
  return verdict;
}

// Silent: the provider decides between dead, unhealthy and not known.
Verdict JudgeSilent(const InstanceView& instance, const HealthJudgement& health,
                    const GroupView& view, AlarmClock& clock) {
  const LookLog& looks = instance.looks;
  Verdict verdict;
  if (health.state == HealthState::kLate) {
    const bool looked = looks.attempted_at && *looks.attempted_at >= health.late_at;
    if (!looked || looks.failed) {
      verdict.look = LookIsDue(instance, health.late_at, view.times, clock);
    }
    return verdict;
  }
  if (health.state == HealthState::kDisconnected) {
    verdict.look = LookIsDue(instance, *health.trouble_since, view.times, clock);
    return verdict;
  }
  const bool alive =
      looks.status == ProviderStatus::kRunning || looks.status == ProviderStatus::kPending;
  const bool known = looks.found_at && *looks.found_at >= health.stale_at && alive;
  if (!known) {
    verdict.look = LookIsDue(instance, health.stale_at, view.times, clock);
    if (looks.failed) verdict.hold = HoldOf(HoldCode::kProviderUnavailable, instance);
    return verdict;
  }
  if (instance.care != Care::kManaged) {
    const bool claimed = instance.care == Care::kClaimed;
    verdict.hold = HoldOf(claimed ? HoldCode::kClaimed : HoldCode::kOnDemand, instance);
    return verdict;
  }
  return {.kind = VerdictKind::kDoomed,
          .reason = Reason::kUnhealthy,
          .priority = kHealthPriority,
          .counted = true};
}

std::optional<Verdict> JudgeAge(const InstanceView& instance, const GroupView& view,
                                AlarmClock& clock) {
  const config::Expiry& expiry = view.spec.expiry;
  const auto reached = [&](Duration age) {
    return age > Duration() && clock.Reached(instance.created_at + age);
  };
  const auto due = [](Reason reason, int priority) {
    return Verdict{
        .kind = VerdictKind::kDue, .reason = reason, .priority = priority, .counted = true};
  };
  if (instance.care == Care::kClaimed) return std::nullopt;
  const std::optional<Instant> paused = view.leadership.expiry_paused_until;
  if (paused && !clock.Reached(*paused)) return std::nullopt;
  if (instance.care == Care::kOnDemand) {
    if (!reached(expiry.ondemand_age)) return std::nullopt;
    return due(Reason::kOnDemandExpiry, kQuietPriority);
  }
  if (reached(expiry.forced_age)) return due(Reason::kForcedExpiry, kForcedPriority);
  if (reached(expiry.eligible_age)) return due(Reason::kEligibleExpiry, kQuietPriority);
  return std::nullopt;
}

Verdict JudgeDue(const InstanceView& instance, const GroupView& view, AlarmClock& clock) {
  std::optional<Verdict> verdict = JudgeAge(instance, view, clock);
  if (!verdict && instance.care == Care::kManaged && IsDrifted(instance, view)) {
    verdict = Verdict{.kind = VerdictKind::kDue,
                      .reason = Reason::kConfigDrift,
                      .priority = kQuietPriority,
                      .counted = true};
  }
  if (!verdict) return {};
  if (view.restraint == Restraint::kConfigInvalid || view.spec.pool) {
    const HoldCode code = view.spec.pool ? HoldCode::kPoolUnavailable : HoldCode::kConfigInvalid;
    return {.hold = HoldOf(code, instance)};
  }
  return *verdict;
}

Verdict JudgeRegistered(const InstanceView& instance, const HealthJudgement& health,
                        const GroupView& view, AlarmClock& clock) {
  const Death death = JudgeDeath(instance, view, clock);
  if (death.dead) return Dead(instance, death);
  if (health.state == HealthState::kTerminating) {
    return {.kind = VerdictKind::kDoomed,
            .reason = Reason::kSpotTerminating,
            .priority = kHealthPriority};
  }
  if (JudgeAbsence(instance.looks, view.times) == Absence::kSuspect) {
    const Instant first = *instance.looks.missing_first;
    return {.kind = VerdictKind::kSuspect,
            .priority = kHealthPriority,
            .hold = HoldOf(HoldCode::kSecondLook, instance, first + view.times.t_vis),
            .look = LookIsDue(instance, first, view.times, clock)};
  }
  if (death.waits_until) {
    return {.hold = HoldOf(HoldCode::kSecondLook, instance, death.waits_until)};
  }
  Verdict verdict;
  if (health.trouble_since) verdict = JudgeSilent(instance, health, view, clock);
  if (verdict.kind != VerdictKind::kFine || verdict.hold) return verdict;
  const bool look = verdict.look;
  verdict = JudgeDue(instance, view, clock);
  verdict.look = look;
  const bool young = health.state == HealthState::kUnknown &&
                     instance.health.registered_at < view.leadership.counting_since;
  if (!verdict.hold && young) {
    verdict.hold = HoldOf(HoldCode::kReconnectGrace, instance, health.stale_at);
  }
  return verdict;
}

}  // namespace

bool IsDrifted(const InstanceView& instance, const GroupView& view) {
  return !instance.infra_hash.empty() && !view.spec.infra_hash.empty() &&
         instance.infra_hash != view.spec.infra_hash;
}

Judged JudgeInstance(const InstanceView& instance, const GroupView& view, AlarmClock& clock) {
  Judged judged;
  const bool registered = instance.phase == InstancePhase::kRegistered;
  if (registered) {
    judged.health =
        JudgeHealth(instance.health, view.leadership.counting_since, view.times, clock.now());
    clock.Wake(judged.health.next_change);
  }
  if (instance.corrupt) {
    judged.verdict.hold = HoldOf(HoldCode::kRecordCorrupt, instance);
    return judged;
  }
  if (std::optional<Verdict> ordered = JudgeOrder(instance, view, clock)) {
    judged.verdict = *std::move(ordered);
    return judged;
  }
  if (instance.blocked) {
    judged.verdict.hold = HoldOf(HoldCode::kIdentityBlocked, instance);
    return judged;
  }
  judged.verdict = registered ? JudgeRegistered(instance, judged.health, view, clock)
                   : instance.phase == InstancePhase::kProvisioned
                       ? JudgeBeforeRegistration(instance, view, clock)
                       : Verdict{};
  return judged;
}

DrainingJudgement JudgeDraining(const InstanceView& instance, const GroupView& view,
                                AlarmClock& clock) {
  DrainingJudgement judged;
  judged.dead = JudgeDeath(instance, view, clock).dead;
  if (judged.dead) return judged;
  judged.health =
      JudgeHealth(instance.health, view.leadership.counting_since, view.times, clock.now());
  clock.Wake(judged.health.next_change);
  const Absence absence = JudgeAbsence(instance.looks, view.times);
  judged.suspect = absence == Absence::kSuspect;
  if (judged.suspect) {
    judged.look = LookIsDue(instance, *instance.looks.missing_first, view.times, clock);
  } else if (judged.health.trouble_since && judged.health.state != HealthState::kTerminating) {
    judged.look = LookIsDue(instance, *judged.health.trouble_since, view.times, clock);
  }
  return judged;
}

}  // namespace nstance::fleet

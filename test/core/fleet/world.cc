#include "test/core/fleet/world.h"

#include <algorithm>
#include <utility>

#include "test/core/fleet/views.h"

namespace nstance::fleet {
namespace {

constexpr config::DeletionBrake kLimits{
    .unordered = {.window = Duration::Seconds(60), .count = 2, .percent = 25},
    .ordered = {.window = Duration::Seconds(30), .count = 3, .percent = 25}};

FleetTimes Times() {
  return {.interval = Duration::Seconds(20),
          .t_vis = Duration::Seconds(20),
          .t_settle = Duration::Seconds(40),
          .t_grace = Duration::Seconds(30),
          .t_mass = Duration::Seconds(120),
          .registration_timeout = Duration::Seconds(60),
          .proven_after = Duration::Seconds(20)};
}

}  // namespace

World::World(std::uint64_t seed)
    : prng_(seed), now_(At(1'000)), view_(Group(0)), limits_(kLimits), brake_(kLimits) {
  view_.times = Times();
  view_.leadership = {.epoch = 1, .began_at = now_, .counting_since = now_};
  view_.spec.size = static_cast<int>(prng_.Below(7));
  view_.spec.surge = static_cast<int>(prng_.Between(1, 2));
  view_.spec.infra_hash = "0";
  view_.subnets.push_back({.id = "b"});
  Refresh();
}

Instant World::In(std::int64_t least, std::int64_t most) {
  return now_ + Duration::Seconds(prng_.Between(least, most));
}

bool World::AlwaysHealthy(const InstanceId& id) const {
  for (std::size_t i = 0; i < truths_.size(); ++i) {
    if (view_.instances[i].id != id) continue;
    const Truth& truth = truths_[i];
    return truth.exists && truth.status == ProviderStatus::kRunning && !truth.ever_silent &&
           view_.instances[i].health.stream_open && !view_.instances[i].health.notice;
  }
  return false;
}

void World::Refresh() {
  brake_.Forget(now_);
  view_.brake = brake_.Budget(now_, population());
  const auto creating = std::ranges::count_if(view_.instances, [](const InstanceView& instance) {
    return instance.phase <= InstancePhase::kCreating;
  });
  view_.creation.places = std::max(4 - static_cast<int>(creating), 0);
}

void World::Apply(const Plan& plan) {
  for (const Action& action : plan.actions) {
    if (action.counted && action.kind != ActionKind::kOpenDelete) {
      brake_.Note({.at = now_,
                   .kind = action.ordered ? BrakeKind::kOrdered : BrakeKind::kUnordered,
                   .opportunistic = !action.ordered && IsOpportunistic(action.reason)});
    }
  }
  ApplyPlan(plan, now_, next_id_, view_);
  while (truths_.size() < view_.instances.size()) {
    Truth truth{.due = In(0, 10)};
    if (hostile_ && prng_.Chance(1, 6)) truth.fate = Fate::kRefused;
    if (hostile_ && prng_.Chance(1, 6)) truth.fate = Fate::kNeverRegisters;
    truths_.push_back(truth);
  }
  for (const Action& action : plan.actions) {
    if (action.kind != ActionKind::kDrain && action.kind != ActionKind::kDelete) continue;
    const auto found = std::ranges::find(view_.instances, *action.instance, &InstanceView::id);
    Truth& truth = truths_[static_cast<std::size_t>(found - view_.instances.begin())];
    if (action.kind == ActionKind::kDelete) {
      truth.due = In(0, 20);
    } else {
      truth.ack_at = prng_.Chance(1, 2) ? In(0, 60) : Instant::Never();
    }
  }
  Refresh();
}

void World::Step(Duration by) {
  now_ = now_ + by;
  gone_.assign(view_.instances.size(), false);
  for (std::size_t i = 0; i < view_.instances.size(); ++i) Progress(i);
  for (std::size_t i = view_.instances.size(); i-- > 0;) {
    if (!gone_[i]) continue;
    view_.instances.erase(view_.instances.begin() + static_cast<std::ptrdiff_t>(i));
    truths_.erase(truths_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  Refresh();
}

void World::Remove(std::size_t at) { gone_[at] = true; }

void World::Progress(std::size_t at) {
  InstanceView& instance = view_.instances[at];
  Truth& truth = truths_[at];
  if (instance.deletion && instance.deletion->started) {
    if (now_ >= truth.due) Remove(at);
    return;
  }
  if (instance.looks.in_flight) AnswerLook(at);
  if (instance.drain && now_ >= truth.ack_at) instance.drain->acked = true;
  if (instance.phase <= InstancePhase::kProvisioned) {
    ProgressCreation(at);
  } else {
    ProgressAgent(at);
  }
}

void World::ProgressCreation(std::size_t at) {
  InstanceView& instance = view_.instances[at];
  Truth& truth = truths_[at];
  if (now_ < truth.due) return;
  switch (instance.phase) {
    case InstancePhase::kIntended:
      instance.phase = InstancePhase::kCreating;
      truth.due = In(1, hostile_ ? 40 : 10);
      return;
    case InstancePhase::kCreating:
      if (truth.fate == Fate::kRefused) {
        const auto failure = static_cast<FailureClass>(prng_.Below(3));
        if (instance.care == Care::kManaged) {
          view_.creation.backoff.OnFailure(failure, "refused", now_, prng_);
        }
        return Remove(at);
      }
      view_.creation.backoff.OnCreated();
      instance.phase = InstancePhase::kProvisioned;
      instance.vm_since = now_;
      instance.looks.OnFound(ProviderStatus::kPending, now_);
      truth.exists = true;
      truth.due = In(1, 20);
      return;
    default: break;
  }
  if (truth.fate == Fate::kNeverRegisters) return;
  if (!truth.exists || truth.status != ProviderStatus::kRunning) return;
  instance.phase = InstancePhase::kRegistered;
  instance.health.registered_at = now_;
}

void World::ProgressAgent(std::size_t at) {
  InstanceView& instance = view_.instances[at];
  const Truth& truth = truths_[at];
  const bool runs = truth.exists && truth.status == ProviderStatus::kRunning;
  if (runs && now_ >= truth.silent_until) {
    instance.health.stream_open = true;
    instance.health.reported_at = now_;
    if (!instance.health.healthy_since) instance.health.healthy_since = now_;
    instance.looks.OnReport();
    return;
  }
  instance.health.healthy_since.reset();
  if (instance.health.stream_open && !(runs && truth.hangs)) {
    instance.health.stream_open = false;
    instance.health.stream_ended_at = now_;
  }
}

void World::AnswerLook(std::size_t at) {
  InstanceView& instance = view_.instances[at];
  const Truth& truth = truths_[at];
  if (hostile_ && prng_.Chance(1, 5)) return instance.looks.OnError();
  const bool lies = hostile_ && prng_.Chance(1, 5);
  if (!truth.exists || lies) {
    return instance.looks.OnNotFound(now_, instance.vm_since.value_or(now_), view_.times);
  }
  instance.looks.OnFound(truth.status, now_);
}

void World::Break(std::size_t at) {
  InstanceView& instance = view_.instances[at];
  Truth& truth = truths_[at];
  if (!truth.exists) return;
  switch (prng_.Below(6)) {
    case 0: truth.exists = false; break;
    case 1: truth.status = ProviderStatus::kStopped; break;
    case 2:
      truth.status = ProviderStatus::kFailed;
      instance.looks.OnFound(truth.status, now_);  // A push event.
      break;
    case 3:
      if (instance.phase != InstancePhase::kRegistered) return;
      instance.health.notice = TerminationNotice{.deadline = In(10, 120)};
      break;
    default:
      truth.silent_until = In(5, 200);
      truth.hangs = prng_.Chance(1, 3);
      truth.ever_silent = true;
  }
}

void World::ChangeSpec() {
  GroupSpec& spec = view_.spec;
  switch (prng_.Below(8)) {
    case 0:
    case 1:
    case 2: spec.size = static_cast<int>(prng_.Below(8)); break;
    case 3: spec.infra_hash = spec.infra_hash == "0" ? "1" : "0"; break;
    case 4: spec.drain_timeout = Duration::Seconds(prng_.Between(0, 3) * 20); break;
    case 5: spec.size_ordered = !spec.size_ordered; break;
    case 6:
      spec.expiry = {.eligible_age = Duration::Seconds(prng_.Between(0, 2) * 60),
                     .forced_age = Duration::Seconds(prng_.Between(0, 2) * 90),
                     .ondemand_age = Duration::Seconds(prng_.Between(0, 2) * 60)};
      break;
    default:
      view_.restraint =
          view_.restraint == Restraint::kNone ? Restraint::kConfigInvalid : Restraint::kNone;
  }
  spec.remove.clear();
  if (!view_.instances.empty() && prng_.Chance(1, 3)) {
    spec.remove.push_back(view_.instances[Any()].id);
  }
}

// What is in records and intents stays, everything else is lost.
void World::Failover() {
  ++view_.leadership.epoch;
  view_.leadership.began_at = now_;
  view_.leadership.counting_since = now_;
  view_.creation.backoff = {};
  gone_.assign(view_.instances.size(), false);
  for (std::size_t i = 0; i < view_.instances.size(); ++i) {
    InstanceView& instance = view_.instances[i];
    const auto registered_at = instance.health.registered_at;
    instance.health = {.registered_at = registered_at};
    instance.looks = {};
    instance.order.reset();
    if (instance.phase == InstancePhase::kIntended) gone_[i] = true;
  }
  Step(Duration());
}

void World::Disturb() {
  if (!view_.instances.empty()) {
    if (prng_.Chance(1, 4)) Break(Any());
    if (prng_.Chance(1, 20)) {
      InstanceView& instance = view_.instances[Any()];
      const bool drains = instance.phase == InstancePhase::kRegistered && prng_.Chance(1, 2);
      if (!instance.deletion) {
        instance.order = OrderView{.drain = drains ? Duration::Seconds(30) : Duration()};
      }
    }
    if (prng_.Chance(1, 12)) {
      InstanceView& instance = view_.instances[Any()];
      if (instance.phase == InstancePhase::kIntended) instance.care = Care::kOnDemand;
    }
    if (prng_.Chance(1, 30) && view_.instances.size() > 2) {
      // A cut of the network: many fall silent at once.
      for (Truth& truth : truths_) {
        truth.silent_until = In(30, 90);
        truth.ever_silent = true;
      }
    }
  }
  if (prng_.Chance(1, 6)) ChangeSpec();
  if (prng_.Chance(1, 15)) Failover();
  for (SubnetView& subnet : view_.subnets) subnet.full = prng_.Chance(1, 8);
  Refresh();
}

void World::Calm() {
  hostile_ = false;
  view_.restraint = Restraint::kNone;
  view_.spec.expiry = {};
  view_.spec.remove.clear();
  for (SubnetView& subnet : view_.subnets) subnet.full = false;
  for (Truth& truth : truths_) truth.silent_until = now_;
  Refresh();
}

bool World::Converged() const {
  int members = 0;
  for (std::size_t i = 0; i < view_.instances.size(); ++i) {
    const InstanceView& instance = view_.instances[i];
    const Truth& truth = truths_[i];
    const bool sound = instance.phase == InstancePhase::kRegistered && truth.exists &&
                       truth.status == ProviderStatus::kRunning && instance.health.stream_open &&
                       !instance.drain && !instance.deletion && !instance.order;
    if (!sound) return false;
    if (instance.care != Care::kManaged) continue;
    if (instance.infra_hash != view_.spec.infra_hash) return false;
    ++members;
  }
  return members == view_.spec.size;
}

}  // namespace nstance::fleet

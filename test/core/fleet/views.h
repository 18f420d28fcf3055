// Tiny builders of fleet views: a group with its defaults, and instances in the states that tests
// ask about.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/fleet/planner.h"

namespace nstance::fleet {

inline Instant At(std::int64_t seconds) { return Instant::FromClock(Duration::Seconds(seconds)); }

// Ids rise with `n`.
inline InstanceId Id(std::uint32_t n) {
  UuidBytes uuid{};
  uuid[6] = 0x70;
  uuid[8] = 0x80;
  for (std::size_t i = 0; i < 4; ++i) {
    uuid.at(12 + i) = static_cast<std::uint8_t>(n >> (24 - 8 * i));
  }
  return {"knc", uuid};
}

inline constexpr std::int64_t kNow = 100'000;  // Long after everything below began.

inline BrakeBudget FreeBrake(int places = 1'000) {
  const BudgetOf free{.free = places, .limit = places};
  return {.unordered = free, .opportunistic = free, .ordered = free};
}

// A leader since long, one subnet, places for everything; interval 60 s.
inline GroupView Group(int size) {
  GroupView view{.tenant = DefaultTenant(), .group = GroupKey::Parse("workers").value()};
  view.spec.size = size;
  view.spec.drain_timeout = Duration::Minutes(5);
  view.spec.infra_hash = "new";
  view.spec.size_ordered = true;
  view.subnets = {{.id = "a", .live = 0, .full = false}};
  view.creation.places = 100;
  view.brake = FreeBrake();
  view.leadership = {.epoch = 7, .began_at = At(0), .counting_since = At(0)};
  return view;
}

inline InstanceView Intended(std::uint32_t n) {
  return {.id = Id(n), .phase = InstancePhase::kIntended, .created_at = At(kNow - 1)};
}

inline InstanceView Creating(std::uint32_t n) {
  return {.id = Id(n), .phase = InstancePhase::kCreating, .created_at = At(kNow - 5)};
}

inline InstanceView Provisioned(std::uint32_t n) {
  return {.id = Id(n),
          .phase = InstancePhase::kProvisioned,
          .created_at = At(kNow - 20),
          .vm_since = At(kNow - 10),
          .infra_hash = "new"};
}

// Registered, reporting, a day old and older with a smaller `n`.
inline InstanceView Healthy(std::uint32_t n) {
  InstanceView instance{.id = Id(n),
                        .phase = InstancePhase::kRegistered,
                        .created_at = At(kNow - 86'400 + n),
                        .vm_since = At(kNow - 86'390 + n),
                        .infra_hash = "new"};
  instance.health.registered_at = At(kNow - 86'380 + n);
  instance.health.reported_at = At(kNow - 1);
  instance.health.healthy_since = At(kNow - 80'000);
  instance.health.stream_open = true;
  return instance;
}

inline InstanceView Drifted(std::uint32_t n) {
  InstanceView instance = Healthy(n);
  instance.infra_hash = "old";
  return instance;
}

// No stream opened and no report since this leadership began, which was just now.
inline InstanceView Unknown(std::uint32_t n) {
  InstanceView instance = Healthy(n);
  instance.health.reported_at.reset();
  instance.health.healthy_since.reset();
  instance.health.stream_open = false;
  return instance;
}

// The stream has ended a moment ago, and the provider says running.
inline InstanceView Disconnected(std::uint32_t n) {
  InstanceView instance = Healthy(n);
  instance.health.stream_open = false;
  instance.health.stream_ended_at = At(kNow - 1);
  instance.looks.OnBegun(At(kNow - 1));
  instance.looks.OnFound(ProviderStatus::kRunning, At(kNow));
  return instance;
}

// Silent for an hour, and the provider says running: verdict unhealthy.
inline InstanceView Stale(std::uint32_t n) {
  InstanceView instance = Healthy(n);
  instance.health.reported_at = At(kNow - 3'600);
  instance.health.stream_open = false;
  instance.health.stream_ended_at = At(kNow - 3'590);
  instance.looks.OnBegun(At(kNow - 3));
  instance.looks.OnFound(ProviderStatus::kRunning, At(kNow - 2));
  return instance;
}

// The provider says so, and the stream is down.
inline InstanceView Dead(std::uint32_t n, ProviderStatus status = ProviderStatus::kStopped) {
  InstanceView instance = Healthy(n);
  instance.health.stream_open = false;
  instance.health.stream_ended_at = At(kNow - 2);
  instance.looks.OnFound(status, At(kNow - 1));
  return instance;
}

// One "not found".
inline InstanceView Suspect(std::uint32_t n) {
  InstanceView instance = Disconnected(n);
  instance.looks.OnNotFound(At(kNow), *instance.vm_since, FleetTimes{});
  return instance;
}

// Two, T_vis apart.
inline InstanceView Absent(std::uint32_t n) {
  InstanceView instance = Disconnected(n);
  instance.looks.OnNotFound(At(kNow - 60), *instance.vm_since, FleetTimes{});
  instance.looks.OnNotFound(At(kNow), *instance.vm_since, FleetTimes{});
  return instance;
}

inline InstanceView Notified(std::uint32_t n, std::int64_t seconds_left = 120) {
  InstanceView instance = Healthy(n);
  instance.health.notice = TerminationNotice{.deadline = At(kNow + seconds_left)};
  return instance;
}

inline InstanceView Draining(std::uint32_t n, Reason reason) {
  InstanceView instance = Healthy(n);
  instance.phase = InstancePhase::kDraining;
  instance.drain = DrainView{.reason = reason, .deadline = At(kNow + 300), .epoch = 7};
  return instance;
}

inline InstanceView Deleting(std::uint32_t n) {
  InstanceView instance = Healthy(n);
  instance.phase = InstancePhase::kDeleting;
  instance.deletion = DeletionView{.opened_at = At(kNow - 10), .started = true};
  return instance;
}

inline InstanceView Replacing(InstanceView instance, std::uint32_t old) {
  instance.replaces = Id(old);
  return instance;
}

inline InstanceView With(Care care, InstanceView instance) {
  instance.care = care;
  return instance;
}

inline InstanceView Blocked(InstanceView instance) {
  instance.blocked = true;
  return instance;
}

inline InstanceView Ordered(InstanceView instance, Duration drain = {}) {
  instance.order = OrderView{.drain = drain};
  return instance;
}

inline GroupView GroupOf(int size, std::vector<InstanceView> instances) {
  GroupView view = Group(size);
  view.instances = std::move(instances);
  return view;
}

inline Plan PlanNow(const GroupView& view) { return PlanGroup(view, At(kNow)); }

// "create for 3", "drain 3 unhealthy", "delete 4 provider-gone": the plan in short, without looks.
[[nodiscard]] std::vector<std::string> Short(const Plan& plan);
// "brake 3", "create-backoff": holds in short.
[[nodiscard]] std::vector<std::string> ShortHolds(const Plan& plan);

// What the view is once everything that the plan asks for is durable and nothing else happened. New
// instances get ids from `next_id` on, which rises.
void ApplyPlan(const Plan& plan, Instant now, std::uint32_t& next_id, GroupView& view);

}  // namespace nstance::fleet

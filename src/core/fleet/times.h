// The times that fleet rules are measured in, and stored wall times on the monotonic clock.
//
// Everything in core/fleet is judged on the monotonic clock (Instant): a wall clock that jumps
// moves nothing. What was stored as wall time is mapped once, when a leader loads it:
//
//   started = MomentOf(record.drain->started_at, clock);
//   delete_at = DeadlineOf({.deadline = drain.delete_at, .length = drain.length}, clock);
//
// `clock.wall` is the present corrected by the storage's Date where the two differ by more than
// 60 s (faults.md RU8).
#pragma once

#include <optional>

#include "base/time.h"

namespace nstance::fleet {

// Constants of faults.md section 1 and keys of config.md, as values: the simulator shrinks and
// stretches them.
struct FleetTimes {
  Duration interval = Duration::Seconds(60);  // server.health_check_interval.
  Duration t_vis = Duration::Seconds(60);     // Between two looks before absence is believed.
  Duration t_settle = Duration::Minutes(5);   // Younger VMs are never judged missing.
  Duration t_grace = Duration::Seconds(45);   // Least time for agents to come back.
  Duration t_mass = Duration::Minutes(10);    // Longest hold mass-silence.
  Duration t_intent = Duration::Minutes(10);  // A creation is retried this long.
  Duration registration_timeout = Duration::Minutes(5);
  Duration proven_after = Duration::Minutes(1);  // Healthy this long: registration works.
};

// T_vis and T_settle of a provider with this consistency window: 0 means 5 s and 0 s. A longer
// window than the default lengthens both.
[[nodiscard]] FleetTimes ForProvider(FleetTimes times, Duration consistency_window);

// Both clocks, read at one moment.
struct ClockReading {
  Instant mono = {};
  Timestamp wall = {};
};

// `wall`, or the store's time if the two differ by more than 60 s: then it is our clock that is
// suspected.
[[nodiscard]] Timestamp CorrectedNow(Timestamp wall, std::optional<Timestamp> store_now);

// A stored moment of the past. One in the future (a clock was wrong) counts as now.
[[nodiscard]] Instant MomentOf(Timestamp stored, const ClockReading& clock);

struct StoredDeadline {
  Timestamp deadline = {};
  Duration length = {};
};
// now + clamp(deadline - now, 0, length).
[[nodiscard]] Instant DeadlineOf(const StoredDeadline& stored, const ClockReading& clock);

// A planned moment as wall time, for storing and for people.
[[nodiscard]] Timestamp WallTimeOf(Instant at, const ClockReading& clock);

}  // namespace nstance::fleet

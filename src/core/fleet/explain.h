// What people are told about an instance or a group: what it is, since when, why, what happens next
// and when, and what to do if something is to be done. The words of `nstance-admin why` and of
// events.
//
//   const Plan plan = PlanGroup(view, now);
//   Summarize(story, NarrowTo(plan, id), now);
//     "Draining since 12s because its group was deleted (group-deleted); it will be deleted in
//      4m48s or when the operator acknowledges. Replacement: knc... (creating)."
//
// Everything here is pure. Facts come as a story, decisions as the plan of the very planner that
// decides (planner.h); nothing is decided here.
//
// Guarantees, each held by a test:
//   - every phase, every health state, every hold code and every reason has words of its own
//   - every text is made of whole sentences, and bounded whatever the plan holds
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/puidv7.h"
#include "base/time.h"
#include "core/fleet/health.h"
#include "core/fleet/plan.h"
#include "core/instance_phase.h"
#include "core/instance_record.h"

namespace nstance::fleet {

// "12s", "4m48s", "3h5m", "2d4h": the two largest units, rounded down. What is past is "0s".
[[nodiscard]] std::string ForPeople(Duration length);

// A text that somebody else wrote, such as a provider's error: cut to this many bytes and "...".
inline constexpr std::size_t kMaxForeignText = 256;
[[nodiscard]] std::string Shortened(std::string text);

// What a person can do about a hold, a whole sentence. Empty: nothing, it passes by itself.
[[nodiscard]] std::string_view Remedy(HoldCode code);

// "Held (brake): the deletion budget of the tenant is used up; it goes on in 5m. If ..."
[[nodiscard]] std::string Summarize(const Hold& hold, Instant now);

// ---- one instance -------------------------------------------------------------------------------

struct InstanceStory {
  InstancePhase phase = InstancePhase::kIntended;
  Duration in_phase = {};  // For how long.
  bool on_demand = false;
  bool corrupt = false;                                // There is a record that does not read.
  HealthState health = HealthState::kUnknown;          // Registered ones.
  std::optional<Duration> last_report = std::nullopt;  // So long ago.
  std::string reason = {};   // The word: why it is made, draining, deleting, gone.
  std::string failure = {};  // What went wrong, of a creation that came to nothing.
  bool durable = true;       // Intended: the decision is in the journal.
  bool in_queue = false;     // Intended, creating: others are created first.
  std::string trouble = {};  // Why it is not further than it is; may be empty.
  bool acked = false;        // Draining: the operator has acknowledged.
  std::optional<Duration> deleted_in = std::nullopt;   // Draining: until its end.
  std::optional<Duration> register_in = std::nullopt;  // Provisioned: how long it may still take.
  struct Other {
    InstanceId id;
    InstancePhase phase = InstancePhase::kIntended;
  };
  std::optional<Other> replacement = std::nullopt;  // Who stands in for it.
  std::optional<Other> replaces = std::nullopt;     // For whom it stands in.
};

// `plan`: narrowed to the instance.
[[nodiscard]] std::string Summarize(const InstanceStory& story, const Plan& plan, Instant now);

// What of a group's plan concerns one instance: its own actions and holds, a creation in its place,
// what holds the whole group back, and, if it waits for a replacement, why none is made. The rest
// (replan_at, counts) is the group's.
[[nodiscard]] Plan NarrowTo(const Plan& plan, const InstanceId& id);

// ---- a group ------------------------------------------------------------------------------------

struct GroupStory {
  int size = 0;
  int ready = 0;
  int creating = 0;
  int draining = 0;
  int others = 0;        // Registered, and not healthy; of a removed group also deleting ones.
  bool removed = false;  // Nothing defines it any more; its members leave.
};

[[nodiscard]] std::string Summarize(const GroupStory& story, const Plan& plan, Instant now);

// ---- events -------------------------------------------------------------------------------------

// The word of why an instance is in its phase: of its deletion, drain or failure. May be empty.
[[nodiscard]] std::string_view ReasonOf(const InstanceRecord& record);
// What the change of a record's phase means: "its agent registered".
[[nodiscard]] std::string PhaseNews(InstancePhase before, const InstanceRecord& record);

}  // namespace nstance::fleet

// Actions, holds and moments of a plan as Plan and Explain answer them (wire.md 7.6).
#pragma once

#include <cstddef>

#include "base/name.h"
#include "core/fleet/plan.h"
#include "core/fleet/times.h"
#include "ports/api/plan.h"
#include "server/fleet/event_log.h"

namespace nstance {

[[nodiscard]] api::Action ActionAnswer(const fleet::Action& action, const GroupKey& group);
[[nodiscard]] api::Hold HoldAnswer(const fleet::Hold& hold, const GroupKey& group,
                                   const fleet::ClockReading& clock);

// Adds the plan of one group: its actions and holds, and replan_at if it is earlier. Returns about
// how many bytes that takes in the answer.
std::size_t AppendPlan(api::PlanResponse& answer, const fleet::Plan& plan, const GroupKey& group,
                       const fleet::ClockReading& clock);

// The events, oldest first. Null: none.
[[nodiscard]] std::vector<api::Event> HistoryAnswer(const EventRing* ring);

}  // namespace nstance

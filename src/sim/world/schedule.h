// Schedules: the courses of faults that faults.md 2 names, as events of a scenario.
//
//   lost-answers    the answer to each call that changes something is lost, by the step of the call
//   clog            links of servers stop one by one; when all have, they heal in another order
//   pause-at-fence  a process stops between its lease and each effect, for longer than a lease
//   restart-storm   all servers and agents within one lease, some storms soon after each other
//   empty-world     the provider lists nothing, or finds nothing either; meanwhile leaders change
//
// Every event stands for itself: a failure is made smaller by leaving some out.
#pragma once

#include <vector>

#include "base/prng.h"
#include "sim/world/scenario.h"

namespace nstance::sim {

// Those of `scenario.schedule`.
[[nodiscard]] std::vector<Event> DrawSchedule(const Scenario& scenario, Prng& prng);

}  // namespace nstance::sim

// Occasions: what has to happen, besides faults, for some parts of the product to be at work.
//
//   spot-notice   the provider announces the end of a machine, and stops to before it comes
//   worn-lease    a leader's clock is slow, the store tells it late of its renewals or not at all;
//                 meanwhile there is work for it
//   reset-disk    a machine begins anew with the token that it has used, and another key
//   pause-at-log  a leader stands still while an entry of the certificate log is being written
//   late-creation machines are made long after their creation was given up
//   no-capacity   the provider refuses most creations, and some are wanted
//   two-hang      two agents of one group hang at once, so that both are replaced
//   blink         the provider denies every VM for a moment, in which it is asked for some
//   broken-config a file that does not validate is stored, and servers are asked to read it
//   great-shrink  a group of many is to become empty, and its leader dies on the way
//   rival         somebody else writes to a record right before its leader does (F5)
//   same-request  two tenants use one request id, for a group of the same name
//
// Half of the seeds have some of them; each is part of one seed in six.
#pragma once

#include <vector>

#include "base/prng.h"
#include "sim/world/scenario.h"

namespace nstance::sim {

[[nodiscard]] std::vector<Event> DrawOccasions(const Scenario& scenario, Prng& prng);

}  // namespace nstance::sim

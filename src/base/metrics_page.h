// The `/metrics` page: a snapshot in the text format of Prometheus 0.0.4.
//
//   # HELP nstance_leader Whether this server leads.
//   # TYPE nstance_leader gauge
//   nstance_leader{scope="shard"} 1
//
// Every family is prefixed with `nstance_`. Two pages of the same values are the same bytes.
#pragma once

#include <string>

#include "base/metrics.h"

namespace nstance::metrics {

[[nodiscard]] std::string WritePage(const Snapshot& snapshot);

}  // namespace nstance::metrics

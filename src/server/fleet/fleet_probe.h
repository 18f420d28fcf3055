// FleetProbe: what the fleet counts (server.md 15), by what happened.
//
//   instances_created_total{tenant,group}            instance_provision_seconds{tenant}
//   instance_create_failures_total{tenant,group,class}   instance_ready_seconds{tenant}
//   instances_deleted_total{tenant,reason}           replacement_start_seconds{reason}
//   drains_total{tenant,reason,outcome}              health_reports_total{tenant}
//   plans_total, plan_seconds                        sweep_seconds
//
// Figures that are a state and not an event (sizes, phases, holds, brakes) are read from the table
// when somebody asks: Fleet::Measure(). Series are bounded by the registry; reasons, classes and
// outcomes are words of ours, never of a caller.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/metrics.h"
#include "base/name.h"
#include "base/time.h"
#include "core/fleet/backoff.h"
#include "core/fleet/creation_order.h"

namespace nstance {

enum class DrainOutcome : std::uint8_t { kAcked, kTimeout, kDead, kRevoked };
// "acked", "timeout", "dead", "revoked".
[[nodiscard]] std::string_view DrainOutcomeName(DrainOutcome outcome);

class FleetProbe final {
 public:
  // `registry` outlives it.
  explicit FleetProbe(metrics::Registry& registry) : registry_(registry) {}

  // The page has the families, also before something happened.
  static void Declare(metrics::Snapshot& page);

  // The provider has it, so long after the intent was opened.
  void Created(const fleet::GroupName& group, Duration took);
  void CreateFailed(const fleet::GroupName& group, fleet::FailureClass failure);
  // Healthy for the first time, so long after its intent was opened.
  void Ready(const TenantId& tenant, Duration took);
  void Deleted(const TenantId& tenant, std::string_view reason);
  // From the evidence to the durable create intent.
  void ReplacementStarted(std::string_view reason, Duration took);
  void Drained(const TenantId& tenant, std::string_view reason, DrainOutcome outcome);
  void Planned(Duration took);
  void Swept(Duration took);
  // Kept by the caller: reports are too many to look the series up each time.
  [[nodiscard]] metrics::Counter& HealthReports(const TenantId& tenant);

 private:
  metrics::Registry& registry_;
};

}  // namespace nstance

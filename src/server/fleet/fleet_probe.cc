#include "server/fleet/fleet_probe.h"

#include <array>

#include "base/metric_families.h"
#include "core/fleet/words.h"

namespace nstance {
namespace {

using metrics::Family;
using metrics::Kind;

// Reasons come from records, which other programs may have written: only known words are labels.
std::string_view ReasonLabel(std::string_view reason) {
  return fleet::ParseReason(reason).has_value() ? reason : "other";
}

const Family& CreatedTotal() {
  static const Family kFamily = {.name = "instances_created_total",
                                 .help = "Instances that the provider has made.",
                                 .labels = {"tenant", "group"},
                                 .buckets = {}};
  return kFamily;
}

const Family& FailuresTotal() {
  static const Family kFamily = {.name = "instance_create_failures_total",
                                 .help = "Creations that came to nothing.",
                                 .labels = {"tenant", "group", "class"},
                                 .buckets = {}};
  return kFamily;
}

const Family& DeletedTotal() {
  static const Family kFamily = {.name = "instances_deleted_total",
                                 .help = "Instances that are gone, by what they went for.",
                                 .labels = {"tenant", "reason"},
                                 .buckets = {}};
  return kFamily;
}

const Family& ProvisionSeconds() {
  static const Family kFamily = {.name = "instance_provision_seconds",
                                 .help = "From the intent to the provider's answer.",
                                 .labels = {"tenant"},
                                 .buckets = {0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}};
  return kFamily;
}

const Family& ReadySeconds() {
  static const Family kFamily = {.name = "instance_ready_seconds",
                                 .help = "From the intent to the first healthy report.",
                                 .labels = {"tenant"},
                                 .buckets = {0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}};
  return kFamily;
}

const Family& ReplacementSeconds() {
  static const Family kFamily = {
      .name = "replacement_start_seconds",
      .help = "From the evidence to the durable intent of the replacement.",
      .labels = {"reason"},
      .buckets = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 30, 300}};
  return kFamily;
}

const Family& DrainsTotal() {
  static const Family kFamily = {.name = "drains_total",
                                 .help = "Drains that have ended, by how.",
                                 .labels = {"tenant", "reason", "outcome"},
                                 .buckets = {}};
  return kFamily;
}

const Family& ReportsTotal() {
  static const Family kFamily = {.name = "health_reports_total",
                                 .help = "Health reports that were taken.",
                                 .labels = {"tenant"},
                                 .buckets = {}};
  return kFamily;
}

const Family& PlansTotal() {
  static const Family kFamily = {
      .name = "plans_total", .help = "Groups that were planned.", .labels = {}, .buckets = {}};
  return kFamily;
}

const Family& PlanSeconds() {
  static const Family kFamily = {
      .name = "plan_seconds",
      .help = "Time to plan one group and to take its actions up.",
      .labels = {},
      .buckets = {0.000'01, 0.000'05, 0.000'1, 0.000'5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5}};
  return kFamily;
}

const Family& SweepSeconds() {
  static const Family kFamily = {.name = "sweep_seconds",
                                 .help = "Time of one complete listing of the provider.",
                                 .labels = {},
                                 .buckets = {0.01, 0.05, 0.25, 1, 2.5, 5, 10, 30, 60, 300}};
  return kFamily;
}

}  // namespace

std::string_view DrainOutcomeName(DrainOutcome outcome) {
  switch (outcome) {
    case DrainOutcome::kAcked: return "acked";
    case DrainOutcome::kTimeout: return "timeout";
    case DrainOutcome::kDead: return "dead";
    case DrainOutcome::kRevoked: break;
  }
  return "revoked";
}

void FleetProbe::Declare(metrics::Snapshot& page) {
  for (const Family* family : {&CreatedTotal(), &FailuresTotal(), &DeletedTotal(), &DrainsTotal(),
                               &ReportsTotal(), &PlansTotal()}) {
    nstance::Declare(page, *family, Kind::kCounter);
  }
  for (const Family* family : {&ProvisionSeconds(), &ReadySeconds(), &ReplacementSeconds(),
                               &PlanSeconds(), &SweepSeconds()}) {
    nstance::Declare(page, *family, Kind::kHistogram);
  }
}

void FleetProbe::Created(const fleet::GroupName& group, Duration took) {
  const std::array<std::string_view, 2> labels = {group.first.text(), group.second.text()};
  registry_.Counter(CreatedTotal(), labels).Add();
  const std::array<std::string_view, 1> tenant = {group.first.text()};
  registry_.Histogram(ProvisionSeconds(), tenant).Observe(InSeconds(took));
}

void FleetProbe::CreateFailed(const fleet::GroupName& group, fleet::FailureClass failure) {
  const std::array<std::string_view, 3> labels = {group.first.text(), group.second.text(),
                                                  fleet::Word(failure)};
  registry_.Counter(FailuresTotal(), labels).Add();
}

void FleetProbe::Ready(const TenantId& tenant, Duration took) {
  const std::array<std::string_view, 1> labels = {tenant.text()};
  registry_.Histogram(ReadySeconds(), labels).Observe(InSeconds(took));
}

void FleetProbe::Deleted(const TenantId& tenant, std::string_view reason) {
  const std::array<std::string_view, 2> labels = {tenant.text(), ReasonLabel(reason)};
  registry_.Counter(DeletedTotal(), labels).Add();
}

void FleetProbe::ReplacementStarted(std::string_view reason, Duration took) {
  const std::array<std::string_view, 1> labels = {ReasonLabel(reason)};
  registry_.Histogram(ReplacementSeconds(), labels).Observe(InSeconds(took));
}

void FleetProbe::Drained(const TenantId& tenant, std::string_view reason, DrainOutcome outcome) {
  const std::array<std::string_view, 3> labels = {tenant.text(), ReasonLabel(reason),
                                                  DrainOutcomeName(outcome)};
  registry_.Counter(DrainsTotal(), labels).Add();
}

void FleetProbe::Planned(Duration took) {
  registry_.Counter(PlansTotal(), {}).Add();
  registry_.Histogram(PlanSeconds(), {}).Observe(InSeconds(took));
}

void FleetProbe::Swept(Duration took) {
  registry_.Histogram(SweepSeconds(), {}).Observe(InSeconds(took));
}

metrics::Counter& FleetProbe::HealthReports(const TenantId& tenant) {
  const std::array<std::string_view, 1> labels = {tenant.text()};
  return registry_.Counter(ReportsTotal(), labels);
}

}  // namespace nstance

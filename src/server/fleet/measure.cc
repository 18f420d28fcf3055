#include <array>
#include <map>
#include <string>
#include <string_view>

#include "base/metric_families.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

using metrics::Family;

// `labels` are those of the family.
struct GroupGauge {
  Family family;
  int GroupFigures::* figure = nullptr;
};

const std::array<GroupGauge, 3>& GroupGauges() {
  static const std::array<GroupGauge, 3> kGauges = {
      GroupGauge{.family = {.name = "group_ready",
                            .help = "Members that are registered and healthy.",
                            .labels = {"tenant", "group"},
                            .buckets = {}},
                 .figure = &GroupFigures::ready},
      GroupGauge{.family = {.name = "group_creating",
                            .help = "Members that have not registered yet.",
                            .labels = {"tenant", "group"},
                            .buckets = {}},
                 .figure = &GroupFigures::creating},
      GroupGauge{.family = {.name = "group_draining",
                            .help = "Instances whose workloads are leaving.",
                            .labels = {"tenant", "group"},
                            .buckets = {}},
                 .figure = &GroupFigures::draining}};
  return kGauges;
}

const Family& GroupSize() {
  static const Family kFamily = {.name = "group_size",
                                 .help = "Members that the group should have.",
                                 .labels = {"tenant", "group"},
                                 .buckets = {}};
  return kFamily;
}

const Family& Instances() {
  static const Family kFamily = {.name = "instances",
                                 .help = "Instances by the phase of their records.",
                                 .labels = {"tenant", "phase"},
                                 .buckets = {}};
  return kFamily;
}

const Family& Holds() {
  static const Family kFamily = {.name = "holds",
                                 .help = "What looks due and is not being done, by why.",
                                 .labels = {"code"},
                                 .buckets = {}};
  return kFamily;
}

const Family& BrakeActive() {
  static const Family kFamily = {.name = "brake_active",
                                 .help = "Whether the deletion budget is used up.",
                                 .labels = {"tenant", "kind"},
                                 .buckets = {}};
  return kFamily;
}

const Family& BrakeUsed() {
  static const Family kFamily = {.name = "brake_used",
                                 .help = "Deletions that count in the present window.",
                                 .labels = {"tenant", "kind"},
                                 .buckets = {}};
  return kFamily;
}

Family Plain(std::string_view name, std::string_view help) {
  return {.name = name, .help = help, .labels = {}, .buckets = {}};
}

void SetBrake(metrics::Registry& gauges, const TenantId& tenant, std::string_view kind,
              const fleet::BudgetOf& budget) {
  const std::array<std::string_view, 2> labels = {tenant.text(), kind};
  gauges.Gauge(BrakeActive(), labels).Set(budget.free <= 0 ? 1 : 0);
  gauges.Gauge(BrakeUsed(), labels).Set(budget.limit - budget.free);
}

}  // namespace

void Fleet::Engine::Measure(metrics::Registry& gauges) const {
  if (groups_ != nullptr) {
    for (const auto& [tenant, of_tenant] : groups_->groups) {
      for (const auto& [key, group] : of_tenant) {
        const std::array<std::string_view, 2> labels = {tenant.text(), key.text()};
        const GroupFigures figures = Figures({tenant, key});
        gauges.Gauge(GroupSize(), labels).Set(group->group.size());
        for (const GroupGauge& gauge : GroupGauges()) {
          gauges.Gauge(gauge.family, labels).Set(figures.*gauge.figure);
        }
      }
    }
  }
  for (const auto& [id, entry] : entries_) {
    const std::array<std::string_view, 2> labels = {entry->instance.tenant.text(),
                                                    PhaseName(entry->instance.phase())};
    gauges.Gauge(Instances(), labels).Add(1);
  }
  for (const auto& [group, state] : group_states_) {
    for (const fleet::Hold& hold : state.plan.holds) {
      const std::array<std::string_view, 1> labels = {fleet::Word(hold.code)};
      gauges.Gauge(Holds(), labels).Add(1);
    }
  }
  for (const auto& [tenant, brake] : brakes_) {
    const fleet::BrakeBudget budget = brake.Budget(deps_.loop.Now(), census_.Population(tenant));
    SetBrake(gauges, tenant, "unordered", budget.unordered);
    SetBrake(gauges, tenant, "ordered", budget.ordered);
  }
  gauges.Gauge(Plain("journal_intents", "Intents that are open."), {})
      .Set(AsMetric(deps_.journal.journal().intents.size()));
  gauges.Gauge(Plain("history_bytes", "Memory of the events that are kept for people."), {})
      .Set(AsMetric(events_.totals().bytes));
  gauges.Gauge(Plain("sweep_orphans", "Instances of the last listing that no record knows."), {})
      .Set(AsMetric(orphans_seen_));
  if (swept_at_) {
    gauges.Gauge(Plain("sweep_age_seconds", "Since the last listing that was used."), {})
        .Set(InSeconds(deps_.loop.Now() - *swept_at_));
  }
}

}  // namespace nstance

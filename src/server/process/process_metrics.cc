// What ServerProcess shows on `/metrics`: counters of the whole process, and gauges that are read
// when somebody asks, so that nothing stays on the page that is no more.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/metric_families.h"
#include "base/version.h"
#include "server/fleet/fleet_probe.h"
#include "server/process/process_families.h"
#include "server/process/server_process.h"
#include "server/services/observed_call.h"
#include "server/services/watches.h"

namespace nstance {
namespace {

using metrics::Family;
using metrics::Kind;

constexpr Duration kLagInterval = Duration::Seconds(1);
constexpr Duration kWallJump = Duration::Seconds(60);

Family Named(std::string_view name, std::string_view help,
             std::vector<std::string_view> labels = {}) {
  return {.name = name, .help = help, .labels = std::move(labels), .buckets = {}};
}

void Set(metrics::Registry& gauges, const Family& family, MetricValue value) {
  gauges.Gauge(family, {}).Set(value);
}

void Set(metrics::Registry& gauges, const Family& family, std::string_view label,
         MetricValue value) {
  const std::array labels = {label};
  gauges.Gauge(family, labels).Set(value);
}

// Families of the table and the services, which are empty while another server leads.
void DeclareGauges(metrics::Snapshot& page) {
  const std::vector<std::string_view> group = {"tenant", "group"};
  const std::vector<std::string_view> brake = {"tenant", "kind"};
  for (const Family& family :
       {Named("group_size", "Members that the group should have.", group),
        Named("group_ready", "Members that are registered and healthy.", group),
        Named("group_creating", "Members that have not registered yet.", group),
        Named("group_draining", "Instances whose workloads are leaving.", group),
        Named("instances", "Instances by the phase of their records.", {"tenant", "phase"}),
        Named("holds", "What looks due and is not being done, by why.", {"code"}),
        Named("brake_active", "Whether the deletion budget is used up.", brake),
        Named("brake_used", "Deletions that count in the present window.", brake),
        Named("journal_intents", "Intents that are open."),
        Named("sweep_orphans", "Instances of the last listing that no record knows."),
        Named("sweep_age_seconds", "Since the last listing that was used."),
        Named("agents_connected", "Agents with an open health stream.", {"tenant"}),
        Named("operators_connected", "Operators that watch something.", {"tenant"}),
        Named("watch_streams", "Watches that are open.", {"kind"})}) {
    Declare(page, family, Kind::kGauge);
  }
}

}  // namespace

const Family& AlarmsTotal() {
  static const Family kFamily = {.name = "alarms_total",
                                 .help = "What needs a person's attention.",
                                 .labels = {"alarm"},
                                 .buckets = {}};
  return kFamily;
}

const Family& LeaderChangesTotal() {
  static const Family kFamily = {.name = "leader_changes_total",
                                 .help = "Leaderships of the shard that this process began.",
                                 .labels = {},
                                 .buckets = {}};
  return kFamily;
}

const Family& TakeOverSeconds() {
  static const Family kFamily = {.name = "takeover_seconds",
                                 .help = "From the acquired lease to the open listeners.",
                                 .labels = {},
                                 .buckets = {0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60}};
  return kFamily;
}

const Family& LoopTurnSeconds() {
  static const Family kFamily = {.name = "loop_turn_seconds",
                                 .help = "How long the loop works before it looks again.",
                                 .labels = {},
                                 .buckets = {0.000'1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5}};
  return kFamily;
}

const Family& LoopLagSeconds() {
  static const Family kFamily = {.name = "loop_lag_seconds",
                                 .help = "How late a timer of the loop fires.",
                                 .labels = {},
                                 .buckets = {0.000'1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5}};
  return kFamily;
}

void ServerProcess::WatchLag(Instant due) {
  // A clock that has gone back makes it early.
  const Duration lag = std::max(deps_.loop.Now() - due, Duration());
  deps_.metrics.Histogram(LoopLagSeconds(), {}).Observe(InSeconds(lag));
  const Instant next = deps_.loop.Now() + kLagInterval;
  lag_ = deps_.loop.CallAt(next, [this, next] { WatchLag(next); });
  WatchWallClock();
}

// Against the other clock, which nobody sets (faults.md RU8).
void ServerProcess::WatchWallClock() {
  const Duration offset =
      (deps_.loop.WallNow() - Timestamp::FromUnix(0)) - deps_.loop.Now().since_zero();
  const std::optional<Duration> before = std::exchange(wall_offset_, offset);
  if (!before) return;
  const Duration jump = offset - *before;
  if (jump <= kWallJump && jump >= Duration() - kWallJump) return;
  Alarm("wall_clock_jump", fmt::format("the clock was moved by {} s", InSeconds(jump)));
  if (certificates_ != nullptr) certificates_->OnClockMoved();
  if (election_certificates_ != nullptr) election_certificates_->OnClockMoved();
  if (started_with_ == nullptr) return;  // There is no lease yet, and nothing that could expire.
  expiry_paused_until_ =
      deps_.loop.Now() + started_with_->config.server.leader_election.lease_timeout;
  if (leader_ != nullptr) leader_->PauseExpiry(*expiry_paused_until_);
}

metrics::Snapshot ServerProcess::Figures() const {
  metrics::Snapshot page = deps_.metrics.Take();
  FleetProbe::Declare(page);
  ObservedProvider::Declare(page);
  ObservedCall::Declare(page);
  Watches::Declare(page);
  CertificateIssuer::Declare(page);
  JournalWriter::Declare(page);
  Declare(page, Named("bad_input_total", "Input that was refused.", {"interface", "reason"}),
          Kind::kCounter);
  Declare(page, Named("limit_hits_total", "Limits that were reached.", {"limit"}), Kind::kCounter);
  Declare(page, Named("secrets_legacy_reads_total", "Secrets read in the legacy form."),
          Kind::kCounter);
  Declare(page, AlarmsTotal(), Kind::kCounter);
  Declare(page, LeaderChangesTotal(), Kind::kCounter);
  Declare(page, TakeOverSeconds(), Kind::kHistogram);
  Declare(page, LoopTurnSeconds(), Kind::kHistogram);
  metrics::Registry gauges;
  Measure(gauges);
  metrics::Merge(page, gauges.Take());
  DeclareGauges(page);
  return page;
}

void ServerProcess::Measure(metrics::Registry& gauges) const {
  const Instant now = deps_.loop.Now();
  const bool acting = leader_ != nullptr && leader_->acting();
  const Family leader = Named("leader", "Whether this server leads.", {"scope"});
  Set(gauges, leader, "shard", acting ? 1 : 0);
  Set(gauges, leader, "cluster",
      cluster_elector_ != nullptr && cluster_elector_->machine().MayStart(now, {}) ? 1 : 0);
  Set(gauges, Named("leader_epoch", "Of this leadership; 0 while standing by."),
      acting ? AsMetric(leader_->epoch()) : 0);
  const bool holds = elector_ != nullptr && elector_->machine().MayStart(now, {});
  Set(gauges, Named("lease_remaining_seconds", "Until this leader steps down unless it renews."),
      holds ? InSeconds(elector_->machine().deadline() - now) : 0);
  if (probe_ok_) {
    Set(gauges, Named("store_probe_ok", "Whether the store honours conditional writes."),
        *probe_ok_ ? 1 : 0);
  }
  Set(gauges, Named("build_info", "The version of this program.", {"version"}), Version(), 1);
  if (config_ != nullptr && config_->current() != nullptr) {
    Set(gauges, Named("config_info", "The configuration in force.", {"etag"}),
        config_->current()->etag, 1);
    Set(gauges, Named("config_pending", "Whether storage holds another configuration."),
        config_->status().pending ? 1 : 0);
  }
  if (identity_ != nullptr) {
    const Family expiry =
        Named("certificate_expiry_seconds", "Until the certificate ends.", {"kind"});
    const Timestamp wall = deps_.loop.WallNow();
    Set(gauges, expiry, "ca",
        InSeconds(identity_->authority->certificate().facts().not_after - wall));
    if (const auto ends = certificates_ == nullptr ? std::nullopt : certificates_->not_after()) {
      Set(gauges, expiry, "server", InSeconds(*ends - wall));
    }
  }
  if (leader_ != nullptr) leader_->Measure(gauges);
}

}  // namespace nstance

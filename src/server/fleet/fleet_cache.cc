#include "server/fleet/fleet_cache.h"

#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "base/json.h"
#include "core/stored_object.h"

namespace nstance {
namespace {

// A steady report is worth a row so often.
constexpr Duration kReportGap = Duration::Minutes(1);
// How long such a row may wait for others.
constexpr Duration kFlushInterval = Duration::Seconds(5);
// A disk that fails again and again does not cost the whole table each time.
constexpr Duration kRefillDelay = Duration::Seconds(10);

std::string ProviderState(const ProviderInstance& vm) {
  std::string out = "{\"status\":";
  json::AppendString(out, ProviderStatusName(vm.status));
  return out + '}';
}

std::string ReportText(const ReportFacts& facts) {
  std::string out = "{\"version\":";
  json::AppendString(out, facts.agent_version);
  AppendInteger(out, "count", facts.count);
  if (facts.agent_started_at) AppendTime(out, "agent_started_at", *facts.agent_started_at);
  out += '}';
  return out;
}

// The row of the last report; the instance remembers that it was written.
cache::HealthRow HealthRowOf(Instance& instance, Instant now) {
  const ReportFacts& facts = *instance.report;
  const bool noticed = instance.health.notice.has_value();
  instance.cached_report = CachedReport{.at = now, .noticed = noticed, .facts = facts};
  cache::HealthRow row = {.instance = instance.id,
                          .health_at = facts.at,
                          .report = ReportText(facts),
                          .config_hash = facts.config_hash,
                          .booted_at = facts.booted_at};
  if (noticed) row.terminating_at = facts.at;
  return row;
}

bool HasRow(const Instance& instance) {
  if (!instance.stored) return false;
  return instance.stored->record.phase != InstancePhase::kGone || !Planted(Plant::kOldRows);
}

cache::GroupRow GroupRowOf(const TenantId& tenant, const GroupKey& key, const MergedGroup& group) {
  return {.tenant = tenant,
          .group = key,
          .runtime_config_hash = group.runtime_hash,
          .infra_config_hash = group.infra_hash,
          .size = group.group.size(),
          .is_static = group.group.is_static};
}

}  // namespace

cache::InstanceRow InstanceRowOf(const Instance& instance) {
  const InstanceRecord& record = instance.stored->record;
  cache::InstanceRow row = {.id = instance.id,
                            .tenant = record.tenant,
                            .group = record.group,
                            .on_demand = record.on_demand,
                            .phase = std::string(PhaseName(record.phase)),
                            .provider_id = record.provider_instance_id,
                            .subnet_id = record.subnet_id,
                            .hostname = record.hostname,
                            .ip4 = record.private_ipv4,
                            .ip6 = record.private_ipv6,
                            .nonce_sha256 = record.nonce_sha256,
                            .infra_config_hash = record.infra_config_hash,
                            .registered_at = record.registered_at,
                            .cert_serial = record.cert_serial,
                            .cert_expires_at = record.cert_expires_at,
                            .record_etag = instance.stored->version.text,
                            .created_at = record.created_at,
                            .updated_at = record.last_updated};
  if (instance.vm) {
    row.provider_state = ProviderState(*instance.vm);
    row.provider_at = instance.vm_at;
  }
  if (record.drain) {
    row.drain_started_at = record.drain->started_at;
    row.drain_delete_at = record.drain->delete_at;
    row.drain_acked_at = record.drain->acked_at;
  }
  if (record.claim) row.claim_request_id = record.claim->request_id;
  if (record.phase == InstancePhase::kGone) row.deleted_at = record.phase_at;
  return row;
}

void FleetCache::Begin(Table table) {
  if (cache_ == nullptr) return;
  table_ = std::move(table);
  WriteTable();
  watch_ = cache_->Watch([this] { OnBegunAnew(); });
  load_ = cache_->Load([this](const cache::Contents& rows) { OnLoaded(rows); });
  FlushLater();
}

void FleetCache::OnBegunAnew() {
  if (std::exchange(refills_, true)) return;
  refill_ = loop_.CallAfter(kRefillDelay, [this] {
    refills_ = false;
    WriteTable();
  });
}

// The groups as they were written last: none yet at the beginning.
void FleetCache::WriteTable() {
  std::vector<cache::Change> changes;
  for (const auto& [name, group] : groups_) {
    cache::GroupRow row = GroupRowOf(name.first, name.second, *group);
    row.updated_at = loop_.WallNow();
    changes.emplace_back(std::move(row));
  }
  table_.each([&](Instance& instance) {
    if (!HasRow(instance)) return;
    changes.emplace_back(InstanceRowOf(instance));
    if (!instance.report) return;
    changes.emplace_back(HealthRowOf(instance, instance.health.reported_at.value_or(loop_.Now())));
  });
  if (!changes.empty()) cache_->Write(std::move(changes));
}

// Always on, so that no report pays for a timer.
void FleetCache::FlushLater() {
  flush_ = loop_.CallAfter(kFlushInterval, [this] {
    Flush();
    FlushLater();
  });
}

void FleetCache::OnLoaded(const cache::Contents& rows) {
  std::vector<cache::Change> changes;
  for (const cache::InstanceRow& row : rows.instances) {
    if (!table_.lives(row.id)) changes.emplace_back(cache::EraseInstance{row.id});
  }
  for (const cache::GroupRow& row : rows.groups) {
    if (!groups_.contains({row.tenant, row.group})) {
      changes.emplace_back(cache::EraseGroup{.tenant = row.tenant, .group = row.group});
    }
  }
  if (!changes.empty()) cache_->Write(std::move(changes));
}

void FleetCache::Write(const Instance& instance) {
  if (cache_ == nullptr || !HasRow(instance)) return;
  std::vector<cache::Change> changes;
  changes.emplace_back(InstanceRowOf(instance));
  cache_->Write(std::move(changes));
}

void FleetCache::Erase(const Instance& instance) {
  if (cache_ == nullptr) return;
  if (instance.row_due) std::erase(due_, &instance);
  std::vector<cache::Change> changes;
  changes.emplace_back(cache::EraseInstance{instance.id});
  cache_->Write(std::move(changes));
}

void FleetCache::WriteGroups(const GroupsRef& groups, Timestamp now) {
  if (cache_ == nullptr) return;
  std::vector<cache::Change> changes;
  std::map<GroupName, MergedGroupRef> next;
  for (const auto& [tenant, of_tenant] : groups->groups) {
    for (const auto& [key, group] : of_tenant) {
      const GroupName name = {tenant, key};
      next[name] = group;
      const auto written = groups_.find(name);
      if (written != groups_.end() && written->second == group) continue;
      cache::GroupRow row = GroupRowOf(tenant, key, *group);
      row.updated_at = now;
      changes.emplace_back(std::move(row));
    }
  }
  for (const auto& [name, group] : groups_) {
    if (next.contains(name)) continue;
    changes.emplace_back(cache::EraseGroup{.tenant = name.first, .group = name.second});
  }
  groups_ = std::move(next);
  if (!changes.empty()) cache_->Write(std::move(changes));
}

void FleetCache::Report(Instance& instance, Instant now) {
  if (cache_ == nullptr || !instance.stored) return;
  const ReportFacts& facts = *instance.report;
  const bool noticed = instance.health.notice.has_value();
  if (const auto& cached = instance.cached_report) {
    const bool same = cached->noticed == noticed &&
                      cached->facts.config_hash == facts.config_hash &&
                      cached->facts.booted_at == facts.booted_at &&
                      cached->facts.agent_version == facts.agent_version;
    if (same && now - cached->at < kReportGap) return;
    if (same) {
      if (!std::exchange(instance.row_due, true)) due_.push_back(&instance);
      return;
    }
  }
  std::vector<cache::Change> changes;
  changes.emplace_back(HealthRowOf(instance, now));
  cache_->Write(std::move(changes));
}

void FleetCache::Flush() {
  if (due_.empty()) return;
  std::vector<cache::Change> changes;
  changes.reserve(due_.size());
  for (Instance* instance : due_) {
    instance->row_due = false;
    // The minute counts from the report, not from here.
    changes.emplace_back(
        HealthRowOf(*instance, instance->health.reported_at.value_or(loop_.Now())));
  }
  due_.clear();
  cache_->Write(std::move(changes));
}

}  // namespace nstance

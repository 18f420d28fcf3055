// Instance: everything that one leadership knows about one instance. The table's entry.
//
// Three kinds of facts live side by side: what is durable (the record as the store holds it,
// intents that the journal holds), what is on its way there (intents with `durable` false), and
// what only this leadership has seen (looks, health). The planner sees all three as one view
// (server/fleet/group_view.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"
#include "core/fleet/health.h"
#include "core/fleet/look.h"
#include "core/fleet/view.h"
#include "core/instance_record.h"
#include "core/journal.h"
#include "core/object_version.h"
#include "ports/provider.h"

namespace nstance {

// The record as the store holds it.
struct StoredRecord {
  InstanceRecord record;
  ObjectVersion version;
};

struct OpenIntent {
  Intent intent;  // Its id is empty until it is durable.
  bool durable = false;
};

// What the last health report said beyond the fact that it came. Kept for people and for files.
struct ReportFacts {
  Timestamp at = {};  // By this server's clock.
  std::string agent_version = {};
  std::string config_hash = {};
  std::int64_t count = 0;
  std::optional<Timestamp> booted_at = std::nullopt;
  std::optional<Timestamp> agent_started_at = std::nullopt;
};

// The health row as the cache has it.
struct CachedReport {
  Instant at = {};
  bool noticed = false;
  ReportFacts facts = {};
};

struct Instance {
  InstanceId id;
  TenantId tenant;
  GroupKey group;
  bool on_demand = false;
  bool corrupt = false;           // There is a record that does not read.
  bool deletion_started = false;  // The brake has let it go; or the record is deleting.
  bool told_for_good = false;     // DrainView::told_for_good.
  bool revoking = false;          // The drain is closed; the record is about to say so.
  bool row_due = false;           // FleetCache: its health row waits to be written.
  bool was_ready = false;  // Healthy at some time of this leadership, or registered before it.
  fleet::HealthState health_state = fleet::HealthState::kUnknown;  // As last judged.

  std::optional<StoredRecord> stored = std::nullopt;  // Empty: only intended.

  std::optional<OpenIntent> create = std::nullopt;
  std::optional<OpenIntent> drain = std::nullopt;
  std::optional<OpenIntent> deletion = std::nullopt;

  std::string subnet = {};  // Where it is, or is to be.

  // On the monotonic clock of this process.
  Instant created_at = {};
  std::optional<Instant> vm_since = std::nullopt;
  Instant drain_deadline = {};
  Instant deletion_opened_at = {};

  fleet::LookLog looks = {};
  fleet::HealthFacts health = {};
  std::optional<ReportFacts> report = std::nullopt;
  std::optional<Instant> noticed_at = std::nullopt;  // When the termination notice came.
  std::optional<CachedReport> cached_report = std::nullopt;
  std::optional<ProviderInstance> vm = std::nullopt;  // As last found.
  Timestamp vm_at = {};                               // When.
  std::optional<fleet::OrderView> order = std::nullopt;

  [[nodiscard]] InstancePhase phase() const {
    return stored ? stored->record.phase : InstancePhase::kIntended;
  }
  [[nodiscard]] bool live() const {
    return phase() != InstancePhase::kGone && phase() != InstancePhase::kFailed;
  }
  [[nodiscard]] const InstanceRecord* record() const { return stored ? &stored->record : nullptr; }
};

}  // namespace nstance

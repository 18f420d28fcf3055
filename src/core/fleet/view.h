// GroupView: everything that the planner knows about a group at one moment.
//
// A view is a value. The server builds it from its table; tests and the simulator write it down.
// What was decided and is on its way to the store is in the view as if it were done: a create
// intent that waits for its commit is an instance in phase kIntended, a drain whose commit runs has
// `drain` set, a deletion that was begun has `started`. So planning again decides nothing twice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"
#include "core/config/config.h"
#include "core/fleet/backoff.h"
#include "core/fleet/brake.h"
#include "core/fleet/health.h"
#include "core/fleet/look.h"
#include "core/fleet/subnet.h"
#include "core/fleet/times.h"
#include "core/fleet/words.h"
#include "core/instance_phase.h"

namespace nstance::fleet {

// Who cares for an instance. Only managed ones are counted, replaced, rotated and scaled down.
enum class Care : std::uint8_t { kManaged, kOnDemand, kClaimed };

struct DrainView {
  Reason reason = Reason::kUnhealthy;
  Instant deadline = {};   // fleet::DeadlineOf the intent.
  std::int64_t epoch = 0;  // In which it was opened.
  bool acked = false;
  // A watcher that does not understand `drain_cancelled` was told of this drain (wire.md 7.7).
  bool told_for_good = false;
  // Its intent or its acknowledgement is being written: whether and when it is revoked is open.
  bool unsettled = false;
  friend bool operator==(const DrainView&, const DrainView&) = default;
};

// An open delete intent, or a record in phase deleting.
struct DeletionView {
  Reason reason = Reason::kRequested;
  Instant opened_at = {};
  bool ordered = false;
  bool counted = false;
  // The record is deleting, or that write is on its way: the instance is no member any more. Else
  // the deletion waits for the brake, and the instance still counts.
  bool started = false;
  std::string trouble = {};  // Why it does not get on: the provider's last error. Empty: none.
  friend bool operator==(const DeletionView&, const DeletionView&) = default;
};

// DeleteInstance, ReleaseInstance or AcknowledgeDrained asked for it and no intent is open yet.
struct OrderView {
  Reason reason = Reason::kRequested;
  Duration drain = {};  // Zero: delete at once. REQUIRES, if not: the instance is registered.
  friend bool operator==(const OrderView&, const OrderView&) = default;
};

struct InstanceView {
  InstanceId id;
  Care care = Care::kManaged;
  InstancePhase phase = InstancePhase::kIntended;  // kIntended to kDeleting; others are left out.
  Instant created_at = {};
  // Since when the VM is known to exist: provider id written, else registration. Empty: not yet.
  std::optional<Instant> vm_since = std::nullopt;
  std::string infra_hash = {};  // Empty: not known, which is no drift.
  std::optional<InstanceId> replaces = std::nullopt;
  bool blocked = false;  // identity-blocked (security.md N3).
  // record-corrupt: known only from the provider's listing. Never touched.
  bool corrupt = false;
  LookLog looks = {};
  HealthFacts health = {};  // Of registered ones.
  std::optional<DrainView> drain = std::nullopt;
  std::optional<DeletionView> deletion = std::nullopt;
  std::optional<OrderView> order = std::nullopt;
};

struct GroupSpec {
  int size = 0;
  int surge = 1;
  Duration drain_timeout = {};          // Effective; zero: delete without coordination.
  config::Expiry expiry = {};           // Effective.
  std::string infra_hash = {};          // Empty: not known, nothing drifts.
  std::vector<InstanceId> remove = {};  // Victims by name.
  bool size_ordered = false;            // The size in force comes from the dynamic layer.
  bool pool = false;                    // A warm pool: makes no instances for now.
};

// What, above the ordinary rules, holds the whole group back.
enum class Restraint : std::uint8_t {
  kNone,
  // A cached configuration or groups object is in force: members are healed, but nothing is scaled
  // down, rotated, expired or treated as removed.
  kConfigInvalid,
  // The tenant is not defined: nothing happens at all.
  kTenantUndefined,
};

// The group is no longer defined: its managed members go.
struct GroupRemoval {
  bool ordered = false;  // By DeleteGroup; else by an edit of the configuration.
};

struct CreationState {
  CreationBackoff backoff = {};
  // Create intents that this group may open now (creation_order.h, room in the journal), and which
  // hold it is when that is not enough.
  int places = 0;
  HoldCode short_of_places = HoldCode::kCreateConcurrency;
  std::optional<Instant> places_at = std::nullopt;  // When time alone brings more.
  // Nothing can be made: an input is missing (kImageUnresolved, kUserdataUnavailable, ...).
  struct Block {
    HoldCode code = HoldCode::kImageUnresolved;
    std::string detail = {};
    std::optional<Instant> until = std::nullopt;
  };
  std::optional<Block> block = std::nullopt;
};

struct LeadershipView {
  std::int64_t epoch = 0;
  Instant began_at = {};
  // From here silence counts: began_at, or the end of a pause of this process if later.
  Instant counting_since = {};
  // Wall time jumped: nothing expires before this moment (RU8).
  std::optional<Instant> expiry_paused_until = std::nullopt;
  // One complete listing of the provider has succeeded. Before it nothing is deleted.
  bool provider_listed = true;
};

// Of the whole tenant in this shard: for groups that are too small to judge by themselves.
struct TenantHealthView {
  SilenceJudgement silence = {};
  std::optional<Instant> last_report = std::nullopt;  // See JudgeSilence().
};

struct GroupView {
  TenantId tenant;
  GroupKey group;
  GroupSpec spec = {};
  std::optional<GroupRemoval> removal = std::nullopt;
  Restraint restraint = Restraint::kNone;
  std::string restraint_detail = {};
  std::vector<InstanceView> instances = {};  // In any order.
  std::vector<SubnetView> subnets = {};
  CreationState creation = {};
  BrakeBudget brake = {};
  LeadershipView leadership = {};
  TenantHealthView tenant_health = {};
  FleetTimes times = {};
};

}  // namespace nstance::fleet

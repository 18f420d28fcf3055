// Fleet: the instances of a shard under one leadership. It owns the table, plans dirty groups
// (core/fleet/planner.h), and carries plans out: intents into the journal, records, provider calls.
//
// The owner makes one when the journal has been taken over, loads it, and destroys it when
// leadership ends; nothing survives that is not in the journal, the records or at the provider.
//
//   Fleet fleet(deps, options, owner);
//   fleet.Load(done);              // Records, intents and the provider's listing become the table.
//   fleet.SetGroups(groups);       // Plans begin; again after every change of groups or config.
//   fleet.Report(id, report);      // An agent's words ...
//   fleet.Delete(order, done);     // ... and an operator's.
//
// The path of every change is the same: an event changes the table and marks groups dirty; dirty
// groups are planned, one after the other, in turns of the loop; actions become intents, all of one
// turn in one journal write; durable intents are carried out step by step (creation_run.h,
// deletion_run.h), and each step's answer is the next event. After a change of leaders Load() marks
// everything dirty, and the same steps go on where the records say they stopped.
//
// Guarantees, each held by a test:
//   - no provider call that changes something without a durable intent of this epoch's journal
//     (I-19)
//   - an order is answered after its intent is durable, a record's edit after the store has it
//     (RU11)
//   - events are told after what they tell of is durable
//   - no effect starts unless the leadership says that it may (RU4)
//   - destroying the fleet leaves no timer and no callback
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/name.h"
#include "base/prng.h"
#include "base/puidv7.h"
#include "base/result.h"
#include "core/fleet/plan.h"
#include "core/fleet/times.h"
#include "core/instance_config/merge.h"
#include "core/instance_config/template_data.h"
#include "crypto/ed25519.h"
#include "ports/api/agent.h"
#include "ports/api/instances.h"
#include "ports/cache.h"
#include "ports/http.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/provider.h"
#include "ports/secure_random.h"
#include "server/fleet/alarm.h"
#include "server/fleet/event_log.h"
#include "server/fleet/instance.h"
#include "server/fleet/record_store.h"
#include "server/fleet/step_budget.h"
#include "server/groups_snapshot.h"
#include "server/type_archs.h"
#include "storage/journal_writer.h"
#include "storage/leader_scope.h"

namespace nstance {

struct FleetDeps {
  Loop& loop;
  ObjectStore& store;
  Provider& provider;
  HttpClient& http;  // User data behind URLs.
  JournalWriter& journal;
  SecureRandom& random;
  Prng& jitter;
  metrics::Registry& metrics;
  log::Logger log;
  LeaderScope& leader;
  // The cache on this machine's disk; null: none is kept.
  Cache* rows = nullptr;
  // A clock that goes on inside a turn, for what plans cost; empty: the loop's.
  std::function<Instant()> stopwatch = {};
  // What is known of instance types; null: nothing.
  TypeArchs* types = nullptr;
};

struct FleetOptions {
  ClusterId cluster;
  ShardId shard;
  // What templates see of the server: addresses, CA.
  ServerFacts server = {};
  std::shared_ptr<const crypto::PrivateKey> token_key = {};
  fleet::FleetTimes times = {};  // Of faults.md 1; intervals of the configuration are filled in.
  Duration send_timeout = Duration::Seconds(2);
  Duration request_timeout = Duration::Seconds(30);  // Until groups are set.
  // How much one turn of the loop may plan (step_budget.h).
  std::size_t steps_per_turn = StepBudget::kPerTurn;
};

// What the owner is told, always after the fact is durable; none of them may destroy the fleet.
struct FleetOwner {
  std::move_only_function<void(const api::InstanceEvent&)> instance_event =
      [](const api::InstanceEvent&) {};
  // Some field of the group's status may have changed.
  std::move_only_function<void(const TenantId&, const GroupKey&)> group_changed =
      [](const TenantId&, const GroupKey&) {};
  std::move_only_function<void(const TenantId&, api::ErrorEvent)> error_event =
      [](const TenantId&, const api::ErrorEvent&) {};
  // Everything that people may want to know of, in the order in which it happened.
  std::move_only_function<void(const TenantId&, const EventRef&)> event = [](const TenantId&,
                                                                             const EventRef&) {};
  // `alarms_total{alarm}` and a log line. The tenant, if there is one, has been told.
  std::move_only_function<void(std::string_view alarm, const std::string& detail)> alarm =
      [](std::string_view, const std::string&) {};
  // The identity is refused from now on: its connections are to be closed (RV1).
  std::move_only_function<void(const InstanceId&, const Error& why)> identity_ended =
      [](const InstanceId&, const Error&) {};
  // Whether every client that watches the tenant's instances understands `drain_cancelled`.
  std::function<bool(const TenantId&)> may_revoke_drains = [](const TenantId&) { return true; };
};

struct OnDemandRequest {
  TenantId tenant;
  GroupKey group;
  std::optional<InstanceId> instance_id = std::nullopt;  // Empty: made here.
  std::string request_id = {};
  InstanceOverlay overlay = {};
};

struct DeleteOrder {
  TenantId tenant;
  InstanceId instance_id;
  bool drain = false;
  std::optional<Duration> drain_timeout = std::nullopt;
};

struct DrainAck {
  TenantId tenant;
  InstanceId instance_id;
  std::string drain_id = {};
};

// Of GroupStatus (wire.md 5 and 7.5).
struct GroupFigures {
  int actual_size = 0;
  int draining = 0;
  int creating = 0;
  int ready = 0;
  std::vector<std::string> provider_ids = {};  // Sorted.
  std::vector<std::string> instance_ids = {};  // Sorted.
  friend bool operator==(const GroupFigures&, const GroupFigures&) = default;
};

class Fleet final {
 public:
  class Engine;  // engine.h: for the files of this folder.

  Fleet(const FleetDeps& deps, FleetOptions options, FleetOwner owner);
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;
  ~Fleet();

  // Reads all records (32 at a time) and lists the provider. An error of the store ends it (the
  // caller tries again with a new fleet); a provider that cannot be listed does not: then nothing
  // is deleted until one listing has succeeded. A record of a higher epoch: step_down.
  using Loaded = std::move_only_function<void(Status)>;
  void Load(Loaded done);
  // What templates see of the server from now on. REQUIRES: before the first SetGroups().
  void SetServer(ServerFacts facts);
  // The groups in force. The first call builds the table (server.md 3), and plans begin.
  // REQUIRES: Load() has succeeded.
  void SetGroups(GroupsRef groups);
  // Nothing is replaced or deleted for its age before that (faults.md RU8).
  void PauseExpiry(Instant until);

  // To the owner, and to the tenant that it concerns: also for what others have found.
  void Raise(const Alarm& alarm);

  // --- Reading -----------------------------------------------------------------------------------

  // Null: no such instance. Tombstones are found until they are removed.
  [[nodiscard]] const Instance* Find(const InstanceId& id) const;
  // The same, and of this tenant.
  [[nodiscard]] const Instance* Find(const TenantId& tenant, const InstanceId& id) const;
  // Of the tenant, by id; tombstones included.
  [[nodiscard]] std::vector<const Instance*> OfTenant(const TenantId& tenant) const;
  // Whose registered key it is, by the hex SHA-256 of its SPKI. Null: nobody's here.
  [[nodiscard]] const Instance* FindByKey(std::string_view spki_sha256) const;
  [[nodiscard]] GroupFigures Figures(const TenantId& tenant, const GroupKey& group) const;
  // As last planned; null before.
  [[nodiscard]] const fleet::Plan* LastPlan(const TenantId& tenant, const GroupKey& group) const;
  [[nodiscard]] const GroupsRef& groups() const;
  [[nodiscard]] bool provider_listed() const;
  // Gauges of this moment: sizes, phases, holds, brakes, the journal, the sweep.
  void Measure(metrics::Registry& gauges) const;
  // "pending", "running", ... (wire.md 5.2).
  [[nodiscard]] std::string_view StatusWord(const Instance& instance) const;
  [[nodiscard]] bool Drifted(const Instance& instance) const;
  // kUnknown before registration.
  [[nodiscard]] fleet::HealthState Health(const Instance& instance) const;

  // --- Explaining --------------------------------------------------------------------------------

  // What the planner would do now: the very function that decides, on the very view that it would
  // see, and nothing is changed. With other groups than those in force (of the same configuration):
  // what it would do if they were.
  [[nodiscard]] fleet::Plan Preview(const TenantId& tenant, const GroupKey& group) const;
  [[nodiscard]] fleet::Plan Preview(const TenantId& tenant, const GroupKey& group,
                                    const GroupsSnapshot& groups) const;
  // One or two sentences for people. The plan: a preview, for an instance narrowed to it.
  [[nodiscard]] std::string Summary(const Instance& instance, const fleet::Plan& plan) const;
  [[nodiscard]] std::string Summary(const TenantId& tenant, const GroupKey& group,
                                    const fleet::Plan& plan) const;
  // The group is defined, or has instances that are not gone.
  [[nodiscard]] bool Knows(const TenantId& tenant, const GroupKey& group) const;
  [[nodiscard]] std::vector<GroupKey> GroupsOf(const TenantId& tenant) const;
  // What happened to them in this leadership, and in the whole tenant; null: nothing is known.
  [[nodiscard]] const EventRing* History(const InstanceId& id) const;
  [[nodiscard]] const EventRing* History(const TenantId& tenant, const GroupKey& group) const;
  [[nodiscard]] const EventRing* Events(const TenantId& tenant) const;
  [[nodiscard]] const EventLog::Totals& event_totals() const;
  // Instances of the table, tombstones included: what one plan costs at most.
  [[nodiscard]] std::size_t size() const;
  // For whoever plans in turns of his own.
  [[nodiscard]] std::size_t steps_per_turn() const;
  // Everything that was planned, previews included.
  [[nodiscard]] const PlannerWork& planned() const;

  // --- Agents ------------------------------------------------------------------------------------

  // The health stream, of which an instance has at most one.
  void StreamOpened(const InstanceId& id);
  void StreamEnded(const InstanceId& id);
  // REQUIRES: the report is of this instance.
  void Report(const InstanceId& id, const api::HealthReportRequest& report);

  // --- Records -----------------------------------------------------------------------------------

  // Changes the record by compare-and-swap: registration, renewal, blocking. `edit` sees the record
  // as the store has it and may run several times; its error is the answer, and nothing is written.
  // kAborted: five times somebody else wrote first. kNotFound: no record yet, or none any more.
  void EditRecord(const InstanceId& id, RecordStore::Edit edit, RecordStore::Done done,
                  Step step = Step::kNone);

  // --- Orders ------------------------------------------------------------------------------------

  // All three may answer from inside the call.
  //
  // Answered when intent and record are durable: the instance, or the one that the same
  // request_id or instance_id has made before. Errors as wire.md 5.1.
  using CreateDone = std::move_only_function<void(Result<api::CreateInstanceResponse>)>;
  void CreateOnDemand(OnDemandRequest request, CreateDone done);
  // "deleting", "draining", "deleted" or "unknown".
  void Delete(DeleteOrder order, std::move_only_function<void(Result<std::string>)> done);
  void Acknowledge(const DrainAck& ack, std::move_only_function<void(Status)> done);

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace nstance

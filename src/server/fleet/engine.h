// Fleet::Engine: the fleet's table and everything that works on it. Only the files of this folder
// include it; `fleet.h` is the face.
//
//   load.cc           records, journal and listing become the table
//   group_view.cc     the table as the planner sees it
//   plan_turn.cc      dirty groups, plans, timers
//   apply_plan.cc     actions become intents
//   creation_run.*    a creation, step by step        (creation_machine.h)
//   deletion_run.*    a deletion, step by step        (deletion_machine.h)
//   drains.cc         drains, acknowledgements, revocations
//   looks.cc          looks at single VMs, and the provider's own news
//   sweep.cc          listings: orphans, late creations, retention
//   health_intake.cc  reports and streams of agents
//   orders.cc         what operators ask for
//   history.cc        events, previews, stories for people
//   measure.cc        gauges
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/fleet/backoff.h"
#include "core/fleet/brake.h"
#include "core/fleet/creation_order.h"
#include "core/fleet/explain.h"
#include "core/fleet/plan.h"
#include "core/fleet/sweep.h"
#include "core/fleet/table_build.h"
#include "core/fleet/view.h"
#include "core/instance_config/template_data.h"
#include "core/instance_config/user_data_cache.h"
#include "server/fleet/census.h"
#include "server/fleet/creation_request.h"
#include "server/fleet/creation_run.h"
#include "server/fleet/deletion_run.h"
#include "server/fleet/event_log.h"
#include "server/fleet/fleet.h"
#include "server/fleet/fleet_cache.h"
#include "server/fleet/fleet_probe.h"
#include "server/fleet/instance.h"
#include "server/fleet/provider_listing.h"
#include "server/fleet/record_reader.h"
#include "server/fleet/record_store.h"
#include "server/fleet/subnet_watch.h"

namespace nstance {

class Fleet::Engine final {
 public:
  using GroupName = fleet::GroupName;
  using OrderDone = std::move_only_function<void(Result<std::string>)>;

  // One row of the table, with what is under way for it.
  struct Entry {
    Instance instance;
    std::unique_ptr<CreationRun> creation = nullptr;
    std::unique_ptr<DeletionRun> deletion = nullptr;
    Pending look = {};
    // Orders whose intent is on its way: answered when it is durable.
    std::vector<OrderDone> waiters = {};
    // Acknowledgements of its drain, the first of which is on its way to the journal.
    std::vector<std::move_only_function<void(Status)>> ackers = {};
    // Calls of CreateInstance: answered when the record is durable. What they asked for is known
    // to the leader that was asked, and compared when a request id comes again.
    std::vector<CreateDone> creators = {};
    std::optional<InstanceOverlay> overlay = std::nullopt;
    // A VM that outlived its tombstone: first seen when.
    std::optional<Instant> late_since = std::nullopt;
    metrics::Counter* reports = nullptr;  // Looked up with the first report.
    EventRing history = EventRing();
  };

  // Why an instance had to be replaced, and since when that could be known.
  struct Evidence {
    std::string_view reason = {};
    Instant at = {};
  };

  // What a plan needs to know of a group beside its definition and its instances.
  struct GroupMemory {
    fleet::CreationBackoff backoff = {};
    bool removal_ordered = false;

    // The group changed; null: it is not defined.
    void OnChange(const MergedGroup* before, const MergedGroup* after);
  };

  struct GroupState {
    GroupMemory memory = {};
    fleet::Plan plan = {};
    bool planned = false;
    std::optional<Instant> replan_at = std::nullopt;
    GroupFigures told = {};
    EventRing history = EventRing();
  };

  Engine(FleetDeps deps, FleetOptions options, FleetOwner owner);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // --- load.cc
  void Load(Loaded done);
  void SetServer(ServerFacts facts) { options_.server = std::move(facts); }
  // --- plan_turn.cc
  void SetGroups(GroupsRef groups);
  void PauseExpiry(Instant until);
  // To be called after every change of an entry: it is counted anew, and its group is planned.
  void MarkDirty(const Entry& entry);
  void MarkDirty(const GroupName& group);
  // --- table.cc
  [[nodiscard]] Entry* Find(const InstanceId& id);
  [[nodiscard]] const Entry* Find(const InstanceId& id) const;
  [[nodiscard]] std::vector<const Instance*> OfTenant(const TenantId& tenant) const;
  [[nodiscard]] const Instance* FindByKey(std::string_view spki_sha256) const;
  [[nodiscard]] GroupFigures Figures(const GroupName& group) const;
  // The same, into what may have been used before; texts come from, and go to, `spare`.
  void FillFigures(const GroupName& group, GroupFigures& out,
                   std::vector<std::string>& spare) const;
  [[nodiscard]] const fleet::Plan* LastPlan(const GroupName& group) const;
  [[nodiscard]] std::string_view StatusWord(const Instance& instance) const;
  [[nodiscard]] bool Drifted(const Instance& instance) const;
  [[nodiscard]] fleet::HealthJudgement HealthOf(const Instance& instance) const;
  Entry& Insert(Instance instance);
  void Erase(const InstanceId& id);
  // --- history.cc
  [[nodiscard]] fleet::Plan Preview(const GroupName& group, const GroupsSnapshot& groups) const;
  [[nodiscard]] bool Knows(const GroupName& group) const;
  [[nodiscard]] std::vector<GroupKey> GroupsOf(const TenantId& tenant) const;
  [[nodiscard]] const EventRing* History(const GroupName& group) const;
  [[nodiscard]] const EventLog& events() const { return events_; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] const PlannerWork& planned() const { return planned_; }
  [[nodiscard]] fleet::InstanceStory StoryOf(const Instance& instance) const;
  [[nodiscard]] fleet::GroupStory StoryOf(const GroupName& name) const;
  // The create intent is durable.
  void NoteIntended(Entry& entry);
  // Log, counter and, for a tenant, an error and an event.
  void Raise(const Alarm& alarm);
  // --- measure.cc
  void Measure(metrics::Registry& gauges) const;
  // --- health_intake.cc
  void StreamOpened(const InstanceId& id);
  void StreamEnded(const InstanceId& id);
  void Report(const InstanceId& id, const api::HealthReportRequest& report);
  // --- orders.cc
  void CreateOnDemand(OnDemandRequest request, CreateDone done);
  // Whether the request was made before; then it is answered, now or with the one before.
  [[nodiscard]] bool RepeatsOnDemand(const OnDemandRequest& request, CreateDone& done);
  void OpenOnDemand(OnDemandRequest request, MergedInstanceConfig config, CreateDone done);
  void AnswerCreators(Entry& entry, const Status& recorded);
  void Delete(DeleteOrder order, OrderDone done);
  void Acknowledge(const DrainAck& ack, std::move_only_function<void(Status)> done);
  // What the planner held although it was asked for: the callers are told.
  void RefuseHeldOrders(const GroupName& group, const fleet::Plan& plan);
  void AnswerWaiters(Entry& entry, const Result<std::string>& answer);
  // --- drains.cc
  void BeginDrain(Entry& entry, const fleet::Action& action);
  void WriteDrain(Entry& entry);
  void WriteAck(Entry& entry);
  void Revoke(Entry& entry);
  void CountDrain(const Instance& instance);
  // --- apply_plan.cc
  void Apply(const GroupName& group, const fleet::Plan& plan);
  void OpenCreation(const GroupName& group, const fleet::Action& action);
  // Empty: nothing is wrong with it.
  [[nodiscard]] std::optional<Evidence> EvidenceOf(const Instance& instance) const;
  void BeginDeletion(Entry& entry, const fleet::Action& action, Brake brake);
  void StartCreation(Entry& entry);
  void StartDeletion(Entry& entry);
  // --- from the runs
  void CreationFinished(const InstanceId& id, CreationMachine::Result result);
  void DeletionFinished(const InstanceId& id);
  void CreationFailed(Entry& entry, fleet::FailureClass failure, const Error& error);
  void CreationTroubled(Entry& entry, const ProviderError& error);
  // --- looks.cc
  void Look(Entry& entry);
  void OnProviderNews(const ProviderInstance& vm);
  void Found(Entry& entry, const ProviderInstance& vm);
  // --- sweep.cc
  void ScheduleSweep(Duration after);
  void Sweep();

  // --- for the runs
  [[nodiscard]] Loop& loop() { return deps_.loop; }
  [[nodiscard]] Provider& provider() { return deps_.provider; }
  [[nodiscard]] HttpClient& http() { return deps_.http; }
  [[nodiscard]] TypeArchs* types() { return deps_.types; }
  [[nodiscard]] SecureRandom& random() { return deps_.random; }
  [[nodiscard]] Prng& jitter() { return deps_.jitter; }
  [[nodiscard]] RecordStore& records() { return records_; }
  [[nodiscard]] UserDataCache& user_data() { return user_data_; }
  [[nodiscard]] const FleetOptions& options() const { return options_; }
  [[nodiscard]] const GroupsRef& groups() const { return groups_; }
  [[nodiscard]] bool provider_listed() const { return provider_listed_; }
  [[nodiscard]] const fleet::FleetTimes& times() const { return times_; }
  [[nodiscard]] bool MayStart(Duration bound) const { return deps_.leader.may_start(bound); }
  // A call for this entry's tenant, or the server's own work (empty).
  [[nodiscard]] ProviderCall CallFor(std::optional<TenantId> tenant, Duration limit) const;
  [[nodiscard]] Duration request_timeout() const { return request_timeout_; }
  [[nodiscard]] Duration create_time() const;
  [[nodiscard]] const SharedTemplateData& shared_data() const { return *shared_data_; }
  [[nodiscard]] TokenPlace token_place() const {
    return {.cluster = options_.cluster, .shard = options_.shard};
  }
  [[nodiscard]] NewInstanceTerms Terms(std::span<const std::uint8_t> token_id) const;
  // For what is stored as wall time and read by the next leader (RU8).
  [[nodiscard]] fleet::ClockReading Clock() const {
    return {.mono = deps_.loop.Now(),
            .wall = fleet::CorrectedNow(deps_.loop.WallNow(), deps_.leader.store_now())};
  }
  // In a later turn.
  void StepDown(const Error& why) { deps_.leader.step_down(why); }
  void PickCreationsSoon();
  void TellError(Entry& entry, const std::string& text);
  void TellDeleted(const Instance& instance);
  [[nodiscard]] const log::Logger& log() const { return deps_.log; }

 private:
  // --- load.cc
  void OnRecordsRead(Result<std::vector<ReadRecord>> records);
  void OnFirstListing(ProviderResult<std::vector<ProviderInstance>> listing);
  using FoundVms = std::map<InstanceId, const ProviderInstance*>;
  void BuildTable();
  void InsertRecords(const FoundVms& found);
  [[nodiscard]] Instance FromRecord(const ReadRecord& read) const;
  void ApplyRow(const InstanceId& id, const fleet::TableRow& row);
  void AttachIntents();
  void ReopenCreation(Entry& entry);
  void ReopenDrain(Entry& entry);
  void ReopenDeletion(Entry& entry);
  void RebuildBrakes();
  // --- table.cc
  void OnRecordChanged(const StoredRecord& stored);
  void IndexKey(const Instance& instance);
  void TakeCensus();
  // --- group_view.cc
  [[nodiscard]] fleet::GroupView ViewOf(const GroupName& group) const {
    return ViewOf(group, *groups_);
  }
  // As it would be if `groups`, of the same configuration, were in force.
  [[nodiscard]] fleet::GroupView ViewOf(const GroupName& group, const GroupsSnapshot& groups) const;
  // Puts the group into a view that may have been used before: what it holds is overwritten, so
  // that planning a group again allocates next to nothing (LB12). Returns how many of
  // view.instances are in use.
  [[nodiscard]] std::size_t FillView(const GroupName& group, const GroupsSnapshot& groups,
                                     fleet::GroupView& view) const;
  void FillView(const Instance& instance, fleet::InstanceView& view) const;
  [[nodiscard]] bool IsBeingAcked(const Instance& instance) const;
  // The view that plans are made from, filled for this group.
  [[nodiscard]] const fleet::GroupView& ScratchView(const GroupName& group);
  [[nodiscard]] GroupMemory MemoryUnder(const GroupName& group, const GroupsSnapshot& groups) const;
  void FillSpec(const GroupName& name, const GroupsSnapshot& groups, fleet::GroupView& view) const;
  void FillCreation(const GroupName& name, const GroupsSnapshot& groups,
                    fleet::GroupView& view) const;
  void FillSubnets(const std::vector<std::string>& subnets, fleet::GroupView& view) const;
  // The provider is asked about those that nobody has asked about.
  void AskAboutSubnets(const fleet::GroupView& view);
  [[nodiscard]] fleet::TenantHealthView TenantHealth(const TenantId& tenant) const;
  // A member as ready as it gets for the first time is counted once.
  void NoteReady(Instance& instance);
  [[nodiscard]] int SharePlaces(const GroupName& group) const;
  [[nodiscard]] fleet::TenantBrake& BrakeOf(const TenantId& tenant);
  [[nodiscard]] fleet::BrakeBudget BudgetFor(const TenantId& tenant) const;
  // --- plan_turn.cc
  void TakeGroups(const GroupsRef& before);
  void Schedule();
  void PlanSome();
  void PlanOne(const GroupName& group);
  [[nodiscard]] std::size_t StepsOf(const GroupName& group) const;
  void AskForRoom(const fleet::GroupView& view, const fleet::Plan& plan);
  void ArmReplan();
  void TellGroup(const GroupName& group);
  void PickCreations();
  // --- history.cc
  EventRef Note(const GroupName& group, Entry* entry, api::Event event);
  void NoteLeadership();
  void NoteGroup(const GroupName& name, const MergedGroup* before, const MergedGroup* after);
  void NotePhase(Entry& entry, InstancePhase before);
  void NoteError(Entry& entry, const std::string& text);
  void NoteHolds(const GroupName& group, const std::vector<fleet::Hold>& before,
                 const std::vector<fleet::Hold>& after);
  [[nodiscard]] std::optional<fleet::InstanceStory::Other> OtherOf(const InstanceId& id) const;
  // --- apply_plan.cc
  void SubmitIntent(Entry& entry, std::optional<OpenIntent> Instance::* which, JournalChange change,
                    std::move_only_function<void(Entry&)> durable);
  // --- looks.cc
  void RunLooks();
  void LookSingly(Entry& entry);
  void OnLook(const InstanceId& id, const ProviderResult<ProviderInstance>& answer);
  // --- sweep.cc
  void OnListing(ProviderResult<std::vector<ProviderInstance>> listing, Instant begun_at);
  void TakeListing(const std::vector<ProviderInstance>& listing, Instant begun_at);
  void JudgeUnknown(const std::vector<const ProviderInstance*>& unknown, Instant begun_at);
  void CompleteRecord(const Entry& entry, const ProviderInstance& vm,
                      const std::vector<ProviderInstance>& listing);
  void DeleteLate(Entry& entry, const ProviderInstance& vm, Instant begun_at);
  void DeleteDuplicate(const Entry& entry, const ProviderInstance& vm, Instant begun_at);
  void DeleteOrphan(const fleet::OrphanFinding& orphan);
  void RemoveOldRecords();
  [[nodiscard]] bool IsExpected(const Instance& instance) const;
  [[nodiscard]] std::size_t ExpectedVms() const;
  [[nodiscard]] Duration SweepRetry() const;
  void LookAtEach(Instant begun_at);
  void AnsweredByName(const Instance& instance);
  void ListedByName();
  [[nodiscard]] Instant Stopwatch() const {
    return deps_.stopwatch ? deps_.stopwatch() : deps_.loop.Now();
  }

  FleetDeps deps_;
  FleetOptions options_;
  FleetOwner owner_;
  Instant began_at_;
  fleet::FleetTimes times_;
  Duration request_timeout_;
  Duration gc_interval_ = Duration::Minutes(2);
  Duration orphan_grace_ = Duration::Minutes(10);
  Duration retention_ = Duration::Hours(25);
  fleet::CreationPace pace_;
  config::DeletionBrake brake_limits_;
  GroupsRef groups_;
  config::StringMap images_;
  std::optional<SharedTemplateData> shared_data_;
  UserDataCache user_data_;
  Puidv7Generator ids_;

  EventLog events_;
  FleetProbe probe_;
  FleetCache rows_;
  SubnetWatch subnets_;
  RecordStore records_;
  std::map<InstanceId, std::unique_ptr<Entry>> entries_;
  std::map<TenantId, std::set<InstanceId>> by_tenant_;
  std::map<GroupName, std::set<InstanceId>> by_group_;
  std::map<std::string, InstanceId, std::less<>> by_key_;
  Census census_;
  std::map<GroupName, GroupState> group_states_;
  std::map<TenantId, fleet::TenantBrake> brakes_;
  fleet::CreationTurns turns_;
  fleet::OrphanWatch orphans_;
  // VMs of instances whose records name another VM, by provider id.
  struct Duplicate {
    Instant since = {};
    Pending call = {};
  };
  std::map<std::string, Duplicate> duplicates_;

  // Filled again and again: see FillView().
  std::optional<fleet::GroupView> scratch_ = std::nullopt;
  std::vector<fleet::InstanceView> spare_views_;
  GroupFigures figures_;
  std::vector<std::string> spare_texts_;
  std::optional<Instant> replan_armed_ = std::nullopt;

  std::set<GroupName> dirty_;
  std::set<InstanceId> looks_due_;
  bool plan_scheduled_ = false;
  mutable PlannerWork planned_;  // Previews are work too.
  std::optional<Instant> expiry_paused_until_ = std::nullopt;
  bool provider_listed_ = false;
  // Until then: those that an empty listing lacked and that nobody has found by name yet.
  std::set<InstanceId> unlisted_;
  std::optional<Instant> swept_at_ = std::nullopt;  // The last listing that was used.
  std::size_t orphans_seen_ = 0;                    // In it.

  // Of Load().
  Loaded loaded_;
  std::unique_ptr<RecordReader> reader_;
  std::optional<std::vector<ReadRecord>> read_;
  std::optional<ProviderResult<std::vector<ProviderInstance>>> first_listing_;

  std::unique_ptr<ProviderListing> listing_;
  Pending plan_turn_;
  Pending replan_;
  Pending pick_turn_;
  Pending pick_timer_;
  Pending look_turn_;
  Pending sweep_timer_;
  Pending watch_;
  std::vector<Pending> removals_;
};

}  // namespace nstance

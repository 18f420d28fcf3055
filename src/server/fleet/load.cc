#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/fault_point.h"
#include "server/fleet/engine.h"

namespace nstance {

Fleet::Engine::Engine(FleetDeps deps, FleetOptions options, FleetOwner owner)
    : deps_(deps),
      options_(std::move(options)),
      owner_(std::move(owner)),
      began_at_(deps.loop.Now()),
      times_(options_.times),
      request_timeout_(options_.request_timeout),
      probe_(deps.metrics),
      rows_(deps.loop, deps.rows),
      subnets_(
          deps.loop, deps.provider, [this] { return CallFor(std::nullopt, request_timeout_); },
          [this] {
            for (const auto& [group, state] : group_states_) MarkDirty(group);
          }),
      records_({.loop = deps.loop,
                .store = deps.store,
                .random = deps.random,
                .jitter = deps.jitter,
                .leader = deps.leader},
               {.shard = options_.shard},
               [this](const StoredRecord& stored) { OnRecordChanged(stored); }) {}

Fleet::Engine::~Engine() = default;

// --- Reading -------------------------------------------------------------------------------------

void Fleet::Engine::Load(Loaded done) {
  loaded_ = std::move(done);
  reader_ = std::make_unique<RecordReader>(
      deps_.loop, deps_.store, options_.shard,
      [this](Result<std::vector<ReadRecord>> records) { OnRecordsRead(std::move(records)); });
  reader_->Start();
  listing_ = std::make_unique<ProviderListing>(
      deps_.provider, [this] { return CallFor(std::nullopt, request_timeout_); },
      [this](ProviderResult<std::vector<ProviderInstance>> listing) {
        OnFirstListing(std::move(listing));
      });
  AtStep(Step::kL5);
  listing_->Start();
}

void Fleet::Engine::OnRecordsRead(Result<std::vector<ReadRecord>> records) {
  if (!records.has_value()) return std::exchange(loaded_, nullptr)(Fail(records.error()));
  for (const ReadRecord& read : *records) {
    if (!read.stored.has_value() || read.stored->record.epoch <= deps_.leader.epoch) continue;
    const Error why = Aborted(fmt::format("the record of {} carries epoch {}, ours is {}",
                                          read.key.instance_id.text(), read.stored->record.epoch,
                                          deps_.leader.epoch));
    deps_.leader.step_down(why);
    return std::exchange(loaded_, nullptr)(Fail(why));
  }
  for (const std::string& stranger : reader_->strangers()) {
    deps_.log.Warning("an object among the records is none", {{"key", stranger}});
  }
  read_ = std::move(records).value();
  if (first_listing_ && loaded_) std::exchange(loaded_, nullptr)({});
}

void Fleet::Engine::OnFirstListing(ProviderResult<std::vector<ProviderInstance>> listing) {
  if (!listing.has_value()) {
    deps_.log.Warning("the provider could not be listed: nothing is deleted until it can",
                      {{"error", listing.error().error}});
  }
  first_listing_ = std::move(listing);
  if (read_ && loaded_) std::exchange(loaded_, nullptr)({});
}

// --- The table -----------------------------------------------------------------------------------

Instance Fleet::Engine::FromRecord(const ReadRecord& read) const {
  const StoredRecord& stored = *read.stored;
  const InstanceRecord& record = stored.record;
  const fleet::ClockReading clock = Clock();
  Instance instance = {.id = record.instance_id,
                       .tenant = record.tenant,
                       .group = record.group,
                       .on_demand = record.on_demand};
  instance.stored = stored;
  instance.subnet = record.subnet_id;
  instance.was_ready = record.registered_at.has_value();
  instance.created_at = fleet::MomentOf(record.created_at, clock);
  if (!record.provider_instance_id.empty()) {
    instance.vm_since = fleet::MomentOf(record.registered_at.value_or(record.phase_at), clock);
  } else if (record.registered_at) {
    instance.vm_since = fleet::MomentOf(*record.registered_at, clock);
  }
  if (record.registered_at) {
    instance.health.registered_at = fleet::MomentOf(*record.registered_at, clock);
  }
  if (record.drain) {
    instance.drain_deadline = fleet::DeadlineOf(
        {.deadline = record.drain->delete_at, .length = record.drain->length}, clock);
  }
  instance.deletion_started = record.phase == InstancePhase::kDeleting;
  return instance;
}

void Fleet::Engine::AttachIntents() {
  const fleet::ClockReading clock = Clock();
  for (const Intent& intent : deps_.journal.journal().intents) {
    Entry* entry = Find(intent.instance_id);
    if (entry == nullptr) {
      entry = &Insert({.id = intent.instance_id, .tenant = intent.tenant, .group = intent.group});
      entry->instance.created_at = fleet::MomentOf(intent.opened_at, clock);
      entry->instance.on_demand = intent.reason == "on-demand";
    }
    Instance& instance = entry->instance;
    const OpenIntent open = {.intent = intent, .durable = true};
    switch (intent.kind) {
      case IntentKind::kCreate: instance.create = open; break;
      case IntentKind::kDrain:
        instance.drain = open;
        instance.drain_deadline =
            fleet::DeadlineOf({.deadline = intent.deadline, .length = intent.length}, clock);
        break;
      case IntentKind::kDelete:
        instance.deletion = open;
        instance.deletion_opened_at = fleet::MomentOf(intent.opened_at, clock);
        break;
      case IntentKind::kClaim:
      case IntentKind::kPark:
      case IntentKind::kWake: break;  // Pools are not served yet: left for who does.
    }
  }
}

void Fleet::Engine::InsertRecords(const FoundVms& found) {
  for (ReadRecord& read : *read_) {
    if (read.stored.has_value()) {
      records_.Adopt(*read.stored);
      Insert(FromRecord(read));
      continue;
    }
    Raise({.name = "corrupt_record",
           .detail = fmt::format("the record of {} does not read: {}", read.key.instance_id.text(),
                                 read.stored.error().message),
           .tenant = read.key.tenant});
    const auto vm = found.find(read.key.instance_id);
    if (vm == found.end()) continue;
    const Result<GroupKey> group = GroupKey::Parse(vm->second->group);
    if (!group.has_value()) continue;  // It counts in no group.
    Instance corrupt = {
        .id = read.key.instance_id, .tenant = read.key.tenant, .group = group.value()};
    corrupt.corrupt = true;
    Insert(std::move(corrupt));
  }
}

void Fleet::Engine::BuildTable() {
  FoundVms found;
  const bool listed = first_listing_->has_value();
  if (listed) {
    for (const ProviderInstance& vm : **first_listing_) {
      if (vm.instance_id) found[*vm.instance_id] = &vm;
    }
  }
  InsertRecords(found);
  AttachIntents();
  for (const auto& [id, entry] : entries_) census_.Set(entry->instance);
  const std::size_t expected = ExpectedVms();
  const bool use = listed && fleet::JudgeListing({.complete = true,
                                                  .listed = (*first_listing_)->size(),
                                                  .expected = expected}) == fleet::ListingUse::kUse;
  provider_listed_ = use;
  std::vector<std::pair<InstanceId, fleet::TableRow>> rows;
  for (auto& [id, entry] : entries_) {
    const Instance& instance = entry->instance;
    const auto vm = found.find(id);
    fleet::TableFacts facts;
    if (instance.stored) facts.phase = instance.phase();
    facts.corrupt = instance.corrupt;
    facts.has_provider_id =
        instance.stored && !instance.stored->record.provider_instance_id.empty();
    facts.create_open = instance.create.has_value();
    facts.drain_open = instance.drain.has_value();
    facts.delete_open = instance.deletion.has_value();
    if (vm != found.end()) {
      facts.provider = fleet::ProviderFinding::kFound;
      if (instance.live()) Found(*entry, *vm->second);
    } else if (use) {
      facts.provider = fleet::ProviderFinding::kAbsent;
    }
    rows.emplace_back(id, fleet::BuildRow(facts));
  }
  for (const auto& [id, row] : rows) ApplyRow(id, row);
  if (use) {
    std::vector<const ProviderInstance*> unknown;
    for (const ProviderInstance& vm : **first_listing_) {
      if (!vm.instance_id || Find(*vm.instance_id) == nullptr) unknown.push_back(&vm);
    }
    JudgeUnknown(unknown, began_at_);
  }
  RebuildBrakes();
  rows_.Begin({.lives = [this](const InstanceId& id) { return Find(id) != nullptr; },
               .each =
                   [this](const std::function<void(Instance&)>& write) {
                     for (const auto& [id, entry] : entries_) write(entry->instance);
                   }});
  read_.reset();
  first_listing_.reset();
  reader_.reset();
  watch_ = deps_.provider.Watch([this](const ProviderInstance& vm) { OnProviderNews(vm); });
}

void Fleet::Engine::ApplyRow(const InstanceId& id, const fleet::TableRow& row) {
  Entry& entry = *Find(id);
  Instance& instance = entry.instance;
  const auto close = [&](bool wanted, std::optional<OpenIntent>& intent) {
    if (!wanted || !intent) return;
    deps_.journal.Close(intent->intent.id);
    intent.reset();
  };
  close(row.close_create, instance.create);
  close(row.close_drain, instance.drain);
  close(row.close_delete, instance.deletion);
  switch (row.step) {
    case fleet::TableStep::kCancelCreation:
    case fleet::TableStep::kReadAgain:
      StartCreation(entry);
      entry.creation->NoLongerWanted();
      break;
    case fleet::TableStep::kResumeCreation:
    case fleet::TableStep::kAdopt:
    case fleet::TableStep::kResolveThenDelete:
      row.open_create ? ReopenCreation(entry) : StartCreation(entry);
      break;
    case fleet::TableStep::kLook:
      instance.looks.OnNotFound(deps_.loop.Now(), instance.vm_since.value_or(instance.created_at),
                                times_);
      break;
    case fleet::TableStep::kRepeatDrain: WriteDrain(entry); break;
    case fleet::TableStep::kContinueDrain:
      if (row.open_drain) ReopenDrain(entry);
      break;
    case fleet::TableStep::kContinueDelete:
      instance.deletion_started = true;
      row.open_delete ? ReopenDeletion(entry) : StartDeletion(entry);
      break;
    case fleet::TableStep::kLateCreation:
      entry.late_since = deps_.loop.Now();
      // The tombstone was written and its VM is still shown: the deletion is seen to its end.
      if (instance.deletion) StartDeletion(entry);
      break;
    case fleet::TableStep::kRepeatDelete:  // The planner begins it, under the brake.
    case fleet::TableStep::kKeep:
    case fleet::TableStep::kRetain:
    case fleet::TableStep::kNothing:
    case fleet::TableStep::kOrphan:
    case fleet::TableStep::kHoldCorrupt: break;
  }
}

// --- Intents that are missing although the record says that something is under way ---------------

void Fleet::Engine::ReopenCreation(Entry& entry) {
  Instance& instance = entry.instance;
  const InstanceRecord& record = *instance.record();
  instance.create = OpenIntent{.intent = {.id = {},
                                          .kind = IntentKind::kCreate,
                                          .instance_id = instance.id,
                                          .tenant = instance.tenant,
                                          .group = instance.group,
                                          .opened_at = record.created_at,
                                          .epoch = deps_.leader.epoch,
                                          .reason = record.on_demand ? "on-demand" : "scale-up",
                                          .replaces = record.replaces,
                                          .request_id = record.request_id}};
  JournalChange change = {.intent = instance.create->intent, .step = Step::kC2};
  SubmitIntent(entry, &Instance::create, std::move(change),
               [this](Entry& at) { StartCreation(at); });
}

void Fleet::Engine::ReopenDrain(Entry& entry) {
  Instance& instance = entry.instance;
  const std::optional<RecordDrain>& drain = instance.record()->drain;
  if (!drain) return;
  instance.drain = OpenIntent{.intent = {.id = {},
                                         .kind = IntentKind::kDrain,
                                         .instance_id = instance.id,
                                         .tenant = instance.tenant,
                                         .group = instance.group,
                                         .opened_at = drain->started_at,
                                         // Told to everybody by an earlier leader: not revoked.
                                         .epoch = instance.record()->epoch,
                                         .reason = drain->reason,
                                         .deadline = drain->delete_at,
                                         .length = drain->length,
                                         .ordered = drain->ordered,
                                         .counted = drain->counted,
                                         .acked_at = drain->acked_at}};
  JournalChange change = {.intent = instance.drain->intent, .step = Step::kD3};
  SubmitIntent(entry, &Instance::drain, std::move(change), [this](Entry& at) { WriteDrain(at); });
}

void Fleet::Engine::ReopenDeletion(Entry& entry) {
  Instance& instance = entry.instance;
  const InstanceRecord& record = *instance.record();
  const RecordDeletion deletion = record.deletion.value_or(RecordDeletion{.reason = "requested"});
  instance.deletion_opened_at = deps_.loop.Now();
  instance.deletion = OpenIntent{.intent = {.id = {},
                                            .kind = IntentKind::kDelete,
                                            .instance_id = instance.id,
                                            .tenant = instance.tenant,
                                            .group = instance.group,
                                            .opened_at = deps_.loop.WallNow(),
                                            .epoch = deps_.leader.epoch,
                                            .reason = deletion.reason,
                                            .ordered = deletion.ordered,
                                            .counted = deletion.counted,
                                            .record_etag = instance.stored->version.text}};
  JournalChange change = {.intent = instance.deletion->intent, .step = Step::kX1};
  SubmitIntent(entry, &Instance::deletion, std::move(change),
               [this](Entry& at) { StartDeletion(at); });
}

// The window of the brake survives leaders: it is in the records.
void Fleet::Engine::RebuildBrakes() {
  if (Planted(Plant::kBrakeForgets)) return;
  const fleet::ClockReading clock = Clock();
  std::map<TenantId, std::vector<fleet::BrakeStart>> starts;
  for (const auto& [id, entry] : entries_) {
    const Instance& instance = entry->instance;
    std::optional<fleet::BrakeStart> start;
    if (const InstanceRecord* record = instance.record()) start = fleet::StartOf(*record, clock);
    if (!start && instance.drain) start = fleet::StartOf(instance.drain->intent, clock);
    if (start) starts[instance.tenant].push_back(*start);
  }
  for (auto& [tenant, of_tenant] : starts) {
    std::ranges::sort(of_tenant, {}, &fleet::BrakeStart::at);
    for (const fleet::BrakeStart& start : of_tenant) BrakeOf(tenant).Note(start);
  }
}

}  // namespace nstance

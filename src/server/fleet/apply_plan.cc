#include <array>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"
#include "server/fleet/engine.h"

namespace nstance {

void Fleet::Engine::Apply(const GroupName& group, const fleet::Plan& plan) {
  for (const fleet::Action& action : plan.actions) {
    if (action.kind == fleet::ActionKind::kCreate) {
      OpenCreation(group, action);
      continue;
    }
    Entry* entry = Find(*action.instance);
    CHECK(entry != nullptr, "{}", action.instance->text());
    switch (action.kind) {
      case fleet::ActionKind::kCreate: break;
      case fleet::ActionKind::kDrain: BeginDrain(*entry, action); break;
      case fleet::ActionKind::kRevokeDrain: Revoke(*entry); break;
      case fleet::ActionKind::kDelete: BeginDeletion(*entry, action, Brake::kFree); break;
      case fleet::ActionKind::kOpenDelete: BeginDeletion(*entry, action, Brake::kHeld); break;
      case fleet::ActionKind::kLook: Look(*entry); break;
    }
  }
}

// Everything that is submitted in one turn goes into one write.
void Fleet::Engine::SubmitIntent(Entry& entry, std::optional<OpenIntent> Instance::* which,
                                 JournalChange change,
                                 std::move_only_function<void(Entry&)> durable) {
  census_.Set(entry.instance);
  deps_.journal.Submit(std::move(change), JournalMachine::Urgency::kNow,
                       [this, id = entry.instance.id, which,
                        durable = std::move(durable)](Result<std::string> written) mutable {
                         Entry* at = Find(id);
                         if (at == nullptr) return;
                         std::optional<OpenIntent>& open = at->instance.*which;
                         if (!written.has_value()) {
                           deps_.log.Error("an intent was refused",
                                           {{"instance", id}, {"error", written.error()}});
                           open.reset();
                           AnswerWaiters(*at, Fail(written.error()));
                           AnswerCreators(*at, Fail(written.error()));
                           return MarkDirty(*at);
                         }
                         if (open) {
                           open->intent.id = std::move(written).value();
                           open->durable = true;
                         }
                         durable(*at);
                         MarkDirty(*at);
                       });
}

// --- Creation ------------------------------------------------------------------------------------

std::optional<Fleet::Engine::Evidence> Fleet::Engine::EvidenceOf(const Instance& instance) const {
  const auto because = [](fleet::Reason reason, Instant at) {
    return Evidence{.reason = fleet::Word(reason), .at = at};
  };
  if (instance.noticed_at) return because(fleet::Reason::kSpotTerminating, *instance.noticed_at);
  if (instance.looks.dead_since) {
    return because(fleet::Reason::kProviderStopped, *instance.looks.dead_since);
  }
  if (instance.looks.missing_first) {
    return because(fleet::Reason::kProviderGone, *instance.looks.missing_first);
  }
  const fleet::HealthJudgement health = HealthOf(instance);
  if (health.state != fleet::HealthState::kStale) return std::nullopt;
  return because(fleet::Reason::kUnhealthy, health.stale_at);
}

void Fleet::Engine::OpenCreation(const GroupName& name, const fleet::Action& action) {
  const MergedGroup* group = groups_->Find(name.first, name.second);
  CHECK(group != nullptr && group->config, "{}/{}", name.first.text(), name.second.text());
  AtStep(Step::kC0);
  if (action.replaces) AtStep(Step::kD2);
  Puidv7Generator::Entropy entropy{};
  deps_.random.Fill(entropy);
  const Timestamp now = deps_.loop.WallNow();
  AtStep(Step::kC1);
  const InstanceId id = ids_.Next(group->config->kind, now, entropy);
  Instance instance = {.id = id, .tenant = name.first, .group = name.second};
  instance.created_at = deps_.loop.Now();
  instance.subnet = action.subnet;
  instance.create = OpenIntent{.intent = {.id = {},
                                          .kind = IntentKind::kCreate,
                                          .instance_id = id,
                                          .tenant = name.first,
                                          .group = name.second,
                                          .opened_at = now,
                                          .epoch = deps_.leader.epoch,
                                          .reason = std::string(fleet::Word(action.reason)),
                                          .replaces = action.replaces}};
  JournalChange change = {.intent = instance.create->intent, .step = Step::kC2};
  Entry& entry = Insert(std::move(instance));
  entry.creation = std::make_unique<CreationRun>(
      *this,
      CreationRun::Plan{.instance = {.id = id,
                                     .tenant = name.first,
                                     .group = name.second,
                                     .subnet = action.subnet,
                                     .replaces = action.replaces},
                        .priority = action.priority,
                        .config = group->config},
      CreationMachine({.consistency_window = deps_.provider.capabilities().consistency_window,
                       .t_vis = times_.t_vis,
                       .t_intent = times_.t_intent},
                      CreationMachine::Record::kNone, deps_.loop.Now()));
  std::optional<Evidence> evidence;
  if (const Entry* old = action.replaces ? Find(*action.replaces) : nullptr) {
    evidence = EvidenceOf(old->instance);
  }
  SubmitIntent(entry, &Instance::create, std::move(change), [this, evidence](Entry& at) {
    if (evidence) probe_.ReplacementStarted(evidence->reason, deps_.loop.Now() - evidence->at);
    NoteIntended(at);
    at.creation->Start();
  });
}

// A creation that an earlier leader began, as the record says.
void Fleet::Engine::StartCreation(Entry& entry) {
  const Instance& instance = entry.instance;
  entry.creation = std::make_unique<CreationRun>(
      *this,
      CreationRun::Plan{.instance = {.id = instance.id,
                                     .tenant = instance.tenant,
                                     .group = instance.group,
                                     .on_demand = instance.on_demand}},
      CreationMachine({.consistency_window = deps_.provider.capabilities().consistency_window,
                       .t_vis = times_.t_vis,
                       .t_intent = times_.t_intent},
                      instance.record() == nullptr ? CreationMachine::Record::kNone
                                                   : CreationMachine::Record::kCreating,
                      instance.created_at));
  entry.creation->Start();
}

void Fleet::Engine::CreationTroubled(Entry& entry, const ProviderError& error) {
  TellError(entry, "creating: " + error.error.message);
}

void Fleet::Engine::CreationFailed(Entry& entry, fleet::FailureClass failure, const Error& error) {
  const GroupName group = {entry.instance.tenant, entry.instance.group};
  probe_.CreateFailed(group, failure);
  if (Planted(Plant::kNoBackoff)) return;
  group_states_[group].memory.backoff.OnFailure(failure, error.message, deps_.loop.Now(),
                                                deps_.jitter);
}

void Fleet::Engine::CreationFinished(const InstanceId& id, CreationMachine::Result result) {
  Entry& entry = *Find(id);
  // The run is still on the stack.
  deps_.loop.Post([run = std::shared_ptr<CreationRun>(std::move(entry.creation))] {});
  if (entry.instance.create && entry.instance.create->durable) {
    deps_.journal.Close(entry.instance.create->intent.id);
  }
  entry.instance.create.reset();
  if (result == CreationMachine::Result::kProvisioned) {
    const GroupName group = {entry.instance.tenant, entry.instance.group};
    group_states_[group].memory.backoff.OnCreated();
    probe_.Created(group, deps_.loop.Now() - entry.instance.created_at);
  } else if (!entry.instance.live()) {
    AnswerWaiters(entry, std::string("deleted"));
    if (result == CreationMachine::Result::kCancelled) TellDeleted(entry.instance);
  }
  // A deletion that waited for the creation to be resolved.
  if (entry.instance.deletion && entry.instance.deletion->durable &&
      entry.instance.deletion_started) {
    StartDeletion(entry);
  }
  MarkDirty(entry);
  PickCreationsSoon();
}

// --- Deletion ------------------------------------------------------------------------------------

// kHeld: it is only made durable; the planner begins it when the brake allows.
void Fleet::Engine::BeginDeletion(Entry& entry, const fleet::Action& action, Brake brake) {
  Instance& instance = entry.instance;
  // The intent of its drain is being written: the plan is made again when that is done.
  if (instance.drain && !instance.drain->durable) return;
  if (instance.drain && deps_.loop.Now() >= instance.drain_deadline) AtStep(Step::kD7);
  const bool begin = brake == Brake::kFree;
  if (begin && action.counted) {
    BrakeOf(instance.tenant)
        .Note({.at = deps_.loop.Now(),
               .kind = action.ordered ? fleet::BrakeKind::kOrdered : fleet::BrakeKind::kUnordered,
               .opportunistic = fleet::IsOpportunistic(action.reason)});
  }
  if (action.failure) {
    const GroupName group = {instance.tenant, instance.group};
    group_states_[group].memory.backoff.OnFailure(
        *action.failure, std::string(fleet::Word(action.reason)), deps_.loop.Now(), deps_.jitter);
    probe_.CreateFailed(group, *action.failure);
  }
  instance.deletion_started = begin;
  instance.order.reset();
  if (instance.deletion) {
    if (!begin) return;
    deps_.journal.SetBrake(instance.deletion->intent.id, Brake::kFree);
    if (instance.deletion->durable) StartDeletion(entry);
    return;
  }
  instance.deletion_opened_at = deps_.loop.Now();
  instance.deletion = OpenIntent{
      .intent = {.id = {},
                 .kind = IntentKind::kDelete,
                 .instance_id = instance.id,
                 .tenant = instance.tenant,
                 .group = instance.group,
                 .opened_at = Clock().wall,
                 .epoch = deps_.leader.epoch,
                 .reason = std::string(fleet::Word(action.reason)),
                 .ordered = action.ordered,
                 .counted = action.counted,
                 .record_etag = instance.stored ? instance.stored->version.text : std::string()}};
  JournalChange change = {.intent = instance.deletion->intent, .brake = brake, .step = Step::kX1};
  if (instance.drain) change.id = instance.drain->intent.id;
  SubmitIntent(entry, &Instance::deletion, std::move(change), [this](Entry& at) {
    // For the record: it is the drain's, of which the journal knows no more.
    if (at.instance.drain && at.instance.deletion) {
      at.instance.deletion->intent.acked_at = at.instance.drain->intent.acked_at;
    }
    if (at.instance.drain) CountDrain(at.instance);
    at.instance.drain.reset();
    AnswerWaiters(at, std::string("deleting"));
    if (at.instance.deletion_started) return StartDeletion(at);
    if (!at.instance.deletion) return;
    Note({at.instance.tenant, at.instance.group}, &at,
         {.type = "brake",
          .reason = at.instance.deletion->intent.reason,
          .message = "its deletion is accepted and waits for the brake"});
  });
  if (begin && Planted(Plant::kDeletesBeforeIntent)) StartDeletion(entry);
}

// REQUIRES: the intent is durable.
void Fleet::Engine::StartDeletion(Entry& entry) {
  if (entry.deletion != nullptr) return;
  if (entry.creation != nullptr) return entry.creation->NoLongerWanted();
  const Instance& instance = entry.instance;
  DeletionMachine::Record record = DeletionMachine::Record::kLive;
  if (instance.record() == nullptr) {
    record = DeletionMachine::Record::kNone;
  } else if (instance.phase() == InstancePhase::kDeleting) {
    record = DeletionMachine::Record::kDeleting;
  } else if (!instance.live()) {
    record = DeletionMachine::Record::kTombstone;
  }
  entry.deletion = std::make_unique<DeletionRun>(
      *this, instance.id,
      DeletionMachine({.consistency_window = deps_.provider.capabilities().consistency_window,
                       .times = times_,
                       .vm_since = instance.vm_since.value_or(instance.created_at)},
                      record));
  entry.deletion->Start();
}

void Fleet::Engine::DeletionFinished(const InstanceId& id) {
  Entry& entry = *Find(id);
  deps_.loop.Post([run = std::shared_ptr<DeletionRun>(std::move(entry.deletion))] {});
  Instance& instance = entry.instance;
  if (instance.deletion && instance.deletion->durable) {
    deps_.journal.Close(instance.deletion->intent.id);
  }
  probe_.Deleted(instance.tenant, instance.deletion ? instance.deletion->intent.reason : "");
  instance.deletion.reset();
  instance.deletion_started = false;
  instance.vm.reset();
  AtStep(Step::kX6);
  rows_.Write(instance);
  entry.late_since.reset();
  TellDeleted(instance);
  MarkDirty(entry);
}

}  // namespace nstance

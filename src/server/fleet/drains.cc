#include <utility>

#include "base/fault_point.h"
#include "server/fleet/engine.h"

namespace nstance {

void Fleet::Engine::BeginDrain(Entry& entry, const fleet::Action& action) {
  Instance& instance = entry.instance;
  const Timestamp now = Clock().wall;
  AtStep(Step::kD1);
  if (action.counted) {
    BrakeOf(instance.tenant)
        .Note({.at = deps_.loop.Now(),
               .kind = action.ordered ? fleet::BrakeKind::kOrdered : fleet::BrakeKind::kUnordered,
               .opportunistic = fleet::IsOpportunistic(action.reason)});
  }
  instance.order.reset();
  instance.drain_deadline = deps_.loop.Now() + action.length;
  instance.drain = OpenIntent{.intent = {.id = {},
                                         .kind = IntentKind::kDrain,
                                         .instance_id = instance.id,
                                         .tenant = instance.tenant,
                                         .group = instance.group,
                                         .opened_at = now,
                                         .epoch = deps_.leader.epoch,
                                         .reason = std::string(fleet::Word(action.reason)),
                                         .deadline = now + action.length,
                                         .length = action.length,
                                         .ordered = action.ordered,
                                         .counted = action.counted}};
  JournalChange change = {.intent = instance.drain->intent, .step = Step::kD3};
  SubmitIntent(entry, &Instance::drain, std::move(change), [this](Entry& at) {
    AnswerWaiters(at, std::string("draining"));
    WriteDrain(at);
  });
}

// The record follows the intent; watchers are told when both are durable.
void Fleet::Engine::WriteDrain(Entry& entry) {
  const Intent intent = entry.instance.drain->intent;
  records_.Update(
      entry.instance.id, {.persist = RecordStore::Persist::kUntilDone, .step = Step::kD3},
      [intent, now = Clock().wall](InstanceRecord& record) -> Status {
        if (record.phase != InstancePhase::kRegistered &&
            record.phase != InstancePhase::kDraining) {
          return {};  // Overtaken by its deletion.
        }
        if (record.phase == InstancePhase::kRegistered) {
          record.phase = InstancePhase::kDraining;
          record.phase_at = now;
        }
        record.drain = RecordDrain{.id = intent.id,
                                   .reason = intent.reason,
                                   .started_at = intent.opened_at,
                                   .delete_at = intent.deadline,
                                   .length = intent.length,
                                   .ordered = intent.ordered,
                                   .counted = intent.counted,
                                   .acked_at = intent.acked_at};
        return {};
      },
      [this, id = entry.instance.id](const Result<StoredRecord>& stored) {
        if (!stored.has_value()) return StepDown(stored.error());
        Entry* at = Find(id);
        if (at == nullptr || at->instance.phase() != InstancePhase::kDraining) return;
        const InstanceRecord& record = stored->record;
        at->instance.told_for_good =
            at->instance.told_for_good || !owner_.may_revoke_drains(record.tenant);
        AtStep(Step::kD4);
        owner_.instance_event({.instance_id = id.text(),
                               .tenant = record.tenant.text(),
                               .provider_instance_id = record.provider_instance_id,
                               .group = record.group.text(),
                               .status = "pending_deletion",
                               .reason = record.drain->reason,
                               .unhealthy_at = record.drain->started_at,
                               .delete_at = record.drain->delete_at,
                               .drain_id = record.drain->id});
      });
}

// How the drain ended that a deletion has just replaced.
void Fleet::Engine::CountDrain(const Instance& instance) {
  DrainOutcome outcome = DrainOutcome::kTimeout;
  if (instance.drain->intent.acked_at) {
    outcome = DrainOutcome::kAcked;
  } else if (deps_.loop.Now() < instance.drain_deadline) {
    outcome = DrainOutcome::kDead;
  }
  probe_.Drained(instance.tenant, instance.drain->intent.reason, outcome);
}

// The journal first, then the record, then the event.
void Fleet::Engine::Revoke(Entry& entry) {
  // Its intent is being written: the plan is made again when that is done.
  if (!entry.instance.drain || !entry.instance.drain->durable) return;
  // Whoever is told that the drain is acknowledged may count on the deletion; the plan is made
  // again when the acknowledgement is durable.
  if (!entry.ackers.empty()) return;
  const std::string drain_id = entry.instance.drain->intent.id;
  probe_.Drained(entry.instance.tenant, entry.instance.drain->intent.reason,
                 DrainOutcome::kRevoked);
  entry.instance.drain.reset();
  entry.instance.revoking = true;
  deps_.journal.Submit(
      {.id = drain_id}, JournalMachine::Urgency::kNow,
      [this, id = entry.instance.id, drain_id](const Result<std::string>& closed) {
        if (!closed.has_value()) return StepDown(closed.error());
        records_.Update(
            id, {.persist = RecordStore::Persist::kUntilDone},
            [drain_id, now = Clock().wall](InstanceRecord& record) -> Status {
              if (record.phase != InstancePhase::kDraining || !record.drain ||
                  record.drain->id != drain_id) {
                return {};
              }
              record.phase = InstancePhase::kRegistered;
              record.phase_at = now;
              record.drain.reset();
              return {};
            },
            [this, id, drain_id](const Result<StoredRecord>& stored) {
              if (!stored.has_value()) return StepDown(stored.error());
              if (Entry* at = Find(id)) {
                at->instance.revoking = false;
                MarkDirty(*at);
              }
              owner_.instance_event({.instance_id = id.text(),
                                     .tenant = stored->record.tenant.text(),
                                     .provider_instance_id = stored->record.provider_instance_id,
                                     .group = stored->record.group.text(),
                                     .status = "drain_cancelled",
                                     .drain_id = drain_id});
            });
      });
}

}  // namespace nstance

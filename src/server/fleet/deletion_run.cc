#include "server/fleet/deletion_run.h"

#include <memory>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/overloaded.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

constexpr Duration kLeaseRetry = Duration::Milliseconds(200);

}  // namespace

DeletionRun::Machine::Input DeletionRun::Input() {
  return {.now = engine_.loop().Now(), .jitter = engine_.jitter()};
}

void DeletionRun::Do(Machine::Command command) {
  std::visit(Overloaded{[this](const Machine::WriteDeleting&) { WriteDeleting(); },
                        [this](const Machine::Delete&) { CallDelete(); },
                        [this](const Machine::Look&) { Look(); },
                        [this](const Machine::Wait& wait) {
                          call_ = engine_.loop().CallAt(wait.until,
                                                        [this] { Do(machine_.Woke(Input())); });
                        },
                        [this](const Machine::Bury&) { Bury(); },
                        [this](const Machine::Finish&) {
                          engine_.DeletionFinished(id_);  // Destroys this, later.
                        }},
             command);
}

void DeletionRun::Answered(bool was_troubled, Machine::Command command) {
  if (was_troubled == machine_.trouble().empty()) engine_.MarkDirty(*engine_.Find(id_));
  Do(command);
}

ProviderTarget DeletionRun::Target() const {
  const auto* entry = engine_.Find(id_);
  CHECK(entry != nullptr, "{}", id_.text());
  std::string provider_id;
  // A VM that came after the end of its instance is another one than the record names.
  const InstanceRecord* record = entry->instance.record();
  const bool late = record != nullptr && record->phase == InstancePhase::kGone;
  if (by_tag_) return {.instance_id = id_};
  if (record != nullptr && !(late && entry->instance.vm)) {
    provider_id = record->provider_instance_id;
  }
  if (provider_id.empty() && entry->instance.vm) {
    provider_id = entry->instance.vm->provider_instance_id;
  }
  ProviderTarget target = {.instance_id = id_, .provider_instance_id = std::move(provider_id)};
  if (Planted(Plant::kNoTagCheck)) {
    for (const Instance* other : engine_.OfTenant(entry->instance.tenant)) {
      const bool has_it =
          other->vm && other->vm->provider_instance_id == target.provider_instance_id;
      if (has_it && other->id != id_) target.instance_id = other->id;
    }
  }
  return target;
}

void DeletionRun::WriteDeleting() {
  const auto* entry = engine_.Find(id_);
  const Intent& intent = entry->instance.deletion->intent;
  engine_.records().Update(
      id_, {.persist = RecordStore::Persist::kUntilDone, .step = Step::kX1},
      [reason = intent.reason, ordered = intent.ordered, counted = intent.counted,
       acked_at = intent.acked_at, now = engine_.Clock().wall](InstanceRecord& record) -> Status {
        if (record.phase == InstancePhase::kDeleting || record.phase == InstancePhase::kGone) {
          return {};
        }
        if (record.drain && acked_at) record.drain->acked_at = acked_at;
        record.phase = InstancePhase::kDeleting;
        record.phase_at = now;
        record.deletion = RecordDeletion{
            .reason = reason, .started_at = now, .ordered = ordered, .counted = counted};
        return {};
      },
      [this](const Result<StoredRecord>& stored) {
        if (!stored.has_value()) return engine_.StepDown(stored.error());
        Do(machine_.Written(Input()));
      });
}

void DeletionRun::CallDelete() {
  if (!engine_.MayStart(engine_.options().send_timeout)) {
    call_ = engine_.loop().CallAfter(kLeaseRetry, [this] { CallDelete(); });
    return;
  }
  const auto* entry = engine_.Find(id_);
  AtStep(Step::kX3);
  call_ = engine_.provider().Delete(
      engine_.CallFor(entry->instance.tenant, engine_.request_timeout()), Target(),
      [this](const ProviderResult<ProviderDeleted>& answer) {
        if (!answer.has_value()) {
          engine_.TellError(*engine_.Find(id_), "deleting: " + answer.error().error.message);
          if (answer.error().reason == ProviderReason::kMismatch) {
            by_tag_ = true;
            engine_.Raise({.name = "identity_mismatch",
                           .detail = "its provider id is another VM's",
                           .tenant = engine_.Find(id_)->instance.tenant,
                           .instance_id = id_});
          }
        }
        const bool troubled = !machine_.trouble().empty();
        Answered(troubled, machine_.Deleted(Input(), answer));
      });
}

void DeletionRun::Look() {
  const auto* entry = engine_.Find(id_);
  AtStep(Step::kX4);
  call_ = engine_.provider().Get(
      engine_.CallFor(entry->instance.tenant, engine_.request_timeout()), Target(),
      [this](const ProviderResult<ProviderInstance>& answer) {
        if (!answer.has_value() && answer.error().reason == ProviderReason::kMismatch) {
          by_tag_ = true;
        }
        const bool troubled = !machine_.trouble().empty();
        Answered(troubled, machine_.Looked(Input(), answer));
      });
}

void DeletionRun::Bury() {
  const auto* entry = engine_.Find(id_);
  const auto done = [this](const Result<StoredRecord>& stored) {
    if (!stored.has_value()) return engine_.StepDown(stored.error());
    Do(machine_.Written(Input()));
  };
  // How long the tombstone is kept counts from it.
  const Timestamp now =
      Planted(Plant::kTombstoneByOwnClock) ? engine_.loop().WallNow() : engine_.Clock().wall;
  if (entry->instance.record() == nullptr) {
    // An orphan: its tombstone tells that this id is over.
    const Intent& intent = entry->instance.deletion->intent;
    InstanceRecord record = {.instance_id = id_,
                             .tenant = entry->instance.tenant,
                             .group = entry->instance.group,
                             .created_at = now,
                             .last_updated = now};
    record.phase = InstancePhase::kGone;
    record.phase_at = now;
    record.deletion = RecordDeletion{.reason = intent.reason,
                                     .started_at = now,
                                     .ordered = intent.ordered,
                                     .counted = intent.counted};
    return engine_.records().Create(
        std::move(record), {.persist = RecordStore::Persist::kUntilDone, .step = Step::kX5}, done);
  }
  engine_.records().Update(
      id_, {.persist = RecordStore::Persist::kUntilDone, .step = Step::kX5},
      [now](InstanceRecord& record) -> Status {
        if (record.phase == InstancePhase::kGone) return {};
        record.phase = InstancePhase::kGone;
        record.phase_at = now;
        return {};
      },
      done);
}

}  // namespace nstance

#include <algorithm>
#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

// After a listing that failed or proved nothing.
constexpr Duration kSweepRetry = Duration::Seconds(5);
constexpr std::size_t kRemovalsPerSweep = 100;

}  // namespace

void Fleet::Engine::ScheduleSweep(Duration after) {
  if (after == Duration()) return;  // `garbage_collection.interval` 0: no sweep.
  sweep_timer_ = deps_.loop.CallAfter(after, [this] { Sweep(); });
}

void Fleet::Engine::Sweep() {
  TakeCensus();
  const Instant begun_at = deps_.loop.Now();
  listing_ = std::make_unique<ProviderListing>(
      deps_.provider, [this] { return CallFor(std::nullopt, request_timeout_); },
      [this, begun_at](ProviderResult<std::vector<ProviderInstance>> listing) {
        OnListing(std::move(listing), begun_at);
      });
  listing_->Start();
}

// Whether every listing shows its VM by now. One that was asked for by name and found absent twice
// (RU7) is not expected: else a new leader of a shard whose VMs are all gone would wait for ever
// for a listing that is not empty.
bool Fleet::Engine::IsExpected(const Instance& instance) const {
  return instance.live() && instance.vm_since &&
         deps_.loop.Now() - *instance.vm_since >= times_.t_settle && !instance.deletion_started &&
         fleet::JudgeAbsence(instance.looks, times_) != fleet::Absence::kAbsent;
}

std::size_t Fleet::Engine::ExpectedVms() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      entries_, [this](const auto& at) { return IsExpected(at.second->instance); }));
}

void Fleet::Engine::OnListing(ProviderResult<std::vector<ProviderInstance>> listing,
                              Instant begun_at) {
  if (!listing.has_value()) {
    deps_.log.Warning("the provider could not be listed", {{"error", listing.error().error}});
    return ScheduleSweep(SweepRetry());
  }
  probe_.Swept(deps_.loop.Now() - begun_at);
  const fleet::ListingUse use =
      fleet::JudgeListing({.complete = true, .listed = listing->size(), .expected = ExpectedVms()});
  if (use == fleet::ListingUse::kUse) {
    TakeListing(*listing, begun_at);
  } else {
    deps_.log.Error("the provider lists no instance although some are expected",
                    {{"expected", ExpectedVms()}});
    LookAtEach(begun_at);
  }
  RemoveOldRecords();
  const bool patient = provider_listed_ || Planted(Plant::kWaitsForListing);
  ScheduleSweep(patient ? gc_interval_ : SweepRetry());
}

// As long as nothing is deleted for want of a listing, also where no sweeps are wanted.
Duration Fleet::Engine::SweepRetry() const {
  if (!provider_listed_ && gc_interval_ == Duration()) return kSweepRetry;
  return std::min(gc_interval_, kSweepRetry);
}

// Empty although VMs are expected: every one of them is asked for by name.
void Fleet::Engine::LookAtEach(Instant begun_at) {
  unlisted_.clear();
  for (auto& [id, entry] : entries_) {
    const Instance& instance = entry->instance;
    const bool known = !provider_listed_ && instance.looks.found_at.has_value();
    if (!provider_listed_ && !known && IsExpected(instance)) unlisted_.insert(id);
    // A leader without a listing comes here every few seconds.
    const std::optional<Instant> due =
        provider_listed_ ? begun_at : fleet::NextLook(instance.looks, began_at_, times_);
    if (!known && due && *due <= deps_.loop.Now() && instance.live() && instance.vm_since) {
      Look(*entry);
    }
    if (!Planted(Plant::kBelievesEmptyListing)) continue;
    entry->instance.looks.missing_first = begun_at - times_.t_vis;
    entry->instance.looks.missing_last = begun_at;
    MarkDirty(*entry);
  }
  if (!provider_listed_ && unlisted_.empty()) ListedByName();
}

// The provider was asked for this VM. When all that an empty listing lacked were found by name, or
// found absent twice (RU7), it counts as complete.
void Fleet::Engine::AnsweredByName(const Instance& instance) {
  if (provider_listed_ || unlisted_.empty()) return;
  if (!instance.looks.found_at && IsExpected(instance)) return;
  if (unlisted_.erase(instance.id) > 0 && unlisted_.empty()) ListedByName();
}

void Fleet::Engine::ListedByName() {
  if (Planted(Plant::kWaitsForListing)) return;
  provider_listed_ = true;
  for (const auto& [group, ids] : by_group_) MarkDirty(group);
}

void Fleet::Engine::TakeListing(const std::vector<ProviderInstance>& listing, Instant begun_at) {
  const bool first = !std::exchange(provider_listed_, true);
  std::erase_if(duplicates_, [&](const auto& at) {
    return std::ranges::none_of(
        listing, [&](const ProviderInstance& vm) { return vm.provider_instance_id == at.first; });
  });
  std::set<InstanceId> seen;
  std::vector<const ProviderInstance*> unknown;
  for (const ProviderInstance& vm : listing) {
    Entry* entry = vm.instance_id ? Find(*vm.instance_id) : nullptr;
    if (entry == nullptr) {
      unknown.push_back(&vm);
      continue;
    }
    const InstanceRecord* record = entry->instance.record();
    if (entry->instance.live() && record != nullptr && !record->provider_instance_id.empty() &&
        record->provider_instance_id != vm.provider_instance_id) {
      DeleteDuplicate(*entry, vm, begun_at);
      continue;
    }
    seen.insert(*vm.instance_id);
    if (entry->instance.live()) {
      Found(*entry, vm);
      CompleteRecord(*entry, vm, listing);
    } else {
      DeleteLate(*entry, vm, begun_at);
    }
  }
  for (auto& [id, entry] : entries_) {
    if (seen.contains(id)) continue;
    entry->late_since.reset();
    // A listing that lacks a VM is a reason to look, not a look by itself.
    const Instance& instance = entry->instance;
    if (instance.live() && instance.vm_since && *instance.vm_since < begun_at &&
        !instance.deletion_started && !instance.looks.in_flight) {
      Look(*entry);
    }
  }
  JudgeUnknown(unknown, begun_at);
  if (first) {
    for (const auto& [group, ids] : by_group_) MarkDirty(group);
  }
}

// Its agent registered before the provider had answered, and whoever made it led no more when the
// answer came: the record learns its VM now. Of several the older one (faults.md 4.1 F10); the
// others are duplicates from then on.
void Fleet::Engine::CompleteRecord(const Entry& entry, const ProviderInstance& vm,
                                   const std::vector<ProviderInstance>& listing) {
  const auto is_nameless = [](const InstanceRecord& record) {
    return record.provider_instance_id.empty() &&
           (record.phase == InstancePhase::kRegistered || record.phase == InstancePhase::kDraining);
  };
  const auto is_over = [](const ProviderInstance& one) {
    return one.status == ProviderStatus::kDeleting || one.status == ProviderStatus::kDeleted;
  };
  if (Planted(Plant::kVmStaysUnnamed)) return;
  const InstanceRecord* record = entry.instance.record();
  if (record == nullptr || !is_nameless(*record) || is_over(vm)) return;
  if (entry.creation != nullptr || entry.instance.deletion) return;  // Theirs to find.
  if (std::ranges::any_of(listing, [&](const ProviderInstance& other) {
        return other.instance_id == vm.instance_id && !is_over(other) &&
               other.launched_at < vm.launched_at;
      })) {
    return;
  }
  records_.Update(
      entry.instance.id, {.persist = RecordStore::Persist::kOnce, .step = Step::kC5},
      [vm, is_nameless](InstanceRecord& now) -> Status {
        if (!is_nameless(now)) return Fail(FailedPrecondition("it has changed meanwhile"));
        NameVm(now, vm);
        return {};
      },
      [](const Result<StoredRecord>&) {});  // If it failed, the next sweep tries again.
}

void Fleet::Engine::JudgeUnknown(const std::vector<const ProviderInstance*>& unknown,
                                 Instant begun_at) {
  swept_at_ = begun_at;
  orphans_seen_ = unknown.size();
  std::vector<fleet::UnknownVm> vms;
  for (const ProviderInstance* vm : unknown) {
    fleet::UnknownVm one = {
        .provider_id = vm->provider_instance_id,
        .instance_id = vm->instance_id ? vm->instance_id->text() : std::string(),
        .tenant = vm->tenant,
        .managed = vm->managed};
    if (vm->launched_at) one.launched_at = fleet::MomentOf(*vm->launched_at, Clock());
    vms.push_back(std::move(one));
  }
  for (const fleet::OrphanFinding& orphan :
       orphans_.OnListing(vms, orphan_grace_, times_, begun_at)) {
    if (orphan.use == fleet::OrphanUse::kReport) {
      deps_.log.Warning("a VM carries our marks but is not ours to delete",
                        {{"provider_id", orphan.provider_id}});
    } else if (orphan.use == fleet::OrphanUse::kDelete) {
      DeleteOrphan(orphan);
    }
  }
}

// Under the brake, as every deletion that nobody asked for.
void Fleet::Engine::DeleteOrphan(const fleet::OrphanFinding& orphan) {
  if (!orphan.instance_id || Find(*orphan.instance_id) != nullptr) return;
  fleet::TenantBrake& brake = BrakeOf(orphan.tenant);
  const Instant now = deps_.loop.Now();
  if (brake.Budget(now, census_.Population(orphan.tenant)).unordered.free <= 0) return;
  const Result<GroupKey> group = GroupKey::Parse("orphan");
  Entry& entry =
      Insert({.id = *orphan.instance_id, .tenant = orphan.tenant, .group = group.value()});
  entry.instance.created_at = now;
  BeginDeletion(entry,
                {.kind = fleet::ActionKind::kDelete,
                 .reason = fleet::Reason::kOrphan,
                 .priority = 3,
                 .instance = orphan.instance_id,
                 .counted = true},
                Brake::kFree);
  deps_.log.Warning("an orphan is deleted",
                    {{"instance", *orphan.instance_id}, {"provider_id", orphan.provider_id}});
}

// A VM that the provider made after its creation was given up, or that outlived its deletion: seen
// in two listings T_vis apart, it is deleted again.
void Fleet::Engine::DeleteLate(Entry& entry, const ProviderInstance& vm, Instant begun_at) {
  if (Planted(Plant::kLateCreationStays)) return;
  if (vm.status == ProviderStatus::kDeleted || entry.deletion != nullptr ||
      entry.instance.deletion) {
    return;
  }
  if (!entry.late_since) {
    entry.late_since = begun_at;
    return;
  }
  if (begun_at - *entry.late_since < times_.t_vis) return;
  entry.instance.vm = vm;
  BeginDeletion(entry,
                {.kind = fleet::ActionKind::kDelete,
                 .reason = fleet::Reason::kOrphan,
                 .priority = 3,
                 .instance = entry.instance.id},
                Brake::kFree);
}

// The provider made two VMs for one creation. The record names the one that is kept; the other,
// seen in two listings T_vis apart, is deleted by its own id. What the record says is durable, so
// the deletion needs no intent: whoever leads next finds the same.
void Fleet::Engine::DeleteDuplicate(const Entry& entry, const ProviderInstance& vm,
                                    Instant begun_at) {
  if (vm.status == ProviderStatus::kDeleted || vm.status == ProviderStatus::kDeleting) return;
  const auto [at, fresh] = duplicates_.try_emplace(vm.provider_instance_id);
  if (fresh) {
    at->second.since = begun_at;
    Raise({.name = "duplicate_vm",
           .detail = "it has a second VM, " + at->first,
           .tenant = entry.instance.tenant,
           .instance_id = entry.instance.id});
    return;
  }
  if (begun_at - at->second.since < times_.t_vis || !MayStart(options_.send_timeout)) return;
  deps_.log.Warning("a duplicate is deleted",
                    {{"instance", entry.instance.id}, {"provider_id", vm.provider_instance_id}});
  at->second.call = deps_.provider.Delete(
      CallFor(entry.instance.tenant, request_timeout_),
      {.instance_id = entry.instance.id, .provider_instance_id = vm.provider_instance_id},
      [this](const ProviderResult<ProviderDeleted>& answer) {
        if (answer.has_value()) return;  // The next sweep tries again.
        deps_.log.Warning("a duplicate cannot be deleted", {{"error", answer.error().error}});
      });
}

void Fleet::Engine::RemoveOldRecords() {
  removals_.clear();
  std::vector<InstanceId> removable;
  for (const auto& [id, entry] : entries_) {
    const InstanceRecord* record = entry->instance.record();
    if (record == nullptr || entry->instance.live() || entry->creation || entry->deletion ||
        entry->instance.deletion) {
      continue;
    }
    const std::optional<Instant> at =
        fleet::RemovableAt({.phase = record->phase,
                            .phase_at = fleet::MomentOf(record->phase_at, Clock()),
                            .vm_found = entry->late_since.has_value()},
                           retention_);
    if (at && *at <= deps_.loop.Now()) removable.push_back(id);
    if (removable.size() == kRemovalsPerSweep) break;
  }
  for (const InstanceId& id : removable) {
    const Instance& instance = Find(id)->instance;
    if (!deps_.leader.may_start(deps_.leader.store_timeout)) return;
    removals_.push_back(deps_.store.Delete(
        {.key = InstanceRecordKey(options_.shard, {.tenant = instance.tenant, .instance_id = id}),
         .version = instance.stored->version},
        [this, id](const Status& done) {
          if (!done.has_value()) return;  // The next sweep tries again.
          records_.Forget(id);
          Erase(id);
        }));
  }
}

}  // namespace nstance

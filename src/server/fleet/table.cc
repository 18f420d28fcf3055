#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/text.h"
#include "crypto/ed25519.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

// Empty when the record has none, or one that does not read.
std::string KeyHash(const InstanceRecord& record) {
  if (record.public_key_pem.empty()) return {};
  const Result<crypto::PublicKey> key = crypto::PublicKey::FromPem(record.public_key_pem);
  return key.has_value() ? HexEncode(key->SpkiSha256()) : std::string();
}

bool WasBuried(const InstanceRecord& record) {
  return record.phase == InstancePhase::kGone && record.failure;
}

bool IsOver(InstancePhase phase) {
  return phase == InstancePhase::kDeleting || phase == InstancePhase::kGone ||
         phase == InstancePhase::kFailed;
}

// What the simulator knows the change of cache and streams as that follows a record's.
Step StepAfter(InstancePhase before, InstancePhase after) {
  if (before == after) return Step::kNone;
  if (after == InstancePhase::kProvisioned || after == InstancePhase::kFailed) return Step::kC6;
  if (IsOver(after)) return Step::kX6;
  const bool joined = after == InstancePhase::kRegistered && before != InstancePhase::kDraining;
  return joined ? Step::kR8 : Step::kNone;
}

// Fills a list that has been used before, in place. What is left over goes to `spare`, and comes
// from there when there is not enough: texts keep their memory.
class TextList {
 public:
  TextList(std::vector<std::string>& list, std::vector<std::string>& spare)
      : list_(list), spare_(spare) {}
  TextList(const TextList&) = delete;
  TextList& operator=(const TextList&) = delete;
  ~TextList() {
    while (list_.size() > used_) {
      spare_.push_back(std::move(list_.back()));
      list_.pop_back();
    }
    std::ranges::sort(list_);
  }
  void Add(const std::string& text) {
    if (used_ == list_.size() && spare_.empty()) list_.emplace_back();
    if (used_ == list_.size()) {
      list_.push_back(std::move(spare_.back()));
      spare_.pop_back();
    }
    list_[used_++] = text;
  }

 private:
  std::vector<std::string>& list_;
  std::vector<std::string>& spare_;
  std::size_t used_ = 0;
};

}  // namespace

Fleet::Engine::Entry* Fleet::Engine::Find(const InstanceId& id) {
  const auto at = entries_.find(id);
  return at == entries_.end() ? nullptr : at->second.get();
}

const Fleet::Engine::Entry* Fleet::Engine::Find(const InstanceId& id) const {
  const auto at = entries_.find(id);
  return at == entries_.end() ? nullptr : at->second.get();
}

Fleet::Engine::Entry& Fleet::Engine::Insert(Instance instance) {
  const InstanceId id = instance.id;
  by_tenant_[instance.tenant].insert(id);
  by_group_[{instance.tenant, instance.group}].insert(id);
  auto [at, inserted] =
      entries_.emplace(id, std::make_unique<Entry>(Entry{.instance = std::move(instance)}));
  CHECK(inserted, "{} is in the table already", id.text());
  IndexKey(at->second->instance);
  census_.Set(at->second->instance);
  return *at->second;
}

void Fleet::Engine::Erase(const InstanceId& id) {
  const auto at = entries_.find(id);
  if (at == entries_.end()) return;
  const Instance& instance = at->second->instance;
  rows_.Erase(instance);
  by_tenant_[instance.tenant].erase(id);
  by_group_[{instance.tenant, instance.group}].erase(id);
  std::erase_if(by_key_, [&](const auto& key) { return key.second == id; });
  census_.Remove(id);
  entries_.erase(at);
}

// Counts everybody; what was kept before must have been the same.
void Fleet::Engine::TakeCensus() {
  Census counted;
  for (const auto& [id, entry] : entries_) counted.Set(entry->instance);
  if (counted != census_) {
    deps_.log.Error("the counts of the table were wrong and are mended");
  }
  census_ = std::move(counted);
}

void Fleet::Engine::IndexKey(const Instance& instance) {
  if (const InstanceRecord* record = instance.record()) {
    const std::string hash = KeyHash(*record);
    if (!hash.empty()) by_key_.insert_or_assign(hash, instance.id);
  }
}

std::vector<const Instance*> Fleet::Engine::OfTenant(const TenantId& tenant) const {
  std::vector<const Instance*> out;
  const auto at = by_tenant_.find(tenant);
  if (at == by_tenant_.end()) return out;
  out.reserve(at->second.size());
  for (const InstanceId& id : at->second) out.push_back(&entries_.at(id)->instance);
  return out;
}

const Instance* Fleet::Engine::FindByKey(std::string_view spki_sha256) const {
  const auto at = by_key_.find(spki_sha256);
  if (at == by_key_.end()) return nullptr;
  return &entries_.at(at->second)->instance;
}

// A record was written or read again: the table follows, and whoever depends on it is planned.
void Fleet::Engine::OnRecordChanged(const StoredRecord& stored) {
  Entry* entry = Find(stored.record.instance_id);
  if (entry == nullptr) return;
  Instance& instance = entry->instance;
  const Instant now = deps_.loop.Now();
  const InstancePhase before = instance.phase();
  const bool was_blocked = instance.stored && instance.stored->record.blocked.has_value();
  const std::string key_before = instance.stored ? instance.stored->record.public_key_pem : "";
  instance.stored = stored;
  const InstanceRecord& record = instance.stored->record;
  if (!record.provider_instance_id.empty() && !instance.vm_since) instance.vm_since = now;
  if (record.registered_at && !instance.health.registered_at) {
    instance.health.registered_at = now;
    if (!instance.vm_since) instance.vm_since = now;
  }
  if (record.public_key_pem != key_before) IndexKey(instance);
  AtStep(StepAfter(before, record.phase));
  rows_.Write(instance);
  NotePhase(*entry, before);
  MarkDirty(*entry);
  // A creation that a former leader began: its repeat waits for the record.
  AnswerCreators(*entry,
                 WasBuried(record) ? Fail(Unavailable("the creation was cancelled")) : Status());
  if (IsOver(record.phase) && Planted(Plant::kDeletedKeepsStream)) return;
  if (IsOver(record.phase) && !IsOver(before)) {
    owner_.identity_ended(instance.id, PermissionDenied("the instance is being deleted"));
  } else if (record.blocked && !was_blocked) {
    owner_.identity_ended(instance.id, Unauthenticated("the identity is blocked"));
  }
}

// --- Figures -------------------------------------------------------------------------------------

fleet::HealthJudgement Fleet::Engine::HealthOf(const Instance& instance) const {
  if (!instance.health.registered_at) return {};
  return fleet::JudgeHealth(instance.health, began_at_, times_, deps_.loop.Now());
}

GroupFigures Fleet::Engine::Figures(const GroupName& group) const {
  GroupFigures out;
  std::vector<std::string> none;
  FillFigures(group, out, none);
  return out;
}

void Fleet::Engine::FillFigures(const GroupName& group, GroupFigures& out,
                                std::vector<std::string>& spare) const {
  TextList instance_ids(out.instance_ids, spare);
  TextList provider_ids(out.provider_ids, spare);
  out.actual_size = 0;
  out.draining = 0;
  out.creating = 0;
  out.ready = 0;
  const auto at = by_group_.find(group);
  if (at == by_group_.end()) return;
  for (const InstanceId& id : at->second) {
    const Instance& instance = entries_.at(id)->instance;
    const InstanceRecord* record = instance.record();
    const InstancePhase phase = instance.phase();
    if (instance.on_demand || instance.corrupt || phase == InstancePhase::kGone ||
        phase == InstancePhase::kFailed || phase == InstancePhase::kDeleting) {
      continue;
    }
    instance_ids.Add(id.text());
    if (record != nullptr && !record->provider_instance_id.empty()) {
      ++out.actual_size;
      provider_ids.Add(record->provider_instance_id);
    }
    if (phase == InstancePhase::kDraining) {
      ++out.draining;
    } else if (phase != InstancePhase::kRegistered) {
      ++out.creating;
    } else if (HealthOf(instance).state == fleet::HealthState::kHealthy) {
      ++out.ready;
    }
  }
}

const fleet::Plan* Fleet::Engine::LastPlan(const GroupName& group) const {
  const auto at = group_states_.find(group);
  if (at == group_states_.end() || !at->second.planned) return nullptr;
  return &at->second.plan;
}

std::string_view Fleet::Engine::StatusWord(const Instance& instance) const {
  switch (instance.phase()) {
    case InstancePhase::kIntended:
    case InstancePhase::kCreating: return "pending";
    case InstancePhase::kDeleting: return "deleting";
    case InstancePhase::kGone: return "deleted";
    case InstancePhase::kFailed: return "failed";
    case InstancePhase::kProvisioned:
    case InstancePhase::kRegistered:
    case InstancePhase::kDraining: break;
  }
  if (!instance.vm) {
    return instance.phase() == InstancePhase::kProvisioned ? "pending" : "running";
  }
  switch (instance.vm->status) {
    case ProviderStatus::kDeleted: return "deleted";
    case ProviderStatus::kUnknown: return "unknown";
    default: return ProviderStatusName(instance.vm->status);
  }
}

bool Fleet::Engine::Drifted(const Instance& instance) const {
  const InstanceRecord* record = instance.record();
  if (record == nullptr || record->infra_config_hash.empty() || groups_ == nullptr) return false;
  const MergedGroup* group = groups_->Find(instance.tenant, instance.group);
  return group != nullptr && !group->infra_hash.empty() &&
         group->infra_hash != record->infra_config_hash;
}

// --- Telling -------------------------------------------------------------------------------------

void Fleet::Engine::TellError(Entry& entry, const std::string& text) {
  NoteError(entry, text);
  deps_.log.Warning("instance", {{"instance", entry.instance.id},
                                 {"tenant", entry.instance.tenant},
                                 {"group", entry.instance.group},
                                 {"error", text}});
  owner_.error_event(entry.instance.tenant, {.group = entry.instance.group.text(),
                                             .instance_id = entry.instance.id.text(),
                                             .error = text,
                                             .timestamp = deps_.loop.WallNow()});
}

void Fleet::Engine::TellDeleted(const Instance& instance) {
  const InstanceRecord* record = instance.record();
  api::InstanceEvent event = {.instance_id = instance.id.text(),
                              .tenant = instance.tenant.text(),
                              .provider_instance_id = {},
                              .group = instance.group.text(),
                              .status = "deleted"};
  if (record != nullptr) {
    event.provider_instance_id = record->provider_instance_id;
    if (record->deletion) event.reason = record->deletion->reason;
    if (record->drain) {
      event.drain_id = record->drain->id;
      event.unhealthy_at = record->drain->started_at;
      event.delete_at = record->drain->delete_at;
    }
  }
  AtStep(Step::kX7);
  owner_.instance_event(event);
}

ProviderCall Fleet::Engine::CallFor(std::optional<TenantId> tenant, Duration limit) const {
  return {.epoch = deps_.leader.epoch,
          .deadline = deps_.loop.Now() + limit,
          .tenant = std::move(tenant)};
}

Duration Fleet::Engine::create_time() const {
  return std::max(request_timeout_, deps_.provider.capabilities().max_create_time);
}

NewInstanceTerms Fleet::Engine::Terms(std::span<const std::uint8_t> token_id) const {
  const ProviderCapabilities& capabilities = deps_.provider.capabilities();
  return {.now = deps_.loop.WallNow(),
          .token_life = times_.registration_timeout + capabilities.max_create_time,
          .token_id = token_id,
          .provider = std::string(config::Word(capabilities.kind))};
}

}  // namespace nstance

#include "sim/world/truth.h"

#include <utility>

#include "core/object_layout.h"

namespace nstance::sim {
namespace {

// Made once: every change is compared with all of them.
struct ShardKeys {
  explicit ShardKeys(const ShardId& of)
      : records(InstanceRecordPrefix(of)),
        journal("journal/" + of.text() + ".json"),
        lease("leader/" + of.text() + ".json"),
        groups("groups/" + of.text() + ".jsonc") {}
  std::string records;
  std::string journal;
  std::string lease;
  std::string groups;
};
const ShardKeys& KeysOf(const ShardId& shard) {
  static const ShardKeys kOfA(ShardA());
  static const ShardKeys kOfB(ShardB());
  return shard == ShardA() ? kOfA : kOfB;
}

std::optional<Journal> JournalOf(const ShardId& shard, const Object* object) {
  if (object == nullptr) return std::nullopt;
  Result<Journal> journal = DecodeJournal(object->bytes, {.cluster = SimCluster(), .shard = shard});
  if (!journal.has_value()) return std::nullopt;
  return *std::move(journal);
}

std::optional<LeaseRecord> LeaseOf(const Object* object) {
  if (object == nullptr) return std::nullopt;
  DecodedLease lease = DecodeLease(object->bytes);
  if (lease.form != LeaseForm::kValid) return std::nullopt;
  return std::move(lease.record);
}

}  // namespace

void Truth::OnRecord(const ShardId& shard, ShardTruth& truth, const SimChange& change) {
  const Result<RecordKey> name = ParseInstanceRecordKey(shard, change.key);
  if (!name.has_value()) return;
  last_.kind = TruthChange::Kind::kRecord;
  last_.shard = &shard;
  last_.id = name->instance_id;
  if (auto before = truth.records.extract(name->instance_id)) {
    last_.record = std::move(before.mapped());
  }
  if (change.after == nullptr) return;
  Result<InstanceRecord> record = DecodeInstanceRecord(change.after->bytes, *name);
  if (record.has_value()) truth.records.emplace(name->instance_id, *std::move(record));
}

void Truth::OnChange(const SimChange& change) {
  last_ = {};
  const std::string& key = change.key.text();
  for (ShardTruth* truth : {&a_, &b_}) {
    const ShardId& shard = truth == &a_ ? ShardA() : ShardB();
    const ShardKeys& keys = KeysOf(shard);
    if (key.starts_with(keys.records)) return OnRecord(shard, *truth, change);
    if (key == keys.journal) {
      last_.kind = TruthChange::Kind::kJournal;
      last_.journal = std::exchange(truth->journal, JournalOf(shard, change.after));
    } else if (key == keys.lease) {
      last_.kind = TruthChange::Kind::kLease;
      last_.lease = std::exchange(truth->lease, LeaseOf(change.after));
    } else if (key == keys.groups) {
      config::DynamicGroupsResult groups = change.after == nullptr
                                               ? config::DynamicGroupsResult{}
                                               : config::DecodeDynamicGroups(change.after->bytes);
      last_.kind = TruthChange::Kind::kGroups;
      last_.dynamic =
          std::exchange(truth->dynamic, groups.groups.value_or(config::DynamicGroups{}));
      last_.groups_stamp = std::exchange(truth->groups_stamp, groups.stamp);
    } else {
      continue;
    }
    last_.shard = &shard;
    return;
  }
}

const InstanceRecord* Truth::Find(const InstanceId& id) const {
  for (const ShardTruth* truth : {&a_, &b_}) {
    const auto at = truth->records.find(id);
    if (at != truth->records.end()) return &at->second;
  }
  return nullptr;
}

const Intent* Truth::IntentOf(const ShardId& shard, const InstanceId& id) const {
  const ShardTruth& truth = Of(shard);
  if (!truth.journal) return nullptr;
  for (const Intent& intent : truth.journal->intents) {
    if (intent.instance_id == id) return &intent;
  }
  return nullptr;
}

}  // namespace nstance::sim

// Truth: what is really stored, decoded once per change, for checkers and for the workload. The
// code under test never sees it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/name.h"
#include "base/puidv7.h"
#include "core/config/dynamic_groups.h"
#include "core/instance_record.h"
#include "core/journal.h"
#include "core/lease.h"
#include "sim/sim_object_store.h"
#include "sim/world/setting.h"

namespace nstance::sim {

// One shard's objects as they are now. What does not decode is absent.
struct ShardTruth {
  std::optional<Journal> journal = std::nullopt;
  std::optional<LeaseRecord> lease = std::nullopt;
  std::map<InstanceId, InstanceRecord> records = {};
  config::DynamicGroups dynamic = {};
  std::optional<config::GroupsStamp> groups_stamp = std::nullopt;
};

// What the last change was about, and how that was before it. What did not decode, or was not
// there, is empty.
struct TruthChange {
  enum class Kind : std::uint8_t { kOther, kRecord, kJournal, kLease, kGroups };
  Kind kind = Kind::kOther;
  const ShardId* shard = nullptr;               // Null: kOther.
  std::optional<InstanceId> id = std::nullopt;  // kRecord.
  std::optional<InstanceRecord> record = std::nullopt;
  std::optional<Journal> journal = std::nullopt;
  std::optional<LeaseRecord> lease = std::nullopt;
  config::DynamicGroups dynamic = {};
  std::optional<config::GroupsStamp> groups_stamp = std::nullopt;
};

class Truth {
 public:
  void OnChange(const SimChange& change);
  [[nodiscard]] const TruthChange& last() const { return last_; }

  [[nodiscard]] const ShardTruth& Of(const ShardId& shard) const {
    return shard == ShardA() ? a_ : b_;
  }
  [[nodiscard]] const InstanceRecord* Find(const InstanceId& id) const;
  // Null: the shard has none.
  [[nodiscard]] const Intent* IntentOf(const ShardId& shard, const InstanceId& id) const;

 private:
  void OnRecord(const ShardId& shard, ShardTruth& truth, const SimChange& change);

  ShardTruth a_;
  ShardTruth b_;
  TruthChange last_;
};

}  // namespace nstance::sim

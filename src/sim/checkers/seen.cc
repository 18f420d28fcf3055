#include "sim/checkers/seen.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "core/instance_phase.h"

namespace nstance::sim {

std::string NameOf(const GroupName& group) {
  return group.first.text() + "/" + group.second.text();
}

bool IsOurs(const ProviderInstance& vm) {
  return vm.managed && vm.instance_id && vm.cluster_id == SimCluster().text() &&
         (vm.shard == ShardA().text() || vm.shard == ShardB().text());
}

std::vector<const Intent*> NewIntents(const Truth& truth) {
  const TruthChange& last = truth.last();
  const std::optional<Journal>& after = truth.Of(*last.shard).journal;
  std::vector<const Intent*> found;
  if (!after) return found;
  std::set<std::string_view> open;
  if (last.journal) {
    for (const Intent& intent : last.journal->intents) open.insert(intent.id);
  }
  for (const Intent& intent : after->intents) {
    if (!open.contains(intent.id)) found.push_back(&intent);
  }
  return found;
}

int CountMembers(const ShardTruth& truth, const GroupName& group,
                 std::initializer_list<IntentKind> without) {
  std::set<InstanceId> leaving;
  std::set<InstanceId> ending;  // A drain or a deletion is open.
  std::set<InstanceId> coming;
  if (truth.journal) {
    for (const Intent& intent : truth.journal->intents) {
      if (intent.tenant != group.first || intent.group != group.second) continue;
      if (std::ranges::find(without, intent.kind) != without.end()) {
        leaving.insert(intent.instance_id);
      }
      if (intent.kind == IntentKind::kDrain || intent.kind == IntentKind::kDelete) {
        ending.insert(intent.instance_id);
      } else if (intent.kind == IntentKind::kCreate && intent.reason != "on-demand" &&
                 !truth.records.contains(intent.instance_id)) {
        coming.insert(intent.instance_id);
      }
    }
  }
  for (const auto& [id, record] : truth.records) {
    if (record.tenant != group.first || record.group != group.second) continue;
    if (record.on_demand || record.claim) continue;
    // Draining without an intent: the drain is revoked, and the record about to say so.
    const bool revoked = record.phase == InstancePhase::kDraining && !ending.contains(id);
    if (revoked || CountsTowardSize(record.phase)) coming.insert(id);
  }
  return static_cast<int>(
      std::ranges::count_if(coming, [&](const InstanceId& id) { return !leaving.contains(id); }));
}

}  // namespace nstance::sim

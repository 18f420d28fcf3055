// What several checkers see in the same way.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/journal.h"
#include "ports/provider.h"
#include "sim/sim_object_store.h"
#include "sim/world/truth.h"

namespace nstance::sim {

using GroupName = std::pair<TenantId, GroupKey>;

// "prod/api".
[[nodiscard]] std::string NameOf(const GroupName& group);

// By an administrator, or a rival that the world plays: not by a process.
[[nodiscard]] inline bool IsByHand(const SimChange& change) { return change.process.empty(); }

// With our marks and an id: what a server has to care for.
[[nodiscard]] bool IsOurs(const ProviderInstance& vm);
[[nodiscard]] inline bool IsThere(std::optional<ProviderStatus> status) {
  return status && *status != ProviderStatus::kDeleted;
}
// It does work, or is about to.
[[nodiscard]] inline bool IsAlive(ProviderStatus status) {
  return status == ProviderStatus::kRunning || status == ProviderStatus::kPending;
}

// Of the last change, which was the journal's: intents that were not open before it.
[[nodiscard]] std::vector<const Intent*> NewIntents(const Truth& truth);

// Managed instances of the group that count toward its size: by their records, and by create
// intents that have none yet. Those with an open intent of a kind in `without` do not count.
[[nodiscard]] int CountMembers(const ShardTruth& truth, const GroupName& group,
                               std::initializer_list<IntentKind> without);

}  // namespace nstance::sim

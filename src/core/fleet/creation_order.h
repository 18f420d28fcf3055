// The shard-wide order of creations: tenants in turn, then the groups of a tenant in turn, so that
// a large scale-up of one tenant does not delay another.
//
// Two moments are paced:
//   intents   at most 60 s of `create_rate_limit` ahead in the shard, or 10 x `create_concurrency`
//             per group without a rate limit: OpenLimit() and ShareCreations() say how many a group
//             may open now (GroupView::creation.places). A group is topped up when half of its
//             places are free: one place at a time would be a commit for every instance (LB7)
//   calls     `create_concurrency` in flight per group, `create_rate_limit` between two calls of
//             the shard: CreationTurns::Pick() says which instances are called now
//
// Guarantees, each held by a test:
//   - of n waiting tenants each gets one of every n picks, whatever the others wait for
//   - a tenant with nothing open gets a place for an intent before one that has some
//   - no group has more calls in flight than its concurrency; no two calls start closer than the
//     rate limit
//   - within a group replacements go before scale-up, then the older one
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"
#include "core/fleet/words.h"

namespace nstance::fleet {

struct CreationPace {
  Duration rate_limit = {};  // Zero = off.
  int concurrency = 10;      // Per group.
};

using GroupName = std::pair<TenantId, GroupKey>;

// How many more create intents may be open: in the shard with a rate limit, in one group without.
// `open` is counted in the same scope. Never negative.
[[nodiscard]] int OpenLimit(const CreationPace& pace, int open);

struct CreationDemand {
  GroupName group;
  int wanted = 0;
  int open = 0;  // Create intents of the group that are open already.
};
// `places` given out one by one: to the tenant with the fewest open ones, in it to the group with
// the fewest; ties by name. The result has the order of `demands`; nobody gets more than wanted.
// REQUIRES: groups differ.
[[nodiscard]] std::vector<int> ShareCreations(std::span<const CreationDemand> demands, int places);

// An instance whose intent and record are durable and whose provider call has not begun.
struct WaitingCreation {
  InstanceId id;
  GroupName group;
  int priority = 5;  // Of the action that made it; smaller goes first in its group.
  Instant since = {};
  std::optional<Instant> not_before = std::nullopt;  // Back-off of this one call.
};

struct CreationPicks {
  std::vector<InstanceId> start;  // In this order.
  // Why the others wait: kCreateConcurrency or kCreateRateLimit.
  std::vector<std::pair<InstanceId, HoldCode>> waits;
  std::optional<Instant> next_at = std::nullopt;  // When time alone would allow another.
};

class CreationTurns {
 public:
  // Everything in `start` counts as begun from now on. `in_flight`: calls that run, per group.
  [[nodiscard]] CreationPicks Pick(std::span<const WaitingCreation> waiting,
                                   const std::map<GroupName, int>& in_flight,
                                   const CreationPace& pace, Instant now);

 private:
  std::optional<TenantId> last_tenant_;
  std::map<TenantId, GroupKey> last_group_;
  std::optional<Instant> last_start_;
};

}  // namespace nstance::fleet

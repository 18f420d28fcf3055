#include "core/fleet/creation_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <ranges>
#include <tuple>

namespace nstance::fleet {
namespace {

constexpr Duration kAhead = Duration::Seconds(60);
constexpr int kAheadPerCall = 10;

using Waiting = std::vector<const WaitingCreation*>;  // In the order in which they go.
using TenantWaiting = std::map<GroupKey, Waiting>;

// Those whose own back-off is over, by tenant and group.
std::map<TenantId, TenantWaiting> Sorted(std::span<const WaitingCreation> waiting, Instant now) {
  std::map<TenantId, TenantWaiting> sorted;
  for (const WaitingCreation& one : waiting) {
    if (one.not_before && *one.not_before > now) continue;
    sorted[one.group.first][one.group.second].push_back(&one);
  }
  for (auto& [tenant, groups] : sorted) {
    for (auto& [group, ones] : groups) {
      // Taken from the back.
      std::ranges::sort(ones, [](const WaitingCreation* a, const WaitingCreation* b) {
        return std::tie(a->priority, a->since, a->id) > std::tie(b->priority, b->since, b->id);
      });
    }
  }
  return sorted;
}

// The keys of `entries` in their order, beginning after `last` and going round.
template <class Key, class Entry>
std::vector<Key> KeysAfter(const std::map<Key, Entry>& entries, const Key* last) {
  std::vector<Key> keys;
  keys.reserve(entries.size());
  for (const auto& [key, entry] : entries) keys.push_back(key);
  if (last != nullptr) {
    std::ranges::rotate(keys, std::ranges::upper_bound(keys, *last));
  }
  return keys;
}

void NoteNext(std::optional<Instant>& next, Instant at) {
  if (!next || at < *next) next = at;
}

// What the tenant, or one of its groups, holds; the top of a queue is who gets the next place.
struct Share {
  int open = 0;
  std::size_t at = 0;  // Place of the tenant or the demand in the order of names.
  friend auto operator<=>(const Share&, const Share&) = default;
};
using ShareQueue = std::priority_queue<Share, std::vector<Share>, std::greater<>>;

}  // namespace

int OpenLimit(const CreationPace& pace, int open) {
  std::int64_t limit = std::int64_t{kAheadPerCall} * pace.concurrency;
  if (pace.rate_limit > Duration()) {
    limit = std::max<std::int64_t>(kAhead.nanoseconds() / pace.rate_limit.nanoseconds(), 1);
  } else if (std::int64_t{open} * 2 > limit) {
    return 0;
  }
  constexpr std::int64_t kMost = 1'000'000;
  return static_cast<int>(std::clamp<std::int64_t>(limit - open, 0, kMost));
}

std::vector<int> ShareCreations(std::span<const CreationDemand> demands, int places) {
  std::vector<std::size_t> by_name(demands.size());
  for (std::size_t i = 0; i < by_name.size(); ++i) by_name[i] = i;
  std::ranges::sort(by_name, {}, [&](std::size_t i) { return demands[i].group; });

  std::vector<int> given(demands.size(), 0);
  std::vector<ShareQueue> groups;  // Of each tenant, in the order of names.
  std::vector<int> tenant_open;
  for (std::size_t n = 0; n < by_name.size(); ++n) {
    const CreationDemand& demand = demands[by_name[n]];
    if (n == 0 || demands[by_name[n - 1]].group.first != demand.group.first) {
      groups.emplace_back();
      tenant_open.push_back(0);
    }
    tenant_open.back() += demand.open;
    if (demand.wanted > 0) groups.back().push({.open = demand.open, .at = n});
  }
  ShareQueue tenants;
  for (std::size_t t = 0; t < groups.size(); ++t) {
    if (!groups[t].empty()) tenants.push({.open = tenant_open[t], .at = t});
  }
  while (places > 0 && !tenants.empty()) {
    Share tenant = tenants.top();
    tenants.pop();
    Share group = groups[tenant.at].top();
    groups[tenant.at].pop();
    const std::size_t demand = by_name[group.at];
    ++given[demand];
    --places;
    ++group.open;
    ++tenant.open;
    if (given[demand] < demands[demand].wanted) groups[tenant.at].push(group);
    if (!groups[tenant.at].empty()) tenants.push(tenant);
  }
  return given;
}

CreationPicks CreationTurns::Pick(std::span<const WaitingCreation> waiting,
                                  const std::map<GroupName, int>& in_flight,
                                  const CreationPace& pace, Instant now) {
  CreationPicks picks;
  std::map<TenantId, TenantWaiting> sorted = Sorted(waiting, now);
  std::map<GroupName, int> running = in_flight;
  const bool limited = pace.rate_limit > Duration();
  const auto rate_allows = [&] {
    return !limited || !last_start_ || now - *last_start_ >= pace.rate_limit;
  };
  const auto start_one = [&](const TenantId& tenant, TenantWaiting& groups) {
    const auto last = last_group_.find(tenant);
    const GroupKey* after = last == last_group_.end() ? nullptr : &last->second;
    for (const GroupKey& key : KeysAfter(groups, after)) {
      Waiting& ones = groups.at(key);
      int& calls = running[{tenant, key}];
      if (ones.empty() || calls >= pace.concurrency) continue;
      picks.start.push_back(ones.back()->id);
      ones.pop_back();
      ++calls;
      last_group_.insert_or_assign(tenant, key);
      last_tenant_ = tenant;
      last_start_ = now;
      return true;
    }
    return false;
  };
  for (bool any = true; any && rate_allows();) {
    any = false;
    for (const TenantId& tenant : KeysAfter(sorted, last_tenant_ ? &*last_tenant_ : nullptr)) {
      if (!rate_allows()) break;
      any = start_one(tenant, sorted.at(tenant)) || any;
    }
  }
  for (const auto& [tenant, groups] : sorted) {
    for (const auto& [key, ones] : groups) {
      const bool busy = running[{tenant, key}] >= pace.concurrency;
      if (!ones.empty() && !busy) NoteNext(picks.next_at, *last_start_ + pace.rate_limit);
      for (const WaitingCreation* one : ones | std::views::reverse) {
        picks.waits.emplace_back(one->id,
                                 busy ? HoldCode::kCreateConcurrency : HoldCode::kCreateRateLimit);
      }
    }
  }
  for (const WaitingCreation& one : waiting) {
    if (one.not_before && *one.not_before > now) NoteNext(picks.next_at, *one.not_before);
  }
  return picks;
}

}  // namespace nstance::fleet

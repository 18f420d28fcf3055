#include "core/fleet/brake.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace nstance::fleet {
namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max() / 2;

int LimitOf(const config::BrakeLimit& limit, int population) {
  const std::int64_t share = std::int64_t{std::max(population, 0)} * limit.percent / 100;
  return static_cast<int>(std::max<std::int64_t>(limit.count, share));
}

// What is left of `limit` when the starts of `used`, oldest first, are in the window.
BudgetOf Left(int limit, Duration window, std::span<const Instant> used) {
  const auto count = static_cast<int>(used.size());
  if (count < limit) return {.free = limit - count, .limit = limit};
  BudgetOf budget{.free = 0, .limit = limit};
  // With a limit of 0 nothing ever frees up.
  if (limit > 0) {
    budget.frees_at = used[static_cast<std::size_t>(count - limit)] + window;
  }
  return budget;
}

template <class Filter>
std::vector<Instant> InWindow(std::span<const BrakeStart> starts, Instant after, Filter filter) {
  std::vector<Instant> used;
  for (const BrakeStart& start : starts) {
    if (start.at > after && filter(start)) used.push_back(start.at);
  }
  return used;
}

BrakeStart Start(Instant at, bool ordered, std::string_view reason_word) {
  const Result<Reason> reason = ParseReason(reason_word);
  return {.at = at,
          .kind = ordered ? BrakeKind::kOrdered : BrakeKind::kUnordered,
          .opportunistic = !ordered && reason && IsOpportunistic(*reason)};
}

}  // namespace

void TenantBrake::Note(const BrakeStart& start) {
  const auto place = std::ranges::upper_bound(starts_, start.at, {}, &BrakeStart::at);
  starts_.insert(place, start);
}

void TenantBrake::Forget(Instant now) {
  const Duration longest = std::max(limits_.unordered.window, limits_.ordered.window);
  std::erase_if(starts_, [&](const BrakeStart& start) { return start.at <= now - longest; });
}

BrakeBudget TenantBrake::Budget(Instant now, int population) const {
  BrakeBudget budget;
  const config::BrakeLimit ordered = limits_.ordered.limit();
  const config::BrakeLimit unordered = limits_.unordered.limit();
  const BudgetOf off{.free = kUnlimited, .limit = kUnlimited};
  budget.ordered = off;
  budget.unordered = off;
  budget.opportunistic = off;
  if (ordered.window > Duration()) {
    const auto used = InWindow(starts_, now - ordered.window, [](const BrakeStart& start) {
      return start.kind == BrakeKind::kOrdered;
    });
    budget.ordered = Left(LimitOf(ordered, population), ordered.window, used);
  }
  if (unordered.window > Duration()) {
    const Instant after = now - unordered.window;
    const auto used = InWindow(starts_, after, [](const BrakeStart& start) {
      return start.kind == BrakeKind::kUnordered;
    });
    const auto soft = InWindow(starts_, after, [](const BrakeStart& start) {
      return start.kind == BrakeKind::kUnordered && start.opportunistic;
    });
    const int limit = LimitOf(unordered, population);
    budget.unordered = Left(limit, unordered.window, used);
    budget.opportunistic = Left(limit > 0 ? std::max(limit / 2, 1) : 0, unordered.window, soft);
    budget.opportunistic.free = std::min(budget.opportunistic.free, budget.unordered.free);
    if (budget.unordered.free == 0) {
      // Both must have a place: the later of the two.
      budget.opportunistic.frees_at =
          std::max(budget.opportunistic.frees_at, budget.unordered.frees_at);
    }
  }
  return budget;
}

std::optional<BrakeStart> StartOf(const InstanceRecord& record, const ClockReading& clock) {
  if (record.drain) {
    if (!record.drain->counted) return std::nullopt;
    return Start(MomentOf(record.drain->started_at, clock), record.drain->ordered,
                 record.drain->reason);
  }
  if (!record.deletion || !record.deletion->counted) return std::nullopt;
  return Start(MomentOf(record.deletion->started_at, clock), record.deletion->ordered,
               record.deletion->reason);
}

std::optional<BrakeStart> StartOf(const Intent& intent, const ClockReading& clock) {
  if (intent.kind != IntentKind::kDrain || !intent.counted) return std::nullopt;
  return Start(MomentOf(intent.opened_at, clock), intent.ordered, intent.reason);
}

}  // namespace nstance::fleet

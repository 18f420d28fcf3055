// The deletion brake (faults.md I-21): how many instances of one tenant may leave per window.
//
// Two budgets, each max(count, percent of the tenant's live instances) per sliding window:
//   unordered   health, drift, absence, expiry, configuration, orphans
//   ordered     asked for through the API
// Expiry, drift and pool age may use at most half of the unordered budget, at least one. An
// instance counts once, when its drain or, without a drain, its deletion starts. Whether a start
// counts at all is the planner's word (Action::counted); an uncounted start is never braked.
//
// A new leader rebuilds the window from records, tombstones and open intents: StartOf(). So a
// change of leader frees nothing.
//
//   TenantBrake brake(limits);
//   brake.Note({.at = now, .kind = BrakeKind::kUnordered});
//   view.brake = brake.Budget(now, live_instances);
//
// Guarantees, each held by a test:
//   - within any window no more starts are granted than the limit of that moment
//   - after BudgetOf::frees_at at least one more is granted
//   - a brake rebuilt from records grants no more than the one that was lost
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/config/config.h"
#include "core/fleet/times.h"
#include "core/fleet/words.h"
#include "core/instance_record.h"
#include "core/journal.h"

namespace nstance::fleet {

enum class BrakeKind : std::uint8_t { kUnordered, kOrdered };

struct BrakeStart {
  Instant at = {};
  BrakeKind kind = BrakeKind::kUnordered;
  bool opportunistic = false;  // IsOpportunistic(reason); only of unordered ones.
  friend bool operator==(const BrakeStart&, const BrakeStart&) = default;
};

// One budget at one moment.
struct BudgetOf {
  int free = 0;   // Starts that are allowed now; a very large number when the brake is off.
  int limit = 0;  // Of the whole window; likewise.
  std::optional<Instant> frees_at = std::nullopt;  // When `free` is 0: the next place.
  friend bool operator==(const BudgetOf&, const BudgetOf&) = default;
};

struct BrakeBudget {
  BudgetOf unordered = {};
  BudgetOf opportunistic = {};  // A part of `unordered`, never more than its free places.
  BudgetOf ordered = {};
  friend bool operator==(const BrakeBudget&, const BrakeBudget&) = default;
};

class TenantBrake {
 public:
  explicit TenantBrake(const config::DeletionBrake& limits) : limits_(limits) {}

  // A reload changed the limits: what was counted stays counted.
  void SetLimits(const config::DeletionBrake& limits) { limits_ = limits; }
  void Note(const BrakeStart& start);
  // Forgets what no window can reach any more.
  void Forget(Instant now);
  // `population`: the tenant's instances in the shard that are neither gone nor failed.
  [[nodiscard]] BrakeBudget Budget(Instant now, int population) const;
  [[nodiscard]] std::span<const BrakeStart> starts() const { return starts_; }

 private:
  config::DeletionBrake limits_;
  std::vector<BrakeStart> starts_;  // Oldest first.
};

// What an instance has used of the brake, if anything: its drain if it had one, else its deletion.
// A record whose reason this program does not know counts as an ordinary unordered start.
[[nodiscard]] std::optional<BrakeStart> StartOf(const InstanceRecord& record,
                                                const ClockReading& clock);
// The same for a drain intent whose record does not show the drain yet. A delete intent has used
// nothing before its record is `deleting`: until then it is under the brake (server.md 3).
[[nodiscard]] std::optional<BrakeStart> StartOf(const Intent& intent, const ClockReading& clock);

}  // namespace nstance::fleet

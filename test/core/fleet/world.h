// A hostile world around one group: a provider that refuses, delays, loses and lies, agents that
// fall silent, operators that change their mind, leaders that change.
//
// The planner sees `view()` only; what is true stands beside it. Step() lets time pass and applies
// what the last plan asked for; Calm() ends all hostility, and what was broken stays broken until
// the planner replaces it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "core/fleet/planner.h"

namespace nstance::fleet {

class World {
 public:
  explicit World(std::uint64_t seed);

  [[nodiscard]] const GroupView& view() const { return view_; }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] const TenantBrake& brake() const { return brake_; }
  [[nodiscard]] const config::DeletionBrake& brake_limits() const { return limits_; }
  [[nodiscard]] int population() const { return static_cast<int>(view_.instances.size()); }
  // Its agent has reported without a break since it registered, and its VM runs.
  [[nodiscard]] bool AlwaysHealthy(const InstanceId& id) const;

  // The plan becomes durable; its effects follow in later steps.
  void Apply(const Plan& plan);
  // Time passes, and things happen.
  void Step(Duration by);
  void Disturb();
  void Calm();

  // Members are as many as wanted, all healthy and up to date, and nobody else is left.
  [[nodiscard]] bool Converged() const;

 private:
  enum class Fate : std::uint8_t { kFine, kRefused, kNeverRegisters };
  struct Truth {
    Instant due = {};  // When what is going on now ends: creation, registration, deletion.
    Fate fate = Fate::kFine;
    ProviderStatus status = ProviderStatus::kRunning;
    bool exists = false;
    bool ever_silent = false;
    Instant silent_until = {};
    bool hangs = false;  // Silent over an open stream.
    Instant ack_at = Instant::Never();
  };

  void Progress(std::size_t at);
  void ProgressCreation(std::size_t at);
  void ProgressAgent(std::size_t at);
  void AnswerLook(std::size_t at);
  void Remove(std::size_t at);
  void Break(std::size_t at);
  void ChangeSpec();
  void Failover();
  void Refresh();
  [[nodiscard]] Instant In(std::int64_t least, std::int64_t most);
  [[nodiscard]] std::size_t Any() { return prng_.Below(view_.instances.size()); }

  Prng prng_;
  bool hostile_ = true;
  Instant now_;
  GroupView view_;
  std::vector<Truth> truths_;  // Beside view_.instances.
  std::vector<bool> gone_;
  config::DeletionBrake limits_;
  TenantBrake brake_;
  std::uint32_t next_id_ = 1;
};

}  // namespace nstance::fleet

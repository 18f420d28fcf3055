// StepBudget: how much one turn of the loop may plan (load.md LB16).
//
// Steps are groups and instances that are looked at: counted, not timed. What does not fit waits
// for the next turn. One group is decided in one piece, so a piece that is larger than a whole turn
// goes alone.
//
// PlannerWork counts what was planned, where it is planned and whoever asked for it, so that the
// simulator can hold each turn against the budget.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nstance {

class StepBudget final {
 public:
  static constexpr std::size_t kPerTurn = 10'000;

  explicit StepBudget(std::size_t per_turn = kPerTurn) : per_turn_(per_turn) {}

  // Whether the turn takes on a piece of so many steps; if not, the turn is over.
  [[nodiscard]] bool Take(std::size_t steps) {
    if (taken_ > 0 && taken_ + steps > per_turn_) return false;
    taken_ += steps;
    return true;
  }

 private:
  std::size_t per_turn_;
  std::size_t taken_ = 0;
};

struct PlannerWork {
  std::uint64_t pieces = 0;
  std::uint64_t steps = 0;

  void Add(std::size_t more) {
    ++pieces;
    steps += more;
  }
  friend bool operator==(const PlannerWork&, const PlannerWork&) = default;
};

}  // namespace nstance

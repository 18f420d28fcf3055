// StepBudget: how much one turn of the loop may plan (load.md LB16).
//
// Steps are groups and instances that are looked at: counted, not timed. What does not fit waits
// for the next turn. One group is decided in one piece, so a piece that is larger than a whole turn
// goes alone.
#pragma once

#include <cstddef>

namespace nstance {

class StepBudget final {
 public:
  static constexpr std::size_t kPerTurn = 10'000;

  // Whether the turn takes on a piece of so many steps; if not, the turn is over.
  [[nodiscard]] bool Take(std::size_t steps) {
    if (taken_ > 0 && taken_ + steps > kPerTurn) return false;
    taken_ += steps;
    return true;
  }

 private:
  std::size_t taken_ = 0;
};

}  // namespace nstance

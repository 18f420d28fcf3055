// How pieces of planning are shared out between turns of the loop (load.md LB16).
#include "server/fleet/step_budget.h"

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance {
namespace {

// The pieces of each turn, as the loops that plan take them.
std::vector<std::vector<std::size_t>> Turns(const std::vector<std::size_t>& pieces) {
  std::vector<std::vector<std::size_t>> turns;
  for (std::size_t next = 0; next < pieces.size();) {
    StepBudget budget;
    std::vector<std::size_t>& turn = turns.emplace_back();
    while (next < pieces.size() && budget.Take(pieces[next])) turn.push_back(pieces[next++]);
  }
  return turns;
}

TEST(StepBudgetTest, ATurnIsFilledAndNotAboveItsLimit) {
  EXPECT_EQ(Turns({4'000, 6'000, 1}), (std::vector<std::vector<std::size_t>>{{4'000, 6'000}, {1}}));
  EXPECT_EQ(Turns({9'999, 2, 3}), (std::vector<std::vector<std::size_t>>{{9'999}, {2, 3}}));
}

TEST(StepBudgetTest, APieceThatIsLargerThanATurnGoesAlone) {
  EXPECT_EQ(Turns({5, 10'001, 7}), (std::vector<std::vector<std::size_t>>{{5}, {10'001}, {7}}));
}

TEST(StepBudgetTest, ATurnMayHaveAnotherLimit) {
  StepBudget budget(5);
  EXPECT_TRUE(budget.Take(2));
  EXPECT_TRUE(budget.Take(3));
  EXPECT_FALSE(budget.Take(1));
}

TEST(StepBudgetTest, NoTurnOfSeveralPiecesIsAboveTheLimitAndNoneIsEmpty) {
  Prng prng(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> pieces;
    for (int i = 0; i < 40; ++i) pieces.push_back(1 + prng.Below(i % 7 == 0 ? 12'000 : 3'000));
    std::size_t taken = 0;
    for (const std::vector<std::size_t>& turn : Turns(pieces)) {
      std::size_t steps = 0;
      for (const std::size_t piece : turn) steps += piece;
      taken += turn.size();
      ASSERT_FALSE(turn.empty());
      EXPECT_TRUE(turn.size() == 1 || steps <= StepBudget::kPerTurn) << steps;
    }
    EXPECT_EQ(taken, pieces.size());
  }
}

}  // namespace
}  // namespace nstance

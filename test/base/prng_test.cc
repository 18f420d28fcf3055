// The generator's numbers are part of every recorded seed, so they are pinned here.
#include "base/prng.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace nstance {
namespace {

TEST(PrngTest, TheStreamOfASeedNeverChanges) {
  // splitmix64 of 0 starts with e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f,
  // f88bb8a8724c81ec; xoshiro256** of that state is what the reference code of its authors gives.
  Prng prng(0);
  EXPECT_EQ(prng.Next(), 0x99EC5F36CB75F2B4U);
  EXPECT_EQ(prng.Next(), 0xBF6E1F784956452AU);
  EXPECT_EQ(prng.Next(), 0x1A5F849D4933E6E0U);
}

TEST(PrngTest, SameSeedSameStreamOtherSeedOtherStream) {
  Prng a(42);
  Prng b(42);
  Prng c(43);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t value = a.Next();
    EXPECT_EQ(value, b.Next());
    differs = differs || value != c.Next();
  }
  EXPECT_TRUE(differs);
}

TEST(PrngTest, BelowCoversItsRangeEvenly) {
  Prng prng(5);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70'000; ++i) ++counts.at(prng.Below(7));
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
  EXPECT_EQ(prng.Below(1), 0U);
}

TEST(PrngTest, BetweenIncludesBothEndsAndTheWholeRange) {
  Prng prng(6);
  bool low = false;
  bool high = false;
  for (int i = 0; i < 1'000; ++i) {
    const std::int64_t value = prng.Between(-2, 2);
    ASSERT_TRUE(value >= -2 && value <= 2);
    low = low || value == -2;
    high = high || value == 2;
  }
  EXPECT_TRUE(low && high);
  EXPECT_EQ(prng.Between(9, 9), 9);
  prng.Between(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
}

TEST(PrngTest, ChanceAndJitterStayInBounds) {
  Prng prng(7);
  int hits = 0;
  for (int i = 0; i < 10'000; ++i) {
    hits += prng.Chance(1, 4) ? 1 : 0;
    const Duration jitter = prng.UpTo(Duration::Milliseconds(5));
    ASSERT_TRUE(jitter >= Duration() && jitter <= Duration::Milliseconds(5));
  }
  EXPECT_NEAR(hits, 2'500, 250);
  EXPECT_FALSE(prng.Chance(0, 1));
  EXPECT_TRUE(prng.Chance(1, 1));
  EXPECT_EQ(prng.UpTo(Duration()), Duration());
}

TEST(PrngTest, ShuffleKeepsTheItems) {
  Prng prng(8);
  std::vector<int> items(100);
  std::iota(items.begin(), items.end(), 0);
  const std::vector<int> before = items;
  prng.Shuffle(std::span(items));
  EXPECT_NE(items, before);
  std::ranges::sort(items);
  EXPECT_EQ(items, before);
}

TEST(PrngTest, AForkDoesNotDependOnLaterDraws) {
  Prng a(9);
  Prng b(9);
  Prng fork_a = a.Fork();
  Prng fork_b = b.Fork();
  a.Next();
  EXPECT_EQ(fork_a.Next(), fork_b.Next());
}

}  // namespace
}  // namespace nstance

// Numbers from text: a table of what is one and what is not.
#include "base/number.h"

#include <cstdint>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

namespace nstance {
namespace {

TEST(NumberTest, DigitsAreANumber) {
  EXPECT_EQ(ParseNumber<int>("0"), 0);
  EXPECT_EQ(ParseNumber<int>("-17"), -17);
  EXPECT_EQ(ParseNumber<int>("007"), 7);
  EXPECT_EQ(ParseNumber<std::uint64_t>("18446744073709551615"),
            std::numeric_limits<std::uint64_t>::max());
}

TEST(NumberTest, NothingElseIs) {
  for (const char* text : {"", " 1", "1 ", "+1", "1.5", "0x1", "1,2", "one", "-", "--1"}) {
    EXPECT_EQ(ParseNumber<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseNumber<std::uint64_t>("-1"), std::nullopt);
}

TEST(NumberTest, WhatDoesNotFitIsNone) {
  EXPECT_EQ(ParseNumber<std::uint8_t>("256"), std::nullopt);
  EXPECT_EQ(ParseNumber<std::int8_t>("-129"), std::nullopt);
  EXPECT_EQ(ParseNumber<std::uint64_t>("18446744073709551616"), std::nullopt);
}

}  // namespace
}  // namespace nstance

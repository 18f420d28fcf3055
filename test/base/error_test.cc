// Errors and results: codes on the wire, context, propagation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "base/result.h"

namespace nstance {
namespace {

TEST(ErrorTest, CodesAreNumberedAsInGrpc) {
  EXPECT_EQ(static_cast<int>(Code::kCancelled), 1);
  EXPECT_EQ(static_cast<int>(Code::kInvalidArgument), 3);
  EXPECT_EQ(static_cast<int>(Code::kResourceExhausted), 8);
  EXPECT_EQ(static_cast<int>(Code::kUnavailable), 14);
  EXPECT_EQ(static_cast<int>(Code::kUnauthenticated), 16);
  EXPECT_EQ(CodeName(Code::kFailedPrecondition), "FAILED_PRECONDITION");
}

TEST(ErrorTest, EachLayerAddsOneClauseInFront) {
  const Error error = Unavailable("connection refused").Under("reading a.json").Under("start");
  EXPECT_EQ(error.message, "start: reading a.json: connection refused");
  EXPECT_EQ(error.code, Code::kUnavailable);
}

TEST(ErrorTest, OutcomeSurvivesContextAndShowsInText) {
  const Error error = Unavailable("timed out").MaybeDone().Under("writing b.json");
  EXPECT_EQ(error.outcome, Outcome::kMaybeDone);
  EXPECT_EQ(error.ToString(), "UNAVAILABLE (maybe done): writing b.json: timed out");
  EXPECT_EQ(NotFound("x").ToString(), "NOT_FOUND: x");
}

Result<int> Half(int n) {
  if (n % 2 != 0) return Fail(InvalidArgument("odd"));
  return n / 2;
}

Result<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half);
}

Status CheckQuarter(int n) {
  RETURN_IF_ERROR(Under(Quarter(n), "quarter"));
  return {};
}

TEST(ResultTest, MacrosHandTheValueOnOrReturnTheError) {
  EXPECT_EQ(Quarter(8), 2);
  EXPECT_EQ(Quarter(7).error().message, "odd");
  EXPECT_EQ(Quarter(6).error().message, "odd");
  EXPECT_TRUE(CheckQuarter(4).has_value());
  EXPECT_EQ(CheckQuarter(5).error().message, "quarter: odd");
}

TEST(CheckDeathTest, AbortsWithPlaceConditionAndValues) {
  const int index = 7;
  EXPECT_DEATH(CHECK(index < 3, "index {} of {}", index, 3),
               "error_test.cc:[0-9]+: CHECK failed: index < 3: index 7 of 3");
}

TEST(CheckTest, DoesNothingWhenTheConditionHolds) {
  CHECK(1 + 1 == 2);
  CHECK(true, "not formatted {}", 1);
}

}  // namespace
}  // namespace nstance

// The parts of the load generator that can be wrong without anybody noticing: percentiles against
// sorted values over seeds, the schedule on virtual time, token lines by example.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "bench/generator/histogram.h"
#include "bench/generator/open_loop.h"
#include "bench/generator/token_file.h"
#include "sim/sim_loop.h"
#include "sim/sim_scheduler.h"

namespace nstance::bench {
namespace {

TEST(HistogramTest, TellsNothingOfNothing) {
  const Histogram empty;
  EXPECT_EQ(empty.Percentile(500), 0);
  EXPECT_EQ(empty.count(), 0U);
}

TEST(HistogramTest, IsExactBelowTwoMilliseconds) {
  Histogram histogram;
  for (int i = 1; i <= 1'000; ++i) histogram.Record(Duration::Microseconds(i));
  EXPECT_EQ(histogram.Percentile(500), 500);
  EXPECT_EQ(histogram.Percentile(990), 990);
  EXPECT_EQ(histogram.Percentile(999), 999);
  EXPECT_EQ(histogram.max_microseconds(), 1'000);
}

TEST(HistogramTest, IsAtMostAThousandthTooHighAndNeverTooLow) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Prng prng(seed);
    Histogram histogram;
    std::vector<std::int64_t> values;
    for (int i = 0; i < 500; ++i) {
      values.push_back(static_cast<std::int64_t>(prng.Next() >> (28 + prng.Below(30))));
      histogram.Record(Duration::Microseconds(values.back()));
    }
    std::ranges::sort(values);
    for (const std::uint64_t permille : {1U, 250U, 500U, 900U, 990U, 1000U}) {
      const std::size_t index = (values.size() * permille + 999) / 1'000 - 1;
      const std::int64_t exact = values[index];
      const std::int64_t told = histogram.Percentile(permille);
      EXPECT_GE(told, exact) << "seed " << seed << " permille " << permille;
      EXPECT_LE(told, exact + exact / 1'000 + 1) << "seed " << seed << " permille " << permille;
    }
    EXPECT_EQ(histogram.max_microseconds(), values.back());
  }
}

TEST(HistogramTest, ClampsWhatNoClockShouldGive) {
  Histogram histogram;
  histogram.Record(Duration::Seconds(-1));
  EXPECT_EQ(histogram.max_microseconds(), 0);
  histogram.Record(Duration::Days(1'000));
  EXPECT_EQ(histogram.max_microseconds(), std::int64_t{1} << 36);
}

TEST(TokenLinesTest, AreReadInOrder) {
  const auto lines = ParseTokenLines(
      "{\"instance_id\":\"a\",\"tenant\":\"t\",\"token\":\"x\",\"more\":1}\n\n"
      "{\"tenant\":\"u\",\"token\":\"y\"}");
  ASSERT_TRUE(lines.has_value());
  ASSERT_EQ(lines->size(), 2U);
  EXPECT_EQ(lines->at(0).instance_id, "a");
  EXPECT_EQ(lines->at(1).tenant, "u");
  EXPECT_EQ(lines->at(1).token, "y");
}

TEST(TokenLinesTest, BadOnesAreNamed) {
  const auto broken = ParseTokenLines("{\"tenant\":\"t\",\"token\":\"x\"}\n{");
  ASSERT_FALSE(broken.has_value());
  EXPECT_THAT(broken.error().message, testing::HasSubstr("line 2"));
  const auto empty = ParseTokenLines("{\"tenant\":\"t\"}");
  ASSERT_FALSE(empty.has_value());
  EXPECT_THAT(empty.error().message, testing::HasSubstr("token"));
}

TEST(OpenLoopTest, KeepsToItsScheduleAndTellsHowLateItWas) {
  sim::SimScheduler scheduler(1);
  sim::SimLoop loop(scheduler, Timestamp::FromUnix(0));
  std::vector<Duration> due;
  bool done = false;
  const OpenLoop schedule(
      loop, {.per_second = 3, .total = 7},
      [&](std::uint64_t number, Instant at) {
        EXPECT_EQ(number, due.size());
        due.push_back(at - Instant());
      },
      [&] { done = true; });
  scheduler.RunFor(Duration::Milliseconds(700));
  EXPECT_EQ(due.size(), 3U);
  loop.Pause();  // As a busy machine does.
  scheduler.RunFor(Duration::Milliseconds(800));
  loop.Resume();
  scheduler.RunFor(Duration::Seconds(5));
  ASSERT_TRUE(done);
  ASSERT_EQ(due.size(), 7U);
  for (std::size_t i = 0; i < due.size(); ++i) {
    EXPECT_EQ(due[i].nanoseconds(), static_cast<std::int64_t>(i) * 1'000'000'000 / 3) << i;
  }
  EXPECT_GE(schedule.behind(), Duration::Milliseconds(499)) << "the fourth was due after 1 s";
}

}  // namespace
}  // namespace nstance::bench

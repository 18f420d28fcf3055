// A stream that opens, fills and closes; time is an argument.
#include "core/agent/report_schedule.h"

#include <gtest/gtest.h>

namespace nstance::agent {
namespace {

constexpr Instant kZero = Instant::FromClock(Duration::Hours(1));
constexpr Duration kMinute = Duration::Seconds(60);

TEST(ReportScheduleTest, ReportsAtOnceWhenTheStreamOpensAndThenEveryInterval) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng jitter(seed);
    ReportSchedule schedule(kMinute);
    EXPECT_EQ(schedule.due(), Instant::Never());
    schedule.Opened(kZero);
    EXPECT_EQ(schedule.due(), kZero);
    schedule.Sent(kZero, jitter);
    EXPECT_GE(schedule.due(), kZero + Duration::Seconds(54));
    EXPECT_LE(schedule.due(), kZero + Duration::Seconds(66));
  }
}

TEST(ReportScheduleTest, NewsGoAtOnceButASecondApart) {
  Prng jitter(1);
  ReportSchedule schedule(kMinute);
  schedule.Opened(kZero);
  schedule.Sent(kZero, jitter);
  schedule.Urgent(kZero + Duration::Milliseconds(100));
  EXPECT_EQ(schedule.due(), kZero + Duration::Seconds(1));
  schedule.Urgent(kZero + Duration::Milliseconds(900));
  EXPECT_EQ(schedule.due(), kZero + Duration::Seconds(1));
  schedule.Sent(kZero + Duration::Seconds(1), jitter);
  schedule.Urgent(kZero + Duration::Seconds(10));
  EXPECT_EQ(schedule.due(), kZero + Duration::Seconds(10));
}

TEST(ReportScheduleTest, AFullOrClosedStreamGetsNothing) {
  Prng jitter(1);
  ReportSchedule schedule(kMinute);
  schedule.Opened(kZero);
  schedule.Sent(kZero, jitter);
  schedule.Full();
  schedule.Urgent(kZero + Duration::Seconds(5));
  EXPECT_EQ(schedule.due(), Instant::Never());
  schedule.Drained();
  EXPECT_EQ(schedule.due(), kZero + Duration::Seconds(5));
  schedule.Full();
  schedule.Closed();
  EXPECT_EQ(schedule.due(), Instant::Never());
  schedule.Opened(kZero + Duration::Seconds(6));
  EXPECT_EQ(schedule.due(), kZero + Duration::Seconds(6));
}

TEST(ReportScheduleTest, AnIntervalOfZeroDisablesReports) {
  ReportSchedule schedule(Duration{});
  schedule.Opened(kZero);
  schedule.Urgent(kZero);
  EXPECT_EQ(schedule.due(), Instant::Never());
}

}  // namespace
}  // namespace nstance::agent

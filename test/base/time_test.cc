// The three kinds of time: saturating arithmetic, Go's duration syntax plus days, RFC 3339.
// Tables of rows by hand here; Go itself is asked in json_go_test.cc.
#include "base/time.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance {
namespace {

TEST(DurationTest, ArithmeticSaturatesInsteadOfWrapping) {
  EXPECT_EQ(Duration::Max() + Duration::Nanoseconds(1), Duration::Max());
  EXPECT_EQ(Duration::Min() - Duration::Nanoseconds(1), Duration::Min());
  EXPECT_EQ(Duration::Min() + Duration::Nanoseconds(-1), Duration::Min());
  EXPECT_EQ(Duration::Max() - Duration::Nanoseconds(-1), Duration::Max());
  EXPECT_EQ(Duration::Days(1'000'000'000), Duration::Max());
  EXPECT_EQ(Duration::Days(-1'000'000'000), Duration::Min());
  EXPECT_EQ(Duration::Hours(1'000'000) * 1'000'000, Duration::Max());
  EXPECT_EQ(Duration::Hours(1'000'000) * -1'000'000, Duration::Min());
  EXPECT_EQ(Instant::Never() + Duration::Days(1), Instant::Never());
}

TEST(DurationTest, UnitsAgree) {
  EXPECT_EQ(Duration::Days(1), Duration::Hours(24));
  EXPECT_EQ(Duration::Hours(1), Duration::Minutes(60));
  EXPECT_EQ(Duration::Minutes(1), Duration::Seconds(60));
  EXPECT_EQ(Duration::Seconds(1), Duration::Milliseconds(1'000));
  EXPECT_EQ(Duration::Milliseconds(1), Duration::Microseconds(1'000));
  EXPECT_EQ(Duration::Milliseconds(1'999).seconds(), 1);
  EXPECT_EQ(Duration::Seconds(9) / 2, Duration::Milliseconds(4'500));
}

struct DurationRow {
  std::string text;
  std::optional<std::int64_t> nanoseconds;  // Empty: refused.
};

class ParseDurationTest : public testing::TestWithParam<DurationRow> {};

TEST_P(ParseDurationTest, ReadsGoSyntaxAndDays) {
  const Result<Duration> parsed = ParseDuration(GetParam().text);
  ASSERT_EQ(parsed.has_value(), GetParam().nanoseconds.has_value()) << GetParam().text;
  if (parsed) {
    EXPECT_EQ(parsed->nanoseconds(), *GetParam().nanoseconds) << GetParam().text;
  }
}

constexpr std::int64_t kSecond = 1'000'000'000;

INSTANTIATE_TEST_SUITE_P(
    Rows, ParseDurationTest,
    testing::Values(DurationRow{"300ms", 300'000'000}, DurationRow{"1h30m", 5'400 * kSecond},
                    DurationRow{"7d", 604'800 * kSecond}, DurationRow{"1d12h", 129'600 * kSecond},
                    DurationRow{"0s", 0}, DurationRow{"0", 0}, DurationRow{"-0", 0},
                    DurationRow{"+5s", 5 * kSecond}, DurationRow{"-5m", -300 * kSecond},
                    DurationRow{"1.5h", 5'400 * kSecond}, DurationRow{".5s", kSecond / 2},
                    DurationRow{"1.s", kSecond}, DurationRow{"1us", 1'000},
                    DurationRow{"1\xC2\xB5s", 1'000}, DurationRow{"1\xCE\xBCs", 1'000},
                    DurationRow{"1.0000000001s", kSecond},
                    DurationRow{"9223372036854775807ns", 9223372036854775807},
                    DurationRow{"-9223372036854775808ns", std::numeric_limits<std::int64_t>::min()},
                    DurationRow{"0.3333333333333333333h", 1'200 * kSecond},
                    DurationRow{"", std::nullopt}, DurationRow{"-", std::nullopt},
                    DurationRow{"5", std::nullopt}, DurationRow{"5x", std::nullopt},
                    DurationRow{"s", std::nullopt}, DurationRow{".s", std::nullopt},
                    DurationRow{"1 s", std::nullopt}, DurationRow{" 1s", std::nullopt},
                    DurationRow{"1S", std::nullopt}, DurationRow{"--1s", std::nullopt},
                    DurationRow{"9223372036854775808ns", std::nullopt},
                    DurationRow{"300y", std::nullopt}, DurationRow{"106752d", std::nullopt},
                    DurationRow{"99999999999999999999s", std::nullopt},
                    DurationRow{"9223372036854775808ns9223372036854775808ns", std::nullopt},
                    DurationRow{std::string("1s\0", 3), std::nullopt}));

TEST(ParseDurationTest, ErrorsSayWhatIsWrongAndWhatIsAllowed) {
  EXPECT_EQ(
      ParseDuration("5x").error().message,
      "\"5x\" is not a duration: unknown unit \"x\"; numbers with a unit (ns, us, ms, s, m, h, "
      "d), such as 90s or 1h30m");
}

TEST(FormatDurationTest, WritesWhatGoWrites) {
  EXPECT_EQ(FormatDuration(Duration()), "0s");
  EXPECT_EQ(FormatDuration(Duration::Nanoseconds(7)), "7ns");
  EXPECT_EQ(FormatDuration(Duration::Nanoseconds(1'500)), "1.5\xC2\xB5s");
  EXPECT_EQ(FormatDuration(Duration::Nanoseconds(2'000'001)), "2.000001ms");
  EXPECT_EQ(FormatDuration(Duration::Minutes(90)), "1h30m0s");
  EXPECT_EQ(FormatDuration(Duration::Seconds(-61)), "-1m1s");
  EXPECT_EQ(FormatDuration(Duration::Milliseconds(61'500)), "1m1.5s");
  EXPECT_EQ(FormatDuration(Duration::Min()), "-2562047h47m16.854775808s");
}

TEST(FormatDurationTest, EveryDurationReadsBack) {
  Prng prng(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto shift = static_cast<unsigned>(prng.Below(64));
    const Duration duration =
        Duration::Nanoseconds(static_cast<std::int64_t>(prng.Next()) >> shift);
    // Fractions of an hour are rounded when they are read; what is printed never has one.
    EXPECT_EQ(ParseDuration(FormatDuration(duration)), duration) << FormatDuration(duration);
  }
}

TEST(TimestampTest, ReadsAnyOffsetAndWritesUtc) {
  const auto parse = [](std::string_view text) { return FormatTimestamp(*ParseTimestamp(text)); };
  EXPECT_EQ(parse("2026-01-01T00:00:00Z"), "2026-01-01T00:00:00Z");
  EXPECT_EQ(parse("2026-01-01T02:30:00+02:30"), "2026-01-01T00:00:00Z");
  EXPECT_EQ(parse("2025-12-31T23:00:00-01:00"), "2026-01-01T00:00:00Z");
  EXPECT_EQ(parse("2024-02-29T12:00:00.100Z"), "2024-02-29T12:00:00.1Z");
  EXPECT_EQ(parse("1969-12-31T23:59:59.999999999Z"), "1969-12-31T23:59:59.999999999Z");
  EXPECT_EQ(parse("0001-01-01T00:00:00Z"), FormatTimestamp(Timestamp::GoZero()));
  EXPECT_EQ(ParseTimestamp("1970-01-01T00:00:01.5Z")->nanoseconds(), 500'000'000);
}

TEST(TimestampTest, RefusesWhatIsNoTime) {
  for (const std::string_view text :
       {"", "2026", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2023-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:60Z", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00",
        "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.1234567890Z", "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00Zx", "02026-01-01T00:00:00Z", "9999-12-31T23:59:59-00:01",
        "0000-01-01T00:00:00+00:01"}) {
    EXPECT_FALSE(ParseTimestamp(text).has_value()) << text;
  }
  EXPECT_EQ(ParseTimestamp("tomorrow").error().message,
            "\"tomorrow\" is not a time; RFC 3339, such as 2026-01-31T08:00:00Z");
}

TEST(TimestampTest, EverySecondOfTheCalendarReadsBack) {
  Prng prng(2);
  const std::int64_t first = ParseTimestamp("0000-01-01T00:00:00Z")->unix_seconds();
  const std::int64_t last = ParseTimestamp("9999-12-31T23:59:59Z")->unix_seconds();
  for (int i = 0; i < 20'000; ++i) {
    const Timestamp at = Timestamp::FromUnix(
        prng.Between(first, last), static_cast<std::int32_t>(prng.Between(0, 999'999'999)));
    EXPECT_EQ(ParseTimestamp(FormatTimestamp(at)), at) << FormatTimestamp(at);
  }
}

TEST(TimestampTest, StaysWithinFourDigitYears) {
  EXPECT_EQ(FormatTimestamp(Timestamp::FromUnix(std::numeric_limits<std::int64_t>::max())),
            "9999-12-31T23:59:59.999999999Z");
  EXPECT_EQ(FormatTimestamp(Timestamp::FromUnix(std::numeric_limits<std::int64_t>::min())),
            "0000-01-01T00:00:00Z");
  EXPECT_EQ(Timestamp::GoZero() - Duration::Max(), *ParseTimestamp("0000-01-01T00:00:00Z"));
  EXPECT_EQ(Timestamp::FromUnix(253'402'300'799) - Timestamp::GoZero(), Duration::Max());
}

TEST(TimestampTest, AddsAndSubtractsAcrossTheSecond) {
  const Timestamp at = Timestamp::FromUnix(10, 900'000'000);
  EXPECT_EQ(at + Duration::Milliseconds(200), Timestamp::FromUnix(11, 100'000'000));
  EXPECT_EQ(at - Duration::Milliseconds(950), Timestamp::FromUnix(9, 950'000'000));
  EXPECT_EQ(at - Timestamp::FromUnix(11), Duration::Milliseconds(-100));
  EXPECT_EQ(at.TruncatedToSecond(), Timestamp::FromUnix(10));
}

}  // namespace
}  // namespace nstance

// Duration, Instant and Timestamp: the three kinds of time, which do not mix.
//
//   Duration   a length, in whole nanoseconds, at most about 292 years either way
//   Instant    a moment on this machine's monotonic clock (CLOCK_BOOTTIME). Never stored, never
//   sent. Timestamp  a moment in UTC, years 0000 to 9999. May be stored; may jump.
//
// None of them has a now(): time enters through ports/loop.h. Arithmetic saturates at the ends of
// the range instead of overflowing, so a hostile configuration cannot wrap a deadline around.
//
// Text forms:
//   ParseDuration   Go's syntax plus `d` for 24 h: "300ms", "1h30m", "1.5h", "1d12h", "-5m", "0"
//   FormatDuration  as Go prints it: "1h30m0s", "1.5ms", "0s"
//   ParseTimestamp  RFC 3339 with any offset, one to nine fractional digits
//   FormatTimestamp RFC 3339, UTC, `Z`, trailing zeros of the fraction dropped
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nstance {

class Duration {
 public:
  constexpr Duration() = default;

  [[nodiscard]] static constexpr Duration Nanoseconds(std::int64_t n) { return Duration(n); }
  [[nodiscard]] static constexpr Duration Microseconds(std::int64_t n) { return Scaled(n, 1'000); }
  [[nodiscard]] static constexpr Duration Milliseconds(std::int64_t n) {
    return Scaled(n, 1'000'000);
  }
  [[nodiscard]] static constexpr Duration Seconds(std::int64_t n) {
    return Scaled(n, 1'000'000'000);
  }
  [[nodiscard]] static constexpr Duration Minutes(std::int64_t n) {
    return Scaled(n, 60'000'000'000);
  }
  [[nodiscard]] static constexpr Duration Hours(std::int64_t n) {
    return Scaled(n, 3'600'000'000'000);
  }
  [[nodiscard]] static constexpr Duration Days(std::int64_t n) {
    return Scaled(n, 86'400'000'000'000);
  }
  [[nodiscard]] static constexpr Duration Max() {
    return Duration(std::numeric_limits<std::int64_t>::max());
  }
  [[nodiscard]] static constexpr Duration Min() {
    return Duration(std::numeric_limits<std::int64_t>::min());
  }

  [[nodiscard]] constexpr std::int64_t nanoseconds() const { return nanoseconds_; }
  // Whole units, rounded toward zero.
  [[nodiscard]] constexpr std::int64_t milliseconds() const { return nanoseconds_ / 1'000'000; }
  [[nodiscard]] constexpr std::int64_t seconds() const { return nanoseconds_ / 1'000'000'000; }

  friend constexpr Duration operator+(Duration a, Duration b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a.nanoseconds_, b.nanoseconds_, &sum)) {
      return b.nanoseconds_ > 0 ? Max() : Min();
    }
    return Duration(sum);
  }
  friend constexpr Duration operator-(Duration a, Duration b) {
    std::int64_t difference = 0;
    if (__builtin_sub_overflow(a.nanoseconds_, b.nanoseconds_, &difference)) {
      return b.nanoseconds_ < 0 ? Max() : Min();
    }
    return Duration(difference);
  }
  friend constexpr Duration operator*(Duration a, std::int64_t n) {
    return Scaled(n, a.nanoseconds_);
  }
  // REQUIRES: n > 0.
  friend constexpr Duration operator/(Duration a, std::int64_t n) {
    return Duration(a.nanoseconds_ / n);
  }
  constexpr Duration& operator+=(Duration other) { return *this = *this + other; }
  constexpr Duration& operator-=(Duration other) { return *this = *this - other; }

  friend constexpr auto operator<=>(Duration, Duration) = default;

 private:
  explicit constexpr Duration(std::int64_t nanoseconds) : nanoseconds_(nanoseconds) {}

  static constexpr Duration Scaled(std::int64_t n, std::int64_t unit) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(n, unit, &product)) return (n < 0) == (unit < 0) ? Max() : Min();
    return Duration(product);
  }

  std::int64_t nanoseconds_ = 0;
};

class Instant {
 public:
  constexpr Instant() = default;

  // For loops, which know what zero means; everybody else adds and subtracts.
  [[nodiscard]] static constexpr Instant FromClock(Duration since_zero) {
    return Instant(since_zero);
  }
  // Later than every moment that a loop reports.
  [[nodiscard]] static constexpr Instant Never() { return Instant(Duration::Max()); }

  [[nodiscard]] constexpr Duration since_zero() const { return since_zero_; }

  friend constexpr Instant operator+(Instant at, Duration d) { return Instant(at.since_zero_ + d); }
  friend constexpr Instant operator-(Instant at, Duration d) { return Instant(at.since_zero_ - d); }
  friend constexpr Duration operator-(Instant a, Instant b) {
    return a.since_zero_ - b.since_zero_;
  }
  friend constexpr auto operator<=>(Instant, Instant) = default;

 private:
  explicit constexpr Instant(Duration since_zero) : since_zero_(since_zero) {}
  Duration since_zero_;
};

class Timestamp {
 public:
  // 1970-01-01T00:00:00Z.
  constexpr Timestamp() = default;

  // Clamped to the years 0000 to 9999. REQUIRES: nanoseconds < 1,000,000,000.
  [[nodiscard]] static Timestamp FromUnix(std::int64_t seconds, std::int32_t nanoseconds = 0);
  // 0001-01-01T00:00:00Z, the zero time of Go; a released lease carries it.
  [[nodiscard]] static Timestamp GoZero();

  [[nodiscard]] constexpr std::int64_t unix_seconds() const { return seconds_; }
  [[nodiscard]] constexpr std::int32_t nanoseconds() const { return nanoseconds_; }
  // Rounded down; never overflows, since a year has four digits.
  [[nodiscard]] constexpr std::int64_t unix_milliseconds() const {
    return (seconds_ * 1'000) + (nanoseconds_ / 1'000'000);
  }
  // The same moment with the fraction of the second dropped.
  [[nodiscard]] Timestamp TruncatedToSecond() const;

  friend Timestamp operator+(Timestamp at, Duration d);
  friend Timestamp operator-(Timestamp at, Duration d);
  // Saturates when the two are more than 292 years apart.
  friend Duration operator-(Timestamp a, Timestamp b);
  friend constexpr auto operator<=>(const Timestamp&, const Timestamp&) = default;

 private:
  constexpr Timestamp(std::int64_t seconds, std::int32_t nanoseconds)
      : seconds_(seconds), nanoseconds_(nanoseconds) {}

  std::int64_t seconds_ = 0;
  std::int32_t nanoseconds_ = 0;
};

[[nodiscard]] Result<Duration> ParseDuration(std::string_view text);
[[nodiscard]] std::string FormatDuration(Duration duration);

[[nodiscard]] Result<Timestamp> ParseTimestamp(std::string_view text);
[[nodiscard]] std::string FormatTimestamp(Timestamp at);

// Year, month (1-12), day of a UTC moment, for formats that need the parts.
struct CivilTime {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
};
[[nodiscard]] CivilTime ToCivil(Timestamp at);

}  // namespace nstance

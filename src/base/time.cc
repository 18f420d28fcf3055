#include "base/time.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr std::int64_t kSecondsPerDay = 86'400;
constexpr std::int64_t kFirstSecond = -62'167'219'200;  // 0000-01-01T00:00:00Z
constexpr std::int64_t kLastSecond = 253'402'300'799;   // 9999-12-31T23:59:59Z
constexpr int kFractionDigits = 9;

// Days since 1970-01-01 in the proleptic Gregorian calendar. Years are counted from March, so that
// the leap day is the last of its year, in eras of 400 years (146,097 days).
constexpr std::int64_t DaysFromCivil(std::int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t year_of_era = year - (era * 400);
  const std::int64_t month_from_march = (month + 9) % 12;
  const std::int64_t day_of_year = (((153 * month_from_march) + 2) / 5) + day - 1;
  const std::int64_t day_of_era =
      (year_of_era * 365) + (year_of_era / 4) - (year_of_era / 100) + day_of_year;
  return (era * 146'097) + day_of_era - 719'468;
}

constexpr bool IsLeap(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

constexpr int DaysInMonth(int year, int month) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && IsLeap(year) ? 29 : kDays.at(static_cast<std::size_t>(month - 1));
}

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::optional<std::uint64_t> UnitNanoseconds(std::string_view unit) {
  if (unit == "ns") return 1;
  if (unit == "us" || unit == "\xC2\xB5s" || unit == "\xCE\xBCs") return 1'000;
  if (unit == "ms") return 1'000'000;
  if (unit == "s") return 1'000'000'000;
  if (unit == "m") return 60'000'000'000;
  if (unit == "h") return 3'600'000'000'000;
  if (unit == "d") return 86'400'000'000'000;
  return std::nullopt;
}

Error BadDuration(std::string_view text, std::string_view why) {
  return InvalidArgument(
      fmt::format("{} is not a duration: {}; numbers with a unit (ns, us, ms, s, m, h, d), such as "
                  "90s or 1h30m",
                  Quote(text), why));
}

// One "number unit" term. The fraction is scaled the way Go does it: digits beyond what fits are
// dropped, and the result is truncated.
struct Term {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;
  double scale = 1;
};

constexpr std::uint64_t kMagnitudeLimit = std::uint64_t{1} << 63;

// Reads digits before the point. False when the number does not fit.
bool ReadWhole(std::string_view& rest, std::uint64_t& value) {
  while (!rest.empty() && IsDigit(rest.front())) {
    if (value > kMagnitudeLimit / 10) return false;
    value = (value * 10) + static_cast<std::uint64_t>(rest.front() - '0');
    if (value > kMagnitudeLimit) return false;
    rest.remove_prefix(1);
  }
  return true;
}

void ReadFraction(std::string_view& rest, Term& term) {
  bool full = false;
  for (; !rest.empty() && IsDigit(rest.front()); rest.remove_prefix(1)) {
    if (full) continue;
    if (term.fraction > (kMagnitudeLimit - 1) / 10) {
      full = true;
      continue;
    }
    const std::uint64_t next =
        (term.fraction * 10) + static_cast<std::uint64_t>(rest.front() - '0');
    if (next > kMagnitudeLimit) {
      full = true;
      continue;
    }
    term.fraction = next;
    term.scale *= 10;
  }
}

}  // namespace

Timestamp Timestamp::FromUnix(std::int64_t seconds, std::int32_t nanoseconds) {
  CHECK(nanoseconds >= 0 && nanoseconds < kNanosecondsPerSecond, "nanoseconds {}", nanoseconds);
  if (seconds < kFirstSecond) return {kFirstSecond, 0};
  if (seconds > kLastSecond) {
    return {kLastSecond, static_cast<std::int32_t>(kNanosecondsPerSecond - 1)};
  }
  return {seconds, nanoseconds};
}

Timestamp Timestamp::GoZero() { return {-62'135'596'800, 0}; }

Timestamp Timestamp::TruncatedToSecond() const { return {seconds_, 0}; }

Timestamp operator+(Timestamp at, Duration d) {
  std::int64_t seconds = at.seconds_ + (d.nanoseconds() / kNanosecondsPerSecond);
  std::int64_t nanoseconds = at.nanoseconds_ + (d.nanoseconds() % kNanosecondsPerSecond);
  if (nanoseconds < 0) {
    nanoseconds += kNanosecondsPerSecond;
    --seconds;
  } else if (nanoseconds >= kNanosecondsPerSecond) {
    nanoseconds -= kNanosecondsPerSecond;
    ++seconds;
  }
  return Timestamp::FromUnix(seconds, static_cast<std::int32_t>(nanoseconds));
}

Timestamp operator-(Timestamp at, Duration d) {
  // -Min() does not exist; one nanosecond less is as far as the calendar reaches anyway.
  const std::int64_t n = std::max(d.nanoseconds(), std::numeric_limits<std::int64_t>::min() + 1);
  return at + Duration::Nanoseconds(-n);
}

Duration operator-(Timestamp a, Timestamp b) {
  return Duration::Seconds(a.seconds_ - b.seconds_) +
         Duration::Nanoseconds(a.nanoseconds_ - b.nanoseconds_);
}

Result<Duration> ParseDuration(std::string_view text) {
  std::string_view rest = text;
  bool negative = false;
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) {
    negative = rest.front() == '-';
    rest.remove_prefix(1);
  }
  if (rest == "0") return Duration();
  if (rest.empty()) return Fail(BadDuration(text, "it is empty"));

  std::uint64_t total = 0;
  while (!rest.empty()) {
    if (rest.front() != '.' && !IsDigit(rest.front())) {
      return Fail(BadDuration(text, "a number is missing"));
    }
    Term term;
    const std::size_t before = rest.size();
    if (!ReadWhole(rest, term.whole)) return Fail(BadDuration(text, "it is too long"));
    bool digits = rest.size() != before;
    if (!rest.empty() && rest.front() == '.') {
      rest.remove_prefix(1);
      const std::size_t before_fraction = rest.size();
      ReadFraction(rest, term);
      digits = digits || rest.size() != before_fraction;
    }
    if (!digits) return Fail(BadDuration(text, "a number is missing"));

    const auto unit_end = std::ranges::find_if(rest, [](char c) { return c == '.' || IsDigit(c); });
    const std::string_view unit_text(rest.begin(), unit_end);
    if (unit_text.empty()) return Fail(BadDuration(text, "a unit is missing"));
    const std::optional<std::uint64_t> unit = UnitNanoseconds(unit_text);
    if (!unit) return Fail(BadDuration(text, fmt::format("unknown unit {}", Quote(unit_text))));
    rest.remove_prefix(unit_text.size());

    if (term.whole > kMagnitudeLimit / *unit) return Fail(BadDuration(text, "it is too long"));
    std::uint64_t value = term.whole * *unit;
    if (term.fraction > 0) {
      value += static_cast<std::uint64_t>(static_cast<double>(term.fraction) *
                                          (static_cast<double>(*unit) / term.scale));
      if (value > kMagnitudeLimit) return Fail(BadDuration(text, "it is too long"));
    }
    if (value > kMagnitudeLimit - total) return Fail(BadDuration(text, "it is too long"));
    total += value;
  }
  if (negative) return Duration::Nanoseconds(static_cast<std::int64_t>(~total + 1));
  if (total == kMagnitudeLimit) return Fail(BadDuration(text, "it is too long"));
  return Duration::Nanoseconds(static_cast<std::int64_t>(total));
}

namespace {

// "1.5" from 1,500,000 with a unit of 1,000,000: the fraction without trailing zeros.
std::string WithFraction(std::uint64_t value, std::uint64_t unit, int digits) {
  std::string text = fmt::format("{}", value / unit);
  if (const std::uint64_t fraction = value % unit; fraction != 0) {
    std::string tail = fmt::format("{:0{}}", fraction, digits);
    tail.erase(tail.find_last_not_of('0') + 1);
    text.append(".").append(tail);
  }
  return text;
}

}  // namespace

std::string FormatDuration(Duration duration) {
  const bool negative = duration.nanoseconds() < 0;
  const auto bits = static_cast<std::uint64_t>(duration.nanoseconds());
  const std::uint64_t n = negative ? ~bits + 1 : bits;
  const std::string sign = negative ? "-" : "";
  if (n == 0) return "0s";
  if (n < 1'000) return fmt::format("{}{}ns", sign, n);
  if (n < 1'000'000) return sign + WithFraction(n, 1'000, 3) + "\xC2\xB5s";
  if (n < 1'000'000'000) return sign + WithFraction(n, 1'000'000, 6) + "ms";

  constexpr std::uint64_t kMinute = 60'000'000'000;
  const std::uint64_t minutes = n / kMinute;
  std::string text = sign;
  if (minutes >= 60) text += fmt::format("{}h", minutes / 60);
  if (minutes > 0) text += fmt::format("{}m", minutes % 60);
  return text + WithFraction(n % kMinute, 1'000'000'000, 9) + "s";
}

CivilTime ToCivil(Timestamp at) {
  std::int64_t days = at.unix_seconds() / kSecondsPerDay;
  std::int64_t second_of_day = at.unix_seconds() % kSecondsPerDay;
  if (second_of_day < 0) {
    second_of_day += kSecondsPerDay;
    --days;
  }
  // The inverse of DaysFromCivil.
  days += 719'468;
  const std::int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const std::int64_t day_of_era = days - (era * 146'097);
  const std::int64_t year_of_era =
      (day_of_era - (day_of_era / 1'460) + (day_of_era / 36'524) - (day_of_era / 146'096)) / 365;
  const std::int64_t day_of_year =
      day_of_era - ((365 * year_of_era) + (year_of_era / 4) - (year_of_era / 100));
  const std::int64_t month_from_march = ((5 * day_of_year) + 2) / 153;
  const std::int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
  const std::int64_t year = (era * 400) + year_of_era + (month <= 2 ? 1 : 0);
  return CivilTime{.year = static_cast<int>(year),
                   .month = static_cast<int>(month),
                   .day = static_cast<int>(day_of_year - (((153 * month_from_march) + 2) / 5) + 1),
                   .hour = static_cast<int>(second_of_day / 3'600),
                   .minute = static_cast<int>(second_of_day / 60 % 60),
                   .second = static_cast<int>(second_of_day % 60)};
}

namespace {

// Reads fixed-width fields of a timestamp from the front of `rest`.
class FieldReader {
 public:
  explicit FieldReader(std::string_view text) : rest_(text) {}

  std::optional<int> Number(std::size_t width, int low, int high) {
    if (rest_.size() < width) return std::nullopt;
    int value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      if (!IsDigit(rest_[i])) return std::nullopt;
      value = (value * 10) + (rest_[i] - '0');
    }
    rest_.remove_prefix(width);
    if (value < low || value > high) return std::nullopt;
    return value;
  }

  bool Take(std::string_view any_of) {
    if (rest_.empty() || !any_of.contains(rest_.front())) return false;
    last_ = rest_.front();
    rest_.remove_prefix(1);
    return true;
  }

  // One to nine digits after the point, as nanoseconds.
  std::optional<std::int32_t> Fraction() {
    std::int32_t value = 0;
    int digits = 0;
    for (; !rest_.empty() && IsDigit(rest_.front()); rest_.remove_prefix(1)) {
      if (++digits > kFractionDigits) return std::nullopt;
      value = (value * 10) + (rest_.front() - '0');
    }
    if (digits == 0) return std::nullopt;
    for (; digits < kFractionDigits; ++digits) value *= 10;
    return value;
  }

  [[nodiscard]] char last() const { return last_; }
  [[nodiscard]] bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  char last_ = 0;
};

std::optional<Timestamp> TryParseTimestamp(std::string_view text) {
  FieldReader reader(text);
  const auto year = reader.Number(4, 0, 9999);
  if (!year || !reader.Take("-")) return std::nullopt;
  const auto month = reader.Number(2, 1, 12);
  if (!month || !reader.Take("-")) return std::nullopt;
  const auto day = reader.Number(2, 1, DaysInMonth(*year, *month));
  if (!day || !reader.Take("Tt")) return std::nullopt;
  const auto hour = reader.Number(2, 0, 23);
  if (!hour || !reader.Take(":")) return std::nullopt;
  const auto minute = reader.Number(2, 0, 59);
  if (!minute || !reader.Take(":")) return std::nullopt;
  const auto second = reader.Number(2, 0, 59);
  if (!second) return std::nullopt;

  std::int32_t nanoseconds = 0;
  if (reader.Take(".")) {
    const auto fraction = reader.Fraction();
    if (!fraction) return std::nullopt;
    nanoseconds = *fraction;
  }
  std::int64_t offset = 0;
  if (!reader.Take("Zz")) {
    if (!reader.Take("+-")) return std::nullopt;
    const std::int64_t sign = reader.last() == '-' ? -1 : 1;
    const auto offset_hour = reader.Number(2, 0, 23);
    if (!offset_hour || !reader.Take(":")) return std::nullopt;
    const auto offset_minute = reader.Number(2, 0, 59);
    if (!offset_minute) return std::nullopt;
    offset = sign * ((*offset_hour * 3'600) + (*offset_minute * 60));
  }
  if (!reader.done()) return std::nullopt;

  const std::int64_t seconds = (DaysFromCivil(*year, *month, *day) * kSecondsPerDay) +
                               (*hour * std::int64_t{3'600}) + (*minute * std::int64_t{60}) +
                               *second - offset;
  if (seconds < kFirstSecond || seconds > kLastSecond) return std::nullopt;
  return Timestamp::FromUnix(seconds, nanoseconds);
}

}  // namespace

Result<Timestamp> ParseTimestamp(std::string_view text) {
  if (const auto at = TryParseTimestamp(text)) return *at;
  return Fail(InvalidArgument(
      fmt::format("{} is not a time; RFC 3339, such as 2026-01-31T08:00:00Z", Quote(text))));
}

std::string FormatTimestamp(Timestamp at) {
  const CivilTime civil = ToCivil(at);
  std::string text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:", civil.year, civil.month,
                                 civil.day, civil.hour, civil.minute);
  const auto second = static_cast<std::uint64_t>(civil.second);
  const auto nanoseconds = static_cast<std::uint64_t>(at.nanoseconds());
  if (civil.second < 10) text += "0";
  return text + WithFraction((second * 1'000'000'000) + nanoseconds, 1'000'000'000, 9) + "Z";
}

}  // namespace nstance

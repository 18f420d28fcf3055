#include "core/config/rule.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace nstance::config {
namespace {

constexpr std::int64_t kMaxHours = 876'000;
constexpr std::size_t kMaxFileName = 128;
constexpr std::size_t kMaxLabel = 63;
constexpr std::size_t kMaxHost = 253;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string Numbers(std::int64_t min, std::int64_t max) {
  return fmt::format("a whole number from {} to {}", min, max);
}

// Reads a whole number in a range, or reports.
std::optional<std::int64_t> ReadWhole(Reading& reading, const Place& place, std::int64_t min,
                                      std::int64_t max) {
  const auto number = place.value()->AsDouble();
  if (!number) {
    TypeError(reading, place, Numbers(min, max));
    return std::nullopt;
  }
  const std::int64_t* whole = place.value()->if_integer();
  std::string_view wrong = "is not a whole number";
  if (whole != nullptr && *whole >= min && *whole <= max) return *whole;
  if (*number < static_cast<decltype(*number)>(min)) wrong = "is below the minimum";
  if (*number > static_cast<decltype(*number)>(max)) wrong = "is above the maximum";
  reading.problems.Error(place, fmt::format("{} {}; {}", Shown(place), wrong, Numbers(min, max)));
  return std::nullopt;
}

// The host of an address, brackets removed; nothing when it is no host.
std::optional<std::string> Host(std::string_view text) {
  const bool bracketed = text.starts_with('[') && text.ends_with(']');
  if (bracketed) text = text.substr(1, text.size() - 2);
  if (text.size() > kMaxHost || (bracketed && text.empty())) return std::nullopt;
  const bool plain = std::ranges::all_of(text, [&](char c) {
    if (bracketed) return IsDigit(c) || IsLetter(c) || c == ':' || c == '.' || c == '%';
    return IsDigit(c) || IsLetter(c) || c == '.' || c == '-' || c == '_';
  });
  if (!plain || (bracketed && text.find(':') == std::string_view::npos)) return std::nullopt;
  return std::string(text);
}

std::optional<Address> ParseAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::optional<std::string> host = Host(text.substr(0, colon));
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (!host || digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return Address{.host = *std::move(host), .port = port};
}

Result<std::string> ParseVariableName(std::string_view text) {
  const bool good =
      !text.empty() && text.size() <= kMaxFileName && !IsDigit(text.front()) &&
      std::ranges::all_of(text, [](char c) { return IsDigit(c) || IsLetter(c) || c == '_'; });
  if (good) return std::string(text);
  return Fail(InvalidArgument(fmt::format(
      "{} is not allowed as a name; letters, digits and underscores, not starting with a digit",
      Quote(text))));
}

Result<std::string> ParseLabel(std::string_view text) {
  const bool good = !text.empty() && text.size() <= kMaxLabel &&
                    (IsDigit(text.front()) || IsLetter(text.front())) &&
                    std::ranges::all_of(text, [](char c) {
                      return IsDigit(c) || IsLetter(c) || c == '_' || c == '-' || c == '.';
                    });
  if (good) return std::string(text);
  return Fail(InvalidArgument(
      fmt::format("{} is not allowed as a name; 1 to 63 letters, digits, dots, underscores and "
                  "hyphens, starting with a letter or digit",
                  Quote(text))));
}

Result<std::string> ParseFileName(std::string_view text) {
  const bool plain =
      !text.empty() && text.size() <= kMaxFileName && text.front() != '.' &&
      std::ranges::all_of(text, [](char c) {
        return static_cast<unsigned char>(c) >= 0x20 && c != '/' && c != '\\' && c != 0x7F;
      });
  if (plain && text != "write-files.last" && text != "errors") return std::string(text);
  return Fail(InvalidArgument(
      fmt::format("{} is not allowed as a file name; 1 to 128 bytes without slashes and control "
                  "characters, not starting with a dot, not `write-files.last` or `errors`",
                  Quote(text))));
}

Result<TenantId> ParseDeclaredTenant(std::string_view text) {
  if (text == DefaultTenant().text()) {
    return Fail(InvalidArgument(
        "\"default\" always exists and cannot be declared; remove it, its groups stay"));
  }
  return TenantId::Parse(text);
}

}  // namespace

std::string Shown(const Place& place) {
  if (place.value() == nullptr || place.hidden()) return "the value";
  if (const std::string* text = place.value()->if_string()) return Quote(*text);
  if (place.value()->if_array() != nullptr) return "the list";
  if (place.value()->if_object() != nullptr) return "the object";
  return json::Write(*place.value());
}

void TypeError(Reading& reading, const Place& place, std::string_view allowed) {
  reading.problems.Error(place,
                         fmt::format("is {}; {}", json::TypeName(place.value()->type()), allowed));
}

std::string ShortDuration(Duration duration) {
  constexpr std::int64_t kDay = Duration::Days(1).nanoseconds();
  const std::int64_t nanoseconds = duration.nanoseconds();
  if (nanoseconds > kDay && nanoseconds % kDay == 0) {
    return fmt::format("{}d", nanoseconds / kDay);
  }
  std::string text = FormatDuration(duration);
  if (text.ends_with("m0s")) text.resize(text.size() - 2);
  if (text.ends_with("h0m")) text.resize(text.size() - 2);
  return text;
}

std::string NotDefined(Problems& problems, const Place& place, std::string_view what,
                       const std::vector<std::string_view>& defined) {
  if (!problems.Wants(place.position())) return "is not defined";
  std::string message = Shown(place) + " is not defined; ";
  if (defined.empty()) {
    message += "there is none";
  } else if (defined.size() <= kMaxListed) {
    message += "one of: " + Listed(defined);
  } else {
    message += what;
  }
  const std::string* text = place.value() == nullptr ? nullptr : place.value()->if_string();
  if (text != nullptr && problems.MaySuggest()) message += DidYouMean(*text, defined);
  return message;
}

std::string TextRule::Range() const {
  return fmt::format("a string of {} to {} bytes", empty_ == Empty::kAllowed ? 0 : 1, max_);
}

std::string TextRule::Allowed() const {
  if (max_ < kGenerous) return Range();
  return empty_ == Empty::kAllowed ? "a string" : "a string that is not empty";
}

std::optional<std::string> TextRule::Read(Reading& reading, const Place& place) const {
  const std::string* text = place.value()->if_string();
  if (text == nullptr) {
    TypeError(reading, place, Allowed());
    return std::nullopt;
  }
  if (text->empty() && empty_ == Empty::kRefused) {
    reading.problems.Error(place, "is empty; " + Allowed());
    return std::nullopt;
  }
  if (text->size() > max_) {
    reading.problems.Error(place, fmt::format("has {} bytes; {}", text->size(), Range()));
    return std::nullopt;
  }
  return *text;
}

std::string TextRule::Show(const std::string& value) const { return value; }

std::optional<std::string> ShapedTextRule::Read(Reading& reading, const Place& place) const {
  const std::string* text = place.value()->if_string();
  if (text == nullptr) {
    TypeError(reading, place, allowed_);
    return std::nullopt;
  }
  if (check_(*text)) return *text;
  reading.problems.Error(place, fmt::format("{} is not allowed; {}", Shown(place), allowed_));
  return std::nullopt;
}

std::optional<bool> BoolRule::Read(Reading& reading, const Place& place) const {
  if (const bool* value = place.value()->if_bool()) return *value;
  TypeError(reading, place, Allowed());
  return std::nullopt;
}

std::string IntRule::Allowed() const { return Numbers(min_, max_); }

std::optional<int> IntRule::Read(Reading& reading, const Place& place) const {
  const std::optional<std::int64_t> number = ReadWhole(reading, place, min_, max_);
  if (!number) return std::nullopt;
  return static_cast<int>(*number);
}

std::string DurationRule::Allowed() const {
  std::string allowed = "a duration such as \"90s\" or \"1h30m\"";
  const bool bounded_below = range_.min > Duration();
  const bool bounded_above = range_.max < Duration::Max();
  if (bounded_below && bounded_above) {
    allowed = fmt::format("a duration from {} to {}", ShortDuration(range_.min),
                          ShortDuration(range_.max));
  } else if (bounded_below) {
    allowed = fmt::format("a duration of at least {}", ShortDuration(range_.min));
  } else if (bounded_above) {
    allowed = fmt::format("a duration of at most {}", ShortDuration(range_.max));
  }
  if (range_.or_zero && bounded_below) allowed += ", or 0s";
  return allowed;
}

std::optional<Duration> DurationRule::Read(Reading& reading, const Place& place) const {
  const auto bad = [&](std::string_view wrong) -> std::optional<Duration> {
    reading.problems.Error(place, fmt::format("{} {}; {}", Shown(place), wrong, Allowed()));
    return std::nullopt;
  };
  std::optional<Duration> duration;
  if (const std::string* text = place.value()->if_string()) {
    const Result<Duration> parsed = ParseDuration(*text);
    if (!parsed) return bad("is not a duration with a unit (ns, us, ms, s, m, h, d)");
    duration = *parsed;
  } else if (const std::int64_t* number = place.value()->if_integer();
             number != nullptr && *number == 0) {
    duration = Duration();
  } else {
    TypeError(reading, place, Allowed());
    return std::nullopt;
  }
  if (range_.or_zero && *duration == Duration()) return duration;
  if (*duration < Duration()) return bad("is negative");
  if (*duration < range_.min) return bad("is below the minimum");
  if (*duration > range_.max) return bad("is above the maximum");
  return duration;
}

std::string HoursRule::Allowed() const {
  return fmt::format("a whole number of hours from 1 to {}, or a duration from 1m to {}h",
                     max_hours_, max_hours_);
}

std::optional<Duration> HoursRule::Read(Reading& reading, const Place& place) const {
  static_assert(Duration::Hours(kMaxHours) < Duration::Max());
  const auto bad = [&](std::string_view wrong) -> std::optional<Duration> {
    reading.problems.Error(place, fmt::format("{} {}; {}", Shown(place), wrong, Allowed()));
    return std::nullopt;
  };
  std::optional<Duration> life;
  Duration least = Duration::Minutes(1);
  if (const std::string* text = place.value()->if_string()) {
    const Result<Duration> parsed = ParseDuration(*text);
    if (!parsed) return bad("is not a duration with a unit (ns, us, ms, s, m, h, d)");
    life = *parsed;
  } else if (const std::int64_t* hours = place.value()->if_integer()) {
    life = Duration::Hours(*hours);
    least = Duration::Hours(1);
  } else if (place.value()->AsDouble()) {
    return bad("is not a whole number");
  } else {
    TypeError(reading, place, Allowed());
    return std::nullopt;
  }
  if (*life < least) return bad("is below the minimum");
  if (*life > Duration::Hours(max_hours_)) return bad("is above the maximum");
  return life;
}

std::string HoursRule::Show(const Duration& value) const {
  return fmt::format("{}", value.seconds() / 3'600);
}

std::string AddressRule::Allowed() const {
  return use_ == Use::kBind
             ? "host:port (IPv6 in brackets), the host may be empty, port 0 is a free one"
             : "host:port (IPv6 in brackets), port 0 is the one that is bound";
}

std::optional<Address> AddressRule::Read(Reading& reading, const Place& place) const {
  const std::string* text = place.value()->if_string();
  if (text == nullptr) {
    TypeError(reading, place, Allowed());
    return std::nullopt;
  }
  std::optional<Address> address = ParseAddress(*text);
  std::string_view wrong = "is not an address";
  if (address && address->host.empty() && use_ == Use::kAdvertise) {
    wrong = "has no host";
    address.reset();
  }
  if (!address) {
    reading.problems.Error(place, fmt::format("{} {}; {}", Shown(place), wrong, Allowed()));
  }
  return address;
}

std::string OneOf(const std::vector<std::string_view>& words) { return "one of: " + Listed(words); }

std::string BadWord(Reading& reading, const Place& place,
                    const std::vector<std::string_view>& words) {
  std::string message = fmt::format("{} is not allowed; {}", Shown(place), OneOf(words));
  if (reading.problems.MaySuggest()) message += DidYouMean(*place.value()->if_string(), words);
  return message;
}

std::optional<json::Object> AnyObjectRule::Read(Reading& reading, const Place& place) const {
  if (const json::Object* object = place.value()->if_object()) return *object;
  TypeError(reading, place, Allowed());
  return std::nullopt;
}

std::optional<json::Value> AnyValueRule::Read(Reading& /*reading*/, const Place& place) const {
  return *place.value();
}

KeyRule<TenantId> DeclaredTenantKey() { return {.what = "tenant", .parse = &ParseDeclaredTenant}; }
KeyRule<std::string> VariableKey() { return {.what = "name", .parse = &ParseVariableName}; }
KeyRule<std::string> LabelKey(std::string_view what) {
  return {.what = what, .parse = &ParseLabel};
}
KeyRule<std::string> FileNameKey() { return {.what = "file", .parse = &ParseFileName}; }

MapRule<std::string, std::string> VariablesRule() {
  constexpr std::size_t kMaxValue = std::size_t{256} * 1024;
  return MapOf(VariableKey(), TextRule(kMaxValue, TextRule::Empty::kAllowed));
}

}  // namespace nstance::config

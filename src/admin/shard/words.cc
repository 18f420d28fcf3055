#include "admin/shard/words.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace nstance::admin {
namespace {

constexpr std::array<std::string_view, 8> kPhases = {
    "intended", "creating", "provisioned", "registered", "draining", "deleting", "gone", "failed"};

constexpr std::int64_t kMinute = 60;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;

}  // namespace

std::string_view PhaseWord(api::InstancePhase phase) {
  const auto index = static_cast<int>(phase) - 1;
  if (index < 0 || index >= static_cast<int>(kPhases.size())) return "unknown";
  return kPhases[static_cast<std::size_t>(index)];
}

std::optional<api::InstancePhase> PhaseOf(std::string_view word) {
  const auto* const found = std::ranges::find(kPhases, word);
  if (found == kPhases.end()) return std::nullopt;
  return static_cast<api::InstancePhase>(found - kPhases.begin() + 1);
}

std::span<const std::string_view> PhaseWords() { return kPhases; }

std::string Age(Duration age) {
  const std::int64_t seconds = std::max<std::int64_t>(0, age.seconds());
  if (seconds < kMinute) return fmt::format("{}s", seconds);
  if (seconds < kHour && seconds % kMinute == 0) return fmt::format("{}m", seconds / kMinute);
  if (seconds < kHour) return fmt::format("{}m{}s", seconds / kMinute, seconds % kMinute);
  if (seconds < kDay) return fmt::format("{}h", seconds / kHour);
  return fmt::format("{}d", seconds / kDay);
}

std::string AgeSince(const std::optional<Timestamp>& then, Timestamp now) {
  return then ? Age(now - *then) : "-";
}

std::string ClockTime(Timestamp at, Timestamp now) {
  const CivilTime civil = ToCivil(at);
  const CivilTime today = ToCivil(now);
  const bool same =
      civil.year == today.year && civil.month == today.month && civil.day == today.day;
  if (!same) return FormatTimestamp(at.TruncatedToSecond());
  return fmt::format("{:02}:{:02}:{:02}", civil.hour, civil.minute, civil.second);
}

std::string Stopwatch(Duration elapsed) {
  const std::int64_t seconds = std::max<std::int64_t>(0, elapsed.seconds());
  const std::int64_t minutes = (seconds / kMinute) % 60;
  if (seconds < kHour) return fmt::format("{:02}:{:02}", minutes, seconds % kMinute);
  return fmt::format("{}:{:02}:{:02}", seconds / kHour, minutes, seconds % kMinute);
}

std::string Count(std::size_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace nstance::admin

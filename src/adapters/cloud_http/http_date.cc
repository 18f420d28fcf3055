#include "adapters/cloud_http/http_date.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

namespace nstance::cloud {

std::optional<Timestamp> ParseHttpDate(std::string_view text) {
  constexpr std::string_view kForm = "Www, 00 Mmm 0000 00:00:00 GMT";
  constexpr auto kMonths = std::to_array<std::string_view>(
      {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"});
  if (text.size() != kForm.size() || text.substr(3, 2) != ", " || text.substr(25) != " GMT") {
    return std::nullopt;
  }
  const auto* month = std::ranges::find(kMonths, text.substr(8, 3));
  if (month == kMonths.end()) return std::nullopt;
  const auto parsed = ParseTimestamp(fmt::format("{}-{:02}-{}T{}Z", text.substr(12, 4),
                                                 (month - kMonths.begin()) + 1, text.substr(5, 2),
                                                 text.substr(17, 8)));
  const bool blanks = text[7] == ' ' && text[11] == ' ' && text[16] == ' ';
  if (!parsed || !blanks) return std::nullopt;
  return *parsed;
}

}  // namespace nstance::cloud

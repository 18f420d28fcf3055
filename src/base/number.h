// Whole numbers from text, as flags and small tables have them.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace nstance {

// Decimal digits, with a minus in front where the type has a sign, and nothing else. Empty: it is
// no number, or does not fit.
template <std::integral Number>
[[nodiscard]] std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last) return std::nullopt;
  return number;
}

}  // namespace nstance

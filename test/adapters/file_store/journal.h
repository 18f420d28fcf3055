// What the writer program and the test that kills it have in common: contents that show a torn
// write, and the lines of the writer's journal.
//
// Content: "<id> <length>\n" and then `length` bytes that follow from the id. Ids are never used
// twice.
//
// Journal, one line per event, each written with one system call:
//   try KEY ID        a write of this content is about to be sent; ID "-" is a delete
//   ack KEY ID FROM   it was applied; FROM is the version that it replaced, "-" for a create
//   not KEY ID        it was surely not applied
//   inc VALUE         the counter was raised to this value
//   torn KEY          something was read that nobody has written
//   fail TEXT         the program cannot go on
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace nstance::test {

inline constexpr std::string_view kCounterKey = "shared/counter";

[[nodiscard]] inline std::string MakeContent(std::string_view id, std::size_t length) {
  std::string content = fmt::format("{} {}\n", id, length);
  std::uint64_t state = std::uint64_t{0xCBF29CE484222325};
  for (const char c : id) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  for (std::size_t i = 0; i < length; ++i) {
    state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    content.push_back(static_cast<char>('a' + ((state >> 40U) % 26)));
  }
  return content;
}

// The id of a whole content, or empty when it is torn.
[[nodiscard]] inline std::string ContentId(std::string_view content) {
  const std::size_t blank = content.find(' ');
  const std::size_t newline = content.find('\n');
  if (blank == std::string_view::npos || newline == std::string_view::npos || newline < blank) {
    return {};
  }
  std::size_t length = 0;
  const std::string_view digits = content.substr(blank + 1, newline - blank - 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (content.size() != newline + 1 + length) return {};
  std::string id(content.substr(0, blank));
  return MakeContent(id, length) == content ? id : std::string();
}

// The number that the counter's ids begin with.
[[nodiscard]] inline std::uint64_t CounterValue(std::string_view id) {
  std::uint64_t value = 0;
  std::from_chars(id.data(), id.data() + id.size(), value);
  return value;
}

}  // namespace nstance::test

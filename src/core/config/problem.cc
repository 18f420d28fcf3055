#include "core/config/problem.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/text.h"

namespace nstance::config {
namespace {

constexpr std::size_t kBefore = 60;
constexpr std::size_t kAfter = 40;

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// How many columns a terminal uses for `text`, near enough: one per code point.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !Continues(c); }));
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += c;  // Harmless here, and the reader wants to see the file as it is.
    } else if (c == '\t') {
      out += ' ';
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      out += c;
    } else {
      AppendEscaped(out, std::string_view(&c, 1));
    }
  }
  return IsValidUtf8(out) ? out : std::string();
}

}  // namespace

std::string Format(const Problem& problem, std::string_view file) {
  const std::string path = problem.path.empty() ? "" : problem.path + ": ";
  return fmt::format("{}:{}:{}: {}{}", file, problem.at.line, problem.at.column, path,
                     problem.message);
}

std::string FormatWithExcerpt(const Problem& problem, std::string_view file,
                              std::string_view text) {
  std::string out = Format(problem, file) + "\n";
  if (problem.hides_value || problem.offset > text.size()) return out;
  const std::size_t before = text.substr(0, problem.offset).rfind('\n');
  const std::size_t line_start = before == std::string_view::npos ? 0 : before + 1;
  std::size_t line_end = text.find('\n', problem.offset);
  if (line_end == std::string_view::npos) line_end = text.size();
  std::size_t from = std::max(line_start, problem.offset - std::min(problem.offset, kBefore));
  while (from < problem.offset && Continues(text[from])) ++from;
  std::size_t to = std::min(line_end, problem.offset + kAfter);
  while (to < line_end && Continues(text[to])) ++to;
  const std::string left = Escaped(text.substr(from, problem.offset - from));
  const std::string right = Escaped(text.substr(problem.offset, to - problem.offset));
  if (left.empty() && right.empty()) return out;
  const std::string_view cut = from > line_start ? "..." : "";
  const std::string_view more = to < line_end ? "..." : "";
  out += fmt::format("{:>6} | {}{}{}{}\n", problem.at.line, cut, left, right, more);
  out += fmt::format("{:>6} | {:>{}}\n", "", "^", cut.size() + Width(left) + 1);
  return out;
}

}  // namespace nstance::config

#include "core/config/problems.h"

#include <algorithm>
#include <tuple>

#include "core/config/load.h"

namespace nstance::config {
namespace {

constexpr std::size_t kMaxSuggestions = 200;

bool Earlier(const Problem& a, const Problem& b) {
  return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
}

// Fills in offsets. `problems` are sorted, so one pass over the text does.
void Locate(std::vector<Problem>& problems, std::string_view text) {
  std::size_t line_start = 0;
  std::uint32_t line = 1;
  for (Problem& problem : problems) {
    while (line < problem.at.line) {
      const std::size_t end = text.find('\n', line_start);
      if (end == std::string_view::npos) break;
      line_start = end + 1;
      ++line;
    }
    const std::size_t column = problem.at.column == 0 ? 0 : problem.at.column - 1;
    problem.offset = std::min(line_start + column, text.size());
  }
}

}  // namespace

std::string NameInFile(const PathNames& names, std::string path) {
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& name : names) {
    if (!path.starts_with(name.first)) continue;
    const std::size_t end = name.first.size();
    if (path.size() > end && path[end] != '.' && path[end] != '[') continue;
    if (best == nullptr || name.first.size() > best->first.size()) best = &name;
  }
  if (best == nullptr) return path;
  return best->second + path.substr(best->first.size());
}

void Problems::Error(const Place& place, std::string_view message) {
  Add(errors_, place, place.position(), message);
}

void Problems::ErrorAtKey(const Place& place, std::string_view message) {
  Add(errors_, place, place.key_position(), message);
}

void Problems::ErrorWhere(json::Position position, const Place& place, std::string_view message) {
  Add(errors_, place, position, message);
}

void Problems::ErrorAt(json::Position position, std::string_view message) {
  ++errors_.total;
  Keep(errors_, {.at = position, .message = std::string(message)});
}

void Problems::Warn(const Place& place, std::string_view message) {
  Add(warnings_, place, place.position(), message);
}

void Problems::WarnAtKey(const Place& place, std::string_view message) {
  Add(warnings_, place, place.key_position(), message);
}

bool Problems::Wants(json::Position position) const {
  return errors_.kept.size() < kMaxProblems || Earlier({.at = position}, errors_.kept.back());
}

bool Problems::MaySuggest() { return ++suggestions_ <= kMaxSuggestions; }

void Problems::Add(List& list, const Place& place, json::Position position,
                   std::string_view message) {
  ++list.total;
  Problem problem = {.at = position, .hides_value = place.hidden()};
  // Beyond the limit, only what stands before the last one kept is of use.
  if (list.kept.size() == kMaxProblems && !Earlier(problem, list.kept.back())) return;
  problem.path = NameInFile(place.Path());
  problem.message = message;
  Keep(list, std::move(problem));
}

void Problems::Keep(List& list, Problem problem) {
  // Behind those at the same place: in the order in which they were found.
  const auto at = std::ranges::upper_bound(list.kept, problem, Earlier);
  list.kept.insert(at, std::move(problem));
  if (list.kept.size() > kMaxProblems) list.kept.pop_back();
}

bool Problems::HasErrorAt(const Place& place) const {
  return place.value() != nullptr &&
         std::ranges::find(errors_.kept, place.position(), &Problem::at) != errors_.kept.end();
}

std::vector<Problem> Problems::TakeErrors(std::string_view text) {
  Locate(errors_.kept, text);
  return std::exchange(errors_.kept, {});
}

std::vector<Problem> Problems::TakeWarnings(std::string_view text) {
  Locate(warnings_.kept, text);
  return std::exchange(warnings_.kept, {});
}

}  // namespace nstance::config

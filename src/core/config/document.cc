#include "core/config/document.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <vector>

#include <fmt/core.h>

#include "core/config/load.h"
#include "core/config/place.h"

namespace nstance::config {
namespace {

// Takes "line:column: " off the front of a parser's message.
json::Position TakePosition(std::string_view& message) {
  json::Position at = {.line = 1, .column = 1};
  json::Position found;
  const char* end = message.data() + message.size();
  const auto line = std::from_chars(message.data(), end, found.line);
  if (line.ec != std::errc() || line.ptr == end || *line.ptr != ':') return at;
  const auto column = std::from_chars(line.ptr + 1, end, found.column);
  if (column.ec != std::errc() || end - column.ptr < 2 || column.ptr[0] != ':') return at;
  message.remove_prefix(static_cast<std::size_t>(column.ptr - message.data()) + 2);
  return found;
}

auto Order(json::Position at) { return std::tuple(at.line, at.column); }

// Reports the duplicates that belong to the object at `place` or below it. `duplicates` are sorted
// by their first place.
class DuplicateReport {
 public:
  DuplicateReport(std::vector<json::DuplicateKey> duplicates, Problems& problems)
      : duplicates_(std::move(duplicates)), problems_(problems) {
    std::ranges::sort(duplicates_, {}, [](const auto& d) { return Order(d.first); });
  }

  void Run(const Place& place) const {
    if (const json::Array* items = place.value()->if_array()) {
      for (std::size_t i = 0; i < items->size(); ++i) Run(place.Item(i));
    }
    const json::Object* members = place.value()->if_object();
    if (members == nullptr) return;
    for (const json::Member& member : *members) {
      const Place child = place.Child(member);
      const auto range =
          std::ranges::equal_range(duplicates_, Order(member.key_position), {},
                                   [](const json::DuplicateKey& d) { return Order(d.first); });
      for (const json::DuplicateKey& duplicate : range) Report(child, duplicate);
      Run(child);
    }
  }

 private:
  void Report(const Place& place, const json::DuplicateKey& duplicate) const {
    problems_.ErrorWhere(duplicate.again, place,
                         fmt::format("duplicate key, first at {}:{}; each key once",
                                     duplicate.first.line, duplicate.first.column));
  }

  std::vector<json::DuplicateKey> duplicates_;
  Problems& problems_;
};

}  // namespace

std::optional<json::Value> ParseDocument(std::string_view text, InputSource source,
                                         Problems& problems) {
  std::vector<json::DuplicateKey> duplicates;
  Result<json::Value> document = json::Parse(text, {.syntax = json::Syntax::kJsonc,
                                                    .max_bytes = kMaxConfigBytes,
                                                    .max_depth = kMaxConfigDepth,
                                                    .duplicates = &duplicates,
                                                    .source = source});
  if (!document) {
    std::string_view message = document.error().message;
    const json::Position at = TakePosition(message);
    problems.ErrorAt(at, message);
    return std::nullopt;
  }
  if (!duplicates.empty()) {
    DuplicateReport(std::move(duplicates), problems).Run(Place(*document));
  }
  return *std::move(document);
}

}  // namespace nstance::config

// Problem: one thing that is wrong with a file, where it stands, and what would be right.
//
//   config/a.jsonc:52:17: groups.prod.ingress.size: -1 is below the minimum; a whole number from 0
//   to 10000
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace nstance::config {

struct Problem {
  json::Position at = {};    // Lines and columns count from 1; columns count bytes.
  std::size_t offset = 0;    // The same place as bytes from the start of the text.
  std::string path = {};     // "groups.prod.ingress.size"; empty when the text did not parse.
  std::string message = {};  // "what is wrong; what is allowed". Never shows a secret.
  bool hides_value = false;  // The value there is secret or may be: no excerpt shows its line.
  friend bool operator==(const Problem&, const Problem&) = default;
};

// "<file>:<line>:<column>: <path>: <message>".
[[nodiscard]] std::string Format(const Problem& problem, std::string_view file);

// The same, followed by the line of the source and a caret under the place:
//
//   config/a.jsonc:3:14: server.shard: "A" is not a shard name: ...
//        3 |     "shard": "A",
//          |              ^
//
// Long lines are cut around the place, and bytes that a terminal would act on are escaped. No
// excerpt where problem.hides_value. `text` is what was loaded.
[[nodiscard]] std::string FormatWithExcerpt(const Problem& problem, std::string_view file,
                                            std::string_view text);

}  // namespace nstance::config

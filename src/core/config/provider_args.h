// What `args` may hold, by provider: the keys of the first level and the shape of their values.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/config/config.h"
#include "core/config/place.h"
#include "core/config/problems.h"

namespace nstance::config {

enum class ArgShape : std::uint8_t {
  kAny,
  kText,
  kTexts,     // A list of strings.
  kTextMap,   // An object of strings.
  kNumber,    // A whole number, or a template that gives one.
  kNumbers,   // A list of them.
  kFlag,      // true or false.
  kDuration,  // A duration, or a template that gives one.
  kList,
  kObject,
};

struct ArgSpec {
  std::string_view key;
  ArgShape shape;
  std::string_view doc;
};

[[nodiscard]] std::span<const ArgSpec> ArgsOf(ProviderKind kind);
// "a string", "a list of strings" ...
[[nodiscard]] std::string_view ShapeText(ArgShape shape);

// Unknown keys, wrong shapes, and tags and labels that are ours. `args` need not be there.
void CheckArgs(const Place& args, ProviderKind kind, Problems& problems);

}  // namespace nstance::config

// Merging of args: defaults, template, group (config.md 6).
#pragma once

#include "base/json.h"

namespace nstance::config {

// `over` laid over `base`: objects are merged key by key, recursively; everything else, lists too,
// is replaced. Inputs are not changed.
[[nodiscard]] json::Object MergeArgs(const json::Object& base, const json::Object& over);

}  // namespace nstance::config

// Reading a JSONC file into a document: syntax errors and duplicate keys become Problems.
#pragma once

#include <optional>
#include <string_view>

#include "base/input_probe.h"
#include "base/json.h"
#include "core/config/problems.h"

namespace nstance::config {

// Nothing when the text does not parse. Duplicates are reported and dropped.
[[nodiscard]] std::optional<json::Value> ParseDocument(std::string_view text, InputSource source,
                                                       Problems& problems);

}  // namespace nstance::config

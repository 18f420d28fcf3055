// Fields: the outcome of a command as names and values: aligned lines for people, one object for
// programs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "admin/common_flags.h"
#include "admin/ending.h"

namespace nstance::admin {

using Fields = std::vector<std::pair<std::string, std::string>>;

// "operator_id  opr06...\ntenant       default\n", or {"operator_id": "...", ...}. Warnings go to
// stderr as lines, or into the object as a list.
[[nodiscard]] Ending Told(const Fields& fields, const std::vector<std::string>& warnings,
                          const CommonFlags& common);

}  // namespace nstance::admin

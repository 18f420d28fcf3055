// How commands end: tables and notes for people, one JSON document for programs.
#pragma once

#include <string_view>

#include "admin/common_flags.h"
#include "admin/ending.h"
#include "base/error.h"

namespace nstance::admin {

// "Error: <message>" or {"error","code"} on stderr; exit code 1. `code` is a gRPC status name.
[[nodiscard]] Ending Failed(std::string_view message, std::string_view code, Output output);

// The same for an error: not found exits with 3.
[[nodiscard]] Ending Failed(const Error& error, Output output);

}  // namespace nstance::admin

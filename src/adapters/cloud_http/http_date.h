// Dates in headers of answers.
#pragma once

#include <optional>
#include <string_view>

#include "base/time.h"

namespace nstance::cloud {

// "Sun, 06 Nov 1994 08:49:37 GMT", the one form that servers write today (RFC 9110, 5.6.7). The
// day of the week is not compared. Anything else is nothing.
[[nodiscard]] std::optional<Timestamp> ParseHttpDate(std::string_view text);

}  // namespace nstance::cloud

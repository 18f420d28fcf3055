// Words for people: phases, ages, counts, and text of others that is safe on a terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/time.h"
#include "ports/api/instances.h"

namespace nstance::admin {

// "intended", ... "failed"; "unknown" for what this program does not know.
[[nodiscard]] std::string_view PhaseWord(api::InstancePhase phase);
[[nodiscard]] std::optional<api::InstancePhase> PhaseOf(std::string_view word);
// Those of PhaseOf, in the order of life.
[[nodiscard]] std::span<const std::string_view> PhaseWords();

// "42s", "3m10s", "5h", "3d"; a negative one is "0s".
[[nodiscard]] std::string Age(Duration age);
// "-" when there is none.
[[nodiscard]] std::string AgeSince(const std::optional<Timestamp>& then, Timestamp now);
// "14:05:10" today, else the whole date.
[[nodiscard]] std::string ClockTime(Timestamp at, Timestamp now);
// "00:42", "1:02:03".
[[nodiscard]] std::string Stopwatch(Duration elapsed);
// "1 group", "2 groups".
[[nodiscard]] std::string Count(std::size_t number, std::string_view what);

}  // namespace nstance::admin

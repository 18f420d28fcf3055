// Text of others that is safe on a terminal, and how wide it is there.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nstance::admin {

// What a server wrote, on one line and safe for any terminal: control characters, direction and
// line controls and bytes that are not UTF-8 are escaped; a character whose width is not surely one
// column becomes '?'.
[[nodiscard]] std::string Printable(std::string_view text);
// Columns of a printable text.
[[nodiscard]] std::size_t WidthOf(std::string_view printable);
// At most that many columns; a text that is cut ends in ">".
[[nodiscard]] std::string Cut(std::string_view printable, std::size_t columns);

}  // namespace nstance::admin

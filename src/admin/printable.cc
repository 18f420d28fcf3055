#include "admin/printable.h"

#include <algorithm>

#include "base/text.h"

namespace nstance::admin {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Latin letters and general punctuation take one column everywhere; of the rest not all do.
bool IsSurelyNarrow(std::string_view sequence) {
  if (sequence.size() == 1) return true;
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 2)
    return lead <= 0xC9;  // U+0080 to U+027F, of which controls are escaped.
  if (sequence.size() != 3 || lead != 0xE2) return false;
  const auto second = static_cast<unsigned char>(sequence[1]);
  const auto third = static_cast<unsigned char>(sequence[2]);
  return second == 0x80 && third >= 0x90 && third <= 0xA6;  // U+2010 to U+2026.
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, Utf8SequenceLength(text));
    const std::string_view sequence = text.substr(0, length);
    if (sequence == "\"" || sequence == "\\") {
      printable += sequence;  // Harmless, and messages quote names.
    } else if (IsSurelyNarrow(sequence)) {
      AppendEscaped(printable, sequence);
    } else {
      printable += '?';
    }
    text.remove_prefix(length);
  }
  return printable;
}

std::size_t WidthOf(std::string_view printable) {
  return printable.size() -
         static_cast<std::size_t>(std::ranges::count_if(printable, IsContinuation));
}

std::string Cut(std::string_view printable, std::size_t columns) {
  if (WidthOf(printable) <= columns) return std::string(printable);
  if (columns == 0) return "";
  std::size_t kept = 0;
  std::size_t width = 0;
  while (kept < printable.size()) {
    if (!IsContinuation(printable[kept]) && width++ == columns - 1) break;
    ++kept;
  }
  return std::string(printable.substr(0, kept)) + ">";
}

}  // namespace nstance::admin

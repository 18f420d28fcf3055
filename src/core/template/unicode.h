// Unicode as Go's `unicode` and `unicode/utf8` packages see it (version 15.0.0): what the template
// language needs to tell names apart, to print and to quote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nstance::tmpl {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr char32_t kMaxCodePoint = 0x10FFFF;

struct Decoded {
  char32_t code_point = kReplacement;
  std::size_t size = 0;

  // A byte that is no UTF-8, as opposed to a U+FFFD that was written as such.
  [[nodiscard]] bool invalid() const { return code_point == kReplacement && size == 1; }
};

// The first code point. A byte that starts no valid sequence is U+FFFD of size 1; empty text is
// U+FFFD of size 0.
[[nodiscard]] Decoded DecodeFirst(std::string_view text);

// How many code points there are; each invalid byte counts as one.
[[nodiscard]] std::size_t CountCodePoints(std::string_view text);

// Anything that is no code point (too large, a surrogate) becomes U+FFFD.
void AppendCodePoint(std::string& out, char32_t code_point);

[[nodiscard]] bool IsCodePoint(std::uint64_t value);
// Categories L and Nd, and the underscore: what names consist of.
[[nodiscard]] bool IsNamePart(char32_t code_point);
// Categories L, M, N, P, S, and the ASCII space.
[[nodiscard]] bool IsPrintable(char32_t code_point);
[[nodiscard]] bool IsWhiteSpace(char32_t code_point);

}  // namespace nstance::tmpl

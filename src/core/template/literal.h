// Literals of the template language, which are Go's: reading strings, characters and numbers, and
// writing quoted strings and floating-point numbers as package strconv does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/template/value.h"

namespace nstance::tmpl {

// The value of "..." or `...`, quotes included in `literal`. The error says "invalid syntax".
[[nodiscard]] Result<std::string> UnquoteString(std::string_view literal);

struct Number {
  enum class Kind : std::uint8_t {
    kInt,
    kFloat,
    kTooLarge,  // Fits 64 bits only without a sign: an error where it is used.
  };
  Kind kind = Kind::kInt;
  std::int64_t integer = 0;
  Float real = 0;
};

// 'a', '\n', '\u00e9': an int.
[[nodiscard]] Result<Number> ParseCharacter(std::string_view literal);
// Integers in all bases, with underscores; decimal and hexadecimal floats. Imaginary numbers are
// refused: there is nothing in a configuration that they could mean.
[[nodiscard]] Result<Number> ParseNumber(std::string_view literal);

enum class Ascii : std::uint8_t { kNo, kOnly };

// "text" with Go's escapes; bytes that are no UTF-8 as \xff. With kOnly everything above ASCII is
// escaped too.
void AppendQuoted(std::string& out, std::string_view text, Ascii ascii = Ascii::kNo);
[[nodiscard]] std::string Quoted(std::string_view text);
void AppendQuotedCharacter(std::string& out, char32_t code_point, Ascii ascii = Ascii::kNo);
// Whether the text can stand between backquotes on one line.
[[nodiscard]] bool CanBackquote(std::string_view text);

// verb is one of b e E f g G x X; a negative precision means the fewest digits that read back.
[[nodiscard]] std::string FormatFloat(Float value, char verb, int precision);

}  // namespace nstance::tmpl

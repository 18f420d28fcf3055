#include "core/template/literal.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/core.h>

#include "core/template/unicode.h"

namespace nstance::tmpl {
namespace {

constexpr std::string_view kLowerHex = "0123456789abcdef";
constexpr std::string_view kUpperHex = "0123456789ABCDEF";

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (Lower(c) >= 'a' && Lower(c) <= 'f'); }

std::uint32_t DigitValue(char c) {
  if (IsDigit(c)) return static_cast<std::uint32_t>(c - '0');
  if (Lower(c) >= 'a' && Lower(c) <= 'z') return static_cast<std::uint32_t>(Lower(c) - 'a' + 10);
  return 99;
}

std::unexpected<Error> InvalidSyntax() { return Fail(InvalidArgument("invalid syntax")); }

// --- Strings and characters ---------------------------------------------------------------------

struct Character {
  std::uint32_t value = 0;
  bool code_point = false;  // Written as UTF-8; otherwise one byte.
};

// `count` digits of the base, taken off the front.
std::optional<std::uint32_t> TakeDigits(std::string_view& rest, std::size_t count,
                                        std::uint32_t base) {
  if (rest.size() < count) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : rest.substr(0, count)) {
    if (DigitValue(c) >= base) return std::nullopt;
    value = value * base + DigitValue(c);
  }
  rest.remove_prefix(count);
  return value;
}

std::optional<Character> TakeNumericEscape(std::string_view& rest, char letter) {
  if (letter == 'x') {
    const std::optional<std::uint32_t> byte = TakeDigits(rest, 2, 16);
    if (!byte) return std::nullopt;
    return Character{.value = *byte};
  }
  if (letter == 'u' || letter == 'U') {
    const std::optional<std::uint32_t> code = TakeDigits(rest, letter == 'u' ? 4 : 8, 16);
    if (!code || !IsCodePoint(*code)) return std::nullopt;
    return Character{.value = *code, .code_point = true};
  }
  const std::optional<std::uint32_t> tail = TakeDigits(rest, 2, 8);
  if (letter < '0' || letter > '7' || !tail) return std::nullopt;
  const std::uint32_t value = static_cast<std::uint32_t>(letter - '0') * 64 + *tail;
  if (value > 255) return std::nullopt;
  return Character{.value = value};
}

std::optional<Character> TakeEscape(std::string_view& rest, char quote) {
  if (rest.size() < 2) return std::nullopt;
  const char letter = rest[1];
  rest.remove_prefix(2);
  constexpr std::string_view kLetters = "abfnrtv\\";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\";
  if (const std::size_t at = kLetters.find(letter); at != std::string_view::npos) {
    return Character{.value = static_cast<unsigned char>(kMeanings[at])};
  }
  if (letter == quote) return Character{.value = static_cast<unsigned char>(letter)};
  return TakeNumericEscape(rest, letter);
}

// One character of a quoted literal, taken off the front.
std::optional<Character> TakeCharacter(std::string_view& rest, char quote) {
  if (rest.empty() || rest[0] == quote) return std::nullopt;
  if (rest[0] == '\\') return TakeEscape(rest, quote);
  const Decoded decoded = DecodeFirst(rest);
  rest.remove_prefix(decoded.size);
  return Character{.value = decoded.code_point, .code_point = decoded.code_point >= 0x80};
}

// --- Numbers ------------------------------------------------------------------------------------

// Underscores stand between digits, or between the prefix of a base and a digit.
bool UnderscoresOk(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  char last = '^';
  bool hex = false;
  if (text.size() >= 2 && text[0] == '0' &&
      std::string_view("box").find(Lower(text[1])) != std::string_view::npos) {
    hex = Lower(text[1]) == 'x';
    last = '0';
    text.remove_prefix(2);
  }
  for (const char c : text) {
    if (IsDigit(c) || (hex && IsHexDigit(c))) {
      last = '0';
    } else if (c == '_') {
      if (last != '0') return false;
      last = '_';
    } else {
      if (last == '_') return false;
      last = '!';
    }
  }
  return last != '_';
}

std::string WithoutUnderscores(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '_');
  return plain;
}

std::optional<std::uint64_t> ParseUnsigned(std::string_view text) {
  if (text.empty() || (text.contains('_') && !UnderscoresOk(text))) return std::nullopt;
  int base = 10;
  if (text[0] == '0') {
    base = 8;
    std::size_t prefix = 1;
    if (text.size() >= 3) {
      const char letter = Lower(text[1]);
      prefix = letter == 'b' || letter == 'o' || letter == 'x' ? 2 : 1;
      base = letter == 'b' ? 2 : (letter == 'x' ? 16 : 8);
    }
    text.remove_prefix(prefix);
  }
  const std::string digits = WithoutUnderscores(text);
  if (digits.empty()) return 0;
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<std::int64_t> ParseSigned(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const bool negative = text[0] == '-';
  if (negative || text[0] == '+') text.remove_prefix(1);
  const std::optional<std::uint64_t> size = ParseUnsigned(text);
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (!size || *size > kMax + (negative ? 1 : 0)) return std::nullopt;
  return static_cast<std::int64_t>(negative ? 0 - *size : *size);
}

struct FloatShape {
  bool valid = false;
  bool hex = false;
  bool small = false;  // Below one: too small, if it does not fit.
};

std::size_t SkipDigits(std::string_view text, std::size_t at, bool hex) {
  while (at < text.size() &&
         (text[at] == '_' || (hex ? IsHexDigit(text[at]) : IsDigit(text[at])))) {
    ++at;
  }
  return at;
}

// How far the first digit that is not zero stands in front of the point; negative behind it.
std::int64_t Magnitude(std::string_view digits) {
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = std::min(digits.find_first_not_of("0._"), digits.size());
  return static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
}

// Whether the text, without its sign, is a float, and of which form.
FloatShape ShapeOf(std::string_view text) {
  FloatShape shape;
  shape.hex = text.size() > 2 && text[0] == '0' && Lower(text[1]) == 'x';
  const std::size_t begin = shape.hex ? 2 : 0;
  std::size_t at = SkipDigits(text, begin, shape.hex);
  if (at < text.size() && text[at] == '.') at = SkipDigits(text, at + 1, shape.hex);
  const std::string_view digits = text.substr(begin, at - begin);
  if (digits.find_first_not_of("._") == std::string_view::npos) return shape;
  std::int64_t exponent = 0;
  if (at < text.size() && Lower(text[at]) == (shape.hex ? 'p' : 'e')) {
    ++at;
    const bool negative = at < text.size() && text[at] == '-';
    if (negative || (at < text.size() && text[at] == '+')) ++at;
    if (at >= text.size() || !IsDigit(text[at])) return shape;
    for (; at < text.size() && (IsDigit(text[at]) || text[at] == '_'); ++at) {
      if (text[at] != '_' && exponent < 1'000'000) exponent = exponent * 10 + (text[at] - '0');
    }
    if (negative) exponent = -exponent;
  } else if (shape.hex) {
    return shape;
  }
  shape.small = Magnitude(digits) * (shape.hex ? 4 : 1) + exponent < 0;
  shape.valid = at == text.size() && (!text.contains('_') || UnderscoresOk(text));
  return shape;
}

std::optional<Float> ParseReal(std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  const FloatShape shape = ShapeOf(text);
  if (!shape.valid) return std::nullopt;
  const std::string plain = WithoutUnderscores(text.substr(shape.hex ? 2 : 0));
  Float value = 0;
  const auto [stop, error] =
      std::from_chars(plain.data(), plain.data() + plain.size(), value,
                      shape.hex ? std::chars_format::hex : std::chars_format::general);
  if (error == std::errc::result_out_of_range) {
    if (!shape.small) return std::nullopt;
    value = 0;
  } else if (error != std::errc() || stop != plain.data() + plain.size()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

// --- Quoting ------------------------------------------------------------------------------------

void AppendHexEscape(std::string& out, char32_t code_point) {
  if (code_point < 0x80) {
    out += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(code_point));
  } else if (code_point < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code_point));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<std::uint32_t>(code_point));
  }
}

void AppendEscapedCharacter(std::string& out, char32_t code_point, char quote, Ascii ascii) {
  if (code_point == static_cast<char32_t>(quote) || code_point == '\\') {
    out += '\\';
    out += static_cast<char>(code_point);
    return;
  }
  if (IsPrintable(code_point) && (ascii == Ascii::kNo || code_point < 0x80)) {
    AppendCodePoint(out, code_point);
    return;
  }
  constexpr std::string_view kControls = "\a\b\t\n\v\f\r";
  constexpr std::string_view kLetters = "abtnvfr";
  const std::size_t control =
      code_point < 0x20 ? kControls.find(static_cast<char>(code_point)) : std::string_view::npos;
  if (control != std::string_view::npos) {
    out += '\\';
    out += kLetters[control];
    return;
  }
  AppendHexEscape(out, code_point);
}

// --- Floats -------------------------------------------------------------------------------------

// More digits than these are zeros: no double has more behind its point.
constexpr int kMaxDigits = 1'100;
using FloatBuffer = std::array<char, 2'048>;

struct Bits {
  bool negative = false;
  int exponent = 0;  // Of the mantissa's top bit, 2^52.
  std::uint64_t mantissa = 0;
};

Bits Split(Float value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto exponent = static_cast<int>((bits >> 52U) & 0x7FFU);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52U) - 1);
  return {.negative = bits >> 63U != 0,
          .exponent = (exponent == 0 ? 1 : exponent) - 1023,
          .mantissa = exponent == 0 ? fraction : fraction | (std::uint64_t{1} << 52U)};
}

std::string FormatBinary(Float value) {
  const Bits bits = Split(value);
  const int exponent = bits.exponent - 52;
  return fmt::format("{}{}p{:+}", bits.negative ? "-" : "", bits.mantissa, exponent);
}

// Rounds to `digits` hexadecimal digits behind the leading one at bit 60, half to even.
void RoundHex(std::uint64_t& mantissa, int& exponent, int digits) {
  const unsigned shift = static_cast<unsigned>(digits) * 4;
  const std::uint64_t extra = (mantissa << shift) & ((std::uint64_t{1} << 60U) - 1);
  mantissa >>= 60U - shift;
  if ((extra | (mantissa & 1U)) > std::uint64_t{1} << 59U) ++mantissa;
  mantissa <<= 60U - shift;
  if ((mantissa & (std::uint64_t{1} << 61U)) != 0) {
    mantissa >>= 1U;
    ++exponent;
  }
}

std::string FormatHex(Float value, char verb, int precision) {
  const Bits bits = Split(value);
  std::uint64_t mantissa = bits.mantissa << 8U;
  int exponent = mantissa == 0 ? 0 : bits.exponent;
  while (mantissa != 0 && (mantissa & (std::uint64_t{1} << 60U)) == 0) {
    mantissa <<= 1U;
    --exponent;
  }
  if (precision >= 0 && precision < 15) RoundHex(mantissa, exponent, precision);
  std::string out = bits.negative ? "-0" : "0";
  out += verb;
  out += static_cast<char>('0' + ((mantissa >> 60U) & 1U));
  const std::string_view digits = verb == 'x' ? kLowerHex : kUpperHex;
  mantissa <<= 4U;
  if (precision > 0 || (precision < 0 && mantissa != 0)) out += '.';
  for (int i = 0; precision < 0 ? mantissa != 0 : i < precision; ++i) {
    out += digits[(mantissa >> 60U) & 15U];
    mantissa <<= 4U;
  }
  out += verb == 'x' ? 'p' : 'P';
  return out += fmt::format("{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
}

// "d.ddde+dd" or "ddd.ddd", with zeros for the digits beyond what a double has.
std::string FormatFixed(Float value, std::chars_format form, int precision) {
  FloatBuffer buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, form,
                                          std::min(precision, kMaxDigits));
  std::string out(buffer.data(), end);
  if (precision > kMaxDigits) {
    out.insert(std::min(out.find('e'), out.size()),
               static_cast<std::size_t>(precision - kMaxDigits), '0');
  }
  return out;
}

std::string FormatShortest(Float value, std::chars_format form) {
  FloatBuffer buffer;
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, form);
  return {buffer.data(), end};
}

struct Decimal {
  std::string digits;  // Without zeros at the end; empty for zero.
  int point = 0;       // Digits in front of the point.
};

// From "d.ddde+dd", without a sign.
Decimal DecimalOf(std::string_view scientific) {
  const std::size_t e = scientific.find('e');
  Decimal decimal;
  for (const char c : scientific.substr(0, e)) {
    if (c != '.') decimal.digits += c;
  }
  decimal.digits.erase(decimal.digits.find_last_not_of('0') + 1);
  if (decimal.digits.empty()) return decimal;
  const std::string_view exponent = scientific.substr(e + 2);
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), decimal.point);
  decimal.point = (scientific[e + 1] == '-' ? -decimal.point : decimal.point) + 1;
  return decimal;
}

std::string WriteExponent(const Decimal& decimal, char letter) {
  std::string out = decimal.digits.substr(0, 1);
  if (decimal.digits.size() > 1) out.append(".").append(decimal.digits, 1);
  const int exponent = decimal.point - 1;
  return out += fmt::format("{}{}{:02}", letter, exponent < 0 ? '-' : '+', std::abs(exponent));
}

std::string WritePlain(const Decimal& decimal) {
  const auto size = static_cast<int>(decimal.digits.size());
  if (decimal.point <= 0) {
    if (size == 0) return "0";
    return "0." + std::string(static_cast<std::size_t>(-decimal.point), '0') + decimal.digits;
  }
  if (size <= decimal.point) {
    return decimal.digits + std::string(static_cast<std::size_t>(decimal.point - size), '0');
  }
  const auto point = static_cast<std::size_t>(decimal.point);
  return decimal.digits.substr(0, point) + "." + decimal.digits.substr(point);
}

std::string FormatGeneral(Float value, char verb, int precision) {
  const Float size = std::fabs(value);
  const bool shortest = precision < 0;
  const int wanted = std::max(precision, 1);
  const Decimal decimal = DecimalOf(shortest ? FormatShortest(size, std::chars_format::scientific)
                                             : FormatFixed(size, std::chars_format::scientific,
                                                           std::min(wanted, kMaxDigits) - 1));
  const auto count = static_cast<int>(decimal.digits.size());
  // The exponent from which on it is written: that of the precision, or 6 without one. (Go writes
  // %v of a million as 1e+06.)
  int limit = wanted;
  if (limit > count && count >= decimal.point) limit = count;
  if (shortest) limit = 6;
  const int exponent = decimal.point - 1;
  std::string out = std::signbit(value) ? "-" : "";
  const bool scientific = exponent < -4 || exponent >= limit;
  return out += scientific ? WriteExponent(decimal, verb == 'g' ? 'e' : 'E') : WritePlain(decimal);
}

}  // namespace

Result<std::string> UnquoteString(std::string_view literal) {
  if (literal.size() < 2 || literal.front() != literal.back()) return InvalidSyntax();
  const char quote = literal.front();
  std::string_view rest = literal.substr(1, literal.size() - 2);
  std::string text;
  text.reserve(rest.size());
  if (quote == '`') {
    text = rest;
    std::erase(text, '\r');
    return text;
  }
  while (!rest.empty()) {
    const std::optional<Character> next = TakeCharacter(rest, quote);
    if (!next) return InvalidSyntax();
    if (next->code_point) {
      AppendCodePoint(text, next->value);
    } else {
      text += static_cast<char>(next->value);
    }
  }
  return text;
}

Result<Number> ParseCharacter(std::string_view literal) {
  std::string_view rest = literal.substr(1);
  const std::optional<Character> character = TakeCharacter(rest, '\'');
  if (!character) return InvalidSyntax();
  if (rest != "'") {
    return Fail(InvalidArgument(fmt::format("malformed character constant: {}", literal)));
  }
  return Number{.integer = character->value};
}

Result<Number> ParseNumber(std::string_view literal) {
  if (literal.ends_with('i') && ParseReal(literal.substr(0, literal.size() - 1))) {
    return Fail(InvalidArgument(fmt::format(
        "complex number {} is not supported; use an integer or a float", Quoted(literal))));
  }
  const std::optional<std::int64_t> integer = ParseSigned(literal);
  const std::optional<std::uint64_t> natural = ParseUnsigned(literal);
  const bool pointed = literal.find_first_of(".eEpP") != std::string_view::npos;
  const bool hex = literal.size() > 2 && literal[0] == '0' && Lower(literal[1]) == 'x';
  if (integer || natural) {
    // Go takes the letter e of -0x1e, not of 0x1e, for an exponent.
    if (pointed && !hex) {
      return Number{.kind = Number::Kind::kFloat,
                    .real = integer ? static_cast<Float>(*integer) : static_cast<Float>(*natural)};
    }
    if (!integer) return Number{.kind = Number::Kind::kTooLarge};
    return Number{.integer = *integer};
  }
  const std::optional<Float> real = ParseReal(literal);
  if (!real) {
    return Fail(InvalidArgument(fmt::format("illegal number syntax: {}", Quoted(literal))));
  }
  if (!pointed) return Fail(InvalidArgument(fmt::format("integer overflow: {}", Quoted(literal))));
  return Number{.kind = Number::Kind::kFloat, .real = *real};
}

void AppendQuoted(std::string& out, std::string_view text, Ascii ascii) {
  out += '"';
  while (!text.empty()) {
    const Decoded next = DecodeFirst(text);
    if (next.invalid()) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else {
      AppendEscapedCharacter(out, next.code_point, '"', ascii);
    }
    text.remove_prefix(next.size);
  }
  out += '"';
}

std::string Quoted(std::string_view text) {
  std::string out;
  AppendQuoted(out, text);
  return out;
}

void AppendQuotedCharacter(std::string& out, char32_t code_point, Ascii ascii) {
  out += '\'';
  AppendEscapedCharacter(out, IsCodePoint(code_point) ? code_point : kReplacement, '\'', ascii);
  out += '\'';
}

bool CanBackquote(std::string_view text) {
  while (!text.empty()) {
    const Decoded next = DecodeFirst(text);
    text.remove_prefix(next.size);
    if (next.invalid() || next.code_point == 0xFEFF) return false;
    if (next.size > 1) continue;
    const bool control = next.code_point < ' ' && next.code_point != '\t';
    if (control || next.code_point == '`' || next.code_point == 0x7F) return false;
  }
  return true;
}

std::string FormatFloat(Float value, char verb, int precision) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Inf" : "+Inf";
  switch (verb) {
    case 'b': return FormatBinary(value);
    case 'x':
    case 'X': return FormatHex(value, verb, precision);
    case 'g':
    case 'G': return FormatGeneral(value, verb, precision);
    default: break;
  }
  const auto form = verb == 'f' ? std::chars_format::fixed : std::chars_format::scientific;
  std::string out =
      precision < 0 ? FormatShortest(value, form) : FormatFixed(value, form, precision);
  if (verb == 'E') std::ranges::replace(out, 'e', 'E');
  return out;
}

}  // namespace nstance::tmpl

#include "test/base/random_json.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/text.h"

namespace nstance::test {
namespace {

constexpr std::uint32_t kFirstSurrogate = 0xD800;
constexpr std::uint32_t kLastSurrogate = 0xDFFF;

// Decodes the valid UTF-8 sequence at the front and removes it.
std::uint32_t TakeCodePoint(std::string_view& text) {
  const std::size_t length = Utf8SequenceLength(text);
  std::uint32_t code_point = static_cast<unsigned char>(text.front());
  if (length > 1) code_point &= 0xFFU >> (length + 1);
  for (std::size_t i = 1; i < length; ++i) {
    code_point = (code_point << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  text.remove_prefix(length);
  return code_point;
}

}  // namespace

std::uint32_t RandomJson::CodePoint() {
  static constexpr std::array<std::uint32_t, 26> kSpecial = {
      0x00,   0x08,   0x09,   0x0A,   0x0C,   0x0D,   0x1F,   0x22,    0x26,
      0x27,   0x2F,   0x3C,   0x3E,   0x5C,   0x7F,   0x80,   0x85,    0x2027,
      0x2028, 0x2029, 0x202E, 0xD7FF, 0xE000, 0xFEFF, 0xFFFF, 0x10FFFF};
  switch (prng_.Below(6)) {
    case 0: return kSpecial.at(static_cast<std::size_t>(prng_.Below(kSpecial.size())));
    case 1: return static_cast<std::uint32_t>(prng_.Below(0x20));
    case 2: return static_cast<std::uint32_t>(prng_.Below(0x800));
    case 3: {
      const auto code_point = static_cast<std::uint32_t>(prng_.Below(0x110000));
      return code_point >= kFirstSurrogate && code_point <= kLastSurrogate ? 0xFFFD : code_point;
    }
    default: return static_cast<std::uint32_t>(prng_.Between(0x20, 0x7E));
  }
}

std::string RandomJson::String() {
  std::string text;
  for (std::uint64_t left = prng_.Below(prng_.Chance(1, 10) ? 60 : 12); left > 0; --left) {
    AppendUtf8(text, CodePoint());
  }
  return text;
}

std::int64_t RandomJson::Integer() {
  constexpr std::int64_t kTwoTo53 = std::int64_t{1} << 53U;
  switch (prng_.Below(5)) {
    case 0: return prng_.Between(-10, 10);
    case 1: return prng_.Between(kTwoTo53 - 5, kTwoTo53 + 5);
    case 2: return std::numeric_limits<std::int64_t>::max() - prng_.Between(0, 2'000);
    case 3: return std::numeric_limits<std::int64_t>::min() + prng_.Between(0, 2'000);
    default: return static_cast<std::int64_t>(prng_.Next() >> prng_.Below(64));
  }
}

double RandomJson::Double() {
  const double sign = prng_.Chance(1, 2) ? 1 : -1;
  double value = 0;
  switch (prng_.Below(6)) {
    case 0:  // Any bits.
      value = std::abs(std::bit_cast<double>(prng_.Next()));
      break;
    case 1:  // Subnormal.
      value = std::bit_cast<double>(prng_.Next() >> (12 + prng_.Below(50)));
      break;
    case 2: {  // Next to a power of ten, where the form of the text may change.
      std::array<char, 8> literal{};
      const auto end =
          fmt::format_to_n(literal.data(), literal.size(), "1e{}",
                           prng_.Chance(1, 2) ? prng_.Between(-8, 23) : prng_.Between(-323, 308));
      const auto parsed = json::Parse(std::string_view(literal.data(), end.size));
      const auto bits = std::bit_cast<std::int64_t>(*parsed->AsDouble()) + prng_.Between(-2, 2);
      value = std::bit_cast<double>(bits);
      break;
    }
    case 3:  // Whole and large.
      value = static_cast<double>(prng_.Next()) * static_cast<double>(1 + prng_.Below(1'000));
      break;
    case 4:  // As people write them.
      value = static_cast<double>(prng_.Below(100'000)) / 1'000;
      break;
    default: value = static_cast<double>(prng_.Next() >> 11U) * 0x1p-53; break;
  }
  if (!std::isfinite(value) || value == 0) return sign * std::numeric_limits<double>::max();
  return sign * value;
}

json::Value RandomJson::Number() {
  return prng_.Chance(1, 2) ? json::Value::Integer(Integer()) : json::Value::Double(Double());
}

json::Value RandomJson::Value(int depth) {
  switch (prng_.Below(depth > 0 ? 9 : 5)) {
    case 0: return {};
    case 1: return json::Value::Bool(prng_.Chance(1, 2));
    case 2: return Number();
    case 3:
    case 4: return json::Value::String(String());
    case 5:
    case 6: {
      json::Array items;
      for (std::uint64_t left = prng_.Below(6); left > 0; --left) items.push_back(Value(depth - 1));
      return json::Value::List(std::move(items));
    }
    default: {
      json::Value object = json::Value::Map({});
      for (std::uint64_t left = prng_.Below(6); left > 0; --left) {
        object.Set(String(), Value(depth - 1));
      }
      return object;
    }
  }
}

std::string RandomJson::NumberLiteral() {
  const auto digits = [&](std::uint64_t most) {
    std::string text;
    for (std::uint64_t left = 1 + prng_.Below(most); left > 0; --left) {
      text += static_cast<char>('0' + prng_.Below(10));
    }
    return text;
  };
  std::string whole = digits(prng_.Chance(1, 8) ? 400 : 25);
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));
  std::string number = whole;
  if (prng_.Chance(1, 2)) number += "." + digits(prng_.Chance(1, 8) ? 800 : 25);
  // A digit that is not zero in front keeps the sign from making negative zero.
  if (prng_.Chance(1, 3) && number.front() != '0') number.insert(0, "-");
  if (prng_.Chance(1, 2)) {
    const std::int64_t most = prng_.Chance(1, 4) ? 320 : 30;
    const std::int64_t least = number.front() == '-' ? -200 : -most - 20;
    const std::int64_t exponent = prng_.Between(std::max(least, -most - 20), most);
    number += fmt::format("{}{}{}", prng_.Chance(1, 2) ? 'e' : 'E',
                          exponent >= 0 && prng_.Chance(1, 2) ? "+" : "", exponent);
  }
  return number;
}

json::Value RandomJson::Shuffled(const json::Value& value) {
  json::Value result = value;
  if (json::Array* items = result.if_array()) {
    for (json::Value& item : *items) item = Shuffled(item);
  } else if (json::Object* members = result.if_object()) {
    for (json::Member& member : *members) member.value = Shuffled(member.value);
    prng_.Shuffle(std::span(*members));
  }
  return result;
}

std::string RandomJson::Text(const json::Value& value, const TextStyle& style) {
  std::string out;
  AppendBlanks(out, style);
  AppendText(out, value, style);
  AppendBlanks(out, style);
  if (style.syntax == json::Syntax::kJsonc && !style.one_line && prng_.Chance(1, 4)) {
    out += "// Ends with the text";
  }
  return out;
}

void RandomJson::AppendBlanks(std::string& out, const TextStyle& style) {
  for (std::uint64_t left = prng_.Below(3); left > 0; --left) {
    if (style.syntax == json::Syntax::kJsonc && prng_.Chance(1, 2)) {
      const bool line = !style.one_line && prng_.Chance(1, 2);
      out += line ? "// , ] } \" /* \xC3\xA9\n" : "/* // \" ] } \xE2\x82\xAC , * / **/";
    } else {
      out += style.one_line ? " \t"[prng_.Below(2)] : " \t\r\n"[prng_.Below(4)];
    }
  }
}

void RandomJson::AppendQuoted(std::string& out, const std::string& text) {
  out += '"';
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view before = rest;
    const std::uint32_t code_point = TakeCodePoint(rest);
    const bool must = code_point < 0x20 || code_point == '"' || code_point == '\\';
    if (!must && !prng_.Chance(1, 4)) {
      out += before.substr(0, before.size() - rest.size());
    } else if (code_point == '/' || code_point == '"' || code_point == '\\') {
      out += '\\';
      out += static_cast<char>(code_point);
    } else if (code_point < 0x10000) {
      out += prng_.Chance(1, 2) ? fmt::format("\\u{:04x}", code_point)
                                : fmt::format("\\u{:04X}", code_point);
    } else {
      out += fmt::format("\\u{:04x}\\u{:04X}", 0xD800 + ((code_point - 0x10000) >> 10U),
                         0xDC00 + ((code_point - 0x10000) & 0x3FFU));
    }
  }
  out += '"';
}

void RandomJson::AppendText(std::string& out, const json::Value& value, const TextStyle& style) {
  const auto last_comma = [&](bool empty) {
    if (!empty && style.syntax == json::Syntax::kJsonc && prng_.Chance(1, 2)) {
      out += ',';
      AppendBlanks(out, style);
    }
  };
  if (const json::Array* items = value.if_array()) {
    out += '[';
    AppendBlanks(out, style);
    for (std::size_t i = 0; i < items->size(); ++i) {
      if (i > 0) out += ',';
      AppendBlanks(out, style);
      AppendText(out, (*items)[i], style);
      AppendBlanks(out, style);
    }
    last_comma(items->empty());
    out += ']';
  } else if (const json::Object* members = value.if_object()) {
    out += '{';
    AppendBlanks(out, style);
    for (std::size_t i = 0; i < members->size(); ++i) {
      if (i > 0) out += ',';
      AppendBlanks(out, style);
      AppendQuoted(out, (*members)[i].key);
      AppendBlanks(out, style);
      out += ':';
      AppendBlanks(out, style);
      AppendText(out, (*members)[i].value, style);
      AppendBlanks(out, style);
    }
    last_comma(members->empty());
    out += '}';
  } else if (const std::string* text = value.if_string()) {
    AppendQuoted(out, *text);
  } else if (value.type() == json::Type::kDouble && prng_.Chance(1, 2)) {
    out += fmt::format("{:.{}e}", *value.AsDouble(), prng_.Between(16, 30));
  } else {
    out += json::Write(value);
  }
}

}  // namespace nstance::test

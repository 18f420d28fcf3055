#include "base/text.h"

#include <array>

#include <fmt/core.h>

#include "base/check.h"

namespace nstance {
namespace {

constexpr std::string_view kStandardAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kUrlAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::size_t kQuoteLimit = 60;

using ReverseTable = std::array<std::int8_t, 256>;

constexpr ReverseTable Reverse(std::string_view alphabet) {
  ReverseTable table{};
  table.fill(-1);
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    table.at(static_cast<unsigned char>(alphabet[i])) = static_cast<std::int8_t>(i);
  }
  return table;
}

constexpr ReverseTable kStandardReverse = Reverse(kStandardAlphabet);
constexpr ReverseTable kUrlReverse = Reverse(kUrlAlphabet);

std::string EncodeBase64(std::span<const std::uint8_t> bytes, std::string_view alphabet) {
  std::string out;
  out.reserve((bytes.size() * 4 / 3) + 4);
  std::uint32_t buffer = 0;
  int bits = 0;
  for (const std::uint8_t byte : bytes) {
    buffer = (buffer << 8U) | byte;
    for (bits += 8; bits >= 6; bits -= 6) {
      out += alphabet[(buffer >> static_cast<unsigned>(bits - 6)) & 63U];
    }
  }
  if (bits > 0) out += alphabet[(buffer << static_cast<unsigned>(6 - bits)) & 63U];
  return out;
}

// Without padding. Refuses a length that no encoder makes and bits that no byte owns.
Result<Bytes> DecodeBase64(std::string_view text, const ReverseTable& reverse) {
  if (text.size() % 4 == 1) return Fail(InvalidArgument("base64 text has an impossible length"));
  Bytes out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t buffer = 0;
  int bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::int8_t value = reverse.at(static_cast<unsigned char>(text[i]));
    if (value < 0) {
      return Fail(InvalidArgument(fmt::format("base64 text has a wrong character at {}", i)));
    }
    buffer = (buffer << 6U) | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out.push_back(static_cast<std::uint8_t>((buffer >> static_cast<unsigned>(bits)) & 0xFFU));
    }
  }
  if ((buffer & ((1U << static_cast<unsigned>(bits)) - 1U)) != 0) {
    return Fail(InvalidArgument("base64 text does not end in zero bits"));
  }
  return out;
}

constexpr bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Characters that change how the text around them is shown, or end a line.
bool IsDisplayControl(std::uint32_t c) {
  return (c >= 0x80 && c < 0xA0) || c == 0x061C || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

std::uint32_t DecodeSequence(std::string_view sequence) {
  constexpr std::array<unsigned, 5> kFirstMask = {0, 0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t value =
      static_cast<unsigned char>(sequence.front()) & kFirstMask.at(sequence.size());
  for (const char c : sequence.substr(1)) {
    value = (value << 6U) | (static_cast<unsigned char>(c) & 0x3FU);
  }
  return value;
}

void AppendEscapedSequence(std::string& out, std::string_view sequence) {
  const std::uint32_t c = DecodeSequence(sequence);
  if (c == '"' || c == '\\') {
    out += '\\';
    out += sequence;
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c < 0x20 || c == 0x7F) {
    out += fmt::format("\\x{:02x}", c);
  } else if (IsDisplayControl(c)) {
    out += fmt::format("\\u{:04x}", c);
  } else {
    out += sequence;
  }
}

// Takes one character, or one invalid byte, from the front of `rest`.
void AppendEscapedCharacter(std::string& out, std::string_view& rest) {
  const std::size_t length = Utf8SequenceLength(rest);
  if (length == 0) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(rest.front()));
    rest.remove_prefix(1);
    return;
  }
  AppendEscapedSequence(out, rest.substr(0, length));
  rest.remove_prefix(length);
}

}  // namespace

std::size_t Utf8SequenceLength(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return 1;
  std::size_t length = 0;
  if (first >= 0xC2 && first <= 0xDF) length = 2;
  if (first >= 0xE0 && first <= 0xEF) length = 3;
  if (first >= 0xF0 && first <= 0xF4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    // Most text is ASCII: eight bytes at a time.
    std::uint64_t eight = 0;
    if (text.size() >= sizeof(eight)) {
      std::memcpy(&eight, text.data(), sizeof(eight));
      if ((eight & 0x8080808080808080U) == 0) {
        text.remove_prefix(sizeof(eight));
        continue;
      }
    }
    const std::size_t length = Utf8SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void AppendUtf8(std::string& out, std::uint32_t c) {
  CHECK(c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF), "code point {:#x}", c);
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  if (c < 0x800) {
    out += static_cast<char>(0xC0U | (c >> 6U));
  } else {
    if (c < 0x10000) {
      out += static_cast<char>(0xE0U | (c >> 12U));
    } else {
      out += static_cast<char>(0xF0U | (c >> 18U));
      out += static_cast<char>(0x80U | ((c >> 12U) & 0x3FU));
    }
    out += static_cast<char>(0x80U | ((c >> 6U) & 0x3FU));
  }
  out += static_cast<char>(0x80U | (c & 0x3FU));
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (std::size_t shown = 0; !text.empty(); ++shown) {
    if (shown == kQuoteLimit) return out += "\"...";
    AppendEscapedCharacter(out, text);
  }
  return out += '"';
}

void AppendEscaped(std::string& out, std::string_view text) {
  while (!text.empty()) AppendEscapedCharacter(out, text);
}

std::string HexEncode(std::span<const std::uint8_t> bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    out += kHexDigits[byte >> 4U];
    out += kHexDigits[byte & 15U];
  }
  return out;
}

Result<Bytes> HexDecode(std::string_view text) {
  if (text.size() % 2 != 0) return Fail(InvalidArgument("hex text has an odd length"));
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  Bytes out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]);
    const int low = digit(text[i + 1]);
    if (high < 0 || low < 0) {
      return Fail(InvalidArgument(fmt::format("hex text has a wrong character near {}", i)));
    }
    out.push_back(static_cast<std::uint8_t>((high * 16) + low));
  }
  return out;
}

std::string Base64UrlEncode(std::span<const std::uint8_t> bytes) {
  return EncodeBase64(bytes, kUrlAlphabet);
}

Result<Bytes> Base64UrlDecode(std::string_view text) { return DecodeBase64(text, kUrlReverse); }

std::string Base64Encode(std::span<const std::uint8_t> bytes) {
  std::string out = EncodeBase64(bytes, kStandardAlphabet);
  while (out.size() % 4 != 0) out += '=';
  return out;
}

Result<Bytes> Base64Decode(std::string_view text) {
  if (text.size() % 4 != 0) {
    return Fail(InvalidArgument("base64 text has a length that is not a multiple of 4"));
  }
  if (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 3 && text.ends_with('=')) text.remove_suffix(1);
  return DecodeBase64(text, kStandardReverse);
}

}  // namespace nstance

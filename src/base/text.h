// Text: UTF-8 validity, quoting for messages, hex and base64.
//
// Decoders are total and strict: exactly the form that our encoders write is accepted (no white
// space, no missing or surplus padding, no stray bits in the last character), so that one value has
// one text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nstance {

using Bytes = std::vector<std::uint8_t>;

// The bytes of a text, for functions that take bytes.
[[nodiscard]] inline std::span<const std::uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
[[nodiscard]] inline std::string_view AsText(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Length in bytes of the valid UTF-8 sequence at the front of `text`, or 0 if it is none: overlong
// forms, surrogates and code points above U+10FFFF are refused.
[[nodiscard]] std::size_t Utf8SequenceLength(std::string_view text);
[[nodiscard]] bool IsValidUtf8(std::string_view text);
// Appends the UTF-8 form of a code point. REQUIRES: code_point <= 0x10FFFF and no surrogate.
void AppendUtf8(std::string& out, std::uint32_t code_point);

// The value in double quotes for a message: control characters, quotes, backslashes, invalid UTF-8
// and Unicode direction and line controls escaped, cut at 60 characters. Safe for terminals and log
// lines, whatever a peer sent.
[[nodiscard]] std::string Quote(std::string_view text);
// The same escapes without quotes and without a cut.
void AppendEscaped(std::string& out, std::string_view text);

[[nodiscard]] std::string HexEncode(std::span<const std::uint8_t> bytes);
// Lower and upper case are accepted.
[[nodiscard]] Result<Bytes> HexDecode(std::string_view text);

// RFC 4648 section 5, no padding.
[[nodiscard]] std::string Base64UrlEncode(std::span<const std::uint8_t> bytes);
[[nodiscard]] Result<Bytes> Base64UrlDecode(std::string_view text);
// RFC 4648 section 4, padded.
[[nodiscard]] std::string Base64Encode(std::span<const std::uint8_t> bytes);
[[nodiscard]] Result<Bytes> Base64Decode(std::string_view text);

}  // namespace nstance

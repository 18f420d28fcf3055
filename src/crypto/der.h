// DER, as far as certificates and keys need it: a strict reader and a small writer. Internal to
// crypto.
//
// The reader takes one element after the other and never goes deeper by itself, so hostile nesting
// costs nothing. Refused: indefinite and non-minimal lengths, lengths beyond the input, tag numbers
// above 30. Nothing is allocated by a claimed length; elements are views into the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/text.h"

namespace nstance::crypto::der {

inline constexpr std::uint8_t kBoolean = 0x01;
inline constexpr std::uint8_t kInteger = 0x02;
inline constexpr std::uint8_t kBitString = 0x03;
inline constexpr std::uint8_t kOctetString = 0x04;
inline constexpr std::uint8_t kOid = 0x06;
inline constexpr std::uint8_t kUtf8String = 0x0C;
inline constexpr std::uint8_t kPrintableString = 0x13;
inline constexpr std::uint8_t kUtcTime = 0x17;
inline constexpr std::uint8_t kGeneralizedTime = 0x18;
inline constexpr std::uint8_t kSequence = 0x30;
inline constexpr std::uint8_t kSet = 0x31;

// [number], for context-specific tags.
[[nodiscard]] constexpr std::uint8_t Primitive(std::uint8_t number) {
  return static_cast<std::uint8_t>(0x80U | number);
}
[[nodiscard]] constexpr std::uint8_t Constructed(std::uint8_t number) {
  return static_cast<std::uint8_t>(0xA0U | number);
}

using View = std::span<const std::uint8_t>;

struct Element {
  std::uint8_t tag = 0;
  View content;
  View whole;  // With tag and length.
};

// `what` names the part for messages: "serial number". Errors are kInvalidArgument.
class Reader final {
 public:
  explicit Reader(View input) : rest_(input) {}

  [[nodiscard]] bool AtEnd() const { return rest_.empty(); }
  [[nodiscard]] bool NextIs(std::uint8_t tag) const { return !rest_.empty() && rest_[0] == tag; }

  [[nodiscard]] Result<Element> Next(std::string_view what);
  [[nodiscard]] Result<Element> Expect(std::uint8_t tag, std::string_view what);
  [[nodiscard]] Status ExpectEnd(std::string_view what) const;

 private:
  View rest_;
};

// The only element of `input`, of the given tag, with nothing after it.
[[nodiscard]] Result<Element> ReadOnly(View input, std::uint8_t tag, std::string_view what);

// The content of an INTEGER in its minimal form, sign byte included.
[[nodiscard]] Result<View> ReadInteger(Reader& reader, std::string_view what);
// The bytes of a BIT STRING without unused bits.
[[nodiscard]] Result<View> ReadWholeBits(Reader& reader, std::string_view what);

[[nodiscard]] Bytes Encode(std::uint8_t tag, View content);
[[nodiscard]] Bytes Encode(std::uint8_t tag, std::initializer_list<View> parts);
// A BIT STRING of whole bytes.
[[nodiscard]] Bytes EncodeWholeBits(View bits);

}  // namespace nstance::crypto::der

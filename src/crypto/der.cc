#include "crypto/der.h"

#include <fmt/core.h>

namespace nstance::crypto::der {
namespace {

constexpr std::size_t kMaxLengthBytes = 4;

std::unexpected<Error> Bad(std::string_view what, std::string_view why) {
  return Fail(InvalidArgument(fmt::format("{}: {}", what, why)));
}

struct Header {
  std::size_t size = 0;    // Of tag and length.
  std::size_t length = 0;  // Of the content.
};

Result<Header> ReadHeader(View input, std::string_view what) {
  if (input.size() < 2) return Bad(what, "cut short");
  if ((input[0] & 0x1FU) == 0x1FU) return Bad(what, "tag number above 30");
  const std::uint8_t first = input[1];
  if (first < 0x80U) return Header{.size = 2, .length = first};
  const std::size_t count = first & 0x7FU;
  if (count == 0) return Bad(what, "indefinite length");
  if (count > kMaxLengthBytes || input.size() < 2 + count) return Bad(what, "impossible length");
  std::size_t length = 0;
  for (const std::uint8_t byte : input.subspan(2, count)) length = (length << 8U) | byte;
  if (length < 0x80U || input[2] == 0) return Bad(what, "length not in its shortest form");
  return Header{.size = 2 + count, .length = length};
}

void AppendLength(Bytes& out, std::size_t length) {
  if (length < 0x80U) {
    out.push_back(static_cast<std::uint8_t>(length));
    return;
  }
  Bytes digits;
  for (std::size_t rest = length; rest > 0; rest >>= 8U) {
    digits.push_back(static_cast<std::uint8_t>(rest & 0xFFU));
  }
  out.push_back(static_cast<std::uint8_t>(0x80U | digits.size()));
  out.insert(out.end(), digits.rbegin(), digits.rend());
}

}  // namespace

Result<Element> Reader::Next(std::string_view what) {
  if (rest_.empty()) return Bad(what, "missing");
  ASSIGN_OR_RETURN(const Header header, ReadHeader(rest_, what));
  if (header.length > rest_.size() - header.size) return Bad(what, "longer than its container");
  const Element element = {.tag = rest_[0],
                           .content = rest_.subspan(header.size, header.length),
                           .whole = rest_.first(header.size + header.length)};
  rest_ = rest_.subspan(element.whole.size());
  return element;
}

Result<Element> Reader::Expect(std::uint8_t tag, std::string_view what) {
  if (!rest_.empty() && rest_[0] != tag) {
    return Bad(what, fmt::format("tag {:#04x} where {:#04x} belongs", rest_[0], tag));
  }
  return Next(what);
}

Status Reader::ExpectEnd(std::string_view what) const {
  if (!rest_.empty()) return Bad(what, fmt::format("{} surplus bytes", rest_.size()));
  return {};
}

Result<Element> ReadOnly(View input, std::uint8_t tag, std::string_view what) {
  Reader reader(input);
  ASSIGN_OR_RETURN(const Element element, reader.Expect(tag, what));
  RETURN_IF_ERROR(reader.ExpectEnd(what));
  return element;
}

Result<View> ReadInteger(Reader& reader, std::string_view what) {
  ASSIGN_OR_RETURN(const Element element, reader.Expect(kInteger, what));
  const View content = element.content;
  if (content.empty()) return Bad(what, "empty integer");
  if (content.size() > 1) {
    const bool next_is_negative = (content[1] & 0x80U) != 0;
    if ((content[0] == 0x00 && !next_is_negative) || (content[0] == 0xFF && next_is_negative)) {
      return Bad(what, "integer not in its shortest form");
    }
  }
  return content;
}

Result<View> ReadWholeBits(Reader& reader, std::string_view what) {
  ASSIGN_OR_RETURN(const Element element, reader.Expect(kBitString, what));
  if (element.content.empty() || element.content[0] != 0) return Bad(what, "unused bits");
  return element.content.subspan(1);
}

Bytes Encode(std::uint8_t tag, View content) { return Encode(tag, {content}); }

Bytes Encode(std::uint8_t tag, std::initializer_list<View> parts) {
  std::size_t length = 0;
  for (const View part : parts) length += part.size();
  Bytes out = {tag};
  AppendLength(out, length);
  for (const View part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

Bytes EncodeWholeBits(View bits) {
  constexpr std::uint8_t kNoUnusedBits = 0;
  return Encode(kBitString, {View(&kNoUnusedBits, 1), bits});
}

}  // namespace nstance::crypto::der

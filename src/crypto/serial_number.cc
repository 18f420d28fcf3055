#include "crypto/serial_number.h"

#include <algorithm>

#include <fmt/core.h>

namespace nstance::crypto {
namespace {

// No serial that is allowed has more decimal digits.
constexpr std::size_t kMaxDigits = 49;

std::string ToDecimal(Bytes number) {
  std::string digits;
  while (std::ranges::any_of(number, [](std::uint8_t byte) { return byte != 0; })) {
    unsigned remainder = 0;
    for (std::uint8_t& byte : number) {
      const unsigned value = (remainder << 8U) | byte;
      byte = static_cast<std::uint8_t>(value / 10);
      remainder = value % 10;
    }
    digits += static_cast<char>('0' + remainder);
  }
  std::ranges::reverse(digits);
  return digits;
}

// The shortest DER content of the positive number in big-endian bytes.
Bytes Shortest(std::span<const std::uint8_t> number) {
  const auto first = std::ranges::find_if(number, [](std::uint8_t byte) { return byte != 0; });
  Bytes content(first, number.end());
  if (content.empty() || (content.front() & 0x80U) != 0) content.insert(content.begin(), 0);
  return content;
}

}  // namespace

SerialNumber::SerialNumber(Bytes content)
    : content_(std::move(content)), decimal_(ToDecimal(content_)) {}

SerialNumber SerialNumber::FromRandom(std::span<const std::uint8_t, 16> random) {
  Bytes number(random.begin(), random.end());
  number.front() &= 0x7FU;
  if (std::ranges::all_of(number, [](std::uint8_t byte) { return byte == 0; })) number.back() = 1;
  return SerialNumber(Shortest(number));
}

Result<SerialNumber> SerialNumber::FromDer(std::span<const std::uint8_t> content) {
  if (content.size() > kMaxBytes) {
    return Fail(InvalidArgument(
        fmt::format("serial number has {} bytes, {} are allowed", content.size(), kMaxBytes)));
  }
  const bool zero = std::ranges::all_of(content, [](std::uint8_t byte) { return byte == 0; });
  if (zero || (content.front() & 0x80U) != 0) {
    return Fail(InvalidArgument("serial number is not positive"));
  }
  return SerialNumber(Bytes(content.begin(), content.end()));
}

Result<SerialNumber> SerialNumber::FromDecimal(std::string_view text) {
  const bool digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (text.empty() || text.size() > kMaxDigits || !digits || text.front() == '0') {
    return Fail(InvalidArgument(fmt::format("{} is not a serial number", Quote(text))));
  }
  Bytes number(kMaxBytes + 1);  // One more than allowed, so that no carry is lost.
  for (const char c : text) {
    auto carry = static_cast<unsigned>(c - '0');
    for (auto byte = number.rbegin(); byte != number.rend(); ++byte) {
      const unsigned value = (*byte * 10U) + carry;
      *byte = static_cast<std::uint8_t>(value & 0xFFU);
      carry = value >> 8U;
    }
  }
  return FromDer(Shortest(number));
}

SerialNumber SerialNumber::One() { return SerialNumber(Bytes{1}); }

}  // namespace nstance::crypto

#include "base/puidv7.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance {
namespace {

constexpr std::string_view kAlphabet = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr unsigned kVersion = 7;

int DigitValue(char c) {
  const std::size_t at = kAlphabet.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

std::string EncodeUuid(const UuidBytes& uuid) {
  std::string out;
  std::uint32_t buffer = 0;
  int bits = 0;
  for (const std::uint8_t byte : uuid) {
    buffer = (buffer << 8U) | byte;
    for (bits += 8; bits >= 5; bits -= 5) {
      out += kAlphabet[(buffer >> static_cast<unsigned>(bits - 5)) & 31U];
    }
  }
  out += kAlphabet[(buffer << static_cast<unsigned>(5 - bits)) & 31U];
  return out;
}

struct Decoded {
  UuidBytes uuid{};
  bool trailing_bits_zero = false;
};

Result<Decoded> DecodeUuid(std::string_view digits) {
  Decoded decoded;
  std::uint32_t buffer = 0;
  int bits = 0;
  std::size_t filled = 0;
  for (const char c : digits) {
    const int value = DigitValue(c);
    if (value < 0) {
      return Fail(InvalidArgument(
          fmt::format("character {} is not in the base32 alphabet (i, l, o and u are not)",
                      Quote(std::string_view(&c, 1)))));
    }
    buffer = (buffer << 5U) | static_cast<std::uint32_t>(value);
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      decoded.uuid.at(filled++) =
          static_cast<std::uint8_t>((buffer >> static_cast<unsigned>(bits)) & 0xFFU);
    }
  }
  decoded.trailing_bits_zero = (buffer & 3U) == 0;
  return decoded;
}

bool IsLowerLetter(char c) { return c >= 'a' && c <= 'z'; }

Result<Decoded> DecodeText(std::string_view text, std::string_view expected_prefix) {
  if (text.size() != Puidv7::kTextLength) {
    return Fail(InvalidArgument(fmt::format("it has {} characters instead of 29", text.size())));
  }
  const std::string_view prefix = text.substr(0, Puidv7::kPrefixLength);
  RETURN_IF_ERROR(CheckPuidPrefix(prefix));
  if (!expected_prefix.empty() && prefix != expected_prefix) {
    return Fail(InvalidArgument(
        fmt::format("its prefix is {} instead of {}", Quote(prefix), Quote(expected_prefix))));
  }
  return DecodeUuid(text.substr(Puidv7::kPrefixLength));
}

std::string NotAnId(std::string_view text) { return fmt::format("{} is not an id", Quote(text)); }

// Adds one to the 74 random bits below version and variant, carrying into the timestamp when they
// are all ones: still greater, still unique.
void Increment(UuidBytes& uuid) {
  for (std::size_t i = uuid.size(); i-- > 0;) {
    const unsigned fixed = i == 6 ? 0xF0U : (i == 8 ? 0xC0U : 0U);
    const unsigned free_mask = 0xFFU & ~fixed;
    const unsigned next = (uuid.at(i) & free_mask) + 1U;
    uuid.at(i) = static_cast<std::uint8_t>((uuid.at(i) & fixed) | (next & free_mask));
    if (next <= free_mask) return;
  }
}

}  // namespace

Status CheckPuidPrefix(std::string_view prefix) {
  if (prefix.size() == Puidv7::kPrefixLength && std::ranges::all_of(prefix, IsLowerLetter)) {
    return {};
  }
  return Fail(InvalidArgument(
      fmt::format("{} is not an id prefix; three lower-case letters", Quote(prefix))));
}

Puidv7::Puidv7(std::string_view prefix, const UuidBytes& uuid) : uuid_(uuid) {
  CHECK(CheckPuidPrefix(prefix).has_value(), "prefix {}", prefix);
  text_ = std::string(prefix) + EncodeUuid(uuid);
}

std::string Puidv7::UuidText() const {
  std::string hex = HexEncode(uuid_);
  for (const std::size_t at : {20UZ, 16UZ, 12UZ, 8UZ}) hex.insert(at, "-");
  return hex;
}

std::string Puidv7::StorageKey() const { return UuidText().append("-").append(prefix()); }

Timestamp Puidv7::created_at() const {
  std::int64_t milliseconds = 0;
  for (std::size_t i = 0; i < 6; ++i) milliseconds = (milliseconds * 256) + uuid_.at(i);
  return Timestamp::FromUnix(milliseconds / 1'000,
                             static_cast<std::int32_t>(milliseconds % 1'000 * 1'000'000));
}

Result<Puidv7> ParsePuidv7(std::string_view text, std::string_view expected_prefix) {
  ASSIGN_OR_RETURN(const Decoded decoded, Under(DecodeText(text, expected_prefix), NotAnId(text)));
  const auto bad = [&](std::string_view why) {
    return Fail(InvalidArgument(NotAnId(text).append(": ").append(why)));
  };
  if (!decoded.trailing_bits_zero) return bad("its last character has bits set beyond 128");
  if (decoded.uuid.at(6) >> 4U != kVersion) return bad("its UUID is not of version 7");
  if (decoded.uuid.at(8) >> 6U != 2U) return bad("its UUID is not of the RFC 9562 variant");
  return Puidv7(text.substr(0, Puidv7::kPrefixLength), decoded.uuid);
}

Result<Puidv7> ReadPuidv7(std::string_view text, std::string_view expected_prefix) {
  std::string plain;
  for (const char c : text) {
    if (c == ' ' || c == '-') continue;
    if (plain.size() > Puidv7::kTextLength) break;
    plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  ASSIGN_OR_RETURN(const Decoded decoded, Under(DecodeText(plain, expected_prefix), NotAnId(text)));
  return Puidv7(std::string_view(plain).substr(0, Puidv7::kPrefixLength), decoded.uuid);
}

Puidv7 Puidv7Generator::Next(std::string_view prefix, Timestamp now, const Entropy& entropy) {
  UuidBytes uuid{};
  const auto milliseconds =
      static_cast<std::uint64_t>(std::max<std::int64_t>(now.unix_milliseconds(), 0));
  for (std::size_t i = 0; i < 6; ++i) {
    uuid.at(i) = static_cast<std::uint8_t>(milliseconds >> (8U * (5U - i)));
  }
  std::memcpy(uuid.data() + 6, entropy.data(), entropy.size());
  uuid.at(6) = static_cast<std::uint8_t>((kVersion << 4U) | (uuid.at(6) & 0x0FU));
  uuid.at(8) = static_cast<std::uint8_t>(0x80U | (uuid.at(8) & 0x3FU));
  if (uuid <= last_) {
    uuid = last_;
    Increment(uuid);
  }
  last_ = uuid;
  return {prefix, uuid};
}

}  // namespace nstance

// The checksum that closes every stored record, and the mark that tells one write from another.
//
// A record is one compact JSON object whose last member is `"checksum":"sha256:<64 hex digits>"`.
// The hash covers the object's bytes with `,"checksum":"..."` cut out: everything before it, then
// `}`. Readers accept a record without checksum (another program wrote it) and hold one whose
// checksum is wrong.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nstance::crypto {

// `object` with the checksum as its last member. REQUIRES: a compact JSON object with at least one
// member and no member `checksum`.
[[nodiscard]] std::string AppendChecksum(std::string_view object);

enum class ChecksumState : std::uint8_t {
  kAbsent,  // No member `checksum` at the top level.
  kRight,
  kWrong,  // Another hash, another form, or not the last member.
};

// Total: any text is allowed, and what is no JSON object is kAbsent or kWrong. The caller parses
// it.
[[nodiscard]] ChecksumState CheckChecksum(std::string_view text);

// The `write_id` of 16 random bytes: base64url, 22 characters.
[[nodiscard]] std::string WriteIdText(std::span<const std::uint8_t, 16> random);

}  // namespace nstance::crypto

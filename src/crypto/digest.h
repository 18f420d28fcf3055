// SHA-256, and comparison of secret values without a time that tells where they differ.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace nstance::crypto {

using Sha256Digest = std::array<std::uint8_t, 32>;

[[nodiscard]] Sha256Digest Sha256(std::span<const std::uint8_t> bytes);
// 64 lower-case hex digits.
[[nodiscard]] std::string Sha256Hex(std::span<const std::uint8_t> bytes);

// Takes the same time wherever the bytes differ. Different lengths are unequal at once: lengths are
// not secret here.
[[nodiscard]] bool ConstantTimeEqual(std::span<const std::uint8_t> a,
                                     std::span<const std::uint8_t> b);

}  // namespace nstance::crypto

// MD5, for etags that other programs compute in the same way. Never for security.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace nstance::crypto {

// 32 lower-case hex digits. Empty where the machine's crypto policy forbids MD5.
[[nodiscard]] std::string Md5Hex(std::span<const std::uint8_t> bytes);

}  // namespace nstance::crypto

// What a joining agent says about itself, checked (security.md J11): it ends up in records, tags,
// certificates of files and templates, so only plain host names and unicast addresses pass.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace nstance {

// Loopback is for providers whose instances share the server's host.
enum class Loopback : std::uint8_t { kRefused, kAllowed };

// At most 253 bytes of RFC 1123 form. kInvalidArgument says what is allowed.
[[nodiscard]] Status CheckJoinerHostname(std::string_view hostname);
// Strict textual form; unspecified, link-local, multicast, broadcast and mapped ones are refused.
[[nodiscard]] Status CheckJoinerIpv4(std::string_view text, Loopback loopback);
[[nodiscard]] Status CheckJoinerIpv6(std::string_view text, Loopback loopback);

}  // namespace nstance

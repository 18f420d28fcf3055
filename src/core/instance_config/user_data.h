// User data before it is rendered: the bytes of the file or of a URL, decoded.
//
//   encoding      step
//   plain         none
//   base64        standard alphabet with padding; white space is ignored
//   gzip          one or more members (RFC 1952), checksums verified; at most 1 MiB comes out
//   base64+gzip   base64, then gzip
//
//   ASSIGN_OR_RETURN(const std::string text, DecodeUserData(encoding, bytes));
//
// Total: any bytes in, a text or an error out. Inflation stops at the limit, so that a small input
// cannot cost more than 1 MiB and the time of reading it. What is refused counts as bad input
// (base64, gzip, gzip-bytes, userdata-bytes).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/input_probe.h"
#include "base/result.h"
#include "core/config/config.h"

namespace nstance {

// Of a body that was fetched, of what base64 is decoded from, and of what inflation gives.
inline constexpr std::size_t kMaxUserDataBytes = std::size_t{1} * 1024 * 1024;

// kInvalidArgument: not that encoding. kResourceExhausted: too long, before or after.
[[nodiscard]] Result<std::string> DecodeUserData(config::UserDataEncoding encoding,
                                                 std::string_view bytes, InputSource source = {});

// Whether the bytes have the digest (64 hex digits, any case) that the configuration asks for;
// nothing asked for is right. kFailedPrecondition: they differ.
[[nodiscard]] Status CheckUserDataDigest(std::string_view sha256, std::string_view bytes);

}  // namespace nstance

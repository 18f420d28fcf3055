// gRPC's metadata, timeouts and status texts, as they stand in HTTP/2 headers.
//
// Pure functions, total and bounded by their input. Values of names that end in `-bin` are bytes
// and travel as base64; all others are printable ASCII. Names that start with `grpc-` belong to the
// protocol and never reach a handler.
//
//   ASSIGN_OR_RETURN(const Duration limit, ParseTimeout("250m"));  // 250 ms
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "base/time.h"

namespace nstance::grpc {

// Status messages are cut here, counted before they are encoded.
inline constexpr std::size_t kMaxStatusMessageBytes = 1024;

struct MetadataEntry {
  std::string name;
  std::string value;  // Raw bytes for names ending in -bin.

  friend bool operator==(const MetadataEntry&, const MetadataEntry&) = default;
};
using Metadata = std::vector<MetadataEntry>;

// One or more of 0-9 a-z _ . -
[[nodiscard]] bool IsMetadataName(std::string_view name);
// Names of HTTP/2 and of the protocol itself: `:...`, `grpc-...`, content-type, te and those of the
// connection.
[[nodiscard]] bool IsReservedName(std::string_view name);
[[nodiscard]] bool IsBinaryName(std::string_view name);

// Adds a header as received. Reserved names are skipped; white space around text values is
// dropped; a -bin value may be a list with commas. kInvalidArgument for a bad name, a value that
// is not printable ASCII, or -bin without base64.
[[nodiscard]] Status AppendReceived(Metadata& metadata, std::string_view name,
                                    std::string_view value);

// The value as it is sent. kInvalidArgument for a bad or reserved name and for text that is not
// printable ASCII: our own callers' mistakes, but the text may come from a request.
[[nodiscard]] Result<std::string> EncodeValue(const MetadataEntry& entry);

// grpc-message: printable ASCII but `%` stays, everything else becomes %XX. Cut at
// kMaxStatusMessageBytes, at a character's end; bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string EncodeStatusMessage(std::string_view text);
// Total: what is no valid %XX stays as it is; what is no UTF-8 afterwards becomes U+FFFD.
[[nodiscard]] std::string DecodeStatusMessage(std::string_view text);

// grpc-timeout: 1 to 8 digits and a unit out of H M S m u n. Values beyond the range of Duration
// are clamped to its end.
[[nodiscard]] Result<Duration> ParseTimeout(std::string_view text);
// In the finest unit that fits 8 digits, rounded up, so that the server never ends a call first
// because of rounding. Nothing left is "0n".
[[nodiscard]] std::string FormatTimeout(Duration timeout);

// application/grpc, application/grpc+proto, either with parameters.
[[nodiscard]] bool IsGrpcContentType(std::string_view value);

}  // namespace nstance::grpc

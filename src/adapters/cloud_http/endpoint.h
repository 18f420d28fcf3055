// Endpoint: where the requests of an adapter go, and text in URLs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nstance::cloud {

// To whom plain HTTP may be spoken. Names other than `localhost` never count: what they resolve to
// is not ours to decide.
enum class PlainHttp : std::uint8_t {
  kLoopback,              // 127.0.0.0/8, ::1, localhost.
  kLoopbackAndLinkLocal,  // Also 169.254.0.0/16, fe80::/10 and fd00:ec2::/32: metadata servers.
};

struct Endpoint {
  std::string scheme;     // "http" or "https".
  std::string authority;  // "host" or "host:port", as it was written.
  std::string host;       // Without port and brackets.
  std::string path;       // "" or "/..." as it was written, without a slash at the end.

  // "https://host:port/path". Refused with kInvalidArgument: other schemes, user names, queries,
  // fragments, characters outside ASCII, and plain HTTP to whom it may not be spoken.
  [[nodiscard]] static Result<Endpoint> Parse(std::string_view url, PlainHttp plain_http);

  // "scheme://authority" + path.
  [[nodiscard]] std::string Url() const { return scheme + "://" + authority + path; }
};

// Whether a host, as it stands in a URL without brackets, is surely this machine, or in a range
// that never leaves its link.
[[nodiscard]] bool IsLoopbackHost(std::string_view host);
[[nodiscard]] bool IsLinkLocalHost(std::string_view host);

// Everything but unreserved characters as %XX, upper case.
[[nodiscard]] std::string PercentEncode(std::string_view text);
// The same, slashes kept: each segment encoded once.
[[nodiscard]] std::string PercentEncodePath(std::string_view path);

}  // namespace nstance::cloud

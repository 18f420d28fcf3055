#include "adapters/cloud_http/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include <fmt/core.h>

#include "base/text.h"

namespace nstance::cloud {
namespace {

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::optional<std::uint32_t> ParseIpv4(std::string_view host) {
  in_addr address{};
  if (::inet_pton(AF_INET, std::string(host).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::optional<in6_addr> ParseIpv6(std::string_view host) {
  in6_addr address{};
  if (::inet_pton(AF_INET6, std::string(host).c_str(), &address) != 1) return std::nullopt;
  return address;
}

bool MayBePlain(std::string_view host, PlainHttp plain_http) {
  if (IsLoopbackHost(host)) return true;
  return plain_http == PlainHttp::kLoopbackAndLinkLocal && IsLinkLocalHost(host);
}

struct HostAndPort {
  std::string host;
  std::string port;
};

// From "host", "host:port", "[::1]" or "[::1]:port".
std::optional<HostAndPort> SplitAuthority(std::string_view authority) {
  std::string_view rest = authority;
  HostAndPort split;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    split.host = rest.substr(1, end - 1);
    if (!ParseIpv6(split.host)) return std::nullopt;
    rest.remove_prefix(end + 1);
  } else {
    split.host = rest.substr(0, rest.find(':'));
    rest.remove_prefix(split.host.size());
    const bool ok = std::ranges::all_of(
        split.host, [](char c) { return IsAlphanumeric(c) || c == '-' || c == '.'; });
    if (!ok || split.host.empty()) return std::nullopt;
  }
  if (rest.empty()) return split;
  int port = 0;
  split.port = rest.substr(1);
  const char* end = split.port.data() + split.port.size();
  const auto read = std::from_chars(split.port.data(), end, port);
  const bool number = read.ec == std::errc() && read.ptr == end && port > 0 && port < 65'536;
  if (!rest.starts_with(':') || !number) return std::nullopt;
  return split;
}

std::string Encode(std::string_view text, std::string_view kept) {
  std::string out;
  for (const char c : text) {
    if (IsAlphanumeric(c) || kept.contains(c)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace

bool IsLoopbackHost(std::string_view host) {
  if (host == "localhost") return true;
  if (const auto ipv4 = ParseIpv4(host)) return (*ipv4 >> 24U) == 127;
  const auto ipv6 = ParseIpv6(host);
  return ipv6 && std::memcmp(&*ipv6, &in6addr_loopback, sizeof(in6_addr)) == 0;
}

bool IsLinkLocalHost(std::string_view host) {
  if (const auto ipv4 = ParseIpv4(host)) return (*ipv4 >> 16U) == 0xA9FE;
  const auto ipv6 = ParseIpv6(host);
  if (!ipv6) return false;
  const auto* bytes = ipv6->s6_addr;
  const bool link_local = bytes[0] == 0xFE && (bytes[1] & 0xC0U) == 0x80;
  // Where AWS has its metadata servers for IPv6.
  const bool amazon = bytes[0] == 0xFD && bytes[1] == 0 && bytes[2] == 0x0E && bytes[3] == 0xC2;
  return link_local || amazon;
}

Result<Endpoint> Endpoint::Parse(std::string_view url, PlainHttp plain_http) {
  const auto bad = [&](std::string_view why) {
    return Fail(InvalidArgument(fmt::format("endpoint {}: {}", Quote(url), why)));
  };
  const bool visible = std::ranges::all_of(url, [](char c) { return c > ' ' && c < '\x7F'; });
  if (!visible || url.find_first_of("?#@\\") != std::string_view::npos) {
    return bad("no blanks, queries, fragments, user names or backslashes are allowed");
  }
  Endpoint endpoint;
  std::string_view rest = url;
  for (const std::string_view scheme : {"https", "http"}) {
    if (rest.starts_with(scheme) && rest.substr(scheme.size()).starts_with("://")) {
      endpoint.scheme = scheme;
      rest.remove_prefix(scheme.size() + 3);
    }
  }
  if (endpoint.scheme.empty()) return bad("it begins with neither https:// nor http://");
  endpoint.authority = rest.substr(0, rest.find('/'));
  endpoint.path = rest.substr(endpoint.authority.size());
  while (endpoint.path.ends_with('/')) endpoint.path.pop_back();
  const auto split = SplitAuthority(endpoint.authority);
  if (!split) return bad("it has no valid host and port");
  endpoint.host = split->host;
  if (endpoint.scheme == "http" && !MayBePlain(endpoint.host, plain_http)) {
    return bad(plain_http == PlainHttp::kLoopback
                   ? "plain HTTP is for loopback addresses only; use https://"
                   : "plain HTTP is for loopback and link-local addresses only; use https://");
  }
  return endpoint;
}

std::string PercentEncode(std::string_view text) { return Encode(text, "-._~"); }

std::string PercentEncodePath(std::string_view path) { return Encode(path, "-._~/"); }

}  // namespace nstance::cloud

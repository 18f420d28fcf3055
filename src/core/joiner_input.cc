#include "core/joiner_input.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include <fmt/format.h>

#include "base/text.h"
#include "crypto/certificate_writer.h"

namespace nstance {
namespace {

constexpr std::size_t kMaxHostname = 253;
constexpr std::size_t kMaxLabel = 63;

bool IsLabel(std::string_view label) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (label.empty() || label.size() > kMaxLabel) return false;
  if (!plain(label.front()) || !plain(label.back())) return false;
  return std::ranges::all_of(label, [&](char c) { return plain(c) || c == '-'; });
}

Error BadAddress(std::string_view field, std::string_view text, std::string_view why) {
  return InvalidArgument(fmt::format("{}: {} {}", field, Quote(text), why));
}

}  // namespace

Status CheckJoinerHostname(std::string_view hostname) {
  const auto bad = [&] {
    return Fail(InvalidArgument(fmt::format(
        "hostname: {} is no host name: labels of letters, digits and hyphens, 253 bytes at most",
        Quote(hostname))));
  };
  if (hostname.empty() || hostname.size() > kMaxHostname) return bad();
  std::string_view rest = hostname;
  while (true) {
    const std::size_t dot = rest.find('.');
    if (!IsLabel(rest.substr(0, dot))) return bad();
    if (dot == std::string_view::npos) return {};
    rest.remove_prefix(dot + 1);
  }
}

Status CheckJoinerIpv4(std::string_view text, Loopback loopback) {
  const Bytes bytes = crypto::AddressBytes(std::string(text));
  if (bytes.empty() || text.contains(':')) {
    return Fail(BadAddress("private_ipv4", text, "is no IPv4 address"));
  }
  const bool link_local = bytes[0] == 169 && bytes[1] == 254;
  if (bytes[0] == 0 || bytes[0] >= 224 || link_local ||
      (bytes[0] == 127 && loopback == Loopback::kRefused)) {
    return Fail(BadAddress("private_ipv4", text, "is not an address that an instance can have"));
  }
  return {};
}

Status CheckJoinerIpv6(std::string_view text, Loopback loopback) {
  const Bytes bytes = crypto::AddressBytes(std::string(text));
  if (bytes.empty() || !text.contains(':')) {
    return Fail(BadAddress("private_ipv6", text, "is no IPv6 address"));
  }
  const bool mapped = bytes.size() == 4;  // ::ffff:a.b.c.d
  const auto zeros = [&](std::size_t count) {
    return std::ranges::all_of(std::span(bytes).first(count), [](auto b) { return b == 0; });
  };
  const bool is_loopback = !mapped && zeros(15) && bytes[15] == 1;
  const bool compatible = !mapped && zeros(12) && !is_loopback;  // ::a.b.c.d
  const bool link_local = bytes[0] == 0xfe && (bytes[1] & 0xc0U) == 0x80;
  const bool refused = mapped || compatible || link_local || bytes[0] == 0xff ||
                       (is_loopback && loopback == Loopback::kRefused);
  if (refused) {
    return Fail(BadAddress("private_ipv6", text, "is not an address that an instance can have"));
  }
  return {};
}

}  // namespace nstance

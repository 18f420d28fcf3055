#include "agent/settings.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "base/text.h"
#include "core/joiner_input.h"

namespace nstance::agent {
namespace {

constexpr std::string_view kPrefix = "NSTANCE_";
constexpr Duration kShortestReports = Duration::Seconds(1);
constexpr Duration kLongestReports = Duration::Hours(24);
constexpr Duration kLongestPoll = Duration::Hours(1);
constexpr std::size_t kMaxInterfaceName = 15;
constexpr std::size_t kMaxUnknown = 16;

constexpr std::array<std::string_view, 22> kKnown = {"SERVER_REGISTRATION_ADDR",
                                                     "SERVER_AGENT_ADDR",
                                                     "INSTANCE_ID",
                                                     "IDENTITY_DIR",
                                                     "KEYS_DIR",
                                                     "RECV_DIR",
                                                     "IDENTITY_MODE",
                                                     "KEYS_MODE",
                                                     "RECV_MODE",
                                                     "INSTANCE_KIND",
                                                     "INSTANCE_HOSTNAME",
                                                     "INSTANCE_FQDN",
                                                     "INSTANCE_IPV4",
                                                     "INSTANCE_IPV6",
                                                     "REPORT_INTERVAL",
                                                     "SPOT_POLL_INTERVAL",
                                                     "PROVIDER",
                                                     "METADATA_ENDPOINT",
                                                     "METRICS_INTERFACE",
                                                     "EBPF_COUNTERS_PATH",
                                                     "HEALTH_ADDR",
                                                     "DEBUG"};
constexpr std::string_view kWithoutEffect = "ENVIRONMENT";
constexpr std::array<std::string_view, 7> kProviders = {"aws",   "gcp",  "google", "proxmox",
                                                        "local", "none", "azure"};

template <class Names>
bool Holds(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool IsIpv4(const std::string& text) {
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}
bool IsIpv6(const std::string& text) {
  in6_addr address{};
  return inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool IsInterfaceName(std::string_view text) {
  if (text.empty() || text.size() > kMaxInterfaceName || text == "." || text == "..") return false;
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f && c != '/'; });
}

// Reads variables by name and collects what is wrong.
class Reader final {
 public:
  explicit Reader(std::span<const std::string> environment) {
    for (const std::string& entry : environment) {
      const std::string_view text = entry;
      if (!text.starts_with(kPrefix)) continue;
      const std::size_t equals = text.find('=');
      if (equals == std::string_view::npos || equals + 1 == text.size()) continue;
      values_.emplace(text.substr(kPrefix.size(), equals - kPrefix.size()),
                      text.substr(equals + 1));
    }
  }

  [[nodiscard]] const std::string* Find(std::string_view name) const {
    const auto at = values_.find(name);
    return at == values_.end() ? nullptr : &at->second;
  }

  void Problem(std::string_view name, std::string_view what) {
    problems_.push_back(fmt::format("{}{}: {}", kPrefix, name, what));
  }

  // Takes the value through `parse`; a failure is a problem and leaves `out` as it is.
  template <class T, class Parse>
  void Take(std::string_view name, T& out, Parse parse) {
    const std::string* text = Find(name);
    if (text == nullptr) return;
    auto value = parse(*text);
    if (value) {
      out = *std::move(value);
    } else {
      Problem(name, value.error().message);
    }
  }

  void Text(std::string_view name, std::string& out, bool (*good)(const std::string&),
            std::string_view allowed) {
    const std::string* text = Find(name);
    if (text == nullptr) return;
    if (!good(*text)) return Problem(name, fmt::format("{} is not {}", Quote(*text), allowed));
    out = *text;
  }

  void Required(std::string_view name) {
    if (Find(name) == nullptr) Problem(name, "is required: host:port");
  }

  [[nodiscard]] std::vector<std::string> Unknown() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : values_) {
      if (Holds(kKnown, name) || name == kWithoutEffect) continue;
      if (names.size() < kMaxUnknown) names.push_back(std::string(kPrefix) + name);
    }
    return names;
  }

  [[nodiscard]] std::vector<std::string>& problems() { return problems_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> problems_;
};

Result<unsigned> ParseMode(const std::string& text) {
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || mode > 0777) {
    return Fail(InvalidArgument(fmt::format("{} is no octal mode up to 0777", Quote(text))));
  }
  return mode;
}

Result<std::string> ParseDirectory(const std::string& text) {
  if (text.starts_with('/')) return text;
  return Fail(InvalidArgument(fmt::format("{} is no absolute path", Quote(text))));
}

Result<Duration> ParseInterval(const std::string& text, Duration least, Duration most) {
  ASSIGN_OR_RETURN(const Duration interval, ParseDuration(text));
  if (interval == Duration() || (interval >= least && interval <= most)) return interval;
  return Fail(InvalidArgument(fmt::format("{} is out of range: 0 or {} to {}", Quote(text),
                                          FormatDuration(least), FormatDuration(most))));
}

Result<bool> ParseFlag(const std::string& text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return Fail(InvalidArgument(fmt::format("{} is neither true nor false", Quote(text))));
}

void ReadPlaces(Reader& reader, Settings& settings) {
  const auto address = [](const std::string& text) {
    return ParseHostPort(text, EmptyHost::kRefused);
  };
  reader.Required("SERVER_REGISTRATION_ADDR");
  reader.Required("SERVER_AGENT_ADDR");
  reader.Take("SERVER_REGISTRATION_ADDR", settings.registration, address);
  reader.Take("SERVER_AGENT_ADDR", settings.agent, address);
  reader.Take("HEALTH_ADDR", settings.health, [](const std::string& text) -> Result<RpcAddress> {
    ASSIGN_OR_RETURN(RpcAddress at, ParseHostPort(text, EmptyHost::kAllowed));
    if (at.host == "localhost") at.host = "127.0.0.1";
    if (at.host.empty() || IsIpv4(at.host) || IsIpv6(at.host)) return at;
    return Fail(InvalidArgument(fmt::format(
        "{} is no address to listen on: an IP address, localhost or nothing, and a port",
        Quote(text))));
  });
  reader.Take("IDENTITY_DIR", settings.identity_dir, ParseDirectory);
  reader.Take("KEYS_DIR", settings.keys_dir, ParseDirectory);
  reader.Take("RECV_DIR", settings.recv_dir, ParseDirectory);
  reader.Take("IDENTITY_MODE", settings.identity_mode, ParseMode);
  reader.Take("KEYS_MODE", settings.keys_mode, ParseMode);
  reader.Take("RECV_MODE", settings.recv_mode, ParseMode);
}

void ReadInstance(Reader& reader, Settings& settings) {
  reader.Take("INSTANCE_ID", settings.instance,
              [](const std::string& text) { return ParsePuidv7(text); });
  const auto host_name = [](const std::string& text) { return IsHostname(text); };
  reader.Text("INSTANCE_HOSTNAME", settings.hostname, host_name, "a host name");
  // The full name is the better one to tell, as the server keeps a single one.
  reader.Text("INSTANCE_FQDN", settings.hostname, host_name, "a host name");
  reader.Text("INSTANCE_IPV4", settings.ipv4, IsIpv4, "an IPv4 address");
  reader.Text("INSTANCE_IPV6", settings.ipv6, IsIpv6, "an IPv6 address");
}

// What later parts of the agent will use: checked now, so that it does not turn up then.
void ReadUnused(Reader& reader, Settings& settings) {
  Duration poll;
  reader.Take("SPOT_POLL_INTERVAL", poll, [](const std::string& text) {
    return ParseInterval(text, Duration::Milliseconds(100), kLongestPoll);
  });
  std::string text;
  reader.Text(
      "PROVIDER", text, [](const std::string& name) { return Holds(kProviders, name); },
      "one of aws, gcp, google, proxmox, local, none, azure");
  reader.Text(
      "METADATA_ENDPOINT", text,
      [](const std::string& url) { return url.starts_with("http://") && url.size() > 7; },
      "a URL that begins with http://");
  for (const std::string_view name :
       {"SPOT_POLL_INTERVAL", "PROVIDER", "METADATA_ENDPOINT", "INSTANCE_KIND"}) {
    if (reader.Find(name) != nullptr) settings.unused.push_back(fmt::format("{}{}", kPrefix, name));
  }
}

void ReadReports(Reader& reader, Settings& settings) {
  reader.Take("REPORT_INTERVAL", settings.report_interval, [](const std::string& text) {
    return ParseInterval(text, kShortestReports, kLongestReports);
  });
  reader.Text(
      "METRICS_INTERFACE", settings.metrics_interface,
      [](const std::string& name) { return IsInterfaceName(name); }, "the name of an interface");
  settings.ebpf = reader.Find("EBPF_COUNTERS_PATH") != nullptr;
  reader.Take("DEBUG", settings.debug, ParseFlag);
}

}  // namespace

bool IsHostname(std::string_view text) { return CheckJoinerHostname(text).has_value(); }

Result<RpcAddress> ParseHostPort(std::string_view text, EmptyHost empty) {
  const auto bad = [&](std::string_view why) {
    return Fail(InvalidArgument(fmt::format("{} is not host:port: {}", Quote(text), why)));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("there is no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || (port == 0 && empty == EmptyHost::kRefused)) {
    return bad("the port is a number from 1 to 65535");
  }
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    if (!IsIpv6(std::string(host))) return bad("in brackets stands an IPv6 address");
  } else if (host.empty()) {
    if (empty == EmptyHost::kRefused) return bad("there is no host");
  } else if (!IsHostname(host)) {
    return bad("the host is a name, an IPv4 address, or an IPv6 address in brackets");
  }
  return RpcAddress{.host = std::string(host), .port = port};
}

std::expected<Settings, std::vector<std::string>> ReadSettings(
    std::span<const std::string> environment) {
  Reader reader(environment);
  Settings settings;
  ReadPlaces(reader, settings);
  ReadInstance(reader, settings);
  ReadReports(reader, settings);
  ReadUnused(reader, settings);
  settings.unknown = reader.Unknown();
  if (!reader.problems().empty()) return std::unexpected(std::move(reader.problems()));
  return settings;
}

}  // namespace nstance::agent

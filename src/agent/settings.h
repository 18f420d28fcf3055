// Settings: what the environment of nstance-agent says.
//
//   const auto settings = agent::ReadSettings(environment);
//   if (!settings) for (const std::string& problem : settings.error()) ...
//
// Every problem is found in one go: one line each, "NSTANCE_REPORT_INTERVAL: ...". A variable that
// is set to nothing counts as not set. Nothing is opened or looked up.
#pragma once

#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/puidv7.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/rpc.h"

namespace nstance::agent {

struct Settings {
  RpcAddress registration = {};
  RpcAddress agent = {};
  std::optional<InstanceId> instance = std::nullopt;

  std::string identity_dir = "/opt/nstance-agent/identity";
  std::string keys_dir = "/opt/nstance-agent/keys";
  std::string recv_dir = "/opt/nstance-agent/recv";
  unsigned identity_mode = 0600;
  unsigned keys_mode = 0640;
  unsigned recv_mode = 0640;

  // Told to the server instead of what is detected.
  std::string hostname = {};
  std::string ipv4 = {};
  std::string ipv6 = {};

  Duration report_interval = Duration::Seconds(60);  // Zero: no reports.
  std::string metrics_interface = {};                // Empty: none.
  bool ebpf = false;                                 // Counters were asked for.
  std::optional<RpcAddress> health = std::nullopt;   // An empty host is every address.
  bool debug = false;

  // Set and sound, but without effect in this build; and names that nobody knows.
  std::vector<std::string> unused = {};
  std::vector<std::string> unknown = {};
};

// `environment`: "NAME=value" each, as the process has it.
[[nodiscard]] std::expected<Settings, std::vector<std::string>> ReadSettings(
    std::span<const std::string> environment);

// "host:port", "[::1]:port"; with EmptyHost::kAllowed also ":port".
enum class EmptyHost : std::uint8_t { kRefused, kAllowed };
[[nodiscard]] Result<RpcAddress> ParseHostPort(std::string_view text, EmptyHost empty);

// Whether it is a host name by RFC 1123, at most 253 bytes.
[[nodiscard]] bool IsHostname(std::string_view text);

}  // namespace nstance::agent

// What an agent and its server say to each other: AgentService.
// Wire form and rules: proto/nstance/v1, ports/api/README.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"

namespace nstance::api {

struct KeyGenerationRequest {
  std::vector<std::string> key_names = {};  // Base names of key pairs, without `.pub`.
  std::string rebind = {};                  // The claim to bind to: renew the identity now.

  friend bool operator==(const KeyGenerationRequest&, const KeyGenerationRequest&) = default;
};

struct PublicKeySubmission {
  std::string filename = {};  // Base name as requested.
  // Despite its name: base64 of the SPKI DER, without armour and newlines.
  std::string public_key_pem = {};

  friend bool operator==(const PublicKeySubmission&, const PublicKeySubmission&) = default;
};

struct PublicKeysRequest {
  std::string instance_id = {};
  std::vector<PublicKeySubmission> keys = {};

  friend bool operator==(const PublicKeysRequest&, const PublicKeysRequest&) = default;
};

struct InterfaceMetrics {
  std::string interface_name = {};
  std::uint64_t rx_bytes = 0;  // All cumulative, except in the means of a report.
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_packets = 0;
  std::uint64_t tx_packets = 0;
  std::uint64_t rx_drops = 0;
  std::uint64_t tx_drops = 0;

  friend bool operator==(const InterfaceMetrics&, const InterfaceMetrics&) = default;
};

struct Metrics {
  std::optional<double> cpu_usage = {};  // Percent, mean of cores.
  std::vector<double> cpu_core_usage = {};
  std::optional<double> memory_usage = {};  // Percent used.
  std::optional<InterfaceMetrics> network_interface = {};
  std::optional<std::string> network_interface_error = {};
  std::map<std::uint32_t, std::uint64_t> ebpf_counters = {};  // Port to open TCP connections.
  std::optional<std::string> ebpf_error = {};
  std::optional<std::uint64_t> conntrack_count = {};
  std::optional<std::uint64_t> conntrack_max = {};
  std::optional<std::string> conntrack_error = {};

  friend bool operator==(const Metrics&, const Metrics&) = default;
};

struct FileStatus {
  // When the file was last written, or what is wrong with it.
  std::variant<std::monostate, Timestamp, std::string> status = {};

  friend bool operator==(const FileStatus&, const FileStatus&) = default;
};

struct TerminationNotice {
  std::string action = {};                 // terminate | stop | hibernate
  std::optional<Timestamp> deadline = {};  // Absent when unknown.

  friend bool operator==(const TerminationNotice&, const TerminationNotice&) = default;
};

struct HealthReportRequest {
  std::string version = {};  // Of the agent's build.
  std::string instance_id = {};
  std::optional<Timestamp> timestamp = {};  // The agent's clock; informational.
  std::int64_t count = 0;                   // 1, 2, 3 ... per agent process.
  std::string uptime = {};                  // Of the host, as Go duration text: `1h2m3s`.
  std::optional<Metrics> metrics = {};      // The latest sample.
  std::map<std::string, FileStatus> files = {};
  std::optional<TerminationNotice> termination_notice = {};
  std::string config_hash = {};
  // Means over the last minute; absent until it has been filled once.
  std::optional<Metrics> one_minute = {};
  std::optional<Metrics> five_minutes = {};
  std::optional<Metrics> fifteen_minutes = {};
  std::optional<Timestamp> booted_at = {};         // A change tells of a reboot.
  std::optional<Timestamp> agent_started_at = {};  // Of the agent's process.
  std::optional<Duration> report_interval = {};    // How often this agent reports.

  friend bool operator==(const HealthReportRequest&, const HealthReportRequest&) = default;
};

struct FileTransfer {
  std::string filename = {};
  std::string content = {};
  std::optional<Timestamp> last_modified = {};
  std::string config_hash = {};  // Only on the commit message.

  friend bool operator==(const FileTransfer&, const FileTransfer&) = default;
};

}  // namespace nstance::api

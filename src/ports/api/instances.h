// Instances: the part of OperatorService that is about them.
// Wire form and rules: proto/nstance/v1, ports/api/README.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace nstance::api {

enum class InstancePhase : std::int8_t {
  kUnknown = -1,  // A value that this program does not know; sent as kUnspecified.
  kUnspecified = 0,
  kIntended = 1,
  kCreating = 2,
  kProvisioned = 3,
  kRegistered = 4,
  kDraining = 5,
  kDeleting = 6,
  kGone = 7,
  kFailed = 8,
};

struct InstanceConfig {
  std::string group = {};
  std::string template_name = {};
  std::string instance_type = {};
  std::string subnet_pool = {};
  std::map<std::string, std::string> vars = {};

  friend bool operator==(const InstanceConfig&, const InstanceConfig&) = default;
};

struct CreateInstanceRequest {
  std::string instance_id = {};  // Empty: the server makes one.
  std::optional<InstanceConfig> config = {};
  std::string request_id = {};  // Makes the call idempotent within the tenant.

  friend bool operator==(const CreateInstanceRequest&, const CreateInstanceRequest&) = default;
};

struct CreateInstanceResponse {
  std::string instance_id = {};
  std::string status = {};

  friend bool operator==(const CreateInstanceResponse&, const CreateInstanceResponse&) = default;
};

struct DeleteInstanceRequest {
  std::string instance_id = {};
  bool drain = false;                          // Drain first, with the group's timeout.
  std::optional<Duration> drain_timeout = {};  // Drain first, with this timeout; wins over drain.

  friend bool operator==(const DeleteInstanceRequest&, const DeleteInstanceRequest&) = default;
};

struct DeleteInstanceResponse {
  std::string status = {};  // deleting | draining | deleted | unknown

  friend bool operator==(const DeleteInstanceResponse&, const DeleteInstanceResponse&) = default;
};

struct GetInstanceStatusRequest {
  std::string instance_id = {};

  friend bool operator==(const GetInstanceStatusRequest&,
                         const GetInstanceStatusRequest&) = default;
};

struct Instance {
  std::string instance_id = {};
  std::string tenant = {};
  std::string group = {};
  InstancePhase phase = InstancePhase::kUnspecified;
  std::string status = {};
  bool on_demand = false;
  std::string provider_instance_id = {};
  std::string instance_type = {};
  std::string subnet_id = {};
  std::string private_ipv4 = {};
  std::string private_ipv6 = {};
  std::string hostname = {};
  std::optional<Timestamp> created_at = {};
  std::optional<Timestamp> registered_at = {};  // Absent before registration.
  std::optional<Timestamp> last_seen = {};      // The last health report.
  std::string health = {};  // unknown | healthy | late | stale | disconnected | terminating
  std::string reason = {};  // Why it is draining, deleting or failed.
  std::optional<Timestamp> delete_at = {};  // Draining only.
  bool drifted = false;                     // Its infrastructure hash differs from the group's.
  std::string claim_request_id = {};
  std::optional<Timestamp> claimed_at = {};
  std::optional<Timestamp> cert_expires_at = {};
  std::string agent_version = {};
  std::string pool = {};
  std::string member_state = {};  // Empty outside pools.

  friend bool operator==(const Instance&, const Instance&) = default;
};

struct InstanceStatusResponse {
  std::string instance_id = {};
  std::string tenant = {};
  std::string status = {};
  std::optional<Timestamp> created_at = {};
  std::optional<Timestamp> last_seen = {};
  std::string provider_instance_id = {};
  std::optional<Instance> instance = {};  // Full detail.

  friend bool operator==(const InstanceStatusResponse&, const InstanceStatusResponse&) = default;
};

struct InstanceEvent {
  std::string instance_id = {};
  std::string tenant = {};
  std::string provider_instance_id = {};
  std::string group = {};
  std::string status = {};  // pending_deletion | deleted | drain_cancelled
  std::string reason = {};
  std::optional<Timestamp> unhealthy_at = {};  // Start of the drain.
  std::optional<Timestamp> delete_at = {};     // End of the drain.
  std::string drain_id = {};  // Names one drain; changes when an instance is drained again.

  friend bool operator==(const InstanceEvent&, const InstanceEvent&) = default;
};

struct DrainAckRequest {
  std::string instance_id = {};
  std::string drain_id = {};  // As received.

  friend bool operator==(const DrainAckRequest&, const DrainAckRequest&) = default;
};

struct ErrorEvent {
  std::string group = {};
  std::string instance_id = {};
  std::string error = {};
  std::optional<Timestamp> timestamp = {};

  friend bool operator==(const ErrorEvent&, const ErrorEvent&) = default;
};

struct ListInstancesRequest {
  std::string group = {};                  // Empty: all groups of the tenant.
  std::vector<InstancePhase> phases = {};  // Empty: all but GONE.
  std::int32_t page_size = 0;              // 0 = 100, at most 1000.
  std::string page_token = {};             // From the previous answer.

  friend bool operator==(const ListInstancesRequest&, const ListInstancesRequest&) = default;
};

struct ListInstancesResponse {
  std::vector<Instance> instances = {};
  std::string next_page_token = {};

  friend bool operator==(const ListInstancesResponse&, const ListInstancesResponse&) = default;
};

}  // namespace nstance::api

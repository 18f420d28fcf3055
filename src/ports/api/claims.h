// Claims of warm instances: ClaimInstance and ReleaseInstance of OperatorService.
// Wire form and rules: proto/nstance/v1, ports/api/README.md.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "ports/api/instances.h"

namespace nstance::api {

struct ClaimInstanceRequest {
  std::string request_id = {};        // Required; makes the claim idempotent within the tenant.
  std::string group = {};             // Required; a group with `pool` or `draw_from`.
  std::optional<Duration> wait = {};  // How long to wait; 0 = not, at most 10 min.
  std::map<std::string, std::string> vars = {};  // Overlaid on the group's.
  bool until_ready = false;                      // Answer only when the agent has confirmed.

  friend bool operator==(const ClaimInstanceRequest&, const ClaimInstanceRequest&) = default;
};

struct ClaimInstanceResponse {
  std::optional<Instance> instance = {};
  std::string source = {};  // warm | cold
  bool ready = false;

  friend bool operator==(const ClaimInstanceResponse&, const ClaimInstanceResponse&) = default;
};

struct ReleaseInstanceRequest {
  std::string request_id = {};
  std::string instance_id = {};

  friend bool operator==(const ReleaseInstanceRequest&, const ReleaseInstanceRequest&) = default;
};

struct ReleaseInstanceResponse {
  std::string status = {};  // draining | deleting | returned | deleted

  friend bool operator==(const ReleaseInstanceResponse&, const ReleaseInstanceResponse&) = default;
};

}  // namespace nstance::api

// WatchEvents of OperatorService.
// Wire form and rules: proto/nstance/v1, ports/api/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "ports/api/instances.h"

namespace nstance::api {

struct Event {
  std::optional<Timestamp> time = {};
  std::string type = {};  // phase | group | hold | error | brake | claim | leader
  std::string group = {};
  std::string instance_id = {};
  InstancePhase phase = InstancePhase::kUnspecified;
  std::string reason = {};
  std::string message = {};

  friend bool operator==(const Event&, const Event&) = default;
};

// Empty fields match everything.
struct WatchEventsRequest {
  std::string group = {};
  std::string instance_id = {};
  std::int32_t backlog = 0;  // At most 256.

  friend bool operator==(const WatchEventsRequest&, const WatchEventsRequest&) = default;
};

}  // namespace nstance::api

// Plan and Explain of OperatorService: what the planner would do, and why it does not.
// Wire form and rules: proto/nstance/v1, ports/api/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "ports/api/events.h"
#include "ports/api/groups.h"
#include "ports/api/instances.h"

namespace nstance::api {

// What the planner does, or would do, next.
struct Action {
  // create | drain | cancel-drain | delete | replace | push-files | lb-register | lb-deregister |
  // claim | draw | park | wake
  std::string kind = {};
  std::string group = {};
  std::string instance_id = {};  // Empty for a create that is not named yet.
  std::string reason = {};
  std::int32_t priority = 0;  // 1 to 5.
  std::string detail = {};    // One sentence.

  friend bool operator==(const Action&, const Action&) = default;
};

// Why something that looks due is not being done.
struct Hold {
  std::string code = {};
  std::string group = {};
  std::string instance_id = {};
  std::string detail = {};
  std::optional<Timestamp> until = {};  // Absent: until something changes.

  friend bool operator==(const Hold&, const Hold&) = default;
};

struct PlanRequest {
  std::string group = {};
  std::optional<UpsertGroupRequest> what_if = {};
  bool remove = false;  // Preview DeleteGroup.

  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

struct PlanResponse {
  std::vector<Action> actions = {};
  std::vector<Hold> holds = {};
  std::optional<Timestamp> replan_at = {};

  friend bool operator==(const PlanResponse&, const PlanResponse&) = default;
};

struct ExplainRequest {
  struct Group {
    std::string key = {};

    friend bool operator==(const Group&, const Group&) = default;
  };
  struct InstanceId {
    std::string text = {};

    friend bool operator==(const InstanceId&, const InstanceId&) = default;
  };

  std::variant<std::monostate, Group, InstanceId> subject = {};

  friend bool operator==(const ExplainRequest&, const ExplainRequest&) = default;
};

struct ExplainResponse {
  std::string summary = {};               // One or two sentences for people.
  std::optional<Instance> instance = {};  // Whichever was asked for.
  std::optional<GroupStatus> status = {};
  std::vector<Action> actions = {};
  std::vector<Hold> holds = {};
  std::optional<Timestamp> replan_at = {};
  std::vector<Event> history = {};  // The latest 32, newest last.

  friend bool operator==(const ExplainResponse&, const ExplainResponse&) = default;
};

}  // namespace nstance::api

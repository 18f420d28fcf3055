// Configuration and groups: the part of OperatorService that is about them.
// Wire form and rules: proto/nstance/v1, ports/api/README.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace nstance::api {

enum class GroupEventType : std::int8_t {
  kUnknown = -1,  // A value that this program does not know; sent as kUnspecified.
  kUnspecified = 0,
  kUpsert = 1,
  kDelete = 2,
};

struct ConfigStatusResponse {
  std::string etag = {};
  std::optional<Timestamp> last_modified = {};
  std::int64_t size = 0;

  friend bool operator==(const ConfigStatusResponse&, const ConfigStatusResponse&) = default;
};

struct RefreshConfigResponse {
  bool updated = false;
  std::string prev_etag = {};
  std::string etag = {};

  friend bool operator==(const RefreshConfigResponse&, const RefreshConfigResponse&) = default;
};

struct OperatorFence {
  std::string lease_uid = {};
  std::int64_t transitions = 0;

  friend bool operator==(const OperatorFence&, const OperatorFence&) = default;
};

struct GroupConfig {
  std::string template_name = {};
  std::int32_t size = 0;
  std::string instance_type = {};
  std::string subnet_pool = {};
  std::map<std::string, std::string> vars = {};
  std::map<std::string, std::string> args = {};
  std::string draw_from = {};  // The pool that it draws from.

  friend bool operator==(const GroupConfig&, const GroupConfig&) = default;
};

struct UpsertGroupRequest {
  std::string key = {};
  std::optional<GroupConfig> config = {};
  std::string request_id = {};  // A repeat is not applied again.
  bool size_unset = false;      // Ignore config.size; keep the present size (new group: 0).
  // Fields of config taken exactly as given, empty included.
  std::vector<std::string> replace = {};
  std::vector<std::string> remove_instance_ids = {};  // Members that go first when the size falls.
  std::optional<OperatorFence> fence = {};            // Absent: not checked.

  friend bool operator==(const UpsertGroupRequest&, const UpsertGroupRequest&) = default;
};

struct DeleteGroupRequest {
  std::string key = {};

  friend bool operator==(const DeleteGroupRequest&, const DeleteGroupRequest&) = default;
};

struct GroupStatus {
  std::string key = {};
  std::string tenant = {};
  std::string template_name = {};
  std::int32_t size = 0;
  std::string instance_type = {};
  std::string subnet_pool = {};
  std::map<std::string, std::string> vars = {};
  bool is_static = false;
  std::string etag = {};
  std::int32_t actual_size = 0;
  std::vector<std::string> provider_ids = {};  // Sorted as text.
  std::int32_t draining = 0;
  std::int32_t creating = 0;  // Intended, creating, or provisioned but not registered.
  std::int32_t ready = 0;     // Registered and healthy.
  std::int32_t warm = 0;      // Pools: ready and unclaimed.
  std::int32_t claimed = 0;   // Pools: claimed.
  std::vector<std::string> instance_ids = {};  // Managed, unclaimed, not deleting or gone; sorted.
  bool pool = false;                           // The group is a pool.
  std::string draw_from = {};                  // The pool that it draws from.
  std::int32_t warming = 0;                    // Pools: on the way to ready.

  friend bool operator==(const GroupStatus&, const GroupStatus&) = default;
};

struct ListGroupsResponse {
  std::vector<GroupStatus> groups = {};

  friend bool operator==(const ListGroupsResponse&, const ListGroupsResponse&) = default;
};

struct GroupEvent {
  GroupEventType type = GroupEventType::kUnspecified;
  std::optional<GroupStatus> group = {};

  friend bool operator==(const GroupEvent&, const GroupEvent&) = default;
};

}  // namespace nstance::api

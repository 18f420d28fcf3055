// What a command that talks to shard leaders was asked to do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "admin/storage_command.h"
#include "base/name.h"
#include "base/time.h"
#include "core/config/config.h"
#include "ports/api/instances.h"
#include "ports/rpc.h"

namespace nstance::admin {

struct ServerAddress {
  ShardId shard;
  RpcAddress address = {};
  friend bool operator==(const ServerAddress&, const ServerAddress&) = default;
};

// Flags of every one of these commands.
struct ShardFlags {
  std::vector<ServerAddress> servers = {};  // Those that are asked, in the order of --servers.
  std::string identity_dir = {};
  Duration timeout = Duration::Seconds(30);  // Of all calls to one shard together.
  // Where the leases are, to tell who leads; empty: not given.
  std::optional<StorageFlags> storage = std::nullopt;
  friend bool operator==(const ShardFlags&, const ShardFlags&) = default;
};

using Wait = std::optional<Duration>;  // How long; empty: do not wait.

struct ConfigStatus {
  friend bool operator==(const ConfigStatus&, const ConfigStatus&) = default;
};

struct ConfigRefresh {
  Wait wait = std::nullopt;
  friend bool operator==(const ConfigRefresh&, const ConfigRefresh&) = default;
};

struct GroupList {
  bool wide = false;
  friend bool operator==(const GroupList&, const GroupList&) = default;
};

struct GroupShow {
  GroupKey group;
  friend bool operator==(const GroupShow&, const GroupShow&) = default;
};

struct GroupCreate {
  std::string template_name = {};  // Empty: only with `update`.
  std::optional<std::int32_t> size = std::nullopt;
  std::string instance_type = {};
  std::string subnet_pool = {};
  config::StringMap vars = {};
  config::StringMap args = {};
  bool update = false;  // The group may exist.
  friend bool operator==(const GroupCreate&, const GroupCreate&) = default;
};

struct GroupScale {
  std::vector<std::int32_t> sizes = {};  // One per server.
  friend bool operator==(const GroupScale&, const GroupScale&) = default;
};

struct GroupDelete {
  bool yes = false;
  friend bool operator==(const GroupDelete&, const GroupDelete&) = default;
};

struct GroupChange {
  GroupKey group;
  std::variant<GroupCreate, GroupScale, GroupDelete> what = {};
  bool dry_run = false;
  Wait wait = std::nullopt;
  friend bool operator==(const GroupChange&, const GroupChange&) = default;
};

struct InstanceList {
  std::string group = {};                       // Empty: of all groups.
  std::vector<api::InstancePhase> phases = {};  // Empty: all but gone.
  bool wide = false;
  friend bool operator==(const InstanceList&, const InstanceList&) = default;
};

struct InstanceShow {
  std::string id = {};
  friend bool operator==(const InstanceShow&, const InstanceShow&) = default;
};

struct InstanceCreate {
  GroupKey group;
  std::string id = {};  // Empty: the server makes one.
  std::string template_name = {};
  std::string instance_type = {};
  std::string subnet_pool = {};
  config::StringMap vars = {};
  Wait wait = std::nullopt;
  friend bool operator==(const InstanceCreate&, const InstanceCreate&) = default;
};

struct InstanceDelete {
  std::vector<std::string> ids = {};
  bool drain = false;
  std::optional<Duration> drain_timeout = std::nullopt;
  bool yes = false;
  Wait wait = std::nullopt;
  friend bool operator==(const InstanceDelete&, const InstanceDelete&) = default;
};

struct ShowPlan {
  std::string group = {};  // Empty: of all groups.
  std::optional<std::int32_t> size = std::nullopt;
  config::StringMap vars = {};
  friend bool operator==(const ShowPlan&, const ShowPlan&) = default;
};

// An instance or a group: an id has a form of its own.
struct Why {
  std::string subject = {};
  bool is_instance = false;
  friend bool operator==(const Why&, const Why&) = default;
};

enum class WatchView : std::uint8_t { kGroups, kInstances, kEvents };

struct Watch {
  std::string group = {};  // Empty: all groups.
  WatchView view = WatchView::kGroups;
  friend bool operator==(const Watch&, const Watch&) = default;
};

using ShardAction =
    std::variant<ConfigStatus, ConfigRefresh, GroupList, GroupShow, GroupChange, InstanceList,
                 InstanceShow, InstanceCreate, InstanceDelete, ShowPlan, Why, Watch>;

struct ShardCommand {
  ShardFlags flags = {};
  ShardAction action = {};
  friend bool operator==(const ShardCommand&, const ShardCommand&) = default;
};

}  // namespace nstance::admin

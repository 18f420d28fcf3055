// ClusterConfig: the configuration of a small shard for end-to-end tests: provider `local`, file
// store, and timings at which a test does not have to wait.
//
//   health interval 2 s, reports every 1 s, lease 4 s renewed every 1 s, drains of 5 s, no brake,
//   no exit jitter
//
// User data writes token and CA below the instance's own folder and runs the agent's command there,
// with the environment that agents have.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace nstance::test {

struct GroupSpec {
  std::string tenant = "default";
  std::string name = {};
  int size = 0;
  // Further keys of the group, by name.
  std::vector<json::Member> more = {};
};

struct ClusterConfig {
  std::string cluster = "e2e-cluster";
  std::string shard = "local-a";
  std::string instances_root = {};  // Where the local provider keeps its instances.
  // The program of the agent, by its full path, and its arguments.
  std::vector<std::string> agent_command = {};
  std::vector<std::string> tenants = {};  // Besides `default`.
  std::vector<GroupSpec> groups = {};
  // "host:port" that agents and operators are told; empty: what is really bound.
  std::string registration_address = {};
  std::string operator_address = {};
  std::string agent_address = {};
  // Keys below `server` that are added, or replace what is set here.
  std::vector<json::Member> server = {};

  // The environment variable that holds the encryption key: 32 bytes.
  static constexpr const char* kKeyVariable = "NSTANCE_ENCRYPTION_KEY";

  [[nodiscard]] json::Value ToJson() const;
  // As the object config/{shard}.jsonc holds it.
  [[nodiscard]] std::string ToText() const;
};

}  // namespace nstance::test

// The configuration that `cluster init` writes: for people to read and change, and to start with.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "admin/storage_command.h"
#include "base/name.h"
#include "base/result.h"
#include "core/config/config.h"

namespace nstance::admin {

struct InitialSettings {
  ClusterId cluster;
  ShardId shard;
  std::string instances_root = {};  // Absolute.
  std::string agent = {};           // Absolute path of nstance-agent.
  std::string arch = {};
  // Loopback ports; a standby opens them when the leader is gone.
  std::uint16_t registration_port = 0;
  std::uint16_t operator_port = 0;
  std::uint16_t agent_port = 0;
  config::EncryptionKey key = {};
  std::string secrets_prefix = {};
  std::vector<GroupSize> groups = {};
};

// JSONC with comments, accepted by the server's own loader: kInvalidArgument with the first problem
// otherwise.
[[nodiscard]] Result<std::string> InitialConfig(const InitialSettings& settings);

// One word of a POSIX shell, quoted where it has to be.
[[nodiscard]] std::string ShellWord(std::string_view text);

}  // namespace nstance::admin

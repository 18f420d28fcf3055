// What the killed servers and the test that kills them ask for: the same request for one id, so
// that every Create of it is a repetition.
//
// The user data counts its starts, and tells when another one of the same id runs beside it.
#pragma once

#include <string>
#include <utility>

#include <fmt/core.h>

#include "adapters/provider_local/local_provider.h"
#include "ports/provider.h"

namespace nstance::test {

[[nodiscard]] inline ProviderCreate KillRequest(const InstanceId& id, const std::string& starts) {
  return {.instance_id = id,
          .tenant = DefaultTenant(),
          .group = "workers",
          .user_data = fmt::format("echo start >> {0}/{1}\nexec 9>> {0}/{1}.lock\n"
                                   "flock -n 9 || echo {1} >> {0}/overlaps\n"
                                   "sleep 600 & exec sleep 601\n",
                                   starts, id.text()),
          .created_at = Timestamp::FromUnix(1'760'000'000)};
}

[[nodiscard]] inline LocalProvider::Options KillOptions(std::string root) {
  return {.local = {.root = std::move(root), .kill_grace = Duration::Milliseconds(200)},
          .cluster = *ClusterId::Parse("prod"),
          .shard = *ShardId::Parse("a"),
          .keeper_command = {NSTANCE_LOCAL_KEEPER},
          .pool = {.threads = 2}};
}

}  // namespace nstance::test

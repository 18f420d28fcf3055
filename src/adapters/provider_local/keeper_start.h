// Starting a keeper (keeper.h) from the server.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "adapters/provider_local/files.h"
#include "base/result.h"

namespace nstance::provider_local {

struct KeeperStart {
  // Program and first arguments; the folder is added. The program must call RunKeeper().
  std::vector<std::string> command;
  std::string folder;
  std::string instance_id;
};

// Hands `lock`, which must be locked, to a new keeper and waits until it tells that the instance
// runs. The keeper is a child of this process, in a session of its own, and lives on when this
// process dies. Whoever sees it end calls Reap().
//
// kResourceExhausted: there is no room for another process; surely nothing has run. Any other error
// is kMaybeDone: the folder tells.
[[nodiscard]] Status StartKeeper(const KeeperStart& start, Descriptor lock,
                                 const std::stop_token& stop);

// Collects a child that has ended, if it is one of ours.
void Reap(pid_t pid);

}  // namespace nstance::provider_local

// The commands that talk to shard leaders: one command in, its ending out, on a loop.
//
//   const auto program = StartShardCommand(command, common, deps, [&](Ending ending) {
//     ...
//     loop.Stop();
//   });
//   loop.Run();
//
// Ctrl-C, SIGTERM and SIGHUP end it with 128 and the signal's number: a change that was asked for
// goes on, only the waiting ends; a screen is left as it was found.
#pragma once

#include <memory>

#include "admin/common_flags.h"
#include "admin/shard/fan.h"
#include "admin/shard/session.h"
#include "admin/shard_command.h"

namespace nstance::admin {

// The ending comes once, never from inside. Destroying what is returned stops the command.
[[nodiscard]] std::unique_ptr<Running> StartShardCommand(const ShardCommand& command,
                                                         const CommonFlags& common, ShardDeps deps,
                                                         Done done);

}  // namespace nstance::admin

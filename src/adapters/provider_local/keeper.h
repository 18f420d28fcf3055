// The keeper: the small process above one instance, so that the instance outlives the server.
//
// It is started by the server (keeper_start.h) as a program of its own, in a session of its own,
// and from then on needs nobody. It has one thread and does this:
//   1  checks that it holds the instance's lock, which it keeps for life, and that the instance
//      never ran: whoever comes second leaves
//   2  forks the shell, which waits; writes run.json, synced; lets the shell go. So an instance of
//      which run.json says nothing has not run one instruction of its user data, and one that a
//      crash left with a run.json is never started again
//   3  collects orphans (it is their subreaper) and the console, until the last process of the tree
//      has ended; then writes the shell's exit code to run.json and leaves
// It heeds no signal but SIGKILL. When the instance has a run limit it ends the tree when that is
// over: SIGTERM, then SIGKILL after `kill_grace`.
//
// Steps, for the tests that kill it at each: keeper-locked, keeper-forked, keeper-recorded,
// keeper-released, keeper-ended, keeper-noted.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace nstance::provider_local {

// What the keeper finds open.
inline constexpr int kKeeperLock = 3;
// Where it tells whoever started it, in one write: kKeeperStarted, or what went wrong.
inline constexpr int kKeeperReport = 4;
inline constexpr std::string_view kKeeperStarted = "started\n";

struct KeeperOptions {
  std::string folder;  // The instance's, as an absolute path.
  std::size_t console_limit = std::size_t{8} << 20U;
  // Called at each step; null: nothing.
  std::function<void(std::string_view)> step = {};
};

// Returns the exit code of the process when the instance is over. REQUIRES: one thread.
[[nodiscard]] int RunKeeper(const KeeperOptions& options);

}  // namespace nstance::provider_local

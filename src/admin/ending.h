// How a command ends: what the process prints, and its exit code.
#pragma once

#include <string>

namespace nstance::admin {

// Exit codes of every command.
inline constexpr int kExitDone = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitBadCommandLine = 2;
inline constexpr int kExitNotFound = 3;
inline constexpr int kExitSomeShardsFailed = 4;
inline constexpr int kExitWaitedTooLong = 5;

struct Ending {
  int exit_code = kExitDone;
  std::string out = {};
  std::string err = {};
  friend bool operator==(const Ending&, const Ending&) = default;
};

}  // namespace nstance::admin

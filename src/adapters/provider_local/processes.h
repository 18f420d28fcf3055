// Processes of this machine as /proc shows them. A pid alone is never believed: a process is its
// pid together with its start time, and signals go through a pidfd that was compared with both.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/provider_local/files.h"

namespace nstance::provider_local {

// The variable that marks every process of an instance.
inline constexpr std::string_view kMarkVariable = "NSTANCE_LOCAL_ID";

struct ProcessName {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // Clock ticks after boot.
  friend bool operator==(const ProcessName&, const ProcessName&) = default;
};

struct Process {
  ProcessName name = {};
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';
  // Ended; only its parent has not looked yet.
  [[nodiscard]] bool is_dead() const { return state == 'Z' || state == 'X' || state == 'x'; }
};

// The content of /proc/<pid>/stat; nothing when it is not of that form.
[[nodiscard]] std::optional<Process> ParseStat(std::string_view text);
// Nothing when there is no such process.
[[nodiscard]] std::optional<Process> FindProcess(pid_t pid);
[[nodiscard]] bool IsAlive(const ProcessName& name);

struct Tree {
  bool keeper_alive = false;
  std::vector<Process> members;  // Alive; without the keeper.
};

// Everything that belongs to an instance: whatever carries its mark in the environment that it was
// started with; whatever descends from its keeper; and the keeper's session, as long as the keeper
// or somebody marked is in it (afterwards its number may be anybody's). An error when /proc cannot
// be read whole: then nothing is known.
[[nodiscard]] Result<Tree> FindTree(std::string_view instance_id,
                                    const std::optional<ProcessName>& keeper);

// A handle of exactly that process; not open when it is gone.
[[nodiscard]] Descriptor OpenProcess(const ProcessName& name);
// True when the signal was delivered.
bool SendSignal(const ProcessName& name, int signal);

// Of this boot of this machine, and of the numbering of processes that we see; empty if unknown.
[[nodiscard]] std::string BootId();
[[nodiscard]] std::string PidNamespace();

}  // namespace nstance::provider_local

// AgentFiles: one directory of the agent, and the few things that are done to the files in it.
//
// The calls are synchronous: an agent has one thread, its files are small and local, and it makes
// one call per turn while it serves streams. Names are base names of our own, never from outside.
//
// Guarantees, each held by the contract suite:
//   - every change is atomic and durable: when a call has succeeded its effect survives a power
//     cut; when it failed, or the process died in it, the file has its old or its new content,
//     never a mixture and never none
//   - a new file has the mode that the directory was opened with; links are not followed
//   - Remove() of what is not there is a success
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace nstance {

class AgentFiles {
 public:
  // Largest file that Read() takes.
  static constexpr std::size_t kMaxFileBytes = std::size_t{256} * 1024;
  // Most files that List() tells of.
  static constexpr std::size_t kMaxListed = 256;

  AgentFiles() = default;
  AgentFiles(const AgentFiles&) = delete;
  AgentFiles& operator=(const AgentFiles&) = delete;
  virtual ~AgentFiles() = default;

  // For messages: "/opt/nstance-agent/identity/ca.crt".
  [[nodiscard]] virtual std::string PathOf(std::string_view name) const = 0;

  // Empty: there is no such file. kFailedPrecondition: something else than a regular file;
  // kResourceExhausted: above kMaxFileBytes; kUnavailable: the system's error.
  [[nodiscard]] virtual Result<std::optional<std::string>> Read(std::string_view name) = 0;
  [[nodiscard]] virtual Status Replace(std::string_view name, std::string_view bytes) = 0;
  // kNotFound when there is no `from`. What was at `to` is gone.
  [[nodiscard]] virtual Status Move(std::string_view from, std::string_view to) = 0;
  [[nodiscard]] virtual Status Remove(std::string_view name) = 0;

  // The regular files below it whose names do not begin with a dot, with the time of their last
  // change in whole seconds.
  [[nodiscard]] virtual Result<std::map<std::string, Timestamp>> List() = 0;
};

}  // namespace nstance

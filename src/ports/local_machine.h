// LocalMachine: what the command line tool does to the machine that it runs on: folders of keys and
// certificates, a few facts.
//
// The calls are synchronous: a command does one thing after the other. Guarantees, each held by a
// test:
//   - what is made here is for its owner only: folders 0700, files 0600 (but for MakeFolder)
//   - a file appears whole and durable, or not at all
//   - errors say the path and the system's reason
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ports/agent_files.h"

namespace nstance {

class LocalMachine {
 public:
  LocalMachine() = default;
  LocalMachine(const LocalMachine&) = delete;
  LocalMachine& operator=(const LocalMachine&) = delete;
  virtual ~LocalMachine() = default;

  // A folder for private files; it and what is missing above it are made. One that is there keeps
  // its mode.
  [[nodiscard]] virtual Result<std::unique_ptr<AgentFiles>> OpenFolder(const std::string& path) = 0;
  // A folder for everybody to look into (0755), with what is missing above it. There already: fine.
  [[nodiscard]] virtual Status MakeFolder(const std::string& path) = 0;
  // kAlreadyExists when there is something of that name; it is left as it is. Folders that are
  // missing above it are made.
  [[nodiscard]] virtual Status CreateFile(const std::string& path, std::string_view bytes) = 0;
  [[nodiscard]] virtual bool Exists(const std::string& path) = 0;
  // kNotFound; kResourceExhausted above `max_bytes`.
  [[nodiscard]] virtual Result<std::string> ReadFile(const std::string& path,
                                                     std::size_t max_bytes) = 0;

  // From the root, without `.` and `..`; links are not looked at.
  [[nodiscard]] virtual std::string AbsolutePath(const std::string& path) = 0;
  // Where this program lies.
  [[nodiscard]] virtual std::string ProgramFolder() = 0;
  // "amd64", "arm64".
  [[nodiscard]] virtual std::string Architecture() = 0;
  // Different ports of the loopback address on which nobody listens now.
  [[nodiscard]] virtual Result<std::vector<std::uint16_t>> FreePorts(std::size_t count) = 0;
};

}  // namespace nstance

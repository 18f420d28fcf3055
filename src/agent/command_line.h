// The command line of nstance-agent: all it needs stands in the environment, so there is little.
#pragma once

#include <expected>
#include <span>
#include <string>

namespace nstance::agent {

struct CommandLine {
  bool debug = false;
};

// What the process prints, and how it ends.
struct Ending {
  int exit_code = 0;
  std::string out = {};
  std::string err = {};
};

// `words` without the program's own name. --help and --version end with 0, anything unknown with 2.
// `libraries`: the lines of --version after its first.
[[nodiscard]] std::expected<CommandLine, Ending> ParseCommandLine(
    std::span<const std::string> words, const std::string& libraries = {});

}  // namespace nstance::agent

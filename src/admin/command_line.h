// The command line of nstance-admin: words in, one command or the reason to end out.
//
//   const auto line = admin::ParseCommandLine(words, variable);
//   if (!line) return Print(line.error());          // Help, version, or what is wrong.
//   std::visit(..., line->command);
//
// Guarantees, each held by a test:
//   - nothing is read, opened or changed; the same words and variables give the same result
//   - --help works at every level and exits with 0; a wrong line exits with 2 and says what is
//     wrong, what is allowed and, where something close exists, what was probably meant
//   - flags common to all commands may stand before or after the command
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "admin/common_flags.h"
#include "admin/config_command.h"
#include "admin/ending.h"
#include "admin/reference_command.h"
#include "admin/shard_command.h"
#include "admin/storage_command.h"

namespace nstance::admin {

// One alternative per family of commands.
using Command = std::variant<ConfigCommand, StorageCommand, ShardCommand, ReferenceCommand>;

struct CommandLine {
  CommonFlags common = {};
  Command command;
};

// The value of an environment variable; an empty one counts as absent.
using Variable = std::function<std::optional<std::string>(const std::string& name)>;

// `words` without the program's own name. `libraries`: the lines of --version after its first.
[[nodiscard]] std::expected<CommandLine, Ending> ParseCommandLine(
    std::span<const std::string> words, const Variable& variable,
    const std::string& libraries = {});

}  // namespace nstance::admin

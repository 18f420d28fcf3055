// The command line of nstance-admin: words in, one command or the reason to end out.
//
//   const auto line = admin::ParseCommandLine(words);
//   if (!line) return Print(line.error());          // Help, version, or what is wrong.
//   std::visit(..., line->command);
//
// Guarantees, each held by a test:
//   - nothing is read, opened or changed; the same words give the same result
//   - --help works at every level and exits with 0; a wrong line exits with 2 and says what is
//     wrong, what is allowed and, where something close exists, what was probably meant
//   - flags common to all commands may stand before or after the command
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "core/config/config.h"

namespace nstance::admin {

enum class Output : std::uint8_t { kTable, kJson };

struct CommonFlags {
  Output output = Output::kTable;
  bool no_color = false;
  bool quiet = false;
  bool debug = false;
  friend bool operator==(const CommonFlags&, const CommonFlags&) = default;
};

struct ConfigValidate {
  std::string file = {};
  friend bool operator==(const ConfigValidate&, const ConfigValidate&) = default;
};

struct ConfigConvert {
  std::string file = {};
  friend bool operator==(const ConfigConvert&, const ConfigConvert&) = default;
};

enum class RenderPart : std::uint8_t { kAll, kUserData, kArgs, kFiles };

// What an instance of a group would get.
struct ConfigRenderGroup {
  std::string file = {};
  TenantId tenant;
  GroupKey group;
  RenderPart part = RenderPart::kAll;
  config::StringMap vars = {};  // As an on-demand request would give them.
  friend bool operator==(const ConfigRenderGroup&, const ConfigRenderGroup&) = default;
};

// One template against one JSON document.
struct ConfigRenderTemplate {
  std::string template_file = {};
  std::string data_file = {};
  friend bool operator==(const ConfigRenderTemplate&, const ConfigRenderTemplate&) = default;
};

using Command =
    std::variant<ConfigValidate, ConfigConvert, ConfigRenderGroup, ConfigRenderTemplate>;

struct CommandLine {
  CommonFlags common = {};
  Command command;
};

// Exit codes of every command.
inline constexpr int kExitDone = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitBadCommandLine = 2;
inline constexpr int kExitNotFound = 3;

// What the process prints, and how it ends.
struct Ending {
  int exit_code = kExitDone;
  std::string out = {};
  std::string err = {};
  friend bool operator==(const Ending&, const Ending&) = default;
};

// `words` without the program's own name.
[[nodiscard]] std::expected<CommandLine, Ending> ParseCommandLine(
    std::span<const std::string> words);

}  // namespace nstance::admin

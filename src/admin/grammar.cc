#include "admin/grammar.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "base/version.h"

namespace nstance::admin {
namespace {

constexpr Help kProgram = {
    "Manages Nstance: groups of VM instances that keep their size.",
    "  nstance-admin cluster init --storage-provider file --storage-bucket ./bucket --group web=3\n"
    "  nstance-admin config validate config/dc1-zone-a.jsonc\n"
    "  nstance-admin group scale workers 20 --servers dc1-zone-a=10.0.0.1:8993 --wait\n"
    "  nstance-admin why workers --servers dc1-zone-a=10.0.0.1:8993\n"
    "\n"
    "Exit codes: 0 done, 1 error, 2 bad command line, 3 not found, 4 some shards failed, 5 --wait\n"
    "ran out of time (1 when only an administrator can end what holds it)."};

constexpr const char* kCommonNote = "\n\nFlags of every command: nstance-admin --help";

constexpr Help kConfig = {"Check, convert and render configuration files; ask servers for theirs",
                          "Try `nstance-admin config validate --help`."};

void AddCommonFlags(Grammar& grammar) {
  CLI::App& app = *grammar.app;
  app.set_help_flag("-h,--help", "Print help and exit");
  app.set_version_flag("--version", fmt::format("nstance-admin {}", Version()),
                       "Print the version and exit");
  app.add_option("-o,--output", grammar.output, "table (default) or json")->type_name("FORMAT");
  app.add_flag("--json", grammar.json, "Short for --output json");
  app.add_option("--temp-dir", grammar.common.temp_dir,
                 "Where identities are kept (default ./temp)")
      ->type_name("DIR");
  app.add_flag("--no-color", grammar.common.no_color, "No colour, also on terminals");
  app.add_flag("-q,--quiet", grammar.common.quiet, "No progress, no notes");
  app.add_flag("-v,--debug", grammar.common.debug, "Text logs on stderr");
}

bool IsVariableName(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (name.empty() || !letter(name.front())) return false;
  return std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

Grammar::Grammar(Variable of)
    : variable(std::move(of)), app(std::make_unique<CLI::App>(kProgram.summary, "nstance-admin")) {}

Grammar::~Grammar() = default;

CLI::App* AddCommand(CLI::App& above, const char* name, const Help& help) {
  CLI::App* command = above.add_subcommand(name, help.summary);
  command->footer(std::string(help.details) + kCommonNote);
  command->fallthrough();
  return command;
}

CLI::App* AddFamily(CLI::App& above, const char* name, const Help& help) {
  CLI::App* family = AddCommand(above, name, help);
  family->require_subcommand(1);
  return family;
}

std::string FlagOr(const Grammar& grammar, const std::string& flag, const char* variable) {
  return flag.empty() ? grammar.variable(variable).value_or("") : flag;
}

Parsed<config::StringMap> VarsOf(const std::vector<std::string>& words) {
  config::StringMap vars;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals == std::string::npos || !IsVariableName(name)) {
      return std::unexpected(
          fmt::format("--var: {} is not NAME=value; NAME is letters, digits and _, not starting "
                      "with a digit",
                      Quote(word)));
    }
    if (!IsValidUtf8(word)) return std::unexpected("--var: the value is not UTF-8");
    if (!vars.emplace(name, word.substr(equals + 1)).second) {
      return std::unexpected(fmt::format("--var: {} is given twice", name));
    }
  }
  return vars;
}

std::unique_ptr<Grammar> MakeGrammar(Variable variable) {
  auto grammar = std::make_unique<Grammar>(std::move(variable));
  AddCommonFlags(*grammar);
  grammar->app->footer(kProgram.details);
  grammar->app->require_subcommand(1);
  AddStorageCommands(*grammar);
  CLI::App* config = AddFamily(*grammar->app, "config", kConfig);
  AddConfigFileCommands(*grammar, *config);
  AddConfigShardCommands(*grammar, *config);
  AddShardCommands(*grammar);
  AddReferenceCommands(*grammar);
  return grammar;
}

}  // namespace nstance::admin

#include "admin/command_line.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "admin/print.h"
#include "base/text.h"
#include "base/version.h"
#include "core/config/suggest.h"

namespace nstance::admin {
namespace {

// One line for the list of commands, and what `--help` of the command teaches at its end.
struct Help {
  const char* summary;
  const char* details;
};

constexpr Help kProgram = {
    "Manages Nstance: groups of VM instances that keep their size.",
    "  nstance-admin config validate config/dc1-zone-a.jsonc\n"
    "  nstance-admin config render --config config/dc1-zone-a.jsonc --group prod/workers\n"
    "\n"
    "Exit codes: 0 done, 1 error, 2 bad command line, 3 not found."};

constexpr const char* kCommonNote = "\n\nFlags of every command: nstance-admin --help";

constexpr Help kConfig = {"Check, convert and render configuration files, without any network",
                          "Try `nstance-admin config validate --help`."};

constexpr Help kValidate = {
    "Check a configuration with the rules and messages of the server",
    "All problems are told at once, each with its place, what is allowed and, where something "
    "close\n"
    "exists, what was probably meant. Exit 0: valid (there may be warnings). Exit 1: not valid.\n"
    "\n"
    "  nstance-admin config validate config/dc1-zone-a.jsonc\n"
    "  nstance-admin config validate --json config/dc1-zone-a.jsonc"};

constexpr Help kConvert = {
    "Print the `server`-rooted form of a `cluster`/`shard`-rooted file",
    "Every value that the file gives is kept; comments are not. The file must be valid.\n"
    "\n"
    "  nstance-admin config convert old.jsonc > config/dc1-zone-a.jsonc"};

constexpr Help kRender = {
    "Print what an instance would get, or render one template",
    "With --config and --group: user data, provider arguments and files of an instance of the "
    "group,\n"
    "with a made-up id, token and addresses. Contents of secrets and stored objects are not "
    "fetched.\n"
    "With --template and --data: one template against one JSON document; the output is exactly "
    "the\n"
    "rendered bytes.\n"
    "\n"
    "  nstance-admin config render --config config/dc1-zone-a.jsonc --group prod/workers\n"
    "  nstance-admin config render --config c.jsonc --group workers --part userdata --var ROLE=db\n"
    "  nstance-admin config render --template user-data.tmpl --data values.json"};

// --- Flags as they stand on the line -------------------------------------------------------------

struct RenderFlags {
  std::string config;
  std::string group;
  std::string part;
  std::vector<std::string> vars;
  std::string template_file;
  std::string data_file;
};

struct Flags {
  std::string output;
  bool json = false;
  std::string temp_dir;
  CommonFlags common;
  ConfigValidate validate;
  ConfigConvert convert;
  RenderFlags render;
};

template <class T>
using Parsed = std::expected<T, std::string>;  // What is wrong with the line.

// --- From flags to commands ----------------------------------------------------------------------

Parsed<Output> OutputOf(const Flags& flags) {
  if (flags.output.empty()) return flags.json ? Output::kJson : Output::kTable;
  if (flags.output == "json") return Output::kJson;
  if (flags.output != "table") {
    return std::unexpected(
        fmt::format("--output: {} is unknown; one of: table, json", Quote(flags.output)));
  }
  if (flags.json) return std::unexpected("--json and --output table contradict each other");
  return Output::kTable;
}

Parsed<RenderPart> PartOf(std::string_view text) {
  if (text.empty()) return RenderPart::kAll;
  if (text == "userdata") return RenderPart::kUserData;
  if (text == "args") return RenderPart::kArgs;
  if (text == "files") return RenderPart::kFiles;
  return std::unexpected(
      fmt::format("--part: {} is unknown; one of: userdata, args, files", Quote(text)));
}

bool IsVariableName(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (name.empty() || !letter(name.front())) return false;
  return std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
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

Parsed<Command> GroupRenderOf(const RenderFlags& flags) {
  const std::size_t slash = flags.group.find('/');
  const bool named = slash != std::string::npos;
  const auto tenant = TenantId::Parse(named ? flags.group.substr(0, slash) : "default");
  if (!tenant) return std::unexpected("--group: " + tenant.error().message);
  const auto group = GroupKey::Parse(named ? flags.group.substr(slash + 1) : flags.group);
  if (!group) return std::unexpected("--group: " + group.error().message);
  const auto part = PartOf(flags.part);
  if (!part) return std::unexpected(part.error());
  auto vars = VarsOf(flags.vars);
  if (!vars) return std::unexpected(vars.error());
  return ConfigRenderGroup{.file = flags.config,
                           .tenant = *tenant,
                           .group = *group,
                           .part = *part,
                           .vars = *std::move(vars)};
}

Parsed<Command> RenderOf(const RenderFlags& flags) {
  const bool group_form = !flags.config.empty() || !flags.group.empty();
  const bool template_form = !flags.template_file.empty() || !flags.data_file.empty();
  constexpr const char* kForms =
      "use --config and --group for an instance, or --template and --data for one template";
  if (group_form == template_form) return std::unexpected(kForms);
  if (group_form) {
    if (flags.config.empty()) return std::unexpected("--config is missing: the file to render");
    if (flags.group.empty()) return std::unexpected("--group is missing: [tenant/]group");
    return GroupRenderOf(flags);
  }
  if (flags.template_file.empty()) return std::unexpected("--template is missing");
  if (flags.data_file.empty()) return std::unexpected("--data is missing: a JSON document");
  if (!flags.part.empty() || !flags.vars.empty()) {
    return std::unexpected("--part and --var go with --config and --group");
  }
  return ConfigRenderTemplate{.template_file = flags.template_file, .data_file = flags.data_file};
}

// --- The grammar ---------------------------------------------------------------------------------

struct Choice {
  CLI::App* app;
  std::function<Parsed<Command>(const Flags&)> command;
};

struct Grammar {
  CLI::App app{kProgram.summary, "nstance-admin"};
  Flags flags;
  std::vector<Choice> choices;
};

void AddCommonFlags(CLI::App& app, Flags& flags) {
  app.set_help_flag("-h,--help", "Print help and exit");
  app.set_version_flag("--version", fmt::format("nstance-admin {}", Version()),
                       "Print the version and exit");
  app.add_option("-o,--output", flags.output, "table (default) or json")->type_name("FORMAT");
  app.add_flag("--json", flags.json, "Short for --output json");
  app.add_option("--temp-dir", flags.temp_dir, "Where identities are kept (default ./temp)")
      ->type_name("DIR");
  app.add_flag("--no-color", flags.common.no_color, "No colour, also on terminals");
  app.add_flag("-q,--quiet", flags.common.quiet, "No progress, no notes");
  app.add_flag("-v,--debug", flags.common.debug, "Text logs on stderr");
}

CLI::App* AddCommand(CLI::App& above, const char* name, const Help& help) {
  CLI::App* command = above.add_subcommand(name, help.summary);
  command->footer(std::string(help.details) + kCommonNote);
  command->fallthrough();
  return command;
}

void AddConfig(Grammar& grammar) {
  CLI::App* config = AddCommand(grammar.app, "config", kConfig);
  config->require_subcommand(1);

  CLI::App* validate = AddCommand(*config, "validate", kValidate);
  validate
      ->add_option("file", grammar.flags.validate.file,
                   "The configuration file; - is standard input")
      ->required()
      ->type_name("");
  grammar.choices.push_back(
      {validate, [](const Flags& flags) -> Parsed<Command> { return flags.validate; }});

  CLI::App* convert = AddCommand(*config, "convert", kConvert);
  convert
      ->add_option("file", grammar.flags.convert.file,
                   "The configuration file; - is standard input")
      ->required()
      ->type_name("");
  grammar.choices.push_back(
      {convert, [](const Flags& flags) -> Parsed<Command> { return flags.convert; }});

  CLI::App* render = AddCommand(*config, "render", kRender);
  RenderFlags& flags = grammar.flags.render;
  render->add_option("--config", flags.config, "The configuration file")->type_name("FILE");
  render->add_option("--group", flags.group, "The group; its tenant is default if not named")
      ->type_name("[TENANT/]GROUP");
  render->add_option("--part", flags.part, "Only this: userdata, args or files")->type_name("PART");
  render->add_option("--var", flags.vars, "A variable over those of the group; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  render->add_option("--template", flags.template_file, "A file with one template")
      ->type_name("FILE");
  render->add_option("--data", flags.data_file, "A file with one JSON document")->type_name("FILE");
  grammar.choices.push_back(
      {render, [](const Flags& all) -> Parsed<Command> { return RenderOf(all.render); }});
}

std::unique_ptr<Grammar> MakeGrammar() {
  auto grammar = std::make_unique<Grammar>();
  AddCommonFlags(grammar->app, grammar->flags);
  grammar->app.footer(kProgram.details);
  grammar->app.require_subcommand(1);
  AddConfig(*grammar);
  return grammar;
}

// --- What is wrong with a line -------------------------------------------------------------------

// The command that the line got to.
const CLI::App* Deepest(const CLI::App* app) {
  for (auto below = app->get_subcommands(); !below.empty(); below = app->get_subcommands()) {
    app = below.front();
  }
  return app;
}

std::string FullName(const CLI::App* app) {
  std::string name = app->get_name();
  for (const CLI::App* above = app->get_parent(); above != nullptr; above = above->get_parent()) {
    name.insert(0, above->get_name() + " ");
  }
  return name;
}

void AddFlagNames(const CLI::App* app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
}

std::vector<std::string> CommandNames(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app->get_subcommands(nullptr))
    names.push_back(command->get_name());
  return names;
}

std::string Suggestion(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return config::DidYouMean(word, views);
}

// What CLI11 tells of is one of a few kinds; the words are ours.
std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = Deepest(&app);
  const std::vector<std::string> commands = CommandNames(at);
  const std::vector<std::string> rest = app.remaining(true);
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!rest.empty() && (extras || !commands.empty())) {
    const std::string& word = rest.front();
    if (word.starts_with('-')) {
      std::vector<std::string> names;
      AddFlagNames(at, names);
      if (at != &app) AddFlagNames(&app, names);
      return fmt::format("{} has no flag {}{}", FullName(at), Quote(word), Suggestion(word, names));
    }
    if (!commands.empty()) {
      return fmt::format("{} has no command {}; one of: {}{}", FullName(at), Quote(word),
                         fmt::join(commands, ", "), Suggestion(word, commands));
    }
    return fmt::format("{}: {} is one word too many", FullName(at), Quote(word));
  }
  if (!commands.empty()) {
    return fmt::format("{} needs a command; one of: {}", FullName(at), fmt::join(commands, ", "));
  }
  return fmt::format("{}: {}", FullName(at), error.what());
}

Ending BadLine(const CLI::App& app, std::string_view message, Output output) {
  Ending ending = Failed(message, "INVALID_ARGUMENT", output);
  ending.exit_code = kExitBadCommandLine;
  if (output == Output::kTable) {
    ending.err += fmt::format("Try `{} --help`.\n", FullName(Deepest(&app)));
  }
  return ending;
}

std::expected<CommandLine, Ending> Finish(const Grammar& grammar) {
  const auto output = OutputOf(grammar.flags);
  if (!output) return std::unexpected(BadLine(grammar.app, output.error(), Output::kTable));
  CommonFlags common = grammar.flags.common;
  common.output = *output;
  const CLI::App* chosen = Deepest(&grammar.app);
  for (const Choice& choice : grammar.choices) {
    if (choice.app != chosen) continue;
    auto command = choice.command(grammar.flags);
    if (command) return CommandLine{.common = common, .command = *std::move(command)};
    return std::unexpected(
        BadLine(grammar.app, FullName(chosen) + ": " + command.error(), *output));
  }
  return std::unexpected(BadLine(grammar.app, "no such command", *output));
}

}  // namespace

std::expected<CommandLine, Ending> ParseCommandLine(std::span<const std::string> words) {
  const auto grammar = MakeGrammar();
  CLI::App& app = grammar->app;
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForVersion& version) {
    return std::unexpected(Ending{.out = std::string(version.what()) + "\n"});
  } catch (const CLI::Success&) {
    return std::unexpected(Ending{.out = app.help()});  // Of the command that the line got to.
  } catch (const CLI::ParseError& error) {
    // The rest of the line may not have been read: ask for JSON wherever the words do.
    const bool json = std::ranges::find(words, "--json") != words.end();
    return std::unexpected(
        BadLine(app, Explain(app, error), json ? Output::kJson : Output::kTable));
  }
  return Finish(*grammar);
}

}  // namespace nstance::admin

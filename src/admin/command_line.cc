#include "admin/command_line.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "admin/grammar.h"
#include "admin/print.h"
#include "base/text.h"
#include "core/config/suggest.h"

namespace nstance::admin {
namespace {

Parsed<Output> OutputOf(const Grammar& grammar) {
  if (grammar.output.empty()) return grammar.json ? Output::kJson : Output::kTable;
  if (grammar.output == "json") return Output::kJson;
  if (grammar.output != "table") {
    return std::unexpected(
        fmt::format("--output: {} is unknown; one of: table, json", Quote(grammar.output)));
  }
  if (grammar.json) return std::unexpected("--json and --output table contradict each other");
  return Output::kTable;
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

// One line: what is wrong, then what to do.
Ending BadLine(const CLI::App& app, std::string_view message, Output output) {
  std::string text(message);
  if (output == Output::kTable) {
    text += fmt::format("{} Try `{} --help`.", message.ends_with('?') ? "" : ".",
                        FullName(Deepest(&app)));
  }
  Ending ending = Failed(text, "INVALID_ARGUMENT", output);
  ending.exit_code = kExitBadCommandLine;
  return ending;
}

// Whether the words of a line that does not parse ask for JSON. The rest of it may not have been
// read, so the words themselves are looked at.
bool AsksForJson(const CLI::App& app, std::span<const std::string> words) {
  const CLI::App* at = Deepest(&app);
  const bool has_own = at != &app && at->get_option_no_throw("--output") != nullptr;
  bool names_format = true;  // `--output` of a command may be a path (`cluster nonce`).
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (word == "--json") return true;
    if (has_own && word == at->get_name()) names_format = false;
    if (!names_format) continue;
    if (word == "--output=json" || word == "-ojson") return true;
    const bool flag = word == "-o" || word == "--output";
    if (flag && i + 1 < words.size() && words[i + 1] == "json") return true;
  }
  return false;
}

std::expected<CommandLine, Ending> Finish(const Grammar& grammar) {
  const auto output = OutputOf(grammar);
  if (!output) return std::unexpected(BadLine(*grammar.app, output.error(), Output::kTable));
  CommonFlags common = grammar.common;
  common.output = *output;
  if (grammar.variable("NO_COLOR")) common.no_color = true;
  const CLI::App* chosen = Deepest(grammar.app.get());
  for (const Choice& choice : grammar.choices) {
    if (choice.app != chosen) continue;
    auto command = choice.command(common);
    if (command) return CommandLine{.common = common, .command = *std::move(command)};
    return std::unexpected(
        BadLine(*grammar.app, FullName(chosen) + ": " + command.error(), *output));
  }
  return std::unexpected(BadLine(*grammar.app, "no such command", *output));
}

}  // namespace

std::expected<CommandLine, Ending> ParseCommandLine(std::span<const std::string> words,
                                                    const Variable& variable,
                                                    const std::string& libraries) {
  const auto grammar = MakeGrammar(variable);
  CLI::App& app = *grammar->app;
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForVersion& version) {
    return std::unexpected(Ending{.out = std::string(version.what()) + "\n" + libraries});
  } catch (const CLI::Success&) {
    return std::unexpected(Ending{.out = app.help()});  // Of the command that the line got to.
  } catch (const CLI::ParseError& error) {
    const Output output = AsksForJson(app, words) ? Output::kJson : Output::kTable;
    return std::unexpected(BadLine(app, Explain(app, error), output));
  }
  return Finish(*grammar);
}

}  // namespace nstance::admin

// The grammar of the command line. Each family of commands adds its own (*_grammar.cc); the same
// tree of commands gives help, completion, manual and reference.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "admin/command_line.h"

namespace nstance::admin {

// One line for the list of commands, and what `--help` of the command teaches at its end.
struct Help {
  const char* summary;
  const char* details;
};

template <class T>
using Parsed = std::expected<T, std::string>;  // What is wrong with the line.

// A command at the end of a line, and how its flags become what was asked for. The function owns
// the flags that CLI11 writes to.
struct Choice {
  CLI::App* app = nullptr;
  std::function<Parsed<Command>(const CommonFlags& common)> command;
};

struct Grammar {
  explicit Grammar(Variable of);
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;
  ~Grammar();

  Variable variable;
  std::unique_ptr<CLI::App> app;
  CommonFlags common;
  std::string output;  // As it stands on the line.
  bool json = false;
  std::vector<Choice> choices;
};

// Every command there is.
[[nodiscard]] std::unique_ptr<Grammar> MakeGrammar(Variable variable);

// A command below another one; it takes the common flags too.
CLI::App* AddCommand(CLI::App& above, const char* name, const Help& help);
// A word that only groups commands below it.
CLI::App* AddFamily(CLI::App& above, const char* name, const Help& help);

// The common flag, or the variable where the line does not give it.
[[nodiscard]] std::string FlagOr(const Grammar& grammar, const std::string& flag,
                                 const char* variable);

// --var NAME=value, repeated.
[[nodiscard]] Parsed<config::StringMap> VarsOf(const std::vector<std::string>& words);

// The families.
void AddConfigFileCommands(Grammar& grammar, CLI::App& config);
void AddReferenceCommands(Grammar& grammar);
void AddStorageCommands(Grammar& grammar);  // cluster, store, cert, secrets.
void AddConfigShardCommands(Grammar& grammar, CLI::App& config);
void AddShardCommands(Grammar& grammar);

}  // namespace nstance::admin

#include "admin/reference.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/grammar.h"
#include "base/json.h"
#include "base/version.h"

namespace nstance::admin {
namespace {

struct Flag {
  std::string names;  // "-o,--output FORMAT"; of a word of the line, its name.
  std::string help;
  bool positional = false;
};

struct Node {
  std::string path;  // "nstance-admin group scale"
  std::string summary;
  std::string details;
  std::vector<Flag> flags;
  std::vector<std::string> flag_words;  // "--output", "-o"
  std::vector<Node> below;
};

Flag FlagOf(const CLI::Option& option) {
  Flag flag = {.names = {}, .help = option.get_description(), .positional = false};
  if (option.get_positional()) {
    flag.positional = true;
    flag.names = option.get_name(true, false);
    return flag;
  }
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  flag.names = fmt::format("{}", fmt::join(names, ", "));
  if (option.get_items_expected_max() > 0 && !option.get_type_name().empty()) {
    flag.names += " " + option.get_type_name();
  }
  return flag;
}

Node Walk(const CLI::App& app, const std::string& above) {
  Node node = {.path = above.empty() ? app.get_name() : above + " " + app.get_name(),
               .summary = app.get_description(),
               .details = app.get_footer(),
               .flags = {},
               .flag_words = {},
               .below = {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;                     // Hidden.
    if (!above.empty() && option == app.get_help_ptr()) continue;  // It is one of every command.
    node.flags.push_back(FlagOf(*option));
    for (const std::string& name : option->get_lnames()) node.flag_words.push_back("--" + name);
    for (const std::string& name : option->get_snames()) node.flag_words.push_back("-" + name);
  }
  for (const CLI::App* below : app.get_subcommands(nullptr)) {
    node.below.push_back(Walk(*below, node.path));
  }
  return node;
}

template <class Do>
void ForEach(const Node& node, const Do& what) {
  what(node);
  for (const Node& below : node.below) ForEach(below, what);
}

std::string_view LastWord(std::string_view path) {
  const std::size_t space = path.rfind(' ');
  return space == std::string_view::npos ? path : path.substr(space + 1);
}

// Every path but the program's own: the words that lead on.
std::string PathPattern(const Node& root) {
  std::vector<std::string> paths;
  ForEach(root, [&](const Node& node) {
    if (&node != &root) paths.push_back(fmt::format("\"{}\"", node.path));
  });
  return fmt::format("{}", fmt::join(paths, " | "));
}

// --- Shells --------------------------------------------------------------------------------------

std::string Bash(const Node& root) {
  std::string cases;
  ForEach(root, [&](const Node& node) {
    std::vector<std::string> words;
    words.reserve(node.below.size());
    for (const Node& below : node.below) words.emplace_back(LastWord(below.path));
    words.insert(words.end(), node.flag_words.begin(), node.flag_words.end());
    if (&node != &root) {
      words.insert(words.end(), root.flag_words.begin(), root.flag_words.end());
    }
    cases += fmt::format("    \"{}\") words=\"{}\" ;;\n", node.path, fmt::join(words, " "));
  });
  return fmt::format(
      "# bash completion for nstance-admin\n"
      "_nstance_admin() {{\n"
      "  local at=nstance-admin words=\"\" i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"$at ${{COMP_WORDS[i]}}\" in\n"
      "      {}) at=\"$at ${{COMP_WORDS[i]}}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at\" in\n"
      "{}"
      "  esac\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\")\n"
      "}}\n"
      "complete -o default -F _nstance_admin nstance-admin\n",
      PathPattern(root), cases);
}

// In single quotes, a colon parts the word from what it means.
std::string ZshEntry(std::string_view word, std::string_view meaning) {
  std::string text;
  for (const char c : meaning) {
    if (c == '\'') {
      text += "'\\''";
    } else if (c == ':') {
      text += "\\:";
    } else {
      text += c == '\n' ? ' ' : c;
    }
  }
  return fmt::format("      '{}:{}'\n", word, text);
}

void AddZshFlags(const Node& node, std::string& out) {
  for (const Flag& flag : node.flags) {
    if (flag.positional) continue;
    const std::size_t at = flag.names.find("--");
    if (at == std::string::npos) continue;
    const std::string_view name = std::string_view(flag.names).substr(at);
    out += ZshEntry(name.substr(0, name.find(' ')), flag.help);
  }
}

std::string Zsh(const Node& root) {
  std::string cases;
  ForEach(root, [&](const Node& node) {
    std::string entries;
    for (const Node& below : node.below) entries += ZshEntry(LastWord(below.path), below.summary);
    AddZshFlags(node, entries);
    if (&node != &root) AddZshFlags(root, entries);
    cases += fmt::format("    \"{}\") choices=(\n{}    ) ;;\n", node.path, entries);
  });
  return fmt::format(
      "#compdef nstance-admin\n"
      "_nstance_admin() {{\n"
      "  local at=nstance-admin word\n"
      "  local -a choices\n"
      "  for word in ${{words[2,CURRENT-1]}}; do\n"
      "    case \"$at $word\" in\n"
      "      {}) at=\"$at $word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at\" in\n"
      "{}"
      "  esac\n"
      "  _describe 'nstance-admin' choices || _files\n"
      "}}\n"
      "# Autoloaded, the file is the function, and this is its first call; sourced, it is made "
      "known.\n"
      "if [ \"$funcstack[1]\" = \"_nstance-admin\" ]; then\n"
      "  _nstance_admin \"$@\"\n"
      "else\n"
      "  compdef _nstance_admin nstance-admin\n"
      "fi\n",
      PathPattern(root), cases);
}

// --- For readers ---------------------------------------------------------------------------------

// Without the note that every command's help ends with.
std::string_view OwnDetails(const Node& node) {
  const std::string_view text = node.details;
  return text.substr(0, text.find("\n\nFlags of every command"));
}

std::string Roff(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_begins = c == '\n';
  }
  return out;
}

std::string Man(const Node& root) {
  std::string out = fmt::format(
      ".TH NSTANCE\\-ADMIN 1 \"\" \"nstance {}\" \"Nstance\"\n.SH NAME\nnstance\\-admin \\- {}\n",
      Roff(Version()), Roff(root.summary));
  out += ".SH SYNOPSIS\n.B nstance\\-admin\n[\\fIflags\\fR] \\fIcommand\\fR ...\n.SH COMMANDS\n";
  ForEach(root, [&](const Node& node) {
    if (&node == &root) return;
    out += fmt::format(".SS {}\n{}.\n", Roff(node.path), Roff(node.summary));
    for (const Flag& flag : node.flags) {
      out += fmt::format(".TP\n.B {}\n{}\n", Roff(flag.names), Roff(flag.help));
    }
    if (!OwnDetails(node).empty() && node.below.empty()) {
      out += fmt::format(".PP\n.nf\n{}\n.fi\n", Roff(OwnDetails(node)));
    }
  });
  out += ".SH OPTIONS\nFlags of every command.\n";
  for (const Flag& flag : root.flags) {
    out += fmt::format(".TP\n.B {}\n{}\n", Roff(flag.names), Roff(flag.help));
  }
  out += fmt::format(".SH NOTES\n.nf\n{}\n.fi\n", Roff(root.details));
  return out;
}

std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

void AddFlagTable(const Node& node, std::string& out) {
  if (node.flags.empty()) return;
  out += "| Flag | Meaning |\n|---|---|\n";
  for (const Flag& flag : node.flags) {
    out += fmt::format("| `{}` | {} |\n", Cell(flag.names), Cell(flag.help));
  }
  out += "\n";
}

std::string Markdown(const Node& root) {
  std::string out = fmt::format(
      "# nstance-admin: command line reference\n\n"
      "Made by `nstance-admin manual --markdown`; a test keeps it true. {}\n\n"
      "```\n{}\n```\n\n## Flags of every command\n\n",
      root.summary, root.details);
  AddFlagTable(root, out);
  ForEach(root, [&](const Node& node) {
    if (&node == &root) return;
    const bool family = !node.below.empty();
    out += fmt::format("{} {}\n\n{}.\n\n", family ? "##" : "###", node.path, node.summary);
    AddFlagTable(node, out);
    if (!family && !OwnDetails(node).empty()) {
      out += fmt::format("```\n{}\n```\n\n", OwnDetails(node));
    }
  });
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

struct Printed {
  std::string_view format;
  std::string text;
};

Printed PrintedOf(ReferenceKind kind, const Node& root) {
  switch (kind) {
    case ReferenceKind::kBash: return {.format = "bash", .text = Bash(root)};
    case ReferenceKind::kZsh: return {.format = "zsh", .text = Zsh(root)};
    case ReferenceKind::kMan: return {.format = "man", .text = Man(root)};
    case ReferenceKind::kMarkdown: break;
  }
  return {.format = "markdown", .text = Markdown(root)};
}

}  // namespace

Ending Run(const ReferenceCommand& command, const CommonFlags& common) {
  const auto grammar = MakeGrammar([](const std::string&) { return std::nullopt; });
  Printed printed = PrintedOf(command.kind, Walk(*grammar->app, {}));
  if (common.output != Output::kJson) return {.out = std::move(printed.text)};
  json::Value out = json::Value::Map({});
  out.Set("format", json::Value::String(std::string(printed.format)));
  out.Set("text", json::Value::String(std::move(printed.text)));
  return {.out = json::Write(out, {.indent = 2}) + "\n"};
}

}  // namespace nstance::admin

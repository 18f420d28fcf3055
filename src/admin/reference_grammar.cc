#include "admin/grammar.h"

namespace nstance::admin {
namespace {

constexpr Help kCompletion = {"Print a completion script for a shell",
                              "Try `nstance-admin completion bash --help`."};

constexpr Help kBash = {"Completion for bash",
                        "For this shell:   source <(nstance-admin completion bash)\n"
                        "For every shell:  nstance-admin completion bash > "
                        "/usr/share/bash-completion/completions/nstance-admin"};

constexpr Help kZsh = {"Completion for zsh",
                       "For this shell:   source <(nstance-admin completion zsh)\n"
                       "For every shell:  nstance-admin completion zsh > "
                       "/usr/local/share/zsh/site-functions/_nstance-admin"};

constexpr Help kManual = {"Print the manual: every command, every flag",
                          "  nstance-admin manual | man -l -\n"
                          "  nstance-admin manual > /usr/local/share/man/man1/nstance-admin.1\n"
                          "  nstance-admin manual --markdown"};

void AddChoice(Grammar& grammar, CLI::App* app, ReferenceKind kind) {
  grammar.choices.push_back(
      {app, [kind](const CommonFlags&) -> Parsed<Command> { return ReferenceCommand{kind}; }});
}

}  // namespace

void AddReferenceCommands(Grammar& grammar) {
  CLI::App* completion = AddFamily(*grammar.app, "completion", kCompletion);
  AddChoice(grammar, AddCommand(*completion, "bash", kBash), ReferenceKind::kBash);
  AddChoice(grammar, AddCommand(*completion, "zsh", kZsh), ReferenceKind::kZsh);
  CLI::App* manual = AddCommand(*grammar.app, "manual", kManual);
  const auto markdown = std::make_shared<bool>(false);
  manual->add_flag("--markdown", *markdown, "As Markdown instead of a man page");
  grammar.choices.push_back({manual, [markdown](const CommonFlags&) -> Parsed<Command> {
                               return ReferenceCommand{*markdown ? ReferenceKind::kMarkdown
                                                                 : ReferenceKind::kMan};
                             }});
}

}  // namespace nstance::admin

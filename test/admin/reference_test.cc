#include "admin/reference.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "admin/grammar.h"
#include "base/json.h"
#include "test/support/process.h"
#include "test/support/temp_dir.h"

namespace nstance::admin {
namespace {

using testing::HasSubstr;

std::string Out(ReferenceKind kind) { return Run(ReferenceCommand{kind}, {}).out; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(ReferenceTest, TheDocumentIsWhatTheProgramSays) {
  EXPECT_EQ(ReadFile(NSTANCE_SOURCE_DIR "/docs/cli.md"), Out(ReferenceKind::kMarkdown))
      << "run: build/bin/nstance-admin manual --markdown > docs/cli.md";
}

void ExpectEveryCommand(const CLI::App& app, const std::string& above, const std::string& text) {
  for (const CLI::App* below : app.get_subcommands(nullptr)) {
    const std::string path = above + " " + below->get_name();
    EXPECT_THAT(text, HasSubstr(path));
    EXPECT_THAT(text, HasSubstr(below->get_description()));
    EXPECT_NE(below->get_description(), "") << path;
    ExpectEveryCommand(*below, path, text);
  }
}

TEST(ReferenceTest, EveryCommandIsInIt) {
  const auto grammar = MakeGrammar([](const std::string&) { return std::nullopt; });
  ExpectEveryCommand(*grammar->app, "nstance-admin", Out(ReferenceKind::kMarkdown));
}

TEST(ReferenceTest, TheManualPageHasItsParts) {
  const std::string page = Out(ReferenceKind::kMan);
  for (const char* part : {".TH NSTANCE", ".SH NAME", ".SH SYNOPSIS", ".SH COMMANDS",
                           ".SS nstance\\-admin config validate", ".SH OPTIONS"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_EQ(page.find("\n'"), std::string::npos) << "a line that begins so is a request";
}

TEST(ReferenceTest, TheManualPageIsGoodToGroff) {
  const test::TempDir folder;
  const std::string page = (folder.path() / "nstance-admin.1").string();
  std::ofstream(page) << Out(ReferenceKind::kMan);
  const auto ran = test::RunProcess({.argv = {"groff", "-man", "-ww", "-z", "-Tutf8", page}});
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  EXPECT_EQ(ran->err, "");
  EXPECT_EQ(ran->exit_code, 0);
}

// What bash offers for the last of the words.
std::string Completed(const std::vector<std::string>& words) {
  const test::TempDir folder;
  const std::string script = (folder.path() / "complete.bash").string();
  std::ofstream file(script);
  file << Out(ReferenceKind::kBash) << "COMP_WORDS=(";
  for (const std::string& word : words) file << " '" << word << "'";
  file << ")\nCOMP_CWORD=" << words.size() - 1 << "\n_nstance_admin\necho \"${COMPREPLY[*]}\"\n";
  file.close();
  const auto ran = test::RunProcess({.argv = {"bash", "--norc", script}});
  EXPECT_TRUE(ran.has_value());
  EXPECT_EQ(ran->err, "");
  return ran->out;
}

TEST(ReferenceTest, BashCompletesCommandsAndFlags) {
  EXPECT_EQ(Completed({"nstance-admin", "conf"}), "config\n");
  EXPECT_EQ(Completed({"nstance-admin", "config", "re"}), "render refresh\n");
  EXPECT_EQ(Completed({"nstance-admin", "--json", "config", "val"}), "validate\n");
  EXPECT_EQ(Completed({"nstance-admin", "config", "render", "--temp"}), "--template --temp-dir\n");
  EXPECT_EQ(Completed({"nstance-admin", "nonsense", "conf"}), "config\n");
}

TEST(ReferenceTest, ZshReadsItsScript) {
  const test::TempDir folder;
  const std::string script = (folder.path() / "_nstance-admin").string();
  std::ofstream(script) << Out(ReferenceKind::kZsh);
  const auto ran = test::RunProcess({.argv = {"zsh", "-n", script}});
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  EXPECT_EQ(ran->err, "");
  EXPECT_EQ(ran->exit_code, 0);
}

// A shell on a pseudo terminal: TAB is really pressed, and a widget prints the line that is then
// there. The first press is the one that loads an autoloaded function.
constexpr const char* kZshDriver = R"(zmodload zsh/zpty
zpty shell "TERM=dumb zsh -f -i"
zpty -w shell "PS1= PS2= ; fpath=($1 \$fpath); autoload -U compinit && compinit -u -D"
zpty -w shell "$2"
zpty -w shell 'show() { print -r -- "LINE<$BUFFER>"; zle kill-buffer; }; zle -N show'
zpty -w shell 'bindkey "^X" show; print READ""Y'
zpty -r shell out '*READY*'
shift 2
for word in "$@"; do
  zpty -n -w shell "$word"$'\t'$'\x18'
  zpty -r shell out '*LINE<*>*'
  print -r -- "${${out##*LINE<}%%>*}"
done
zpty -d shell
)";

// What stands on the line after TAB, for each of the lines. `first`: what is typed before them.
std::string ZshCompleted(const std::string& folder, const std::string& first,
                         const std::vector<std::string>& lines) {
  const test::TempDir scripts;
  const std::string driver = (scripts.path() / "driver.zsh").string();
  std::ofstream(driver) << kZshDriver;
  std::vector<std::string> argv = {"zsh", "-f", driver, folder, first};
  argv.insert(argv.end(), lines.begin(), lines.end());
  const auto ran = test::RunProcess({.argv = std::move(argv)});
  EXPECT_TRUE(ran.has_value());
  EXPECT_EQ(ran->err, "");
  return ran->out;
}

TEST(ReferenceTest, ZshCompletesAtTheFirstPressOfTabWhenTheFileIsInItsPath) {
  const test::TempDir folder;
  std::ofstream(folder.path() / "_nstance-admin") << Out(ReferenceKind::kZsh);
  EXPECT_EQ(ZshCompleted(folder.path().string(), ":",
                         {"nstance-admin confi", "nstance-admin --json config val",
                          "nstance-admin group scale --dry"}),
            "nstance-admin config \nnstance-admin --json config validate \n"
            "nstance-admin group scale --dry-run \n");
}

TEST(ReferenceTest, ZshCompletesWhenTheScriptIsSourced) {
  const test::TempDir empty;
  const test::TempDir folder;
  const std::string script = (folder.path() / "script.zsh").string();
  std::ofstream(script) << Out(ReferenceKind::kZsh);
  EXPECT_EQ(ZshCompleted(empty.path().string(), "source " + script, {"nstance-admin confi"}),
            "nstance-admin config \n");
}

TEST(ReferenceTest, WithJsonTheTextIsInAnObject) {
  const Ending ending =
      admin::Run(ReferenceCommand{ReferenceKind::kBash}, CommonFlags{.output = Output::kJson});
  EXPECT_EQ(ending.exit_code, 0);
  const auto object = json::Parse(ending.out);
  ASSERT_TRUE(object.has_value()) << ending.out;
  EXPECT_EQ(*object->Find("format")->if_string(), "bash");
  EXPECT_EQ(*object->Find("text")->if_string(), Out(ReferenceKind::kBash));
}

}  // namespace
}  // namespace nstance::admin

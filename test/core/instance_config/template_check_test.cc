// Templates of a configuration file, checked before they are used: a table of mistakes with the
// place where each is told, and what is only a warning.
#include "core/instance_config/template_check.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "core/instance_config/config_hash.h"
#include "test/core/instance_config/config_builder.h"
#include "test/core/instance_config/example_text.h"

namespace nstance::test {
namespace {

using config::LoadResult;
using config::Problem;

// A file with these parts of its one template, and one group that uses it.
struct Parts {
  std::string userdata = R"("hello")";
  std::string args = "{}";
  std::string files = "{}";
  std::string certificates = "{}";
  std::string vars = "{}";
  std::string encoding = "plain";
  std::string groups = R"({"default":{"w":{"template":"worker"}}})";
};

std::string FileOf(const Parts& parts) {
  return fmt::format(R"({{"server":{{"cluster_id":"c","shard":"s","provider":{{"kind":"local"}},
"subnet_pools":{{"p":["a"]}},"secrets":{{"provider":"memory"}}}},
"certificates":{},
"templates":{{"worker":{{"kind":"wrk","arch":"amd64","instance_type":"t","subnet_pool":"p",
"vars":{},
"args":{},
"files":{},
"userdata":{{"encoding":"{}","content":{}}}}}}},
"groups":{}}}
)",
                     parts.certificates, parts.vars, parts.args, parts.files, parts.encoding,
                     parts.userdata, parts.groups);
}

// What stands at a problem's place.
std::string_view At(const std::string& text, const Problem& problem, std::size_t length) {
  return std::string_view(text).substr(problem.offset, length);
}

std::string ListOf(const std::vector<Problem>& problems) {
  std::string all;
  for (const Problem& problem : problems) all += config::Format(problem, "f") + "\n";
  return all;
}

TEST(TemplateCheckTest, TheCompleteExampleIsCleanAndHasThePublishedHashes) {
  const LoadResult loaded = LoadChecked(kExampleText);
  ASSERT_TRUE(loaded.config) << ListOf(loaded.errors);
  EXPECT_TRUE(loaded.warnings.empty()) << ListOf(loaded.warnings);
  const auto merged = MergeInstanceConfig(
      *loaded.config, loaded.config->groups.at(DefaultTenant()).at(Group("workers")));
  ASSERT_TRUE(merged);
  EXPECT_EQ(RuntimeConfigHash(*merged),
            "sha256:d7fa621d3c0a111de74d597662f5eb0653df92ce430c8ce092ffe679cefe7880");
  EXPECT_EQ(InfraConfigHash(*merged),
            "sha256:a124d4add803ef4140d5de2a903a422a2d0e27044fc12d9cc069dfc5937e0a73");
}

struct Row {
  const char* name;
  Parts parts;
  std::string path;
  std::string message;  // Part of it.
  std::string at = {};  // What stands in the file at the place; empty: not looked at.
};

TEST(TemplateCheckTest, MistakesAreErrorsAtTheirPlace) {
  const std::vector<Row> rows = {
      {"syntax",
       {.userdata = R"("a {{ if }} b")"},
       "templates.worker.userdata.content",
       "missing value for if",
       "}} b"},
      {"unknown function",
       {.userdata = R"("{{ env \"HOME\" }}")"},
       "templates.worker.userdata.content",
       "function \"env\" not defined"},
      {"unknown field",
       {.userdata = R"(["#!/bin/sh","echo {{ .Instanc.ID }}"])"},
       "templates.worker.userdata.content",
       "can't evaluate field Instanc",
       ".ID }}"},
      {"a field of files only",
       {.args = R"({"Env":{"H":"{{ .Instance.Hostname }}"}})"},
       "templates.worker.args.Env.H",
       "can't evaluate field Hostname"},
      {"a field of user data only",
       {.files = R"({"a.env":{"kind":"env","template":{"A":"{{ .Nonce }}"}}})"},
       R"(templates.worker.files["a.env"].template.A)",
       "can't evaluate field Nonce",
       ".Nonce }}"},
      {"in a source",
       {.files = R"({"a.key":{"kind":"secret","source":"{{ .Nonce }}"}})"},
       R"(templates.worker.files["a.key"].source)",
       "can't evaluate field Nonce"},
      {"in a certificate",
       {.certificates = R"({"n":{"kind":"server","dns":["{{ .Instance.Nope }}"]}})"},
       "certificates.n.dns[0]",
       "can't evaluate field Nope"},
      {"unknown template",
       {.userdata = R"("{{ if false }}{{ template \"x\" }}{{ end }}")"},
       "templates.worker.userdata.content",
       "\"x\""},
      {"recursion",
       {.userdata = R"("{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}")"},
       "templates.worker.userdata.content",
       "depth"},
      {"endless loop",
       {.userdata = R"("{{ range 1000000000 }}{{ end }}")"},
       "templates.worker.userdata.content",
       "steps"},
      {"output too long",
       {.userdata = R"("{{ range 100000 }}0123456789abcdef{{ end }}")"},
       "templates.worker.userdata.content",
       ""},
      {"a value of the wrong kind",
       {.userdata = R"("{{ slice .Vars.A 0 9 }}")", .vars = R"({"A":"x"})"},
       "templates.worker.userdata.content",
       "(group default/w)"},
      {"packed that does not unpack",
       {.userdata = R"("aGVsbG8=")", .encoding = "base64+gzip"},
       "templates.worker.userdata.content",
       "gzip: "},
      {"inside of base64",
       {.userdata = R"("e3sgLk5vcGUgfX0=")", .encoding = "base64"},
       "templates.worker.userdata.content",
       "can't evaluate field Nope"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const std::string text = FileOf(row.parts);
    const LoadResult loaded = LoadChecked(text);
    EXPECT_FALSE(loaded.config);
    ASSERT_EQ(loaded.errors.size(), 1U) << ListOf(loaded.errors);
    const Problem& problem = loaded.errors[0];
    EXPECT_EQ(problem.path, row.path);
    EXPECT_TRUE(problem.message.contains(row.message)) << problem.message;
    EXPECT_FALSE(problem.message.starts_with("template:")) << problem.message;
    EXPECT_GT(problem.at.line, 0U);
    if (!row.at.empty()) {
      // The place that Go tells: behind the keyword, or the last field of a chain.
      EXPECT_EQ(At(text, problem, row.at.size()), row.at);
    }
  }
}

TEST(TemplateCheckTest, AGroupBringsItsOwnVariables) {
  Parts parts{.userdata = R"("{{ slice .Vars.A 0 2 }}")",
              .groups = R"({"default":{"w":{"template":"worker","vars":{"A":"long"}},
                                        "v":{"template":"worker","vars":{"A":"x"}}}})"};
  const LoadResult loaded = LoadChecked(FileOf(parts));
  ASSERT_EQ(loaded.errors.size(), 1U);
  EXPECT_TRUE(loaded.errors[0].message.contains("(group default/v)")) << loaded.errors[0].message;
  parts.groups = R"({"default":{"w":{"template":"worker","vars":{"A":"long"}}}})";
  EXPECT_TRUE(LoadChecked(FileOf(parts)).config);
}

TEST(TemplateCheckTest, ATemplateForDynamicGroupsOnlyIsDoubtedNotRefused) {
  Parts parts{.userdata = R"("{{ slice .Vars.A 0 2 }}")", .groups = "{}"};
  const LoadResult loaded = LoadChecked(FileOf(parts));
  ASSERT_TRUE(loaded.config) << ListOf(loaded.errors);
  ASSERT_EQ(loaded.warnings.size(), 1U) << ListOf(loaded.warnings);
  EXPECT_TRUE(loaded.warnings[0].message.contains("own vars")) << loaded.warnings[0].message;
  // What no value can repair is refused all the same.
  parts.userdata = R"("{{ .Nope }}")";
  EXPECT_FALSE(LoadChecked(FileOf(parts)).config);
}

TEST(TemplateCheckTest, RawValuesInScriptsAreWarnedAbout) {
  const std::string text =
      FileOf({.userdata = R"(["#!/bin/sh","echo {{ .Vars.A }} {{ .Vars.B | shellquote }}",
                       "echo {{ .Instance.ID }} {{ .Nonce }}"])"});
  const LoadResult loaded = LoadChecked(text);
  ASSERT_TRUE(loaded.config) << ListOf(loaded.errors);
  ASSERT_EQ(loaded.warnings.size(), 1U) << ListOf(loaded.warnings);
  EXPECT_TRUE(loaded.warnings[0].message.contains("shellquote")) << loaded.warnings[0].message;
  EXPECT_TRUE(At(text, loaded.warnings[0], 16).contains(".Vars.A"))
      << At(text, loaded.warnings[0], 16);
}

TEST(TemplateCheckTest, FilesThatAgentsWouldRefuseAreWarnedAbout) {
  const LoadResult loaded =
      LoadChecked(FileOf({.files = R"({"a.env":{"kind":"env","template":{"lower":"{{ .Group }}"}},
                           "b.json":{"kind":"string","template":"{"}})"}));
  ASSERT_TRUE(loaded.config) << ListOf(loaded.errors);
  ASSERT_EQ(loaded.warnings.size(), 2U) << ListOf(loaded.warnings);
  EXPECT_EQ(loaded.warnings[0].path, R"(templates.worker.files["a.env"])");
  EXPECT_EQ(loaded.warnings[1].path, R"(templates.worker.files["b.json"])");
}

TEST(TemplateCheckTest, NoMessageShowsAValue) {
  const LoadResult loaded = LoadChecked(
      FileOf({.userdata = R"("{{ index .Vars.A 99 }}")", .vars = R"({"A":"hunter2"})"}));
  ASSERT_EQ(loaded.errors.size(), 1U);
  EXPECT_FALSE(loaded.errors[0].message.contains("hunter2")) << loaded.errors[0].message;
  EXPECT_TRUE(loaded.errors[0].hides_value);
}

TEST(TemplateCheckTest, AtMostFiftyErrorsAreTold) {
  std::string args = R"({"Env":{)";
  for (int i = 0; i < 200; ++i) {
    args += fmt::format(R"({}"K{}":"{{{{ .No }}}}")", i > 0 ? "," : "", i);
  }
  const LoadResult loaded = LoadChecked(FileOf({.args = args + "}}"}));
  EXPECT_FALSE(loaded.config);
  ASSERT_EQ(loaded.errors.size(), config::kMaxProblems);
  EXPECT_EQ(loaded.errors[0].path, "templates.worker.args.Env.K0");
}

TEST(TemplateCheckTest, AGroupDrawsOnlyWhereItsVariablesMakeNoDifferenceToUserData) {
  Parts parts{.userdata = R"("role {{ .Vars.ROLE }}")"};
  parts.groups = R"({"default":{"spare":{"template":"worker","pool":{}},
"w":{"template":"worker","draw_from":"spare","vars":{"OTHER":"x","ROLE":"db"}}}})";
  const LoadResult differs = LoadChecked(FileOf(parts));
  EXPECT_FALSE(differs.config);
  ASSERT_EQ(differs.errors.size(), 1) << ListOf(differs.errors);
  EXPECT_EQ(differs.errors[0].path, "groups.default.w.draw_from");
  EXPECT_TRUE(differs.errors[0].message.starts_with(
      "user data with the variable `ROLE` gives other bytes than in the pool `spare`"))
      << differs.errors[0].message;
  EXPECT_EQ(At(FileOf(parts), differs.errors[0], 7), "\"spare\"");
  parts.userdata = R"("the same for all")";
  EXPECT_TRUE(LoadChecked(FileOf(parts)).config);
}

TEST(TemplateCheckTest, ABrokenFileGivesWhatLoadSays) {
  const LoadResult loaded = LoadChecked("{");
  EXPECT_FALSE(loaded.config);
  EXPECT_FALSE(loaded.errors.empty());
}

}  // namespace
}  // namespace nstance::test

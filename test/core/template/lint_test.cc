// The lint for raw insertions: what counts as a script, what is found, and what is left alone.
#include "core/template/lint.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nstance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using tmpl::Finding;
using tmpl::Script;

std::vector<Finding> Findings(std::string_view source) {
  const Result<tmpl::Template> parsed = tmpl::Template::Parse("t", source);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? tmpl::FindRawInsertions(*parsed) : std::vector<Finding>();
}

std::vector<std::string> Actions(std::string_view source) {
  std::vector<std::string> actions;
  for (const Finding& finding : Findings(source)) actions.push_back(finding.action);
  return actions;
}

TEST(TemplateLintTest, ScriptsAreKnownByTheirFirstLine) {
  for (const std::string_view line : {"#!/bin/sh", "#!/bin/bash -e\n", "#! /usr/bin/env bash",
                                      "#!/usr/bin/env -S bash -eu\r\n", "#!/bin/dash", "#!sh"}) {
    EXPECT_EQ(tmpl::ScriptOf(line), Script::kShell) << line;
  }
  EXPECT_EQ(tmpl::ScriptOf("#cloud-config\nusers: []"), Script::kYaml);
  for (const std::string_view line :
       {"", "x", "#!/usr/bin/python3", "#!/usr/bin/env python3", "# !/bin/sh", "\n#!/bin/sh", "#!",
        "#!/usr/bin/env", "key: value"}) {
    EXPECT_EQ(tmpl::ScriptOf(line), Script::kNone) << line;
  }
}

TEST(TemplateLintTest, RawValuesInShellScriptsAreFound) {
  EXPECT_THAT(
      Actions(
          "#!/bin/sh\n"
          "a={{.Vars.A}} b={{ .Vars.B | shellquote }} c={{shellquote .C}} d={{(shellquote .D)}}\n"
          "{{if .E}}{{.F | yamlquote}}{{end}}{{range .G}}{{.}}{{end}}{{len .H}}{{eq .I 1}}\n"
          "{{\"x\"}}{{5}}{{true}}{{$x := .J}}{{$x}}{{printf \"%s\" .K}}{{shellquote .L | print}}\n"
          "{{define \"d\"}}{{.M}}{{end}}{{template \"d\" .N}}{{block \"b\" .}}{{.O}}{{end}}"),
      ElementsAre(".Vars.A", ".F | yamlquote", ".", "$x", "printf \"%s\" .K",
                  "shellquote .L | print", ".M", ".O"));
}

TEST(TemplateLintTest, RawValuesInYamlAreFound) {
  EXPECT_THAT(Actions("#cloud-config\na: {{.A}}\nb: {{.B | yamlquote}}\nc: {{.C | shellquote}}\n"),
              ElementsAre(".A"));
}

TEST(TemplateLintTest, OtherTextsAreLeftAlone) {
  EXPECT_THAT(Actions("a: {{.A}}"), IsEmpty());
  EXPECT_THAT(Actions("#!/usr/bin/python3\n{{.A}}"), IsEmpty());
}

TEST(TemplateLintTest, AFindingSaysWhereAndWhatToDo) {
  const std::vector<Finding> findings = Findings("#!/bin/sh\necho {{ .Vars.NAME }}\n");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].place, (tmpl::Place{.offset = 18, .line = 2, .column = 9}));
  EXPECT_EQ(findings[0].message, "{{.Vars.NAME}} is not quoted; use {{.Vars.NAME | shellquote}}");
}

}  // namespace
}  // namespace nstance::test

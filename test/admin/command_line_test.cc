#include "admin/command_line.h"

#include <initializer_list>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nstance::admin {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

std::optional<std::string> NoVariable(const std::string& /*name*/) { return std::nullopt; }

std::expected<CommandLine, Ending> Parse(std::initializer_list<const char*> words) {
  const std::vector<std::string> texts(words.begin(), words.end());
  return ParseCommandLine(texts, NoVariable);
}

template <class T>
T Expect(std::initializer_list<const char*> words) {
  auto line = Parse(words);
  if (!line) {
    ADD_FAILURE() << line.error().err;
    return T{};
  }
  const T* command = std::get_if<T>(&std::get<ConfigCommand>(line->command));
  if (command == nullptr) {
    ADD_FAILURE() << "another command";
    return T{};
  }
  return *command;
}

Ending ExpectEnd(std::initializer_list<const char*> words) {
  auto line = Parse(words);
  if (line) {
    ADD_FAILURE() << "accepted";
    return {};
  }
  return line.error();
}

TEST(CommandLineTest, FilesToValidateAndConvert) {
  EXPECT_EQ(Expect<ConfigValidate>({"config", "validate", "a.jsonc"}).file, "a.jsonc");
  EXPECT_EQ(Expect<ConfigConvert>({"config", "convert", "b.jsonc"}).file, "b.jsonc");
  EXPECT_EQ(Expect<ConfigValidate>({"config", "validate", "--", "-odd"}).file, "-odd");
}

TEST(CommandLineTest, CommonFlagsStandAnywhere) {
  const auto before = Parse({"--json", "-q", "config", "validate", "a"});
  const auto after = Parse({"config", "validate", "a", "--json", "--quiet"});
  const auto long_form = Parse({"config", "-o", "json", "validate", "-q", "a"});
  ASSERT_TRUE(before);
  ASSERT_TRUE(after);
  ASSERT_TRUE(long_form);
  EXPECT_EQ(before->common, (CommonFlags{.output = Output::kJson, .quiet = true}));
  EXPECT_EQ(after->common, before->common);
  EXPECT_EQ(long_form->common, before->common);
}

TEST(CommandLineTest, RenderOfAGroup) {
  const auto short_form = Parse({"config", "render", "--config", "c", "--group", "workers"});
  ASSERT_TRUE(short_form) << short_form.error().err;
  const auto& command = std::get<ConfigRenderGroup>(std::get<ConfigCommand>(short_form->command));
  EXPECT_EQ(command.tenant.text(), "default");
  EXPECT_EQ(command.group.text(), "workers");
  EXPECT_EQ(command.part, RenderPart::kAll);
  const auto full = Parse({"config", "render", "--config=c", "--group=prod/web", "--part", "args",
                           "--var", "A=1", "--var", "B=x=y", "--var", "C="});
  ASSERT_TRUE(full) << full.error().err;
  const auto& all = std::get<ConfigRenderGroup>(std::get<ConfigCommand>(full->command));
  EXPECT_EQ(all.tenant.text(), "prod");
  EXPECT_EQ(all.group.text(), "web");
  EXPECT_EQ(all.part, RenderPart::kArgs);
  EXPECT_EQ(all.vars, (config::StringMap{{"A", "1"}, {"B", "x=y"}, {"C", ""}}));
}

TEST(CommandLineTest, RenderOfOneTemplate) {
  const auto command =
      Expect<ConfigRenderTemplate>({"config", "render", "--template", "t", "--data", "d"});
  EXPECT_EQ(command.template_file, "t");
  EXPECT_EQ(command.data_file, "d");
}

struct BadLine {
  std::vector<const char*> words;
  const char* says;
};

class BadLineTest : public testing::TestWithParam<BadLine> {};

TEST_P(BadLineTest, SaysWhatIsWrongAndExitsWithTwo) {
  const std::vector<std::string> words(GetParam().words.begin(), GetParam().words.end());
  const auto line = ParseCommandLine(words, NoVariable);
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().exit_code, 2);
  EXPECT_THAT(line.error().out, IsEmpty());
  EXPECT_THAT(line.error().err, AllOf(StartsWith("Error: "), HasSubstr(GetParam().says)));
  EXPECT_THAT(line.error().err, MatchesRegex("[^\n]*[.?] Try `nstance-admin[a-z ]* --help`\\.\n"));
}

INSTANTIATE_TEST_SUITE_P(
    Lines, BadLineTest,
    testing::Values(
        BadLine{{},
                "nstance-admin needs a command; one of: cluster, store, cert, secrets, config, "
                "group, instance, plan, why, watch, completion, manual"},
        BadLine{{"confg"},
                "nstance-admin has no command \"confg\"; one of: cluster, store, cert, secrets, "
                "config, group, instance, plan, why, watch, completion, manual. Did you mean "
                "\"config\"?"},
        BadLine{{"config"},
                "nstance-admin config needs a command; one of: validate, convert, render"},
        BadLine{{"config", "valdate", "x"}, "Did you mean \"validate\"?"},
        BadLine{{"config", "validate"}, "file is required"},
        BadLine{{"config", "validate", "a", "b"}, "\"b\" is one word too many"},
        BadLine{{"config", "validate", "a", "--jsn"},
                "has no flag \"--jsn\". Did you mean \"--json\"?"},
        BadLine{{"config", "render", "--grup", "x"}, "Did you mean \"--group\"?"},
        BadLine{{"config", "render"}, "use --config and --group for an instance, or --template"},
        BadLine{{"config", "render", "--config", "c"}, "--group is missing"},
        BadLine{{"config", "render", "--group", "g"}, "--config is missing"},
        BadLine{{"config", "render", "--template", "t"}, "--data is missing"},
        BadLine{{"config", "render", "--data", "t"}, "--template is missing"},
        BadLine{{"config", "render", "--config", "c", "--template", "t"},
                "use --config and --group"},
        BadLine{{"config", "render", "--template", "t", "--data", "d", "--var", "A=1"},
                "--part and --var go with --config"},
        BadLine{{"config", "render", "--config", "c", "--group", "A/b"}, "--group: "},
        BadLine{{"config", "render", "--config", "c", "--group", "a/b/c"}, "--group: "},
        BadLine{{"config", "render", "--config", "c", "--group", "g", "--part", "x"},
                "--part: \"x\" is unknown; one of: userdata, args, files"},
        BadLine{{"config", "render", "--config", "c", "--group", "g", "--var", "A"},
                "--var: \"A\" is not NAME=value"},
        BadLine{{"config", "render", "--config", "c", "--group", "g", "--var", "1A=x"},
                "is not NAME=value"},
        BadLine{
            {"config", "render", "--config", "c", "--group", "g", "--var", "A=1", "--var", "A=2"},
            "--var: A is given twice"},
        BadLine{{"config", "validate", "a", "-o", "yaml"},
                "--output: \"yaml\" is unknown; one of: table, json"},
        BadLine{{"config", "validate", "a", "-o", "table", "--json"}, "contradict each other"}));

TEST(CommandLineTest, ABadLineInJsonIsJson) {
  const std::vector<std::vector<std::string>> lines = {
      {"config", "validate", "--json"},
      {"config", "validate", "-o", "json"},
      {"config", "validate", "-ojson"},
      {"config", "validate", "--output", "json"},
      {"config", "validate", "--output=json"},
      {"--output", "json", "config", "valdate", "x"},
      {"-o", "json"},
      {"config", "validate", "a", "--jsn", "-o", "json"},
      {"config", "render", "-o", "json", "--config", "c"},  // Parses, and is bad all the same.
      {"-o", "json", "cluster", "nonce", "--expiri", "1h"},
      {"cluster", "nonce", "--expiri", "1h", "--json"},
  };
  for (const std::vector<std::string>& words : lines) {
    SCOPED_TRACE(testing::PrintToString(words));
    const auto line = ParseCommandLine(words, NoVariable);
    ASSERT_FALSE(line);
    EXPECT_EQ(line.error().exit_code, 2);
    EXPECT_THAT(line.error().out, IsEmpty());
    EXPECT_THAT(line.error().err,
                MatchesRegex("\\{\"error\":\"[^\n]*\",\"code\":\"INVALID_ARGUMENT\"\\}\n"));
  }
}

TEST(CommandLineTest, ABadLineThatOnlyLooksLikeJsonIsText) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"cluster", "nonce", "--expiri", "1h", "--output", "json"},  // There it is a path.
           {"cluster", "nonce", "--expiri", "1h", "-o", "json"},
           {"config", "validate", "-o"},
           {"config", "validate", "a", "b", "--", "--json"}}) {
    const auto line = ParseCommandLine(words, NoVariable);
    ASSERT_FALSE(line);
    EXPECT_THAT(line.error().err, StartsWith("Error: ")) << testing::PrintToString(words);
  }
}

TEST(CommandLineTest, HelpTeachesAtEveryLevel) {
  const Ending program = ExpectEnd({"--help"});
  EXPECT_EQ(program.exit_code, 0);
  EXPECT_THAT(program.err, IsEmpty());
  EXPECT_THAT(program.out, AllOf(HasSubstr("config"), HasSubstr("Exit codes:")));
  const Ending config = ExpectEnd({"config", "--help"});
  EXPECT_EQ(config.exit_code, 0);
  EXPECT_THAT(config.out, AllOf(HasSubstr("validate"), HasSubstr("convert"), HasSubstr("render")));
  for (const char* command : {"validate", "convert", "render"}) {
    const Ending help = ExpectEnd({"config", command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, AllOf(HasSubstr(std::string("Usage: nstance-admin config ") + command),
                                HasSubstr(std::string("  nstance-admin config ") + command)))
        << command;
  }
}

TEST(CommandLineTest, Version) {
  const Ending end = ExpectEnd({"--version"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.out, testing::MatchesRegex("nstance-admin [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_THAT(end.err, Not(HasSubstr("Error")));
}

}  // namespace
}  // namespace nstance::admin

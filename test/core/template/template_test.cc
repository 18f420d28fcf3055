// Templates: tables of cases per part of the language, then limits, hostile sources and values. The
// same cases, and generated ones, go to Go in template_go_test.cc.
#include "core/template/template.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "test/core/template/cases.h"
#include "test/core/template/sample_data.h"

namespace nstance::test {
namespace {

using tmpl::Limits;
using tmpl::Place;
using tmpl::Template;
using tmpl::Value;

// Output or error.
std::string Outcome(std::string_view source, const Value& data = Sample(),
                    const Limits& limits = {}) {
  const Result<Template> parsed = Template::Parse("t", source);
  if (!parsed) return parsed.error().message;
  const Result<std::string> output = parsed->Render(data, {.limits = limits});
  return output ? *output : output.error().message;
}

std::string Repeated(std::string_view text, std::size_t count) {
  std::string out;
  out.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(TemplateTest, OutputsAreThoseOfTheTable) {
  for (const TemplateCase& row : OutputCases()) {
    const Result<Template> parsed = Template::Parse("t", row.source);
    ASSERT_TRUE(parsed) << row.source << ": " << parsed.error().message;
    const Result<std::string> output = parsed->Render(Sample());
    ASSERT_TRUE(output) << row.source << ": " << output.error().message;
    EXPECT_EQ(*output, row.output) << row.source;
  }
}

TEST(TemplateTest, PrintfIsThatOfTheTable) {
  for (const TemplateCase& row : PrintfCases()) EXPECT_EQ(Outcome(row.source), row.output);
}

TEST(TemplateTest, ErrorsOfRenderingSayWhatAndWhere) {
  for (const TemplateCase& row : ExecErrorCases()) {
    const Result<Template> parsed = Template::Parse("t", row.source);
    ASSERT_TRUE(parsed) << row.source << ": " << parsed.error().message;
    const Result<std::string> output = parsed->Render(Sample());
    ASSERT_FALSE(output) << row.source << ": " << *output;
    EXPECT_EQ(output.error().message, row.output) << row.source;
    EXPECT_EQ(output.error().code, Code::kInvalidArgument);
  }
}

TEST(TemplateTest, ErrorsOfParsingSayWhatAndWhere) {
  for (const TemplateCase& row : ParseErrorCases()) {
    const Result<Template> parsed = Template::Parse("t", row.source);
    ASSERT_FALSE(parsed) << row.source;
    EXPECT_EQ(parsed.error().message, row.output) << row.source;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  }
}

TEST(TemplateTest, ErrorsPointIntoTheSource) {
  Place place;
  ASSERT_FALSE(Template::Parse("t", "ab\ncd {{nope 1}}", {.error_at = &place}));
  EXPECT_EQ(place, (Place{.offset = 8, .line = 2, .column = 6}));
  ASSERT_FALSE(Template::Parse("t", "{{if 1}}\n {{1a}}{{end}}", {.error_at = &place}));
  EXPECT_EQ(place, (Place{.offset = 12, .line = 2, .column = 4}));
  const Result<Template> parsed = Template::Parse("t", "x\n{{len 5}}");
  ASSERT_TRUE(parsed);
  ASSERT_FALSE(parsed->Render(Sample(), {.error_at = &place}));
  EXPECT_EQ(place, (Place{.offset = 4, .line = 2, .column = 3}));
}

TEST(TemplateTest, ATemplateThatIsNotDefinedIsFoundWithoutRendering) {
  Place place;
  const Result<Template> bad = Template::Parse("t", "{{if false}}\n{{template \"no\" .}}{{end}}");
  ASSERT_TRUE(bad);
  EXPECT_TRUE(bad->Render(Sample()));
  const Status status = bad->CheckNames(&place);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "template: t:2:11: template \"no\" not defined");
  EXPECT_EQ(place.line, 2U);
  const Result<Template> good = Template::Parse("t", "{{define \"x\"}}{{end}}{{template \"x\"}}");
  ASSERT_TRUE(good);
  EXPECT_TRUE(good->CheckNames());
}

// --- Values -------------------------------------------------------------------------------------

TEST(TemplateValueTest, AMissingKeyIsTheEmptyStringInEveryMap) {
  EXPECT_EQ(Outcome("[{{.Map.zz}}][{{index .Map \"zz\"}}][{{.Vars.zz}}][{{index .Vars \"zz\"}}]"),
            "[][][][]");
  EXPECT_EQ(Outcome("{{if .Map.zz}}a{{else}}b{{end}}{{eq .Map.zz \"\"}}"), "btrue");
  EXPECT_EQ(Outcome("{{.Map.n}}"), "<no value>");
}

TEST(TemplateValueTest, JsonBecomesWhatGoReads) {
  const Result<json::Value> parsed =
      json::Parse(R"({"i":5,"d":0.5,"l":[1],"o":{"k":null},"b":true})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(Outcome("{{printf \"%T %T %T %T %T\" .i .d .l .o .b}} {{.}}", Value::FromJson(*parsed)),
            "float64 float64 []interface {} map[string]interface {} bool "
            "map[b:true d:0.5 i:5 l:[1] o:map[k:<nil>]]");
}

TEST(TemplateValueTest, OfEqualKeysTheLastCounts) {
  const Value map = Value::Map({{"k", Value::Int(1)}, {"a", Value::Int(0)}, {"k", Value::Int(2)}});
  EXPECT_EQ(Outcome("{{.}} {{.k}} {{len .}}", map), "map[a:0 k:2] 2 2");
  EXPECT_EQ(Outcome("{{.}}", Value::StringMap({{"k", "1"}, {"k", "2"}})), "map[k:2]");
}

TEST(TemplateValueTest, AnyValueMayBeTheRoot) {
  EXPECT_EQ(Outcome("{{.}}", Value()), "<no value>");
  EXPECT_EQ(Outcome("{{.}}{{$.x}}", Value()), "<no value><no value>");
  EXPECT_EQ(Outcome("{{.}}", Value::Real(1e21)), "1e+21");
  EXPECT_EQ(Outcome("{{range .}}{{.}};{{end}}", Value::List({Value::Int(1), Value::Bool(false)})),
            "1;false;");
}

TEST(TemplateValueTest, ValuesAreNeverParsedAgain) {
  EXPECT_EQ(Outcome("{{.}}{{print .}}", Value::String("{{.x}}{{end}}")),
            "{{.x}}{{end}}{{.x}}{{end}}");
}

TEST(TemplateValueTest, MessagesHoldNoValue) {
  const Value secret = Value::Map({{"s", Value::String("hunter2")}});
  for (const std::string_view source :
       {"{{range .s}}{{end}}", "{{eq . .}}", "{{eq . (slice .s 1)}}", "{{.s | call}}",
        "{{call .s}}", "{{len 5 | index .s}}", "{{index .s .s}}",
        "{{printf \"%d\" .s | len | slice .s}}", "{{.s.x}}", "{{template .s}}", "{{lt .s 1}}",
        "{{.s 1}}"}) {
    const std::string outcome = Outcome(source, secret);
    EXPECT_TRUE(outcome.starts_with("template: t:1")) << source << ": " << outcome;
    EXPECT_FALSE(outcome.contains("hunter")) << outcome;
  }
}

TEST(TemplateTest, RenderingIsPure) {
  const Result<Template> parsed = Template::Parse(
      "t", "{{$x := 1}}{{range .List}}{{$x = printf \"%v-%v\" $x .}}{{end}}{{$x}}{{.Nonce}}");
  ASSERT_TRUE(parsed);
  const std::vector<Template> copies(3, *parsed);
  const Result<std::string> first = parsed->Render(Sample());
  ASSERT_TRUE(first);
  for (const Template& copy : copies) {
    EXPECT_FALSE(copy.Render(Value::Int(1)));
    EXPECT_EQ(copy.Render(Sample()), first);
  }
}

// --- Limits -------------------------------------------------------------------------------------

Result<std::string> Limited(std::string_view source, const Limits& limits) {
  const Result<Template> parsed = Template::Parse("t", source);
  EXPECT_TRUE(parsed) << parsed.error().message;
  if (!parsed) return Fail(parsed.error());
  return parsed->Render(Sample(), {.limits = limits});
}

void ExpectExhausted(std::string_view source, std::string_view clause, const Limits& limits = {}) {
  const Result<std::string> output = Limited(source, limits);
  ASSERT_FALSE(output) << source;
  EXPECT_EQ(output.error().code, Code::kResourceExhausted) << output.error().message;
  EXPECT_TRUE(output.error().message.contains(clause)) << output.error().message;
}

TEST(TemplateLimitTest, TheSourceHasAtMost256KiB) {
  EXPECT_TRUE(Template::Parse("t", std::string(tmpl::kMaxSourceBytes, 'x')));
  const Result<Template> parsed = Template::Parse("t", std::string(tmpl::kMaxSourceBytes + 1, 'x'));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, Code::kResourceExhausted);
  EXPECT_FALSE(Template::Parse("t", "12345", {.max_bytes = 4}));
  EXPECT_TRUE(Template::Parse("t", "1234", {.max_bytes = 4}));
}

TEST(TemplateLimitTest, TheOutputHasAtMostItsLimit) {
  const Limits ten{.output_bytes = 10};
  EXPECT_EQ(Limited("1234567890", ten), "1234567890");
  EXPECT_EQ(Limited("{{range 10}}{{.}}{{end}}", ten), "0123456789");
  ExpectExhausted("12345678901", "the output is longer than 10 bytes", ten);
  ExpectExhausted("{{range 11}}{{.}}{{end}}", "the output is longer than 10 bytes", ten);
  ExpectExhausted("{{printf \"%11d\" 1}}", "the text is longer than 10 bytes", ten);
  ExpectExhausted("{{.List}}", "the output is longer than 10 bytes", ten);
  ExpectExhausted("{{range 3}}{{printf \"%500000d\" 1}}{{end}}", "longer than 1048576 bytes");
}

TEST(TemplateLimitTest, StepsAreCounted) {
  ExpectExhausted("{{range 1000000000}}{{end}}", "more than 1000000 steps");
  ExpectExhausted("{{range 1000}}{{range 1000}}{{range 1000}}{{end}}{{end}}{{end}}",
                  "more than 1000000 steps");
  ExpectExhausted("{{1}}{{2}}{{3}}", "steps", {.steps = 5});
  EXPECT_EQ(Limited("{{1}}{{2}}{{3}}", {.steps = 6}), "123");
}

// Else a loop could make, or compare, a mebibyte per step.
TEST(TemplateLimitTest, LongTextsCostSteps) {
  ExpectExhausted("{{range 1000000}}{{if printf \"%1000000d\" 1}}{{end}}{{end}}", "steps");
  ExpectExhausted(
      "{{$x := printf \"%1000000d\" 1}}{{$y := printf \"%1000000d\" 1}}"
      "{{range 1000000}}{{if eq $x $y}}{{end}}{{end}}",
      "steps");
  ExpectExhausted("{{$x := \"x\"}}{{range 1000}}{{$x = print $x $x}}{{end}}", "longer than");
  ExpectExhausted(
      "{{$x := print `a` | printf `%0900000s`}}{{range 1000000}}{{$y := html $x}}{{end}}", "steps");
  ExpectExhausted("{{range 1000000}}{{if printf (printf \"%900000d\" 1)}}{{end}}{{end}}", "steps");
}

TEST(TemplateLimitTest, TemplatesCallEachOtherAtMost100Deep) {
  ExpectExhausted("{{define \"x\"}}{{template \"x\"}}{{end}}{{template \"x\"}}",
                  "exceeded maximum template depth (100)");
  ExpectExhausted(
      "{{define \"x\"}}{{range 9}}{{with 1}}{{template \"t\"}}{{end}}{{end}}{{end}}"
      "{{template \"x\"}}",
      "exceeded maximum template depth (100)");
  const std::string_view countdown =
      "{{define \"x\"}}{{if .}}{{template \"x\" slice . 1}}{{end}}.{{end}}{{template \"x\" "
      ".Nonce}}";
  EXPECT_EQ(Limited(countdown, {.depth = 6}), "......");
  ExpectExhausted(countdown, "exceeded maximum template depth (5)", {.depth = 5});
}

// --- Hostile sources ----------------------------------------------------------------------------

TEST(TemplateHostileTest, NestingIsBounded) {
  EXPECT_EQ(Outcome("{{" + std::string(200, '(') + "1" + std::string(200, ')') + "}}"), "1");
  EXPECT_EQ(Outcome("{{" + std::string(100'000, '(') + "1" + std::string(100'000, ')') + "}}"),
            "template: t:1: max expression depth exceeded");
  EXPECT_EQ(Outcome("{{" + std::string(100'000, '(')),
            "template: t:1: max expression depth exceeded");
  const std::string ifs = Repeated("{{if 1}}", 500) + "x" + Repeated("{{end}}", 500);
  EXPECT_EQ(Outcome(ifs), "x");
  for (const std::string_view opener :
       {"{{if 1}}", "{{with 1}}", "{{range 1}}", "{{block \"x\" 1}}", "{{if 0}}{{else}}{{if 0}}"}) {
    const std::string source = Repeated(opener, 10'000);
    EXPECT_TRUE(Outcome(source).contains("nested more than 500 deep")) << opener;
  }
  const std::string chain = "{{if 0}}" + Repeated("{{else if 0}}", 10'000) + "{{end}}";
  EXPECT_TRUE(Outcome(chain).contains("nested more than 500 deep"));
  const std::string withs = Repeated("{{with 1}}", 500) + "{{.}}" + Repeated("{{end}}", 500);
  EXPECT_EQ(Outcome(withs), "1");
}

TEST(TemplateHostileTest, ManyOfAnythingStaysFast) {
  EXPECT_TRUE(Outcome(Repeated("{{$a := 1}}", 20'000)).contains("more than 2000 variables"));
  EXPECT_TRUE(Outcome("{{$x := 1}}" + Repeated("{{($x := 1)}}", 15'000)).contains("1"));
  EXPECT_TRUE(Outcome("{{$x := 1}}" + Repeated("{{($x := 1)}}", 20) + "{{$x}}")
                  .contains("declared in parentheses more than 15 times"));
  EXPECT_EQ(Outcome("{{$x := 1}}" + Repeated("{{$x = 2}}", 20'000) + "{{$x}}"), "2");
  EXPECT_TRUE(Outcome("{{printf `" + Repeated("%[d", 80'000) + "`}}").contains("BADINDEX"));
  EXPECT_TRUE(Outcome("{{print" + Repeated(" 1", 100'000) + "}}").starts_with("1 1 1"));
  EXPECT_EQ(Outcome("{{.Map" + Repeated(".c", 1'000) + "}}").substr(0, 15), "template: t:1:6");
  EXPECT_EQ(Outcome("{{1" + Repeated(" | print", 30'000) + "}}"), "1");
  EXPECT_TRUE(Outcome("{{" + Repeated("-", 100'000)).starts_with("template: t:1: "));
  EXPECT_TRUE(Outcome(Repeated("{{define \"x\"}}{{end}}", 10'000)).empty());
}

TEST(TemplateHostileTest, MessagesAreShort) {
  const std::string outcome = Outcome("{{len" + Repeated(" 1", 100'000) + "}}");
  EXPECT_TRUE(outcome.contains("wrong number of args for len: want 1 got 100000")) << outcome;
  EXPECT_LT(Outcome("{{eq 1 `" + std::string(100'000, 'x') + "` | len}}").size(), 2'000U);
}

TEST(TemplateHostileTest, PaddingInsideListsStopsAtTheLimit) {
  std::vector<Value> items(100'000, Value::Int(1));
  const Value list = Value::List(std::move(items));
  EXPECT_TRUE(Outcome("{{printf \"%1000000d\" .}}", list).contains("longer than"));
  EXPECT_TRUE(Outcome("{{printf \"%.1000000d\" .}}", list).contains("longer than"));
  EXPECT_TRUE(Outcome("{{printf \"%.1000000f\" .}}", Value::Real(0.1)).starts_with("0.1000000000"));
}

}  // namespace
}  // namespace nstance::test

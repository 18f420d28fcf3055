// Our templates against Go's text/template: the cases written by hand, thousands of generated ones
// and as many broken ones. Output must be the same byte for byte, and so must be messages, except
// where ours leave out the value (see core/template/template.h).
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "core/template/literal.h"
#include "core/template/template.h"
#include "core/template/unicode.h"
#include "test/core/template/cases.h"
#include "test/core/template/random_template.h"
#include "test/core/template/sample_data.h"
#include "test/support/peers.h"
#include "test/support/process.h"

namespace nstance::test {
namespace {

struct Question {
  std::string source;
  std::string data;
};

struct Answer {
  std::string kind;  // "ok", "parse", "exec"
  std::string text;
};

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    lines.emplace_back(line);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return lines;
}

std::vector<std::string> RunPeer(const std::string& peer, const std::string& mode,
                                 const std::string& input) {
  const Result<ProcessOutput> answer = RunProcess({.argv = {peer, mode}, .input = input});
  EXPECT_TRUE(answer) << answer.error().ToString();
  if (!answer) return {};
  EXPECT_EQ(answer->exit_code, 0) << answer->err;
  return Lines(answer->out);
}

std::vector<Answer> Ask(const std::string& peer, const std::vector<Question>& questions) {
  std::string input;
  for (const Question& question : questions) {
    input.append(Base64Encode(AsBytes(question.source))).append(" ");
    input.append(Base64Encode(AsBytes(question.data))).append("\n");
  }
  std::vector<Answer> answers;
  for (const std::string& line : RunPeer(peer, "render", input)) {
    const std::size_t space = line.find(' ');
    const Result<Bytes> text = Base64Decode(std::string_view(line).substr(space + 1));
    EXPECT_TRUE(text) << line;
    if (!text) return {};
    answers.push_back({.kind = line.substr(0, space), .text = std::string(AsText(*text))});
  }
  EXPECT_EQ(answers.size(), questions.size());
  if (answers.size() != questions.size()) return {};
  return answers;
}

Answer Ours(const Question& question) {
  const Result<tmpl::Template> parsed = tmpl::Template::Parse("t", question.source);
  if (!parsed) return {.kind = "parse", .text = parsed.error().message};
  const Result<std::string> output = parsed->Render(SampleFromJson(question.data));
  if (!output) return {.kind = "exec", .text = output.error().message};
  return {.kind = "ok", .text = *output};
}

// The messages of which only the beginning is the same: Go goes on with the value.
std::string WithoutValue(std::string text) {
  for (const std::string_view clause :
       {"range can't iterate over", "error calling eq: non-comparable type",
        "error calling ne: non-comparable type", "error calling call: non-function"}) {
    const std::size_t at = text.find(clause);
    if (at != std::string::npos) text.erase(at + clause.size());
  }
  // What a panic of the reflect package says there.
  constexpr std::string_view kPanic = "reflect: call of reflect.Value.Type on zero Value";
  const std::size_t at = text.find(kPanic);
  if (at != std::string::npos) text.replace(at, kPanic.size(), "len of nil pointer");
  return text;
}

// What Go accepts and we do not, on purpose.
bool StricterThanGo(const Answer& ours) {
  return ours.kind == "parse" && ours.text.contains("complex number");
}

enum class Depth : std::uint8_t { kAll, kParsing };

std::map<std::string, int> Compare(const std::string& peer, const std::vector<Question>& questions,
                                   Depth depth = Depth::kAll) {
  const std::vector<Answer> answers = Ask(peer, questions);
  std::map<std::string, int> kinds;
  int differences = 0;
  for (std::size_t i = 0; i < answers.size() && differences < 10; ++i) {
    const Answer ours = Ours(questions[i]);
    if (StricterThanGo(ours)) continue;
    ++kinds[answers[i].kind];
    if (depth == Depth::kParsing && ours.kind != "parse" && answers[i].kind != "parse") continue;
    const bool error = ours.kind != "ok";
    const bool same = ours.kind == answers[i].kind &&
                      (error ? WithoutValue(ours.text) == WithoutValue(answers[i].text)
                             : ours.text == answers[i].text);
    if (same) continue;
    ++differences;
    ADD_FAILURE() << "case " << i << "\n"
                  << questions[i].source << "\n"
                  << questions[i].data << "\nours: " << ours.kind << " " << ours.text
                  << "\nGo:   " << answers[i].kind << " " << answers[i].text;
  }
  return kinds;
}

TEST(TemplateGoTest, CasesWrittenByHandAreThoseOfGo) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_template");
  std::vector<Question> questions;
  for (const auto& cases : {OutputCases(), PrintfCases(), ExecErrorCases(), ParseErrorCases()}) {
    for (const TemplateCase& row : cases) {
      questions.push_back({.source = std::string(row.source), .data = SampleJson()});
    }
  }
  Compare(peer, questions);
}

TEST(TemplateGoTest, GeneratedTemplatesRenderAsInGo) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_template");
  std::vector<Question> questions;
  for (std::uint64_t seed = 1; seed <= 6'000; ++seed) {
    RandomTemplate random(seed);
    std::string data = random.Data();
    questions.push_back({.source = random.Source(), .data = std::move(data)});
  }
  const std::map<std::string, int> kinds = Compare(peer, questions);
  if (kinds.empty()) return;
  // Both sides of the border have been walked.
  EXPECT_GT(kinds.at("ok"), 3'000);
  EXPECT_GT(kinds.at("exec"), 1'000);
}

// One expression each, so that no early error hides the rest.
TEST(TemplateGoTest, SmallTemplatesRenderAsInGo) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_template");
  std::vector<Question> questions;
  for (std::uint64_t seed = 1; seed <= 8'000; ++seed) {
    RandomTemplate random(seed + 1'000'000);
    std::string data = random.Data();
    questions.push_back({.source = random.Small(), .data = std::move(data)});
  }
  Compare(peer, questions);
}

TEST(TemplateGoTest, BrokenTemplatesAreRefusedWhereGoRefuses) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_template");
  std::vector<Question> questions;
  for (std::uint64_t seed = 1; seed <= 6'000; ++seed) {
    RandomTemplate random(seed + 2'000'000);
    std::string data = random.Data();
    questions.push_back({.source = random.Broken(), .data = std::move(data)});
  }
  // A changed name may ask a map for a key that it does not have, so rendering is not compared.
  const std::map<std::string, int> kinds = Compare(peer, questions, Depth::kParsing);
  if (kinds.empty()) return;
  EXPECT_GT(kinds.at("parse"), 2'000);
}

TEST(TemplateGoTest, FloatsAreWrittenAsInGo) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_template");
  Prng prng(5);
  std::vector<Question> questions;
  for (int i = 0; i < 3'000; ++i) {
    const std::string number =
        fmt::format("{}{}.{}e{}", prng.Chance(1, 3) ? "-" : "", prng.Below(10),
                    prng.Next() >> prng.Below(60), prng.Between(-330, 307));
    const std::string_view verbs = "vgGeEfFxXb";
    const char verb = verbs[static_cast<std::size_t>(prng.Below(verbs.size()))];
    std::string format = "%";
    for (const char flag : std::string_view("+-# 0")) {
      if (prng.Chance(1, 4)) format += flag;
    }
    if (prng.Chance(1, 3)) format += fmt::format("{}", 1 + prng.Below(30));
    if (prng.Chance(1, 2)) format += fmt::format(".{}", prng.Below(30));
    questions.push_back({.source = fmt::format("{{{{printf \"{}{}\" {}}}}}", format, verb, number),
                         .data = SampleJson()});
  }
  for (const std::string_view format : {"%.1200f", "%.1200e", "%.1200g", "%.400x", "%#.1200g"}) {
    for (const std::string_view number : {"0.1", "5e-324", "1.7976931348623157e308", "0.0"}) {
      questions.push_back({.source = fmt::format("{{{{printf \"{}\" {}}}}}", format, number),
                           .data = SampleJson()});
    }
  }
  Compare(peer, questions);
}

TEST(TemplateGoTest, CodePointsAreOfTheSameKind) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_template");
  const std::vector<std::string> lines = RunPeer(peer, "unicode", "");
  ASSERT_FALSE(lines.empty());
  if (lines[0] != "15.0.0") GTEST_SKIP() << "this Go has Unicode " << lines[0];
  std::array<std::vector<bool>, 3> sets;
  for (std::vector<bool>& set : sets) set.resize(tmpl::kMaxCodePoint + 1);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const std::size_t set = line.starts_with("name") ? 0 : (line.starts_with("print") ? 1 : 2);
    const std::size_t one = line.find(' ') + 1;
    const std::size_t two = line.find(' ', one) + 1;
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::from_chars(line.data() + one, line.data() + two, first, 16);
    std::from_chars(line.data() + two, line.data() + line.size(), last, 16);
    for (std::uint32_t c = first; c <= last; ++c) sets.at(set)[c] = true;
  }
  for (char32_t c = 0; c <= tmpl::kMaxCodePoint; ++c) {
    ASSERT_EQ(tmpl::IsNamePart(c), sets[0][c]) << static_cast<std::uint32_t>(c);
    ASSERT_EQ(tmpl::IsPrintable(c), sets[1][c]) << static_cast<std::uint32_t>(c);
    ASSERT_EQ(tmpl::IsWhiteSpace(c), sets[2][c]) << static_cast<std::uint32_t>(c);
  }
}

// The words come out of a real shell as they went in.
TEST(TemplateShellTest, AShellReadsQuotedWordsAsTheyWere) {
  const Result<std::string> shell = FindProgram("sh");
  if (!shell) GTEST_SKIP() << shell.error().message;
  std::string script = "printf '%s\\0'";
  std::string expected;
  Prng prng(3);
  const Result<tmpl::Template> parsed = tmpl::Template::Parse("t", "{{shellquote .}}");
  ASSERT_TRUE(parsed);
  for (int i = 0; i < 500; ++i) {
    std::string word;
    for (std::uint64_t left = prng.Below(12); left > 0; --left) {
      word += static_cast<char>(1 + prng.Below(255));
    }
    script += " " + parsed->Render(tmpl::Value::String(word)).value();
    expected += word + '\0';
  }
  const Result<ProcessOutput> output = RunProcess({.argv = {*shell}, .input = script + "\n"});
  ASSERT_TRUE(output) << output.error().ToString();
  EXPECT_EQ(output->out, expected);
}

}  // namespace
}  // namespace nstance::test

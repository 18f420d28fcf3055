// Behaviour first: tables of texts with what they mean or the exact refusal. Then properties over
// seeds: what is written reads back as the same value, however it was dressed up on the way.
#include "base/json.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "base/metrics.h"
#include "base/text.h"
#include "test/base/random_json.h"

namespace nstance::json {
namespace {

using test::RandomJson;

constexpr ParseOptions kJsonc = {.syntax = Syntax::kJsonc};

Value MustParse(std::string_view text, const ParseOptions& options = {}) {
  Result<Value> value = Parse(text, options);
  EXPECT_TRUE(value) << text << ": " << value.error().ToString();
  return value ? *std::move(value) : Value();
}

// The message of the refusal; empty when there is none.
std::string Refusal(std::string_view text, const ParseOptions& options = {}) {
  const Result<Value> value = Parse(text, options);
  return value ? "" : value.error().message;
}

Value Text(std::string text) { return Value::String(std::move(text)); }
Value Number(std::int64_t number) { return Value::Integer(number); }

Value Map(std::vector<std::pair<std::string, Value>> members) {
  Value object = Value::Map({});
  for (auto& [key, value] : members) object.Set(key, std::move(value));
  return object;
}

std::string Repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

std::string Sha256(std::string_view bytes) {
  std::array<std::uint8_t, 32> digest{};
  std::size_t size = 0;
  EXPECT_EQ(
      EVP_Q_digest(nullptr, "SHA256", nullptr, bytes.data(), bytes.size(), digest.data(), &size),
      1);
  return "sha256:" + HexEncode(digest);
}

// --- What is accepted
// -----------------------------------------------------------------------------

TEST(JsonParseTest, ReadsEveryKindOfValue) {
  struct Row {
    std::string_view text;
    Value value;
  };
  const std::vector<Row> rows = {
      {"null", Value()},
      {"true", Value::Bool(true)},
      {"false", Value::Bool(false)},
      {" \t\r\n 1 \t\r\n ", Number(1)},
      {"\"\"", Text("")},
      {"\"a\"", Text("a")},
      {"[]", Value::List({})},
      {"[ ]", Value::List({})},
      {"{}", Value::Map({})},
      {"{ }", Value::Map({})},
      {"[1,\"x\",null,[true]]",
       Value::List({Number(1), Text("x"), Value(), Value::List({Value::Bool(true)})})},
      {"{\"b\":1,\"a\":{\"\":[]}}", Map({{"b", Number(1)}, {"a", Map({{"", Value::List({})}})}})},
  };
  for (const Row& row : rows) EXPECT_EQ(MustParse(row.text), row.value) << row.text;
}

TEST(JsonParseTest, ReadsNumbers) {
  struct Row {
    std::string_view text;
    Value value;
  };
  const std::vector<Row> rows = {
      {"0", Number(0)},
      {"-1", Number(-1)},
      {"10", Number(10)},
      {"9007199254740993", Number(9'007'199'254'740'993)},
      {"9223372036854775807", Number(std::numeric_limits<std::int64_t>::max())},
      {"-9223372036854775808", Number(std::numeric_limits<std::int64_t>::min())},
      {"9223372036854775808", Value::Double(0x1p63)},
      {"18446744073709551616", Value::Double(0x1p64)},
      {"-9223372036854775809", Value::Double(-0x1p63)},
      {"0.0", Value::Double(0)},
      {"1.0", Value::Double(1)},
      {"1e0", Value::Double(1)},
      {"1E+2", Value::Double(100)},
      {"25e-1", Value::Double(2.5)},
      {"-0.5", Value::Double(-0.5)},
      {"0.1", Value::Double(0.1)},
      {"0e5", Value::Double(0)},
      {"0e99999999999999999999", Value::Double(0)},
      {"1.7976931348623157e308", Value::Double(std::numeric_limits<double>::max())},
      {"2.2250738585072014e-308", Value::Double(std::numeric_limits<double>::min())},
      {"5e-324", Value::Double(std::numeric_limits<double>::denorm_min())},
      {"2e-324", Value::Double(0)},
      {"1e-999", Value::Double(0)},
      {"123.456e-99999999999999999999", Value::Double(0)},
  };
  for (const Row& row : rows) EXPECT_EQ(MustParse(row.text), row.value) << row.text;
}

TEST(JsonParseTest, JudgesNumbersByTheirValueAndNotByTheirExponent) {
  const std::string zeros(400, '0');
  EXPECT_EQ(MustParse("1" + zeros + "e-400"), Value::Double(1));
  EXPECT_EQ(MustParse("0." + zeros + "1e401"), Value::Double(1));
  EXPECT_EQ(MustParse("0." + zeros + "1"), Value::Double(0));
  EXPECT_EQ(MustParse("1" + zeros + "e-900"), Value::Double(0));
  EXPECT_EQ(Refusal("1" + zeros), "1:1: the number is too large; at most about 1.8e308");
  EXPECT_EQ(Refusal("0." + zeros + "1e900"), "1:1: the number is too large; at most about 1.8e308");
}

TEST(JsonParseTest, ReadsEveryEscape) {
  struct Row {
    std::string_view text;
    std::string_view value;
  };
  using std::string_view_literals::operator""sv;
  const std::vector<Row> rows = {
      {R"("\"\\\/\b\f\n\r\t")", "\"\\/\b\f\n\r\t"},
      {R"("\u0000")", "\0"sv},
      {R"("\u0041\u00e9\u00E9")", "A\u00e9\u00e9"},
      {R"("\u20AC\uffff\ud7ff\ue000")", "\u20ac\uffff\ud7ff\ue000"},
      {R"("\ud83d\ude00")", "\U0001F600"},
      {R"("\uD800\uDC00\uDBFF\uDFFF")", "\U00010000\U0010FFFF"},
      {"\"\x7F\u0080\u2028\U0010FFFF\"", "\x7F\u0080\u2028\U0010FFFF"},
      {R"("\u005c\u0022")", "\\\""},
  };
  for (const Row& row : rows)
    EXPECT_EQ(MustParse(row.text), Text(std::string(row.value))) << row.text;
}

TEST(JsoncParseTest, AllowsCommentsAndACommaBehindTheLastChild) {
  struct Row {
    std::string_view text;
    std::string_view same_as;
  };
  const std::vector<Row> rows = {
      {"// line\n1", "1"},
      {"1// comment at the end of the file", "1"},
      {"1//", "1"},
      {"1/* comment at the end */", "1"},
      {"/**/1", "1"},
      {"/***/1/****/", "1"},
      {"/* // \n \" */1", "1"},
      {"// /* \n1", "1"},
      {"// \r 1 \n2", "2"},
      {"[1,]", "[1]"},
      {"[1 , /* x */ ]", "[1]"},
      {"{\"a\":1,}", "{\"a\":1}"},
      {"{\"a\":1, // x\n}", "{\"a\":1}"},
      {"{/*1*/\"a\"/*2*/:/*3*/[/*4*/1/*5*/,/*6*/2/*7*/]/*8*/,/*9*/\"b\":2}",
       "{\"a\":[1,2],\"b\":2}"},
      {"\"// no /* comment */\"", "\"// no /* comment */\""},
      {"[\"a\\\"//\",]", "[\"a\\\"//\"]"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(MustParse(row.text, kJsonc), MustParse(row.same_as)) << row.text;
    EXPECT_TRUE(row.text == row.same_as || !Parse(row.text)) << row.text << " is no JSON";
  }
}

TEST(JsonParseTest, RemembersWhereValuesAndKeysStood) {
  const Value root =
      MustParse("\n  {\"a\": 1,\r\n\t\"\u00e9\": [ true,\n\"x\"]/*\n\n*/, \"c\":{}}", kJsonc);
  EXPECT_EQ(root.position(), (Position{.line = 2, .column = 3}));
  const Object& members = *root.if_object();
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(members[0].key_position, (Position{.line = 2, .column = 4}));
  EXPECT_EQ(members[0].value.position(), (Position{.line = 2, .column = 9}));
  EXPECT_EQ(members[1].key_position, (Position{.line = 3, .column = 2}));
  // Columns count bytes: the key has two between its quotes.
  EXPECT_EQ(members[1].value.position(), (Position{.line = 3, .column = 8}));
  const Array& items = *members[1].value.if_array();
  EXPECT_EQ(items[0].position(), (Position{.line = 3, .column = 10}));
  EXPECT_EQ(items[1].position(), (Position{.line = 4, .column = 1}));
  EXPECT_EQ(members[2].key_position, (Position{.line = 6, .column = 5}));
  EXPECT_EQ(members[2].value.position(), (Position{.line = 6, .column = 9}));
}

// --- What is refused
// ------------------------------------------------------------------------------

struct RefusalRow {
  std::string_view text;
  std::string_view message;
};

void ExpectRefusals(const std::vector<RefusalRow>& rows, const ParseOptions& options) {
  for (const RefusalRow& row : rows) {
    const Result<Value> value = Parse(row.text, options);
    ASSERT_FALSE(value) << row.text;
    EXPECT_EQ(value.error().code, Code::kInvalidArgument) << row.text;
    EXPECT_EQ(value.error().message, row.message) << row.text;
  }
}

TEST(JsonParseTest, RefusesBrokenStructureAndSaysWhereAndWhatIsAllowed) {
  constexpr std::string_view kValue =
      "; a value is an object, a list, a string in double quotes, a number, true, false or null";
  const std::string nul = fmt::format("1:1: found \"n\"{}", kValue);
  const std::string upper = fmt::format("1:1: found \"T\"{}", kValue);
  const std::string nan = fmt::format("1:2: found \"N\"{}", kValue);
  const std::string quote = fmt::format("1:1: found \"'\"{}", kValue);
  const std::string close = fmt::format("1:1: found \"}}\"{}", kValue);
  const std::string comma = fmt::format("1:2: found \",\"{}", kValue);
  const std::string colon = fmt::format("1:6: found \"}}\"{}", kValue);
  const std::string zero = fmt::format("1:2: found \"\\x00\"{}", kValue);
  using std::string_view_literals::operator""sv;
  ExpectRefusals(
      {
          {"", "1:1: found the end of the text; a value is required"},
          {" \n ", "2:2: found the end of the text; a value is required"},
          {"nul", nul},
          {"True", upper},
          {"[NaN]", nan},
          {"'a'", quote},
          {"}", close},
          {"[,1]", comma},
          {"{\"a\":}", colon},
          {"nullx", "1:5: found \"x\"; nothing may follow the value"},
          {"1 2", "1:3: found \"2\"; nothing may follow the value"},
          {"{}\n}", "2:1: found \"}\"; nothing may follow the value"},
          {"[", "1:2: found the end of the text; a value is required"},
          {"[1", "1:3: found the end of the text; \",\" or \"]\" is required"},
          {"[1 2]", "1:4: found \"2\"; \",\" or \"]\" is required"},
          {"[1}", "1:3: found \"}\"; \",\" or \"]\" is required"},
          {"[1,]", "1:4: found \"]\"; a comma before it is not allowed in JSON"},
          {"[1,", "1:4: found the end of the text; a value is required"},
          {"{", "1:2: found the end of the text; a key in double quotes or \"}\" is required"},
          {"{a:1}", "1:2: found \"a\"; a key in double quotes or \"}\" is required"},
          {"{1:1}", "1:2: found \"1\"; a key in double quotes or \"}\" is required"},
          {"{\"a\"}", "1:5: found \"}\"; \":\" is required behind a key"},
          {"{\"a\" 1}", "1:6: found \"1\"; \":\" is required behind a key"},
          {"{\"a\":1", "1:7: found the end of the text; \",\" or \"}\" is required"},
          {"{\"a\":1 \"b\":2}", "1:8: found \"\\\"\"; \",\" or \"}\" is required"},
          {"{\"a\":1,}", "1:8: found \"}\"; a comma before it is not allowed in JSON"},
          {"{\"a\":1,2}", "1:8: found \"2\"; a key in double quotes is required"},
          {"1 // x", "1:3: found \"/\"; comments are not allowed in JSON"},
          {"/* x */ 1", "1:1: found \"/\"; comments are not allowed in JSON"},
          {"[\n1,\n\n  \xC3\xA9\n]",
           "4:3: found \"\u00e9\"; a value is an object, a list, a string "
           "in double quotes, a number, true, false or null"},
          {"\0"sv,
           "1:1: found \"\\x00\"; a value is an object, a list, a string in double quotes, "
           "a number, true, false or null"},
          {"{\0}"sv, "1:2: found \"\\x00\"; a key in double quotes or \"}\" is required"},
      },
      {});
}

TEST(JsoncParseTest, RefusesBrokenCommentsAndLoneCommas) {
  ExpectRefusals(
      {
          {"1 /", "1:3: found \"/\"; a comment starts with // or /*"},
          {"/ 1", "1:1: found \"/\"; a comment starts with // or /*"},
          {"1 # x", "1:3: found \"#\"; nothing may follow the value"},
          {"{ /* open", "1:3: the comment does not end; */ is required"},
          {"\n /*/ 1", "2:2: the comment does not end; */ is required"},
          {"1 /* /* */ */", "1:12: found \"*\"; nothing may follow the value"},
          {"// only", "1:8: found the end of the text; a value is required"},
          {"[,]",
           "1:2: found \",\"; a value is an object, a list, a string in double quotes, a "
           "number, true, false or null"},
          {"{,}", "1:2: found \",\"; a key in double quotes or \"}\" is required"},
          {"[1,,]",
           "1:4: found \",\"; a value is an object, a list, a string in double quotes, a "
           "number, true, false or null"},
          {"{\"a\":1,,}", "1:8: found \",\"; a key in double quotes is required"},
          {"1,", "1:2: found \",\"; nothing may follow the value"},
      },
      kJsonc);
}

TEST(JsonParseTest, RefusesBrokenNumbers) {
  constexpr std::string_view kRule = "; a number is digits with an optional fraction and exponent";
  const std::string hex = fmt::format("1:2: found \"x\"{}", kRule);
  const std::string twice = fmt::format("1:4: found \".\"{}", kRule);
  const std::string minus = fmt::format("1:2: found \"-\"{}", kRule);
  const std::string underscore = fmt::format("1:2: found \"_\"{}", kRule);
  ExpectRefusals(
      {
          {"01", "1:1: a number must not start with a zero before other digits"},
          {"[-012]", "1:2: a number must not start with a zero before other digits"},
          {"00", "1:1: a number must not start with a zero before other digits"},
          {"+1", "1:1: found \"+\"; a number starts with a digit or a minus sign"},
          {".5", "1:1: found \".\"; a number starts with a digit or a minus sign"},
          {"-", "1:2: found the end of the text; a digit is required"},
          {"--1", "1:2: found \"-\"; a digit is required"},
          {"-Infinity", "1:2: found \"I\"; a digit is required"},
          {"1.", "1:3: found the end of the text; a digit is required"},
          {"1.e5", "1:3: found \"e\"; a digit is required"},
          {"1e", "1:3: found the end of the text; a digit is required"},
          {"1e+", "1:4: found the end of the text; a digit is required"},
          {"1e+-1", "1:4: found \"-\"; a digit is required"},
          {"0x10", hex},
          {"1.2.3", twice},
          {"1-2", minus},
          {"1_000", underscore},
          {"1e999", "1:1: the number is too large; at most about 1.8e308"},
          {"-1e999", "1:1: the number is too large; at most about 1.8e308"},
          {"[1,1e99999999999999999999]", "1:4: the number is too large; at most about 1.8e308"},
          {"1.7976931348623159e308", "1:1: the number is too large; at most about 1.8e308"},
          {"-0", "1:1: negative zero is not allowed; write 0"},
          {"[ -0.0]", "1:3: negative zero is not allowed; write 0"},
          {"-0e5", "1:1: negative zero is not allowed; write 0"},
          {"-1e-999", "1:1: negative zero is not allowed; write 0"},
          {"-2e-324", "1:1: negative zero is not allowed; write 0"},
      },
      {});
}

TEST(JsonParseTest, RefusesBrokenStrings) {
  constexpr std::string_view kControl =
      "; control characters in a string must be escaped, as in \\n or \\u0000";
  constexpr std::string_view kEscape = R"(; an escape is one of \" \\ \/ \b \f \n \r \t \uXXXX)";
  const std::string end = fmt::format("1:3: found the end of the text{}", kEscape);
  const std::string unknown = fmt::format("1:3: found \"x\"{}", kEscape);
  const std::string upper = fmt::format("1:3: found \"U\"{}", kEscape);
  const std::string newline = fmt::format("1:3: found \"\\n\"{}", kControl);
  const std::string tab = fmt::format("1:2: found \"\\t\"{}", kControl);
  const std::string zero = fmt::format("1:2: found \"\\x00\"{}", kControl);
  using std::string_view_literals::operator""sv;
  ExpectRefusals(
      {
          {"\"a", "1:3: found the end of the text; the string from 1:1 needs a closing quote"},
          {"[\n \"ab]",
           "2:6: found the end of the text; the string from 2:2 needs a closing quote"},
          {"\"\\", end},
          {R"("\x")", unknown},
          {R"("\U0041")", upper},
          {"\"a\nb\"", newline},
          {"\"\t\"", tab},
          {"\"\0\""sv, zero},
          {R"("\u12")", R"(1:6: found "\""; \u needs four hex digits)"},
          {R"("\u123g")", R"(1:7: found "g"; \u needs four hex digits)"},
          {R"("\u+123")", R"(1:4: found "+"; \u needs four hex digits)"},
          {"\"\\u1", R"(1:5: found the end of the text; \u needs four hex digits)"},
          {R"("a\ud800")", "1:3: found the first half of a surrogate pair without the second"},
          {R"("\ud800\n")", "1:2: found the first half of a surrogate pair without the second"},
          {R"("\ud800\ud800")", "1:2: found the first half of a surrogate pair without the second"},
          {R"("\ud800\u0041")", "1:2: found the first half of a surrogate pair without the second"},
          {R"("\udc00")", "1:2: found the second half of a surrogate pair without the first"},
          {R"("\udfff\ud800")", "1:2: found the second half of a surrogate pair without the first"},
          {R"("\ud800\u12")", R"(1:12: found "\""; \u needs four hex digits)"},
      },
      {});
}

TEST(JsonParseTest, RefusesWhatIsNotUtf8Anywhere) {
  ExpectRefusals(
      {
          {"\xEF\xBB\xBF{}", "1:1: found a byte order mark; the text must start without one"},
          {"\"\xFF\"", "1:2: found the byte 0xff; the text must be UTF-8"},
          {"\"\xC0\x80\"", "1:2: found the byte 0xc0; the text must be UTF-8"},
          {"\"\xED\xA0\x80\"", "1:2: found the byte 0xed; the text must be UTF-8"},
          {"\"\xF4\x90\x80\x80\"", "1:2: found the byte 0xf4; the text must be UTF-8"},
          {"\"\xE2\x82\"", "1:2: found the byte 0xe2; the text must be UTF-8"},
          {"1\n // \x80", "2:5: found the byte 0x80; the text must be UTF-8"},
          {"\xFF\xFE{", "1:1: found the byte 0xff; the text must be UTF-8"},
      },
      kJsonc);
}

TEST(JsonParseTest, RefusesEveryBeginningOfAText) {
  const std::string text = R"({"a":[1.5e3,"\ud83d\ude00",true],"b":{"c":null}})";
  MustParse(text);
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(Parse(std::string_view(text).substr(0, length))) << length;
  }
}

// A token or a password may be what is wrong, so no more than a character of it is shown.
TEST(JsonParseTest, ShowsNoValueInAMessage) {
  for (const std::string_view text :
       {"[hunter2]", "[\"hunter2]", "[\"\\hunter2\"]", "[\"hunter2\" \"hunter2\"]", "[1hunter2]"}) {
    const std::string refusal = Refusal(text);
    EXPECT_FALSE(refusal.contains("hunter")) << refusal;
    EXPECT_FALSE(refusal.contains("unter2")) << refusal;
  }
}

// --- Duplicates
// -----------------------------------------------------------------------------------

TEST(JsonParseTest, RefusesTheFirstDuplicateOfAnObject) {
  ExpectRefusals(
      {
          {"{\"a\":1,\n \"b\":2, \"b\":3, \"a\":4}",
           "2:9: the key \"b\" is at 2:2 already; the keys of an object must differ"},
          {"[{\"x\":1,\"\\u0078\":1}]",
           "1:9: the key \"x\" is at 1:3 already; the keys of an object must differ"},
          {"{\"\":{\"\":1},\"\":2}",
           "1:12: the key \"\" is at 1:2 already; the keys of an object must differ"},
      },
      {});
  MustParse("{\"a\":{\"a\":1},\"A\":[{\"a\":1},{\"a\":2}]}");
}

TEST(JsonParseTest, CollectsDuplicatesAndKeepsTheFirstOfEach) {
  std::vector<DuplicateKey> found;
  const Value value = MustParse("{\"a\":1,\"b\":{\"x\":1,\"x\":2},\n\"a\":3,\"c\":4,\"a\":5}",
                                {.duplicates = &found});
  EXPECT_EQ(Write(value), "{\"a\":1,\"b\":{\"x\":1},\"c\":4}");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].key, "x");
  EXPECT_EQ(found[1].key, "a");
  EXPECT_EQ(found[1].first, (Position{.line = 1, .column = 2}));
  EXPECT_EQ(found[1].again, (Position{.line = 2, .column = 1}));
  EXPECT_EQ(found[2].first, (Position{.line = 1, .column = 2}));
  EXPECT_EQ(found[2].again, (Position{.line = 2, .column = 13}));
}

TEST(JsonParseTest, TellsOfAThousandDuplicatesAndDropsThemAll) {
  std::vector<DuplicateKey> found;
  const Value value =
      MustParse("{" + Repeated("\"a\":0,", 5'000) + "\"b\":1}", {.duplicates = &found});
  EXPECT_EQ(Write(value), "{\"a\":0,\"b\":1}");
  EXPECT_EQ(found.size(), kMaxDuplicates);
}

TEST(JsonParseTest, FindsDuplicatesAmongAHundredThousandKeys) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("\"key{}\":{},", i, i);
  EXPECT_EQ(MustParse(text + "\"last\":0}").if_object()->size(), 100'001U);
  EXPECT_EQ(Refusal(text + "\"key7\":0}"),
            fmt::format("1:{}: the key \"key7\" is at 1:{} already; the keys of an object must "
                        "differ",
                        text.size() + 1, text.find("\"key7\"") + 1));
}

// --- Limits
// ---------------------------------------------------------------------------------------

TEST(JsonParseTest, RefusesTextsAboveTheLimitBeforeLookingAtThem) {
  EXPECT_TRUE(Parse("[10]", {.max_bytes = 4}));
  const Result<Value> value = Parse("\xFF\xFF\xFF\xFF\xFF", {.max_bytes = 4});
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, Code::kResourceExhausted);
  EXPECT_EQ(value.error().message, "the text has 5 bytes; at most 4 are allowed");
}

TEST(JsonParseTest, RefusesWhatIsNestedTooDeeply) {
  EXPECT_TRUE(Parse(Repeated("[", 64) + Repeated("]", 64)));
  EXPECT_TRUE(Parse(Repeated("{\"a\":", 64) + "1" + Repeated("}", 64)));
  EXPECT_TRUE(Parse(Repeated("[", kMaxDepth) + Repeated("]", kMaxDepth), {.max_depth = kMaxDepth}));
  EXPECT_TRUE(Parse("1", {.max_depth = 0}));
  for (const std::string& text :
       {Repeated("[", 65) + Repeated("]", 65), Repeated("[", 100'000), Repeated("[[],", 100'000)}) {
    const Result<Value> value = Parse(text);
    ASSERT_FALSE(value);
    EXPECT_EQ(value.error().code, Code::kResourceExhausted);
    EXPECT_TRUE(value.error().message.ends_with(": nested too deeply; at most 64 levels"));
  }
  EXPECT_EQ(Refusal("{\"a\":\n[1,{}]}", {.max_depth = 2}),
            "2:4: nested too deeply; at most 2 levels");
}

TEST(JsonParseTest, CountsEachRefusalOnceUnderAFixedWord) {
  struct Row {
    std::string_view text;
    std::string_view reason;
    bool limit;
  };
  const std::vector<Row> rows = {
      {"[1", "syntax", false},        {"\"\\q\"", "syntax", false},
      {"\"\xFF\"", "utf8", false},    {"\"\\ud800\"", "surrogate", false},
      {"01", "number", false},        {"-0", "number", false},
      {"1e999", "number", false},     {"{\"a\":1,\"a\":1}", "duplicate-key", false},
      {"[[[]]]", "json-depth", true}, {"\"0123456789012345\"", "json-bytes", true},
  };
  for (const Row& row : rows) {
    metrics::Registry registry;
    InputProbe probe(registry);
    ASSERT_FALSE(Parse(
        row.text,
        {.max_bytes = 16, .max_depth = 2, .source = {.interface = "config", .probe = &probe}}));
    metrics::Snapshot page = registry.Take();
    const std::vector<metrics::Series>& bad = page["bad_input_total"].series;
    ASSERT_EQ(bad.size(), 1U) << row.text;
    EXPECT_EQ(bad[0].labels, (std::vector<std::string>{"config", std::string(row.reason)}));
    EXPECT_EQ(bad[0].value, 1) << row.text;
    EXPECT_EQ(page.contains("limit_hits_total"), row.limit) << row.text;
  }
}

// --- Values
// ---------------------------------------------------------------------------------------

TEST(JsonValueTest, TellsItsTypeAndGivesOnlyThat) {
  struct Row {
    Value value;
    Type type;
    std::string_view name;
  };
  const std::vector<Row> rows = {
      {Value(), Type::kNull, "null"},
      {Value::Bool(false), Type::kBool, "a boolean"},
      {Number(1), Type::kInteger, "a number"},
      {Value::Double(1), Type::kDouble, "a number"},
      {Text("x"), Type::kString, "a string"},
      {Value::List({}), Type::kArray, "a list"},
      {Value::Map({}), Type::kObject, "an object"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(row.value.type(), row.type);
    EXPECT_EQ(TypeName(row.type), row.name);
    EXPECT_EQ(row.value.is_null(), row.type == Type::kNull);
    EXPECT_EQ(row.value.if_bool() != nullptr, row.type == Type::kBool);
    EXPECT_EQ(row.value.if_integer() != nullptr, row.type == Type::kInteger);
    EXPECT_EQ(row.value.if_string() != nullptr, row.type == Type::kString);
    EXPECT_EQ(row.value.if_array() != nullptr, row.type == Type::kArray);
    EXPECT_EQ(row.value.if_object() != nullptr, row.type == Type::kObject);
    EXPECT_EQ(row.value.AsDouble().has_value(),
              row.type == Type::kInteger || row.type == Type::kDouble);
  }
  EXPECT_FALSE(std::signbit(*Value::Double(-0.0).AsDouble()));
}

TEST(JsonValueTest, FindsSetsAndRemovesMembers) {
  Value object = MustParse("{\"b\":1,\"a\":2}");
  EXPECT_EQ(*object.Find("a"), Number(2));
  EXPECT_EQ(object.Find("c"), nullptr);
  EXPECT_EQ(Number(1).Find("a"), nullptr);
  object.Set("b", Text("x"));
  object.Set("c", Value());
  EXPECT_EQ(Write(object), "{\"b\":\"x\",\"a\":2,\"c\":null}");
  object.Remove("a");
  object.Remove("a");
  EXPECT_EQ(Write(object), "{\"b\":\"x\",\"c\":null}");
  *object.Find("c") = Number(3);
  EXPECT_EQ(Write(object), "{\"b\":\"x\",\"c\":3}");
}

TEST(JsonValueTest, IsEqualByContentAndOrder) {
  EXPECT_EQ(MustParse("{\"a\":[1]}"), MustParse("\n{ \"a\" : [ 1 ] }"));
  EXPECT_NE(MustParse("{\"a\":1,\"b\":2}"), MustParse("{\"b\":2,\"a\":1}"));
  EXPECT_EQ(MustParse("[1]"), MustParse("[1.0]"));
  EXPECT_EQ(MustParse("[1.0]"), MustParse("[1]"));
  EXPECT_NE(MustParse("1"), MustParse("1.5"));
  EXPECT_NE(MustParse("0"), MustParse("false"));
  EXPECT_NE(MustParse("9007199254740992"), MustParse("9007199254740993"));
  EXPECT_NE(MustParse("[1]"), MustParse("[2]"));
  EXPECT_NE(MustParse("{\"a\":1}"), MustParse("{\"b\":1}"));
  EXPECT_NE(MustParse("null"), MustParse("false"));
}

// --- Writing
// --------------------------------------------------------------------------------------

TEST(JsonWriteTest, WritesDoublesAsGoDoes) {
  struct Row {
    double value;
    std::string_view text;
  };
  const std::vector<Row> rows = {
      {0, "0"},
      {-0.0, "0"},
      {1, "1"},
      {-1.5, "-1.5"},
      {100, "100"},
      {0.1, "0.1"},
      {1e-6, "0.000001"},
      {1.5e-6, "0.0000015"},
      {9.99999e-7, "9.99999e-7"},
      {1e-7, "1e-7"},
      {1e-10, "1e-10"},
      {1e20, "100000000000000000000"},
      {123456789012345678901.0, "123456789012345680000"},
      {999999999999999900000.0, "999999999999999900000"},
      {1e21, "1e+21"},
      {-1.25e22, "-1.25e+22"},
      {9007199254740993.0, "9007199254740992"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {123.456, "123.456"},
  };
  for (const Row& row : rows) {
    std::string text;
    AppendDouble(text, row.value);
    EXPECT_EQ(text, row.text);
    EXPECT_EQ(Write(Value::Double(row.value)), row.text);
  }
}

TEST(JsonWriteTest, WritesStringsAsGoDoes) {
  using std::string_view_literals::operator""sv;
  struct Row {
    std::string_view value;
    std::string_view text;
  };
  const std::vector<Row> rows = {
      {"", R"("")"},
      {"\"\\/", R"("\"\\/")"},
      {"\n\r\t\b\f", R"("\n\r\t\b\f")"},
      {"\0\x01\x0B\x1F\x7F"sv, "\"\\u0000\\u0001\\u000b\\u001f\x7F\""},
      {"<a href='x'>&", R"("\u003ca href='x'\u003e\u0026")"},
      {"\u2027\u2028\u2029\u202A", "\"\u2027\\u2028\\u2029\u202A\""},
      {"\u00e9\u20ac\U0001F600", "\"\u00e9\u20ac\U0001F600\""},
      {"a\xFF\xED\xA0\x80z", R"("a\ufffd\ufffd\ufffd\ufffdz")"},
  };
  for (const Row& row : rows) {
    std::string text;
    AppendString(text, row.value);
    EXPECT_EQ(text, row.text);
  }
}

TEST(JsonWriteTest, KeepsIntegersExactUnlessAskedForDoubles) {
  const Value value = MustParse("[9007199254740993,9223372036854775807,-9223372036854775808]");
  EXPECT_EQ(Write(value), "[9007199254740993,9223372036854775807,-9223372036854775808]");
  EXPECT_EQ(Write(value, {.numbers = Numbers::kAsDoubles}),
            "[9007199254740992,9223372036854776000,-9223372036854776000]");
}

TEST(JsonWriteTest, KeepsOrSortsTheOrderOfKeys) {
  const Value value =
      MustParse("{\"b\":{\"z\":1,\"\":2},\"\u00e9\":3,\"a\":[{\"d\":1,\"c\":2}],\"B\":4}");
  EXPECT_EQ(Write(value),
            "{\"b\":{\"z\":1,\"\":2},\"\u00e9\":3,\"a\":[{\"d\":1,\"c\":2}],\"B\":4}");
  EXPECT_EQ(Write(value, {.key_order = KeyOrder::kSorted}),
            "{\"B\":4,\"a\":[{\"c\":2,\"d\":1}],\"b\":{\"\":2,\"z\":1},\"\u00e9\":3}");
}

TEST(JsonWriteTest, IndentsAsAsked) {
  const Value value = MustParse("{\"a\":[1,{\"b\":[]}],\"c\":{},\"d\":[[]]}");
  EXPECT_EQ(Write(value, {.indent = 2}),
            "{\n"
            "  \"a\": [\n"
            "    1,\n"
            "    {\n"
            "      \"b\": []\n"
            "    }\n"
            "  ],\n"
            "  \"c\": {},\n"
            "  \"d\": [\n"
            "    []\n"
            "  ]\n"
            "}");
}

// formats.md section 7.
TEST(JsonWriteTest, ReproducesTheHashesOfConfigurations) {
  struct Row {
    std::string_view text;
    std::string_view hash;
  };
  const std::vector<Row> rows = {
      {R"({"vars":{},"files":{}})",
       "sha256:e5ae13dd1e88c12b792290cbb21fee11f01e4237521f8869d826a1a7d3b3d30d"},
      {R"({"vars":{"VAR1":"value1","VAR2":"value2"},"files":{"file1":{"kind":"secret","source":"secret1"}}})",
       "sha256:7f238082312970eebe01914fbeb7bc83883128dbbddc9cc8035e1311ff02357c"},
      {R"({"vars":{"A":"x\u003cy\u0026z\u003e"},"files":{"k.crt":{"kind":"certificate","template":"kubelet.client","key":{"source":"agent","name":"kubelet.client.pub"}}}})",
       "sha256:c8618ecfed59a4e301d402b14d6d1d270986b782c1d9876087c2c55b9944ee60"},
      {R"({"args":{},"instance_type":"t3.medium","subnet_pool":"","kind":"kind","arch":"amd64"})",
       "sha256:37dc4ae76f163781a1e2debef43b623178f13c21514a960b39757375958d842a"},
      {R"({"args":{"arg1":"value1","arg2":42},"instance_type":"t3.medium","subnet_pool":"subnet-1","userdata":{"content":"userdata content"},"kind":"test-kind","arch":"amd64"})",
       "sha256:48af4757c99e0dd69acb723f96d31b9666cce16fcadfdf83c30235db0bb51c0a"},
  };
  for (const Row& row : rows) {
    const std::string written = Write(MustParse(row.text));
    EXPECT_EQ(written, row.text);
    EXPECT_EQ(Sha256(written), row.hash) << row.text;
  }
}

// formats.md section 1.
TEST(JsonWriteTest, ReproducesTheChecksumOfARecord) {
  const std::string_view text =
      R"({"version":1,"cluster_id":"example-cluster","shard":"dc1-zone-a","epoch":1,"seq":1,"write_id":"AAECAwQFBgcICQoLDA0ODw","holder":"s1/0001","updated_at":"2026-01-01T00:00:00Z","intents":[]})";
  EXPECT_EQ(Write(MustParse(text)), text);
  EXPECT_EQ(Sha256(Write(MustParse(text))),
            "sha256:103cc4997b1a0dff263555a89293773bb904d553430310eef5411367d707bf6f");
}

// --- Properties over seeds
// ------------------------------------------------------------------------

constexpr std::uint64_t kSeeds = 2'000;
constexpr int kDepth = 4;

TEST(JsonPropertyTest, WhatIsWrittenReadsBackAsTheSameValue) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Value value = RandomJson(seed).Value(kDepth);
    ASSERT_EQ(MustParse(Write(value)), value) << "seed " << seed;
    ASSERT_EQ(MustParse(Write(value, {.indent = 3})), value) << "seed " << seed;
  }
}

TEST(JsonPropertyTest, CanonicalBytesDoNotDependOnTheOrderOfMembers) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    RandomJson random(seed);
    const Value value = random.Value(kDepth);
    const std::string canonical = WriteCanonical(value);
    ASSERT_EQ(WriteCanonical(random.Shuffled(value)), canonical) << "seed " << seed;
    ASSERT_EQ(WriteCanonical(MustParse(canonical)), canonical) << "seed " << seed;
  }
}

TEST(JsonPropertyTest, DressedUpTextsReadAsTheSameValue) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    RandomJson random(seed);
    const Value value = random.Value(kDepth);
    const std::string json = random.Text(value, {.syntax = Syntax::kJson});
    ASSERT_EQ(MustParse(json), value) << "seed " << seed << ": " << json;
    ASSERT_EQ(MustParse(json, kJsonc), value) << "seed " << seed << ": " << json;
    const std::string jsonc = random.Text(value, {.syntax = Syntax::kJsonc});
    ASSERT_EQ(MustParse(jsonc, kJsonc), value) << "seed " << seed << ": " << jsonc;
  }
}

TEST(JsonPropertyTest, DoublesReadBackToTheLastBit) {
  RandomJson random(1);
  for (int i = 0; i < 50'000; ++i) {
    const double value = random.Double();
    std::string text;
    AppendDouble(text, value);
    ASSERT_EQ(MustParse(text).AsDouble(), value) << text;
  }
}

}  // namespace
}  // namespace nstance::json

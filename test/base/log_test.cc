// Log lines: both forms, hostile text, levels, and what does not compile.
#include "base/log.h"

#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/prng.h"
#include "base/text.h"

namespace nstance::log {
namespace {

const Timestamp kNow = Timestamp::FromUnix(1'767'225'600, 250'000'000);

class MemorySink final : public Sink {
 public:
  [[nodiscard]] bool Wants(Level level) const override { return level >= least; }
  void Write(const Record& record) override {
    json.push_back(FormatJson(record, kNow));
    text.push_back(FormatText(record, kNow));
  }
  Level least = Level::kInfo;
  std::vector<std::string> json;
  std::vector<std::string> text;
};

TEST(LogTest, WritesJsonLinesAndText) {
  MemorySink sink;
  const Logger logger = Logger(sink, "server").For("lease").With({{"shard", "dc1"}});
  logger.Info("acquired lease", {{"term", 3},
                                 {"took", Duration::Milliseconds(1'500)},
                                 {"first", true},
                                 {"share", 0.25},
                                 {"holder", "s1 a"},
                                 {"big", std::uint64_t{18446744073709551615U}}});
  ASSERT_EQ(sink.json.size(), 1U);
  EXPECT_EQ(sink.json[0],
            R"({"time":"2026-01-01T00:00:00.25Z","level":"info","component":"lease",)"
            R"("message":"acquired lease","shard":"dc1","term":3,"took":"1.5s","first":true,)"
            R"("share":0.25,"holder":"s1 a","big":18446744073709551615})");
  EXPECT_EQ(sink.text[0],
            "2026-01-01T00:00:00.25Z info lease: acquired lease shard=dc1 term=3 took=1.5s "
            "first=true share=0.25 holder=\"s1 a\" big=18446744073709551615");
}

TEST(LogTest, KnowsOurOwnTypes) {
  MemorySink sink;
  const Logger logger(sink, "x");
  logger.Error("failed", {{"tenant", DefaultTenant()},
                          {"instance", *ParsePuidv7("knc06bgm7733st2576nx5jht4ecjw")},
                          {"at", kNow},
                          {"error", Unavailable("no route").MaybeDone()}});
  EXPECT_EQ(sink.text[0],
            "2026-01-01T00:00:00.25Z error x: failed tenant=default "
            "instance=knc06bgm7733st2576nx5jht4ecjw at=2026-01-01T00:00:00.25Z "
            "error=\"UNAVAILABLE (maybe done): no route\"");
}

TEST(LogTest, LevelsBelowTheSinksAreDropped) {
  MemorySink sink;
  sink.least = Level::kWarning;
  const Logger logger(sink, "x");
  logger.Debug("a");
  logger.Info("b");
  logger.Warning("c");
  logger.Error("d");
  EXPECT_EQ(sink.text.size(), 2U);
  EXPECT_EQ(ParseLevel("warning"), Level::kWarning);
  EXPECT_EQ(ParseLevel("warn").error().message,
            "\"warn\" is not a log level; one of: debug, info, warning, error");
}

TEST(LogTest, HostileTextStaysOnItsLineAndOffTheTerminal) {
  MemorySink sink;
  const Logger logger(sink, "x");
  const std::string hostile = "a\nb\x1b[2J\xff \xE2\x80\xAE\xC2\x9B\x7f\"=\\";
  logger.Info(hostile, {{"key\n", hostile}});
  for (const std::string& line : {sink.json[0], sink.text[0]}) {
    EXPECT_TRUE(IsValidUtf8(line));
    for (const char c : line) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
    EXPECT_EQ(line.find("\xE2\x80\xAE"), std::string::npos);
    EXPECT_EQ(line.find("\xC2\x9B"), std::string::npos);
  }
  EXPECT_TRUE(json::Parse(sink.json[0]).has_value());
}

TEST(LogTest, AnyBytesGiveOneValidJsonLine) {
  Prng prng(12);
  MemorySink sink;
  const Logger logger(sink, "x");
  for (int i = 0; i < 3'000; ++i) {
    std::string noise(prng.Below(30), '\0');
    for (char& c : noise) c = static_cast<char>(prng.Next());
    logger.Info(noise, {{"k", noise}});
    const Result<json::Value> parsed = json::Parse(sink.json.back());
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    ASSERT_EQ(sink.text.back().find('\n'), std::string::npos);
  }
}

TEST(LogTest, LongValuesAreCutAndOddNumbersStayJson) {
  MemorySink sink;
  const Logger logger(sink, "x");
  logger.Info("m", {{"long", std::string(1 << 20, 'y')},
                    {"nan", std::numeric_limits<double>::quiet_NaN()},
                    {"inf", -std::numeric_limits<double>::infinity()}});
  EXPECT_LT(sink.json[0].size(), kMaxValueBytes + 200);
  const Result<json::Value> parsed = json::Parse(sink.json[0]);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed->Find("nan")->if_string(), "NaN");
  EXPECT_EQ(*parsed->Find("inf")->if_string(), "-Inf");
}

struct Opaque {};

TEST(LogTest, OnlyKnownTypesCompile) {
  EXPECT_TRUE((std::is_constructible_v<Field, std::string_view, int>));
  EXPECT_TRUE((std::is_constructible_v<Field, std::string_view, std::string>));
  EXPECT_FALSE((std::is_constructible_v<Field, std::string_view, Opaque>));
  EXPECT_FALSE((std::is_constructible_v<Field, std::string_view, int*>));
  EXPECT_FALSE((std::is_constructible_v<Field, std::string_view, std::vector<std::uint8_t>>));
}

}  // namespace
}  // namespace nstance::log

// Our JSON, durations and times against Go's standard library, which wrote the formats that we read
// and hash. Generated texts go to the peer in one batch; each answer must be ours, byte for byte.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/prng.h"
#include "base/time.h"
#include "test/base/random_json.h"
#include "test/support/peers.h"
#include "test/support/process.h"

namespace nstance::test {
namespace {

constexpr int kDepth = 4;

// The peer's answers, one per line asked.
std::vector<std::string> Ask(const std::string& peer, const std::string& mode,
                             const std::vector<std::string>& lines) {
  std::string input;
  for (const std::string& line : lines) input.append(line).append("\n");
  const Result<ProcessOutput> answer = RunProcess({.argv = {peer, mode}, .input = input});
  EXPECT_TRUE(answer) << answer.error().ToString();
  if (!answer) return {};
  EXPECT_EQ(answer->exit_code, 0) << answer->err;
  std::vector<std::string> answers;
  for (std::string_view rest = answer->out; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    answers.emplace_back(line);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  EXPECT_EQ(answers.size(), lines.size());
  if (answers.size() != lines.size()) return {};
  return answers;
}

// Changes, drops, doubles or adds a few bytes.
std::string Mutated(std::string text, std::string_view alphabet, Prng& prng) {
  for (std::uint64_t left = 1 + prng.Below(3); left > 0; --left) {
    const std::size_t at = static_cast<std::size_t>(prng.Below(text.size() + 1));
    const char c = alphabet[static_cast<std::size_t>(prng.Below(alphabet.size()))];
    switch (prng.Below(4)) {
      case 0:
        text.insert(at, 1, c);
        break;
      case 1:
        if (at < text.size()) text[at] = c;
        break;
      case 2:
        if (at < text.size()) text.erase(at, 1 + static_cast<std::size_t>(prng.Below(3)));
        break;
      default:
        text.insert(at, text.substr(at, static_cast<std::size_t>(prng.Below(4))));
        break;
    }
  }
  return text;
}

TEST(JsonGoTest, CanonicalBytesAreThoseOfGo) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_json");
  std::vector<std::string> lines;
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    RandomJson random(seed);
    const json::Value value = random.Value(kDepth);
    lines.push_back(random.Text(random.Shuffled(value), {.one_line = true}));
  }
  const std::vector<std::string> answers = Ask(peer, "json", lines);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Result<json::Value> ours = json::Parse(lines[i]);
    ASSERT_TRUE(ours) << "seed " << i + 1 << ": " << lines[i] << ": " << ours.error().ToString();
    ASSERT_EQ(json::WriteCanonical(*ours), answers[i]) << "seed " << i + 1 << ": " << lines[i];
  }
}

TEST(JsonGoTest, NumbersReadAndWriteAsInGo) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_json");
  RandomJson random(7);
  std::vector<std::string> lines = {"1e-999",
                                    "1e999",
                                    "2e-324",
                                    "3e-324",
                                    "1.7976931348623159e308",
                                    "0e99999999999999999999",
                                    "1e-99999999999999999999",
                                    "1e99999999999999999999"};
  for (int i = 0; i < 10'000; ++i) lines.push_back(random.NumberLiteral());
  for (int i = 0; i < 10'000; ++i) lines.push_back(fmt::format("{:.17g}", random.Double()));
  const std::vector<std::string> answers = Ask(peer, "json", lines);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Result<json::Value> ours = json::Parse(lines[i]);
    ASSERT_EQ(ours ? json::WriteCanonical(*ours) : "error", answers[i])
        << lines[i] << (ours ? "" : ours.error().message);
  }
}

// Go is more lenient in four ways, all on purpose. Where one of them is why we refuse, Go's answer
// says nothing.
bool StricterThanGo(const Error& error) {
  for (const std::string_view clause :
       {"must differ", "surrogate", "must be UTF-8", "byte order mark", "negative zero"}) {
    if (error.message.contains(clause)) return true;
  }
  return false;
}

TEST(JsonGoTest, BrokenTextsAreRefusedWhereGoRefuses) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_json");
  constexpr std::string_view kAlphabet = "{}[]:,\"\\/ \t\r-+.0123456789eEuntrfals\x01\xC3\xA9";
  std::vector<std::string> lines;
  for (std::uint64_t seed = 1; seed <= 5'000; ++seed) {
    RandomJson random(seed);
    const std::string text = random.Text(random.Value(2), {.one_line = true});
    lines.push_back(Mutated(text, kAlphabet, random.prng()));
  }
  const std::vector<std::string> answers = Ask(peer, "json", lines);
  int accepted = 0;
  int refused = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Result<json::Value> ours = json::Parse(lines[i]);
    if (!ours && StricterThanGo(ours.error())) continue;
    ASSERT_EQ(ours ? json::WriteCanonical(*ours) : "error", answers[i])
        << "seed " << i + 1 << ": " << lines[i] << ": " << (ours ? "" : ours.error().message);
    ++(ours ? accepted : refused);
  }
  // Both sides of the border have been walked.
  if (!answers.empty()) {
    EXPECT_GT(accepted, 500);
    EXPECT_GT(refused, 500);
  }
}

std::string RandomDuration(Prng& prng) {
  constexpr std::array<std::string_view, 8> kUnits = {"ns", "us", "\xC2\xB5s", "\xCE\xBCs",
                                                      "ms", "s",  "m",         "h"};
  std::string text = prng.Chance(1, 4) ? "-" : (prng.Chance(1, 8) ? "+" : "");
  for (std::uint64_t left = 1 + prng.Below(4); left > 0; --left) {
    if (!prng.Chance(1, 10)) text += fmt::format("{}", prng.Next() >> (prng.Below(62) + 1));
    if (prng.Chance(1, 3)) {
      text += ".";
      if (!prng.Chance(1, 10)) text += fmt::format("{}", prng.Next() >> (prng.Below(62) + 1));
    }
    text += kUnits.at(static_cast<std::size_t>(prng.Below(kUnits.size())));
  }
  return text;
}

TEST(DurationGoTest, TextsMeanTheSame) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_json");
  Prng prng(11);
  std::vector<std::string> lines = {"0",
                                    "+0",
                                    "-0",
                                    "",
                                    "-",
                                    "+",
                                    ".",
                                    "s",
                                    ".s",
                                    "1.s",
                                    ".5s",
                                    "1",
                                    "1..2s",
                                    "00s",
                                    "9223372036854775807ns",
                                    "9223372036854775808ns",
                                    "-9223372036854775808ns",
                                    "-9223372036854775809ns",
                                    "9223372036.854775807s",
                                    "9223372036.854775808s",
                                    "-9223372036.854775808s",
                                    "2562047h47m16.854775807s",
                                    "2562047h47m16.854775808s",
                                    "0.9223372036854775807h",
                                    "0.100000000000000000000h",
                                    "0.3333333333333333333h",
                                    "9007199254740993ns",
                                    "0.830103483285477580700h",
                                    "39h9m14.425s",
                                    "3000000h"};
  for (int i = 0; i < 5'000; ++i) lines.push_back(RandomDuration(prng));
  for (int i = 0; i < 5'000; ++i) {
    lines.push_back(Mutated(FormatDuration(Duration::Nanoseconds(
                                static_cast<std::int64_t>(prng.Next() >> prng.Below(64)))),
                            "0123456789.-+ numshx\xC2\xB5", prng));
  }
  const std::vector<std::string> answers = Ask(peer, "duration", lines);
  int accepted = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Result<Duration> ours = ParseDuration(lines[i]);
    accepted += ours ? 1 : 0;
    ASSERT_EQ(ours ? fmt::format("{} {}", ours->nanoseconds(), FormatDuration(*ours)) : "error",
              answers[i])
        << lines[i];
  }
  if (!answers.empty()) {
    EXPECT_GT(accepted, 1'000);
  }
}

// Where Go's sum of two terms wraps around to zero, we refuse.
TEST(DurationGoTest, TheSumThatWrapsAroundIsRefused) {
  EXPECT_FALSE(ParseDuration("9223372036854775808ns9223372036854775808ns"));
  EXPECT_FALSE(ParseDuration("-9223372036854775808ns9223372036854775808ns"));
}

constexpr std::int64_t kFirstSecond = -62'167'219'200;  // 0000-01-01T00:00:00Z
constexpr std::int64_t kLastSecond = 253'402'300'799;   // 9999-12-31T23:59:59Z

Timestamp RandomTimestamp(Prng& prng) {
  static constexpr std::array<std::int32_t, 6> kSteps = {1,      10,        1'000,
                                                         50'000, 1'000'000, 100'000'000};
  const std::int32_t step = kSteps.at(static_cast<std::size_t>(prng.Below(kSteps.size())));
  const auto nanoseconds = static_cast<std::int32_t>(prng.Below(1'000'000'000));
  return Timestamp::FromUnix(prng.Between(kFirstSecond, kLastSecond),
                             prng.Chance(1, 4) ? 0 : nanoseconds / step * step);
}

TEST(TimeGoTest, TimesAreWrittenAlike) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_json");
  Prng prng(13);
  std::vector<Timestamp> times = {Timestamp(),
                                  Timestamp::GoZero(),
                                  Timestamp::FromUnix(kFirstSecond),
                                  Timestamp::FromUnix(kLastSecond, 999'999'999),
                                  Timestamp::FromUnix(951'782'400),
                                  Timestamp::FromUnix(-1, 1)};
  for (int i = 0; i < 5'000; ++i) times.push_back(RandomTimestamp(prng));
  std::vector<std::string> lines;
  for (const Timestamp& at : times) {
    lines.push_back(fmt::format("format {} {}", at.unix_seconds(), at.nanoseconds()));
  }
  const std::vector<std::string> answers = Ask(peer, "time", lines);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_EQ(FormatTimestamp(times[i]), answers[i]) << lines[i];
  }
}

// RFC 3339 text of the moment, seen from another offset.
std::string WithOffset(Timestamp at, Prng& prng) {
  const std::int64_t minutes = prng.Between(-1'439, 1'439);
  std::string text = FormatTimestamp(at + Duration::Minutes(minutes));
  text.pop_back();
  const std::int64_t size = minutes < 0 ? -minutes : minutes;
  return text + fmt::format("{}{:02}:{:02}", minutes < 0 ? '-' : '+', size / 60, size % 60);
}

// What only one side takes, on purpose. We also read the lower-case letters that RFC 3339 allows.
// Go also reads what it does not allow (a comma before the fraction, an hour of one digit, offsets
// of 24:00 and minute 60), years out of our range and more digits than a nanosecond has.
bool OutsideOfTheCommonGround(std::string_view text, std::string_view answer) {
  if (text.contains('t') || text.contains('z') || text.contains(',')) return true;
  if (text.size() > 12 && text[12] == ':') return true;
  if (text.contains("+24:") || text.contains("-24:") || text.ends_with(":60")) return true;
  const std::size_t point = text.find('.');
  if (point != std::string_view::npos) {
    const std::size_t end = text.find_first_not_of("0123456789", point + 1);
    if (std::min(end, text.size()) - point - 1 > 9) return true;
  }
  const std::int64_t seconds = answer == "error" ? 0 : std::stoll(std::string(answer));
  return seconds < kFirstSecond || seconds > kLastSecond;
}

TEST(TimeGoTest, TimesAreReadAlike) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_json");
  Prng prng(17);
  std::vector<std::string> texts = {"",
                                    "2024-02-29T00:00:00Z",
                                    "2023-02-29T00:00:00Z",
                                    "1900-02-29T00:00:00Z",
                                    "2000-02-29T00:00:00Z",
                                    "2024-01-01T24:00:00Z",
                                    "2024-01-01T23:59:60Z",
                                    "2024-01-01T00:00:00",
                                    "2024-01-01T00:00:00.Z",
                                    "2024-01-01T00:00:00,5Z",
                                    "2024-01-01 00:00:00Z",
                                    "2024-01-01T0:00:00Z",
                                    "2024-01-01T00:00:00+24:00",
                                    "2024-01-01T00:00:00+23:59",
                                    "2024-01-01T00:00:00+00:60",
                                    "2024-01-01T00:00:00-00:00",
                                    "2024-01-01T00:00:00+0000",
                                    "2024-13-01T00:00:00Z",
                                    "2024-00-01T00:00:00Z",
                                    "2024-01-00T00:00:00Z",
                                    "2024-04-31T00:00:00Z",
                                    "10000-01-01T00:00:00Z"};
  for (int i = 0; i < 3'000; ++i) texts.push_back(FormatTimestamp(RandomTimestamp(prng)));
  for (int i = 0; i < 3'000; ++i) texts.push_back(WithOffset(RandomTimestamp(prng), prng));
  for (int i = 0; i < 5'000; ++i) {
    texts.push_back(Mutated(WithOffset(RandomTimestamp(prng), prng), "0123456789-+:.,TZ ", prng));
  }
  std::vector<std::string> lines;
  for (const std::string& text : texts) lines.push_back("parse " + text);
  const std::vector<std::string> answers = Ask(peer, "time", lines);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (OutsideOfTheCommonGround(texts[i], answers[i])) continue;
    const Result<Timestamp> ours = ParseTimestamp(texts[i]);
    ASSERT_EQ(ours ? fmt::format("{} {}", ours->unix_seconds(), ours->nanoseconds()) : "error",
              answers[i])
        << texts[i];
  }
}

}  // namespace
}  // namespace nstance::test

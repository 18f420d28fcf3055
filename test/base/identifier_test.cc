// Names and puidv7: the rules and vectors of the format page, then properties over seeds.
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "base/name.h"
#include "base/prng.h"
#include "base/puidv7.h"
#include "base/text.h"

namespace nstance {
namespace {

TEST(NameTest, AcceptsLowerCaseDigitsAndSingleInnerHyphens) {
  for (const std::string_view text :
       {"a", "0", "default", "dc1-zone-a", "a-b-c", "12345678901234567890123456789012"}) {
    EXPECT_TRUE(TenantId::Parse(text).has_value()) << text;
  }
}

TEST(NameTest, RefusesEverythingElseAndSaysWhy) {
  for (const std::string& text :
       {std::string(), std::string("-a"), std::string("a-"), std::string("a--b"), std::string("A"),
        std::string("a.b"), std::string("a/b"), std::string("a_b"), std::string("\xF0\x9F\x98\x80"),
        std::string("a\0b", 3), std::string("a\n"), std::string(33, 'a'), std::string("..")}) {
    const Result<GroupKey> parsed = GroupKey::Parse(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(GroupKey::Parse("a--b").error().message,
            "\"a--b\" is not a group name: a hyphen must stand between letters or digits; 1 to 32 "
            "lower-case letters and digits, with single hyphens between them");
  EXPECT_NE(TenantId::Parse(std::string(33, 'x')).error().message.find("it has 33 characters"),
            std::string::npos);
}

TEST(NameTest, KindsDoNotMix) {
  EXPECT_FALSE((std::is_convertible_v<TenantId, GroupKey>));
  EXPECT_FALSE((std::is_constructible_v<TenantId, std::string>));
  EXPECT_EQ(DefaultTenant().text(), "default");
}

struct PuidRow {
  std::string uuid;
  std::string prefix;
  std::string id;
};

UuidBytes UuidFromText(std::string text) {
  std::erase(text, '-');
  const Bytes bytes = *HexDecode(text);
  UuidBytes uuid{};
  std::copy(bytes.begin(), bytes.end(), uuid.begin());
  return uuid;
}

class Puidv7VectorTest : public testing::TestWithParam<PuidRow> {};

TEST_P(Puidv7VectorTest, EncodesAndDecodes) {
  const PuidRow& row = GetParam();
  const Puidv7 id(row.prefix, UuidFromText(row.uuid));
  EXPECT_EQ(id.text(), row.id);
  EXPECT_EQ(id.UuidText(), row.uuid);
  EXPECT_EQ(id.StorageKey(), row.uuid + "-" + row.prefix);
  EXPECT_EQ(ParsePuidv7(row.id, row.prefix), id);
  EXPECT_EQ(ReadPuidv7(row.id), id);
}

INSTANTIATE_TEST_SUITE_P(
    FormatPage, Puidv7VectorTest,
    testing::Values(
        PuidRow{"01970a1c-e31e-7422-9cd5-e9651d11cc97", "knc", "knc06bgm7733st2576nx5jht4ecjw"},
        PuidRow{"0195c62c-8f2c-7f47-bbc7-bf347ca146b9", "abc", "abc06awcb4f5hzmfey7qwt7s8a6q4"},
        PuidRow{"00000000-0000-7000-8000-000000000000", "knc", "knc0000000001r010000000000000"},
        PuidRow{"ffffffff-ffff-7fff-bfff-ffffffffffff", "tst", "tstzzzzzzzzzxzzzfzzzzzzzzzzzw"}));

TEST(Puidv7Test, StrictReaderTakesOnlyOurSpelling) {
  const std::string id = "knc06bgm7733st2576nx5jht4ecjw";
  EXPECT_TRUE(ParsePuidv7(id).has_value());
  EXPECT_FALSE(ParsePuidv7(id, "abc").has_value()) << "wrong prefix";
  EXPECT_FALSE(ParsePuidv7("KNC06BGM7733ST2576NX5JHT4ECJW").has_value()) << "upper case";
  EXPECT_FALSE(ParsePuidv7("knc-06bgm7733st2576nx5jht4ecjw").has_value()) << "hyphen";
  EXPECT_FALSE(ParsePuidv7(id.substr(0, 28)).has_value()) << "short";
  EXPECT_FALSE(ParsePuidv7(id + "0").has_value()) << "long";
  EXPECT_FALSE(ParsePuidv7("kn106bgm7733st2576nx5jht4ecjw").has_value()) << "digit in prefix";
  for (const char c : {'i', 'l', 'o', 'u', '!', '\0'}) {
    std::string changed = id;
    changed[10] = c;
    EXPECT_FALSE(ParsePuidv7(changed).has_value()) << c;
    EXPECT_FALSE(ReadPuidv7(changed).has_value()) << c;
  }
  for (const char c : {'x', 'y', 'z'}) {
    std::string changed = id;
    changed.back() = c;
    EXPECT_FALSE(ParsePuidv7(changed).has_value()) << "trailing bits " << c;
    EXPECT_TRUE(ReadPuidv7(changed).has_value()) << "trailing bits " << c;
  }
}

TEST(Puidv7Test, StrictReaderWantsVersionSevenAndTheRfcVariant) {
  UuidBytes uuid = UuidFromText("01970a1c-e31e-7422-9cd5-e9651d11cc97");
  uuid[6] = 0x44;
  EXPECT_FALSE(ParsePuidv7(Puidv7("knc", uuid).text()).has_value());
  EXPECT_TRUE(ReadPuidv7(Puidv7("knc", uuid).text()).has_value());
  uuid[6] = 0x74;
  uuid[8] = 0x1C;
  EXPECT_FALSE(ParsePuidv7(Puidv7("knc", uuid).text()).has_value());
}

TEST(Puidv7Test, TolerantReaderDropsSpacesHyphensAndCase) {
  EXPECT_EQ(ReadPuidv7("KNC-06bgm773 3st2576nx5-JHT4ECJW")->text(),
            "knc06bgm7733st2576nx5jht4ecjw");
  EXPECT_FALSE(ReadPuidv7(std::string(1 << 20, 'a')).has_value());
  EXPECT_FALSE(ReadPuidv7("").has_value());
}

TEST(Puidv7Test, ErrorsQuoteTheIdAndSayWhatIsWrong) {
  EXPECT_EQ(ParsePuidv7("knc1").error().message,
            "\"knc1\" is not an id: it has 4 characters instead of 29");
}

TEST(Puidv7GeneratorTest, IdsRiseWhateverTheClockDoes) {
  Prng prng(3);
  Puidv7Generator generator;
  Timestamp now = *ParseTimestamp("2026-01-01T00:00:00Z");
  std::string last;
  for (int i = 0; i < 10'000; ++i) {
    now = now + Duration::Milliseconds(prng.Between(-5, 6));
    Puidv7Generator::Entropy entropy;
    for (std::uint8_t& byte : entropy) byte = static_cast<std::uint8_t>(prng.Next());
    if (prng.Chance(1, 10)) entropy.fill(0xFF);  // The random part is about to overflow.
    const Puidv7 id = generator.Next("knc", now, entropy);
    ASSERT_GT(id.text(), last);
    ASSERT_EQ(ParsePuidv7(id.text(), "knc"), id) << "version and variant are kept";
    last = id.text();
  }
}

TEST(Puidv7GeneratorTest, CarriesTheMillisecondOfItsCreation) {
  Puidv7Generator generator;
  const Timestamp now = *ParseTimestamp("2026-05-05T05:05:05.123456Z");
  EXPECT_EQ(generator.Next("knc", now, {}).created_at(),
            *ParseTimestamp("2026-05-05T05:05:05.123Z"));
}

TEST(Puidv7Test, RandomTextIsRefusedOrReadsBack) {
  Prng prng(4);
  constexpr std::string_view kCharacters = "0123456789abcdefghijklmnopqrstuvwxyz-";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    const auto length = prng.Between(27, 31);
    for (int j = 0; j < length; ++j) text += kCharacters[prng.Below(kCharacters.size())];
    if (const auto id = ReadPuidv7(text)) {
      EXPECT_EQ(ReadPuidv7(id->text()), *id);
    }
    if (const auto id = ParsePuidv7(text)) {
      EXPECT_EQ(id->text(), text);
    }
  }
}

}  // namespace
}  // namespace nstance

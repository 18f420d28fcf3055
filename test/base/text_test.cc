// UTF-8, quoting, hex and base64: known answers, strictness, and round trips over seeds.
#include "base/text.h"

#include <string>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance {
namespace {

Bytes RandomBytes(Prng& prng, std::size_t limit) {
  Bytes bytes(prng.Below(limit + 1));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(prng.Next());
  return bytes;
}

TEST(Utf8Test, AcceptsEveryCodePointButSurrogates) {
  for (std::uint32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(text, c);
    ASSERT_EQ(Utf8SequenceLength(text), text.size()) << c;
  }
}

TEST(Utf8Test, RefusesMalformedSequences) {
  for (const std::string& text :
       {std::string("\x80"), std::string("\xC0\x80"), std::string("\xC1\xBF"),
        std::string("\xE0\x9F\xBF"), std::string("\xED\xA0\x80"), std::string("\xF0\x8F\xBF\xBF"),
        std::string("\xF4\x90\x80\x80"), std::string("\xF5\x80\x80\x80"), std::string("\xE2\x82"),
        std::string("\xFF"), std::string("a\xC3")}) {
    EXPECT_FALSE(IsValidUtf8(text)) << Quote(text);
  }
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80"));
}

TEST(QuoteTest, MakesControlAndDirectionCharactersVisible) {
  EXPECT_EQ(Quote("plain"), "\"plain\"");
  EXPECT_EQ(Quote("a\"b\\c\n\t\r"), R"("a\"b\\c\n\t\r")");
  EXPECT_EQ(Quote("\x1b[31m\x7f"), "\"\\x1b[31m\\x7f\"");
  EXPECT_EQ(Quote("\xE2\x80\xAE evil"), "\"\\u202e evil\"");
  EXPECT_EQ(Quote("\xC2\x9B"), "\"\\u009b\"") << "a C1 control is an escape on some terminals";
  EXPECT_EQ(Quote("\xFF\xC3"), "\"\\xff\\xc3\"");
  EXPECT_EQ(Quote(std::string_view("a\0b", 3)), "\"a\\x00b\"");
}

TEST(QuoteTest, CutsLongText) {
  EXPECT_EQ(Quote(std::string(60, 'x')), "\"" + std::string(60, 'x') + "\"");
  EXPECT_EQ(Quote(std::string(61, 'x')), "\"" + std::string(60, 'x') + "\"...");
}

TEST(HexTest, KnownAnswersAndStrictness) {
  EXPECT_EQ(HexEncode({}), "");
  EXPECT_EQ(HexEncode(AsBytes(std::string_view("\x00\xff\x10", 3))), "00ff10");
  EXPECT_EQ(HexDecode("00fF10"), (Bytes{0x00, 0xFF, 0x10}));
  EXPECT_FALSE(HexDecode("0").has_value());
  EXPECT_FALSE(HexDecode("0g").has_value());
  EXPECT_FALSE(HexDecode(" 0").has_value());
}

TEST(Base64Test, KnownAnswers) {
  // RFC 4648 section 10.
  EXPECT_EQ(Base64Encode(AsBytes("")), "");
  EXPECT_EQ(Base64Encode(AsBytes("f")), "Zg==");
  EXPECT_EQ(Base64Encode(AsBytes("fo")), "Zm8=");
  EXPECT_EQ(Base64Encode(AsBytes("foobar")), "Zm9vYmFy");
  EXPECT_EQ(Base64UrlEncode(AsBytes("\xfb\xff")), "-_8");
  EXPECT_EQ(Base64Decode("Zm8="), (Bytes{'f', 'o'}));
}

TEST(Base64Test, RefusesEveryOtherSpelling) {
  for (const std::string_view text :
       {"Zg", "Zg=", "Zg===", "Z===", "====", "Zm9v\n", "Zm9-", "Zh==", "Zm9=", "=m9v", "Zm=v"}) {
    EXPECT_FALSE(Base64Decode(text).has_value()) << text;
  }
  for (const std::string_view text : {"Zg==", "Z", "Zm9/", "Zm9+", "Zh", "Zm9", "Zm 9", "Zg="}) {
    EXPECT_FALSE(Base64UrlDecode(text).has_value()) << text;
  }
}

TEST(Base64Test, BytesReadBackAndTextIsUnique) {
  Prng prng(10);
  for (int i = 0; i < 5'000; ++i) {
    const Bytes bytes = RandomBytes(prng, 40);
    EXPECT_EQ(HexDecode(HexEncode(bytes)), bytes);
    EXPECT_EQ(Base64Decode(Base64Encode(bytes)), bytes);
    EXPECT_EQ(Base64UrlDecode(Base64UrlEncode(bytes)), bytes);
    const Bytes noise = RandomBytes(prng, 12);
    const std::string text(AsText(noise));
    if (const auto decoded = Base64UrlDecode(text)) {
      EXPECT_EQ(Base64UrlEncode(*decoded), text);
    }
    if (const auto decoded = Base64Decode(text)) {
      EXPECT_EQ(Base64Encode(*decoded), text);
    }
  }
}

}  // namespace
}  // namespace nstance

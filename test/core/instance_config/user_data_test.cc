// Decoding of user data: what each encoding gives, what it refuses, and what hostile bytes cost.
#include "core/instance_config/user_data.h"

#include <zlib.h>

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/metrics.h"
#include "base/prng.h"
#include "base/text.h"
#include "crypto/digest.h"

namespace nstance {
namespace {

using config::UserDataEncoding;

constexpr auto kPlain = UserDataEncoding::kPlain;
constexpr auto kBase64 = UserDataEncoding::kBase64;
constexpr auto kGzip = UserDataEncoding::kGzip;
constexpr auto kBase64Gzip = UserDataEncoding::kBase64Gzip;

std::string Gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Base64(const std::string& text) { return Base64Encode(AsBytes(text)); }

TEST(UserDataTest, EachEncodingGivesTheText) {
  const std::string text = "#!/bin/sh\necho {{ .Instance.ID }} \xC3\xA4\n";
  EXPECT_EQ(DecodeUserData(kPlain, text), text);
  EXPECT_EQ(DecodeUserData(kBase64, Base64(text)), text);
  EXPECT_EQ(DecodeUserData(kGzip, Gzip(text)), text);
  EXPECT_EQ(DecodeUserData(kBase64Gzip, Base64(Gzip(text))), text);
  EXPECT_EQ(DecodeUserData(kPlain, ""), "");
  EXPECT_EQ(DecodeUserData(kBase64, ""), "");
  EXPECT_EQ(DecodeUserData(kGzip, Gzip("")), "");
}

TEST(UserDataTest, WhiteSpaceInBase64IsIgnored) {
  EXPECT_EQ(DecodeUserData(kBase64, " aGVs\r\nbG8s\tIH\n\ndvcmxk \n"), "hello, world");
}

TEST(UserDataTest, GzipOfSeveralMembersIsOneText) {
  EXPECT_EQ(DecodeUserData(kGzip, Gzip("one ") + Gzip("") + Gzip("two")), "one two");
}

TEST(UserDataTest, WhatIsNotThatEncodingIsRefused) {
  const std::string gzip = Gzip("some text that is long enough to be cut somewhere");
  std::string flipped = gzip;
  flipped[flipped.size() - 6] = static_cast<char>(flipped[flipped.size() - 6] ^ 1);  // Of the CRC.
  struct Row {
    const char* name;
    UserDataEncoding encoding;
    std::string bytes;
  };
  for (const Row& row :
       std::vector<Row>{{"no padding", kBase64, "aGVsbG8"},
                        {"URL alphabet", kBase64, "-_-_"},
                        {"not base64", kBase64, "hello!!!"},
                        {"text after the padding", kBase64, "aGVsbG8=aGVsbG8="},
                        {"no gzip at all", kGzip, ""},
                        {"plain text", kGzip, "#!/bin/sh"},
                        {"zlib without gzip", kGzip, "\x78\x9c\x03\x00\x00\x00\x00\x01"},
                        {"half of it", kGzip, gzip.substr(0, gzip.size() / 2)},
                        {"without the last byte", kGzip, gzip.substr(0, gzip.size() - 1)},
                        {"only the header", kGzip, gzip.substr(0, 10)},
                        {"wrong checksum", kGzip, flipped},
                        {"something after it", kGzip, gzip + "x"},
                        {"half a second member", kGzip, gzip + gzip.substr(0, 12)},
                        {"base64 of no gzip", kBase64Gzip, Base64("hello")},
                        {"gzip without base64", kBase64Gzip, gzip}}) {
    SCOPED_TRACE(row.name);
    metrics::Registry registry;
    InputProbe probe(registry);
    const Result<std::string> text =
        DecodeUserData(row.encoding, row.bytes, {.interface = "userdata", .probe = &probe});
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, Code::kInvalidArgument) << text.error().ToString();
  }
}

TEST(UserDataTest, OneMebibyteIsTheLimitAfterInflation) {
  const std::string most(kMaxUserDataBytes, 'x');
  EXPECT_EQ(DecodeUserData(kGzip, Gzip(most))->size(), kMaxUserDataBytes);
  EXPECT_EQ(DecodeUserData(kPlain, most)->size(), kMaxUserDataBytes);
  EXPECT_EQ(DecodeUserData(kBase64, Base64(most))->size(), kMaxUserDataBytes);
  const std::string more = most + "x";
  for (const auto& [encoding, bytes] :
       {std::pair{kGzip, Gzip(more)}, std::pair{kGzip, Gzip(most) + Gzip("x")},
        std::pair{kPlain, more}, std::pair{kBase64, Base64(more)},
        std::pair{kBase64Gzip, Base64(Gzip(more))}}) {
    const Result<std::string> text = DecodeUserData(encoding, bytes);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, Code::kResourceExhausted) << text.error().ToString();
  }
}

TEST(UserDataTest, ABombIsRefusedAtTheLimit) {
  const std::string bomb = Gzip(std::string(std::size_t{64} * 1024 * 1024, '\0'));
  EXPECT_LT(bomb.size(), 100'000U);
  EXPECT_EQ(DecodeUserData(kGzip, bomb).error().code, Code::kResourceExhausted);
}

TEST(UserDataTest, RoundTripsAndDamageOverSeeds) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Prng prng(seed);
    std::string text;
    for (std::uint64_t left = prng.Below(3'000); left > 0; --left) {
      text += static_cast<char>(prng.Below(prng.Chance(1, 2) ? 4 : 256));
    }
    ASSERT_EQ(DecodeUserData(kGzip, Gzip(text)), text);
    ASSERT_EQ(DecodeUserData(kBase64Gzip, Base64(Gzip(text))), text);
    std::string damaged = Gzip(text);
    const auto at = static_cast<std::size_t>(prng.Below(damaged.size()));
    damaged[at] = static_cast<char>(static_cast<unsigned>(damaged[at]) ^ (1U << prng.Below(8)));
    // Flags, time and system of the header are not covered by the checksum.
    const Result<std::string> read = DecodeUserData(kGzip, damaged);
    if (read) {
      ASSERT_EQ(*read, text) << "seed " << seed;
    }
  }
}

TEST(UserDataTest, TheDigestIsCompared) {
  const std::string digest = crypto::Sha256Hex(AsBytes("hello"));
  std::string upper = digest;
  for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'f' ? c - 'a' + 'A' : c);
  EXPECT_TRUE(CheckUserDataDigest("", "anything"));
  EXPECT_TRUE(CheckUserDataDigest(digest, "hello"));
  EXPECT_TRUE(CheckUserDataDigest(upper, "hello"));
  EXPECT_EQ(CheckUserDataDigest(digest, "hello!").error().code, Code::kFailedPrecondition);
  EXPECT_FALSE(CheckUserDataDigest(digest.substr(0, 63), "hello"));
}

}  // namespace
}  // namespace nstance

// Digests and record checksums, against published vectors and by changing one byte at a time.
#include "crypto/digest.h"

#include <string>

#include <gtest/gtest.h>

#include "base/text.h"
#include "crypto/checksum.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::crypto {
namespace {

TEST(Digest, MatchesThePublishedVectors) {
  EXPECT_EQ(Sha256Hex(AsBytes("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexEncode(Sha256(AsBytes("abc"))), Sha256Hex(AsBytes("abc")));
}

TEST(Digest, ConstantTimeEqualComparesLengthAndBytes) {
  EXPECT_TRUE(ConstantTimeEqual({}, {}));
  EXPECT_TRUE(ConstantTimeEqual(AsBytes("abc"), AsBytes("abc")));
  EXPECT_FALSE(ConstantTimeEqual(AsBytes("abc"), AsBytes("abd")));
  EXPECT_FALSE(ConstantTimeEqual(AsBytes("abc"), AsBytes("bbc")));
  EXPECT_FALSE(ConstantTimeEqual(AsBytes("abc"), AsBytes("ab")));
}

// formats.md section 1.
constexpr std::string_view kRecord =
    R"({"version":1,"cluster_id":"example-cluster","shard":"dc1-zone-a","epoch":1,"seq":1,)"
    R"("write_id":"AAECAwQFBgcICQoLDA0ODw","holder":"s1/0001","updated_at":"2026-01-01T00:00:00Z",)"
    R"("intents":[]})";
constexpr std::string_view kRecordHash =
    "sha256:103cc4997b1a0dff263555a89293773bb904d553430310eef5411367d707bf6f";

TEST(Checksum, MatchesTheVector) {
  const std::string sealed = AppendChecksum(kRecord);
  EXPECT_TRUE(sealed.ends_with(",\"checksum\":\"" + std::string(kRecordHash) + "\"}"));
  EXPECT_EQ(sealed.substr(0, kRecord.size() - 1), kRecord.substr(0, kRecord.size() - 1));
  EXPECT_EQ(CheckChecksum(sealed), ChecksumState::kRight);
}

TEST(Checksum, MissingIsAbsent) {
  EXPECT_EQ(CheckChecksum(kRecord), ChecksumState::kAbsent);
  EXPECT_EQ(CheckChecksum(R"({"a":{"b":1,"checksum":"x"}})"), ChecksumState::kAbsent);
  EXPECT_EQ(CheckChecksum(R"({"a":[{"checksum":"x"}]})"), ChecksumState::kAbsent);
  EXPECT_EQ(CheckChecksum(R"({"a":"checksum"})"), ChecksumState::kAbsent);
  EXPECT_EQ(CheckChecksum(R"({"a":",\"checksum\":\"x\""})"), ChecksumState::kAbsent);
  EXPECT_EQ(CheckChecksum(""), ChecksumState::kAbsent);
  EXPECT_EQ(CheckChecksum("null"), ChecksumState::kAbsent);
}

TEST(Checksum, AnotherFormOrPlaceIsWrong) {
  EXPECT_EQ(CheckChecksum(R"({"a":1,"checksum":"sha256:00"})"), ChecksumState::kWrong);
  EXPECT_EQ(CheckChecksum(R"({"a":1,"checksum":null})"), ChecksumState::kWrong);
  EXPECT_EQ(CheckChecksum(R"({"checksum":"sha256:00","a":1})"), ChecksumState::kWrong);
  EXPECT_EQ(CheckChecksum(R"({"a":1, "checksum" : "sha256:00"})"), ChecksumState::kWrong);
  const std::string sealed = AppendChecksum(kRecord);
  EXPECT_EQ(CheckChecksum(sealed + "\n"), ChecksumState::kWrong);
  EXPECT_EQ(CheckChecksum(sealed.substr(0, sealed.size() - 1)), ChecksumState::kWrong);
  std::string upper = sealed;
  upper[upper.size() - 5] = 'B';
  EXPECT_EQ(CheckChecksum(upper), ChecksumState::kWrong);
}

TEST(Checksum, EveryChangedByteIsNoticed) {
  const std::string sealed = AppendChecksum(kRecord);
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_NE(CheckChecksum(changed), ChecksumState::kRight) << i;
  }
}

TEST(Checksum, RandomTextNeverCountsAsRight) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Prng prng(seed);
    std::string text;
    constexpr std::string_view kPieces[] = {"{",  "}", "[", "]", ",", ":", "\"checksum\"",
                                            "\"", "\\"};
    for (std::uint64_t n = prng.Below(30); n > 0; --n) text += kPieces[prng.Below(9)];
    EXPECT_NE(CheckChecksum(text), ChecksumState::kRight) << "seed " << seed << ": " << text;
  }
}

TEST(WriteId, IsBase64UrlOf16Bytes) {
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes.at(i) = static_cast<std::uint8_t>(i);
  EXPECT_EQ(WriteIdText(bytes), "AAECAwQFBgcICQoLDA0ODw");
}

}  // namespace
}  // namespace nstance::crypto

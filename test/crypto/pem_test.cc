// PEM: the strict reader by rows of what it must refuse, the tolerant one by what people keep in
// files.
#include "crypto/pem.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/crypto/crypto_fixture.h"

namespace nstance::crypto {
namespace {

using test::CountingSource;
using test::KeyOf;

Result<Bytes> Strict(std::string_view text) { return ReadPem(text, kPublicKeyPem); }

TEST(Pem, WritesLinesOf64Characters) {
  const Bytes bytes(100, 0xFF);
  EXPECT_EQ(WritePem(kCertificatePem, bytes),
            "-----BEGIN CERTIFICATE-----\n"
            "////////////////////////////////////////////////////////////////\n"
            "////////////////////////////////////////////////////////////////\n"
            "/////w==\n"
            "-----END CERTIFICATE-----\n");
}

TEST(Pem, ReadsBackWhatItWrites) {
  for (std::size_t size = 1; size < 200; ++size) {
    Prng prng(size);
    const Bytes bytes = test::RandomBytes(prng, size);
    std::string text = WritePem(kPublicKeyPem, bytes);
    EXPECT_EQ(Strict(text).value_or(Bytes{}), bytes) << size;
    text.pop_back();
    EXPECT_EQ(Strict(text).value_or(Bytes{}), bytes) << size << " without the last newline";
  }
}

TEST(Pem, BI30_OnlyOneBareBlockIsAccepted) {
  const std::string good = KeyOf(1).public_key().ToPem();
  const std::string body = good.substr(27, good.size() - 27 - 25);
  std::string crlf;
  for (const char c : good) {
    if (c == '\n') crlf += '\r';
    crlf += c;
  }
  const std::vector<std::string> bad = {
      "",
      "\n",
      good + good,
      "text\n" + good,
      good + "text",
      " " + good,
      good + "\n",
      "\n" + good,
      crlf,
      std::string(3'072, '\n') + good,
      good + std::string(3'072, '\n'),
      WritePem(kCertificatePem, Bytes(44)),
      WritePem({.label = "RSA PUBLIC KEY"}, Bytes(44)),
      WritePem(kPublicKeyPem, Bytes(4'096)),
      WritePem(kPublicKeyPem, Bytes{}),
      "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
      "-----BEGIN PUBLIC KEY-----\n\n-----END PUBLIC KEY-----\n",
      "-----BEGIN PUBLIC KEY-----" + body + "-----END PUBLIC KEY-----\n",
      "-----BEGIN PUBLIC KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + body +
          "-----END PUBLIC KEY-----\n",
      good.substr(0, good.size() - 5),
      good.substr(0, 40),
      "-----BEGIN PUBLIC KEY-----",
      "-----BEGIN ",
  };
  ASSERT_TRUE(Strict(good).has_value());
  for (const std::string& text : bad) {
    CountingSource counting;
    const Result<Bytes> read = ReadPem(text, kPublicKeyPem, counting.source());
    ASSERT_FALSE(read.has_value()) << Quote(text);
    EXPECT_EQ(read.error().code, Code::kInvalidArgument) << Quote(text);
    EXPECT_EQ(counting.Bad(), 1U) << Quote(text);
  }
}

TEST(Pem, OneValueHasOneText) {
  const std::string good = KeyOf(1).public_key().ToPem();
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char c : {'A', '=', '\n', ' ', '-'}) {
      std::string changed = good;
      changed[i] = c;
      const Result<Bytes> read = Strict(changed);
      if (read.has_value()) {
        EXPECT_EQ(WritePem(kPublicKeyPem, *read),
                  changed.back() == '\n' ? changed : changed + "\n");
      }
    }
  }
}

TEST(Pem, RandomTextIsRefusedOrReadsBack) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Prng prng(seed);
    std::string text = "-----BEGIN PUBLIC KEY-----\n";
    for (std::uint64_t n = prng.Below(100); n > 0; --n) text += static_cast<char>(prng.Below(128));
    if (prng.Chance(1, 2)) text += "\n-----END PUBLIC KEY-----\n";
    (void)Strict(text);
    (void)ReadPemBundle(text, 4);
  }
}

TEST(PemBundle, IsTolerantToTextAndLineEnds) {
  const Bytes first(80, 1);
  const Bytes second(70, 2);
  std::string crlf;
  for (const char c : WritePem(kCertificatePem, second)) {
    if (c == '\n') crlf += '\r';
    crlf += c;
  }
  const std::string text =
      "subject=CN = Nstance CA\n" + WritePem(kCertificatePem, first) + "\n# old\r\n\r\n" + crlf;
  const auto blocks = ReadPemBundle(text, 2);
  ASSERT_TRUE(blocks.has_value()) << blocks.error().ToString();
  EXPECT_EQ(*blocks, (std::vector<Bytes>{first, second}));
}

TEST(PemBundle, RefusesWhatIsNoBundle) {
  const std::string one = WritePem(kCertificatePem, Bytes(50, 1));
  const auto code = [](const std::string& text) {
    CountingSource counting;
    const auto blocks = ReadPemBundle(text, 2, counting.source());
    EXPECT_EQ(counting.Bad(), blocks.has_value() ? 0U : 1U);
    return blocks.has_value() ? Code::kUnknown : blocks.error().code;
  };
  EXPECT_EQ(code(one + one), Code::kUnknown);
  EXPECT_EQ(code(""), Code::kInvalidArgument);
  EXPECT_EQ(code("no blocks"), Code::kInvalidArgument);
  EXPECT_EQ(code(one + WritePem(kPrivateKeyPem, Bytes(50, 1))), Code::kInvalidArgument);
  EXPECT_EQ(code(one + one.substr(0, one.size() - 10)), Code::kInvalidArgument);
  EXPECT_EQ(code("-----BEGIN CERTIFICATE-----\n%%%%\n-----END CERTIFICATE-----\n"),
            Code::kInvalidArgument);
  EXPECT_EQ(code(one + one + one), Code::kResourceExhausted);
  EXPECT_EQ(code(one + std::string(kMaxPemBundleBytes, ' ')), Code::kResourceExhausted);
}

}  // namespace
}  // namespace nstance::crypto

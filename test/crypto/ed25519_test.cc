// Ed25519: RFC 8032 vectors, then rows of keys and signatures that other libraries let through.
// That the refused points are dangerous is shown by forging signatures with OpenSSL's own
// verification.
#include "crypto/ed25519.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "crypto/pem.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::crypto {
namespace {

using test::CountingSource;
using test::Hex;
using test::KeyOf;
using test::Must;
using test::RfcKey;

std::string Refusal(const Result<PublicKey>& key) {
  if (key.has_value()) return "accepted";
  EXPECT_EQ(key.error().code, Code::kInvalidArgument);
  return key.error().message;
}

struct RfcRow {
  std::string_view seed;
  std::string_view public_key;
  std::string_view message;
  std::string_view signature;
};

// RFC 8032 section 7.1, tests 1 to 3.
const std::vector<RfcRow>& RfcRows() {
  static const std::vector<RfcRow> rows = {
      {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
       "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
       "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf"
       "9b4"
       "6bd25bf5f0595bbe24655141438e7a100b"},
      {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
       "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
       "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f"
       "11d"
       "8c387b2eaeb4302aeeb00d291612bb0c00"},
      {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
       "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
       "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984"
       "dc6"
       "594a7c15e9716ed28dc027beceea1ec40a"}};
  return rows;
}

TEST(Ed25519, MatchesRfc8032) {
  for (const RfcRow& row : RfcRows()) {
    const Bytes seed = Hex(row.seed);
    const PrivateKey key = PrivateKey::FromSeed(std::span<const std::uint8_t, 32>(seed));
    const Bytes message = Hex(row.message);
    EXPECT_EQ(HexEncode(key.public_key().raw()), row.public_key);
    EXPECT_EQ(HexEncode(key.Sign(message)), row.signature);
    EXPECT_TRUE(key.public_key().Verify(message, Hex(row.signature)));
    EXPECT_TRUE(PublicKey::FromRaw(Hex(row.public_key)).has_value());
  }
}

TEST(Ed25519, MatchesTheSpkiVector) {
  EXPECT_EQ(Base64Encode(RfcKey().public_key().ToSpki()),
            "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
  EXPECT_EQ(RfcKey().public_key().SpkiSha256(), Sha256(RfcKey().public_key().ToSpki()));
}

TEST(Ed25519, KeysReadBackFromTheirText) {
  for (std::uint8_t number = 0; number < 50; ++number) {
    const PrivateKey key = KeyOf(number);
    const PublicKey& public_key = key.public_key();
    EXPECT_EQ(Must(PublicKey::FromPem(public_key.ToPem())), public_key);
    EXPECT_EQ(Must(PublicKey::FromSpki(public_key.ToSpki())), public_key);
    const Secret pem = key.ToPem();
    const PrivateKey again = Must(PrivateKey::FromPem(AsText(pem.Reveal())));
    EXPECT_EQ(again.public_key(), public_key);
    EXPECT_EQ(again.Sign(AsBytes("x")), key.Sign(AsBytes("x")));
  }
}

TEST(Ed25519, AnyOtherMessageSignatureOrKeyFails) {
  const PrivateKey key = KeyOf(1);
  const Signature signature = key.Sign(AsBytes("message"));
  EXPECT_TRUE(key.public_key().Verify(AsBytes("message"), signature));
  EXPECT_FALSE(key.public_key().Verify(AsBytes("messagf"), signature));
  EXPECT_FALSE(KeyOf(2).public_key().Verify(AsBytes("message"), signature));
  EXPECT_FALSE(key.public_key().Verify(AsBytes("message"), {}));
  EXPECT_FALSE(key.public_key().Verify(AsBytes("message"), std::span(signature).first(63)));
  for (std::size_t bit = 0; bit < 512; ++bit) {
    Signature changed = signature;
    changed.at(bit / 8) = static_cast<std::uint8_t>(changed.at(bit / 8) ^ (1U << (bit % 8)));
    EXPECT_FALSE(key.public_key().Verify(AsBytes("message"), changed)) << bit;
  }
}

// S + L is the same number modulo the group order, so a lenient verifier accepts a second text.
TEST(Ed25519, BI13_SignatureWithSAtOrAboveTheGroupOrderIsRefused) {
  const Bytes order = Hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  const PrivateKey key = KeyOf(1);
  Signature signature = key.Sign(AsBytes("message"));
  unsigned carry = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    const unsigned sum = signature.at(32 + i) + order[i] + carry;
    signature.at(32 + i) = static_cast<std::uint8_t>(sum & 0xFFU);
    carry = sum >> 8U;
  }
  ASSERT_EQ(carry, 0U);
  EXPECT_FALSE(key.public_key().Verify(AsBytes("message"), signature));
}

const std::vector<std::string_view>& SmallOrderPoints() {
  static const std::vector<std::string_view> points = {
      "0100000000000000000000000000000000000000000000000000000000000000",
      "0100000000000000000000000000000000000000000000000000000000000080",
      "0000000000000000000000000000000000000000000000000000000000000000",
      "0000000000000000000000000000000000000000000000000000000000000080",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
      "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
      "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"};
  return points;
}

TEST(Ed25519, BI33_ZeroSmallOrderAndUnreducedKeysAreRefused) {
  EXPECT_EQ(Refusal(PublicKey::FromRaw(Bytes(32))), "public key is all zero");
  for (const std::string_view point : SmallOrderPoints()) {
    EXPECT_NE(Refusal(PublicKey::FromRaw(Hex(point))), "accepted") << point;
  }
  // y = p, p + 1 and 2^255 - 1, with both signs.
  for (const std::string_view point :
       {"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"}) {
    EXPECT_EQ(Refusal(PublicKey::FromRaw(Hex(point))), "public key is not in reduced form");
  }
}

// Half of all y have no x. The reader must agree with the arithmetic, not with OpenSSL's lazy
// import.
TEST(Ed25519, BI33_KeysThatAreNoPointOnTheCurveAreRefused) {
  EXPECT_EQ(
      Refusal(PublicKey::FromRaw(Hex("0200000000000000000000000000000000000000000000000000000000"
                                     "000000"))),
      "public key is not a point on the curve");
  std::size_t accepted = 0;
  Prng prng(1);
  for (int i = 0; i < 400; ++i) {
    if (PublicKey::FromRaw(test::RandomBytes(prng, 32)).has_value()) ++accepted;
  }
  EXPECT_GT(accepted, 150U);
  EXPECT_LT(accepted, 250U);
}

// Why the points are refused: R = the neutral element and S = 0 is a signature that anybody can
// make.
TEST(Ed25519, SmallOrderKeysVerifyForgedSignaturesInOpenssl) {
  Signature forged{};
  forged.front() = 1;
  for (const std::string_view point : SmallOrderPoints()) {
    const Bytes raw = Hex(point);
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw.data(), raw.size()),
        EVP_PKEY_free);
    bool verified = false;
    for (int i = 0; i < 200 && !verified; ++i) {
      const std::string message = std::to_string(i);
      const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                            EVP_MD_CTX_free);
      ASSERT_EQ(EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()), 1);
      verified = EVP_DigestVerify(context.get(), forged.data(), forged.size(),
                                  AsBytes(message).data(), message.size()) == 1;
    }
    // The two encodings with x = 0 and a set sign are not decodable by OpenSSL either.
    const bool undecodable = raw.back() == 0x80 || point.starts_with("ecff");
    EXPECT_TRUE(verified || undecodable) << point;
  }
  ERR_clear_error();
}

std::string OtherPublicPem(int type, int curve_or_bits) {
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
      EVP_PKEY_CTX_new_id(type, nullptr), EVP_PKEY_CTX_free);
  EVP_PKEY* made = nullptr;
  EXPECT_EQ(EVP_PKEY_keygen_init(context.get()), 1);
  if (type == EVP_PKEY_RSA) EVP_PKEY_CTX_set_rsa_keygen_bits(context.get(), curve_or_bits);
  if (type == EVP_PKEY_EC) EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context.get(), curve_or_bits);
  EXPECT_EQ(EVP_PKEY_keygen(context.get(), &made), 1);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(made, EVP_PKEY_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), BIO_free);
  EXPECT_EQ(PEM_write_bio_PUBKEY(memory.get(), key.get()), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

TEST(Ed25519, BI29_OtherKindsOfKeysAreRefusedByName) {
  constexpr int kP256 = 415;
  EXPECT_EQ(Refusal(PublicKey::FromPem(OtherPublicPem(EVP_PKEY_RSA, 2048))),
            "public key is of algorithm RSA, only Ed25519 is accepted");
  EXPECT_EQ(Refusal(PublicKey::FromPem(OtherPublicPem(EVP_PKEY_EC, kP256))),
            "public key is of algorithm elliptic curve (ECDSA), only Ed25519 is accepted");
  EXPECT_EQ(Refusal(PublicKey::FromPem(OtherPublicPem(EVP_PKEY_X25519, 0))),
            "public key is of algorithm X25519, only Ed25519 is accepted");
  EXPECT_EQ(Refusal(PublicKey::FromPem(OtherPublicPem(EVP_PKEY_ED448, 0))),
            "public key is of algorithm Ed448, only Ed25519 is accepted");
}

TEST(Ed25519, BI31_OnlyCanonicalDerIsAccepted) {
  const std::string key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
  const auto refused = [](const std::string& der) {
    const std::string text = WritePem(kPublicKeyPem, Hex(der));
    CountingSource counting;
    const Result<PublicKey> read = PublicKey::FromPem(text, counting.source());
    EXPECT_EQ(counting.Bad(), read.has_value() ? 0U : 1U);
    return Refusal(read) != "accepted";
  };
  EXPECT_FALSE(refused("302a300506032b6570032100" + key));
  EXPECT_TRUE(refused("302a300506032b6570032100" + key + "00")) << "trailing byte";
  EXPECT_TRUE(refused("302a300506032b6570032100" + key.substr(2))) << "cut";
  EXPECT_TRUE(refused("3080300506032b6570032100" + key + "0000")) << "indefinite length";
  EXPECT_TRUE(refused("30812a300506032b6570032100" + key)) << "length not minimal";
  EXPECT_TRUE(refused("302b30810506032b6570032100" + key)) << "inner length not minimal";
  EXPECT_TRUE(refused("302c300706032b65700500032100" + key)) << "parameters present";
  EXPECT_TRUE(refused("302a300506032b6570032101" + key)) << "unused bits";
}

TEST(Ed25519, BI32_HugeLengthsAndDeepNestingAreRefused) {
  EXPECT_NE(Refusal(PublicKey::FromSpki(Hex("3084ffffffff300506032b6570"))), "accepted");
  EXPECT_NE(Refusal(PublicKey::FromSpki(Hex("3088ffffffffffffffff00"))), "accepted");
  Bytes deep;
  for (int i = 0; i < 10'000; ++i) deep.insert(deep.end(), {0x30, 0x80});
  EXPECT_NE(Refusal(PublicKey::FromSpki(deep)), "accepted");
  Bytes nested;
  for (std::size_t i = 0; i < 10'000; ++i) {
    const std::size_t rest = (10'000 - i - 1) * 4;
    nested.insert(nested.end(), {0x30, 0x82, static_cast<std::uint8_t>(rest >> 8U),
                                 static_cast<std::uint8_t>(rest & 0xFFU)});
  }
  EXPECT_NE(Refusal(PublicKey::FromSpki(nested)), "accepted");
}

TEST(Ed25519, PrivateKeysInOtherFormsAreRefusedByName) {
  const auto refusal = [](const std::string& pem) {
    const Result<PrivateKey> key = PrivateKey::FromPem(pem);
    return key.has_value() ? std::string("accepted") : key.error().message;
  };
  const std::string seed(64, '1');
  EXPECT_EQ(refusal(WritePem(kPrivateKeyPem, Hex("302e020100300506032b657004220420" + seed))),
            "accepted");
  EXPECT_EQ(refusal(WritePem(kPrivateKeyPem, Hex("302e020100300506032b656e04220420" + seed))),
            "private key is of algorithm X25519, only Ed25519 is accepted");
  EXPECT_EQ(refusal(WritePem(kPrivateKeyPem, Hex("302e020101300506032b657004220420" + seed))),
            "private key is not in the one accepted form of Ed25519");
  EXPECT_EQ(refusal(WritePem({.label = "RSA PRIVATE KEY"}, Bytes(48))),
            "PEM block is \"RSA PRIVATE KEY\", not \"PRIVATE KEY\"");
  EXPECT_EQ(refusal(WritePem({.label = "ENCRYPTED PRIVATE KEY"}, Bytes(48))),
            "PEM block is \"ENCRYPTED PRIVATE KEY\", not \"PRIVATE KEY\"");
  EXPECT_EQ(refusal(KeyOf(1).public_key().ToPem()),
            "PEM block is \"PUBLIC KEY\", not \"PRIVATE KEY\"");
}

TEST(Ed25519, RandomBytesAreRefusedOrReadBack) {
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    Prng prng(seed);
    Bytes bytes = test::RandomBytes(prng, prng.Below(60));
    if (prng.Chance(1, 2)) {
      const Spki spki = KeyOf(1).public_key().ToSpki();
      bytes.assign(spki.begin(), spki.end());
      bytes[prng.Below(bytes.size())] = static_cast<std::uint8_t>(prng.Below(256));
    }
    const Result<PublicKey> key = PublicKey::FromSpki(bytes);
    if (key.has_value()) {
      const Spki again = key->ToSpki();
      EXPECT_EQ(Bytes(again.begin(), again.end()), bytes) << "seed " << seed;
    }
  }
}

TEST(Ed25519, RefusalsLeaveOpensslsErrorQueueEmpty) {
  ERR_clear_error();
  EXPECT_FALSE(KeyOf(1).public_key().Verify(AsBytes("x"), Bytes(64)));
  EXPECT_FALSE(PublicKey::FromSpki(Bytes(44)).has_value());
  EXPECT_EQ(ERR_peek_error(), 0U);
}

}  // namespace
}  // namespace nstance::crypto

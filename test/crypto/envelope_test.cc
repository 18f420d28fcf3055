// The secret envelope: vectors, then every bit flipped, every cut, every place swapped.
#include "crypto/envelope.h"

#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "test/crypto/crypto_fixture.h"

namespace nstance::crypto {
namespace {

using test::Cluster;
using test::CountingSource;
using test::Hex;
using test::Must;

static_assert(!std::is_copy_constructible_v<EncryptionKey>);

// formats.md section 8.
constexpr std::string_view kV1 =
    "4e53454301010000b1e32873c151ff37a0a1a2a3a4a5a6a7a8a9aaab8e7d10412af18482c13db6e9a3d47a30975621"
    "6b66";
constexpr std::string_view kLegacy =
    "a0a1a2a3a4a5a6a7a8a9aaab8e7d10412ab469edeb6fa84bae4731a07dbf70c564";
constexpr std::string_view kObject = "secret/demo";

EncryptionKey VectorKey() {
  Bytes key;
  for (std::uint8_t i = 0; i < 32; ++i) key.push_back(i);
  return Must(EncryptionKey::Parse(key));
}

EncryptionKey KeyNumber(std::uint8_t number) {
  return Must(EncryptionKey::Parse(Bytes(32, number)));
}

KeyRing Ring() { return {.current = VectorKey(), .old = {}}; }

SealOptions Options(const ClusterId& cluster, EnvelopeForm form = EnvelopeForm::kV1) {
  SealOptions options = {
      .place = {.cluster = cluster, .object = kObject}, .form = form, .nonce = {}};
  for (std::size_t i = 0; i < options.nonce.size(); ++i) {
    options.nonce.at(i) = static_cast<std::uint8_t>(0xA0 + i);
  }
  return options;
}

// The plain text, or the code of the refusal.
std::string Outcome(const KeyRing& keys, const Bytes& sealed,
                    LegacyPolicy legacy = LegacyPolicy::kAllowed,
                    std::string_view object = kObject) {
  const ClusterId cluster = Cluster();
  CountingSource counting;
  const auto opened = Open(keys, sealed,
                           {.place = {.cluster = cluster, .object = object},
                            .legacy = legacy,
                            .source = counting.source()});
  EXPECT_EQ(counting.Bad(), opened.has_value() ? 0U : 1U);
  if (!opened.has_value()) return std::string(CodeName(opened.error().code));
  return std::string(opened->form == EnvelopeForm::kV1 ? "v1 " : "legacy ") +
         std::string(AsText(opened->plain.Reveal()));
}

TEST(Envelope, MatchesTheVectors) {
  const ClusterId cluster = Cluster();
  EXPECT_EQ(HexEncode(VectorKey().id()), "b1e32873c151ff37");
  EXPECT_EQ(HexEncode(Must(Seal(VectorKey(), AsBytes("hello"), Options(cluster)))), kV1);
  EXPECT_EQ(
      HexEncode(Must(Seal(VectorKey(), AsBytes("hello"), Options(cluster, EnvelopeForm::kLegacy)))),
      kLegacy);
  EXPECT_EQ(Outcome(Ring(), Hex(kV1)), "v1 hello");
  EXPECT_EQ(Outcome(Ring(), Hex(kLegacy)), "legacy hello");
}

TEST(Envelope, OpensWhatItSealed) {
  const ClusterId cluster = Cluster();
  for (std::size_t size = 0; size < 100; ++size) {
    Prng prng(size);
    const Bytes plain = test::RandomBytes(prng, size);
    for (const EnvelopeForm form : {EnvelopeForm::kV1, EnvelopeForm::kLegacy}) {
      const Bytes sealed = Must(Seal(VectorKey(), plain, Options(cluster, form)));
      const auto opened = Must(
          Open(Ring(), sealed,
               {.place = {.cluster = cluster, .object = kObject}, .legacy = {}, .source = {}}));
      EXPECT_EQ(AsText(opened.plain.Reveal()), AsText(plain));
      EXPECT_EQ(opened.form, form);
    }
  }
}

TEST(Envelope, BI109_AnyFlippedBitFails) {
  for (const std::string_view hex : {kV1, kLegacy}) {
    const Bytes sealed = Hex(hex);
    for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
      Bytes changed = sealed;
      changed[bit / 8] = static_cast<std::uint8_t>(changed[bit / 8] ^ (1U << (bit % 8)));
      const std::string outcome = Outcome(Ring(), changed);
      EXPECT_TRUE(outcome == "DATA_LOSS" || outcome == "FAILED_PRECONDITION") << bit << outcome;
    }
  }
}

TEST(Envelope, BI109_AnyCutOrAdditionFails) {
  for (const std::string_view hex : {kV1, kLegacy}) {
    const Bytes sealed = Hex(hex);
    for (std::size_t size = 0; size < sealed.size(); ++size) {
      EXPECT_EQ(Outcome(Ring(), Bytes(sealed.begin(), sealed.begin() + static_cast<long>(size))),
                "DATA_LOSS")
          << size;
    }
    Bytes longer = sealed;
    longer.push_back(0);
    EXPECT_EQ(Outcome(Ring(), longer), "DATA_LOSS");
  }
}

TEST(Envelope, BI109_SwappedNamesAndClustersFail) {
  // Sealed here, so that nothing but the place is wrong.
  const ClusterId cluster = Cluster();
  const Bytes sealed = Must(Seal(VectorKey(), AsBytes("hello"), Options(cluster)));
  EXPECT_EQ(Outcome(Ring(), sealed), "v1 hello");
  EXPECT_EQ(Outcome(Ring(), sealed, LegacyPolicy::kAllowed, "secret/other"), "DATA_LOSS");
  const ClusterId other = Must(ClusterId::Parse("other-cluster"));
  const auto opened = Open(
      Ring(), sealed, {.place = {.cluster = other, .object = kObject}, .legacy = {}, .source = {}});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
}

// NUL separates the two: a name that starts where the cluster ends is another place.
TEST(Envelope, ClusterAndNameDoNotRunIntoEachOther) {
  const ClusterId short_cluster = Must(ClusterId::Parse("a"));
  const ClusterId long_cluster = Must(ClusterId::Parse("ab"));
  SealOptions options = Options(short_cluster);
  options.place.object = "bc";
  const Bytes sealed = Must(Seal(VectorKey(), AsBytes("hello"), options));
  EXPECT_FALSE(Open(Ring(), sealed,
                    {.place = {.cluster = long_cluster, .object = "c"}, .legacy = {}, .source = {}})
                   .has_value());
}

TEST(Envelope, BI109_UnknownVersionsAndAlgorithmsFail) {
  for (const std::uint8_t version : Bytes{0, 2, 255}) {
    Bytes sealed = Hex(kV1);
    sealed[4] = version;
    EXPECT_EQ(Outcome(Ring(), sealed), "DATA_LOSS");
    sealed = Hex(kV1);
    sealed[5] = version;
    EXPECT_EQ(Outcome(Ring(), sealed), "DATA_LOSS");
  }
  Bytes reserved = Hex(kV1);
  reserved[6] = 1;
  EXPECT_EQ(Outcome(Ring(), reserved), "DATA_LOSS");
}

TEST(Envelope, BI109_TheKeyIdAloneChoosesTheKey) {
  const KeyRing without = {.current = KeyNumber(9), .old = {}};
  EXPECT_EQ(Outcome(without, Hex(kV1)), "FAILED_PRECONDITION") << "retired key";
  KeyRing rotated = {.current = KeyNumber(9), .old = {}};
  rotated.old.push_back(KeyNumber(8));
  rotated.old.push_back(VectorKey());
  EXPECT_EQ(Outcome(rotated, Hex(kV1)), "v1 hello");
  // The id of another loaded key: no fallback to the right one.
  Bytes renamed = Hex(kV1);
  std::ranges::copy(KeyNumber(8).id(), renamed.begin() + 8);
  EXPECT_EQ(Outcome(rotated, renamed), "DATA_LOSS");
}

TEST(Envelope, LegacyTriesTheCurrentKeyThenTheOldOnes) {
  KeyRing rotated = {.current = KeyNumber(9), .old = {}};
  EXPECT_EQ(Outcome(rotated, Hex(kLegacy)), "DATA_LOSS");
  rotated.old.push_back(KeyNumber(8));
  rotated.old.push_back(VectorKey());
  EXPECT_EQ(Outcome(rotated, Hex(kLegacy)), "legacy hello");
}

TEST(Envelope, LegacyMayBeRefused) {
  EXPECT_EQ(Outcome(Ring(), Hex(kLegacy), LegacyPolicy::kRefused), "FAILED_PRECONDITION");
  EXPECT_EQ(Outcome(Ring(), Hex(kV1), LegacyPolicy::kRefused), "v1 hello");
}

// A v1 blob whose magic is intact is never opened as legacy, and the other way round.
TEST(Envelope, FormsDoNotMix) {
  Bytes as_legacy = Hex(kV1);
  as_legacy.erase(as_legacy.begin(), as_legacy.begin() + 16);
  EXPECT_EQ(Outcome(Ring(), as_legacy), "DATA_LOSS");
  Bytes as_v1 = Hex(kV1);
  as_v1.resize(16);
  const Bytes legacy = Hex(kLegacy);
  as_v1.insert(as_v1.end(), legacy.begin(), legacy.end());
  EXPECT_EQ(Outcome(Ring(), as_v1), "DATA_LOSS");
}

TEST(Envelope, ErrorsHoldNoByteOfTheContent) {
  const ClusterId cluster = Cluster();
  const std::string canary = "NSTANCE-CANARY-plain";
  Bytes sealed = Must(Seal(VectorKey(), AsBytes(canary), Options(cluster)));
  sealed.back() ^= 1;
  const auto opened =
      Open(Ring(), sealed,
           {.place = {.cluster = cluster, .object = kObject}, .legacy = {}, .source = {}});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().message.find("CANARY"), std::string::npos);
}

TEST(Envelope, LimitsTheSize) {
  const ClusterId cluster = Cluster();
  const auto sealed = Seal(VectorKey(), Bytes(kMaxSealedBytes + 1), Options(cluster));
  ASSERT_FALSE(sealed.has_value());
  EXPECT_EQ(sealed.error().code, Code::kResourceExhausted);
  EXPECT_EQ(Outcome(Ring(), Bytes(kMaxSealedBytes + 100)), "RESOURCE_EXHAUSTED");
}

TEST(Envelope, RandomBytesNeverOpen) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    Prng prng(seed);
    Bytes bytes = test::RandomBytes(prng, prng.Below(80));
    if (prng.Chance(1, 2)) {
      const Bytes header = Hex(kV1.substr(0, 32));
      bytes.insert(bytes.begin(), header.begin(), header.end());
    }
    EXPECT_EQ(Outcome(Ring(), bytes), "DATA_LOSS") << "seed " << seed;
  }
}

TEST(EncryptionKey, AcceptsTheFormsOfASource) {
  const KeyId id = VectorKey().id();
  const auto parsed = [](std::string_view text) {
    const auto key = EncryptionKey::Parse(AsBytes(text));
    return key.has_value() ? key->id() : KeyId{};
  };
  const std::string raw(AsText(VectorKey().Reveal()));
  const std::string hex = HexEncode(VectorKey().Reveal());
  const std::string base64 = Base64Encode(VectorKey().Reveal());
  EXPECT_EQ(parsed(raw), id);
  EXPECT_EQ(parsed(" " + raw + "\n"), id) << "white space around, none of it the key's own";
  EXPECT_EQ(parsed(hex), id);
  EXPECT_EQ(parsed(hex + "\n"), id);
  EXPECT_EQ(parsed("\t" + hex + "\r\n"), id);
  EXPECT_EQ(parsed(base64 + "\n"), id);
  std::string upper = hex;
  for (char& c : upper) c = static_cast<char>(c >= 'a' ? c - 32 : c);
  EXPECT_EQ(parsed(upper), id);
  // 32 bytes are the key as they are, also when they end in white space.
  const std::string spaced = std::string(31, 'k') + "\n";
  EXPECT_EQ(parsed(spaced), Must(EncryptionKey::Parse(AsBytes(spaced))).id());
  EXPECT_NE(parsed(spaced), KeyId{});
}

TEST(EncryptionKey, BI97_OtherSizesAreRefusedWithoutQuotingThem) {
  for (const std::string& value :
       {std::string(), std::string(31, 'k'), std::string(33, 'k'), std::string(31, 'k') + "\n\n",
        std::string(33, 'k') + "\n", std::string(64, 'k'), std::string(44, '!'),
        std::string(63, 'a'), std::string(43, 'A'), std::string(42, 'A') + "=="}) {
    const auto key = EncryptionKey::Parse(AsBytes(value));
    ASSERT_FALSE(key.has_value()) << Quote(value);
    EXPECT_EQ(key.error().code, Code::kInvalidArgument);
    EXPECT_EQ(key.error().message.find("kk"), std::string::npos);
  }
}

}  // namespace
}  // namespace nstance::crypto

// Registration tokens: the vector, then the rows of the bad-input corpus. Hostile tokens are built
// by hand and signed with the right key, so that each test reaches the check it is about.
#include "crypto/registration_token.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "crypto/digest.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::crypto {
namespace {

using test::At;
using test::Cluster;
using test::CountingSource;
using test::KeyOf;
using test::RfcKey;

constexpr std::string_view kGoodHeader = R"({"alg":"EdDSA","typ":"JWT"})";

// formats.md section 3.
RegistrationClaims VectorClaims() {
  return {.subject = std::string(test::kInstance),
          .expires_at = Timestamp::FromUnix(1'767'225'900),
          .not_before = Timestamp::FromUnix(1'767'225'600),
          .issued_at = Timestamp::FromUnix(1'767'225'600),
          .token_id = "AAECAwQFBgcICQoLDA0ODw",
          .kind = TokenKind::kAgent,
          .config_hash = "sha256:e5ae13dd1e88c12b792290cbb21fee11f01e4237521f8869d826a1a7d3b3d30d",
          .cluster = "example-cluster",
          .shard = "dc1-zone-a",
          .group = "control-plane",
          .on_demand = false,
          .tenant = test::Tenant("prod")};
}

Timestamp VectorNow() { return Timestamp::FromUnix(1'767'225'700); }

std::string SignRaw(std::string_view header, std::string_view claims, const PrivateKey& key) {
  std::string token = Base64UrlEncode(AsBytes(header)) + "." + Base64UrlEncode(AsBytes(claims));
  const Signature signature = key.Sign(AsBytes(token));
  return token + "." + Base64UrlEncode(signature);
}

// A token that is good but for one replacement in its claims text.
std::string WithClaims(std::string_view from, std::string_view to) {
  std::string claims =
      R"({"iss":"nstance-server","sub":"knc06bgm7733st2576nx5jht4ecjw","exp":1767225900,)"
      R"("nbf":1767225600,"iat":1767225600,"jti":"AAECAwQFBgcICQoLDA0ODw","kind":"agent",)"
      R"("config_hash":"","cluster_id":"example-cluster","shard":"dc1-zone-a",)"
      R"("group":"control-plane","on_demand":false,"tenant":"prod"})";
  const std::size_t at = claims.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  claims.replace(at, from.size(), to);
  return SignRaw(kGoodHeader, claims, RfcKey());
}

// "ok", or the code and reason. One bad token must count exactly once.
std::string Verdict(std::string_view token, TokenKind kind = TokenKind::kAgent,
                    Timestamp now = VectorNow()) {
  const std::vector<PublicKey> keys = {KeyOf(9).public_key(), RfcKey().public_key()};
  CountingSource counting;
  const auto claims = VerifyRegistrationToken(
      token, {.keys = keys, .now = now, .kind = kind, .source = counting.source()});
  EXPECT_EQ(counting.Bad(), claims.has_value() ? 0U : 1U);
  return claims.has_value() ? "ok" : claims.error().ToString();
}

void ExpectUnauthenticated(std::string_view token, std::string_view reason = "") {
  const std::string verdict = Verdict(token);
  EXPECT_TRUE(verdict.starts_with("UNAUTHENTICATED: ")) << verdict;
  EXPECT_NE(verdict.find(reason), std::string::npos) << verdict << " should say: " << reason;
}

TEST(RegistrationToken, MatchesTheVector) {
  const std::string token = SignRegistrationToken(VectorClaims(), RfcKey());
  EXPECT_TRUE(token.starts_with("eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9."));
  EXPECT_TRUE(token.ends_with(
      ".c6k2AGLPjfTGfYvOCbsiVQ6ue-yCLpbihh_X_Sxy-Wh2Cf7MbvcGhIuWMxgtZsak18paaxGUK39RRJ4oVO6WAQ"));
  EXPECT_EQ(token.size(), 600U);
  EXPECT_EQ(TokenSha256Hex(token),
            "64d2347d03f9fc55bee9e8f2384b5c45a84d357c27dea2bfb1d8eeb425f9a1ce");
}

TEST(RegistrationToken, ClaimsReadBack) {
  const std::vector<PublicKey> keys = {RfcKey().public_key()};
  const auto agent =
      VerifyRegistrationToken(SignRegistrationToken(VectorClaims(), RfcKey()),
                              {.keys = keys, .now = VectorNow(), .kind = {}, .source = {}});
  ASSERT_TRUE(agent.has_value()) << agent.error().ToString();
  EXPECT_EQ(*agent, VectorClaims());

  RegistrationClaims claims = VectorClaims();
  claims.kind = TokenKind::kOperator;
  claims.subject = "example-cluster";
  claims.config_hash = claims.shard = claims.group = "";
  const auto op = VerifyRegistrationToken(
      SignRegistrationToken(claims, RfcKey()),
      {.keys = keys, .now = VectorNow(), .kind = TokenKind::kOperator, .source = {}});
  ASSERT_TRUE(op.has_value()) << op.error().ToString();
  EXPECT_EQ(*op, claims);
}

TEST(RegistrationToken, SameClaimsGiveTheSameToken) {
  EXPECT_EQ(SignRegistrationToken(VectorClaims(), RfcKey()),
            SignRegistrationToken(VectorClaims(), RfcKey()));
  RegistrationClaims other = VectorClaims();
  other.token_id = "AAECAwQFBgcICQoLDA0ODg";
  EXPECT_NE(SignRegistrationToken(VectorClaims(), RfcKey()),
            SignRegistrationToken(other, RfcKey()));
}

// The Go implementation writes no `jti`, and its claims in another order.
TEST(RegistrationToken, TokensOfTheGoImplementationAreAccepted) {
  EXPECT_EQ(Verdict(WithClaims(R"("jti":"AAECAwQFBgcICQoLDA0ODw",)", "")), "ok");
  EXPECT_EQ(Verdict(SignRaw(R"({"typ":"JWT","alg":"EdDSA"})",
                            R"({"tenant":"prod","cluster_id":"c","kind":"agent","iat":1767225600,)"
                            R"("nbf":1767225600,"exp":1767225900,)"
                            R"("sub":"knc06bgm7733st2576nx5jht4ecjw"})",
                            RfcKey())),
            "ok");
}

TEST(RegistrationToken, BI1_EmptyIsRefused) { ExpectUnauthenticated("", "three segments"); }

TEST(RegistrationToken, BI2_OneMebibyteIsRefusedBySizeAlone) {
  CountingSource counting;
  const auto claims = VerifyRegistrationToken(
      std::string(1U << 20U, '%'),
      {.keys = {}, .now = VectorNow(), .kind = TokenKind::kAgent, .source = counting.source()});
  ASSERT_FALSE(claims.has_value());
  EXPECT_EQ(claims.error().code, Code::kResourceExhausted);
  EXPECT_EQ(counting.Limits(), 1U);
  EXPECT_TRUE(Verdict(std::string(kMaxTokenBytes + 1, 'A')).starts_with("RESOURCE_EXHAUSTED"));
  ExpectUnauthenticated(std::string(kMaxTokenBytes, 'A'));
}

TEST(RegistrationToken, BI3_OtherNumbersOfSegmentsAreRefused) {
  const std::string good = SignRegistrationToken(VectorClaims(), RfcKey());
  ASSERT_EQ(Verdict(good), "ok");
  ExpectUnauthenticated(good.substr(0, good.find('.')), "three segments");
  ExpectUnauthenticated(good.substr(0, good.rfind('.')), "three segments");
  ExpectUnauthenticated(good + ".", "three segments");
  ExpectUnauthenticated("." + good, "three segments");
  ExpectUnauthenticated(good + ".AAAA", "three segments");
  ExpectUnauthenticated(good + ".AAAA.AAAA", "three segments");
  ExpectUnauthenticated("..");
  ExpectUnauthenticated("....");
}

TEST(RegistrationToken, BI4_AlgNoneInAnySpellingIsRefused) {
  const std::string good = SignRegistrationToken(VectorClaims(), RfcKey());
  const std::string claims = good.substr(good.find('.') + 1, good.rfind('.') - good.find('.') - 1);
  for (const std::string_view header :
       {R"({"alg":"none","typ":"JWT"})", R"({"alg":"None","typ":"JWT"})",
        R"({"alg":"nOnE","typ":"JWT"})", R"({"typ":"JWT"})", R"({"alg":null,"typ":"JWT"})",
        R"({"alg":["EdDSA"],"typ":"JWT"})", R"({"alg":"eddsa","typ":"JWT"})"}) {
    const std::string front = Base64UrlEncode(AsBytes(header)) + "." + claims + ".";
    ExpectUnauthenticated(front, "alg");
    ExpectUnauthenticated(front + Base64UrlEncode(RfcKey().Sign(AsBytes(front))), "alg");
  }
}

TEST(RegistrationToken, BI5_HmacKeyedWithThePublicKeyIsRefused) {
  const std::string front = Base64UrlEncode(AsBytes(R"({"alg":"HS256","typ":"JWT"})")) + "." +
                            Base64UrlEncode(AsBytes("{}"));
  const PublicKey ours = RfcKey().public_key();
  const PublicKey::Raw& raw = ours.raw();
  const Spki spki = ours.ToSpki();
  const std::string pem = ours.ToPem();
  for (const std::span<const std::uint8_t> key :
       {std::span<const std::uint8_t>(raw), std::span<const std::uint8_t>(spki), AsBytes(pem)}) {
    std::array<std::uint8_t, 32> mac{};
    unsigned int size = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), AsBytes(front).data(),
         front.size(), mac.data(), &size);
    ExpectUnauthenticated(front + "." + Base64UrlEncode(mac), "alg");
  }
}

TEST(RegistrationToken, BI6_OtherAlgorithmsAreRefused) {
  ExpectUnauthenticated(SignRaw(R"({"alg":"ES256","typ":"JWT"})", "{}", RfcKey()), "alg");
  ExpectUnauthenticated(SignRaw(R"({"alg":"Ed448","typ":"JWT"})", "{}", RfcKey()), "alg");
  // EdDSA with an Ed448 signature has 114 bytes.
  const std::string good = SignRegistrationToken(VectorClaims(), RfcKey());
  ExpectUnauthenticated(good.substr(0, good.rfind('.') + 1) + Base64UrlEncode(Bytes(114, 1)),
                        "signature");
}

TEST(RegistrationToken, BI7_KeysNamedInTheHeaderAreNeverLookedAt) {
  for (const std::string_view member :
       {R"("jwk":{"kty":"OKP","crv":"Ed25519","x":"AAAA"})", R"("jku":"https://example.com/k")",
        R"("x5u":"https://example.com/k")", R"("x5c":["AAAA"])"}) {
    const std::string header = fmt::format(R"({{"alg":"EdDSA","typ":"JWT",{}}})", member);
    const std::string good = SignRegistrationToken(VectorClaims(), RfcKey());
    const Bytes claims = test::Must(
        Base64UrlDecode(good.substr(good.find('.') + 1, good.rfind('.') - good.find('.') - 1)));
    ExpectUnauthenticated(SignRaw(header, AsText(claims), RfcKey()), "members besides");
    ExpectUnauthenticated(SignRaw(header, AsText(claims), KeyOf(3)), "members besides");
  }
}

TEST(RegistrationToken, BI8_KeyIdsAreRefused) {
  for (const std::string& kid : {std::string("../../etc/passwd"), std::string("' OR 1=1 --"),
                                 std::string(2'048, 'k'), std::string("1")}) {
    ExpectUnauthenticated(
        SignRaw(fmt::format(R"({{"alg":"EdDSA","typ":"JWT","kid":"{}"}})", kid), "{}", RfcKey()),
        "members besides");
  }
}

TEST(RegistrationToken, BI9_CriticalExtensionsAreRefused) {
  ExpectUnauthenticated(
      SignRaw(R"({"alg":"EdDSA","typ":"JWT","crit":["x"],"x":1})", "{}", RfcKey()),
      "members besides");
}

TEST(RegistrationToken, BI10_TypMustBeJwt) {
  ExpectUnauthenticated(SignRaw(R"({"alg":"EdDSA"})", "{}", RfcKey()), "typ");
  ExpectUnauthenticated(SignRaw(R"({"alg":"EdDSA","typ":"jwt"})", "{}", RfcKey()), "typ");
  ExpectUnauthenticated(SignRaw(R"({"alg":"EdDSA","typ":"at+jwt"})", "{}", RfcKey()), "typ");
  ExpectUnauthenticated(SignRaw(R"({"alg":"EdDSA","typ":1})", "{}", RfcKey()), "typ");
}

TEST(RegistrationToken, BI11_DuplicateMembersAreRefused) {
  ExpectUnauthenticated(SignRaw(R"({"alg":"EdDSA","typ":"JWT","alg":"EdDSA"})", "{}", RfcKey()),
                        "header");
  ExpectUnauthenticated(WithClaims(R"("tenant":"prod")", R"("tenant":"prod","tenant":"dev")"),
                        "claims");
  ExpectUnauthenticated(WithClaims(R"("exp":)", R"("exp":1,"exp":)"), "claims");
}

TEST(RegistrationToken, BI12_OneTokenHasOneText) {
  const std::string good = SignRegistrationToken(VectorClaims(), RfcKey());
  ExpectUnauthenticated(good + "=");
  ExpectUnauthenticated(good + "==");
  ExpectUnauthenticated(" " + good);
  ExpectUnauthenticated(good + "\n");
  ExpectUnauthenticated(std::string(good).insert(50, " "));
  std::string standard = good;
  std::ranges::replace(standard, '-', '+');
  std::ranges::replace(standard, '_', '/');
  ASSERT_NE(standard, good);
  ExpectUnauthenticated(standard);
  // The last character of the signature has four bits that no byte owns.
  for (const char c : {'R', 'h', 'x', 'B'}) {
    std::string stray = good;
    stray.back() = c;
    ExpectUnauthenticated(stray);
  }
}

// One bit of each byte, another one each time.
TEST(RegistrationToken, BI13_AFlippedBitIsRefused) {
  const std::string good = SignRegistrationToken(VectorClaims(), RfcKey());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    const std::string verdict = Verdict(changed);
    ASSERT_TRUE(verdict.starts_with("UNAUTHENTICATED")) << i << ": " << verdict;
  }
}

TEST(RegistrationToken, BI13_SecondFormOfTheSignatureIsRefused) {
  const std::string good = SignRegistrationToken(VectorClaims(), RfcKey());
  Bytes signature = test::Must(Base64UrlDecode(good.substr(good.rfind('.') + 1)));
  const Bytes order = test::Hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  unsigned carry = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    const unsigned sum = signature[32 + i] + order[i] + carry;
    signature[32 + i] = static_cast<std::uint8_t>(sum & 0xFFU);
    carry = sum >> 8U;
  }
  ExpectUnauthenticated(good.substr(0, good.rfind('.') + 1) + Base64UrlEncode(signature),
                        "signature");
}

TEST(RegistrationToken, BI14_ExpMustBeAWholeNumberOfSeconds) {
  constexpr std::string_view kExp = R"("exp":1767225900,)";
  ExpectUnauthenticated(WithClaims(kExp, ""), "exp");
  for (const std::string_view value :
       {"\"1767225900\"", "1767225900.5", "1e9", "-1", "null", "true", "9223372036854775808",
        "9223372036854775807", "[]"}) {
    ExpectUnauthenticated(WithClaims(kExp, fmt::format(R"("exp":{},)", value)), "exp");
  }
  ExpectUnauthenticated(WithClaims(kExp, R"("exp":1e400,)"), "claims");
  ExpectUnauthenticated(WithClaims(kExp, R"("exp":NaN,)"), "claims");
  ExpectUnauthenticated(WithClaims(kExp, R"("exp":0,)"), "ended");
}

TEST(RegistrationToken, BI15_ExpToleratesThirtySeconds) {
  const std::string token = SignRegistrationToken(VectorClaims(), RfcKey());
  const auto after = [&](std::int64_t seconds) {
    return Verdict(token, TokenKind::kAgent,
                   VectorClaims().expires_at + Duration::Seconds(seconds));
  };
  EXPECT_EQ(after(1), "ok");
  EXPECT_EQ(after(29), "ok");
  EXPECT_TRUE(after(30).starts_with("UNAUTHENTICATED"));
  EXPECT_TRUE(after(31).starts_with("UNAUTHENTICATED"));
}

TEST(RegistrationToken, BI16_TokensFromTheFutureAreRefused) {
  const auto with = [](Duration not_before, Duration issued_at) {
    RegistrationClaims claims = VectorClaims();
    claims.not_before = VectorNow() + not_before;
    claims.issued_at = VectorNow() + issued_at;
    claims.expires_at = VectorNow() + Duration::Minutes(5);
    return Verdict(SignRegistrationToken(claims, RfcKey()));
  };
  EXPECT_EQ(with(Duration::Seconds(30), Duration::Seconds(30)), "ok");
  EXPECT_NE(with(Duration::Seconds(31), Duration::Seconds(0)), "ok");
  EXPECT_NE(with(Duration::Seconds(0), Duration::Seconds(31)), "ok");
  EXPECT_NE(with(Duration::Hours(1), Duration::Seconds(0)), "ok");
  EXPECT_NE(with(Duration::Seconds(0), Duration::Days(3'650)), "ok");
}

TEST(RegistrationToken, BI17_LivesAboveADayAreRefusedThoughSignedByUs) {
  const auto with_life = [](Duration life) {
    RegistrationClaims claims = VectorClaims();
    claims.expires_at = claims.issued_at + life;
    return Verdict(SignRegistrationToken(claims, RfcKey()));
  };
  EXPECT_EQ(with_life(Duration::Hours(24) + Duration::Seconds(30)), "ok");
  EXPECT_NE(with_life(Duration::Hours(24) + Duration::Seconds(31)), "ok");
  EXPECT_NE(with_life(Duration::Days(365'000)), "ok");
}

// Which cluster and shard are ours is the caller's knowledge; the claims must reach it unchanged.
TEST(RegistrationToken, BI18_ForeignClusterAndShardReachTheCaller) {
  const std::vector<PublicKey> keys = {RfcKey().public_key()};
  const auto claims = VerifyRegistrationToken(
      WithClaims(R"("cluster_id":"example-cluster","shard":"dc1-zone-a")",
                 R"("cluster_id":"other","shard":"elsewhere")"),
      {.keys = keys, .now = VectorNow(), .kind = TokenKind::kAgent, .source = {}});
  ASSERT_TRUE(claims.has_value());
  EXPECT_EQ(claims->cluster, "other");
  EXPECT_EQ(claims->shard, "elsewhere");
  ExpectUnauthenticated(WithClaims(R"("example-cluster")", R"("../x")"), "cluster");
  ExpectUnauthenticated(WithClaims(R"("example-cluster")", R"("")"), "cluster");
  ExpectUnauthenticated(WithClaims(R"("dc1-zone-a")", R"("a/b")"), "shard");
  ExpectUnauthenticated(WithClaims(R"("control-plane")", R"("a/b")"), "group");
}

TEST(RegistrationToken, BI19_TheKindMustBeTheExpectedOne) {
  const std::string agent = SignRegistrationToken(VectorClaims(), RfcKey());
  EXPECT_TRUE(Verdict(agent, TokenKind::kOperator).starts_with("UNAUTHENTICATED"));
  for (const std::string_view kind : {"operator", "AGENT", "Agent", "", "agent "}) {
    ExpectUnauthenticated(WithClaims(R"("kind":"agent")", fmt::format(R"("kind":"{}")", kind)),
                          "kind");
  }
  ExpectUnauthenticated(WithClaims(R"("kind":"agent")", R"("kind":["agent"])"), "kind");
  ExpectUnauthenticated(WithClaims(R"("kind":"agent",)", ""), "kind");
}

TEST(RegistrationToken, BI20_TheTenantMustBeAName) {
  constexpr std::string_view kTenant = R"("tenant":"prod")";
  ExpectUnauthenticated(WithClaims(R"(,"tenant":"prod")", ""), "tenant");
  for (const std::string& tenant :
       {std::string(), std::string("a.b"), std::string(33, 'a'), std::string("Prod"),
        std::string("pr\\u0000od"), std::string("-a"), std::string("a--b")}) {
    ExpectUnauthenticated(WithClaims(kTenant, fmt::format(R"("tenant":"{}")", tenant)), "tenant");
  }
  ExpectUnauthenticated(WithClaims(kTenant, R"("tenant":{"a":"prod"})"), "tenant");
  EXPECT_EQ(Verdict(WithClaims(kTenant, R"("tenant":"default")")), "ok");
}

TEST(RegistrationToken, BI21_TheSubjectMustBeAnIdInOurSpelling) {
  constexpr std::string_view kSubject = R"("sub":"knc06bgm7733st2576nx5jht4ecjw")";
  for (const std::string_view subject :
       {"", "KNC06BGM7733ST2576NX5JHT4ECJW", "knc-06bgm7733st2576nx5jht4ecjw", "example-cluster",
        "knc06bgm7733st2576nx5jht4ecjx", "knc06bgm7733st2576nx5jht4ecj"}) {
    ExpectUnauthenticated(WithClaims(kSubject, fmt::format(R"("sub":"{}")", subject)), "sub");
  }
}

TEST(RegistrationToken, BI25_SignaturesOfRetiredKeysAreRefused) {
  ExpectUnauthenticated(SignRegistrationToken(VectorClaims(), KeyOf(3)), "signature");
  EXPECT_EQ(Verdict(SignRegistrationToken(VectorClaims(), KeyOf(9))), "ok") << "a second key";
}

TEST(RegistrationToken, BI27_DeepNestingIsRefusedWithoutRecursion) {
  const std::string open(1'300, '[');
  ExpectUnauthenticated(WithClaims("false", open + std::string(1'300, ']')), "claims");
  ExpectUnauthenticated(WithClaims("false", std::string(2'600, '[')), "claims");
  EXPECT_TRUE(Verdict(WithClaims("false", std::string(100'000, '['))).starts_with("RESOURCE"));
}

TEST(RegistrationToken, BI28_ClaimsMustBeAJsonObject) {
  for (const std::string_view claims :
       {std::string_view("[]"), std::string_view("1"), std::string_view("null"),
        std::string_view("\xEF\xBB\xBF{}"), std::string_view("{\0}\0", 4), std::string_view(""),
        std::string_view("{"), std::string_view("{}{}"), std::string_view("\"x\""),
        std::string_view("{\"a\":\"\xFF\"}")}) {
    ExpectUnauthenticated(SignRaw(kGoodHeader, claims, RfcKey()), "claims");
    ExpectUnauthenticated(SignRaw(claims, "{}", RfcKey()), "header");
  }
}

// The signature is checked before the claims are looked at: storage and parsers are not for
// strangers.
TEST(RegistrationToken, TheSignatureIsCheckedBeforeTheClaims) {
  ExpectUnauthenticated(SignRaw(kGoodHeader, "not json", KeyOf(3)), "signature");
  ExpectUnauthenticated(SignRaw(R"({"alg":"none"})", "not json", KeyOf(3)), "alg");
}

TEST(RegistrationToken, RandomTextIsRefused) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Prng prng(seed);
    std::string token = SignRegistrationToken(VectorClaims(), RfcKey());
    for (std::uint64_t n = 1 + prng.Below(5); n > 0; --n) {
      token[prng.Below(token.size())] = static_cast<char>(prng.Below(256));
    }
    if (prng.Chance(1, 2)) token.resize(prng.Below(token.size()));
    const std::string verdict = Verdict(token);
    EXPECT_TRUE(verdict.starts_with("UNAUTHENTICATED") ||
                token == SignRegistrationToken(VectorClaims(), RfcKey()))
        << "seed " << seed << ": " << verdict;
  }
}

TEST(RegistrationToken, RefusalsDoNotQuoteTheToken) {
  const std::string good = SignRegistrationToken(VectorClaims(), RfcKey());
  for (const std::string& token : {good + "=", good + ".x", "x" + good}) {
    EXPECT_EQ(Verdict(token).find(good.substr(100, 30)), std::string::npos);
  }
}

TEST(JoinProof, IsTheSignatureOverTheDescribedBytes) {
  const PrivateKey key = KeyOf(5);
  std::string message("nstance-join-v1\0", 16);
  message += AsText(Sha256(AsBytes("token")));
  message += "example-cluster";
  message += '\0';
  message += AsText(key.public_key().ToSpki());
  EXPECT_EQ(SignJoinProof(key, "token", Cluster()), key.Sign(AsBytes(message)));
}

TEST(JoinProof, BI34_ProofsOverAnotherTokenKeyOrClusterAreRefused) {
  const PrivateKey key = KeyOf(5);
  const Signature proof = SignJoinProof(key, "token", Cluster());
  const auto code = [&](const PublicKey& by, std::string_view token, std::string_view cluster) {
    const Status status = VerifyJoinProof(by, token, test::Must(ClusterId::Parse(cluster)), proof);
    return status.has_value() ? "ok" : CodeName(status.error().code);
  };
  EXPECT_EQ(code(key.public_key(), "token", "example-cluster"), "ok");
  EXPECT_EQ(code(key.public_key(), "tokem", "example-cluster"), "UNAUTHENTICATED");
  EXPECT_EQ(code(KeyOf(6).public_key(), "token", "example-cluster"), "UNAUTHENTICATED");
  EXPECT_EQ(code(key.public_key(), "token", "other-cluster"), "UNAUTHENTICATED");
  EXPECT_FALSE(VerifyJoinProof(key.public_key(), "token", Cluster(), {}).has_value());
  EXPECT_FALSE(VerifyJoinProof(key.public_key(), "token", Cluster(), std::span(proof).first(63))
                   .has_value());
}

}  // namespace
}  // namespace nstance::crypto

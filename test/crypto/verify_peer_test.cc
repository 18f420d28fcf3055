// VerifyPeer: good certificates of our own authority, then hostile ones forged with OpenSSL and
// signed by the right root, so that each is refused by the rule it breaks and by nothing else.
#include "crypto/verify_peer.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/err.h>

#include "crypto/certificate_authority.h"
#include "test/crypto/certificate_forge.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::crypto {
namespace {

using test::Agent;
using test::Authority;
using test::CountingSource;
using test::Forge;
using test::ForgedPart;
using test::ForgedRole;
using test::ForgeKey;
using test::ForgeKeyKind;
using test::ForgeSpec;
using test::KeyOf;
using test::Must;
using test::Noon;
using test::Operator;
using test::Terms;

constexpr int kUtf8String = 12;
constexpr int kPrintableString = 19;
constexpr int kT61String = 20;
constexpr int kIa5String = 22;
constexpr int kBmpString = 30;

const Bytes& AgentRole() {
  static const Bytes value = test::Hex("13056167656e74");
  return value;
}
const Bytes& OperatorRole() {
  static const Bytes value = test::Hex("13086f70657261746f72");
  return value;
}

class VerifyPeerTest : public ::testing::Test {
 protected:
  VerifyPeerTest() : roots_{ca_.certificate()} {}

  [[nodiscard]] PeerVerdict Verify(const std::vector<Bytes>& chain,
                                   PeerUsage usage = PeerUsage::kClient) const {
    CountingSource counting;
    PeerVerdict verdict = VerifyPeer({.chain = chain,
                                      .roots = roots_,
                                      .now = now_,
                                      .usage = usage,
                                      .source = counting.source()});
    const bool bad = !verdict.chain.has_value() ||
                     (usage == PeerUsage::kClient && !verdict.identity.has_value());
    EXPECT_EQ(counting.Bad(), bad ? 1U : 0U);
    EXPECT_EQ(ERR_peek_error(), 0U) << "the error queue belongs to the connection";
    return verdict;
  }

  // "ok", "chain: reason" or "identity: reason".
  [[nodiscard]] std::string Outcome(const std::vector<Bytes>& chain,
                                    PeerUsage usage = PeerUsage::kClient) const {
    const PeerVerdict verdict = Verify(chain, usage);
    if (!verdict.chain.has_value()) {
      EXPECT_FALSE(verdict.identity.has_value());
      EXPECT_TRUE(verdict.chain.error().code == Code::kUnauthenticated ||
                  verdict.chain.error().code == Code::kResourceExhausted);
      return "chain: " + verdict.chain.error().message;
    }
    if (usage == PeerUsage::kServer || verdict.identity.has_value()) return "ok";
    EXPECT_EQ(verdict.identity.error().code, Code::kUnauthenticated);
    return "identity: " + verdict.identity.error().message;
  }

  [[nodiscard]] ForgeSpec GoodAgent() const {
    ForgeSpec spec;
    spec.subject = {{.field = "O", .value = "prod"},
                    {.field = "CN", .value = std::string(test::kInstance)}};
    spec.not_before = Noon() - Duration::Minutes(5);
    spec.not_after = Noon() + Duration::Hours(24);
    spec.roles = {{.value = AgentRole()}};
    return spec;
  }

  [[nodiscard]] ForgeSpec ForgedCa() const {
    ForgeSpec spec;
    spec.subject = {{.field = "CN", .value = "intermediate"}};
    spec.not_before = Noon() - Duration::Hours(1);
    spec.not_after = Noon() + Duration::Hours(1'000);
    spec.basic_constraints = "critical,CA:TRUE";
    spec.key_usage = "critical,keyCertSign";
    spec.extended_key_usage = "";
    return spec;
  }

  // Signed by the root.
  [[nodiscard]] Bytes Forged(const ForgeSpec& spec) const { return Forged(spec, leaf_key_); }
  [[nodiscard]] Bytes Forged(const ForgeSpec& spec, const ForgeKey& key) const {
    return Forge(spec, key, {.certificate = &ca_.certificate().der(), .key = root_key_});
  }

  [[nodiscard]] std::string OutcomeOf(const ForgeSpec& spec) const {
    return Outcome({Forged(spec)});
  }

  CertificateAuthority ca_ = Authority();
  ForgeKey root_key_{KeyOf(1).native_handle()};
  ForgeKey leaf_key_;
  std::vector<Certificate> roots_;
  Timestamp now_ = Noon();
};

TEST_F(VerifyPeerTest, OurAgentsHaveTheirIdentity) {
  const Certificate leaf = Must(ca_.IssueClient(Agent(), KeyOf(2).public_key(), Terms()));
  const PeerVerdict verdict = Verify({leaf.der()});
  ASSERT_TRUE(verdict.chain.has_value()) << verdict.chain.error().ToString();
  ASSERT_TRUE(verdict.identity.has_value()) << verdict.identity.error().ToString();
  EXPECT_EQ(*verdict.identity, (PeerIdentity{.role = Role::kAgent,
                                             .tenant = test::Tenant("prod"),
                                             .id = std::string(test::kInstance),
                                             .serial = test::SerialOf(0x11).decimal(),
                                             .key_sha256 = KeyOf(2).public_key().SpkiSha256(),
                                             .not_after = Noon() + Duration::Hours(24),
                                             .pool = PoolState::kNone}));
}

TEST_F(VerifyPeerTest, UnclaimedPoolMembersAreTold) {
  AgentSubject agent = Agent();
  agent.pool = PoolState::kUnclaimed;
  const Certificate leaf = Must(ca_.IssueClient(agent, KeyOf(2).public_key(), Terms()));
  const PeerVerdict verdict = Verify({leaf.der()});
  ASSERT_TRUE(verdict.identity.has_value()) << verdict.identity.error().ToString();
  EXPECT_EQ(verdict.identity->pool, PoolState::kUnclaimed);
}

TEST_F(VerifyPeerTest, OperatorsAreClustersOrOprIds) {
  OperatorSubject subject = Operator();
  const PeerVerdict cluster =
      Verify({Must(ca_.IssueClient(subject, KeyOf(2).public_key(), Terms())).der()});
  ASSERT_TRUE(cluster.identity.has_value());
  EXPECT_EQ(cluster.identity->role, Role::kOperator);
  EXPECT_EQ(cluster.identity->id, "example-cluster");
  subject.id = Puidv7("opr", test::Instance().uuid());
  const PeerVerdict admin =
      Verify({Must(ca_.IssueClient(subject, KeyOf(2).public_key(), Terms())).der()});
  ASSERT_TRUE(admin.identity.has_value());
  EXPECT_EQ(admin.identity->id, "opr06bgm7733st2576nx5jht4ecjw");
}

TEST_F(VerifyPeerTest, TheForgeMakesGoodCertificatesToo) {
  EXPECT_EQ(OutcomeOf(GoodAgent()), "ok");
  ForgeSpec op = GoodAgent();
  op.subject[1].value = "example-cluster";
  op.roles = {{.value = OperatorRole()}};
  EXPECT_EQ(OutcomeOf(op), "ok");
  ForgeSpec reversed = GoodAgent();
  std::ranges::reverse(reversed.subject);
  EXPECT_EQ(OutcomeOf(reversed), "ok") << "both subject orders";
  ForgeSpec utf8 = GoodAgent();
  for (ForgedPart& part : utf8.subject) part.string_type = kUtf8String;
  EXPECT_EQ(OutcomeOf(utf8), "ok");
}

TEST_F(VerifyPeerTest, ServersAreVerifiedWithoutIdentity) {
  const Certificate server = Must(ca_.IssueServer({}, KeyOf(2).public_key(), Terms()));
  EXPECT_EQ(Outcome({server.der()}, PeerUsage::kServer), "ok");
  EXPECT_FALSE(Verify({server.der()}, PeerUsage::kServer).identity.has_value());
  const Certificate agent = Must(ca_.IssueClient(Agent(), KeyOf(2).public_key(), Terms()));
  EXPECT_EQ(Outcome({agent.der()}, PeerUsage::kServer),
            "chain: leaf has no extended key usage serverAuth");
}

TEST_F(VerifyPeerTest, ThePresentedRootAndStrangersDoNotHurt) {
  const Bytes leaf = Forged(GoodAgent());
  EXPECT_EQ(Outcome({leaf, ca_.certificate().der()}), "ok");
  EXPECT_EQ(Outcome({leaf, Authority(7).certificate().der(), ca_.certificate().der()}), "ok");
}

TEST_F(VerifyPeerTest, AnyRootOfTheBundleCounts) {
  const Bytes leaf = Forged(GoodAgent());
  roots_ = {Authority(7).certificate(), ca_.certificate(), Authority(8).certificate()};
  EXPECT_EQ(Outcome({leaf}), "ok");
  roots_ = {Authority(7).certificate()};
  EXPECT_NE(Outcome({leaf}), "ok");
  roots_.clear();
  EXPECT_NE(Outcome({leaf}), "ok");
}

// A renewed root has the name and the key of the old one; the one that is valid must be found.
TEST_F(VerifyPeerTest, AnExpiredRootNextToItsRenewalDoesNotHurt) {
  const CaSubject subject = {.common_name = "Nstance CA",
                             .organization = {"Nstance Cluster example-cluster"}};
  const Certificate expired =
      Must(IssueCa(subject, KeyOf(1), Terms(Duration::Hours(1), Noon() - Duration::Hours(100))));
  ASSERT_EQ(expired.facts().subject_der, ca_.certificate().facts().subject_der);
  const Bytes leaf = Forged(GoodAgent());
  roots_ = {expired, ca_.certificate()};
  EXPECT_EQ(Outcome({leaf}), "ok");
  roots_ = {expired};
  EXPECT_NE(Outcome({leaf}), "ok");
}

TEST_F(VerifyPeerTest, BI41_OtherAuthoritiesWithOurNamesAreRefused) {
  const CertificateAuthority other = Authority(2);
  ASSERT_EQ(other.certificate().facts().subject_der, ca_.certificate().facts().subject_der);
  const Bytes leaf = Must(other.IssueClient(Agent(), KeyOf(3).public_key(), Terms())).der();
  EXPECT_TRUE(Outcome({leaf}).starts_with("chain: chain: "));
  EXPECT_TRUE(Outcome({leaf, other.certificate().der()}).starts_with("chain: chain: "));
}

TEST_F(VerifyPeerTest, BI41_SelfSignedWithOurRoleIsRefused) {
  const Bytes self_signed =
      Forge(GoodAgent(), leaf_key_, {.certificate = nullptr, .key = leaf_key_});
  EXPECT_TRUE(Outcome({self_signed}).starts_with("chain: chain: "));
  const Bytes named_like_ours =
      Forge(GoodAgent(), leaf_key_, {.certificate = &ca_.certificate().der(), .key = leaf_key_});
  EXPECT_TRUE(Outcome({named_like_ours}).starts_with("chain: chain: "));
}

TEST_F(VerifyPeerTest, BI42_TimesHaveThirtySecondsOfTolerance) {
  const ForgeSpec spec = GoodAgent();
  const std::vector<Bytes> chain = {Forged(spec)};
  const auto at = [&](Timestamp now) {
    now_ = now;
    return Outcome(chain) == "ok";
  };
  EXPECT_TRUE(at(spec.not_before - Duration::Seconds(30)));
  EXPECT_FALSE(at(spec.not_before - Duration::Seconds(31)));
  EXPECT_TRUE(at(spec.not_after + Duration::Seconds(30)));
  EXPECT_FALSE(at(spec.not_after + Duration::Seconds(31)));
  EXPECT_FALSE(at(Noon() + Duration::Days(400)));
  EXPECT_FALSE(at(Noon() - Duration::Days(400)));
}

TEST_F(VerifyPeerTest, BI42_RootsAndIntermediatesMustBeValidToo) {
  const ForgeKey middle_key;
  ForgeSpec middle = ForgedCa();
  const auto with_middle = [&] {
    const Bytes issuer = Forged(middle, middle_key);
    return Outcome(
        {Forge(GoodAgent(), leaf_key_, {.certificate = &issuer, .key = middle_key}), issuer});
  };
  EXPECT_EQ(with_middle(), "ok");
  middle.not_after = Noon() - Duration::Seconds(29);
  EXPECT_EQ(with_middle(), "ok");
  middle.not_after = Noon() - Duration::Seconds(31);
  EXPECT_NE(with_middle(), "ok");
  middle.not_after = Noon() + Duration::Hours(1);
  middle.not_before = Noon() + Duration::Seconds(31);
  EXPECT_NE(with_middle(), "ok");

  const CaSubject subject = {.common_name = "Nstance CA",
                             .organization = {"Nstance Cluster example-cluster"}};
  const auto with_root_ending_at = [&](Timestamp end) {
    const Timestamp start = end - Duration::Hours(10);
    roots_ = {Must(IssueCa(subject, KeyOf(1), Terms(Duration::Hours(10), start)))};
    return Outcome({Forged(GoodAgent())});
  };
  EXPECT_EQ(with_root_ending_at(Noon() - Duration::Seconds(30)), "ok");
  EXPECT_NE(with_root_ending_at(Noon() - Duration::Seconds(31)), "ok");
}

TEST_F(VerifyPeerTest, BI42_LongLivesAreRefused) {
  const auto with_life = [&](Duration life) {
    ForgeSpec spec = GoodAgent();
    spec.not_after = spec.not_before + life;
    return OutcomeOf(spec);
  };
  EXPECT_EQ(with_life(Duration::Hours(8'760) + Duration::Minutes(10)), "ok");
  EXPECT_NE(with_life(Duration::Hours(8'760) + Duration::Minutes(10) + Duration::Seconds(1)), "ok");
  ForgeSpec forever = GoodAgent();
  forever.not_after = Timestamp::FromUnix(253'402'300'799);
  EXPECT_TRUE(OutcomeOf(forever).starts_with("chain: leaf has a life of"));
  ForgeSpec backward = GoodAgent();
  backward.not_before = Noon() + Duration::Seconds(10);
  backward.not_after = Noon() - Duration::Seconds(10);
  EXPECT_NE(OutcomeOf(backward), "ok");
}

TEST_F(VerifyPeerTest, BI42_SerialsMustBePositiveAndShort) {
  const auto with_serial = [&](std::string hex) {
    ForgeSpec spec = GoodAgent();
    spec.serial_hex = std::move(hex);
    return OutcomeOf(spec);
  };
  EXPECT_EQ(with_serial("7f" + std::string(38, 'f')), "ok");
  EXPECT_EQ(with_serial("1"), "ok");
  EXPECT_NE(with_serial("0").find("serial number is not positive"), std::string::npos);
  EXPECT_NE(with_serial("-1").find("serial number is not positive"), std::string::npos);
  EXPECT_NE(with_serial("-7fffffffffffffff").find("not positive"), std::string::npos);
  EXPECT_NE(with_serial("ff" + std::string(38, 'f')).find("21 bytes"), std::string::npos);
  EXPECT_NE(with_serial("1" + std::string(40, '0')).find("21 bytes"), std::string::npos);
  EXPECT_NE(with_serial(std::string(200, '1')).find("bytes"), std::string::npos);
}

TEST_F(VerifyPeerTest, BI43_ServerCertificatesAreNoClients) {
  const Certificate server = Must(ca_.IssueServer({}, KeyOf(2).public_key(), Terms()));
  EXPECT_EQ(Outcome({server.der()}), "chain: leaf has no extended key usage clientAuth");
}

TEST_F(VerifyPeerTest, BI44_TheOrganizationMustBeOneTenantName) {
  const auto with_parts = [&](std::vector<ForgedPart> parts) {
    ForgeSpec spec = GoodAgent();
    spec.subject = std::move(parts);
    spec.subject.push_back({.field = "CN", .value = std::string(test::kInstance)});
    return OutcomeOf(spec);
  };
  const auto with_o = [&](std::string value, int type) {
    return with_parts({{.field = "O", .value = std::move(value), .string_type = type}});
  };
  EXPECT_EQ(with_o("prod", kPrintableString), "ok");
  EXPECT_EQ(with_parts({}), "identity: subject has no O");
  EXPECT_EQ(with_parts({{.field = "O", .value = "prod"}, {.field = "O", .value = "prod"}}),
            "identity: subject has more than one O");
  EXPECT_EQ(with_parts({{.field = "O", .value = "prod"},
                        {.field = "O", .value = "dev", .set = ForgedPart::Set::kShared}}),
            "identity: subject has more than one O")
      << "two values in one SET";
  EXPECT_EQ(with_o(std::string("prod\0dev", 8), kUtf8String),
            "identity: O of the subject holds NUL");
  EXPECT_EQ(with_o(std::string("prod\0", 5), kUtf8String), "identity: O of the subject holds NUL");
  EXPECT_EQ(with_o(std::string("\0p\0r\0o\0d", 8), kBmpString),
            "identity: O of the subject is of string type 0x1e");
  EXPECT_EQ(with_o("prod", kT61String), "identity: O of the subject is of string type 0x14");
  EXPECT_EQ(with_o("prod", kIa5String), "identity: O of the subject is of string type 0x16");
  for (const char* value : {"", "Prod", "a.b", "../x", "prod ", "a--b"}) {
    EXPECT_TRUE(with_o(value, kUtf8String).starts_with("identity: O of the subject: ")) << value;
  }
}

TEST_F(VerifyPeerTest, BI44_TheCommonNameMustBeOneIdOfItsRole) {
  const auto with_cn = [&](std::vector<std::string> names, const Bytes& role) {
    ForgeSpec spec = GoodAgent();
    spec.subject.resize(1);
    spec.roles = {{.value = role}};
    for (std::string& name : names) {
      spec.subject.push_back({.field = "CN", .value = std::move(name)});
    }
    return OutcomeOf(spec);
  };
  const std::string instance(test::kInstance);
  EXPECT_EQ(with_cn({instance}, AgentRole()), "ok");
  EXPECT_EQ(with_cn({}, AgentRole()), "identity: subject has no CN");
  EXPECT_EQ(with_cn({instance, instance}, AgentRole()), "identity: subject has more than one CN");
  for (const char* name :
       {"example-cluster", "KNC06BGM7733ST2576NX5JHT4ECJW", "", "knc06bgm7733st2576nx5jht4ecjx"}) {
    EXPECT_TRUE(with_cn({name}, AgentRole()).starts_with("identity: CN ")) << name;
  }
  EXPECT_EQ(with_cn({"example-cluster"}, OperatorRole()), "ok");
  EXPECT_EQ(with_cn({"opr06bgm7733st2576nx5jht4ecjw"}, OperatorRole()), "ok");
  for (const char* name : {"Example", "a.b", "", "../../x"}) {
    EXPECT_TRUE(with_cn({name}, OperatorRole()).starts_with("identity: CN ")) << name;
  }
  ForgeSpec bmp = GoodAgent();
  bmp.subject[1].string_type = kT61String;
  EXPECT_EQ(OutcomeOf(bmp), "identity: CN of the subject is of string type 0x14");
}

TEST_F(VerifyPeerTest, OnlyAgentsMayHaveTheUnitPool) {
  const auto with_unit = [&](std::vector<ForgedPart> units) {
    ForgeSpec spec = GoodAgent();
    spec.subject.insert(spec.subject.begin() + 1, units.begin(), units.end());
    return spec;
  };
  ForgeSpec pool = with_unit({{.field = "OU", .value = "pool"}});
  EXPECT_EQ(OutcomeOf(pool), "ok");
  EXPECT_EQ(OutcomeOf(with_unit({{.field = "OU", .value = "Pool"}})),
            "identity: OU \"Pool\" of the subject is not known");
  EXPECT_EQ(OutcomeOf(with_unit({{.field = "OU", .value = ""}})),
            "identity: OU \"\" of the subject is not known");
  EXPECT_EQ(
      OutcomeOf(with_unit({{.field = "OU", .value = "pool"}, {.field = "OU", .value = "pool"}})),
      "identity: subject has more than one OU");
  pool.subject.back().value = "example-cluster";
  pool.roles = {{.value = OperatorRole()}};
  EXPECT_EQ(OutcomeOf(pool), "identity: OU \"pool\" of the subject is not known");
}

TEST_F(VerifyPeerTest, BI45_TheRoleMustStandOnceInItsOneForm) {
  const auto with_roles = [&](std::vector<ForgedRole> roles) {
    ForgeSpec spec = GoodAgent();
    spec.roles = std::move(roles);
    return OutcomeOf(spec);
  };
  EXPECT_EQ(with_roles({}), "identity: 0 role extensions, one belongs there");
  EXPECT_EQ(with_roles({{.value = AgentRole()}, {.value = AgentRole()}}),
            "identity: 2 role extensions, one belongs there");
  EXPECT_EQ(with_roles({{.value = AgentRole()}, {.value = OperatorRole()}}),
            "identity: 2 role extensions, one belongs there");
  const std::string unknown = "identity: role extension is not one that is known";
  for (const char* hex : {
           "1305416765 6e74",             // Agent
           "1306736572766572",            // server
           "0c056167656e74",              // UTF8String
           "16056167656e74",              // IA5String
           "13056167656e7400",            // trailing byte
           "1381056167656e74",            // length not minimal
           "330913056167656e74",          // constructed
           "6167656e74",                  // the bare word
           "", "1300", "13066167656e74",  // empty, empty string, cut
       }) {
    std::string digits = hex;
    std::erase(digits, ' ');
    EXPECT_EQ(with_roles({{.value = test::Hex(digits)}}), unknown) << hex;
  }
}

// Critical extensions that OpenSSL does not know fail the chain; our rule would refuse it as well.
TEST_F(VerifyPeerTest, BI45_ACriticalRoleIsRefused) {
  ForgeSpec spec = GoodAgent();
  spec.roles[0].critical = ForgedRole::Criticality::kYes;
  EXPECT_NE(OutcomeOf(spec), "ok");
}

TEST_F(VerifyPeerTest, UnknownCriticalExtensionsAreRefused) {
  ForgeSpec spec = GoodAgent();
  spec.unknown_critical_oid = "1.2.3.4";
  EXPECT_TRUE(OutcomeOf(spec).starts_with("chain: chain: "));
}

TEST_F(VerifyPeerTest, BI46_NothingBelowALeafIsAccepted) {
  const auto below = [&](const ForgeSpec& middle) {
    const ForgeKey middle_key;
    const Bytes issuer = Forged(middle, middle_key);
    return Outcome(
        {Forge(GoodAgent(), leaf_key_, {.certificate = &issuer, .key = middle_key}), issuer});
  };
  EXPECT_EQ(below(ForgedCa()), "ok") << "a real intermediate";
  EXPECT_TRUE(below(GoodAgent()).starts_with("chain: chain: "));
  ForgeSpec no_constraints = ForgedCa();
  no_constraints.basic_constraints = "";
  EXPECT_TRUE(below(no_constraints).starts_with("chain: chain: "));
  ForgeSpec no_signing = ForgedCa();
  no_signing.key_usage = "critical,digitalSignature";
  EXPECT_TRUE(below(no_signing).starts_with("chain: chain: "));
  ForgeSpec server_only = ForgedCa();
  server_only.extended_key_usage = "serverAuth";
  EXPECT_TRUE(below(server_only).starts_with("chain: chain: ")) << "usages nest";
}

TEST_F(VerifyPeerTest, PathLengthsAreKept) {
  std::vector<Bytes> chain;
  ForgeKey key = root_key_;
  Bytes issuer = ca_.certificate().der();
  for (int i = 0; i < 2; ++i) {
    const ForgeKey next;
    ForgeSpec spec = ForgedCa();
    spec.subject[0].value += std::to_string(i);
    issuer = Forge(spec, next, {.certificate = &issuer, .key = key});
    chain.insert(chain.begin(), issuer);
    key = next;
  }
  chain.insert(chain.begin(), Forge(GoodAgent(), leaf_key_, {.certificate = &issuer, .key = key}));
  EXPECT_EQ(Outcome(chain).substr(0, 14), "chain: chain: ") << "the root allows one intermediate";
}

TEST_F(VerifyPeerTest, BI46_AuthoritiesAreNoLeaves) {
  EXPECT_EQ(Outcome({ca_.certificate().der()}), "chain: leaf is the certificate of a CA");
  ForgeSpec spec = GoodAgent();
  spec.basic_constraints = "critical,CA:TRUE";
  EXPECT_EQ(OutcomeOf(spec), "chain: leaf is the certificate of a CA");
}

TEST_F(VerifyPeerTest, BI47_TheExtendedKeyUsageMustHoldTheUsage) {
  const auto with_usage = [&](std::string usage) {
    ForgeSpec spec = GoodAgent();
    spec.extended_key_usage = std::move(usage);
    return OutcomeOf(spec);
  };
  const std::string refused = "chain: leaf has no extended key usage clientAuth";
  EXPECT_EQ(with_usage("clientAuth,serverAuth"), "ok");
  EXPECT_EQ(with_usage("serverAuth"), refused);
  EXPECT_EQ(with_usage(""), refused);
  EXPECT_EQ(with_usage("anyExtendedKeyUsage"), refused);
  EXPECT_EQ(with_usage("codeSigning"), refused);
}

TEST_F(VerifyPeerTest, OtherKindsOfKeysAreRefused) {
  for (const ForgeKeyKind kind : {ForgeKeyKind::kRsa2048, ForgeKeyKind::kP256}) {
    EXPECT_NE(Outcome({Forged(GoodAgent(), ForgeKey(kind))}).find("only Ed25519 is accepted"),
              std::string::npos);
  }
}

TEST_F(VerifyPeerTest, WeakIntermediatesAreRefused) {
  const auto below = [&](ForgeKeyKind kind) {
    const ForgeKey middle_key(kind);
    const Bytes issuer = Forged(ForgedCa(), middle_key);
    return Outcome(
        {Forge(GoodAgent(), leaf_key_, {.certificate = &issuer, .key = middle_key}), issuer});
  };
  EXPECT_EQ(below(ForgeKeyKind::kP256), "ok");
  EXPECT_NE(below(ForgeKeyKind::kRsa1024), "ok");
}

TEST_F(VerifyPeerTest, BI49_LongListsAreRefusedBeforeTheyAreParsed) {
  const Bytes leaf = Forged(GoodAgent());
  EXPECT_EQ(Outcome({}), "chain: no certificate was presented");
  std::vector<Bytes> eight(8, ca_.certificate().der());
  eight[0] = leaf;
  EXPECT_EQ(Outcome(eight), "ok");
  eight.push_back(leaf);
  EXPECT_EQ(Outcome(eight), "chain: 9 certificates presented, 8 are allowed");
  EXPECT_EQ(Outcome(std::vector<Bytes>(100, leaf)),
            "chain: 100 certificates presented, 8 are allowed");
  const std::vector<Bytes> huge = {leaf, Bytes(1U << 20U)};
  EXPECT_EQ(Verify(huge).chain.error().code, Code::kResourceExhausted);
  EXPECT_EQ(Outcome({Bytes(kMaxChainBytes + 1)}),
            "chain: 65537 bytes of certificates presented, 65536 are allowed");
}

TEST_F(VerifyPeerTest, DoubledExtensionsAreRefused) {
  // The basic constraints twice: one says CA, the other does not.
  ForgeSpec spec = GoodAgent();
  spec.unknown_critical_oid = "2.5.29.19";
  EXPECT_NE(OutcomeOf(spec).find("one extension stands twice"), std::string::npos);
}

// One bit of each byte, another one each time.
TEST_F(VerifyPeerTest, AFlippedBitIsRefused) {
  const Bytes good = Must(ca_.IssueClient(Agent(), KeyOf(2).public_key(), Terms())).der();
  ASSERT_EQ(Outcome({good}), "ok");
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes changed = good;
    changed[i] = static_cast<std::uint8_t>(changed[i] ^ (1U << (i % 8)));
    EXPECT_TRUE(Outcome({changed}).starts_with("chain: ")) << "byte " << i;
  }
}

TEST_F(VerifyPeerTest, RandomDamageIsRefused) {
  const Bytes good = Must(ca_.IssueClient(Agent(), KeyOf(2).public_key(), Terms())).der();
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Prng prng(seed);
    Bytes changed = good;
    const std::uint64_t kind = prng.Below(3);
    if (kind == 0) changed.resize(prng.Below(changed.size()));
    if (kind == 1) changed.insert(changed.begin() + static_cast<long>(prng.Below(good.size())), 0);
    if (kind == 2) changed = test::RandomBytes(prng, prng.Below(600));
    EXPECT_TRUE(Outcome({changed}).starts_with("chain: ")) << "seed " << seed;
  }
}

TEST_F(VerifyPeerTest, RefusalsEscapeWhatThePeerWrote) {
  ForgeSpec spec = GoodAgent();
  spec.subject[1].value = "\x1b[31m\n\xE2\x80\xAE";
  spec.subject[1].string_type = kUtf8String;
  const std::string outcome = OutcomeOf(spec);
  EXPECT_EQ(outcome.find('\x1b'), std::string::npos);
  EXPECT_EQ(outcome.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace nstance::crypto

// Certificates: what is issued is read back, compared byte by byte with the tables of the format,
// and refused where the format says so. OpenSSL's and Go's opinion is in openssl_test.cc and
// go_test.cc.
#include "crypto/certificate.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "crypto/certificate_authority.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::crypto {
namespace {

using test::Agent;
using test::At;
using test::Authority;
using test::Hex;
using test::KeyOf;
using test::Must;
using test::Noon;
using test::Operator;
using test::Terms;

bool Contains(const Bytes& haystack, const Bytes& needle) {
  return !std::ranges::search(haystack, needle).empty();
}

Certificate AgentCertificate() {
  return Must(Authority().IssueClient(Agent(), KeyOf(2).public_key(), Terms()));
}

SubjectPart Printable(SubjectAttribute attribute, std::string value) {
  return {.attribute = attribute, .string_tag = 0x13, .value = std::move(value)};
}

TEST(Certificate, RoleExtensionsMatchTheTable) {
  const auto role = Hex("301406092b06010401bd843f01040713056167656e74");
  EXPECT_TRUE(std::ranges::equal(RoleExtension(Role::kAgent), role));
  EXPECT_TRUE(Contains(AgentCertificate().der(), role));
  const auto op = Hex("301706092b06010401bd843f01040a13086f70657261746f72");
  EXPECT_TRUE(std::ranges::equal(RoleExtension(Role::kOperator), op));
  const Certificate certificate =
      Must(Authority().IssueClient(Operator(), KeyOf(2).public_key(), Terms()));
  EXPECT_TRUE(Contains(certificate.der(), op));
  EXPECT_FALSE(Contains(certificate.der(), role));
  EXPECT_EQ(RoleName(Role::kAgent), "agent");
  EXPECT_EQ(RoleName(Role::kOperator), "operator");
}

TEST(Certificate, ExtensionsHaveTheirBytesAndCriticality) {
  const Bytes leaf = AgentCertificate().der();
  EXPECT_TRUE(Contains(leaf, Hex("300e0603551d0f0101ff040403020780"))) << "digitalSignature";
  EXPECT_TRUE(Contains(leaf, Hex("300c0603551d130101ff04023000"))) << "CA false";
  EXPECT_TRUE(Contains(leaf, Hex("30130603551d25040c300a06082b06010505070302"))) << "clientAuth";
  const Bytes ca = Authority().certificate().der();
  EXPECT_TRUE(Contains(ca, Hex("300e0603551d0f0101ff040403020284"))) << "and keyCertSign";
  EXPECT_TRUE(Contains(ca, Hex("30120603551d130101ff040830060101ff020101"))) << "CA, path length 1";
  EXPECT_TRUE(Contains(ca, Hex("301d0603551d250416301406082b0601050507030106082b06010505070302")));
}

TEST(Certificate, KeyIdentifiersChain) {
  const CertificateAuthority ca = Authority();
  const Certificate leaf = AgentCertificate();
  const Sha256Digest digest = Sha256(KeyOf(1).public_key().raw());
  const Bytes expected(digest.begin(), digest.begin() + 20);
  EXPECT_EQ(ca.certificate().facts().subject_key_id, expected);
  EXPECT_EQ(leaf.facts().subject_key_id.size(), 20U);
  Bytes authority = Hex("301f0603551d23041830168014");
  authority.insert(authority.end(), expected.begin(), expected.end());
  EXPECT_TRUE(Contains(leaf.der(), authority));
  EXPECT_FALSE(Contains(ca.certificate().der(), Hex("0603551d23"))) << "a root names no authority";
}

TEST(Certificate, CaReadsBack) {
  const CertificateFacts facts = Authority().certificate().facts();
  EXPECT_EQ(facts.serial.decimal(), "1");
  EXPECT_EQ(facts.subject,
            (std::vector<SubjectPart>{
                Printable(SubjectAttribute::kCountry, "US"),
                Printable(SubjectAttribute::kOrganization, "Nstance Cluster example-cluster"),
                Printable(SubjectAttribute::kCommonName, "Nstance CA")}));
  EXPECT_EQ(facts.subject_der, facts.issuer_der);
  EXPECT_TRUE(facts.is_ca && facts.may_sign && facts.client_auth && facts.server_auth);
  EXPECT_EQ(facts.not_before, At("2026-01-01T10:55:00Z"));
  EXPECT_EQ(facts.not_after, At("2026-01-01T11:00:00Z") + Duration::Hours(87'600));
  EXPECT_EQ(facts.names, AlternativeNames{});
  EXPECT_TRUE(facts.roles.empty());
}

TEST(Certificate, ClientReadsBack) {
  const Certificate certificate = AgentCertificate();
  const CertificateFacts& facts = certificate.facts();
  EXPECT_EQ(facts.subject,
            (std::vector<SubjectPart>{
                Printable(SubjectAttribute::kOrganization, "prod"),
                Printable(SubjectAttribute::kCommonName, std::string(test::kInstance))}));
  EXPECT_EQ(facts.issuer_der, Authority().certificate().facts().subject_der);
  EXPECT_EQ(facts.serial.decimal(), "22685491128062564230891640495451214097");
  EXPECT_EQ(facts.public_key, KeyOf(2).public_key());
  EXPECT_EQ(facts.not_before, At("2026-01-01T11:55:00Z"));
  EXPECT_EQ(facts.not_after, At("2026-01-02T12:00:00Z"));
  EXPECT_FALSE(facts.is_ca || facts.may_sign || facts.server_auth);
  EXPECT_TRUE(facts.client_auth);
  EXPECT_EQ(certificate.OnlyPart(SubjectAttribute::kOrganization), "prod");
  EXPECT_EQ(certificate.OnlyPart(SubjectAttribute::kCountry), std::nullopt);
  EXPECT_EQ(Must(Certificate::FromPem(certificate.ToPem())), certificate);
}

TEST(Certificate, PoolMembersHaveTheUnit) {
  AgentSubject agent = Agent();
  agent.pool = PoolState::kUnclaimed;
  const Certificate certificate =
      Must(Authority().IssueClient(agent, KeyOf(2).public_key(), Terms()));
  EXPECT_EQ(certificate.OnlyPart(SubjectAttribute::kOrganizationalUnit), "pool");
  ASSERT_EQ(certificate.facts().subject.size(), 3U);
  EXPECT_EQ(certificate.facts().subject[1].attribute, SubjectAttribute::kOrganizationalUnit);
}

TEST(Certificate, OperatorIdsAreClusterOrOpr) {
  OperatorSubject subject = Operator();
  subject.id = Puidv7("opr", Must(ParsePuidv7(test::kInstance)).uuid());
  EXPECT_TRUE(Authority().IssueClient(subject, KeyOf(2).public_key(), Terms()).has_value());
  subject.id = Must(ParsePuidv7(test::kInstance));
  const auto refused = Authority().IssueClient(subject, KeyOf(2).public_key(), Terms());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST(Certificate, SameRequestGivesTheSameBytes) {
  EXPECT_EQ(AgentCertificate().der(), AgentCertificate().der());
  IssueTerms fraction = Terms();
  fraction.issued_at = fraction.issued_at + Duration::Milliseconds(900);
  EXPECT_EQ(Must(Authority().IssueClient(Agent(), KeyOf(2).public_key(), fraction)).der(),
            AgentCertificate().der())
      << "whole seconds";
  IssueTerms later = Terms();
  later.issued_at = later.issued_at + Duration::Seconds(1);
  EXPECT_NE(Must(Authority().IssueClient(Agent(), KeyOf(2).public_key(), later)).der(),
            AgentCertificate().der());
}

// The bytes of one whole certificate, so that a change of the encoder does not go unnoticed:
// records promise that a certificate can be made again byte for byte, also by a later version.
TEST(Certificate, BytesAreWhatTheyWere) {
  EXPECT_EQ(Sha256Hex(Authority().certificate().der()),
            "3de08f9cc2f5458c435c164d05959499230530768a34a5ac814940a54b57cebc");
  EXPECT_EQ(Sha256Hex(AgentCertificate().der()),
            "5c72b0e22808f25611c176d70d78475b7a3da6d43fb988c927a1f311433190b9");
}

TEST(Certificate, ServerHasTheFixedNamesAndTheHosts) {
  const ServerSubject subject = {.hosts = {"10.0.2.2", "server-1.example.com", "", "0.0.0.0",
                                           "::", "localhost", "127.0.0.1", "fd00::1", "10.0.2.2"}};
  const Certificate certificate =
      Must(Authority().IssueServer(subject, KeyOf(3).public_key(), Terms()));
  const CertificateFacts& facts = certificate.facts();
  EXPECT_EQ(facts.names.dns,
            (std::vector<std::string>{"nstance-server", "localhost", "server-1.example.com"}));
  EXPECT_EQ(facts.names.ip, (std::vector<std::string>{"127.0.0.1", "::1", "10.0.2.2", "fd00::1"}));
  EXPECT_EQ(certificate.OnlyPart(SubjectAttribute::kOrganization), "Nstance Server");
  EXPECT_EQ(certificate.OnlyPart(SubjectAttribute::kCommonName), "nstance-server");
  EXPECT_TRUE(facts.server_auth && !facts.client_auth && facts.roles.empty());
  const auto bad =
      Authority().IssueServer({.hosts = {"not a host"}}, KeyOf(3).public_key(), Terms());
  EXPECT_FALSE(bad.has_value());
}

FileSubject FullFileSubject() {
  FileSubject subject;
  subject.kind = FileCertificateKind::kServer;
  subject.common_name = "system:node:a";
  subject.organization = {"zeta", "system:nodes", " "};
  subject.country = {"DE"};
  subject.province = {"Bayern"};
  subject.locality = {"München"};
  subject.street = {"Weg 1"};
  subject.postal_code = {"80331"};
  subject.names = {.dns = {"a.example.com", "", "*.example.com"},
                   .ip = {"10.1.2.3", " ", "fd00::2", "::ffff:1.2.3.4"},
                   .uri = {"spiffe://cluster/ns/default"}};
  return subject;
}

TEST(Certificate, FileCertificatesCarryEverySubjectPartAndName) {
  const Certificate certificate =
      Must(Authority().IssueFile(FullFileSubject(), KeyOf(4).public_key(), Terms()));
  const CertificateFacts& facts = certificate.facts();
  const SubjectPart munich = {
      .attribute = SubjectAttribute::kLocality, .string_tag = 0x0c, .value = "München"};
  EXPECT_EQ(facts.subject,
            (std::vector<SubjectPart>{Printable(SubjectAttribute::kCountry, "DE"),
                                      Printable(SubjectAttribute::kProvince, "Bayern"), munich,
                                      Printable(SubjectAttribute::kStreet, "Weg 1"),
                                      Printable(SubjectAttribute::kPostalCode, "80331"),
                                      Printable(SubjectAttribute::kOrganization, "zeta"),
                                      Printable(SubjectAttribute::kOrganization, "system:nodes"),
                                      Printable(SubjectAttribute::kCommonName, "system:node:a")}))
      << "values of one attribute share a SET, whose elements DER orders by their bytes";
  EXPECT_EQ(facts.names.dns, (std::vector<std::string>{"a.example.com", "*.example.com"}));
  EXPECT_EQ(facts.names.ip, (std::vector<std::string>{"10.1.2.3", "fd00::2", "1.2.3.4"}));
  EXPECT_EQ(facts.names.uri, (std::vector<std::string>{"spiffe://cluster/ns/default"}));
  EXPECT_TRUE(facts.server_auth && !facts.client_auth);
  FileSubject client = FullFileSubject();
  client.kind = FileCertificateKind::kClient;
  const auto issued = Must(Authority().IssueFile(client, KeyOf(4).public_key(), Terms()));
  EXPECT_TRUE(issued.facts().client_auth && !issued.facts().server_auth);
  EXPECT_TRUE(issued.facts().roles.empty()) << "no role, hence no identity";
}

TEST(Certificate, StringTypesFollowGo) {
  const auto tag = [](std::string_view value) {
    FileSubject subject;
    subject.common_name = value;
    return Must(Authority().IssueFile(subject, KeyOf(4).public_key(), Terms()))
        .facts()
        .subject.front()
        .string_tag;
  };
  EXPECT_EQ(tag("aZ09 '()+,-./:=?"), 0x13);
  for (const std::string_view value : {"a*b", "a&b", "a@b", "a_b", "ä"}) {
    EXPECT_EQ(tag(value), 0x0c) << value;
  }
}

TEST(Certificate, FileCertificatesRefuseBadValues) {
  const auto refused = [](auto&& change) {
    FileSubject subject = FullFileSubject();
    change(subject);
    const auto issued = Authority().IssueFile(subject, KeyOf(4).public_key(), Terms());
    if (issued.has_value()) return false;
    EXPECT_EQ(issued.error().code, Code::kInvalidArgument);
    return true;
  };
  const auto names = [&](std::string dns, std::string ip, std::string uri) {
    return refused([&](FileSubject& s) { s.names = {.dns = {dns}, .ip = {ip}, .uri = {uri}}; });
  };
  EXPECT_FALSE(names("", "", ""));
  for (const char* dns : {"a b", "a..b", ".a", "a.", "-a", "a-", "a.*.b", "é.de", "a\nb", "*"}) {
    EXPECT_TRUE(names(dns, "", "")) << dns;
  }
  EXPECT_TRUE(names(std::string(64, 'a'), "", ""));
  for (const char* ip :
       {"1.2.3", "1.2.3.4.5", "010.1.1.1", "::g", "fe80::1%eth0", "1.2.3.4 ", "x"}) {
    EXPECT_TRUE(names("", ip, "")) << ip;
  }
  EXPECT_TRUE(names("", std::string("1.2.3.4\0x", 9), ""));
  for (const char* uri : {"example.com/x", "//host/x", ":x", "1a:x", "spiffe:", "a b:c", "x:a b"}) {
    EXPECT_TRUE(names("", "", uri)) << uri;
  }
  EXPECT_TRUE(refused([](FileSubject& s) { s.common_name = "  "; }));
  EXPECT_TRUE(refused([](FileSubject& s) { s.common_name = "a\nb"; }));
  EXPECT_TRUE(refused([](FileSubject& s) { s.common_name = std::string("a\0b", 3); }));
  EXPECT_TRUE(refused([](FileSubject& s) { s.common_name = "a\xFF"; }));
  EXPECT_TRUE(refused([](FileSubject& s) { s.common_name = std::string(257, 'a'); }));
  EXPECT_TRUE(refused([](FileSubject& s) { s.organization.assign(17, "a"); }));
  EXPECT_TRUE(refused([](FileSubject& s) { s.names.dns.assign(101, "a.example.com"); }));
}

TEST(CertificateAuthority, KeyAndCertificateMustBelongTogether) {
  const auto ca = CertificateAuthority::Make(Authority().certificate(), KeyOf(2));
  ASSERT_FALSE(ca.has_value());
  EXPECT_EQ(ca.error().message, "ca.key does not belong to ca.crt");
  EXPECT_EQ(ca.error().code, Code::kFailedPrecondition);
  const auto leaf = CertificateAuthority::Make(AgentCertificate(), KeyOf(2));
  ASSERT_FALSE(leaf.has_value());
  EXPECT_EQ(leaf.error().code, Code::kInvalidArgument);
}

TEST(CertificateAuthority, RefusesToIssueOutsideItsOwnLife) {
  const CertificateAuthority ca = Authority();
  const Timestamp end = ca.certificate().facts().not_after;
  const auto issue = [&](Timestamp at, Duration life) {
    return ca.IssueClient(Agent(), KeyOf(2).public_key(), Terms(life, at));
  };
  EXPECT_TRUE(issue(end - Duration::Hours(24), Duration::Hours(24)).has_value());
  const auto late = issue(end - Duration::Hours(23), Duration::Hours(24));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(late.error().message,
            "certificate would end at 2035-12-30T12:00:00Z, after the CA's end at "
            "2035-12-30T11:00:00Z");
  const Timestamp start = ca.certificate().facts().not_before;
  EXPECT_TRUE(issue(start, Duration::Hours(24)).has_value()) << "notBefore may precede the CA's";
  const auto early = issue(start - Duration::Minutes(1), Duration::Hours(24));
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code, Code::kFailedPrecondition);
}

TEST(CertificateAuthority, RefusesLivesThatNoPeerAccepts) {
  const auto client = [](Duration life) {
    return Authority().IssueClient(Agent(), KeyOf(2).public_key(), Terms(life)).has_value();
  };
  EXPECT_TRUE(client(Duration::Hours(8'760)));
  EXPECT_FALSE(client(Duration::Hours(8'760) + Duration::Seconds(1)));
  EXPECT_FALSE(client(Duration::Seconds(0)));
  EXPECT_FALSE(client(Duration::Seconds(-5)));
  FileSubject file;
  file.common_name = "x";
  EXPECT_TRUE(Authority()
                  .IssueFile(file, KeyOf(2).public_key(), Terms(Duration::Hours(17'520)))
                  .has_value());
}

TEST(CertificateAuthority, TimesFrom2050OnHaveFourDigitsForTheYear) {
  const PrivateKey key = KeyOf(1);
  const Certificate ca = Must(IssueCa({.common_name = "x", .organization = {}}, key,
                                      Terms(Duration::Hours(87'600), At("2049-12-31T23:59:00Z"))));
  EXPECT_TRUE(Contains(ca.der(), [] {
    const auto text = AsBytes(
        "\x17\x0d"
        "491231235400Z");
    return Bytes(text.begin(), text.end());
  }()));
  EXPECT_TRUE(Contains(ca.der(), [] {
    const auto text = AsBytes(
        "\x18\x0f"
        "20591229235900Z");
    return Bytes(text.begin(), text.end());
  }()));
  EXPECT_EQ(ca.facts().not_before, At("2049-12-31T23:54:00Z"));
  EXPECT_EQ(ca.facts().not_after, At("2059-12-29T23:59:00Z"));
}

// Nothing of a request but the key goes in: the typed request has no place for the rest.
TEST(CertificateAuthority, BI35_IssuedClientsHaveNothingThatARequestCouldAskFor) {
  const CertificateFacts facts = AgentCertificate().facts();
  EXPECT_FALSE(facts.is_ca);
  EXPECT_FALSE(facts.may_sign);
  EXPECT_FALSE(facts.server_auth);
  EXPECT_EQ(facts.names, AlternativeNames{});
  EXPECT_EQ(facts.roles.size(), 1U);
}

TEST(SerialNumber, ComesFromRandomBytesWithTheTopBitCleared) {
  std::array<std::uint8_t, 16> bytes{};
  bytes.fill(0xFF);
  EXPECT_EQ(SerialNumber::FromRandom(bytes).decimal(), "170141183460469231731687303715884105727");
  bytes.fill(0);
  EXPECT_EQ(SerialNumber::FromRandom(bytes).decimal(), "1");
  bytes.front() = 0x80;
  EXPECT_EQ(SerialNumber::FromRandom(bytes).decimal(), "1");
  bytes.back() = 200;
  EXPECT_EQ(SerialNumber::FromRandom(bytes).decimal(), "200");
  EXPECT_EQ(SerialNumber::FromRandom(bytes).der_content(), (Bytes{0, 200}));
}

TEST(SerialNumber, DecimalTextReadsBack) {
  Prng prng(1);
  for (int i = 0; i < 500; ++i) {
    Bytes random = test::RandomBytes(prng, 16);
    const auto serial = SerialNumber::FromRandom(std::span<const std::uint8_t, 16>(random));
    EXPECT_EQ(Must(SerialNumber::FromDecimal(serial.decimal())), serial);
    EXPECT_EQ(Must(SerialNumber::FromDer(serial.der_content())), serial);
  }
  EXPECT_EQ(Must(SerialNumber::FromDecimal("1767225600000000000")).decimal(),
            "1767225600000000000");
}

TEST(SerialNumber, RefusesWhatIsNotPositiveOrTooLong) {
  for (const std::string& text :
       {std::string(), std::string("0"), std::string("-1"), std::string("01"), std::string("1 "),
        std::string("0x1"), std::string("+1"), std::string(50, '1'), std::string(49, '9')}) {
    EXPECT_FALSE(SerialNumber::FromDecimal(text).has_value()) << text;
  }
  EXPECT_FALSE(SerialNumber::FromDer(Bytes{0}).has_value());
  EXPECT_FALSE(SerialNumber::FromDer(Bytes{0x80}).has_value());
  EXPECT_TRUE(SerialNumber::FromDer(Bytes(20, 0x7F)).has_value());
  EXPECT_FALSE(SerialNumber::FromDer(Bytes(21, 0x7F)).has_value());
  const std::string largest = Must(SerialNumber::FromDer([] {
                                Bytes content(20, 0xFF);
                                content.front() = 0x7F;
                                return content;
                              }()))
                                  .decimal();
  EXPECT_TRUE(SerialNumber::FromDecimal(largest).has_value());
  EXPECT_EQ(largest.size(), 48U);
}

TEST(TrustBundle, HoldsOneToFourRoots) {
  const std::string one = Authority(1).certificate().ToPem();
  const std::string two = Authority(2).certificate().ToPem();
  const auto roots = TrustBundleFromPem("# now\r\n" + one + "# next\n" + two);
  ASSERT_TRUE(roots.has_value()) << roots.error().ToString();
  ASSERT_EQ(roots->size(), 2U);
  EXPECT_EQ((*roots)[0], Authority(1).certificate());
  EXPECT_EQ((*roots)[1], Authority(2).certificate());
  test::CountingSource counting;
  EXPECT_FALSE(TrustBundleFromPem("", counting.source()).has_value());
  EXPECT_FALSE(TrustBundleFromPem(one + AgentCertificate().ToPem(), counting.source()).has_value());
  EXPECT_FALSE(TrustBundleFromPem(one + one + one + one + one, counting.source()).has_value());
  EXPECT_EQ(counting.Bad(), 3U);
}

TEST(Certificate, DamagedBytesNeverReadAsTheSameCertificate) {
  const Bytes good = AgentCertificate().der();
  for (std::uint64_t seed = 0; seed < 3'000; ++seed) {
    Prng prng(seed);
    Bytes bytes = good;
    for (std::uint64_t n = 1 + prng.Below(3); n > 0; --n) {
      bytes[prng.Below(bytes.size())] = static_cast<std::uint8_t>(prng.Below(256));
    }
    if (prng.Chance(1, 4)) bytes.resize(prng.Below(bytes.size()));
    const auto read = Certificate::FromDer(bytes);
    if (read.has_value()) {
      EXPECT_EQ(read->der(), bytes);
    }
    const auto random = Certificate::FromDer(test::RandomBytes(prng, prng.Below(300)));
    EXPECT_FALSE(random.has_value()) << "seed " << seed;
  }
}

TEST(Certificate, TrailingBytesAreRefused) {
  Bytes bytes = AgentCertificate().der();
  bytes.push_back(0);
  EXPECT_FALSE(Certificate::FromDer(bytes).has_value());
  EXPECT_FALSE(Certificate::FromDer({}).has_value());
}

}  // namespace
}  // namespace nstance::crypto

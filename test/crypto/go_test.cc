// Our certificates and tokens against Go's standard library, with which agents, operators and
// servers of the Go implementation are built: both sides issue and sign, both sides verify.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/prng.h"
#include "crypto/certificate_authority.h"
#include "crypto/registration_token.h"
#include "crypto/verify_peer.h"
#include "test/crypto/crypto_fixture.h"
#include "test/support/peers.h"
#include "test/support/process.h"

namespace nstance::crypto {
namespace {

using json::Value;
using test::Agent;
using test::Authority;
using test::KeyOf;
using test::Must;
using test::Noon;
using test::Operator;
using test::Terms;

Value Object(json::Object members) { return Value::Map(std::move(members)); }
json::Member Text(std::string key, std::string value) {
  return {.key = std::move(key), .key_position = {}, .value = Value::String(std::move(value))};
}
json::Member Number(std::string key, std::int64_t value) {
  return {.key = std::move(key), .key_position = {}, .value = Value::Integer(value)};
}
json::Member Texts(std::string key, const std::vector<std::string>& values) {
  json::Array items;
  for (const std::string& value : values) items.push_back(Value::String(value));
  return {.key = std::move(key), .key_position = {}, .value = Value::List(std::move(items))};
}

// The peer's answers, one per request; empty after a failure, which has been reported.
std::vector<Value> Ask(const std::string& peer, const std::string& mode,
                       const std::vector<Value>& requests) {
  std::string input;
  for (const Value& request : requests) input += json::Write(request) + "\n";
  const auto output = nstance::test::RunProcess({.argv = {peer, mode}, .input = input});
  EXPECT_TRUE(output.has_value()) << output.error().ToString();
  if (!output.has_value()) return {};
  EXPECT_EQ(output->exit_code, 0) << output->err;
  std::vector<Value> answers;
  for (std::string_view rest = output->out; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    answers.push_back(Must(json::Parse(line)));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  EXPECT_EQ(answers.size(), requests.size());
  return answers.size() == requests.size() ? answers : std::vector<Value>{};
}

std::string TextOf(const Value& answer, std::string_view key) {
  const Value* value = answer.Find(key);
  if (value == nullptr || value->if_string() == nullptr) {
    return fmt::format("no {} in {}", key, json::Write(answer));
  }
  return *value->if_string();
}

std::string JsonOf(const Value& answer, std::string_view key) {
  const Value* value = answer.Find(key);
  return value == nullptr ? "missing in " + json::Write(answer) : json::Write(*value);
}

Value VerifyRequest(const Certificate& leaf, const Certificate& root, std::string usage) {
  return Object({Texts("roots", {root.ToPem()}), Text("leaf", leaf.ToPem()),
                 Text("usage", std::move(usage)), Number("now", Noon().unix_seconds())});
}

TEST(CryptoGoTest, GoVerifiesOurClientCertificates) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_crypto");
  const CertificateAuthority ca = Authority();
  AgentSubject pool = Agent();
  pool.pool = PoolState::kUnclaimed;
  OperatorSubject admin = Operator();
  admin.id = Puidv7("opr", test::Instance().uuid());
  std::vector<Value> requests;
  for (const ClientSubject& subject :
       std::vector<ClientSubject>{Agent(), pool, Operator(), admin}) {
    const auto leaf = Must(ca.IssueClient(subject, KeyOf(2).public_key(), Terms()));
    requests.push_back(VerifyRequest(leaf, ca.certificate(), "client"));
  }
  const auto answers = Ask(peer, "verify", requests);
  ASSERT_EQ(answers.size(), 4U);
  for (const Value& answer : answers) {
    EXPECT_EQ(TextOf(answer, "error"), "");
    EXPECT_EQ(TextOf(answer, "serial"), test::SerialOf(0x11).decimal());
    EXPECT_EQ(JsonOf(answer, "key_usage"), "1");
    EXPECT_EQ(JsonOf(answer, "ext_usage"), "[2]");
    EXPECT_EQ(JsonOf(answer, "is_ca"), "false");
    EXPECT_EQ(JsonOf(answer, "dns") + JsonOf(answer, "ip") + JsonOf(answer, "uri"), "[][][]");
    EXPECT_EQ(JsonOf(answer, "critical"), R"(["2.5.29.15","2.5.29.19"])");
    EXPECT_EQ(TextOf(answer, "aki"), HexEncode(ca.certificate().facts().subject_key_id));
    EXPECT_EQ(JsonOf(answer, "not_before"), std::to_string(Noon().unix_seconds() - 300));
    EXPECT_EQ(JsonOf(answer, "not_after"), std::to_string(Noon().unix_seconds() + 86'400));
  }
  EXPECT_EQ(TextOf(answers[0], "subject"), fmt::format("CN={},O=prod", test::kInstance));
  EXPECT_EQ(TextOf(answers[1], "subject"), fmt::format("CN={},OU=pool,O=prod", test::kInstance));
  EXPECT_EQ(TextOf(answers[2], "subject"), "CN=example-cluster,O=prod");
  EXPECT_EQ(TextOf(answers[3], "subject"), "CN=opr06bgm7733st2576nx5jht4ecjw,O=prod");
  EXPECT_EQ(TextOf(answers[0], "role"), "13056167656e74");
  EXPECT_EQ(TextOf(answers[2], "role"), "13086f70657261746f72");
}

TEST(CryptoGoTest, GoVerifiesOurServerFileAndCaCertificates) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_crypto");
  const CertificateAuthority ca = Authority();
  const ServerSubject server = {.hosts = {"10.0.2.2", "server-1.example.com"}};
  const auto server_leaf = Must(ca.IssueServer(server, KeyOf(2).public_key(), Terms()));
  FileSubject file;
  file.common_name = "system:node:a";
  file.organization = {"system:nodes"};
  file.names = {.dns = {"*.example.com"},
                .ip = {"10.1.2.3", "fd00::2"},
                .uri = {"spiffe://cluster/ns/default"}};
  const auto file_leaf = Must(ca.IssueFile(file, KeyOf(3).public_key(), Terms()));
  Value named = VerifyRequest(server_leaf, ca.certificate(), "server");
  named.Set("dns", Value::String("10.0.2.2"));
  const auto answers = Ask(peer, "verify",
                           {named, VerifyRequest(file_leaf, ca.certificate(), "client"),
                            VerifyRequest(ca.certificate(), ca.certificate(), "client"),
                            VerifyRequest(server_leaf, ca.certificate(), "client"),
                            VerifyRequest(server_leaf, Authority(9).certificate(), "server")});
  ASSERT_EQ(answers.size(), 5U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(TextOf(answers[i], "error"), "") << i;
  EXPECT_EQ(JsonOf(answers[0], "dns"), R"(["nstance-server","localhost","server-1.example.com"])");
  EXPECT_EQ(JsonOf(answers[0], "ip"), R"(["127.0.0.1","::1","10.0.2.2"])");
  EXPECT_EQ(JsonOf(answers[0], "ext_usage"), "[1]");
  EXPECT_EQ(JsonOf(answers[1], "uri"), R"(["spiffe://cluster/ns/default"])");
  EXPECT_EQ(TextOf(answers[1], "role"), "");
  EXPECT_EQ(JsonOf(answers[2], "is_ca"), "true");
  EXPECT_EQ(JsonOf(answers[2], "path_len"), "1");
  EXPECT_EQ(JsonOf(answers[2], "key_usage"), "33") << "digitalSignature and keyCertSign";
  EXPECT_EQ(TextOf(answers[2], "serial"), "1");
  EXPECT_EQ(TextOf(answers[2], "subject"), "CN=Nstance CA,O=Nstance Cluster example-cluster,C=US");
  EXPECT_NE(TextOf(answers[3], "error"), "") << "the peer can say no";
  EXPECT_NE(TextOf(answers[4], "error"), "") << "the peer can say no";
}

std::string RandomText(Prng& prng) {
  constexpr std::string_view kCharacters = "aZ09 '()+,-./:=?*&@_#<>\"";
  std::string text = "x";
  for (std::uint64_t n = prng.Below(12); n > 0; --n) {
    text += kCharacters[prng.Below(kCharacters.size())];
    if (prng.Chance(1, 20)) text += "\xC3\xA9";
  }
  return text;
}

std::vector<std::string> RandomTexts(Prng& prng) {
  std::vector<std::string> texts;
  for (std::uint64_t n = prng.Below(4); n > 0; --n) texts.push_back(RandomText(prng));
  return texts;
}

TEST(CryptoGoTest, SubjectsHaveTheBytesOfGo) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_crypto");
  const CertificateAuthority ca = Authority();
  std::vector<Value> requests;
  std::vector<std::string> ours;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Prng prng(seed);
    FileSubject subject;
    subject.common_name = RandomText(prng);
    subject.organization = RandomTexts(prng);
    subject.country = RandomTexts(prng);
    subject.province = RandomTexts(prng);
    subject.locality = RandomTexts(prng);
    subject.street = RandomTexts(prng);
    subject.postal_code = RandomTexts(prng);
    const auto leaf = Must(ca.IssueFile(subject, KeyOf(3).public_key(), Terms()));
    ours.push_back(HexEncode(leaf.facts().subject_der));
    requests.push_back(
        Object({Text("CN", subject.common_name), Texts("Organization", subject.organization),
                Texts("Country", subject.country), Texts("Province", subject.province),
                Texts("Locality", subject.locality), Texts("Street", subject.street),
                Texts("PostalCode", subject.postal_code)}));
  }
  const auto answers = Ask(peer, "name", requests);
  ASSERT_EQ(answers.size(), ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(json::Write(answers[i]), "\"" + ours[i] + "\"") << json::Write(requests[i]);
  }
}

Value IssueRequest(std::string role, std::string name, std::int64_t hours) {
  return Object({Text("role", std::move(role)), Text("tenant", "prod"), Text("cn", std::move(name)),
                 Number("now", Noon().unix_seconds()), Number("hours", hours)});
}

TEST(CryptoGoTest, WeAcceptClientsOfAGoAuthority) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_crypto");
  const auto answers = Ask(peer, "issue",
                           {IssueRequest("agent", std::string(test::kInstance), 24),
                            IssueRequest("operator", "example-cluster", 8'760),
                            IssueRequest("server", "example-cluster", 24)});
  ASSERT_EQ(answers.size(), 3U);
  const auto verdict = [](const Value& answer) {
    const auto roots = Must(TrustBundleFromPem(TextOf(answer, "ca")));
    const std::vector<Bytes> chain = {Must(Certificate::FromPem(TextOf(answer, "leaf"))).der()};
    return VerifyPeer(
        {.chain = chain, .roots = roots, .now = Noon(), .usage = PeerUsage::kClient, .source = {}});
  };
  const PeerVerdict agent = verdict(answers[0]);
  ASSERT_TRUE(agent.identity.has_value()) << agent.identity.error().ToString();
  EXPECT_EQ(agent.identity->role, Role::kAgent);
  EXPECT_EQ(agent.identity->id, test::kInstance);
  EXPECT_EQ(agent.identity->tenant.text(), "prod");
  EXPECT_EQ(agent.identity->serial, std::to_string(Noon().unix_seconds()) + "000000000");
  const PeerVerdict op = verdict(answers[1]);
  ASSERT_TRUE(op.identity.has_value()) << op.identity.error().ToString();
  EXPECT_EQ(op.identity->role, Role::kOperator);
  const PeerVerdict server = verdict(answers[2]);
  EXPECT_TRUE(server.chain.has_value());
  EXPECT_FALSE(server.identity.has_value()) << "no such role";
}

TEST(CryptoGoTest, OneAuthorityServesBothImplementations) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_crypto");
  // Ours, used by Go: its clients are accepted here.
  const CertificateAuthority ours = Authority();
  Value request = IssueRequest("agent", std::string(test::kInstance), 24);
  const Secret key_pem = KeyOf(1).ToPem();
  request.Set("ca", Value::String(ours.certificate().ToPem()));
  request.Set("key", Value::String(std::string(AsText(key_pem.Reveal()))));
  const auto issued = Ask(peer, "issue", {request, IssueRequest("operator", "c", 24)});
  ASSERT_EQ(issued.size(), 2U);
  const std::vector<Bytes> chain = {Must(Certificate::FromPem(TextOf(issued[0], "leaf"))).der()};
  const std::vector<Certificate> roots = {ours.certificate()};
  const PeerVerdict verdict = VerifyPeer(
      {.chain = chain, .roots = roots, .now = Noon(), .usage = PeerUsage::kClient, .source = {}});
  EXPECT_TRUE(verdict.identity.has_value()) << verdict.identity.error().ToString();

  // Go's, used by us: our clients are accepted there, and the key identifiers chain.
  Certificate root = Must(Certificate::FromPem(TextOf(issued[1], "ca")));
  const CertificateAuthority theirs =
      Must(CertificateAuthority::Make(root, Must(PrivateKey::FromPem(TextOf(issued[1], "key")))));
  const auto leaf = Must(theirs.IssueClient(Agent(), KeyOf(2).public_key(), Terms()));
  const auto answers = Ask(peer, "verify", {VerifyRequest(leaf, root, "client")});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(TextOf(answers[0], "error"), "");
  EXPECT_EQ(TextOf(answers[0], "aki"), HexEncode(root.facts().subject_key_id));
}

RegistrationClaims RandomClaims(Prng& prng) {
  const bool agent = prng.Chance(1, 2);
  RegistrationClaims claims;
  UuidBytes uuid{};
  for (std::uint8_t& byte : uuid) byte = static_cast<std::uint8_t>(prng.Below(256));
  uuid[6] = static_cast<std::uint8_t>(0x70U | (uuid[6] & 0x0FU));
  uuid[8] = static_cast<std::uint8_t>(0x80U | (uuid[8] & 0x3FU));
  claims.kind = agent ? TokenKind::kAgent : TokenKind::kOperator;
  claims.subject = agent ? Puidv7("knc", uuid).text() : fmt::format("cluster-{}", prng.Below(100));
  claims.issued_at = claims.not_before = Noon() - Duration::Seconds(prng.Between(0, 1'000));
  claims.expires_at = Noon() + Duration::Seconds(prng.Between(1, 80'000));
  claims.token_id = Base64UrlEncode(test::RandomBytes(prng, 16));
  // Not a hash, to see that every character is written as Go writes it.
  if (agent) claims.config_hash = RandomText(prng);
  claims.cluster = fmt::format("cluster-{}", prng.Below(100));
  if (agent) claims.shard = fmt::format("dc{}-zone-a", prng.Below(100));
  if (agent) claims.group = fmt::format("group-{}", prng.Below(100));
  claims.on_demand = prng.Chance(1, 2);
  claims.tenant = test::Tenant(prng.Chance(1, 2) ? "default" : "prod");
  return claims;
}

Value ClaimsJson(const RegistrationClaims& claims) {
  return Object({Text("iss", "nstance-server"),
                 Text("sub", claims.subject),
                 Number("exp", claims.expires_at.unix_seconds()),
                 Number("nbf", claims.not_before.unix_seconds()),
                 Number("iat", claims.issued_at.unix_seconds()),
                 Text("jti", claims.token_id),
                 Text("kind", std::string(TokenKindName(claims.kind))),
                 Text("config_hash", claims.config_hash),
                 Text("cluster_id", claims.cluster),
                 Text("shard", claims.shard),
                 Text("group", claims.group),
                 {"on_demand", {}, Value::Bool(claims.on_demand)},
                 Text("tenant", claims.tenant.text())});
}

TEST(CryptoGoTest, ThousandTokensHaveTheBytesOfGoAndVerifyOnBothSides) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_crypto");
  std::vector<Value> to_sign;
  std::vector<Value> to_check;
  std::vector<RegistrationClaims> all;
  std::vector<std::string> ours;
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    Prng prng(seed);
    const Bytes key_seed = test::RandomBytes(prng, 32);
    const auto key = PrivateKey::FromSeed(std::span<const std::uint8_t, 32>(key_seed));
    all.push_back(RandomClaims(prng));
    ours.push_back(SignRegistrationToken(all.back(), key));
    to_sign.push_back(
        Object({Text("seed", HexEncode(key_seed)), {"claims", {}, ClaimsJson(all.back())}}));
    to_check.push_back(Object({Text("seed", HexEncode(key_seed)), Text("token", ours.back())}));
    const std::vector<PublicKey> keys = {key.public_key()};
    const auto read = VerifyRegistrationToken(
        ours.back(), {.keys = keys, .now = Noon(), .kind = all.back().kind, .source = {}});
    ASSERT_TRUE(read.has_value()) << "seed " << seed << ": " << read.error().ToString();
    EXPECT_EQ(*read, all.back()) << "seed " << seed;
  }
  const auto tokens = Ask(peer, "sign", to_sign);
  const auto claims = Ask(peer, "check", to_check);
  ASSERT_EQ(tokens.size(), all.size());
  ASSERT_EQ(claims.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(json::Write(tokens[i]), "\"" + ours[i] + "\"") << "seed " << i;
    EXPECT_EQ(json::Write(claims[i]), json::Write(ClaimsJson(all[i]))) << "seed " << i;
  }
}

}  // namespace
}  // namespace nstance::crypto

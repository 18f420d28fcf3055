// Registration over the whole of a leader's services: exactly once, the same certificate for the
// same key, nothing stored or said of the token but its hash, and a certificate that leaves only
// after it was logged. The bucket is the judge.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "core/object_layout.h"
#include "core/operator_record.h"
#include "crypto/registration_token.h"
#include "test/server/services/services_world.h"

namespace nstance::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using Fate = HookedStore::Fate;

constexpr std::string_view kRefused = "registration refused";

class RegistrationTest : public testing::Test {
 public:
  Result<api::RegisterClientResponse> Agent(const api::RegisterClientRequest& request) {
    return world.Call(world.Nobody(), api::kRegisterAgent, request);
  }
  Result<api::RegisterClientResponse> Operator(const api::RegisterClientRequest& request) {
    return world.Call(world.Nobody(), api::kRegisterOperator, request);
  }
  // Refused with that code, the one text, and nothing changed.
  void ExpectRefused(const api::RegisterClientRequest& request, Code code) {
    const auto before = world.Objects();
    const int bad = world.Metric("bad_input_total");
    const auto answer = Agent(request);
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, code) << answer.error().ToString();
    if (code == Code::kUnauthenticated) {
      EXPECT_EQ(answer.error().message, kRefused);
    }
    EXPECT_EQ(world.Objects(), before);
    EXPECT_GT(world.Metric("bad_input_total"), bad) << answer.error().ToString();
  }
  // No object, log line or answer holds the token.
  void ExpectNowhere(const std::string& token) {
    for (const auto& [key, bytes] : world.Objects()) {
      EXPECT_FALSE(key.contains(token));
      EXPECT_FALSE(bytes.contains(token)) << key;
    }
    EXPECT_FALSE(world.sink.Has(token));
  }

  ServicesWorld world;
};

TEST_F(RegistrationTest, AnAgentJoinsOnceAndItsCertificateNamesItAndItsTenant) {
  const InstanceId id = world.NewInstance(kProd);
  const auto key = world.NewKey();
  const auto answer = Agent(world.JoinRequest(world.TokenOf(id), *key));
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  const std::vector<Bytes> chain = {
      crypto::Certificate::FromPem(answer->client_certificate_pem)->der()};
  const crypto::PeerVerdict verdict = crypto::VerifyPeer(
      {.chain = chain, .roots = world.identity->roots, .now = world.now(), .source = {}});
  ASSERT_TRUE(verdict.identity.has_value()) << verdict.identity.error().ToString();
  EXPECT_EQ(verdict.identity->role, crypto::Role::kAgent);
  EXPECT_EQ(verdict.identity->tenant, kProd);
  EXPECT_EQ(verdict.identity->id, id.text());
  EXPECT_EQ(verdict.identity->key_sha256, key->public_key().SpkiSha256());
  EXPECT_EQ(answer->expires_at, verdict.identity->not_after);
  const InstanceRecord record = world.Record(kProd, id);
  EXPECT_EQ(record.phase, InstancePhase::kRegistered);
  EXPECT_EQ(record.cert_serial, verdict.identity->serial);
  EXPECT_EQ(record.generation, 1);
}

TEST_F(RegistrationTest, WhoAnnouncesToRenewGetsAShorterCertificate) {
  const InstanceId one = world.NewInstance(kProd);
  const InstanceId two = world.NewInstance(kProd);
  const auto legacy = Agent(world.JoinRequest(world.TokenOf(one), *world.NewKey()));
  const auto renews = world.Call(world.Nobody(), api::kRegisterAgent,
                                 world.JoinRequest(world.TokenOf(two), *world.NewKey()),
                                 {.metadata = {{.name = "nstance-features", .value = "renew"}}});
  ASSERT_TRUE(legacy.has_value() && renews.has_value());
  const auto& terms = world.config->current()->config.certificates.agent;
  EXPECT_LT(terms.ttl, terms.legacy_ttl);
  EXPECT_LE(*renews->expires_at - world.now(), terms.ttl);
  EXPECT_GT(*legacy->expires_at - world.now(), terms.ttl);
}

TEST_F(RegistrationTest, WhatAnAgentSaysAboutItselfReplacesWhatTheProviderReported) {
  const InstanceId id = world.NewInstance(kProd);
  api::RegisterClientRequest request = world.JoinRequest(world.TokenOf(id), *world.NewKey());
  request.hostname = "node-1.example";
  request.private_ipv4 = "10.1.2.3";
  request.private_ipv6 = "fd00::7";
  ASSERT_TRUE(Agent(request).has_value());
  const InstanceRecord record = world.Record(kProd, id);
  EXPECT_EQ(record.hostname, "node-1.example");
  EXPECT_EQ(record.private_ipv4, "10.1.2.3");
  EXPECT_EQ(record.private_ipv6, "fd00::7");
}

TEST_F(RegistrationTest, BI22_TheSameKeyGetsTheSameCertificateAgainByteForByte) {
  const InstanceId id = world.NewInstance(kProd);
  const auto key = world.NewKey();
  const api::RegisterClientRequest request = world.JoinRequest(world.TokenOf(id), *key);
  const auto first = Agent(request);
  ASSERT_TRUE(first.has_value()) << first.error().ToString();
  const auto before = world.Objects();
  world.For(Duration::Seconds(30));
  const auto second = Agent(request);
  ASSERT_TRUE(second.has_value()) << second.error().ToString();
  EXPECT_EQ(*first, *second);
  world.Lead();  // And from another leader, who knows only what is stored.
  const auto third = Agent(request);
  ASSERT_TRUE(third.has_value()) << third.error().ToString();
  EXPECT_EQ(*first, *third);
  EXPECT_THAT(world.Keys("certlog/"), SizeIs(1));
  EXPECT_THAT(world.alarms, IsEmpty());
  EXPECT_EQ(world.Objects().size(), before.size());
}

TEST_F(RegistrationTest, BI23_AnotherKeyForAConsumedTokenIsRefusedWithAnAlarm) {
  const JoinedAgent agent = world.JoinNew(kProd);
  const auto before = world.Objects();
  const auto answer = Agent(world.JoinRequest(agent.token, *world.NewKey()));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kUnauthenticated);
  EXPECT_EQ(answer.error().message, kRefused);
  EXPECT_THAT(world.alarms, ElementsAre("nonce_reuse"));
  EXPECT_EQ(world.Objects(), before);
}

TEST_F(RegistrationTest, BI24_OfSixtyFourKeysForOneTokenExactlyOneWins) {
  const InstanceId id = world.NewInstance(kProd);
  const std::string token = world.TokenOf(id);
  std::vector<ClientCallPtr> calls;
  for (int i = 0; i < 64; ++i) {
    calls.push_back(world.Begin(world.Nobody(), api::kRegisterAgent,
                                world.JoinRequest(token, *world.NewKey())));
  }
  ASSERT_TRUE(world.Until([&] {
    return std::ranges::all_of(calls, [](const auto& call) { return call->end.has_value(); });
  }));
  int good = 0;
  for (const ClientCallPtr& call : calls) {
    if (call->good()) {
      ++good;
      const auto answer = call->Received<api::RegisterClientResponse>().at(0);
      const auto leaf = crypto::Certificate::FromPem(answer.client_certificate_pem);
      EXPECT_EQ(leaf->facts().serial.decimal(), world.Record(kProd, id).cert_serial);
    } else {
      EXPECT_EQ(call->code(), Code::kUnauthenticated) << call->end->error().ToString();
    }
  }
  EXPECT_EQ(good, 1);
  EXPECT_THAT(world.Keys("certlog/"), SizeIs(1));
}

TEST_F(RegistrationTest, BI26_ARecordThatIsStillCreatingIsGoodEnough) {
  world.provider.faults().latency_min = Duration::Seconds(60);
  world.provider.faults().latency_max = Duration::Seconds(60);
  const auto made = world.Call(world.Operator(kProd), api::kCreateInstance,
                               {.config = api::InstanceConfig{.group = "workers"}});
  ASSERT_TRUE(made.has_value()) << made.error().ToString();
  const InstanceId id = *ParsePuidv7(made->instance_id);
  // The machine runs before the provider's answer is back.
  ASSERT_TRUE(world.Until([&] { return !world.cloud.VmsOf(id).empty(); }, Duration::Minutes(5)));
  ASSERT_EQ(world.Record(kProd, id).phase, InstancePhase::kCreating);
  const auto answer = Agent(world.JoinRequest(world.TokenOf(id), *world.NewKey()));
  EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
}

TEST_F(RegistrationTest, OnlyTheHashOfATokenIsStored) {
  const JoinedAgent agent = world.JoinNew(kProd);
  const std::string token = world.OperatorToken(kProd);
  ASSERT_TRUE(Operator(world.JoinRequest(token, *world.NewKey())).has_value());
  EXPECT_EQ(world.Record(kProd, agent.id).nonce_sha256, crypto::TokenSha256Hex(agent.token));
  EXPECT_THAT(world.Keys("operator-nonce/"),
              ElementsAre("operator-nonce/" + crypto::TokenSha256Hex(token) + ".pem"));
  ASSERT_FALSE(Agent(world.JoinRequest(agent.token, *world.NewKey())).has_value());
  ExpectNowhere(agent.token);
  ExpectNowhere(token);
  // Nor its signature alone, which is what makes it worth stealing.
  ExpectNowhere(agent.token.substr(agent.token.rfind('.') + 1));
  ExpectNowhere(token.substr(token.rfind('.') + 1));
}

// --- Tokens --------------------------------------------------------------------------------------

TEST_F(RegistrationTest, NoReadOfTheStoreForATokenWithABadSignature) {
  const InstanceId id = world.NewInstance(kProd);
  api::RegisterClientRequest request = world.JoinRequest(
      crypto::SignRegistrationToken(world.AgentClaims(kProd, id), *world.NewKey()),
      *world.NewKey());
  const int reads = world.store.reads;
  ExpectRefused(request, Code::kUnauthenticated);
  EXPECT_EQ(world.store.reads, reads);
}

TEST_F(RegistrationTest, BI2_AMebibyteOfTokenIsRefusedBySizeAlone) {
  api::RegisterClientRequest request = world.JoinRequest("x", *world.NewKey());
  request.registration_nonce_jwt = std::string(std::size_t{1} << 20U, 'a');
  const auto before = world.Objects();
  const auto answer = Agent(request);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kResourceExhausted);
  // Within the port's limit of a message and above that of a token.
  request.registration_nonce_jwt = std::string(8'000, 'a');
  ExpectRefused(request, Code::kResourceExhausted);
  EXPECT_EQ(world.Objects(), before);
}

TEST_F(RegistrationTest, BI18_ATokenForAnotherClusterOrShardIsToldSo) {
  const InstanceId id = world.NewInstance(kProd);
  crypto::RegistrationClaims claims = world.AgentClaims(kProd, id);
  claims.cluster = "elsewhere";
  auto answer = Agent(world.JoinRequest(
      crypto::SignRegistrationToken(claims, *world.identity->nonce_key), *world.NewKey()));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kInvalidArgument);
  claims = world.AgentClaims(kProd, id);
  claims.shard = "b";
  answer = Agent(world.JoinRequest(
      crypto::SignRegistrationToken(claims, *world.identity->nonce_key), *world.NewKey()));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kInvalidArgument);
}

TEST_F(RegistrationTest, BI20_ATokenForAnUnknownTenantIsRefused) {
  const InstanceId id = world.NewInstance(kProd);
  const TenantId nobodys = *TenantId::Parse("nobodys");
  ExpectRefused(world.JoinRequest(crypto::SignRegistrationToken(world.AgentClaims(nobodys, id),
                                                                *world.identity->nonce_key),
                                  *world.NewKey()),
                Code::kUnauthenticated);
  const auto before = world.Objects();
  const auto answer = Operator(world.JoinRequest(world.OperatorToken(nobodys), *world.NewKey()));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(world.Objects(), before);
}

TEST_F(RegistrationTest, BI21_ATokenOfOursForAnyOtherInstanceIsRefused) {
  const InstanceId waiting = world.NewInstance(kProd);
  const JoinedAgent live = world.JoinNew(kProd);
  const JoinedAgent gone = world.JoinNew(kProd);
  ASSERT_TRUE(
      world.Call(world.Operator(kProd), api::kDeleteInstance, {.instance_id = gone.id.text()})
          .has_value());
  world.Settle();
  const auto signed_for = [&](const TenantId& tenant, const InstanceId& id) {
    return crypto::SignRegistrationToken(world.AgentClaims(tenant, id), *world.identity->nonce_key);
  };
  // Signed by us, but not the token of that instance; nor of its tenant.
  for (const InstanceId& id : {waiting, live.id, gone.id}) {
    ExpectRefused(world.JoinRequest(signed_for(kProd, id), *world.NewKey()),
                  Code::kUnauthenticated);
    ExpectRefused(world.JoinRequest(signed_for(kDev, id), *world.NewKey()), Code::kUnauthenticated);
  }
  // The right token, too late.
  ExpectRefused(world.JoinRequest(gone.token, *gone.key), Code::kUnauthenticated);
}

TEST_F(RegistrationTest, BI19_AKindAtTheOtherCallIsRefused) {
  const InstanceId id = world.NewInstance(kProd);
  ExpectRefused(world.JoinRequest(world.OperatorToken(kProd), *world.NewKey()),
                Code::kUnauthenticated);
  const auto answer = Operator(world.JoinRequest(world.TokenOf(id), *world.NewKey()));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kUnauthenticated);
  EXPECT_EQ(answer.error().message, kRefused);
}

TEST_F(RegistrationTest, BI15_AnExpiredTokenIsRefusedThirtySecondsLate) {
  const InstanceId id = world.NewInstance(kProd);
  const auto claims = crypto::ReadUnverifiedToken(world.TokenOf(id), crypto::TokenKind::kAgent);
  ASSERT_TRUE(claims.has_value());
  const auto key = world.NewKey();
  const auto request = world.JoinRequest(world.TokenOf(id), *key);
  world.server_loop.JumpWall(claims->expires_at - world.now() + Duration::Seconds(31));
  ExpectRefused(request, Code::kUnauthenticated);
  world.server_loop.JumpWall(Duration() - Duration::Seconds(5));
  EXPECT_TRUE(Agent(request).has_value());
}

// --- Keys and proofs -----------------------------------------------------------------------------

TEST_F(RegistrationTest, BI29_OtherKeysAreInvalidAndConsumeNothing) {
  const InstanceId id = world.NewInstance(kProd);
  const auto key = world.NewKey();
  api::RegisterClientRequest request = world.JoinRequest(world.TokenOf(id), *key);
  const std::string good = request.public_key_pem;
  const std::vector<std::string> bad = {
      "", "no key", good + good, "text\n" + good, std::string(5'000, '\n'),
      // P-256.
      "-----BEGIN PUBLIC KEY-----\n"
      "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li\n"
      "/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n-----END PUBLIC KEY-----\n"};
  for (const std::string& pem : bad) {
    request.public_key_pem = pem;
    ExpectRefused(request, Code::kInvalidArgument);
  }
  request.public_key_pem = good;
  EXPECT_TRUE(Agent(request).has_value());
}

TEST_F(RegistrationTest, BI34_AWrongProofIsRefusedAndAMissingOneWhereItIsRequired) {
  const InstanceId id = world.NewInstance(kProd);
  const auto key = world.NewKey();
  api::RegisterClientRequest request = world.JoinRequest(world.TokenOf(id), *key);
  const std::string good = request.proof;
  request.proof = world.JoinRequest(world.OperatorToken(kProd), *key).proof;
  ExpectRefused(request, Code::kUnauthenticated);
  request.proof = world.JoinRequest(world.TokenOf(id), *world.NewKey()).proof;
  ExpectRefused(request, Code::kUnauthenticated);
  request.proof = "short";
  ExpectRefused(request, Code::kUnauthenticated);
  world.Put("config/a.jsonc",
            ServicesConfig({.more_server = R"(, "registration": {"require_proof": true})"}));
  ASSERT_TRUE(world.Call(world.Operator(kProd), api::kRefreshConfig, {}).has_value());
  request.proof = "";
  ExpectRefused(request, Code::kUnauthenticated);
  request.proof = good;
  EXPECT_TRUE(Agent(request).has_value());
}

TEST_F(RegistrationTest, BI36_AKeyOfAnotherIdentityIsInvalidWithAnAlarm) {
  const JoinedAgent first = world.JoinNew(kProd);
  const InstanceId second = world.NewInstance(kProd);
  const InstanceId foreign = world.NewInstance(kDev);
  ExpectRefused(world.JoinRequest(world.TokenOf(second), *first.key), Code::kInvalidArgument);
  ExpectRefused(world.JoinRequest(world.TokenOf(foreign), *first.key), Code::kInvalidArgument);
  const auto answer = Operator(world.JoinRequest(world.OperatorToken(kProd), *first.key));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kInvalidArgument);
  EXPECT_THAT(world.alarms, ElementsAre("key_reuse", "key_reuse", "key_reuse"));
  EXPECT_THAT(world.Keys("operator"), IsEmpty());
}

TEST_F(RegistrationTest, BI36_TheKeyOfAnyOperatorIsInvalidForAnybodyElse) {
  const auto key = world.NewKey();
  ASSERT_TRUE(Operator(world.JoinRequest(world.OperatorToken(kProd), *key)).has_value());
  const InstanceId id = world.NewInstance(kProd);
  const std::string token = world.OperatorToken(kDev);
  const auto before = world.Objects();
  const auto refused = Operator(world.JoinRequest(token, *key));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << refused.error().ToString();
  EXPECT_EQ(world.Objects(), before) << "nothing is consumed";
  ExpectRefused(world.JoinRequest(world.TokenOf(id), *key), Code::kInvalidArgument);
  EXPECT_THAT(world.alarms, ElementsAre("key_reuse", "key_reuse"));
  EXPECT_TRUE(Operator(world.JoinRequest(token, *world.NewKey())).has_value());
  EXPECT_TRUE(Agent(world.JoinRequest(world.TokenOf(id), *world.NewKey())).has_value());
}

TEST_F(RegistrationTest, BI36_OfTwoWhoBringOneKeyAtOnceAtMostOneGetsACertificate) {
  for (int i = 0; i < 8; ++i) {
    const auto key = world.NewKey();
    const InstanceId one = world.NewInstance(kProd);
    const InstanceId other = world.NewInstance(kDev);
    const std::vector<ClientCallPtr> calls = {
        world.Begin(world.Nobody(), api::kRegisterAgent,
                    world.JoinRequest(world.TokenOf(one), *key)),
        world.Begin(world.Nobody(), api::kRegisterAgent,
                    world.JoinRequest(world.TokenOf(other), *key)),
        world.Begin(world.Nobody(), api::kRegisterOperator,
                    world.JoinRequest(world.OperatorToken(kProd), *key)),
        world.Begin(world.Nobody(), api::kRegisterOperator,
                    world.JoinRequest(world.OperatorToken(kDev), *key))};
    ASSERT_TRUE(world.Until([&] {
      return std::ranges::all_of(calls, [](const auto& call) { return call->end.has_value(); });
    }));
    EXPECT_EQ(std::ranges::count_if(calls, [](const auto& c) { return c->good(); }), 1);
  }
}

// The leader of another shard registers the same key for another tenant, between our look and our
// write.
TEST_F(RegistrationTest, J8_WhoeverWritesLaterTakesItBack) {
  const auto key = world.NewKey();
  const ObjectKey theirs = OperatorKey(kDev, OperatorStorageKey(key->public_key()));
  world.store.on_put = [&](const ObjectKey& at) {
    if (at.text().starts_with("operator-nonce/")) world.Put(theirs.text(), "{}");
    return Fate::kNormal;
  };
  const auto answer = Operator(world.JoinRequest(world.OperatorToken(kProd), *key));
  world.store.on_put = nullptr;
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kInvalidArgument) << answer.error().ToString();
  EXPECT_THAT(world.Keys("operator/"), ElementsAre(theirs.text()));
  EXPECT_THAT(world.Keys("certlog/"), IsEmpty());
  EXPECT_THAT(world.alarms, ElementsAre("key_reuse"));
}

// --- What joiners say about themselves -----------------------------------------------------------

TEST_F(RegistrationTest, BI37_HostnamesThatAreNoneAreInvalid) {
  const InstanceId id = world.NewInstance(kProd);
  api::RegisterClientRequest request = world.JoinRequest(world.TokenOf(id), *world.NewKey());
  for (const std::string& name :
       {std::string(10'240, 'a'), std::string("a\nb"), std::string("a;b"), std::string("$(reboot)"),
        std::string("a\0b", 3), std::string("a\u202eb"), std::string("-a"), std::string("a..b")}) {
    request.hostname = name;
    ExpectRefused(request, Code::kInvalidArgument);
  }
}

TEST(RegistrationOnCloud, BI38_AddressesThatAreNoUnicastAreInvalid) {
  ServicesWorld world({.provider = R"({"kind": "aws", "region": "r", "zone": "r-a"})",
                       .cloud = config::ProviderKind::kAws});
  const InstanceId id = world.NewInstance(kProd);
  const auto before = world.Objects();
  const auto key = world.NewKey();
  for (const char* address : {"127.0.0.1", "0.0.0.0", "169.254.169.254", "::ffff:10.1.1.1",
                              "1.2.3.4.5", "010.1.1.1", "224.0.0.1", "255.255.255.255"}) {
    api::RegisterClientRequest request = world.JoinRequest(world.TokenOf(id), *key);
    request.private_ipv4 = address;
    const auto answer = world.Call(world.Nobody(), api::kRegisterAgent, request);
    ASSERT_FALSE(answer.has_value()) << address;
    EXPECT_EQ(answer.error().code, Code::kInvalidArgument) << address;
  }
  for (const char* address : {"::1", "::", "fe80::1", "::ffff:10.1.1.1", "ff02::1", "1.2.3.4"}) {
    api::RegisterClientRequest request = world.JoinRequest(world.TokenOf(id), *key);
    request.private_ipv6 = address;
    const auto answer = world.Call(world.Nobody(), api::kRegisterAgent, request);
    ASSERT_FALSE(answer.has_value()) << address;
    EXPECT_EQ(answer.error().code, Code::kInvalidArgument) << address;
  }
  EXPECT_EQ(world.Objects(), before);
}

TEST_F(RegistrationTest, LoopbackIsAnAddressWhereInstancesShareTheHost) {
  const InstanceId id = world.NewInstance(kProd);
  api::RegisterClientRequest request = world.JoinRequest(world.TokenOf(id), *world.NewKey());
  request.private_ipv4 = "127.0.0.1";
  EXPECT_TRUE(Agent(request).has_value());
}

// --- Operators -----------------------------------------------------------------------------------

TEST_F(RegistrationTest, AnOperatorJoinsOnceAndTheSameBytesGetTheSameCertificate) {
  const std::string token = world.OperatorToken(kProd);
  const auto key = world.NewKey();
  const auto first = Operator(world.JoinRequest(token, *key));
  ASSERT_TRUE(first.has_value()) << first.error().ToString();
  world.For(Duration::Seconds(30));
  world.Lead();
  const auto second = Operator(world.JoinRequest(token, *key));
  ASSERT_TRUE(second.has_value()) << second.error().ToString();
  EXPECT_EQ(*first, *second);
  EXPECT_THAT(world.Keys("certlog/"), SizeIs(1));
  const auto before = world.Objects();
  const auto thief = Operator(world.JoinRequest(token, *world.NewKey()));
  ASSERT_FALSE(thief.has_value());
  EXPECT_EQ(thief.error().code, Code::kUnauthenticated);
  EXPECT_EQ(thief.error().message, kRefused);
  EXPECT_THAT(world.alarms, ElementsAre("nonce_reuse"));
  EXPECT_EQ(world.Objects(), before);
  const RpcTls tls = world.WithCertificate(first->client_certificate_pem, key);
  EXPECT_TRUE(world.Call(tls, api::kListGroups, {}).has_value());
}

TEST_F(RegistrationTest, AnOperatorsKeyGetsTheSameCertificateWithAnotherTokenWhileItIsValid) {
  const auto key = world.NewKey();
  const auto first = Operator(world.JoinRequest(world.OperatorToken(kProd), *key));
  ASSERT_TRUE(first.has_value()) << first.error().ToString();
  world.For(Duration::Minutes(1));
  const auto second = Operator(world.JoinRequest(world.OperatorToken(kProd), *key));
  ASSERT_TRUE(second.has_value()) << second.error().ToString();
  EXPECT_EQ(*first, *second);
  EXPECT_THAT(world.Keys("operator/"), SizeIs(1));
  EXPECT_THAT(world.Keys("certlog/"), SizeIs(1));
  // Another tenant's token does not get it.
  const auto foreign = Operator(world.JoinRequest(world.OperatorToken(kDev), *key));
  ASSERT_FALSE(foreign.has_value());
  EXPECT_EQ(foreign.error().code, Code::kInvalidArgument);
  world.server_loop.JumpWall(*first->expires_at - world.now());
  const auto late = Operator(world.JoinRequest(world.OperatorToken(kProd), *key));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::kUnauthenticated);
}

TEST_F(RegistrationTest, R5_F11_AClockThatJumpsDuringAnOperatorsJoinLeavesNoRecordOfItsTimes) {
  const auto request = world.JoinRequest(world.OperatorToken(kProd), *world.NewKey());
  const ClientCallPtr call = world.Begin(world.Nobody(), api::kRegisterOperator, request);
  ASSERT_TRUE(world.Until([&] { return !world.Keys("operator-nonce/").empty(); }));
  world.server_loop.JumpWall(Duration::Days(3'650));
  ASSERT_TRUE(world.Until([&] { return call->end.has_value(); }));
  EXPECT_EQ(call->code(), Code::kUnavailable);
  EXPECT_THAT(world.Keys("operator/"), IsEmpty());
  world.server_loop.JumpWall(Duration() - Duration::Days(3'650));
  const auto answer = Operator(request);
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_THAT(world.alarms, Not(Contains("key_reuse")));
}

TEST_F(RegistrationTest, OfManyKeysForOneOperatorTokenExactlyOneWins) {
  const std::string token = world.OperatorToken(kProd);
  std::vector<ClientCallPtr> calls;
  for (int i = 0; i < 32; ++i) {
    calls.push_back(world.Begin(world.Nobody(), api::kRegisterOperator,
                                world.JoinRequest(token, *world.NewKey())));
  }
  ASSERT_TRUE(world.Until([&] {
    return std::ranges::all_of(calls, [](const auto& call) { return call->end.has_value(); });
  }));
  EXPECT_EQ(std::ranges::count_if(calls, [](const auto& c) { return c->good(); }), 1);
  EXPECT_THAT(world.Keys("operator/"), SizeIs(1));
}

// --- The store fails -----------------------------------------------------------------------------

// Each write of a registration in turn is refused, or done with its answer lost. Whatever happens,
// no certificate leaves that is not in the log, and the same request comes to a good end.
class FailingStoreTest : public testing::TestWithParam<std::tuple<std::string, Fate>> {
 public:
  void ExpectLogged(const ServicesWorld& world, const std::string& pem) {
    const auto leaf = crypto::Certificate::FromPem(pem);
    ASSERT_TRUE(leaf.has_value());
    const std::string serial = leaf->facts().serial.decimal();
    bool logged = false;
    for (const auto& [key, bytes] : world.Objects()) {
      if (key.starts_with("certlog/") && bytes.contains(serial)) logged = true;
    }
    EXPECT_TRUE(logged) << serial;
  }
};

TEST_P(FailingStoreTest, NoCertificateLeavesUnloggedAndTheNextTrySucceeds) {
  const auto& [prefix, fate] = GetParam();
  const bool of_operator = prefix.starts_with("operator");
  ServicesWorld world;
  const InstanceId id = world.NewInstance(kProd);
  const auto key = world.NewKey();
  const auto request =
      world.JoinRequest(of_operator ? world.OperatorToken(kProd) : world.TokenOf(id), *key);
  const auto& method = of_operator ? api::kRegisterOperator : api::kRegisterAgent;
  bool broken = true;
  int hits = 0;
  world.store.on_put = [&](const ObjectKey& at) {
    if (!broken || !at.text().starts_with(prefix)) return Fate::kNormal;
    ++hits;
    return fate;
  };
  const auto first = world.Call(world.Nobody(), method, request);
  EXPECT_GT(hits, 0);
  if (first.has_value()) {
    ExpectLogged(world, first->client_certificate_pem);
  } else {
    EXPECT_EQ(first.error().code, Code::kUnavailable) << first.error().ToString();
    EXPECT_NE(fate, Fate::kAnswerLost) << first.error().ToString();
  }
  broken = false;
  if (!world.leader->acting()) world.Lead();
  world.For(Duration::Seconds(20));
  const auto second = world.Call(world.Nobody(), method, request);
  ASSERT_TRUE(second.has_value()) << second.error().ToString();
  ExpectLogged(world, second->client_certificate_pem);
  if (first.has_value()) {
    EXPECT_EQ(*first, *second);
  }
  EXPECT_THAT(world.Keys("certlog/"), SizeIs(1));
  EXPECT_THAT(world.alarms, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    EachStep, FailingStoreTest,
    testing::Combine(testing::Values("instance/", "certlog/", "operator-nonce/", "operator/"),
                     testing::Values(Fate::kNotDone, Fate::kAnswerLost)),
    [](const auto& param) {
      std::string name = std::get<0>(param.param);
      std::erase_if(name, [](char c) { return c == '/' || c == '-'; });
      return name + (std::get<1>(param.param) == Fate::kNotDone ? "NotDone" : "AnswerLost");
    });

TEST_F(RegistrationTest, ALeaderWhoseLeaseIsAboutToEndSignsNothing) {
  const InstanceId id = world.NewInstance(kProd);
  const auto agent = world.JoinRequest(world.TokenOf(id), *world.NewKey());
  const auto ops = world.JoinRequest(world.OperatorToken(kProd), *world.NewKey());
  const auto before = world.Objects();
  world.may_start = false;
  for (const auto& answer : {Agent(agent), Operator(ops)}) {
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, Code::kUnavailable) << answer.error().ToString();
  }
  EXPECT_EQ(world.Objects(), before);
  world.may_start = true;
  EXPECT_TRUE(Agent(agent).has_value());
  EXPECT_TRUE(Operator(ops).has_value());
}

TEST_F(RegistrationTest, AStepDownEndsTheCallAndTheNextLeaderGivesTheSameCertificate) {
  const InstanceId id = world.NewInstance(kProd);
  const auto request = world.JoinRequest(world.TokenOf(id), *world.NewKey());
  const ClientCallPtr call = world.Begin(world.Nobody(), api::kRegisterAgent, request);
  ASSERT_TRUE(world.Until([&] { return world.Record(kProd, id).registered_at.has_value(); }));
  EXPECT_FALSE(call->end.has_value());
  world.Lead();
  ASSERT_TRUE(call->end.has_value());
  EXPECT_EQ(call->code(), Code::kUnavailable);
  const auto answer = Agent(request);
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_THAT(world.Keys("certlog/"), SizeIs(1));
}

}  // namespace
}  // namespace nstance::test

// Renewal of agents and operators (security.md 4): generations, lost answers, cloned identities and
// keys of others, through the whole of a leader's services. The bucket is the judge.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/object_layout.h"
#include "core/operator_record.h"
#include "test/server/services/services_world.h"

namespace nstance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Fate = HookedStore::Fate;
using Key = std::shared_ptr<const crypto::PrivateKey>;

std::string SerialOf(const RpcTls& tls) { return tls->chain.front().facts().serial.decimal(); }

class RenewalTest : public testing::Test {
 public:
  Result<api::RenewCertificateResponse> Agent(const RpcTls& tls, const Key& key) {
    return world.Call(tls, api::kAgentRenewCertificate,
                      {.public_key_pem = key->public_key().ToPem()},
                      {.metadata = {{.name = "nstance-features", .value = "renew"}}});
  }
  Result<api::RenewCertificateResponse> Operator(const RpcTls& tls, const Key& key) {
    return world.Call(tls, api::kOperatorRenewCertificate,
                      {.public_key_pem = key->public_key().ToPem()});
  }
  RpcTls JoinOperator(const Key& key, const TenantId& tenant = kProd) {
    const auto answer = world.Call(world.Nobody(), api::kRegisterOperator,
                                   world.JoinRequest(world.OperatorToken(tenant), *key));
    EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
    return world.WithCertificate(answer->client_certificate_pem, key);
  }

  ServicesWorld world;
};

TEST_F(RenewalTest, AnAgentGetsANewGenerationWithANewKey) {
  const JoinedAgent agent = world.JoinNew(kProd);
  world.For(Duration::Minutes(1));
  const Key key = world.NewKey();
  const auto answer = Agent(agent.tls, key);
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  const RpcTls renewed = world.WithCertificate(answer->client_certificate_pem, key);
  const InstanceRecord record = world.Record(kProd, agent.id);
  EXPECT_EQ(record.generation, 2);
  EXPECT_EQ(record.cert_serial, SerialOf(renewed));
  EXPECT_EQ(record.public_key_pem, key->public_key().ToPem());
  EXPECT_EQ(record.cert_expires_at, answer->expires_at);
  EXPECT_THAT(world.Keys("certlog/"), SizeIs(2));
  // The new one works, and renews in its turn.
  EXPECT_FALSE(world.Watch(renewed, api::kReceiveFiles)->end.has_value());
  EXPECT_TRUE(Agent(renewed, world.NewKey()).has_value());
}

TEST_F(RenewalTest, AClockOutsideTheCasLifeIsRefusedBeforehand) {
  LeaderScope scope;
  const CertificateIssuer issuer({.loop = world.server_loop,
                                  .store = world.store,
                                  .random = world.random,
                                  .jitter = world.jitter,
                                  .leader = scope},
                                 {.shard = kServicesShard}, world.identity);
  const crypto::CertificateFacts& ca = issuer.ca().facts();
  EXPECT_TRUE(issuer.CheckClock(ca.not_before));
  EXPECT_TRUE(issuer.CheckClock(ca.not_after - Duration::Seconds(1)));
  for (const Timestamp wrong : {ca.not_before - Duration::Seconds(1), ca.not_after}) {
    const Status refused = issuer.CheckClock(wrong);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kUnavailable);
  }
}

TEST_F(RenewalTest, NothingIsSignedWhenOurClockAndTheStoresDifferByMoreThanAnHour) {
  const Timestamp store_now = world.now();
  LeaderScope scope;
  scope.store_now = [&] { return store_now; };
  const CertificateIssuer issuer({.loop = world.server_loop,
                                  .store = world.store,
                                  .random = world.random,
                                  .jitter = world.jitter,
                                  .leader = scope},
                                 {.shard = kServicesShard}, world.identity);
  // The CA is an hour older than the world.
  EXPECT_TRUE(issuer.CheckClock(store_now + Duration::Hours(1)));
  EXPECT_TRUE(issuer.CheckClock(store_now - Duration::Minutes(59)));
  for (const Duration off : {Duration::Seconds(3601), Duration::Hours(24), Duration::Hours(-2)}) {
    const Status refused = issuer.CheckClock(store_now + off);
    ASSERT_FALSE(refused.has_value()) << off.seconds();
    EXPECT_EQ(refused.error().code, Code::kUnavailable);
    EXPECT_TRUE(refused.error().message.contains("by the store's")) << refused.error().message;
  }
}

TEST_F(RenewalTest, AnAnswerThatWasLostIsGivenAgainByteForByte) {
  const JoinedAgent agent = world.JoinNew(kProd);
  const Key key = world.NewKey();
  const auto first = Agent(agent.tls, key);
  ASSERT_TRUE(first.has_value());
  world.For(Duration::Minutes(1));
  world.Lead();
  const auto second = Agent(agent.tls, key);  // Still with the old certificate.
  ASSERT_TRUE(second.has_value()) << second.error().ToString();
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(world.Record(kProd, agent.id).generation, 2);
  EXPECT_THAT(world.Keys("certlog/"), SizeIs(2));
  EXPECT_THAT(world.alarms, IsEmpty());
}

TEST_F(RenewalTest, BI48_AnOldGenerationThatAsksForAnotherKeyBlocksTheIdentity) {
  const JoinedAgent agent = world.JoinNew(kProd);
  const Key key = world.NewKey();
  const auto good = Agent(agent.tls, key);
  ASSERT_TRUE(good.has_value());
  const RpcTls renewed = world.WithCertificate(good->client_certificate_pem, key);
  const ClientCallPtr stream = world.Watch(renewed, api::kReceiveFiles);
  const auto clone = Agent(agent.tls, world.NewKey());
  ASSERT_FALSE(clone.has_value());
  EXPECT_EQ(clone.error().code, Code::kUnauthenticated);
  EXPECT_THAT(world.alarms, ElementsAre("identity_clone"));
  EXPECT_TRUE(world.Record(kProd, agent.id).blocked.has_value());
  // Both holders are out: streams are closed, calls and registrations refused, also elsewhere.
  world.Settle();
  EXPECT_EQ(stream->code(), Code::kUnauthenticated);
  EXPECT_EQ(Agent(renewed, key).error().code, Code::kUnauthenticated);
  world.Lead();
  EXPECT_EQ(Agent(renewed, key).error().code, Code::kUnauthenticated);
  EXPECT_EQ(world.Watch(renewed, api::kReceiveFiles)->code(), Code::kUnauthenticated);
  const auto again =
      world.Call(world.Nobody(), api::kRegisterAgent, world.JoinRequest(agent.token, *agent.key));
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, Code::kUnauthenticated);
  // The decision of a person.
  EXPECT_TRUE(
      world.Call(world.Operator(kProd), api::kDeleteInstance, {.instance_id = agent.id.text()})
          .has_value());
}

TEST_F(RenewalTest, KeysThatAreBadOrOfAnotherAreInvalidAndChangeNothing) {
  const JoinedAgent agent = world.JoinNew(kProd);
  const JoinedAgent other = world.JoinNew(kDev);
  const auto before = world.Objects();
  const auto bad = world.Call(agent.tls, api::kAgentRenewCertificate, {.public_key_pem = "no"});
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, Code::kInvalidArgument);
  const auto foreign = Agent(agent.tls, other.key);
  ASSERT_FALSE(foreign.has_value());
  EXPECT_EQ(foreign.error().code, Code::kInvalidArgument);
  EXPECT_THAT(world.alarms, ElementsAre("key_reuse"));
  EXPECT_EQ(world.Objects(), before);
}

TEST_F(RenewalTest, WhoIsDrainedPastItsDeadlineOrDeletedIsNotRenewed) {
  const JoinedAgent agent = world.JoinNew(kProd);
  const RpcTls ops = world.Operator(kProd);
  ASSERT_TRUE(world
                  .Call(ops, api::kDeleteInstance,
                        {.instance_id = agent.id.text(), .drain_timeout = Duration::Minutes(1)})
                  .has_value());
  world.Settle();
  ASSERT_EQ(world.Record(kProd, agent.id).phase, InstancePhase::kDraining);
  EXPECT_TRUE(Agent(agent.tls, agent.key).has_value());
  world.server_loop.JumpWall(Duration::Minutes(2));
  const auto late = Agent(agent.tls, agent.key);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::kPermissionDenied);
}

TEST_F(RenewalTest, AnAgentsRenewalSurvivesEveryFailureOfTheStore) {
  for (const char* prefix : {"instance/", "certlog/"}) {
    for (const Fate fate : {Fate::kNotDone, Fate::kAnswerLost}) {
      SCOPED_TRACE(prefix);
      const JoinedAgent agent = world.JoinNew(kProd);
      const Key key = world.NewKey();
      world.store.on_put = [&](const ObjectKey& at) {
        return at.text().starts_with(prefix) ? fate : Fate::kNormal;
      };
      const auto first = Agent(agent.tls, key);
      world.store.on_put = nullptr;
      if (!world.leader->acting()) world.Lead();
      const auto second = Agent(agent.tls, key);
      ASSERT_TRUE(second.has_value()) << second.error().ToString();
      if (first.has_value()) {
        EXPECT_EQ(*first, *second);
      }
      const RpcTls renewed = world.WithCertificate(second->client_certificate_pem, key);
      EXPECT_EQ(world.Record(kProd, agent.id).cert_serial, SerialOf(renewed));
      EXPECT_THAT(world.alarms, IsEmpty());
    }
  }
}

// --- Operators -----------------------------------------------------------------------------------

TEST_F(RenewalTest, AnOperatorRenewsWithANewKeyOrTheOldAndAgain) {
  const Key first = world.NewKey();
  const Key second = world.NewKey();
  RpcTls tls = JoinOperator(first);
  for (const Key& key : {second, second, world.NewKey()}) {
    world.For(Duration::Minutes(1));
    const auto answer = Operator(tls, key);
    ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
    tls = world.WithCertificate(answer->client_certificate_pem, key);
    EXPECT_TRUE(world.Call(tls, api::kListGroups, {}).has_value());
  }
  EXPECT_THAT(world.Keys("certlog/"), SizeIs(4));
  EXPECT_THAT(world.alarms, IsEmpty());
}

TEST_F(RenewalTest, I10_TheCacheTellsOfAnOperatorWhatARebuildWould) {
  const RpcTls tls = JoinOperator(world.NewKey());
  world.For(Duration::Minutes(1));
  ASSERT_TRUE(Operator(tls, world.NewKey()).has_value());
  world.For(Duration::Seconds(1));
  const std::vector<cache::OperatorRow> written = world.cache_disk.Read().operators;
  EXPECT_THAT(written, SizeIs(2)) << "the record is there under both keys";
  world.cache_disk.ClearRows();
  world.Lead();
  world.For(Duration::Seconds(5));
  EXPECT_EQ(world.cache_disk.Read().operators, written);
}

TEST_F(RenewalTest, AnOperatorsLostAnswerIsGivenAgainAndAnotherKeyIsACloneOfIt) {
  const RpcTls tls = JoinOperator(world.NewKey());
  const Key key = world.NewKey();
  const auto first = Operator(tls, key);
  ASSERT_TRUE(first.has_value()) << first.error().ToString();
  world.For(Duration::Minutes(1));
  const auto again = Operator(tls, key);
  ASSERT_TRUE(again.has_value()) << again.error().ToString();
  EXPECT_EQ(*first, *again);
  const auto before = world.Objects();
  const auto clone = Operator(tls, world.NewKey());
  ASSERT_FALSE(clone.has_value());
  EXPECT_EQ(clone.error().code, Code::kUnauthenticated);
  EXPECT_THAT(world.alarms, ElementsAre("identity_clone"));
  EXPECT_EQ(world.Objects(), before);
}

TEST_F(RenewalTest, AnOperatorMayNotTakeTheKeyOfAnother) {
  const Key mine = world.NewKey();
  const Key theirs = world.NewKey();
  const RpcTls tls = JoinOperator(mine);
  const RpcTls other = JoinOperator(theirs);
  const JoinedAgent agent = world.JoinNew(kProd);
  const auto before = world.Objects();
  for (const Key& key : {theirs, agent.key}) {
    const auto answer = Operator(tls, key);
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, Code::kInvalidArgument) << answer.error().ToString();
  }
  EXPECT_THAT(world.alarms, ElementsAre("key_reuse", "key_reuse"));
  EXPECT_EQ(world.Objects(), before);
  EXPECT_TRUE(Operator(other, world.NewKey()).has_value());
  EXPECT_TRUE(Operator(tls, world.NewKey()).has_value());
}

TEST_F(RenewalTest, J8_AnOperatorMayNotTakeTheKeyOfAnotherTenantsOperator) {
  const Key theirs = world.NewKey();
  const RpcTls other = JoinOperator(theirs, kDev);
  const RpcTls tls = JoinOperator(world.NewKey());
  const JoinedAgent agent = world.JoinNew(kProd);
  const auto before = world.Objects();
  const auto answer = Operator(tls, theirs);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kInvalidArgument) << answer.error().ToString();
  const auto of_agent = Agent(agent.tls, theirs);
  ASSERT_FALSE(of_agent.has_value());
  EXPECT_EQ(of_agent.error().code, Code::kInvalidArgument) << of_agent.error().ToString();
  EXPECT_EQ(world.Objects(), before);
  EXPECT_THAT(world.alarms, ElementsAre("key_reuse", "key_reuse"));
  EXPECT_TRUE(Operator(other, theirs).has_value()) << "its own key it may keep";
}

TEST_F(RenewalTest, J8_OfTwoOperatorsThatAskForOneKeyAtOnceOneAtMostGetsIt) {
  const RpcTls one = JoinOperator(world.NewKey(), kProd);
  const RpcTls two = JoinOperator(world.NewKey(), kDev);
  const Key key = world.NewKey();
  const std::string pem = key->public_key().ToPem();
  const std::vector<ClientCallPtr> calls = {
      world.Begin(one, api::kOperatorRenewCertificate, {.public_key_pem = pem}),
      world.Begin(two, api::kOperatorRenewCertificate, {.public_key_pem = pem})};
  ASSERT_TRUE(world.Until([&] { return calls[0]->end && calls[1]->end; }));
  EXPECT_NE(calls[0]->good(), calls[1]->good());
}

// --- Lost races ----------------------------------------------------------------------------------

TEST_F(RenewalTest, TwoRenewalsAtOnceForOneKeyGetOneCertificate) {
  const RpcTls tls = JoinOperator(world.NewKey());
  const std::string pem = world.NewKey()->public_key().ToPem();
  const std::vector<ClientCallPtr> calls = {
      world.Begin(tls, api::kOperatorRenewCertificate, {.public_key_pem = pem}),
      world.Begin(tls, api::kOperatorRenewCertificate, {.public_key_pem = pem})};
  ASSERT_TRUE(world.Until([&] { return calls[0]->end && calls[1]->end; }));
  ASSERT_TRUE(calls[0]->good());
  ASSERT_TRUE(calls[1]->good());
  EXPECT_EQ(calls[0]->Received<api::RenewCertificateResponse>(),
            calls[1]->Received<api::RenewCertificateResponse>());
  EXPECT_THAT(world.Keys("certlog/"), SizeIs(2));
  EXPECT_THAT(world.alarms, IsEmpty());
}

TEST_F(RenewalTest, OfTwoRenewalsAtOnceForTwoKeysTheLaterIsAClone) {
  const RpcTls tls = JoinOperator(world.NewKey());
  std::vector<ClientCallPtr> calls;
  for (int i = 0; i < 2; ++i) {
    calls.push_back(world.Begin(tls, api::kOperatorRenewCertificate,
                                {.public_key_pem = world.NewKey()->public_key().ToPem()}));
  }
  ASSERT_TRUE(world.Until([&] { return calls[0]->end && calls[1]->end; }));
  const bool first = calls[0]->good();
  EXPECT_NE(first, calls[1]->good());
  EXPECT_EQ(calls[first ? 1 : 0]->code(), Code::kUnauthenticated);
  EXPECT_THAT(world.alarms, ElementsAre("identity_clone"));
}

// Somebody who changes nothing of substance is in the way, but only so often.
TEST_F(RenewalTest, ARecordThatKeepsChangingIsAborted) {
  const Key key = world.NewKey();
  const RpcTls tls = JoinOperator(key);
  const std::string name = OperatorKey(kProd, OperatorStorageKey(key->public_key())).text();
  int rewritten = 0;
  int limit = 2;
  world.store.on_put = [&](const ObjectKey& at) {
    if (at.text() != name || rewritten == limit) return Fate::kNormal;
    OperatorRecord record = *DecodeOperatorRecord(world.Objects().at(name));
    record.write_id = "of-another-" + std::to_string(++rewritten);
    world.Put(name, EncodeOperatorRecord(record));
    return Fate::kNormal;
  };
  const Key next = world.NewKey();
  const auto second_try = Operator(tls, next);
  ASSERT_TRUE(second_try.has_value()) << second_try.error().ToString();
  EXPECT_EQ(rewritten, 2);

  const Key third_key = world.NewKey();
  const RpcTls third = JoinOperator(third_key);
  const std::string third_name =
      OperatorKey(kProd, OperatorStorageKey(third_key->public_key())).text();
  world.store.on_put = [&](const ObjectKey& at) {
    if (at.text() != third_name) return Fate::kNormal;
    OperatorRecord record = *DecodeOperatorRecord(world.Objects().at(third_name));
    record.write_id = "of-another-" + std::to_string(++rewritten);
    world.Put(third_name, EncodeOperatorRecord(record));
    return Fate::kNormal;
  };
  const auto never = Operator(third, world.NewKey());
  ASSERT_FALSE(never.has_value());
  EXPECT_EQ(never.error().code, Code::kAborted) << never.error().ToString();
  EXPECT_EQ(rewritten, 7) << "the first try and four more";
  EXPECT_THAT(world.alarms, IsEmpty());
}

// What was given again and renewed since is not given a third time.
TEST_F(RenewalTest, AnOldGenerationDoesNotGetACertificateThatHasBeenRenewed) {
  const RpcTls first = JoinOperator(world.NewKey());
  const Key second_key = world.NewKey();
  const auto second = Operator(first, second_key);
  ASSERT_TRUE(second.has_value());
  const RpcTls tls = world.WithCertificate(second->client_certificate_pem, second_key);
  ASSERT_TRUE(Operator(tls, world.NewKey()).has_value());
  const auto late = Operator(first, second_key);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::kUnauthenticated) << late.error().ToString();
  EXPECT_THAT(world.alarms, ElementsAre("identity_clone"));
}

// Records as the Go implementation names them: by the cluster's id, or the end of the operator's.
TEST_F(RenewalTest, ARecordUnderAnotherProgramsNameIsFound) {
  for (const bool by_tail : {false, true}) {
    const Key key = world.NewKey();
    RpcTls tls = JoinOperator(key);
    const std::string own = OperatorKey(kProd, OperatorStorageKey(key->public_key())).text();
    std::string bytes = world.Objects().at(own);
    std::string name = kServicesCluster.text();
    if (by_tail) {
      const Puidv7 id = *ParsePuidv7("opr06bgm7733st2576nx5jht4ecjw", "opr");
      tls = world.Client(crypto::OperatorSubject{.tenant = kProd, .id = id});
      OperatorRecord record = *DecodeOperatorRecord(bytes);
      record.client_id = id.text();
      record.cert_serial = SerialOf(tls);
      bytes = EncodeOperatorRecord(record);
      name = id.text().substr(id.text().size() - 8);
    }
    world.bucket.EraseByHand(*ObjectKey::Parse(own));
    world.Put(OperatorKey(kProd, name).text(), bytes);
    const Key next = world.NewKey();
    const auto answer = Operator(tls, next);
    ASSERT_TRUE(answer.has_value()) << name << ": " << answer.error().ToString();
    const RpcTls renewed = world.WithCertificate(answer->client_certificate_pem, next);
    EXPECT_TRUE(Operator(renewed, world.NewKey()).has_value()) << name;
  }
  EXPECT_THAT(world.alarms, IsEmpty());
}

TEST_F(RenewalTest, AnOperatorsRenewalSurvivesEveryFailureOfTheStore) {
  for (const char* prefix : {"operator/", "certlog/"}) {
    for (const Fate fate : {Fate::kNotDone, Fate::kAnswerLost}) {
      for (int skip : {0, 1}) {
        SCOPED_TRACE(prefix + std::to_string(skip));
        const RpcTls tls = JoinOperator(world.NewKey());
        const Key key = world.NewKey();
        int seen = 0;
        world.store.on_put = [&](const ObjectKey& at) {
          if (!at.text().starts_with(prefix)) return Fate::kNormal;
          return seen++ < skip ? Fate::kNormal : fate;
        };
        const auto first = Operator(tls, key);
        world.store.on_put = nullptr;
        world.For(Duration::Seconds(10));
        const auto second = Operator(tls, key);
        ASSERT_TRUE(second.has_value()) << second.error().ToString();
        if (first.has_value()) {
          EXPECT_EQ(*first, *second);
        }
        EXPECT_THAT(world.alarms, IsEmpty());
      }
    }
  }
}

}  // namespace
}  // namespace nstance::test

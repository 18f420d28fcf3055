// The checkers of tokens, secrets and tenants: one course of events that is as it should be, and at
// least one that is not.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crypto/ed25519.h"
#include "crypto/registration_token.h"
#include "test/sim/checkers_fixture.h"

namespace nstance::sim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum InstancePhase;

const std::string kToken =
    "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ3cmswIn0aaaaaaaa.c2lnbmF0dXJlLXNpZ25hdHVyZQ";

std::string KeyPem(std::uint8_t number) {
  std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{};
  seed.fill(number);
  return crypto::PrivateKey::FromSeed(seed).public_key().ToPem();
}

// --- I-29 ----------------------------------------------------------------------------------------

class JoinTest : public CheckersTest {
 public:
  // A record that waits for its agent, with a token for the next minute.
  InstanceRecord Waiting(int number) {
    InstanceRecord record = Record(number, kProvisioned);
    record.nonce_sha256 = crypto::TokenSha256Hex(kToken);
    record.nonce = NonceClaims{.jti = "token",
                               .iat = world.wall().unix_seconds(),
                               .exp = world.wall().unix_seconds() + 60};
    world.Write("a1#1", record);
    return record;
  }
  [[nodiscard]] SimVm VmWith(const InstanceRecord& record, const std::string& token) const {
    SimVm vm = world.VmOf(record, "vm");
    vm.request = ProviderCreate{.instance_id = record.instance_id,
                                .tenant = record.tenant,
                                .created_at = record.created_at};
    vm.request->user_data = token + "\nroots";
    return vm;
  }
};

TEST_F(JoinTest, I29_AMachineHasTheTokenOfItsRecord) {
  world.Add(MakeI29);
  const InstanceRecord record = Waiting(1);
  world.Created(VmWith(record, kToken));
  EXPECT_THAT(world.violations, IsEmpty());
  world.Created(VmWith(record, "another"));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("a token that its record does not know")));
}

TEST_F(JoinTest, I29_TheKeyOfARecordIsOnTheDisk) {
  world.Add(MakeI29);
  InstanceRecord record = Waiting(1);
  world.keys_on_disk[record.instance_id] = {KeyPem(1), KeyPem(2)};
  record.public_key_pem = KeyPem(2);
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, IsEmpty());
  record.public_key_pem = KeyPem(3);
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("not on its disk")));
}

TEST_F(JoinTest, I29_InCalmNobodyWaitsForLong) {
  world.Add(MakeI29);
  InstanceRecord record = Waiting(1);
  record.provider_instance_id = PutVm(record);
  const SimVm* vm = world.real_cloud.Find(record.provider_instance_id);
  world.agents = {{.id = record.instance_id, .shard = ShardA(), .vm = vm, .up = true}};
  world.servers = {{.name = "a1#1", .shard = ShardA(), .leads = true, .acting = true}};
  world.Pass(Duration::Seconds(1));
  world.Pass(Duration::Seconds(2));
  world.calm_from = world.now();
  world.Pass(Duration::Seconds(1));
  world.Pass(Duration::Seconds(29));
  EXPECT_THAT(world.violations, IsEmpty());
  world.Pass(Duration::Seconds(2));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("has no certificate")));
  world.violations.clear();
  world.Pass(Duration::Minutes(1));  // The token is over.
  EXPECT_THAT(world.violations, IsEmpty());
}

// --- I-32 ----------------------------------------------------------------------------------------

class TenantTest : public CheckersTest {
 public:
  void Event(const TenantId& to, const std::string& id, const std::string& tenant) {
    const api::InstanceEvent event = {.instance_id = id, .tenant = tenant, .status = "deleted"};
    world.Each([&](Checker& checker) { checker.OnInstanceEvent(to, ShardA(), event); });
  }
  void Upsert(const TenantId& tenant, const std::string& request_id, Status status) {
    const OperatorAnswer answer = {
        .tenant = tenant,
        .shard = ShardA(),
        .request = api::UpsertGroupRequest{.key = "dyn1", .request_id = request_id},
        .sent = world.now(),
        .status = std::move(status)};
    world.Each([&](Checker& checker) { checker.OnAnswer(answer); });
  }
};

TEST_F(TenantTest, I32_EventsAreOfOnesOwn) {
  world.Add(MakeI32);
  world.Write("a1#1", Record(1, kRegistered));
  Event(DefaultTenant(), IdOf(1).text(), "default");
  EXPECT_THAT(world.violations, IsEmpty());
  Event(Prod(), IdOf(1).text(), "default");
  Event(Prod(), IdOf(1).text(), "prod");
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("which is default's"), HasSubstr("which is default's")));
}

TEST_F(TenantTest, I32_RequestIdsAreOnesOwn) {
  world.Add(MakeI32);
  Upsert(DefaultTenant(), "r1", {});
  Upsert(DefaultTenant(), "r1", Fail(AlreadyExists("used before")));
  EXPECT_THAT(world.violations, IsEmpty());
  Upsert(Prod(), "r1", Fail(AlreadyExists("used before")));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("prod has not used request id r1")));
}

TEST_F(TenantTest, I32_ACreationIsAnsweredWithOnesOwn) {
  world.Add(MakeI32);
  world.Write("a1#1", Record(1, kRegistered));
  for (const TenantId& tenant : {DefaultTenant(), Prod()}) {
    const OperatorAnswer answer = {.tenant = tenant,
                                   .shard = ShardA(),
                                   .request = api::CreateInstanceRequest{.request_id = "r1"},
                                   .sent = world.now(),
                                   .instance_id = IdOf(1).text()};
    world.Each([&](Checker& checker) { checker.OnAnswer(answer); });
  }
  EXPECT_THAT(world.violations, ElementsAre(AllOf(HasSubstr("tenant prod was answered with"),
                                                  HasSubstr("which is default's"))));
}

// --- I-33 ----------------------------------------------------------------------------------------

class SecretTest : public CheckersTest {
 public:
  SecretTest() { world.Add(MakeI33); }
  void Log(std::string_view value) {
    const std::array<log::Field, 1> fields = {log::Field("value", value)};
    const log::Record record = {
        .component = "a1#1", .message = "said", .bound = {}, .fields = fields};
    world.Each([&](Checker& checker) { checker.OnLog(record); });
  }
};

TEST_F(SecretTest, I33_HashesAndCertificatesAreNoSecrets) {
  Log(crypto::TokenSha256Hex(kToken));
  Log(KeyPem(1));
  Log("eyJust.a.name");
  world.Put("a1#1", "secret/ca.key", "NSEC sealed");
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(SecretTest, I33_TokensAndKeysAre) {
  Log("shown: " + kToken);
  world.Put("a1#1", "secret/ca.key", "-----BEGIN PRIVATE KEY-----\nMC4CAQ==");
  world.Put("a1#1", "instance/x", std::string(40, 'k'));
  world.Each([](Checker& checker) { checker.OnMetric("joins_total{" + kToken + "}"); });
  const api::InstanceEvent event = {.instance_id = "x", .reason = kToken};
  world.Each([&](Checker& checker) { checker.OnInstanceEvent(Prod(), ShardA(), event); });
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("a1#1 logged a registration token"),
                          HasSubstr("wrote a private key"), HasSubstr("wrote the encryption key"),
                          HasSubstr("labels of a metric"), HasSubstr("in an event of x")));
}

// --- I-35 ----------------------------------------------------------------------------------------

TEST_F(CheckersTest, I35_ANonceSealsOnce) {
  world.Add(MakeI35);
  const auto sealed = [](char nonce, const std::string& body) {
    return "NSEC" + std::string("\x01\x01\0\0", 4) + std::string(8, 'i') + std::string(12, nonce) +
           body;
  };
  world.Put("a1#1", "secret/a", sealed('1', "one"));
  world.Put("a1#1", "secret/a", sealed('1', "one"));
  world.Put("a1#1", "secret/b", sealed('2', "two"));
  EXPECT_THAT(world.violations, IsEmpty());
  world.Put("a1#1", "secret/c", sealed('2', "three"));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("sealed secret/c with a nonce")));
}

TEST_F(CheckersTest, I35_AKeyThatSealsAllTheTimeWouldNotLast) {
  world.Add(MakeI35);
  const std::string process = "a1#1";
  const std::string secret = "secret/ca.key";
  const auto write = [&](SimCall::Moment moment, SimMethod method, const std::string& key) {
    const SimCall call = {.moment = moment, .process = process, .method = method, .key = key};
    world.Each([&](Checker& checker) { checker.OnCall(call); });
  };
  for (int i = 0; i < 16; ++i) {
    write(SimCall::Moment::kSent, SimMethod::kPut, secret);
    write(SimCall::Moment::kAnswered, SimMethod::kPut, secret);
    write(SimCall::Moment::kSent, SimMethod::kGet, secret);
    write(SimCall::Moment::kSent, SimMethod::kPut, "leader/a.json");
  }
  EXPECT_THAT(world.violations, IsEmpty());
  write(SimCall::Moment::kSent, SimMethod::kPut, secret);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("a1#1 seals secret/ca.key, the 17. value")));
}

}  // namespace
}  // namespace nstance::sim

// The checkers of certificates and identities: one course of events that is as it should be, and at
// least one that is not. Certificates are real ones of an authority of the test.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/deny_list.h"
#include "core/operator_record.h"
#include "crypto/certificate_authority.h"
#include "test/sim/checkers_fixture.h"

namespace nstance::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum InstancePhase;

crypto::PrivateKey KeyOf(std::uint8_t number) {
  std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{};
  seed.fill(number);
  return crypto::PrivateKey::FromSeed(seed);
}

class IdentityTest : public CheckersTest {
 public:
  [[nodiscard]] static crypto::CertificateAuthority Authority() {
    return crypto::CertificateAuthority::Make(
               crypto::IssueCa(
                   {}, KeyOf(1),
                   {.issued_at = WorldStart() - Duration::Hours(1), .life = Duration::Days(10)})
                   .value(),
               KeyOf(1))
        .value();
  }
  // A registered instance whose record has a real key.
  InstanceRecord Registered(int number) {
    InstanceRecord record = Record(number, kRegistered);
    record.public_key_pem = KeyOf(2).public_key().ToPem();
    world.Write("a1#1", record);
    return record;
  }
  [[nodiscard]] crypto::Certificate Issue(const InstanceRecord& record,
                                          const crypto::PublicKey& key,
                                          Duration life = Duration::Minutes(20)) const {
    return authority
        .IssueClient(crypto::AgentSubject{.tenant = record.tenant, .instance = record.instance_id},
                     key,
                     {.serial = crypto::SerialNumber::FromDecimal(record.cert_serial).value(),
                      .issued_at = world.wall(),
                      .life = life})
        .value();
  }
  void Give(const crypto::Certificate& certificate) {
    const IssuedCertificate issued = {.process = "agent-sim-000001#1", .certificate = certificate};
    world.Each([&](Checker& checker) { checker.OnCertificate(issued); });
  }
  void Log(const std::string& name, const std::string& serial, const std::string& who = "wrk1") {
    world.Put("a1#1", "certlog/a/" + name,
              fmt::format(R"({{"batch_size":1,"certificates":[{{"certificate_name":"agent",)"
                          R"("serial_number":"{}","expires_at":"x"}}],"instance_id":"{}",)"
                          R"("tenant":"default"}})",
                          serial, who));
  }

  const crypto::CertificateAuthority authority = Authority();
};

TEST_F(IdentityTest, I28_ACertificateHasTheKeyOfItsRecord) {
  world.Add(MakeI28);
  const InstanceRecord record = Registered(1);
  Give(Issue(record, KeyOf(2).public_key()));
  EXPECT_THAT(world.violations, IsEmpty());
  Give(Issue(record, KeyOf(3).public_key()));
  InstanceRecord unknown = record;
  unknown.cert_serial = "77";
  Give(Issue(unknown, KeyOf(2).public_key()));
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("for another key"), HasSubstr("nothing was consumed")));
}

TEST_F(IdentityTest, I28_AKeyStaysForItsGeneration) {
  world.Add(MakeI28);
  InstanceRecord record = Registered(1);
  record.public_key_pem = KeyOf(3).public_key().ToPem();
  record.cert_serial = "5";
  record.generation = 2;
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, IsEmpty());
  record.public_key_pem = KeyOf(4).public_key().ToPem();
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("changed within generation 2")));
}

TEST_F(IdentityTest, I28_TokensAreUsedOnce) {
  world.Add(MakeI28);
  InstanceRecord first = Record(1, kCreating);
  first.nonce_sha256 = std::string(64, 'a');
  world.Write("a1#1", first);
  world.Put("b1#1", "operator-nonce/x.pem", "key");
  EXPECT_THAT(world.violations, IsEmpty());
  InstanceRecord second = Record(2, kCreating);
  second.nonce_sha256 = first.nonce_sha256;
  world.Write("a1#1", second);
  world.Put("a1#1", "operator-nonce/x.pem", "other key");
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("it has the token of"), HasSubstr("with another key")));
}

TEST_F(IdentityTest, I30_WhatIsGivenIsLogged) {
  world.Add(MakeI30);
  const InstanceRecord record = Registered(1);
  Log("1", record.cert_serial);
  Give(Issue(record, KeyOf(2).public_key()));
  Give(Issue(record, KeyOf(2).public_key()));
  EXPECT_THAT(world.violations, IsEmpty());
  Give(Issue(record, KeyOf(3).public_key()));
  const InstanceRecord unlogged = Registered(2);
  Give(Issue(unlogged, KeyOf(2).public_key()));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("another certificate with serial"),
                                            HasSubstr("not in the log")));
}

TEST_F(IdentityTest, I30_SerialsAreUnique) {
  world.Add(MakeI30);
  Log("1", "7");
  Log("2", "7");
  EXPECT_THAT(world.violations, IsEmpty());
  Log("3", "7", "wrk2");
  Log("3", "8", "wrk2");
  EXPECT_THAT(world.violations,
              ElementsAre(HasSubstr("serial 7 is in the log for"), HasSubstr("again")));
}

TEST_F(IdentityTest, I30_LivesAreAsThePolicySays) {
  world.Add(MakeI30);
  const InstanceRecord record = Registered(1);
  Log("1", record.cert_serial);
  Give(Issue(record, KeyOf(2).public_key(), Duration::Minutes(121)));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("the policy is 2h0m0s")));
}

TEST_F(IdentityTest, I30_TheAuthorityOutlivesThem) {
  world.Add(MakeI30);
  world.real_bucket.SetByHand(
      ObjectKey::Parse("ca.crt").value(),
      crypto::IssueCa({}, KeyOf(1),
                      {.issued_at = WorldStart() - Duration::Hours(1), .life = Duration::Hours(1)})
          .value()
          .ToPem());
  const InstanceRecord record = Registered(1);
  Log("1", record.cert_serial);
  Give(Issue(record, KeyOf(2).public_key()));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("outlives the authority")));
}

TEST_F(IdentityTest, I31_NamesAreThoseOfTheRecord) {
  world.Add(MakeI31);
  const InstanceRecord record = Registered(1);
  Give(Issue(record, KeyOf(2).public_key()));
  EXPECT_THAT(world.violations, IsEmpty());
  InstanceRecord other = record;
  other.tenant = Prod();
  Give(Issue(other, KeyOf(2).public_key()));
  other = record;
  other.instance_id = IdOf(2);
  Give(Issue(other, KeyOf(2).public_key()));
  Give(authority
           .IssueClient(crypto::OperatorSubject{.tenant = record.tenant, .id = SimCluster()},
                        KeyOf(2).public_key(),
                        {.serial = crypto::SerialNumber::FromDecimal(record.cert_serial).value(),
                         .issued_at = world.wall(),
                         .life = Duration::Minutes(20)})
           .value());
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("another tenant"), HasSubstr("another CN"),
                                            HasSubstr("another CN")));
}

TEST_F(IdentityTest, I31_OperatorsHaveTheirRole) {
  world.Add(MakeI31);
  const OperatorRecord stored = {.cert_serial = "9",
                                 .client_id = SimCluster().text(),
                                 .expires_at = world.wall() + Duration::Hours(1),
                                 .public_key_pem = KeyOf(2).public_key().ToPem(),
                                 .registered_at = world.wall(),
                                 .registered_by = "nstance-server",
                                 .tenant = Prod(),
                                 .write_id = "w"};
  world.Put("a1#1", "operator/prod.x.json", EncodeOperatorRecord(stored));
  const auto issue = [&](const crypto::ClientSubject& subject) {
    return authority
        .IssueClient(subject, KeyOf(2).public_key(),
                     {.serial = crypto::SerialNumber::FromDecimal("9").value(),
                      .issued_at = world.wall(),
                      .life = Duration::Minutes(20)})
        .value();
  };
  Give(issue(crypto::OperatorSubject{.tenant = Prod(), .id = SimCluster()}));
  EXPECT_THAT(world.violations, IsEmpty());
  Give(issue(crypto::OperatorSubject{.tenant = DefaultTenant(), .id = SimCluster()}));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("another tenant")));
}

TEST_F(IdentityTest, I36_TheDeletedAreOut) {
  world.Add(MakeI36);
  world.calm_from = world.now();
  const InstanceRecord record = Record(1, kDeleting);
  world.Write("a1#1", record);
  world.serving = world.served = {record.instance_id};
  world.Pass(Duration::Seconds(40));
  EXPECT_THAT(world.violations, IsEmpty());
  world.Pass(Duration::Seconds(10));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("still served")));
}

TEST_F(IdentityTest, I36_ASoundLeaderClosesStreamsInBadTimesToo) {
  world.Add(MakeI36);
  world.servers = {{.name = "a1#1", .shard = ShardA(), .leads = true, .acting = true}};
  world.sound_since = {{"a1#1", world.now()}};
  world.Write("a1#1", Record(9, kDeleting));
  world.Pass(Duration::Seconds(1));  // The leader is seen for the first time.
  world.Pass(Duration::Minutes(1));
  const InstanceRecord record = Record(1, kDeleting);
  world.Write("a1#1", record);
  world.serving = world.served = {record.instance_id};
  world.Pass(Duration::Seconds(20));
  EXPECT_THAT(world.violations, IsEmpty());  // Something was done to the agent.
  world.unharmed = {record.instance_id};
  world.sound_since = {{"a1#1", world.now()}};
  world.Pass(Duration::Seconds(5));
  EXPECT_THAT(world.violations, IsEmpty());  // Something was done to the server.
  world.Pass(Duration::Seconds(20));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("still served")));
}

TEST_F(IdentityTest, I36_WhoIsRefusedMayGoOnAsking) {
  world.Add(MakeI36);
  world.calm_from = world.now();
  const InstanceRecord record = Record(1, kDeleting);
  world.Write("a1#1", record);
  world.serving = {record.instance_id};  // It has asked, and was not answered yet.
  world.Pass(Duration::Minutes(2));
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(IdentityTest, I36_TheDeniedAreOut) {
  world.Add(MakeI36);
  world.calm_from = world.now();
  world.Pass(Duration::Minutes(1));
  InstanceRecord record = Registered(1);
  const InstanceRecord other = Record(2, kRegistered);
  world.Write("a1#1", other);
  world.serving = world.served = {record.instance_id, other.instance_id};
  DenyList list;
  list.entries.push_back({.serial = record.cert_serial,
                          .reason = "stolen",
                          .denied_at = world.wall(),
                          .expires_at = world.wall() + Duration::Days(1)});
  list.write_id = "w";
  world.Put("", "deny/cluster.json", EncodeDenyList(list));
  world.Pass(Duration::Seconds(16));
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr(record.instance_id.text())));
  world.violations.clear();
  record.cert_serial = "99";  // Renewed in time.
  world.Write("a1#1", record);
  world.Pass(Duration::Seconds(16));
  EXPECT_THAT(world.violations, IsEmpty());
}

TEST_F(IdentityTest, I37_CertificatesAreRenewed) {
  world.Add(MakeI37);
  world.calm_from = world.now();
  InstanceRecord record = Record(1, kRegistered);
  world.Write("a1#1", record);
  world.unharmed = {record.instance_id};
  world.Pass(Duration::Minutes(19));
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
  world.Pass(Duration::Minutes(2));
  AtQuiet();
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("its certificate expired")));
  world.violations.clear();
  world.walls_true_since = world.now();
  AtQuiet();
  world.walls_true_since = {};
  world.calm_from = world.now() - Duration::Minutes(5);
  AtQuiet();
  EXPECT_THAT(world.violations, IsEmpty());
}

// --- I-39 ---------------------------------------------------------------------------------------

TEST_F(IdentityTest, I39_WhoeverIsWithinHisTimeIsTrusted) {
  world.Add(MakeI39);
  const crypto::Certificate certificate = Issue(Registered(1), KeyOf(2).public_key());
  Give(certificate);
  EXPECT_THAT(world.violations, IsEmpty());
  world.Each([&](Checker& checker) {
    checker.OnRefusedPeer(certificate, Unauthenticated("it leads to no root"));
  });
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("it leads to no root")));
}

TEST_F(IdentityTest, I40_GenerationsRiseByOne) {
  world.Add(MakeI40);
  InstanceRecord record = Record(1, kProvisioned);
  world.Write("a1#1", record);
  record = Record(1, kRegistered);
  world.Write("a1#1", record);
  record.generation = 2;
  record.cert_serial = "5";
  world.Write("a1#1", record);
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, IsEmpty());
  record.cert_serial = "6";
  world.Write("a1#1", record);
  record.generation = 4;
  record.cert_serial = "7";
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("generation 2 (serial 6) follows"),
                                            HasSubstr("generation 4 (serial 7) follows")));
}

TEST_F(IdentityTest, I40_OnlyWhoHasACloneIsBlocked) {
  world.Add(MakeI40);
  world.cloned = {IdOf(1)};
  for (const int number : {1, 2}) {
    InstanceRecord record = Record(number, kRegistered);
    world.Write("a1#1", record);
    record.blocked = RecordMark{.reason = "identity_clone", .at = world.wall()};
    world.Write("a1#1", record);
  }
  EXPECT_THAT(world.violations,
              ElementsAre(testing::AllOf(HasSubstr(IdOf(2).text()), HasSubstr("no second one"))));
}

TEST_F(IdentityTest, I40_WhoShowsAnOlderCertificateIsGivenNoNewKey) {
  world.Add(MakeI40);
  InstanceRecord record = Record(1, kRegistered);
  const std::string first = record.cert_serial;
  world.Write("a1#1", record);
  const auto renew = [&](std::uint8_t key, const std::string& serial) {
    record.public_key_pem = KeyOf(key).public_key().ToPem();
    record.cert_serial = serial;
    ++record.generation;
    world.Write("a1#1", record);
  };
  world.serials_beside[KeyOf(2).public_key().ToPem()] = {"some", first};
  renew(2, "5");
  renew(3, "6");  // Its machine is gone.
  EXPECT_THAT(world.violations, IsEmpty());
  world.serials_beside[KeyOf(4).public_key().ToPem()] = {"5"};
  renew(4, "7");
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("shows an older certificate than 6")));
}

TEST_F(IdentityTest, I40_ABlockedIdentityIsNotRenewed) {
  world.Add(MakeI40);
  InstanceRecord record = Record(1, kRegistered);
  record.blocked = RecordMark{.reason = "identity_clone", .at = world.wall()};
  world.Write("a1#1", record);
  record.generation = 2;
  record.cert_serial = "5";
  world.Write("a1#1", record);
  EXPECT_THAT(world.violations, ElementsAre(HasSubstr("blocked")));
}

}  // namespace
}  // namespace nstance::sim

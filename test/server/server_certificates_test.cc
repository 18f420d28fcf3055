// The server's own certificate: names, life, renewal by either clock.
#include "server/server_certificates.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crypto/verify_peer.h"
#include "test/server/server_world.h"

namespace nstance {
namespace {

using testing::IsSupersetOf;

ClusterIdentityRef Identity(Duration ca_life = crypto::kDefaultCaLife) {
  const std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{1, 2, 3};
  auto key = crypto::PrivateKey::FromSeed(seed);
  auto ca = crypto::IssueCa({}, key, {.issued_at = test::WorldStart(), .life = ca_life});
  auto authority = crypto::CertificateAuthority::Make(*ca, std::move(key));
  return std::make_shared<const ClusterIdentity>(ClusterIdentity{
      .authority = std::make_shared<const crypto::CertificateAuthority>(*std::move(authority)),
      .roots = {*ca},
      .ca_pem = ca->ToPem()});
}

class ServerCertificatesTest : public testing::Test {
 public:
  [[nodiscard]] const crypto::CertificateFacts& Leaf() const {
    return shown.back()->chain.front().facts();
  }

  test::World world;
  test::Process process{world};
  std::vector<RpcTls> shown;
  ServerCertificates certificates{
      {.loop = process.loop, .random = process.random, .log = process.log},
      {.hosts = {"10.0.0.1", "servers.example", "", "0.0.0.0"}},
      [this](RpcTls material) { shown.push_back(std::move(material)); }};
};

TEST_F(ServerCertificatesTest, TheFirstOneNamesAllHostsAndIsAccepted) {
  ASSERT_TRUE(certificates.Start(Identity()));
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_THAT(Leaf().names.dns,
              testing::UnorderedElementsAre("nstance-server", "localhost", "servers.example"));
  EXPECT_THAT(Leaf().names.ip, testing::UnorderedElementsAre("127.0.0.1", "::1", "10.0.0.1"));
  EXPECT_EQ(Leaf().not_after, test::WorldStart() + Duration::Days(365));
  const std::vector<Bytes> chain = {shown[0]->chain[0].der()};
  const crypto::PeerVerdict verdict = crypto::VerifyPeer({.chain = chain,
                                                          .roots = shown[0]->roots,
                                                          .now = test::WorldStart(),
                                                          .usage = crypto::PeerUsage::kServer,
                                                          .source = {}});
  EXPECT_TRUE(verdict.chain) << verdict.chain.error().message;
  EXPECT_EQ(shown[0]->key->public_key(), Leaf().public_key);
}

TEST_F(ServerCertificatesTest, AtHalfLifeThereIsANewOneWithANewKey) {
  ASSERT_TRUE(certificates.Start(Identity()));
  world.scheduler.RunFor(Duration::Days(182));
  EXPECT_EQ(shown.size(), 1U);
  world.scheduler.RunFor(Duration::Days(1));
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_NE(shown[0]->key->public_key(), shown[1]->key->public_key());
  EXPECT_NE(shown[0]->chain[0].facts().serial, shown[1]->chain[0].facts().serial);
  EXPECT_GT(*certificates.not_after(), test::WorldStart() + Duration::Days(540));
}

TEST_F(ServerCertificatesTest, AWallClockThatJumpsRenewsToo) {
  ASSERT_TRUE(certificates.Start(Identity()));
  process.loop.JumpWall(Duration::Days(200));
  world.scheduler.RunFor(Duration::Hours(2));
  EXPECT_EQ(shown.size(), 2U);
}

TEST_F(ServerCertificatesTest, AClockThatWasAheadAndIsSetRightLeadsToANewOne) {
  process.loop.JumpWall(Duration::Days(1));
  ASSERT_TRUE(certificates.Start(Identity()));
  process.loop.JumpWall(Duration() - Duration::Days(1));
  certificates.OnClockMoved();
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_LE(shown[1]->chain[0].facts().not_before, process.loop.WallNow());
  certificates.OnClockMoved();
  EXPECT_EQ(shown.size(), 2U) << "once";
}

TEST_F(ServerCertificatesTest, ItEndsNoLaterThanTheCaAndTheCasEndIsWarnedOf) {
  ASSERT_TRUE(certificates.Start(Identity(Duration::Days(60))));
  EXPECT_EQ(Leaf().not_after, test::WorldStart() + Duration::Days(60));
  EXPECT_EQ(process.sink.last, "the cluster's CA certificate ends soon");
  world.scheduler.RunFor(Duration::Days(31));
  EXPECT_EQ(shown.size(), 2U);
}

TEST_F(ServerCertificatesTest, ACaThatHasEndedIsAnErrorAtStartAndKeepsTheOldOneLater) {
  world.scheduler.RunFor(Duration::Days(2));
  EXPECT_FALSE(certificates.Start(Identity(Duration::Days(1))));
  EXPECT_TRUE(shown.empty());
}

TEST_F(ServerCertificatesTest, OtherRootsThatComeWhileNothingCanBeSignedAreShownLater) {
  ASSERT_TRUE(certificates.Start(Identity()));
  // By this clock the CA has ended.
  process.loop.JumpWall(Duration::Days(20'000));
  auto more = std::make_shared<ClusterIdentity>(*Identity());
  more->roots.push_back(more->roots.front());
  EXPECT_FALSE(certificates.Start(more));
  EXPECT_EQ(shown.size(), 1U);
  process.loop.JumpWall(Duration() - Duration::Days(20'000));
  world.scheduler.RunFor(Duration::Minutes(1));
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_EQ(shown.back()->roots.size(), 2U);
}

TEST_F(ServerCertificatesTest, AClockThatIsSetRightAfterOtherRootsCameLeadsToANewOne) {
  process.loop.JumpWall(Duration::Days(1));
  ASSERT_TRUE(certificates.Start(Identity()));
  process.loop.JumpWall(Duration::Days(20'000));
  EXPECT_FALSE(certificates.Start(Identity()));
  process.loop.JumpWall(Duration() - Duration::Days(20'001));
  certificates.OnClockMoved();
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_LE(Leaf().not_before, process.loop.WallNow());
}

TEST(CertificateHostsTest, AreThoseOfTheGrpcAddresses) {
  config::Addresses bind;
  bind.agent_addr.host = "10.1.1.1";
  bind.health_addr.host = "10.9.9.9";
  config::Addresses advertised;
  advertised.operator_addr.host = "ops.example";
  advertised.election_addr.host = "peer.example";
  const std::vector<std::string> hosts = GrpcHosts(bind, advertised, "10.0.2.2");
  EXPECT_THAT(hosts, IsSupersetOf({"10.1.1.1", "ops.example", "10.0.2.2"}));
  EXPECT_THAT(hosts, testing::Not(testing::Contains("10.9.9.9")));
  EXPECT_THAT(ElectionHosts(advertised), testing::ElementsAre("peer.example"));
}

}  // namespace
}  // namespace nstance

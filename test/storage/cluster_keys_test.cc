// CA and token key over simulated stores: each case of the table in the machine's header; then two
// servers that start together in an empty cluster, under faults, over seeds.
#include "storage/cluster_keys.h"

#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/metrics.h"
#include "base/text.h"
#include "storage/object_secret_store.h"
#include "test/server/server_world.h"

namespace nstance {
namespace {

using sim::SimMethod;
using testing::HasSubstr;

const ObjectKey kSecretCa = *ObjectKey::Parse("secret/ca.key");
const ObjectKey kSecretNonce = *ObjectKey::Parse("secret/registration-nonce.key");

crypto::KeyRing Ring(char fill = 'k') {
  return {.current = *crypto::EncryptionKey::Parse(AsBytes(std::string(32, fill))), .old = {}};
}

struct Server : test::Process {
  explicit Server(test::World& world, std::string name = "p", sim::SimStoreFaults faults = {},
                  char key = 'k')
      : Process(world, std::move(name), faults),
        secrets(
            {.loop = loop, .store = store, .random = random, .jitter = jitter, .metrics = metrics},
            {.cluster = *ClusterId::Parse("example-cluster"), .keys = Ring(key)}),
        keys(std::make_unique<ClusterKeys>(
            ClusterKeys::Deps{.loop = loop,
                              .store = store,
                              .secrets = secrets,
                              .random = random,
                              .jitter = jitter,
                              .log = log},
            ClusterKeys::Options{
                .machine = ClusterKeysOptions(*config::Load(config::kCompleteExample).config)},
            ClusterKeys::Owner{
                .ready = [this](ClusterIdentityRef r) { ready = std::move(r); },
                .failed = [this](const Error& e) { failed = e; },
                .waits = [this](const std::optional<Error>& e) { waits = e; },
                .roots_changed = [this](ClusterIdentityRef r) { changed = std::move(r); },
                .may_create = [this] { return may_create; }})) {}

  metrics::Registry metrics;
  ObjectSecretStore secrets;
  bool may_create = true;
  ClusterIdentityRef ready;
  ClusterIdentityRef changed;
  std::optional<Error> failed;
  std::optional<Error> waits;
  std::unique_ptr<ClusterKeys> keys;
};

class ClusterKeysTest : public testing::Test {
 public:
  void Start(Server& which) {
    which.keys->Start();
    ASSERT_TRUE(world.Run([&] { return which.ready || which.failed; }, Duration::Minutes(5)));
  }
  // A cluster as another server has made it.
  void Made() {
    Server first(world, "first");
    Start(first);
    ASSERT_TRUE(first.ready);
  }

  test::World world;
  Server server{world};
};

TEST_F(ClusterKeysTest, TheHolderOfTheClusterLeaseCreatesWhatIsMissing) {
  Start(server);
  ASSERT_TRUE(server.ready);
  ASSERT_EQ(server.ready->roots.size(), 1U);
  const crypto::Certificate& ca = server.ready->authority->certificate();
  EXPECT_EQ(ca, server.ready->roots[0]);
  EXPECT_EQ(ca.OnlyPart(crypto::SubjectAttribute::kCommonName), "Nstance CA");
  EXPECT_EQ(ca.OnlyPart(crypto::SubjectAttribute::kOrganization),
            "Nstance Cluster example-cluster");
  EXPECT_EQ(server.ready->ca_pem, world.bucket.Find(CaCertificateKey())->bytes);
  EXPECT_NE(world.bucket.Find(kSecretCa), nullptr);
  EXPECT_NE(world.bucket.Find(kSecretNonce), nullptr);
  EXPECT_FALSE(server.waits);
}

TEST_F(ClusterKeysTest, OthersWaitForItAndSayWhy) {
  server.may_create = false;
  server.keys->Start();
  world.scheduler.RunFor(Duration::Minutes(2));
  EXPECT_FALSE(server.ready);
  EXPECT_FALSE(server.failed);
  ASSERT_TRUE(server.waits);
  EXPECT_THAT(server.waits->message, HasSubstr("waiting for the cluster leader"));
  EXPECT_EQ(world.bucket.Count(SimMethod::kPut, "ca.crt"), 0U);
  EXPECT_LE(world.bucket.Count(SimMethod::kGet, "ca.crt"), 9U) << "with back-off";
  // Elected meanwhile: it does not wait for the back-off to end.
  server.may_create = true;
  server.keys->Hurry();
  ASSERT_TRUE(world.Run([&] { return server.ready != nullptr; }, Duration::Seconds(2)));
}

TEST_F(ClusterKeysTest, WhatIsThereIsReadAndNothingIsWritten) {
  Made();
  const std::uint64_t puts = world.bucket.Count(SimMethod::kPut, "secret");
  server.may_create = false;
  Start(server);
  ASSERT_TRUE(server.ready);
  EXPECT_EQ(world.bucket.Count(SimMethod::kPut, "secret"), puts);
}

TEST_F(ClusterKeysTest, AKeyWithoutCertificateHealsByItself) {
  Made();
  world.bucket.EraseByHand(CaCertificateKey());
  Start(server);
  EXPECT_TRUE(server.ready);
  EXPECT_NE(world.bucket.Find(CaCertificateKey()), nullptr);
}

TEST_F(ClusterKeysTest, ACertificateWithoutKeyIsFatal) {
  Made();
  world.bucket.EraseByHand(kSecretCa);
  Start(server);
  ASSERT_TRUE(server.failed);
  EXPECT_THAT(server.failed->message,
              HasSubstr("ca.crt exists but ca.key is missing: restore the secret secret/ca.key"));
  EXPECT_EQ(world.bucket.Find(kSecretCa), nullptr) << "nothing was made up";
}

TEST_F(ClusterKeysTest, AKeyThatDoesNotBelongIsFatal) {
  Made();
  test::World other(7);
  Server foreign(other);
  foreign.keys->Start();
  ASSERT_TRUE(other.Run([&] { return foreign.ready != nullptr; }));
  world.bucket.SetByHand(CaCertificateKey(), foreign.ready->ca_pem);
  Start(server);
  ASSERT_TRUE(server.failed);
  EXPECT_THAT(server.failed->message, HasSubstr("ca.key does not belong to ca.crt"));
}

TEST_F(ClusterKeysTest, ASecretThatDoesNotOpenIsFatalAndNamed) {
  Made();
  Server stranger(world, "q", {}, 'x');
  Start(stranger);
  ASSERT_TRUE(stranger.failed);
  EXPECT_THAT(stranger.failed->message, HasSubstr("secret/ca.key"));
}

TEST_F(ClusterKeysTest, OneBadAnswerIsNotFatal) {
  Made();
  const std::string good = world.bucket.Find(CaCertificateKey())->bytes;
  world.bucket.SetByHand(CaCertificateKey(), "damaged");
  server.keys->Start();
  ASSERT_TRUE(world.Run([&] { return server.waits.has_value(); }));
  world.bucket.SetByHand(CaCertificateKey(), good);
  ASSERT_TRUE(world.Run([&] { return server.ready != nullptr; }));
  EXPECT_FALSE(server.failed);
}

TEST_F(ClusterKeysTest, ABundleWithMoreRootsIsFoundAndOneWithAnotherSignerIsNotTaken) {
  Start(server);
  test::World other(7);
  Server foreign(other);
  foreign.keys->Start();
  ASSERT_TRUE(other.Run([&] { return foreign.ready != nullptr; }));
  const std::string own = server.ready->ca_pem;
  world.bucket.SetByHand(CaCertificateKey(), foreign.ready->ca_pem + own);
  world.scheduler.RunFor(Duration::Minutes(11));
  EXPECT_FALSE(server.changed);
  world.bucket.SetByHand(CaCertificateKey(), own + foreign.ready->ca_pem);
  world.scheduler.RunFor(Duration::Minutes(11));
  ASSERT_TRUE(server.changed);
  EXPECT_EQ(server.changed->roots.size(), 2U);
  EXPECT_EQ(server.changed->authority, server.ready->authority);
}

TEST(ClusterKeysProperty, OverSeedsTwoServersEndWithTheSameKeys) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    test::World world(seed);
    const sim::SimStoreFaults faults{.error_not_done = 800,
                                     .error_maybe_done = 800,
                                     .request_lost = 500,
                                     .answer_lost = 800,
                                     .applied_late = 300,
                                     .delivered_twice = 800,
                                     .stale_read = 500};
    Server a(world, "a", faults);
    Server b(world, "b", faults);
    a.keys->Start();
    b.keys->Start();
    // The lease moves, and for a while both believe that they hold it.
    b.may_create = world.scheduler.prng().Chance(1, 2);
    world.scheduler.RunFor(world.scheduler.prng().UpTo(Duration::Seconds(5)));
    b.may_create = true;
    ASSERT_TRUE(world.Run([&] { return a.ready && b.ready; }, Duration::Minutes(30)))
        << (a.failed ? a.failed->message : "") << (b.failed ? b.failed->message : "");
    EXPECT_EQ(a.ready->ca_pem, b.ready->ca_pem);
    EXPECT_EQ(a.ready->nonce_key->public_key(), b.ready->nonce_key->public_key());
    EXPECT_EQ(a.ready->ca_pem, world.bucket.Find(CaCertificateKey())->bytes);
  }
}

}  // namespace
}  // namespace nstance

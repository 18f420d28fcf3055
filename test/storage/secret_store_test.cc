// Secret stores: what both kinds promise; then sealing, binding, key rotation and the legacy form
// of the one on object storage; then lost answers over seeds.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "sim/seeded_random.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "storage/memory_secret_store.h"
#include "storage/object_secret_store.h"

namespace nstance {
namespace {

constexpr std::string_view kValue = "NSTANCE-CANARY-secret-value";

ObjectKey Key(std::string_view text) { return *ObjectKey::Parse(text); }

crypto::EncryptionKey TestKey(char fill) {
  return *crypto::EncryptionKey::Parse(AsBytes(std::string(32, fill)));
}

crypto::KeyRing Ring(char current, std::string_view old = "") {
  crypto::KeyRing ring{.current = TestKey(current), .old = {}};
  for (const char fill : old) ring.old.push_back(TestKey(fill));
  return ring;
}

ClusterId Cluster(std::string_view name = "example-cluster") { return *ClusterId::Parse(name); }

crypto::Secret Value(std::string_view text = kValue) {
  return crypto::Secret::CopyOf(AsBytes(text));
}

// A bucket, a process and what its secret store needs.
class World {
 public:
  explicit World(std::uint64_t seed = 1, sim::SimStoreFaults faults = {})
      : scheduler(seed),
        bucket(scheduler, {}),
        loop(scheduler, Timestamp()),
        objects(bucket, loop, {.process = "p", .faults = faults}),
        random(seed),
        jitter(seed) {}

  std::unique_ptr<ObjectSecretStore> Open(ObjectSecretStore::Options options) {
    return std::make_unique<ObjectSecretStore>(
        ObjectSecretStore::Deps{
            .loop = loop, .store = objects, .random = random, .jitter = jitter, .metrics = metrics},
        std::move(options));
  }

  Result<std::string> Get(SecretStore& store, std::string_view name) {
    std::optional<Result<std::string>> answer;
    const Pending pending = store.Get(Key(name), [&](Result<crypto::Secret> secret) {
      if (secret) {
        answer = std::string(AsText(secret->Reveal()));
      } else {
        answer = Fail(secret.error());
      }
    });
    EXPECT_FALSE(answer.has_value()) << "answered from inside the call";
    EXPECT_TRUE(scheduler.RunUntilTrue([&] { return answer.has_value(); }, Duration::Minutes(5)));
    return *std::move(answer);
  }

  Status Create(SecretStore& store, std::string_view name, std::string_view value = kValue) {
    std::optional<Status> answer;
    const Pending pending =
        store.Create(Key(name), Value(value), [&](Status status) { answer = std::move(status); });
    EXPECT_FALSE(answer.has_value()) << "answered from inside the call";
    EXPECT_TRUE(scheduler.RunUntilTrue([&] { return answer.has_value(); }, Duration::Minutes(5)));
    return *std::move(answer);
  }

  [[nodiscard]] double LegacyReads() const {
    const metrics::Snapshot snapshot = metrics.Take();
    const auto at = snapshot.find("secrets_legacy_reads_total");
    return at == snapshot.end() ? 0 : at->second.series[0].value;
  }

  sim::SimScheduler scheduler;
  sim::SimBucket bucket;
  sim::SimLoop loop;
  sim::SimObjectStore objects;
  sim::SeededRandom random;
  Prng jitter;
  metrics::Registry metrics;
};

ObjectSecretStore::Options PlainOptions() { return {.cluster = Cluster(), .keys = Ring('k')}; }

class SecretStoreTest : public testing::TestWithParam<std::string> {
 protected:
  World world_;
  std::unique_ptr<SecretStore> store_ =
      GetParam() == "Memory" ? std::unique_ptr<SecretStore>(new MemorySecretStore(world_.loop))
                             : world_.Open(PlainOptions());
};

TEST_P(SecretStoreTest, WhatWasCreatedIsRead) {
  EXPECT_TRUE(world_.Create(*store_, "ca.key").has_value());
  EXPECT_EQ(world_.Get(*store_, "ca.key"), kValue);
}

TEST_P(SecretStoreTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(world_.Get(*store_, "ca.key").error().code, Code::kNotFound);
}

TEST_P(SecretStoreTest, TheSecondCreatorLosesAndTheFirstValueStands) {
  ASSERT_TRUE(world_.Create(*store_, "ca.key", "first").has_value());
  EXPECT_EQ(world_.Create(*store_, "ca.key", "second").error().code, Code::kAlreadyExists);
  EXPECT_EQ(world_.Get(*store_, "ca.key"), "first");
}

TEST_P(SecretStoreTest, DroppingThePendingDropsTheAnswer) {
  bool called = false;
  {
    const Pending create = store_->Create(Key("a"), Value(), [&](const auto&) { called = true; });
    const Pending get = store_->Get(Key("a"), [&](const auto&) { called = true; });
  }
  world_.scheduler.RunFor(Duration::Minutes(1));
  EXPECT_FALSE(called);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SecretStoreTest, testing::Values("Memory", "ObjectStorage"),
                         [](const auto& kind) { return kind.param; });

TEST(ObjectSecretStoreTest, NothingInTheBucketShowsTheValue) {
  World world;
  const auto store = world.Open(PlainOptions());
  ASSERT_TRUE(world.Create(*store, "ca.key").has_value());
  const Object* object = world.bucket.Find(Key("secret/ca.key"));
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(object->bytes.substr(0, 4), "NSEC");
  EXPECT_EQ(object->bytes.find("CANARY"), std::string::npos);
}

TEST(ObjectSecretStoreTest, TwoWritesOfOneValueDiffer) {
  World world;
  const auto store = world.Open(PlainOptions());
  ASSERT_TRUE(world.Create(*store, "a").has_value());
  ASSERT_TRUE(world.Create(*store, "b").has_value());
  const auto nonce = [&](std::string_view name) {
    return world.bucket.Find(Key(name))->bytes.substr(16, 12);
  };
  EXPECT_NE(nonce("secret/a"), nonce("secret/b"));
}

TEST(ObjectSecretStoreTest, BI109_ABlobMovedToAnotherNameOrClusterDoesNotOpen) {
  World world;
  const auto store = world.Open(PlainOptions());
  ASSERT_TRUE(world.Create(*store, "a").has_value());
  world.bucket.SetByHand(Key("secret/b"), world.bucket.Find(Key("secret/a"))->bytes);
  EXPECT_EQ(world.Get(*store, "b").error().code, Code::kDataLoss);
  const auto other = world.Open({.cluster = Cluster("other"), .keys = Ring('k')});
  EXPECT_EQ(world.Get(*other, "a").error().code, Code::kDataLoss);
}

TEST(ObjectSecretStoreTest, BI109_DamageIsAnErrorThatShowsNothing) {
  World world;
  const auto store = world.Open(PlainOptions());
  ASSERT_TRUE(world.Create(*store, "a").has_value());
  const std::string sealed = world.bucket.Find(Key("secret/a"))->bytes;
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string flipped = sealed;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    world.bucket.SetByHand(Key("secret/a"), flipped);
    const Result<std::string> read = world.Get(*store, "a");
    ASSERT_FALSE(read.has_value()) << "byte " << i;
    EXPECT_NE(read.error().code, Code::kNotFound) << "byte " << i;
    EXPECT_EQ(read.error().message.find("CANARY"), std::string::npos);
    EXPECT_NE(read.error().message.find("secret/a"), std::string::npos);
  }
}

TEST(ObjectSecretStoreTest, OldKeysOpenAndTheCurrentOneSeals) {
  World world;
  const auto before = world.Open({.cluster = Cluster(), .keys = Ring('1')});
  ASSERT_TRUE(world.Create(*before, "a", "old").has_value());
  const auto after = world.Open({.cluster = Cluster(), .keys = Ring('3', "21")});
  EXPECT_EQ(world.Get(*after, "a"), "old");
  ASSERT_TRUE(world.Create(*after, "b", "new").has_value());
  EXPECT_EQ(world.Get(*before, "b").error().code, Code::kFailedPrecondition) << "unknown key id";
  const auto retired = world.Open({.cluster = Cluster(), .keys = Ring('3', "2")});
  EXPECT_EQ(world.Get(*retired, "a").error().code, Code::kFailedPrecondition);
}

TEST(ObjectSecretStoreTest, TheLegacyFormIsReadWhileAllowedAndCounted) {
  World world;
  const auto legacy = world.Open(
      {.cluster = Cluster(), .keys = Ring('1'), .written_form = crypto::EnvelopeForm::kLegacy});
  ASSERT_TRUE(world.Create(*legacy, "a").has_value());
  EXPECT_NE(world.bucket.Find(Key("secret/a"))->bytes.substr(0, 4), "NSEC");
  const auto store = world.Open({.cluster = Cluster(), .keys = Ring('2', "1")});
  EXPECT_EQ(world.LegacyReads(), 0);
  EXPECT_EQ(world.Get(*store, "a"), kValue);
  EXPECT_EQ(world.LegacyReads(), 1);
  const auto strict = world.Open(
      {.cluster = Cluster(), .keys = Ring('2', "1"), .legacy = crypto::LegacyPolicy::kRefused});
  EXPECT_EQ(world.Get(*strict, "a").error().code, Code::kFailedPrecondition);
}

TEST(ObjectSecretStoreTest, APrefixThatMakesNoKeyIsAnError) {
  World world;
  const auto store = world.Open({.cluster = Cluster(), .prefix = "../", .keys = Ring('k')});
  EXPECT_EQ(world.Create(*store, "a").error().code, Code::kInvalidArgument);
  EXPECT_EQ(world.Get(*store, "a").error().code, Code::kInvalidArgument);
  EXPECT_TRUE(world.bucket.Keys().empty());
}

// Two creators, each answered truthfully although answers get lost: at most one is told that its
// value stands, and whoever is told so is right.
TEST(ObjectSecretStoreTest, OneCreatorWinsWhateverGetsLost) {
  int wins = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    World world(seed, {.error_not_done = 1'000,
                       .error_maybe_done = 1'000,
                       .answer_lost = 2'000,
                       .delivered_twice = 1'000});
    const auto store = world.Open(PlainOptions());
    std::array<std::optional<Status>, 2> answers;
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      pending.push_back(store->Create(Key("ca.key"), Value(i == 0 ? "zero" : "one"),
                                      [&answers, i](Status status) { answers.at(i) = status; }));
    }
    ASSERT_TRUE(world.scheduler.RunUntilTrue(
        [&] { return answers[0].has_value() && answers[1].has_value(); }, Duration::Minutes(5)))
        << "seed " << seed;
    EXPECT_FALSE(answers[0]->has_value() && answers[1]->has_value()) << "seed " << seed;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!answers.at(i)->has_value()) continue;
      ++wins;
      const Object* object = world.bucket.Find(Key("secret/ca.key"));
      ASSERT_NE(object, nullptr) << "seed " << seed;
      const crypto::KeyRing keys = Ring('k');
      const ClusterId cluster = Cluster();
      const auto opened =
          crypto::Open(keys, AsBytes(object->bytes),
                       {.place = {.cluster = cluster, .object = "secret/ca.key"}, .source = {}});
      ASSERT_TRUE(opened.has_value());
      EXPECT_EQ(AsText(opened->plain.Reveal()), i == 0 ? "zero" : "one") << "seed " << seed;
    }
  }
  EXPECT_GT(wins, 150);
}

}  // namespace
}  // namespace nstance

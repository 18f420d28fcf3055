// A server on a bucket that the Go implementation has laid out: found out by itself or named, every
// object under the other's names, and what this server cannot take over refused.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/instance_record.h"
#include "crypto/envelope.h"
#include "test/server/process/process_world.h"

namespace nstance::test {
namespace {

using testing::HasSubstr;

constexpr const char* kTheirConfig = "shard/a/config.jsonc";

class LayoutTest : public testing::Test {
 public:
  void Start(const ConfigParts& parts, const NodeOptions& options = {}) {
    world.Configure(parts);
    node = std::make_unique<ServerNode>(world, "s1", options);
  }
  [[nodiscard]] bool Leads() {
    return world.Until([&] { return node->acting() || node->exit_code.has_value(); }) &&
           node->acting();
  }
  [[nodiscard]] std::size_t Count(std::string_view prefix) const {
    const auto keys = world.bucket.Keys();
    return static_cast<std::size_t>(std::ranges::count_if(
        keys, [&](const ObjectKey& key) { return key.text().starts_with(prefix); }));
  }

  ProcessWorld world;
  std::unique_ptr<ServerNode> node;
};

TEST_F(LayoutTest, ABucketOfTheOtherLayoutIsFoundOutAndServedUnderItsNames) {
  Start({.size = 2, .key = kTheirConfig});
  ASSERT_TRUE(Leads()) << testing::PrintToString(node->sink.lines);
  ASSERT_TRUE(world.Until([&] { return world.cloud.Vms().size() == 2; }));
  for (const char* key : {"shard/a/journal.json", "shard/a/groups.jsonc", "shard/a/leader.json",
                          "cluster/leader.json", "cluster/ca.crt", "cluster/secret/ca.key"}) {
    EXPECT_TRUE(world.Has(key)) << key;
  }
  EXPECT_EQ(Count("shard/a/") + Count("cluster/"), world.bucket.Keys().size());
  // Records by the uuid of their id; secrets in the form that the others read.
  const InstanceId id = *world.cloud.Vms()[0]->shown.instance_id;
  EXPECT_TRUE(world.Has("shard/a/instance/default." + id.StorageKey() + ".json"));
  const std::string sealed = world.bucket.Find(*ObjectKey::Parse("cluster/secret/ca.key"))->bytes;
  EXPECT_FALSE(crypto::SealedWith(AsBytes(sealed)).has_value()) << "the legacy form";
  EXPECT_EQ(Count("shard/a/probe/"), 0U) << "the probe cleans up";
}

TEST_F(LayoutTest, TheNextLeaderFindsEverythingAgain) {
  Start({.size = 2, .key = kTheirConfig});
  ASSERT_TRUE(Leads());
  ASSERT_TRUE(world.Until([&] { return world.cloud.Vms().size() == 2; }));
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }));
  const auto creates = world.cloud.Count(sim::SimProviderMethod::kCreate);
  node = std::make_unique<ServerNode>(world, "s2");
  ASSERT_TRUE(Leads()) << testing::PrintToString(node->sink.lines);
  EXPECT_EQ(node->epoch, 2);
  world.For(Duration::Minutes(1));
  EXPECT_EQ(world.cloud.Vms().size(), 2U);
  EXPECT_EQ(world.cloud.Count(sim::SimProviderMethod::kCreate), creates);
}

TEST_F(LayoutTest, OurOwnConfigurationWins) {
  world.Configure({.size = 1, .key = kTheirConfig});
  Start({.size = 0});
  ASSERT_TRUE(Leads());
  EXPECT_TRUE(world.Has("journal/a.json"));
  EXPECT_FALSE(world.Has("shard/a/journal.json"));
}

TEST_F(LayoutTest, ALayoutThatIsNamedIsTheOnlyOneLookedAt) {
  Start({.key = kTheirConfig}, {.layout = LayoutChoice::kSeed});
  world.For(Duration::Seconds(30));
  EXPECT_FALSE(node->acting());
  EXPECT_THAT(testing::PrintToString(node->sink.lines), HasSubstr("config/a.jsonc"));
  node = std::make_unique<ServerNode>(world, "s2", NodeOptions{.layout = LayoutChoice::kNstanceV2});
  ASSERT_TRUE(Leads()) << testing::PrintToString(node->sink.lines);
}

TEST_F(LayoutTest, ThePrefixIsTheShardsScope) {
  Start({.key = "mine/config.jsonc"}, {.layout = LayoutChoice::kNstanceV2, .prefix = "mine/"});
  ASSERT_TRUE(Leads()) << testing::PrintToString(node->sink.lines);
  EXPECT_TRUE(world.Has("mine/journal.json"));
  EXPECT_TRUE(world.Has("cluster/ca.crt"));
}

TEST_F(LayoutTest, ThePrefixOfOurOwnLayoutIsInFrontOfEverything) {
  Start({.key = "mine/config/a.jsonc"}, {.prefix = "mine/"});
  ASSERT_TRUE(Leads()) << testing::PrintToString(node->sink.lines);
  EXPECT_TRUE(world.Has("mine/journal/a.json"));
  EXPECT_EQ(Count("mine/"), world.bucket.Keys().size());
}

TEST_F(LayoutTest, ASleepingTenantIsRefusedAtStart) {
  world.Put("shard/a/tenants.jsonc", R"({"prod": {"sleep": {}}, "dev": {}})");
  Start({.key = kTheirConfig});
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }));
  EXPECT_EQ(node->exit_code, 1);
  EXPECT_THAT(testing::PrintToString(node->sink.lines),
              HasSubstr("shard/a/tenants.jsonc: tenants are asleep (prod)"));
  EXPECT_FALSE(world.Has("shard/a/journal.json"));
}

TEST_F(LayoutTest, TenantsThatAreAwakeAreNoReason) {
  world.Put("shard/a/tenants.jsonc", R"({"prod": {}, /* once asleep */ })");
  Start({.key = kTheirConfig});
  EXPECT_TRUE(Leads()) << testing::PrintToString(node->sink.lines);
}

}  // namespace
}  // namespace nstance::test

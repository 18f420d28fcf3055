// The other layout's names: the table of formats.md row by row, in both directions, then over seeds
// that nothing is lost, nothing collides and every listing looks everywhere it must.
#include "core/nstance_v2.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const ShardId kShard = *ShardId::Parse("dc1-zone-a");

ObjectKey Key(std::string_view text) { return *ObjectKey::Parse(text); }

struct Row {
  std::string_view ours;
  std::string_view theirs;
};

constexpr std::string_view kRecord = "prod.01970a1c-e31e-7422-9cd5-e9651d11cc97-knc.json";

TEST(NstanceV2Test, TheTableOfTheSpecificationRowByRow) {
  const NstanceV2Names names({.shard = kShard});
  const std::string their_record = "shard/dc1-zone-a/instance/" + std::string(kRecord);
  for (const Row& row : std::vector<Row>{
           {"config/dc1-zone-a.jsonc", "shard/dc1-zone-a/config.jsonc"},
           {"groups/dc1-zone-a.jsonc", "shard/dc1-zone-a/groups.jsonc"},
           {"leader/dc1-zone-a.json", "shard/dc1-zone-a/leader.json"},
           {"leader/cluster.json", "cluster/leader.json"},
           {"journal/dc1-zone-a.json", "shard/dc1-zone-a/journal.json"},
           {"instance/dc1-zone-a/prod.knc06bgm7733st2576nx5jht4ecjw.json", their_record},
           {"certlog/dc1-zone-a/prod.20260101000000000.knc06bgm7733st2576nx5jht4ecjw.json",
            "shard/dc1-zone-a/certlog/"
            "prod.20260101000000000.knc06bgm7733st2576nx5jht4ecjw.json"},
           {"certlog/cluster/prod.20260101000000000.opr06bgm7733st2576nx5jht4ecjw.json",
            "cluster/certlog/prod.20260101000000000.opr06bgm7733st2576nx5jht4ecjw.json"},
           {"ca.crt", "cluster/ca.crt"},
           {"operator/prod.06e3fd8fda29bb60ab59557de61edb0a.json",
            "cluster/operator/prod.06e3fd8fda29bb60ab59557de61edb0a.json"},
           {"operator/prod.example-cluster.json", "cluster/operator/prod.example-cluster.json"},
           {"operator-nonce/00ff.pem", "cluster/operator-nonce/00ff.pem"},
           {"secret/ca.key", "cluster/secret/ca.key"},
           {"deny/cluster.json", "cluster/deny/cluster.json"},
           {"file/motd.txt", "shard/dc1-zone-a/motd.txt"},
           {"file/a/b/c", "shard/dc1-zone-a/a/b/c"},
           {"probe/dc1-zone-a/x1", "shard/dc1-zone-a/probe/x1"},
           // Of other shards.
           {"config/dc2.jsonc", "shard/dc2/config.jsonc"},
           {"instance/dc2/odd name", "shard/dc2/instance/odd name"}}) {
    const Result<ObjectKey> ours = ObjectKey::Parse(row.ours);
    if (!ours.has_value()) continue;  // Not a key at all.
    const Result<ObjectKey> theirs = names.Theirs(*ours);
    ASSERT_TRUE(theirs.has_value()) << row.ours << ": " << theirs.error().ToString();
    EXPECT_EQ(theirs->text(), row.theirs);
    EXPECT_EQ(names.Ours(Key(row.theirs)), *ours) << row.theirs;
  }
}

TEST(NstanceV2Test, ThePrefixIsTheShardsScopeAndTheClustersStaysWhereItIs) {
  const NstanceV2Names names({.shard = kShard, .shard_scope = "mine/"});
  EXPECT_EQ(names.Theirs(Key("config/dc1-zone-a.jsonc"))->text(), "mine/config.jsonc");
  EXPECT_EQ(names.Theirs(Key("file/x"))->text(), "mine/x");
  EXPECT_EQ(names.Theirs(Key("ca.crt"))->text(), "cluster/ca.crt");
  EXPECT_EQ(names.Theirs(Key("config/dc2.jsonc"))->text(), "shard/dc2/config.jsonc");
  EXPECT_EQ(names.Ours(Key("shard/dc1-zone-a/config.jsonc")), std::nullopt)
      << "that is not this shard's any more";
}

TEST(NstanceV2Test, AStoreOfTheClusterAloneHasItsNamesAtTheTop) {
  const NstanceV2Names names({.cluster_scope = ""});
  EXPECT_EQ(names.Theirs(Key("leader/cluster.json"))->text(), "leader.json");
  EXPECT_EQ(names.Theirs(Key("secret/ca.key"))->text(), "secret/ca.key");
  EXPECT_EQ(names.Ours(Key("leader.json")), Key("leader/cluster.json"));
}

TEST(NstanceV2Test, WhatMeansSomethingElseOverThereIsRefused) {
  const NstanceV2Names names({.shard = kShard});
  for (const char* text : {"leader.json", "certlog/x", "file/config.jsonc", "file/journal.json",
                           "file/instance/x.json", "file/probe/x", "file/certlog/x"}) {
    const auto refused = names.Theirs(Key(text));
    ASSERT_FALSE(refused.has_value()) << text << " is " << refused->text();
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << text;
  }
  EXPECT_FALSE(names.Theirs(Key(std::string(1'020, 'x'))).has_value()) << "too long";
}

TEST(NstanceV2Test, WhatIsNotOursIsNotShown) {
  const NstanceV2Names names({.shard = kShard});
  for (const char* text :
       {"shard/dc2/motd.txt", "shard/Upper/config.jsonc", "elsewhere/x", "cluster/config/x.jsonc",
        "cluster/journal/a.json", "cluster/instance/a/x", "shard/x",
        // An id in our spelling, where theirs belongs: two names for one record.
        "shard/dc1-zone-a/instance/prod.knc06bgm7733st2576nx5jht4ecjw.json"}) {
    EXPECT_EQ(names.Ours(Key(text)), std::nullopt) << text;
  }
}

// --- Over seeds ----------------------------------------------------------------------------------

std::string Pick(Prng& prng, const std::vector<std::string>& words) {
  return words[prng.Below(words.size())];
}

std::string RandomOurs(Prng& prng) {
  const std::string shard = Pick(prng, {"dc1-zone-a", "dc2", "cluster", "Bad"});
  const std::string name = Pick(
      prng, {"x", "prod.knc06bgm7733st2576nx5jht4ecjw.json", std::string(kRecord), "config.jsonc",
             "leader.json", "a/b", "prod.x.json", "instance/y", "certlog/z", ".json"});
  switch (prng.Below(6)) {
    case 0: return Pick(prng, {"config/", "groups/"}) + shard + Pick(prng, {".jsonc", ".json"});
    case 1: return Pick(prng, {"leader/", "journal/"}) + shard + Pick(prng, {".jsonc", ".json"});
    case 2: return Pick(prng, {"instance/", "certlog/", "probe/"}) + shard + "/" + name;
    case 3: return Pick(prng, {"file/", "secret/", "operator/", "deny/", "instance/"}) + name;
    default: return name;
  }
}

std::string RandomTheirs(Prng& prng) {
  const std::string scope =
      Pick(prng, {"cluster/", "shard/dc1-zone-a/", "shard/dc2/", "shard/", "own/", ""});
  return scope + Pick(prng, {"", "instance/", "certlog/", "probe/", "operator/", "config/"}) +
         Pick(prng, {"x", "config.jsonc", "leader.json", "journal.json", std::string(kRecord),
                     "prod.knc06bgm7733st2576nx5jht4ecjw.json", "cluster/x", "dc2/x", "dc2.json"});
}

std::vector<NstanceV2Names> Kinds() {
  return {NstanceV2Names({.shard = kShard}),
          NstanceV2Names({.shard = kShard, .shard_scope = "own/"}), NstanceV2Names({}),
          NstanceV2Names({.cluster_scope = ""})};
}

TEST(NstanceV2Test, BothDirectionsAreExactAndStayInTheirScopes) {
  Prng prng(7);
  for (const NstanceV2Names& names : Kinds()) {
    for (int i = 0; i < 20'000; ++i) {
      if (const auto ours = ObjectKey::Parse(RandomOurs(prng)); ours.has_value()) {
        if (const auto theirs = names.Theirs(*ours); theirs.has_value()) {
          ASSERT_EQ(names.Ours(*theirs), *ours) << theirs->text();
        }
      }
      if (const auto theirs = ObjectKey::Parse(RandomTheirs(prng)); theirs.has_value()) {
        if (const auto ours = names.Ours(*theirs)) {
          const auto back = names.Theirs(*ours);
          ASSERT_TRUE(back.has_value()) << ours->text();
          ASSERT_EQ(*back, *theirs) << ours->text();
        }
      }
    }
  }
}

TEST(NstanceV2Test, AListingLooksWhereverSomethingOfItMayBe) {
  Prng prng(9);
  for (const NstanceV2Names& names : Kinds()) {
    for (int i = 0; i < 20'000; ++i) {
      const auto theirs = ObjectKey::Parse(RandomTheirs(prng));
      if (!theirs.has_value()) continue;
      const auto ours = names.Ours(*theirs);
      if (!ours) continue;
      const std::string prefix = ours->text().substr(0, prng.Below(ours->text().size() + 1));
      const auto regions = names.Regions(prefix);
      const bool covered = std::ranges::any_of(regions, [&](const NstanceV2Names::Region& region) {
        return theirs->text().starts_with(region.prefix);
      });
      ASSERT_TRUE(covered) << prefix << " does not show " << theirs->text();
    }
  }
}

// --- Tenants asleep ------------------------------------------------------------------------------

TEST(NstanceV2Test, TenantsAsleepOrOnTheirWayAreTold) {
  EXPECT_THAT(*SleepingTenants("{}"), IsEmpty());
  EXPECT_THAT(*SleepingTenants(R"({"a": {}, "b": {"sleep": null}, /* awake */ })"), IsEmpty());
  EXPECT_THAT(*SleepingTenants(R"({"a": {"sleep": {}}, "b": {},
                                   "c": {"sleep": {"wake_at": "2026-01-01T00:00:00Z"}},
                                   "d": {"transition": {"guarded": true}}})"),
              ElementsAre("a", "c", "d"));
  for (const char* bad : {"", "[]", "{\"a\": 1}", "{"}) {
    EXPECT_FALSE(SleepingTenants(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace nstance

// Where configurations are: the rule of formats.md, appendix A, row by row.
#include "core/config_place.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nstance {
namespace {

using config::Layout;
using testing::ElementsAre;

const ShardId kShard = *ShardId::Parse("dc1-zone-a");

ObjectKey Key(std::string_view text) { return *ObjectKey::Parse(text); }

TEST(ConfigPlaceTest, OursIsLookedAtFirst) {
  EXPECT_THAT(*ConfigPlaces(kShard, {}),
              ElementsAre(ConfigPlace{Key("config/dc1-zone-a.jsonc"), Layout::kNstance},
                          ConfigPlace{Key("shard/dc1-zone-a/config.jsonc"), Layout::kNstanceV2}));
}

TEST(ConfigPlaceTest, ScopesAreThoseOfTheirLayout) {
  EXPECT_THAT(*ConfigPlaces(kShard, {.prefix = "p/", .shard_scope = "q/"}),
              ElementsAre(ConfigPlace{Key("p/config/dc1-zone-a.jsonc"), Layout::kNstance},
                          ConfigPlace{Key("q/config.jsonc"), Layout::kNstanceV2}));
  EXPECT_FALSE(ConfigPlaces(kShard, {.prefix = std::string(5'000, 'p') + "/"}).has_value());
}

TEST(ConfigPlaceTest, NamesOfConfigurationsAreKnownWithoutAShard) {
  struct Row {
    std::string_view key;
    Layout layout;
    bool is_config;
  };
  for (const Row& row : std::vector<Row>{{"p/config/a.jsonc", Layout::kNstance, true},
                                         {"p/config/a.json", Layout::kNstance, false},
                                         {"config/a.jsonc", Layout::kNstance, false},
                                         {"shard/a/config.jsonc", Layout::kNstanceV2, true},
                                         {"shard/a/groups.jsonc", Layout::kNstanceV2, false},
                                         {"shard/a/b/config.jsonc", Layout::kNstanceV2, false},
                                         {"shard/A_/config.jsonc", Layout::kNstanceV2, false},
                                         {"p/shard/a/config.jsonc", Layout::kNstanceV2, false}}) {
    EXPECT_EQ(IsConfig(row.layout, "p/", Key(row.key)), row.is_config) << row.key;
    if (row.is_config) {
      EXPECT_TRUE(row.key.starts_with(ConfigsBegin(row.layout, "p/"))) << row.key;
    }
  }
}

}  // namespace
}  // namespace nstance

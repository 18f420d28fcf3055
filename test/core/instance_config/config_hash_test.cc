// Config hashes: the published vectors, then the property that only content counts.
#include "core/instance_config/config_hash.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "test/core/instance_config/config_builder.h"
#include "test/core/instance_config/random_config.h"

namespace nstance::test {
namespace {

using config::FileKind;
using config::UserData;

TEST(ConfigHashTest, RuntimeVectors) {
  MergedInstanceConfig config;
  EXPECT_EQ(RuntimeConfigJson(config.vars, config.files), R"({"vars":{},"files":{}})");
  EXPECT_EQ(RuntimeConfigHash(config),
            "sha256:e5ae13dd1e88c12b792290cbb21fee11f01e4237521f8869d826a1a7d3b3d30d");
  config.vars = {{"VAR1", "value1"}, {"VAR2", "value2"}};
  config.files = {{"file1", {.kind = FileKind::kSecret, .source = "secret1"}}};
  EXPECT_EQ(RuntimeConfigHash(config),
            "sha256:7f238082312970eebe01914fbeb7bc83883128dbbddc9cc8035e1311ff02357c");
  config.vars = {{"A", "x<y&z>"}};
  config.files = {{"k.crt",
                   {.kind = FileKind::kCertificate,
                    .content = json::Value::String("kubelet.client"),
                    .key = config::FileKey{.source = "agent", .name = "kubelet.client.pub"}}}};
  EXPECT_EQ(RuntimeConfigHash(config),
            "sha256:c8618ecfed59a4e301d402b14d6d1d270986b782c1d9876087c2c55b9944ee60");
}

TEST(ConfigHashTest, InfraVectors) {
  MergedInstanceConfig config{.kind = "kind", .instance_type = "t3.medium"};
  EXPECT_EQ(
      InfraConfigJson(config),
      R"({"args":{},"instance_type":"t3.medium","subnet_pool":"","kind":"kind","arch":"amd64"})");
  EXPECT_EQ(InfraConfigHash(config),
            "sha256:37dc4ae76f163781a1e2debef43b623178f13c21514a960b39757375958d842a");
  config.kind = "test-kind";
  config.subnet_pool = PoolName("subnet-1");
  config.args = Object(R"({"arg2":42,"arg1":"value1"})");
  config.userdata = UserData{.content = "userdata content"};
  EXPECT_EQ(InfraConfigHash(config),
            "sha256:48af4757c99e0dd69acb723f96d31b9666cce16fcadfdf83c30235db0bb51c0a");
}

TEST(ConfigHashTest, TheCompleteExample) {
  const config::Config config = ExampleConfig();
  const auto merged =
      MergeInstanceConfig(config, config.groups.at(DefaultTenant()).at(Group("workers")));
  ASSERT_TRUE(merged);
  EXPECT_EQ(RuntimeConfigHash(*merged),
            "sha256:d7fa621d3c0a111de74d597662f5eb0653df92ce430c8ce092ffe679cefe7880")
      << RuntimeConfigJson(merged->vars, merged->files);
  EXPECT_EQ(InfraConfigHash(*merged),
            "sha256:a124d4add803ef4140d5de2a903a422a2d0e27044fc12d9cc069dfc5937e0a73")
      << InfraConfigJson(*merged);
}

TEST(ConfigHashTest, WhatIsEmptyIsLeftOutButEmptyTemplatesAreNot) {
  MergedInstanceConfig config;
  config.files = {{"a", {.kind = FileKind::kString, .content = json::Value::String("")}},
                  {"b", {.kind = FileKind::kJson, .content = json::Value::Map({})}},
                  {"c", {.kind = FileKind::kString, .content = json::Value()}},
                  {"d", {.kind = FileKind::kString}}};
  EXPECT_EQ(RuntimeConfigJson(config.vars, config.files),
            R"({"vars":{},"files":{"a":{"kind":"string","template":""},)"
            R"("b":{"kind":"json","template":{}},"c":{"kind":"string"},"d":{"kind":"string"}}})");
  config.userdata = UserData{.source = "", .encoding = "gzip", .content = "", .sha256 = "ab"};
  EXPECT_EQ(
      InfraConfigJson(config),
      R"({"args":{},"instance_type":"","subnet_pool":"",)"
      R"("userdata":{"encoding":"gzip","content":"","sha256":"ab"},"kind":"","arch":"amd64"})");
}

TEST(ConfigHashTest, NumbersAreDoubles) {
  MergedInstanceConfig config;
  config.args = Object(R"({"a":1.0,"b":9007199254740993,"c":1e21,"d":0.0000001,"e":100})");
  EXPECT_TRUE(InfraConfigJson(config).starts_with(
      R"({"args":{"a":1,"b":9007199254740992,"c":1e+21,"d":1e-7,"e":100},)"))
      << InfraConfigJson(config);
}

TEST(ConfigHashTest, WarmMembersAreHashedOverTheirFilesOnly) {
  MergedInstanceConfig config;
  config.vars = {{"A", "1"}};
  config.files = {{"warm.env", {.kind = FileKind::kEnv}}, {"s.key", {.kind = FileKind::kSecret}}};
  MergedInstanceConfig warm = config;
  warm.files.erase("s.key");
  EXPECT_EQ(WarmConfigHash(config, {"warm.env"}), RuntimeConfigHash(warm));
  EXPECT_NE(WarmConfigHash(config, {"warm.env"}), RuntimeConfigHash(config));
  EXPECT_EQ(WarmConfigHash(config, {"warm.env", "s.key"}), RuntimeConfigHash(config));
}

TEST(ConfigHashTest, TheOrderOfKeysDoesNotCountAndContentDoes) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    RandomConfig random(seed);
    const MergedInstanceConfig config = random.Next();
    const MergedInstanceConfig shuffled = random.Shuffled(config);
    ASSERT_EQ(RuntimeConfigHash(config), RuntimeConfigHash(shuffled)) << "seed " << seed;
    ASSERT_EQ(InfraConfigHash(config), InfraConfigHash(shuffled)) << "seed " << seed;
    ASSERT_EQ(InfraConfigHash(config).size(), 71U);
    seen.insert(InfraConfigHash(config));
    MergedInstanceConfig other = config;
    other.vars["only here"] = "x";
    ASSERT_NE(RuntimeConfigHash(config), RuntimeConfigHash(other));
    ASSERT_EQ(InfraConfigHash(config), InfraConfigHash(other));
    other = config;
    other.kind += "x";
    ASSERT_EQ(RuntimeConfigHash(config), RuntimeConfigHash(other));
    ASSERT_NE(InfraConfigHash(config), InfraConfigHash(other));
  }
  EXPECT_GT(seen.size(), 490U);
}

}  // namespace
}  // namespace nstance::test

// What is configured and not built, told once per feature and place; nothing else is.
#include "server/inactive_features.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "core/config/load.h"

namespace nstance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

config::Config With(const std::string& members, const std::string& group = {},
                    const std::string& from = {}) {
  const config::LoadResult loaded = config::Load(
      R"({"server": {"cluster_id": "c1", "shard": "a", "provider": {"kind": "aws", "region": "r",
          "zone": "z"}, "subnet_pools": {"p": ["s1"]}, "secrets": {"provider": "memory"}},
        "templates": {"t": {"kind": "wrk", "arch": "amd64", "instance_type": "small",
          "subnet_pool": "p", "userdata": {"content": "x"})" +
      from + R"(}},
        "groups": {"default": {"g": {"template": "t", "size": 1)" +
      group + R"(}, "warm": {"template": "t", "size": 1, "pool": {}}}})" + members + "}");
  CHECK(loaded.config.has_value(), "{}",
        loaded.errors.empty() ? "" : config::Format(loaded.errors.front(), "config"));
  return *loaded.config;
}

const std::string kPool = "groups.default.warm.pool: not yet active: the group makes no instances";

TEST(InactiveFeaturesTest, APoolMakesNothing) {
  EXPECT_THAT(InactiveFeatures(With("")), ElementsAre(kPool));
}

TEST(InactiveFeaturesTest, WhoDrawsFromAPoolIsMadeCold) {
  EXPECT_THAT(InactiveFeatures(With("", R"(, "draw_from": "warm")")),
              ElementsAre("groups.default.g.draw_from: not yet active: instances are created cold, "
                          "none is taken from warm",
                          kPool));
}

TEST(InactiveFeaturesTest, FilesKeysAndCertificatesEachHaveTheirPlace) {
  const config::Config config =
      With(R"(, "certificates": {"web": {"kind": "server", "cn": "web"}})", "",
           R"(, "files": {"a.txt": {"kind": "string", "template": "x"},
             "web.crt": {"kind": "certificate", "template": "web",
                         "key": {"source": "agent", "name": "web.pub"}}})");
  EXPECT_THAT(
      InactiveFeatures(config),
      ElementsAre("templates.t.files: not yet active: its 2 files are not sent to agents",
                  "templates.t.files.web.crt: not yet active: the certificate is not issued",
                  "templates.t.files.web.crt.key: not yet active: agents are not asked for the key",
                  kPool));
}

TEST(InactiveFeaturesTest, ABalancerIsNotServed) {
  EXPECT_THAT(
      InactiveFeatures(With(R"(, "load_balancers": {"lb": {"provider": "aws",
        "target_groups": [{"arn": "arn:1"}]}})",
                            R"(, "load_balancers": ["lb"])")),
      ElementsAre("groups.default.g.load_balancers: not yet active: instances are not registered "
                  "with lb",
                  kPool));
}

TEST(InactiveFeaturesTest, AnImageIsItsFallback) {
  const std::string filters = R"("filters": [{"name": "name", "values": ["x"]}],
    "sort": "name", "owners": ["self"])";
  EXPECT_THAT(
      InactiveFeatures(With(R"(, "images": {"a": {"provider": "aws", )" + filters +
                            R"(, "fallback": "ami-1"}, "b": {"provider": "aws", )" + filters +
                            "}}")),
      ElementsAre("images.a.filters: not yet active: images are not searched for; the fallback "
                  "\"ami-1\" is used",
                  "images.b.filters: not yet active: images are not searched for; without a "
                  "fallback, groups that use it make no instances",
                  kPool));
}

}  // namespace
}  // namespace nstance

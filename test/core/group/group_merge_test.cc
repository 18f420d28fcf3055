// A group from its two layers: every field in every combination of presence, against the table of
// the specification; then random layers against a second, field-by-field statement of the rule.
#include "core/group/group_merge.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "test/core/instance_config/config_builder.h"

namespace nstance::test {
namespace {

using config::Config;
using config::DynamicGroup;
using config::DynamicGroups;
using config::GroupLayer;

// One field of a layer: how to set it, and whether the dynamic layer wins.
struct Field {
  std::string name;
  std::function<void(GroupLayer&)> set_static;
  std::function<void(GroupLayer&)> set_dynamic;
  bool dynamic_wins = false;
};

std::vector<Field> Fields() {
  return {
      {"template", [](GroupLayer& l) { l.template_name = "worker"; },
       [](GroupLayer& l) { l.template_name = "bare"; }},
      {"size", [](GroupLayer& l) { l.size = 3; }, [](GroupLayer& l) { l.size = 0; }, true},
      {"instance_type", [](GroupLayer& l) { l.instance_type = "a"; },
       [](GroupLayer& l) { l.instance_type = "b"; }, true},
      {"subnet_pool", [](GroupLayer& l) { l.subnet_pool = PoolName("default"); },
       [](GroupLayer& l) { l.subnet_pool = PoolName("open"); }},
      {"vars", [](GroupLayer& l) { l.vars = {{"A", "1"}}; },
       [](GroupLayer& l) { l.vars = {{"A", "2"}}; }, true},
      {"args", [](GroupLayer& l) { l.args = Object(R"({"x":1})"); },
       [](GroupLayer& l) { l.args = Object(R"({"y":2})"); }},
      {"drain_timeout", [](GroupLayer& l) { l.drain_timeout = Duration(); },
       [](GroupLayer& l) { l.drain_timeout = Duration::Minutes(1); }},
      {"load_balancers", [](GroupLayer& l) { l.load_balancers = {Balancer("web")}; },
       [](GroupLayer& l) { l.load_balancers = {Balancer("other")}; }},
      {"surge", [](GroupLayer& l) { l.surge = 2; }, [](GroupLayer& l) { l.surge = 3; }},
      {"expiry", [](GroupLayer& l) { l.expiry.emplace(); },
       [](GroupLayer& l) { l.expiry.emplace().forced_age = Duration::Hours(1); }},
      {"pool", [](GroupLayer& l) { l.pool.emplace(); },
       [](GroupLayer& l) { l.pool.emplace().max_claimed = 5; }},
      {"draw_from", [](GroupLayer& l) { l.draw_from = Group("spare"); },
       [](GroupLayer& l) { l.draw_from = Group("other"); }},
  };
}

enum class Presence : std::uint8_t { kNoLayer, kUnset, kSet };
constexpr Presence kPresences[] = {Presence::kNoLayer, Presence::kUnset, Presence::kSet};

TEST(GroupMergeTest, EveryFieldInEveryCombinationOfPresence) {
  int checked = 0;
  for (const Field& field : Fields()) {
    for (const Presence in_static : kPresences) {
      for (const Presence in_dynamic : kPresences) {
        SCOPED_TRACE(field.name + " " + std::to_string(static_cast<int>(in_static)) + " " +
                     std::to_string(static_cast<int>(in_dynamic)));
        GroupLayer static_layer;
        DynamicGroup dynamic;
        if (in_static == Presence::kSet) field.set_static(static_layer);
        if (in_dynamic == Presence::kSet) field.set_dynamic(dynamic.layer);
        const GroupLayer static_before = static_layer;
        const DynamicGroup dynamic_before = dynamic;
        const auto merged = MergeGroup(in_static == Presence::kNoLayer ? nullptr : &static_layer,
                                       in_dynamic == Presence::kNoLayer ? nullptr : &dynamic);
        EXPECT_EQ(static_layer, static_before);
        EXPECT_EQ(dynamic, dynamic_before);
        ++checked;
        if (in_static == Presence::kNoLayer && in_dynamic == Presence::kNoLayer) {
          EXPECT_FALSE(merged.has_value());
          continue;
        }
        ASSERT_TRUE(merged.has_value());
        EXPECT_EQ(merged->is_static, in_static != Presence::kNoLayer);
        EXPECT_EQ(merged->size_is_ordered, field.name == "size" && in_dynamic == Presence::kSet);
        const bool from_dynamic =
            in_dynamic == Presence::kSet && (in_static == Presence::kNoLayer || field.dynamic_wins);
        GroupLayer expected;
        if (from_dynamic) {
          field.set_dynamic(expected);
        } else if (in_static == Presence::kSet) {
          field.set_static(expected);
        }
        EXPECT_EQ(merged->layer, expected);
      }
    }
  }
  EXPECT_EQ(checked, 12 * 9);
}

TEST(GroupMergeTest, VariablesAreOverlaidKeyByKey) {
  const GroupLayer static_layer{.template_name = "worker",
                                .vars = {{"A", "1"}, {"B", "2"}, {"C", ""}}};
  const DynamicGroup dynamic{.layer = {.vars = {{"B", ""}, {"D", "4"}}}};
  const auto merged = MergeGroup(&static_layer, &dynamic);
  EXPECT_EQ(merged->layer.vars, (config::StringMap{{"A", "1"}, {"B", ""}, {"C", ""}, {"D", "4"}}));
}

TEST(GroupMergeTest, AllLayersTogetherFollowTheRuleOfEachField) {
  const std::vector<Field> fields = Fields();
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    Prng prng(seed);
    GroupLayer static_layer;
    DynamicGroup dynamic;
    GroupLayer expected;
    for (const Field& field : fields) {
      const bool in_static = prng.Chance(1, 2);
      const bool in_dynamic = prng.Chance(1, 2);
      if (in_static) field.set_static(static_layer);
      if (in_dynamic) field.set_dynamic(dynamic.layer);
      if (in_static) field.set_static(expected);
      if (in_dynamic && field.dynamic_wins) field.set_dynamic(expected);
    }
    ASSERT_EQ(MergeGroup(&static_layer, &dynamic)->layer, expected) << "seed " << seed;
    ASSERT_EQ(MergeGroup(nullptr, &dynamic)->layer, dynamic.layer) << "seed " << seed;
    ASSERT_EQ(MergeGroup(&static_layer, nullptr)->layer, static_layer) << "seed " << seed;
  }
}

TEST(GroupMergeTest, AllGroupsOfBothSources) {
  Config config = SmallConfig();
  config.groups[DefaultTenant()] = {{Group("a"), {.template_name = "worker", .size = 1}},
                                    {Group("b"), {.template_name = "worker", .size = 2}}};
  const TenantId dev = TenantNamed("dev");
  const DynamicGroups dynamic = {
      {DefaultTenant(), {{Group("b"), {.layer = {.size = 9}, .remove = {SomeId(1)}}}}},
      {dev, {{Group("a"), {.layer = {.template_name = "bare"}}}}}};
  const EffectiveGroups groups = MergeGroups(config, dynamic);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups.at(DefaultTenant()).at(Group("a")).size(), 1);
  EXPECT_EQ(groups.at(DefaultTenant()).at(Group("b")).size(), 9);
  EXPECT_TRUE(groups.at(DefaultTenant()).at(Group("b")).is_static);
  EXPECT_EQ(groups.at(DefaultTenant()).at(Group("b")).remove, std::vector{SomeId(1)});
  EXPECT_FALSE(groups.at(dev).at(Group("a")).is_static);
  EXPECT_EQ(groups.at(dev).at(Group("a")).size(), 0);
}

TEST(GroupRemovalTest, ALayerWithATemplateLivesOnAsItIs) {
  const GroupLayer was{.template_name = "worker", .size = 3, .subnet_pool = PoolName("closed")};
  const DynamicGroup dynamic{.layer = {.template_name = "bare", .size = 1}};
  EXPECT_EQ(DynamicAfterRemoval(was, dynamic), dynamic);
}

TEST(GroupRemovalTest, ALayerWithoutATemplateKeepsWhatTheGroupWas) {
  const GroupLayer was{.template_name = "worker",
                       .size = 3,
                       .subnet_pool = PoolName("closed"),
                       .vars = {{"A", "1"}, {"B", "2"}},
                       .args = Object(R"({"x":1})")};
  const DynamicGroup dynamic{.layer = {.vars = {{"B", "3"}}},
                             .remove = {SomeId(1)},
                             .fence = config::Fence{.lease_uid = "u", .transitions = 4}};
  const DynamicGroup kept = DynamicAfterRemoval(was, dynamic);
  // To its members nothing has changed: the same group as before, now without restrictions.
  EXPECT_EQ(MergeGroup(nullptr, &kept)->layer, MergeGroup(&was, &dynamic)->layer);
  EXPECT_EQ(kept.layer.template_name, "worker");
  EXPECT_EQ(kept.layer.subnet_pool, PoolName("closed"));
  EXPECT_EQ(kept.layer.size, 3);
  EXPECT_EQ(kept.remove, dynamic.remove);
  EXPECT_EQ(kept.fence, dynamic.fence);
  EXPECT_FALSE(MergeGroup(nullptr, &kept)->is_static);
  EXPECT_TRUE(CheckGroup(SmallConfig(), *MergeGroup(nullptr, &kept)));
}

TEST(GroupRemovalTest, AReloadTouchesOnlyGroupsThatLeftTheFile) {
  Config before = SmallConfig();
  before.groups[DefaultTenant()] = {{Group("gone"), {.template_name = "worker", .size = 1}},
                                    {Group("kept"), {.template_name = "worker", .size = 2}}};
  Config after = before;
  after.groups[DefaultTenant()].erase(Group("gone"));
  const DynamicGroups dynamic = {{DefaultTenant(),
                                  {{Group("gone"), {.layer = {.instance_type = "b"}}},
                                   {Group("kept"), {.layer = {.size = 7}}},
                                   {Group("never"), {.layer = {.size = 7}}}}}};
  const DynamicGroups result = DynamicAfterReload(before, after, dynamic);
  const auto& groups = result.at(DefaultTenant());
  EXPECT_EQ(groups.at(Group("gone")).layer,
            (GroupLayer{.template_name = "worker", .size = 1, .instance_type = "b"}));
  EXPECT_EQ(groups.at(Group("kept")), dynamic.at(DefaultTenant()).at(Group("kept")));
  EXPECT_EQ(groups.at(Group("never")), dynamic.at(DefaultTenant()).at(Group("never")));
  EXPECT_EQ(DynamicAfterReload(before, before, dynamic), dynamic);
  EXPECT_EQ(DynamicAfterReload(after, after, result), result);
}

TEST(GroupCheckTest, WhatCannotMakeInstancesIsFrozenWithTheReason) {
  struct Row {
    GroupLayer layer;
    std::string reason;  // Empty: sound.
  };
  config::Pool warm_secret;
  warm_secret.warm_files = {"secret.key"};
  config::Pool warm_absent;
  warm_absent.warm_files = {"absent.env"};
  const std::vector<Row> rows = {
      {{.template_name = "worker"}, ""},
      {{.template_name = "worker", .subnet_pool = PoolName("closed")}, ""},
      {{.size = 3}, "template: missing"},
      {{.template_name = "knx"}, "template: \"knx\" is not defined; one of: bare, worker"},
      {{.template_name = "bare"}, "instance_type: missing"},
      {{.template_name = "bare", .instance_type = "z"}, "subnet_pool: missing"},
      {{.template_name = "bare", .instance_type = "z", .subnet_pool = PoolName("open")}, ""},
      {{.template_name = "worker", .instance_type = "z"},
       "instance_type: \"z\" is not allowed by the template; one of: a, b, c"},
      {{.template_name = "worker", .subnet_pool = PoolName("none")},
       "subnet_pool: \"none\" is not defined; one of: closed, default, open"},
      {{.template_name = "worker", .load_balancers = {Balancer("x")}},
       "load_balancers: \"x\" is not defined; one of: web"},
      {{.template_name = "worker", .size = -1}, "size: -1 is below the minimum"},
      {{.template_name = "worker", .pool = config::Pool{}, .draw_from = Group("a")},
       "draw_from: not in a group that is a pool itself"},
      {{.template_name = "worker", .pool = warm_secret},
       "pool.warm_files: \"secret.key\" is a secret or a certificate"},
      {{.template_name = "worker", .pool = warm_absent},
       "pool.warm_files: \"absent.env\" is no file of the template"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.reason);
    const Status status = CheckGroup(SmallConfig(), {.layer = row.layer});
    ASSERT_EQ(status.has_value(), row.reason.empty());
    if (status) continue;
    EXPECT_EQ(status.error().code, Code::kFailedPrecondition);
    EXPECT_TRUE(status.error().message.starts_with(row.reason)) << status.error().message;
  }
}

}  // namespace
}  // namespace nstance::test

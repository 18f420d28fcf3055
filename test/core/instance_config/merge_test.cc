// Merging of defaults, template, group and request: examples, then properties of the args merge
// over random values.
#include "core/instance_config/merge.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/config/args.h"
#include "test/base/random_json.h"
#include "test/core/instance_config/config_builder.h"

namespace nstance::test {
namespace {

using config::Config;
using config::GroupLayer;
using config::MergeArgs;
using config::UserData;

TEST(MergeArgsTest, ObjectsAreMergedEverythingElseIsReplaced) {
  struct Row {
    const char* base;
    const char* over;
    const char* result;
  };
  for (const Row& row :
       std::vector<Row>{{"{}", "{}", "{}"},
                        {R"({"a":1})", "{}", R"({"a":1})"},
                        {"{}", R"({"a":1})", R"({"a":1})"},
                        {R"({"a":{"x":1,"y":{"z":1}}})", R"({"a":{"y":{"w":2}},"b":3})",
                         R"({"a":{"x":1,"y":{"z":1,"w":2}},"b":3})"},
                        {R"({"a":[1,2]})", R"({"a":[3]})", R"({"a":[3]})"},
                        {R"({"a":{"x":1}})", R"({"a":[3]})", R"({"a":[3]})"},
                        {R"({"a":"s"})", R"({"a":{"x":1}})", R"({"a":{"x":1}})"},
                        {R"({"a":{"x":1}})", R"({"a":{}})", R"({"a":{"x":1}})"},
                        {R"({"a":{"x":1}})", R"({"a":null})", R"({"a":null})"},
                        {R"({"a":[{"x":1}]})", R"({"a":[{"y":1}]})", R"({"a":[{"y":1}]})"}}) {
    EXPECT_EQ(MergeArgs(Object(row.base), Object(row.over)), Object(row.result)) << row.result;
  }
}

json::Object RandomObject(RandomJson& random) {
  while (true) {
    const json::Value value = random.Value(4);
    if (value.if_object() != nullptr) return *value.if_object();
  }
}

TEST(MergeArgsTest, PropertiesOfRandomValues) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    RandomJson random(seed);
    const json::Object a = RandomObject(random);
    const json::Object b = RandomObject(random);
    const json::Object merged = MergeArgs(a, b);
    ASSERT_EQ(MergeArgs(a, {}), a);
    ASSERT_EQ(MergeArgs({}, a), a);
    ASSERT_EQ(MergeArgs(a, a), a);
    ASSERT_EQ(MergeArgs(merged, b), merged) << "seed " << seed;
  }
}

TEST(MergeInstanceConfigTest, EachFieldFromItsPlace) {
  Config config = SmallConfig();
  config.defaults = {.args = Object(R"({"tags":{"a":"1"},"list":[1],"d":1})"),
                     .vars = {{"A", "d"}, {"B", "d"}, {"C", "d"}},
                     .userdata = UserData{.content = "default"}};
  config.templates["worker"].args = Object(R"({"tags":{"b":"2"},"list":[2],"t":1})");
  config.templates["worker"].vars = {{"B", "t"}, {"C", "t"}};
  const Config before = config;
  const GroupLayer group{.template_name = "worker",
                         .vars = {{"C", "g"}},
                         .args = Object(R"({"tags":{"c":"3"},"g":1})")};
  const auto merged = MergeInstanceConfig(config, group);
  ASSERT_TRUE(merged);
  EXPECT_EQ(config, before);
  EXPECT_EQ(merged->args,
            Object(R"({"tags":{"a":"1","b":"2","c":"3"},"list":[2],"d":1,"t":1,"g":1})"));
  EXPECT_EQ(merged->vars, (config::StringMap{{"A", "d"}, {"B", "t"}, {"C", "g"}}));
  EXPECT_EQ(merged->userdata->content, "default");
  EXPECT_EQ(merged->instance_type, "a");
  EXPECT_EQ(merged->subnet_pool, PoolName("default"));
  EXPECT_EQ(merged->files, config.templates["worker"].files);
  EXPECT_EQ(merged->kind, "wrk");
  EXPECT_EQ(merged->template_name, "worker");
}

TEST(MergeInstanceConfigTest, TheGroupAndTheTemplateGoFirst) {
  Config config = SmallConfig();
  config.defaults.userdata = UserData{.content = "default"};
  config.templates["worker"].userdata = UserData{.content = "own"};
  const auto merged = MergeInstanceConfig(
      config, {.template_name = "worker", .instance_type = "b", .subnet_pool = PoolName("open")});
  EXPECT_EQ(merged->userdata->content, "own");
  EXPECT_EQ(merged->instance_type, "b");
  EXPECT_EQ(merged->subnet_pool, PoolName("open"));
}

TEST(MergeInstanceConfigTest, WithoutUserDataThereIsNone) {
  EXPECT_FALSE(MergeInstanceConfig(SmallConfig(), {.template_name = "worker"})->userdata);
}

TEST(MergeInstanceConfigTest, WithoutATemplateThereIsAnError) {
  for (const GroupLayer& layer : {GroupLayer{}, GroupLayer{.template_name = "knx"}}) {
    const auto merged = MergeInstanceConfig(SmallConfig(), layer);
    ASSERT_FALSE(merged);
    EXPECT_EQ(merged.error().code, Code::kFailedPrecondition);
  }
}

struct OverlayRow {
  std::string name;
  EffectiveGroup group;
  InstanceOverlay request;
  std::optional<Code> code;
  GroupLayer layer = {};
};

TEST(OverlayInstanceTest, WhatARequestMayChange) {
  const EffectiveGroup dynamic{
      .layer = {.template_name = "worker", .size = 2, .vars = {{"A", "1"}}}};
  EffectiveGroup fixed = dynamic;
  fixed.is_static = true;
  EffectiveGroup closed = fixed;
  closed.layer.subnet_pool = PoolName("closed");
  const auto with = [](GroupLayer layer, const std::function<void(GroupLayer&)>& change) {
    change(layer);
    return layer;
  };
  const std::vector<OverlayRow> rows = {
      {"nothing", dynamic, {}, {}, dynamic.layer},
      {"type",
       dynamic,
       {.instance_type = "b"},
       {},
       with(dynamic.layer, [](auto& l) { l.instance_type = "b"; })},
      {"type of a static group",
       fixed,
       {.instance_type = "b"},
       {},
       with(fixed.layer, [](auto& l) { l.instance_type = "b"; })},
      {"type not allowed", dynamic, {.instance_type = "z"}, Code::kInvalidArgument},
      {"another architecture", dynamic, {.instance_type = "c"}, Code::kInvalidArgument},
      {"pool",
       dynamic,
       {.subnet_pool = "open"},
       {},
       with(dynamic.layer, [](auto& l) { l.subnet_pool = PoolName("open"); })},
      {"closed pool", dynamic, {.subnet_pool = "closed"}, Code::kInvalidArgument},
      {"unknown pool", dynamic, {.subnet_pool = "none"}, Code::kInvalidArgument},
      {"pool of a static group", fixed, {.subnet_pool = "open"}, Code::kFailedPrecondition},
      {"its own pool",
       fixed,
       {.subnet_pool = "default"},
       {},
       with(fixed.layer, [](auto& l) { l.subnet_pool = PoolName("default"); })},
      {"a group in a closed pool", closed, {}, Code::kInvalidArgument},
      {"template",
       dynamic,
       {.template_name = "bare", .instance_type = "z", .subnet_pool = "open"},
       {},
       with(dynamic.layer,
            [](auto& l) {
              l.template_name = "bare";
              l.instance_type = "z";
              l.subnet_pool = PoolName("open");
            })},
      {"template without a type", dynamic, {.template_name = "bare"}, Code::kInvalidArgument},
      {"unknown template", dynamic, {.template_name = "knx"}, Code::kInvalidArgument},
      {"template of a static group", fixed, {.template_name = "bare"}, Code::kFailedPrecondition},
      {"its own template", fixed, {.template_name = "worker"}, {}, fixed.layer},
      {"vars",
       fixed,
       {.vars = {{"A", "2"}, {"B", "3"}}},
       {},
       with(fixed.layer, [](auto& l) { l.vars = {{"A", "2"}, {"B", "3"}}; })},
      {"bad vars", fixed, {.vars = {{"a-b", "2"}}}, Code::kInvalidArgument},
      {"a frozen group", {.layer = {.template_name = "knx"}}, {}, Code::kFailedPrecondition},
  };
  const ArchOf arch_of = [](std::string_view type) -> std::optional<config::Arch> {
    if (type == "c") return config::Arch::kArm64;
    return std::nullopt;
  };
  for (const OverlayRow& row : rows) {
    SCOPED_TRACE(row.name);
    const EffectiveGroup before = row.group;
    const auto layer = OverlayInstance(SmallConfig(), row.group, row.request, arch_of);
    EXPECT_EQ(row.group, before);
    ASSERT_EQ(layer.has_value(), !row.code.has_value())
        << (layer ? "accepted" : layer.error().ToString());
    if (layer) {
      EXPECT_EQ(*layer, row.layer);
    } else {
      EXPECT_EQ(CodeName(layer.error().code), CodeName(*row.code)) << layer.error().ToString();
    }
  }
}

}  // namespace
}  // namespace nstance::test

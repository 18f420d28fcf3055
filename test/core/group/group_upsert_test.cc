// UpsertGroup: a table of requests for each kind of group, then properties over random requests: an
// error names its field, an accepted request is sound, and asking twice changes nothing.
#include "core/group/group_upsert.h"

#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "core/group/group_merge.h"
#include "test/core/instance_config/config_builder.h"

namespace nstance::test {
namespace {

using config::Config;
using config::DynamicGroup;
using config::Fence;
using config::GroupLayer;
using config::StringMap;

// The group as stored; a request changes it or is refused.
struct Bench {
  Config config = SmallConfig();
  std::optional<GroupLayer> static_layer = {};
  std::optional<DynamicGroup> dynamic = {};

  [[nodiscard]] Result<UpsertResult> Apply(const UpsertRequest& request) const {
    const UpsertWorld world{.config = config,
                            .arch_of = [](std::string_view type) -> std::optional<config::Arch> {
                              if (type == "c") return config::Arch::kArm64;
                              return std::nullopt;
                            },
                            .is_pool = [](const GroupKey& key) { return key.text() == "spare"; }};
    return ApplyUpsert(world,
                       {.static_layer = static_layer ? &*static_layer : nullptr,
                        .dynamic = dynamic ? &*dynamic : nullptr},
                       request);
  }
  void Accept(const UpsertRequest& request) {
    Result<UpsertResult> result = Apply(request);
    ASSERT_TRUE(result) << result.error().ToString();
    dynamic = result->dynamic;
  }
};

Bench Static() {
  return {.static_layer = GroupLayer{.template_name = "worker",
                                     .size = 3,
                                     .vars = {{"A", "1"}},
                                     .args = Object(R"({"x":"1","deep":{"y":2}})")}};
}

Bench Dynamic() {
  return {.dynamic = DynamicGroup{.layer = {.template_name = "worker",
                                            .size = 2,
                                            .instance_type = "b",
                                            .subnet_pool = PoolName("open"),
                                            .vars = {{"A", "1"}, {"B", "2"}},
                                            .args = Object(R"({"x":"1","deep":{"y":2}})")}}};
}

struct Row {
  std::string name;
  UpsertRequest request;
  Code code = Code::kInvalidArgument;
  std::string message;  // Empty: accepted.
  GroupLayer layer = {};
};

void RunRows(const Bench& bench, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const Result<UpsertResult> result = bench.Apply(row.request);
    ASSERT_EQ(result.has_value(), row.message.empty())
        << (result ? "accepted" : result.error().ToString());
    if (result) {
      EXPECT_EQ(result->dynamic.layer, row.layer);
      continue;
    }
    EXPECT_EQ(CodeName(result.error().code), CodeName(row.code));
    EXPECT_TRUE(result.error().message.starts_with(row.message)) << result.error().message;
  }
}

TEST(GroupUpsertTest, ANewGroup) {
  constexpr Code kBad = Code::kInvalidArgument;
  RunRows(
      {},
      {{"no template", {.size = 1}, kBad, "template: missing"},
       {"unknown template", {.template_name = "knx"}, kBad, "template: \"knx\" is not defined"},
       {"from the template", {.template_name = "worker"}, kBad, "", {.template_name = "worker"}},
       {"size 0",
        {.template_name = "worker", .size = 0},
        kBad,
        "",
        {.template_name = "worker", .size = 0}},
       {"largest",
        {.template_name = "worker", .size = 10'000},
        kBad,
        "",
        {.template_name = "worker", .size = 10'000}},
       {"negative", {.template_name = "worker", .size = -1}, kBad, "size: -1 is below the minimum"},
       {"too large",
        {.template_name = "worker", .size = 10'001},
        kBad,
        "size: 10001 is above the maximum"},
       {"type not allowed",
        {.template_name = "worker", .instance_type = "z"},
        kBad,
        "instance_type: \"z\" is not allowed"},
       {"another architecture",
        {.template_name = "worker", .instance_type = "c"},
        kBad,
        "instance_type: \"c\" is arm64; the template's arch is amd64"},
       {"no type anywhere", {.template_name = "bare"}, kBad, "instance_type: missing"},
       {"no pool anywhere",
        {.template_name = "bare", .instance_type = "z"},
        kBad,
        "subnet_pool: missing"},
       {"unknown pool",
        {.template_name = "worker", .subnet_pool = "none"},
        kBad,
        "subnet_pool: \"none\" is not defined"},
       {"not a pool name",
        {.template_name = "worker", .subnet_pool = "No Name"},
        kBad,
        "subnet_pool: \"No Name\" is not defined"},
       {"closed pool",
        {.template_name = "worker", .subnet_pool = "closed"},
        kBad,
        "subnet_pool: \"closed\" is not open to dynamic groups"},
       {"draws from no pool",
        {.template_name = "worker", .draw_from = "workers"},
        kBad,
        "draw_from: \"workers\" is not a pool of this tenant"},
       {"draws from a bad name",
        {.template_name = "worker", .draw_from = "A"},
        kBad,
        "draw_from: "},
       {"draws",
        {.template_name = "worker", .draw_from = "spare"},
        kBad,
        "",
        {.template_name = "worker", .draw_from = Group("spare")}},
       {"bad variable",
        {.template_name = "worker", .vars = {{"1A", ""}}},
        kBad,
        "vars: \"1A\" is not a name of a variable"},
       {"long value",
        {.template_name = "worker", .vars = {{"A", std::string(4'097, 'x')}}},
        kBad,
        "vars: the value of \"A\" has 4097 bytes; at most 4096"},
       {"not UTF-8", {.template_name = "worker", .args = {{"a", "\xFF"}}}, kBad, "args: \"a\" or"},
       {"empty name", {.template_name = "worker", .args = {{"", "x"}}}, kBad, "args: a name is"},
       {"bad replace",
        {.template_name = "worker", .replace = {"size"}},
        kBad,
        "replace: \"size\" cannot be replaced"},
       {"bad id",
        {.template_name = "worker", .remove_instance_ids = {"x"}},
        kBad,
        "remove_instance_ids: "}});
}

TEST(GroupUpsertTest, ATemplateWhosePoolIsClosedNeedsAnother) {
  Bench bench;
  bench.config.templates["worker"].subnet_pool = PoolName("closed");
  EXPECT_EQ(bench.Apply({.template_name = "worker"}).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(bench.Apply({.template_name = "worker", .subnet_pool = "open"}));
}

TEST(GroupUpsertTest, ADynamicGroup) {
  constexpr Code kBad = Code::kInvalidArgument;
  const GroupLayer was = Dynamic().dynamic->layer;
  const auto with = [&](const std::function<void(GroupLayer&)>& change) {
    GroupLayer layer = was;
    change(layer);
    return layer;
  };
  RunRows(
      Dynamic(),
      {{"nothing", {}, kBad, "", was},
       {"size", {.size = 0}, kBad, "", with([](auto& l) { l.size = 0; })},
       {"type", {.instance_type = "a"}, kBad, "", with([](auto& l) { l.instance_type = "a"; })},
       {"type removed", {.replace = {"instance_type"}}, kBad, "", with([](auto& l) {
          l.instance_type = "";
        })},
       {"template with a type of its own", {.template_name = "bare"}, kBad, "", with([](auto& l) {
          l.template_name = "bare";
        })},
       {"pool", {.subnet_pool = "default"}, kBad, "", with([](auto& l) {
          l.subnet_pool = PoolName("default");
        })},
       {"pool removed", {.replace = {"subnet_pool"}}, kBad, "", with([](auto& l) {
          l.subnet_pool.reset();
        })},
       {"pool closed", {.subnet_pool = "closed"}, kBad, "subnet_pool: \"closed\" is not open"},
       {"vars merge", {.vars = {{"B", ""}, {"C", "3"}}}, kBad, "", with([](auto& l) {
          l.vars = {{"A", "1"}, {"B", ""}, {"C", "3"}};
        })},
       {"vars replaced", {.vars = {{"C", "3"}}, .replace = {"vars"}}, kBad, "", with([](auto& l) {
          l.vars = {{"C", "3"}};
        })},
       {"vars removed", {.replace = {"vars"}}, kBad, "", with([](auto& l) { l.vars.clear(); })},
       {"args merge by key, not deeper",
        {.args = {{"deep", "z"}, {"n", "5"}}},
        kBad,
        "",
        with([](auto& l) { l.args = Object(R"({"x":"1","deep":"z","n":"5"})"); })},
       {"args replaced", {.args = {{"n", "5"}}, .replace = {"args"}}, kBad, "", with([](auto& l) {
          l.args = Object(R"({"n":"5"})");
        })},
       {"draws", {.draw_from = "spare"}, kBad, "", with([](auto& l) {
          l.draw_from = Group("spare");
        })},
       {"pool of a template without one removed",
        {.template_name = "bare", .replace = {"subnet_pool"}},
        kBad,
        "subnet_pool: missing"}});
}

TEST(GroupUpsertTest, AStaticGroup) {
  constexpr Code kBad = Code::kFailedPrecondition;
  RunRows(
      Static(),
      {{"nothing", {}, kBad, "", {}},
       {"size", {.size = 0}, kBad, "", {.size = 0}},
       {"type", {.instance_type = "b"}, kBad, "", {.instance_type = "b"}},
       {"type of the file again", {.instance_type = "a"}, kBad, "", {.instance_type = "a"}},
       {"type not allowed",
        {.instance_type = "z"},
        Code::kInvalidArgument,
        "instance_type: \"z\" is not allowed"},
       {"vars", {.vars = {{"A", "2"}}}, kBad, "", {.vars = {{"A", "2"}}}},
       {"negative size", {.size = -1}, Code::kInvalidArgument, "size: -1"},
       {"template", {.template_name = "bare"}, kBad, "template: cannot be changed"},
       {"unknown template", {.template_name = "knx"}, kBad, "template: cannot be changed"},
       {"same template", {.template_name = "worker", .size = 1}, kBad, "", {.size = 1}},
       {"pool", {.subnet_pool = "open"}, kBad, "subnet_pool: cannot be changed"},
       {"pool of the template", {.size = 1, .subnet_pool = "default"}, kBad, "", {.size = 1}},
       {"pool as in the file", {.size = 1, .replace = {"subnet_pool"}}, kBad, "", {.size = 1}},
       {"args", {.args = {{"x", "2"}}}, kBad, "args: cannot be changed"},
       {"more args", {.args = {{"z", "2"}}}, kBad, "args: cannot be changed"},
       {"same args", {.size = 1, .args = {{"x", "1"}}}, kBad, "", {.size = 1}},
       {"args removed", {.replace = {"args"}}, kBad, "args: cannot be changed"},
       {"draw_from", {.draw_from = "spare"}, kBad, "draw_from: cannot be changed"},
       {"draw_from stays absent", {.size = 1, .replace = {"draw_from"}}, kBad, "", {.size = 1}}});
}

TEST(GroupUpsertTest, AStaticGroupThatSaysMoreInTheFile) {
  constexpr Code kBad = Code::kFailedPrecondition;
  Bench bench = Static();
  bench.static_layer->subnet_pool = PoolName("closed");
  bench.static_layer->draw_from = Group("spare");
  RunRows(bench, {{"pool as in the file, though closed", {.subnet_pool = "closed"}, kBad, "", {}},
                  {"pool of the template", {.subnet_pool = "default"}, kBad, "subnet_pool: cannot"},
                  {"pool removed", {.replace = {"subnet_pool"}}, kBad, "subnet_pool: cannot"},
                  {"draw_from as in the file", {.draw_from = "spare"}, kBad, "", {}},
                  {"draw_from removed", {.replace = {"draw_from"}}, kBad, "draw_from: cannot"}});
}

TEST(GroupUpsertTest, AFormerStaticGroupKeepsItsClosedPool) {
  Bench bench;
  bench.dynamic = DynamicGroup{
      .layer = {.template_name = "worker", .size = 3, .subnet_pool = PoolName("closed")}};
  EXPECT_TRUE(bench.Apply({.size = 5}));
  EXPECT_TRUE(bench.Apply({.subnet_pool = "closed"}));
  bench.Accept({.subnet_pool = "open"});
  EXPECT_FALSE(bench.Apply({.subnet_pool = "closed"}));
}

TEST(GroupUpsertTest, AFenceOfAnOlderLeaderIsRefused) {
  Bench bench = Dynamic();
  bench.Accept({.size = 4, .fence = Fence{.lease_uid = "u", .transitions = 5}});
  EXPECT_EQ(bench.dynamic->fence, (Fence{.lease_uid = "u", .transitions = 5}));
  const auto old = bench.Apply({.size = 1, .fence = Fence{.lease_uid = "u", .transitions = 4}});
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(old.error().message.starts_with("fence: ")) << old.error().message;
  const auto newer = bench.Apply({.fence = Fence{.lease_uid = "u", .transitions = 6}});
  ASSERT_TRUE(newer);
  EXPECT_TRUE(newer->changed);
  const auto other = bench.Apply({.fence = Fence{.lease_uid = "v", .transitions = 0}});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->dynamic.fence->lease_uid, "v");
  const auto without = bench.Apply({.size = 1});
  ASSERT_TRUE(without);
  EXPECT_EQ(without->dynamic.fence, bench.dynamic->fence);
}

TEST(GroupUpsertTest, NamedMembersBelongToTheLastSize) {
  Bench bench = Dynamic();
  const std::string one = SomeId(1).text();
  const std::string two = SomeId(2).text();
  bench.Accept({.size = 1, .remove_instance_ids = {one, two, one}});
  EXPECT_EQ(bench.dynamic->remove, (std::vector{SomeId(1), SomeId(2)}));
  bench.Accept({.vars = {{"A", "9"}}});
  EXPECT_EQ(bench.dynamic->remove.size(), 2U);
  bench.Accept({.remove_instance_ids = {two}});
  EXPECT_EQ(bench.dynamic->remove, std::vector{SomeId(2)});
  bench.Accept({.size = 3});
  EXPECT_TRUE(bench.dynamic->remove.empty());
  EXPECT_FALSE(bench.Apply({.remove_instance_ids = std::vector<std::string>(257, one)}));
}

TEST(GroupUpsertTest, MapsDoNotGrowWithoutEnd) {
  Bench bench = Dynamic();
  for (int i = 0; i < 126; ++i) bench.Accept({.vars = {{fmt::format("V{}", i), "x"}}});
  EXPECT_EQ(bench.dynamic->layer.vars.size(), 128U);
  EXPECT_FALSE(bench.Apply({.vars = {{"ONE_MORE", "x"}}}));
  EXPECT_TRUE(bench.Apply({.vars = {{"V1", "y"}}}));
  StringMap many;
  for (int i = 0; i < 129; ++i) many[fmt::format("V{}", i)] = "x";
  EXPECT_FALSE(bench.Apply({.vars = many, .replace = {"vars"}}));
  EXPECT_FALSE(bench.Apply({.args = many}));
}

TEST(GroupUpsertTest, UnknownMembersOfTheStoredLayerStay) {
  Bench bench = Dynamic();
  bench.dynamic->unknown = Object(R"({"future":true})");
  bench.Accept({.size = 9});
  EXPECT_EQ(bench.dynamic->unknown, Object(R"({"future":true})"));
}

// ---- properties ---------------------------------------------------------------------------------

std::string Pick(Prng& prng, const std::vector<std::string>& from) {
  return from[static_cast<std::size_t>(prng.Below(from.size()))];
}

UpsertRequest RandomRequest(Prng& prng) {
  UpsertRequest request;
  request.template_name = Pick(prng, {"", "", "worker", "bare", "knx"});
  if (prng.Chance(2, 3)) request.size = prng.Between(-1, 5);
  request.instance_type = Pick(prng, {"", "", "a", "b", "c", "z"});
  request.subnet_pool = Pick(prng, {"", "", "default", "open", "closed", "none"});
  if (prng.Chance(1, 3)) request.vars[Pick(prng, {"A", "B", "1"})] = Pick(prng, {"", "x", "y"});
  if (prng.Chance(1, 3)) request.args[Pick(prng, {"x", "n"})] = Pick(prng, {"1", "2"});
  request.draw_from = Pick(prng, {"", "", "", "spare", "none"});
  for (const char* field : {"instance_type", "subnet_pool", "vars", "args", "draw_from"}) {
    if (prng.Chance(1, 6)) request.replace.emplace_back(field);
  }
  if (prng.Chance(1, 6)) request.remove_instance_ids = {SomeId(1).text()};
  if (prng.Chance(1, 4)) request.fence = Fence{.lease_uid = "u", .transitions = prng.Between(0, 3)};
  return request;
}

TEST(GroupUpsertTest, AcceptedRequestsAreSoundAndRepeatable) {
  int accepted = 0;
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    Prng prng(seed);
    Bench bench = prng.Chance(1, 3) ? Static() : prng.Chance(1, 2) ? Dynamic() : Bench{};
    for (int step = 0; step < 4; ++step) {
      const UpsertRequest request = RandomRequest(prng);
      const Result<UpsertResult> result = bench.Apply(request);
      ++(result ? accepted : refused);
      if (!result) continue;
      const std::optional<DynamicGroup> before = bench.dynamic;
      bench.dynamic = result->dynamic;
      ASSERT_EQ(result->changed, before.value_or(DynamicGroup{}) != result->dynamic);
      const auto merged =
          MergeGroup(bench.static_layer ? &*bench.static_layer : nullptr, &*bench.dynamic);
      ASSERT_TRUE(CheckGroup(bench.config, *merged)) << "seed " << seed;
      if (bench.static_layer) {
        ASSERT_EQ(merged->layer.template_name, bench.static_layer->template_name);
        ASSERT_EQ(merged->layer.subnet_pool, bench.static_layer->subnet_pool);
        ASSERT_EQ(merged->layer.args, bench.static_layer->args);
      }
      const Result<UpsertResult> again = bench.Apply(request);
      ASSERT_TRUE(again) << "seed " << seed << ": " << again.error().ToString();
      ASSERT_FALSE(again->changed) << "seed " << seed;
    }
  }
  EXPECT_GT(accepted, 1'000);
  EXPECT_GT(refused, 1'000);
}

}  // namespace
}  // namespace nstance::test

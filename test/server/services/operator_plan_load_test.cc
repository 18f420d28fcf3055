// Plan of a tenant with thousands of groups: its answer is whole or refused, and it takes turns of
// the loop with everybody else.
//
// Every group here lacks an image, so that each has one hold with a long text, which nothing ever
// ends.
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/server/services/services_world.h"

namespace nstance::test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// Names as long as they may be.
const std::string kImage(128, 'i');
std::string GroupName(int number) { return fmt::format("g{:05}-{}", number, std::string(25, 'x')); }

ServicesSettings ManyGroups(int count) {
  ServicesSettings settings{
      .provider = R"({"kind": "aws", "region": "r", "zone": "r-a"})",
      .more_templates = R"(, "imaged": {"kind": "img", "arch": "amd64", "instance_type": "small",
          "subnet_pool": "p", "args": {"ImageId": "{{ .Image.)" +
                        kImage + R"( }}"}, "userdata": {"content": "token={{ .Nonce }}"}})",
      .more_members = R"(, "images": {")" + kImage +
                      R"(": {"provider": "aws", "owners": ["me"], "sort": "creation-date",
          "filters": [{"name": "name", "values": ["debian-*"]}]}})",
      .cloud = config::ProviderKind::kAws};
  for (int i = 0; i < count; ++i) {
    settings.more_groups += fmt::format(R"(,"{}":{{"template":"imaged","size":1}})", GroupName(i));
  }
  return settings;
}

// Tasks that the world runs until the call has ended.
int StepsOf(ServicesWorld& world, const ClientCallPtr& call) {
  int steps = 0;
  while (!call->end.has_value() && world.scheduler.Step()) ++steps;
  return steps;
}

TEST(OperatorPlanLoadTest, ALargePlanIsWholeAndTakesTurnsWithOthers) {
  constexpr int kGroups = 400;
  constexpr int kInstances = 99;
  ServicesWorld world(ManyGroups(kGroups));
  const RpcTls ops = world.Operator(kProd);
  for (int i = 0; i < kInstances; ++i) {
    ASSERT_TRUE(
        world.Call(ops, api::kCreateInstance, {.config = api::InstanceConfig{.group = "workers"}}));
  }
  world.For(Duration::Minutes(2));
  const auto plan = world.Call(ops, api::kPlan, {});
  ASSERT_TRUE(plan.has_value()) << plan.error().ToString();
  ASSERT_THAT(plan->holds, SizeIs(kGroups));
  for (int i = 0; i < kGroups; ++i) {
    EXPECT_EQ(plan->holds[static_cast<std::size_t>(i)].group, GroupName(i));
  }
  // A turn looks at 10,000 instances and groups: here those of 100 groups.
  const ClientCallPtr small = world.Begin(ops, api::kPlan, {.group = GroupName(0)});
  const int few = StepsOf(world, small);
  const ClientCallPtr large = world.Begin(ops, api::kPlan, {});
  EXPECT_GE(StepsOf(world, large), few + (kGroups + 2) * (kInstances + 1) / 10'000 - 1);
  // One that comes later and wants less is not kept waiting for it.
  const ClientCallPtr first = world.Begin(ops, api::kPlan, {});
  const ClientCallPtr second = world.Begin(ops, api::kPlan, {.group = GroupName(1)});
  ASSERT_TRUE(world.Until([&] { return second->end.has_value(); }));
  EXPECT_TRUE(second->good());
  ASSERT_TRUE(world.Until([&] { return first->end.has_value(); }));
  EXPECT_TRUE(first->good());
}

TEST(OperatorPlanLoadTest, APlanAboveThreeMebibytesIsRefusedAndOneGroupIsNot) {
  ServicesWorld world(ManyGroups(12'000));
  const RpcTls ops = world.Operator(kProd);
  const auto all = world.Call(ops, api::kPlan, {});
  ASSERT_FALSE(all.has_value());
  EXPECT_EQ(all.error().code, Code::kResourceExhausted);
  EXPECT_EQ(all.error().message, "the plan is above 3 MiB; ask for one group");
  const auto one = world.Call(ops, api::kPlan, {.group = GroupName(11'999)});
  ASSERT_TRUE(one.has_value()) << one.error().ToString();
  ASSERT_THAT(one->holds, SizeIs(1));
  EXPECT_EQ(one->holds[0].code, "image-unresolved");
  EXPECT_THAT(one->holds[0].detail, HasSubstr("an image is not resolved (image iii"));
}

}  // namespace
}  // namespace nstance::test

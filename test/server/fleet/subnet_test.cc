// Subnets with room and without: who is full by the provider's word gets nothing, and is filled
// when there is room again.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "test/server/fleet/fleet_world.h"

namespace nstance::test {
namespace {

std::map<std::string, int> BySubnet(World& world) {
  std::map<std::string, int> out;
  for (const sim::SimVm* vm : world.cloud().Vms()) ++out[vm->request->subnet];
  return out;
}

bool Holds(World& world, fleet::HoldCode code) {
  const fleet::Plan* plan = world.leader().fleet().LastPlan(DefaultTenant(), kWorkers);
  if (plan == nullptr) return false;
  return std::ranges::any_of(plan->holds,
                             [code](const fleet::Hold& hold) { return hold.code == code; });
}

TEST(SubnetTest, AFullSubnetGetsNothing) {
  World world({.size = 0});
  world.cloud().limits().subnets["s1"] = 0;
  world.Lead("s1");
  world.For(Duration::Seconds(2));
  world.leader().SetSize(4);
  ASSERT_TRUE(world.UntilReady(4));
  EXPECT_EQ(BySubnet(world), (std::map<std::string, int>{{"s2", 4}}));
  EXPECT_TRUE(world.leader().errors.empty()) << "nothing was tried in vain";
}

TEST(SubnetTest, NoMoreAreAskedForThanThereIsRoom) {
  World world({.size = 0});
  world.cloud().limits().subnets = {{"s1", 1}, {"s2", 2}};
  world.Lead("s1");
  world.For(Duration::Seconds(2));
  world.leader().SetSize(5);
  ASSERT_TRUE(world.UntilReady(3));
  EXPECT_EQ(BySubnet(world), (std::map<std::string, int>{{"s1", 1}, {"s2", 2}}));
  EXPECT_TRUE(Holds(world, fleet::HoldCode::kSubnetFull));
  EXPECT_TRUE(world.leader().errors.empty()) << world.leader().errors.front();
  // Somebody makes room.
  world.cloud().limits().subnets["s1"] = 10;
  ASSERT_TRUE(world.UntilReady(5, Duration::Minutes(2)));
  EXPECT_EQ(BySubnet(world), (std::map<std::string, int>{{"s1", 3}, {"s2", 2}}));
}

TEST(SubnetTest, WithoutALimitTheSubnetsFillEvenly) {
  World world({.size = 6});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(6));
  EXPECT_EQ(BySubnet(world), (std::map<std::string, int>{{"s1", 3}, {"s2", 3}}));
  world.leader().SetSize(7);
  world.leader().SetSize(8);
  ASSERT_TRUE(world.UntilReady(8));
  EXPECT_EQ(BySubnet(world), (std::map<std::string, int>{{"s1", 4}, {"s2", 4}}));
}

}  // namespace
}  // namespace nstance::test

// The memory of instance types: asked once, kept, bounded, and never in anybody's way when the
// provider does not answer.
#include "server/type_archs.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/sim_loop.h"
#include "sim/sim_provider.h"

namespace nstance::test {
namespace {

using Method = sim::SimProviderMethod;

class TypeArchsTest : public testing::Test {
 public:
  void SetUp() override {
    cloud.limits().type_architectures = {{"x86", config::Arch::kAmd64},
                                         {"arm", config::Arch::kArm64}};
  }
  // Whether it was answered within the limit.
  bool Learn(const TypeArchs::Types& asked) {
    bool learnt = types.Settled(asked);
    Pending call;
    if (!learnt) call = types.Learn(asked, [&] { learnt = true; });
    return scheduler.RunUntilTrue([&] { return learnt; },
                                  TypeArchs::kAnswerLimit + Duration::Seconds(1));
  }
  [[nodiscard]] std::uint64_t Asked() const { return cloud.Count(Method::kTypeArch); }

  sim::SimScheduler scheduler{1};
  sim::SimCloud cloud{scheduler, {}};
  sim::SimLoop loop{scheduler, Timestamp()};
  sim::SimProvider provider{
      cloud,
      loop,
      {.process = "p", .cluster = *ClusterId::Parse("c1"), .shard = *ShardId::Parse("a")}};
  TypeArchs types{loop, provider, 1};
};

TEST_F(TypeArchsTest, WhatTheProviderKnowsIsAskedOnceAndKept) {
  EXPECT_EQ(types.Find("x86"), std::nullopt);
  ASSERT_TRUE(Learn({"x86", "arm"}));
  EXPECT_EQ(types.Find("x86"), config::Arch::kAmd64);
  EXPECT_EQ(types.Find("arm"), config::Arch::kArm64);
  EXPECT_EQ(Asked(), 2U);
  scheduler.RunFor(Duration::Hours(24));
  EXPECT_TRUE(types.Settled({"x86", "arm"}));
  EXPECT_EQ(Asked(), 2U);
}

TEST_F(TypeArchsTest, ManyWhoAskAtOnceCostOneQuestion) {
  int told = 0;
  std::vector<Pending> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(types.Learn({"x86"}, [&] { ++told; }));
  EXPECT_EQ(told, 0) << "never from inside";
  EXPECT_FALSE(types.Settled({"x86"}));
  calls.pop_back();  // This one no longer wants to know.
  scheduler.RunFor(Duration::Seconds(5));
  EXPECT_EQ(told, 9);
  EXPECT_EQ(Asked(), 1U);
}

TEST_F(TypeArchsTest, WhatNobodyKnowsIsNotRefusedAndAskedAgainMuchLater) {
  ASSERT_TRUE(Learn({"odd"}));
  EXPECT_EQ(types.Find("odd"), std::nullopt);
  scheduler.RunFor(Duration::Minutes(9));
  EXPECT_TRUE(types.Settled({"odd"}));
  scheduler.RunFor(Duration::Minutes(2));
  EXPECT_FALSE(types.Settled({"odd"}));
  cloud.limits().type_architectures["odd"] = config::Arch::kArm64;
  ASSERT_TRUE(Learn({"odd"}));
  EXPECT_EQ(types.Find("odd"), config::Arch::kArm64);
}

TEST_F(TypeArchsTest, AProviderThatDoesNotAnswerHoldsNobodyUpForLong) {
  provider.faults().request_lost = 10'000;
  const Instant begun = loop.Now();
  ASSERT_TRUE(Learn({"x86"}));
  EXPECT_LE(loop.Now() - begun, TypeArchs::kAnswerLimit + Duration::Seconds(1));
  EXPECT_EQ(types.Find("x86"), std::nullopt);
  provider.faults().request_lost = 0;
  EXPECT_TRUE(types.Settled({"x86"})) << "not tried again for every call";
  scheduler.RunFor(Duration::Seconds(31));
  ASSERT_TRUE(Learn({"x86"}));
  EXPECT_EQ(types.Find("x86"), config::Arch::kAmd64);
}

TEST_F(TypeArchsTest, MadeUpTypesCostAFixedAmount) {
  std::vector<Pending> calls;
  int told = 0;
  for (int i = 0; i < 500; ++i) {
    calls.push_back(types.Learn({"t" + std::to_string(i)}, [&] { ++told; }));
  }
  EXPECT_LE(types.size(), TypeArchs::kMaxQuestions);
  scheduler.RunFor(Duration::Seconds(5));
  EXPECT_EQ(told, 500) << "those beyond go on without knowing";
  EXPECT_EQ(Asked(), TypeArchs::kMaxQuestions);
  for (int i = 0; i < 3'000; i += 50) {
    TypeArchs::Types some;
    for (int j = 0; j < 50; ++j) some.push_back("u" + std::to_string(i + j));
    ASSERT_TRUE(Learn(some));
    ASSERT_LE(types.size(), TypeArchs::kMaxTypes);
  }
  ASSERT_TRUE(Learn({"arm"}));
  EXPECT_EQ(types.Find("arm"), config::Arch::kArm64);
  EXPECT_EQ(types.size(), TypeArchs::kMaxTypes);
}

TEST_F(TypeArchsTest, DestroyingItLeavesNoCallback) {
  bool told = false;
  {
    TypeArchs gone(loop, provider, 1);
    Pending call = gone.Learn({"x86"}, [&] { told = true; });
  }
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace nstance::test

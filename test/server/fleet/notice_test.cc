// What an agent says about its machine's end (BI-70): known actions drain and replace, others are
// none; a deadline is held to what it can mean.
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "test/server/fleet/fleet_world.h"

namespace nstance::test {
namespace {

class NoticeTest : public testing::Test {
 public:
  void SetUp() override {
    leader = &world.Lead("s1");
    ASSERT_TRUE(world.UntilReady(3));
    for (const Instance* instance : leader->fleet().OfTenant(DefaultTenant())) {
      if (instance->phase() == InstancePhase::kRegistered) victim = instance->id;
    }
    ASSERT_TRUE(victim.has_value());
  }

  void Notice(const std::string& action, std::optional<Timestamp> deadline) {
    leader->fleet().Report(*victim, {.instance_id = victim->text(),
                                     .count = 100,
                                     .termination_notice = api::TerminationNotice{
                                         .action = action, .deadline = deadline}});
  }
  [[nodiscard]] Timestamp now() { return leader->loop().WallNow(); }
  [[nodiscard]] const Instance& instance() { return *leader->fleet().Find(*victim); }
  // When the drain is to end; empty: it does not drain.
  std::optional<Duration> DrainLength() {
    if (!world.Until([this] { return instance().phase() == InstancePhase::kDraining; },
                     Duration::Seconds(2))) {
      return std::nullopt;
    }
    return instance().record()->drain->length;
  }

  World world{{.size = 3, .drain_timeout = "60s"}};
  Leader* leader = nullptr;
  std::optional<InstanceId> victim;
};

TEST_F(NoticeTest, EachKnownActionDrainsAndReplaces) {
  const auto creates = world.cloud().Count(sim::SimProviderMethod::kCreate);
  Notice("hibernate", now() + Duration::Seconds(30));
  const auto length = DrainLength();
  ASSERT_TRUE(length.has_value());
  EXPECT_LE(*length, Duration::Seconds(30));
  EXPECT_GT(*length, Duration::Seconds(29));
  EXPECT_EQ(instance().record()->drain->reason, "spot-terminating");
  EXPECT_TRUE(
      world.Until([&] { return world.cloud().Count(sim::SimProviderMethod::kCreate) > creates; },
                  Duration::Seconds(2)));
}

TEST_F(NoticeTest, BI70_AnotherActionIsNone) {
  Notice("rebalance", now() + Duration::Seconds(30));
  Notice("", std::nullopt);
  EXPECT_FALSE(DrainLength().has_value());
  EXPECT_EQ(leader->fleet().Health(instance()), fleet::HealthState::kHealthy);
}

TEST_F(NoticeTest, BI70_ADeadlineThatIsPastMeansAtOnce) {
  Notice("terminate", now() - Duration::Days(3'650));
  EXPECT_TRUE(world.Until([this] { return instance().phase() == InstancePhase::kGone; },
                          Duration::Minutes(1)));
}

TEST_F(NoticeTest, BI70_ADeadlineInTenYearsIsTheDrainsOwn) {
  Notice("stop", now() + Duration::Days(3'650));
  EXPECT_EQ(DrainLength(), Duration::Seconds(60));
}

TEST_F(NoticeTest, BI70_TheEndOfTimeIsNoOverflow) {
  Notice("terminate", *ParseTimestamp("9999-12-31T23:59:59Z"));
  EXPECT_EQ(DrainLength(), Duration::Seconds(60));
}

TEST_F(NoticeTest, WithoutADeadlineTheGroupsTimeoutHolds) {
  Notice("terminate", std::nullopt);
  EXPECT_EQ(DrainLength(), Duration::Seconds(60));
}

}  // namespace
}  // namespace nstance::test

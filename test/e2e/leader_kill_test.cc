// Leaders that are killed while they work, over and over: whatever was under way, the next one
// finishes it. At the end records and processes match one to one (I-14, I-17).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "test/e2e/shard_fixture.h"

namespace nstance::test {
namespace {

constexpr int kKills = 30;
constexpr int kLargest = 12;
// Creations of a round take about a second here, drains five.
constexpr Duration kLatest = Duration::Seconds(3);

class LeaderKillTest : public ShardTest {};

TEST_F(LeaderKillTest, ThirtyTimesAtRandomMomentsWhileScalingNothingIsLostOrLeaked) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 2, .size = 4}));
  Prng chance(4711);
  for (int round = 0; round < kKills; ++round) {
    const int size = 1 + static_cast<int>(chance.Below(kLargest));
    const Duration moment = chance.UpTo(kLatest);
    SCOPED_TRACE(fmt::format("round {}: {} ms after the size became {}", round,
                             moment.milliseconds(), size));
    ASSERT_TRUE(Resize(size));
    Wait(moment);
    ASSERT_NO_FATAL_FAILURE(KillLeader());
    ASSERT_TRUE(cluster->server(*leader).Start().has_value());
    ASSERT_TRUE(cluster->WaitForLeader(kSoon, cluster->epoch()).has_value()) << Story();
  }
  ASSERT_TRUE(Resize(8));
  ASSERT_TRUE(Settles(8)) << Story();
  ASSERT_TRUE(AllReady(8)) << Story();
  EXPECT_EQ(Unsettled(8), "") << "and it stays so";
}

}  // namespace
}  // namespace nstance::test

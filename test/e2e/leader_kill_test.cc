// Leaders that are killed while they work, over and over: whatever was under way, the one that
// stood by finishes it. At the end records and processes match one to one (I-14, I-17).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "test/e2e/shard_fixture.h"

namespace nstance::test {
namespace {

constexpr int kKills = 30;
constexpr int kSize = 20;
constexpr int kLargest = 30;
// Creations of a round take some seconds here, drains five.
constexpr Duration kLatest = Duration::Seconds(3);

class LeaderKillTest : public ShardTest {};

TEST_F(LeaderKillTest, ThirtyTimesAtRandomMomentsWhileScalingNothingIsLostOrLeaked) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 2, .size = kSize}));
  Prng chance(4711);
  for (int round = 0; round < kKills; ++round) {
    const int size = 1 + static_cast<int>(chance.Below(kLargest));
    const Duration moment = chance.UpTo(kLatest);
    SCOPED_TRACE(fmt::format("round {}: {} ms after the size became {}", round,
                             moment.milliseconds(), size));
    ASSERT_TRUE(Resize(size));
    Wait(moment);
    ASSERT_NO_FATAL_FAILURE(KillLeader());
    const auto next = cluster->WaitForLeader(kSoon, cluster->epoch());
    ASSERT_TRUE(next.has_value()) << Story();
    EXPECT_NE(*next, *leader);
    ServerProcess& standby = cluster->server(*leader);
    ASSERT_TRUE(standby.Start().has_value());
    ASSERT_TRUE(standby.WaitUntilReady(cluster->loop(), kSoon)) << Story();
  }
  ASSERT_TRUE(Resize(kSize));
  ASSERT_TRUE(Settles(kSize)) << Story();
  ASSERT_TRUE(AllReady(kSize)) << Story();
  EXPECT_EQ(Unsettled(kSize), "") << "and it stays so";
}

}  // namespace
}  // namespace nstance::test

// A leader that stands still, and one that is killed with the lease times that users have.
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "test/e2e/shard_fixture.h"

namespace nstance::test {
namespace {

class LeaderFreezeTest : public ShardTest {
 public:
  // Everything in the bucket except what every server may write: leases and probes.
  std::map<std::string, std::string> Truth() const {
    std::map<std::string, std::string> all = Objects("");
    std::erase_if(all, [](const auto& object) {
      return object.first.starts_with("leader/") || object.first.starts_with("probe/");
    });
    return all;
  }
  // When nobody has written for some seconds.
  std::map<std::string, std::string> QuietTruth() {
    std::map<std::string, std::string> truth;
    Instant since = cluster->loop().Now();
    EXPECT_TRUE(Until([&] {
      const Instant now = cluster->loop().Now();
      std::map<std::string, std::string> seen = Truth();
      if (seen != truth) since = now;
      truth = std::move(seen);
      return now - since >= Duration::Seconds(4);
    })) << Story();
    return truth;
  }
};

TEST_F(LeaderFreezeTest, ALeaderFrozenForHalfAMinuteChangesNothingWhenItGoesOn) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 2, .size = 5}));
  ASSERT_TRUE(Settles(5)) << Story();
  // Frozen in the middle of its work.
  ASSERT_TRUE(Resize(8));
  const std::int64_t epoch = cluster->epoch();
  ServerProcess& frozen = cluster->server(*leader);
  const Instant since = cluster->loop().Now();
  frozen.Pause();
  const auto next = cluster->WaitForLeader(kSoon, epoch);
  ASSERT_TRUE(next.has_value()) << Story();
  ASSERT_NE(*next, *leader);
  const std::int64_t new_epoch = cluster->epoch();
  ASSERT_TRUE(Settles(8)) << Story();
  // The other one's word counts, and is not what the frozen one remembers.
  ASSERT_TRUE(Resize(3));
  ASSERT_TRUE(Settles(3)) << Story();
  ASSERT_TRUE(AllReady(3)) << Story();
  const std::set<std::string> three = Registered();
  ASSERT_TRUE(Until([&] { return cluster->loop().Now() - since >= Duration::Seconds(30); }));

  const std::map<std::string, std::string> truth = QuietTruth();
  frozen.Resume();
  ASSERT_TRUE(Until([&] { return frozen.Output().contains("the lease is lost"); })) << Story();
  Wait(Duration::Seconds(10));
  EXPECT_TRUE(frozen.Running());
  EXPECT_FALSE(frozen.IsActing());
  EXPECT_EQ(Truth(), truth) << "nothing in the store has changed";
  EXPECT_EQ(Unsettled(3), "");
  EXPECT_EQ(Registered(), three);
  const auto leads = cluster->WaitForLeader(kSoon);
  EXPECT_EQ(leads, next);
  EXPECT_EQ(cluster->epoch(), new_epoch) << "the leadership was not even disturbed";

  // It is a good standby again.
  cluster->server(*next).Kill();
  EXPECT_EQ(cluster->WaitForLeader(kSoon, new_epoch), leader) << Story();
  ASSERT_TRUE(AllReady(3)) << Story();
  EXPECT_EQ(Registered(), three);
}

// I-4 with the defaults: 8 s + 1.5 x 2 s + 3 x 3 s.
TEST_F(LeaderFreezeTest, WithTheDefaultLeaseTimesAStandbyTakesOverInTime) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator(
      {.servers = 2,
       .size = 5,
       .server_keys = {
           {.key = "leader_election", .key_position = {}, .value = json::Value::Map({})}}}));
  ASSERT_TRUE(Settles(5)) << Story();
  const std::set<std::string> before = Registered();
  const std::int64_t epoch = cluster->epoch();
  const Instant killed_at = cluster->loop().Now();
  cluster->server(*leader).Kill();
  const auto next = cluster->WaitForLeader(Duration::Seconds(20), epoch);
  ASSERT_TRUE(next.has_value()) << Story();
  EXPECT_NE(*next, *leader);
  const Duration took = cluster->loop().Now() - killed_at;
  RecordProperty("takeover_ms", fmt::format("{}", took.milliseconds()));
  fmt::print("taken over after {} ms\n", took.milliseconds());
  ASSERT_TRUE(AllReady(5)) << Story();
  EXPECT_EQ(Registered(), before);
}

}  // namespace
}  // namespace nstance::test

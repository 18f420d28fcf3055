// A shard of real processes on the file store and the local provider: a server, a standby and
// agents on every instance, behind a forwarder that stands for the leader's network. Records in the
// bucket and processes of this machine are the judges.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/e2e/shard_fixture.h"

namespace nstance::test {
namespace {

using testing::Contains;
using testing::IsSubsetOf;
using testing::Not;

constexpr int kSize = 20;

TEST_F(ShardTest, AGroupOfTwentyComesUpAndScalesToThirtyAndToFive) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 2, .size = 20}));
  ASSERT_TRUE(Settles(20)) << Story();
  ASSERT_TRUE(AllReady(20)) << Story();
  const std::set<std::string> twenty = Registered();

  ASSERT_TRUE(Resize(30));
  ASSERT_TRUE(Settles(30)) << Story();
  ASSERT_TRUE(AllReady(30)) << Story();
  const std::set<std::string> thirty = Registered();
  const std::size_t known = Records().size();
  EXPECT_THAT(twenty, IsSubsetOf(thirty)) << "growing replaces nobody";

  ASSERT_TRUE(Resize(5));
  ASSERT_TRUE(Settles(5)) << Story();
  ASSERT_TRUE(AllReady(5)) << Story();
  EXPECT_THAT(Registered(), IsSubsetOf(thirty)) << "shrinking makes nobody";
  EXPECT_EQ(Records().size(), known) << "each of the others is a tombstone";
}

TEST_F(ShardTest, AnInstanceWhoseProcessesAreKilledIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(Begin({.servers = 2, .size = kSize}));
  ASSERT_TRUE(Settles(kSize)) << Story();
  const std::size_t known = Records().size();
  const std::string victim = *Registered().begin();
  KillTree(victim);
  ASSERT_TRUE(Until([&] { return RecordOf(victim)->phase == InstancePhase::kGone; })) << Story();
  ASSERT_TRUE(Settles(kSize)) << Story();
  EXPECT_EQ(Records().size(), known + 1) << "one replacement, for one that died";
  EXPECT_FALSE(RecordOf(victim)->drain.has_value()) << "nothing was left to drain";
}

TEST_F(ShardTest, AnAgentThatIsFrozenMissesReportsAndIsDrainedAndReplaced) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 2, .size = kSize}));
  ASSERT_TRUE(Settles(kSize)) << Story();
  ASSERT_TRUE(AllReady(kSize)) << Story();
  const std::size_t known = Records().size();
  const std::string victim = *Registered().begin();
  ASSERT_EQ(::kill(Agents().at(victim), SIGSTOP), 0);
  ASSERT_TRUE(Until([&] { return RecordOf(victim)->phase == InstancePhase::kDraining; }))
      << Story();
  const std::optional<RecordDrain> drain = RecordOf(victim)->drain;
  ASSERT_TRUE(drain.has_value());
  EXPECT_EQ(drain->reason, "unhealthy");
  EXPECT_EQ(drain->length, Duration::Seconds(5));
  ASSERT_TRUE(Until([&] { return RecordOf(victim)->phase == InstancePhase::kGone; })) << Story();
  ASSERT_TRUE(Settles(kSize)) << Story();
  EXPECT_EQ(Records().size(), known + 1);
  EXPECT_THAT(Registered(), Not(Contains(victim)));
}

TEST_F(ShardTest, AStandbyTakesOverAndReplacesNobody) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 2, .size = kSize}));
  ASSERT_TRUE(Settles(kSize)) << Story();
  const std::set<std::string> before = Registered();
  const std::size_t known = Records().size();
  ASSERT_NO_FATAL_FAILURE(KillLeader());
  const auto next = cluster->WaitForLeader(kSoon, cluster->epoch());
  ASSERT_TRUE(next.has_value()) << Story();
  EXPECT_NE(*next, *leader);
  ASSERT_TRUE(AllReady(kSize)) << Story();
  EXPECT_EQ(Registered(), before);
  // It goes on healing, and only that.
  const std::string victim = *before.begin();
  KillTree(victim);
  ASSERT_TRUE(Until([&] { return RecordOf(victim)->phase == InstancePhase::kGone; })) << Story();
  ASSERT_TRUE(Settles(kSize)) << Story();
  EXPECT_EQ(Records().size(), known + 1);
}

// Somebody stands by each time, so that each of the two is ended, and leads again afterwards.
TEST_F(ShardTest, ASignalEndsTheServerAndANewOneFindsEverybody) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 2, .size = kSize}));
  ASSERT_TRUE(Settles(kSize)) << Story();
  const std::set<std::string> before = Registered();
  const std::size_t known = Records().size();
  const std::map<std::string, pid_t> agents = Agents();
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    leader = cluster->WaitForLeader(kSoon);
    ASSERT_TRUE(leader.has_value()) << Story();
    ServerProcess& ended = cluster->server(*leader);
    EXPECT_EQ(ended.Terminate(cluster->loop(), Duration::Seconds(30)), 0);
    EXPECT_EQ(Agents(), agents) << "instances outlive servers";
    const auto next = cluster->WaitForLeader(kSoon, cluster->epoch());
    ASSERT_TRUE(next.has_value()) << Story();
    EXPECT_NE(*next, *leader);
    ASSERT_TRUE(ended.Start().has_value());
    ASSERT_TRUE(ended.WaitUntilReady(cluster->loop(), kSoon)) << Story();
    ASSERT_TRUE(AllReady(kSize)) << Story();
    ASSERT_TRUE(Settles(kSize)) << Story();
    EXPECT_EQ(Registered(), before);
    EXPECT_EQ(Agents(), agents);
    EXPECT_EQ(Records().size(), known);
  }
}

TEST_F(ShardTest, ServersWhoseCachesAreDeletedComeBackToTheSameState) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 2, .size = kSize - 1}));
  ASSERT_TRUE(Resize(kSize));
  ASSERT_TRUE(Settles(kSize)) << Story();
  const std::set<std::string> before = Registered();
  const std::size_t known = Records().size();
  const std::map<std::string, pid_t> agents = Agents();
  for (const char* what : {"db", ""}) {
    SCOPED_TRACE(what);
    ASSERT_NO_FATAL_FAILURE(KillLeader());
    std::uintmax_t removed = 0;
    for (std::size_t i = 0; i < cluster->servers(); ++i) {
      cluster->server(i).Kill();
      const std::filesystem::path cache = cluster->server(i).options().folder + "/cache";
      removed += std::filesystem::remove_all(cache / what);
    }
    EXPECT_GT(removed, 0U);
    ASSERT_TRUE(cluster->Start().has_value());
    ASSERT_TRUE(cluster->WaitForLeader(kSoon, cluster->epoch()).has_value()) << Story();
    ASSERT_TRUE(AllReady(kSize)) << Story();
    ASSERT_TRUE(Settles(kSize)) << Story();
    EXPECT_EQ(Registered(), before);
    EXPECT_EQ(Agents(), agents);
    EXPECT_EQ(Records().size(), known);
  }
}

}  // namespace
}  // namespace nstance::test

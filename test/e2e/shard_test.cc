// A shard of real processes on the file store and the local provider: a server, a standby and
// agents on every instance, behind a forwarder that stands for the leader's network. Records in the
// bucket and processes of this machine are the judges.
#include <signal.h>

#include <algorithm>
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
  ASSERT_NO_FATAL_FAILURE(Begin({.servers = 1, .size = 5}));
  ASSERT_TRUE(Settles(5)) << Story();
  const std::size_t known = Records().size();
  const std::string victim = *Registered().begin();
  KillTree(victim);
  ASSERT_TRUE(Until([&] { return RecordOf(victim)->phase == InstancePhase::kGone; })) << Story();
  ASSERT_TRUE(Settles(5)) << Story();
  EXPECT_EQ(Records().size(), known + 1) << "one replacement, for one that died";
  EXPECT_FALSE(RecordOf(victim)->drain.has_value()) << "nothing was left to drain";
}

TEST_F(ShardTest, AnAgentThatIsFrozenMissesReportsAndIsDrainedAndReplaced) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 1, .size = 5}));
  ASSERT_TRUE(Settles(5)) << Story();
  ASSERT_TRUE(AllReady(5)) << Story();
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
  ASSERT_TRUE(Settles(5)) << Story();
  EXPECT_EQ(Records().size(), known + 1);
  EXPECT_THAT(Registered(), Not(Contains(victim)));
}

TEST_F(ShardTest, AStandbyTakesOverAndReplacesNobody) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 2, .size = 5}));
  ASSERT_TRUE(Settles(5)) << Story();
  const std::set<std::string> before = Registered();
  const std::size_t known = Records().size();
  ASSERT_NO_FATAL_FAILURE(KillLeader());
  const auto next = cluster->WaitForLeader(kSoon, cluster->epoch());
  ASSERT_TRUE(next.has_value()) << Story();
  EXPECT_NE(*next, *leader);
  ASSERT_TRUE(AllReady(5)) << Story();
  EXPECT_EQ(Registered(), before);
  // It goes on healing, and only that.
  const std::string victim = *before.begin();
  KillTree(victim);
  ASSERT_TRUE(Until([&] { return RecordOf(victim)->phase == InstancePhase::kGone; })) << Story();
  ASSERT_TRUE(Settles(5)) << Story();
  EXPECT_EQ(Records().size(), known + 1);
}

TEST_F(ShardTest, ASignalEndsTheServerAndANewOneFindsEverybody) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 1, .size = 5}));
  ASSERT_TRUE(Settles(5)) << Story();
  const std::set<std::string> before = Registered();
  const std::map<std::string, pid_t> agents = Agents();
  EXPECT_EQ(cluster->server(0).Terminate(cluster->loop(), Duration::Seconds(30)), 0);
  EXPECT_EQ(Agents(), agents) << "instances outlive servers";
  ASSERT_TRUE(cluster->server(0).Start().has_value());
  ASSERT_TRUE(cluster->WaitForLeader(kSoon, cluster->epoch()).has_value()) << Story();
  ASSERT_TRUE(AllReady(5)) << Story();
  ASSERT_TRUE(Settles(5)) << Story();
  EXPECT_EQ(Registered(), before);
  EXPECT_EQ(Agents(), agents);
}

TEST_F(ShardTest, AServerWhoseCacheIsDeletedComesBackToTheSameState) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 1, .size = 5}));
  ASSERT_TRUE(Resize(6));
  ASSERT_TRUE(Settles(6)) << Story();
  const std::set<std::string> before = Registered();
  const std::map<std::string, pid_t> agents = Agents();
  const std::filesystem::path cache = cluster->server(0).options().folder + "/cache";
  for (const char* what : {"db", ""}) {
    SCOPED_TRACE(what);
    cluster->server(0).Kill();
    std::filesystem::remove_all(cache / what);
    ASSERT_TRUE(cluster->server(0).Start().has_value());
    ASSERT_TRUE(cluster->WaitForLeader(kSoon, cluster->epoch()).has_value()) << Story();
    ASSERT_TRUE(AllReady(6)) << Story();
    ASSERT_TRUE(Settles(6)) << Story();
    EXPECT_EQ(Registered(), before);
    EXPECT_EQ(Agents(), agents);
  }
}

}  // namespace
}  // namespace nstance::test

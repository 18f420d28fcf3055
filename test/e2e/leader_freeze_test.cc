// A leader that stands still, and one that is killed with the lease times that users have.
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "test/e2e/shard_fixture.h"

namespace nstance::test {
namespace {

// Whose leadership wrote it, as the object says; 0: it does not say.
std::int64_t EpochOf(std::string_view object) {
  constexpr std::string_view kWord = "epoch";
  std::int64_t epoch = 0;
  const std::size_t at = object.find(kWord);
  if (at == std::string_view::npos) return 0;
  const std::size_t number = object.find_first_of("0123456789", at);
  if (number == std::string_view::npos) return 0;
  std::from_chars(object.data() + number, object.data() + object.size(), epoch);
  return epoch;
}

constexpr int kSize = 20;

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
  // How often that server has lost its lease so far.
  static std::size_t Losses(const ServerProcess& server) {
    constexpr std::string_view kLine = "the lease is lost";
    const std::string output = server.Output();
    std::size_t count = 0;
    for (std::size_t at = output.find(kLine); at != std::string::npos;
         at = output.find(kLine, at + 1)) {
      ++count;
    }
    return count;
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
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = 2, .size = kSize - 4}));
  ASSERT_TRUE(Settles(kSize - 4)) << Story();
  // Frozen in the middle of its work.
  ASSERT_TRUE(Resize(kSize + 5));
  leader = cluster->WaitForLeader(kSoon);
  ASSERT_TRUE(leader.has_value()) << Story();
  const std::int64_t epoch = cluster->epoch();
  ServerProcess& frozen = cluster->server(*leader);
  const std::size_t losses = Losses(frozen);
  const Instant since = cluster->loop().Now();
  frozen.Pause();
  const auto next = cluster->WaitForLeader(kSoon, epoch);
  ASSERT_TRUE(next.has_value()) << Story();
  ASSERT_NE(*next, *leader);
  const std::int64_t new_epoch = cluster->epoch();
  ASSERT_TRUE(Settles(kSize + 5)) << Story();
  // The other one's word counts, and is not what the frozen one remembers.
  ASSERT_TRUE(Resize(kSize));
  ASSERT_TRUE(Settles(kSize)) << Story();
  ASSERT_TRUE(AllReady(kSize)) << Story();
  const std::set<std::string> twenty = Registered();
  ASSERT_TRUE(Until([&] { return cluster->loop().Now() - since >= Duration::Seconds(30); }));

  const std::map<std::string, std::string> truth = QuietTruth();
  frozen.Resume();
  ASSERT_TRUE(Until([&] { return Losses(frozen) > losses; })) << Story();
  Wait(Duration::Seconds(10));
  EXPECT_TRUE(frozen.Running());
  EXPECT_FALSE(frozen.IsActing() && cluster->forwarder().leader()->epoch == new_epoch);
  // Nobody had a reason to write. On a machine that is too slow for this lease somebody may have
  // been elected since, but never wrote the frozen one under its old epoch.
  const std::map<std::string, std::string> now = Truth();
  for (const auto& [key, bytes] : now) {
    const auto before = truth.find(key);
    if (before != truth.end() && before->second == bytes) continue;
    EXPECT_GT(EpochOf(bytes), epoch) << key << " has changed: " << bytes;
    EXPECT_GT(cluster->WaitForLeader(kSoon).has_value() ? cluster->epoch() : 0, new_epoch) << key;
  }
  EXPECT_EQ(now.size(), truth.size());
  EXPECT_EQ(Unsettled(kSize), "");
  EXPECT_EQ(Registered(), twenty);

  // It is a good standby again.
  ASSERT_NO_FATAL_FAILURE(KillLeader());
  const auto after = cluster->WaitForLeader(kSoon, cluster->epoch());
  ASSERT_TRUE(after.has_value()) << Story();
  EXPECT_NE(*after, *leader);
  ASSERT_TRUE(AllReady(kSize)) << Story();
  EXPECT_EQ(Registered(), twenty);
}

// I-4 with the defaults: 8 s + 1.5 x 2 s + 3 x 3 s.
TEST_F(LeaderFreezeTest, WithTheDefaultLeaseTimesAStandbyTakesOverInTime) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator(
      {.servers = 2,
       .size = kSize,
       .server_keys = {
           {.key = "leader_election", .key_position = {}, .value = json::Value::Map({})}}}));
  ASSERT_TRUE(Settles(kSize)) << Story();
  const std::set<std::string> before = Registered();
  const Instant killed_at = cluster->loop().Now();
  ASSERT_NO_FATAL_FAILURE(KillLeader());
  const auto next = cluster->WaitForLeader(Duration::Seconds(20), cluster->epoch());
  ASSERT_TRUE(next.has_value()) << Story();
  EXPECT_NE(*next, *leader);
  const Duration took = cluster->loop().Now() - killed_at;
  RecordProperty("takeover_ms", fmt::format("{}", took.milliseconds()));
  fmt::print("taken over after {} ms\n", took.milliseconds());
  ASSERT_TRUE(AllReady(kSize)) << Story();
  EXPECT_EQ(Registered(), before);
}

}  // namespace
}  // namespace nstance::test

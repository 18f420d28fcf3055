// The deletion brake as users have it, on real processes: a large step down is carried out at its
// rate. The judges are the records, and an operator who sees and acknowledges every drain.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "test/e2e/shard_fixture.h"

namespace nstance::test {
namespace {

using testing::SizeIs;

class DeletionBrakeTest : public ShardTest {};

// The most moments that fall into one window of that length.
template <class Moment>
std::size_t MostWithin(std::vector<Moment> moments, Duration window) {
  std::ranges::sort(moments);
  std::size_t most = 0;
  std::size_t first = 0;
  for (std::size_t last = 0; last < moments.size(); ++last) {
    while (moments[last] - moments[first] >= window) ++first;
    most = std::max(most, last - first + 1);
  }
  return most;
}

TEST_F(DeletionBrakeTest, FromThirtyToFiveGoesTenAMinute) {
  ASSERT_NO_FATAL_FAILURE(BeginWithOperator(
      {.servers = 2,
       .size = 30,
       .server_keys = {
           {.key = "deletion_brake", .key_position = {}, .value = json::Value::Map({})}}}));
  ASSERT_TRUE(Settles(30)) << Story();
  ASSERT_TRUE(AllReady(30)) << Story();
  const std::set<std::string> thirty = Registered();
  const std::size_t known = Records().size();
  client->AcknowledgeDrains();
  ASSERT_TRUE(Resize(5));
  ASSERT_TRUE(Settles(5, Duration::Minutes(4))) << Story();
  EXPECT_EQ(Records().size(), known) << "nobody was made";

  // As the records have it, in the leader's time.
  std::vector<Timestamp> started;
  for (const auto& [id, record] : Records()) {
    if (record.phase == InstancePhase::kRegistered || !thirty.contains(id)) continue;
    ASSERT_TRUE(record.drain.has_value()) << id;
    EXPECT_TRUE(record.drain->acked_at.has_value()) << id;
    EXPECT_EQ(record.drain->reason, "scale-down");
    EXPECT_TRUE(record.drain->ordered && record.drain->counted) << id;
    started.push_back(record.drain->started_at);
  }
  EXPECT_THAT(started, SizeIs(25));
  // The brake counts monotonic time, records have the wall's: a trifle may lie between the two.
  EXPECT_EQ(MostWithin(started, Duration::Minutes(1) - Duration::Milliseconds(200)), 10U);

  // As the operator saw it; an event may be some seconds on its way.
  std::vector<Instant> told;
  for (const auto& [id, drain] : client->drains()) {
    EXPECT_TRUE(drain.acknowledged) << id;
    told.push_back(drain.told_at);
  }
  EXPECT_THAT(told, SizeIs(25));
  EXPECT_LE(MostWithin(told, Duration::Seconds(55)), 10U);
}

}  // namespace
}  // namespace nstance::test

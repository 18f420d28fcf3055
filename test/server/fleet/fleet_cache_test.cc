// The cache on disk beside the fleet: it follows the table, and whatever becomes of it between two
// leaders (lost, damaged, years old, of another cluster) the second one comes to the same state
// from the store alone.
#include "server/fleet/fleet_cache.h"

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/server/fleet/fleet_world.h"

namespace nstance::test {
namespace {

using testing::SizeIs;

// What a leader believes: id to phase.
std::map<std::string, InstancePhase> Believed(Leader& leader) {
  std::map<std::string, InstancePhase> out;
  for (const Instance* instance : leader.fleet().OfTenant(DefaultTenant())) {
    out[instance->id.text()] = instance->phase();
  }
  return out;
}

// Rows without when the provider was looked at last, which is no news by itself.
std::vector<cache::InstanceRow> Timeless(std::vector<cache::InstanceRow> rows) {
  for (cache::InstanceRow& row : rows) row.provider_at.reset();
  return rows;
}

// The rows that the leader's table would have.
std::vector<cache::InstanceRow> RowsOf(Leader& leader) {
  std::vector<cache::InstanceRow> out;
  for (const Instance* instance : leader.fleet().OfTenant(DefaultTenant())) {
    if (instance->stored) out.push_back(InstanceRowOf(*instance));
  }
  return Timeless(std::move(out));
}

cache::InstanceRow Stranger() {
  Puidv7Generator ids;
  return {.id = ids.Next("wrk", Timestamp::FromUnix(1'600'000'000), {}),
          .tenant = DefaultTenant(),
          .group = kWorkers,
          .phase = "registered",
          .provider_id = "vm-of-nobody",
          .created_at = Timestamp::FromUnix(1'700'000'000)};
}

TEST(FleetCacheTest, TheDiskFollowsTheTable) {
  World world({.size = 3});
  Leader& leader = world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(3));
  leader.SetSize(2);
  ASSERT_TRUE(world.UntilReady(2));
  world.For(Duration::Seconds(5));
  const cache::Contents rows = world.rows().Read();
  EXPECT_EQ(Timeless(rows.instances), RowsOf(leader));
  ASSERT_THAT(rows.groups, SizeIs(1));
  EXPECT_EQ(rows.groups[0].group, kWorkers);
  EXPECT_EQ(rows.groups[0].size, 2);
  EXPECT_FALSE(rows.groups[0].infra_config_hash.empty());
  EXPECT_THAT(rows.health, SizeIs(3)) << "the tombstone keeps its row until it goes";
}

TEST(FleetCacheTest, ASteadyReportIsARowOnceAMinuteAndANewsAtOnce) {
  World world({.size = 1});
  Leader& leader = world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(1));
  world.For(Duration::Seconds(10));
  const Timestamp first = world.rows().health.begin()->second.health_at;
  world.For(Duration::Seconds(30));
  EXPECT_EQ(world.rows().health.begin()->second.health_at, first);
  const InstanceId id = world.rows().health.begin()->first;
  leader.fleet().Report(id, {.instance_id = id.text(), .count = 99, .config_hash = "sha256:new"});
  world.For(Duration::Seconds(1));
  EXPECT_EQ(world.rows().health.begin()->second.config_hash, "sha256:new");
  world.For(Duration::Minutes(2));
  EXPECT_GT(world.rows().health.begin()->second.health_at, first);
}

TEST(FleetCacheTest, I10_ADiskThatFailedIsFilledAgainInTheSameLeadership) {
  World world({.size = 3});
  Leader& leader = world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(3));
  world.rows().broken = true;
  world.For(Duration::Minutes(2));
  world.rows().broken = false;
  world.For(Duration::Minutes(2));
  const cache::Contents rows = world.rows().Read();
  EXPECT_THAT(rows.instances, SizeIs(3));
  EXPECT_EQ(Timeless(rows.instances), RowsOf(leader));
  EXPECT_THAT(rows.health, SizeIs(3));
  ASSERT_THAT(rows.groups, SizeIs(1));
  EXPECT_EQ(rows.groups[0].size, 3);
}

struct Mishap {
  std::string name;
  std::function<void(sim::SimCacheDisk&, const sim::SimCacheDisk& old)> happen;
};

void PrintTo(const Mishap& mishap, std::ostream* out) { *out << mishap.name; }

class FleetCacheMishapTest : public testing::TestWithParam<Mishap> {};

TEST_P(FleetCacheMishapTest, ChangesNothingForTheNextLeader) {
  World world({.size = 3});
  world.Lead("s1");
  ASSERT_TRUE(world.Until([&] { return world.Ready() >= 1; }));
  const sim::SimCacheDisk old = world.rows();
  ASSERT_TRUE(world.UntilReady(3));
  world.For(Duration::Seconds(5));
  const auto believed = Believed(world.leader());
  const auto creates = world.cloud().Count(sim::SimProviderMethod::kCreate);
  const auto deletes = world.cloud().Count(sim::SimProviderMethod::kDelete);
  world.KillLeader();
  GetParam().happen(world.rows(), old);
  Leader& next = world.Lead("s2");
  world.Reconnect();
  ASSERT_TRUE(world.UntilReady(3));
  world.For(Duration::Minutes(2));
  EXPECT_EQ(Believed(next), believed);
  EXPECT_EQ(world.cloud().Count(sim::SimProviderMethod::kCreate), creates);
  EXPECT_EQ(world.cloud().Count(sim::SimProviderMethod::kDelete), deletes);
  if (world.rows().broken) return;
  EXPECT_EQ(Timeless(world.rows().Read().instances), RowsOf(next));
}

INSTANTIATE_TEST_SUITE_P(
    Disks, FleetCacheMishapTest,
    testing::Values(
        Mishap{"Kept", [](sim::SimCacheDisk&, const sim::SimCacheDisk&) {}},
        Mishap{"Deleted", [](sim::SimCacheDisk& disk, const sim::SimCacheDisk&) { disk = {}; }},
        Mishap{"Old", [](sim::SimCacheDisk& disk, const sim::SimCacheDisk& old) { disk = old; }},
        Mishap{"Broken",
               [](sim::SimCacheDisk& disk, const sim::SimCacheDisk&) { disk.broken = true; }},
        Mishap{"WithAStranger",
               [](sim::SimCacheDisk& disk, const sim::SimCacheDisk&) { disk.Apply(Stranger()); }},
        Mishap{"Lying",
               [](sim::SimCacheDisk& disk, const sim::SimCacheDisk&) {
                 for (auto& [id, row] : disk.instances) {
                   row.phase = "deleting";
                   row.provider_id = "another";
                   row.record_etag = "another";
                 }
               }}),
    [](const testing::TestParamInfo<Mishap>& mishap) { return mishap.param.name; });

}  // namespace
}  // namespace nstance::test

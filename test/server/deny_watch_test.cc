// The watch on the deny list over the simulated store: what its header promises, one test each.
#include "server/deny_watch.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/server/server_world.h"

namespace nstance {
namespace {

using sim::SimMethod;
using testing::IsEmpty;
using testing::SizeIs;

const ObjectKey kKey = *ObjectKey::Parse("deny/cluster.json");

DenyEntry Serial(std::string serial, Duration life = Duration::Days(1)) {
  return {.serial = std::move(serial),
          .reason = "lost",
          .denied_at = test::WorldStart(),
          .expires_at = test::WorldStart() + life};
}

std::string List(std::vector<DenyEntry> entries) {
  return EncodeDenyList({.entries = std::move(entries), .write_id = "w"});
}

struct Server : test::Process {
  explicit Server(test::World& world, sim::SimStoreFaults faults = {})
      : Process(world, "p", faults),
        watch({.loop = loop, .store = store, .log = log}, {.key = kKey},
              {.denied = [this](const auto& entries) { told.push_back(entries); },
               .alarm = [this](const Error&) { ++alarms; },
               .first_known = [this] { ++first; }}) {}

  std::vector<std::vector<DenyEntry>> told;
  int alarms = 0;
  int first = 0;
  DenyWatch watch;
};

class DenyWatchTest : public testing::Test {
 public:
  void RunFor(Duration length) { world.scheduler.RunFor(length); }

  test::World world;
  Server server{world};
};

TEST_F(DenyWatchTest, WithoutAListNobodyIsDenied) {
  EXPECT_FALSE(server.watch.known());
  server.watch.Start();
  RunFor(Duration::Seconds(1));
  EXPECT_TRUE(server.watch.known());
  EXPECT_EQ(server.first, 1);
  EXPECT_FALSE(server.watch.set().DeniesSerial("1"));
}

TEST_F(DenyWatchTest, AnEntryIsKnownWithinTenSecondsAndToldOnce) {
  server.watch.Start();
  RunFor(Duration::Seconds(1));
  world.bucket.SetByHand(kKey, List({Serial("4711")}));
  RunFor(Duration::Seconds(10));
  EXPECT_TRUE(server.watch.set().DeniesSerial("4711"));
  ASSERT_THAT(server.told, SizeIs(1));
  world.bucket.SetByHand(kKey, List({Serial("4711"), Serial("12")}));
  RunFor(Duration::Seconds(30));
  ASSERT_THAT(server.told, SizeIs(2));
  EXPECT_EQ(server.told[1], std::vector<DenyEntry>{Serial("12")});
}

TEST_F(DenyWatchTest, AnUnchangedListIsNotReadAgain) {
  world.bucket.SetByHand(kKey, List({Serial("4711")}));
  server.watch.Start();
  RunFor(Duration::Hours(1));
  EXPECT_EQ(world.bucket.Count(SimMethod::kGet, "deny"), 1U);
  EXPECT_LE(world.bucket.Count(SimMethod::kHead, "deny"), 361U);
}

TEST_F(DenyWatchTest, RV5_WhatWasDeniedStaysSoWhileTheListCannotBeReadAndAnAlarmIsRaised) {
  world.bucket.SetByHand(kKey, List({Serial("4711")}));
  server.watch.Start();
  RunFor(Duration::Seconds(1));
  server.store.link().requests_lost = true;
  RunFor(Duration::Minutes(4));
  EXPECT_EQ(server.alarms, 0);
  RunFor(Duration::Minutes(10));
  EXPECT_EQ(server.alarms, 1) << "once per spell";
  EXPECT_TRUE(server.watch.set().DeniesSerial("4711"));
  server.store.link().requests_lost = false;
  RunFor(Duration::Minutes(1));
  server.store.link().requests_lost = true;
  RunFor(Duration::Minutes(6));
  EXPECT_EQ(server.alarms, 2);
}

TEST_F(DenyWatchTest, ADamagedOrVanishedListLetsNobodyIn) {
  world.bucket.SetByHand(kKey, List({Serial("4711")}));
  server.watch.Start();
  RunFor(Duration::Seconds(1));
  world.bucket.SetByHand(kKey, "{}");
  RunFor(Duration::Minutes(6));
  EXPECT_TRUE(server.watch.set().DeniesSerial("4711"));
  EXPECT_EQ(server.alarms, 1);
  world.bucket.EraseByHand(kKey);
  RunFor(Duration::Minutes(1));
  EXPECT_TRUE(server.watch.set().DeniesSerial("4711"));
}

TEST_F(DenyWatchTest, UntilTheFirstAnswerNothingIsKnown) {
  server.store.link().requests_lost = true;
  server.watch.Start();
  RunFor(Duration::Minutes(6));
  EXPECT_FALSE(server.watch.known());
  EXPECT_EQ(server.alarms, 1);
}

TEST_F(DenyWatchTest, AnEntryLeavesWhenTwoLooksShowTheListWithoutIt) {
  world.bucket.SetByHand(kKey, List({Serial("4711"), Serial("12")}));
  server.watch.Start();
  RunFor(Duration::Seconds(1));
  world.bucket.SetByHand(kKey, List({Serial("12")}));
  RunFor(Duration::Seconds(10));
  EXPECT_TRUE(server.watch.set().DeniesSerial("4711"));
  RunFor(Duration::Seconds(10));
  EXPECT_FALSE(server.watch.set().DeniesSerial("4711"));
  EXPECT_TRUE(server.watch.set().DeniesSerial("12"));
  EXPECT_THAT(server.told, SizeIs(1));
}

TEST(DenyWatchProperty, OverSeedsAStaleStoreLetsNobodyInAgain) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    test::World world(seed);
    Server server(world, {.error_not_done = 1'000,
                          .answer_lost = 1'000,
                          .stale_read = 3'000,
                          .stale_by = Duration::Seconds(5)});
    server.watch.Start();
    std::vector<DenyEntry> entries;
    for (int i = 1; i <= 10; ++i) {
      entries.push_back(Serial(std::to_string(i)));
      world.bucket.SetByHand(kKey, List(entries));
      // Three looks: one of them is heard and fresh, or the run says nothing.
      world.scheduler.RunFor(world.scheduler.prng().UpTo(Duration::Seconds(30)));
      for (const auto& told : server.told) {
        for (const DenyEntry& entry : told) {
          EXPECT_TRUE(server.watch.set().DeniesSerial(entry.serial)) << entry.serial;
        }
      }
    }
    server.store.faults() = {};
    world.scheduler.RunFor(Duration::Seconds(30));
    EXPECT_EQ(server.watch.set().size(), 10U);
  }
}

}  // namespace
}  // namespace nstance

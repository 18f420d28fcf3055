// Virtual time and the order that the seed chooses.
#include "sim/sim_scheduler.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/seeded_random.h"
#include "sim/sim_loop.h"

namespace nstance::sim {
namespace {

const Timestamp kStart = Timestamp::FromUnix(1'767'225'600);

TEST(SimSchedulerTest, TimeJumpsToTheNextTimer) {
  SimScheduler scheduler(1);
  SimLoop loop(scheduler, kStart);
  std::vector<Duration> seen;
  const auto note = [&] { seen.push_back(loop.Now().since_zero()); };
  const Pending year = loop.CallAfter(Duration::Days(365), note);
  const Pending second = loop.CallAfter(Duration::Seconds(1), note);
  while (scheduler.Step()) {
  }
  EXPECT_EQ(seen, (std::vector<Duration>{Duration::Seconds(1), Duration::Days(365)}));
  EXPECT_EQ(loop.WallNow(), kStart + Duration::Days(365));
}

std::string OrderOf(std::uint64_t seed, std::uint64_t* hash = nullptr) {
  SimScheduler scheduler(seed);
  SimLoop a(scheduler, kStart);
  SimLoop b(scheduler, kStart);
  std::string order;
  const Pending timer = a.CallAfter(Duration(), [&] { order += 't'; });
  a.Post([&] { order += 'a'; });
  a.Post([&] { order += 'A'; });
  b.Post([&] { order += 'b'; });
  while (scheduler.Step()) {
  }
  if (hash != nullptr) *hash = scheduler.trace_hash();
  return order;
}

TEST(SimSchedulerTest, EveryOrderOfReadyTasksIsReachedBySomeSeed) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 500; ++seed) orders.insert(OrderOf(seed));
  EXPECT_EQ(orders.size(), 24U);
}

TEST(SimSchedulerTest, OneSeedGivesOneOrderAndOneTraceHash) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    EXPECT_EQ(OrderOf(seed, &first), OrderOf(seed, &second));
    EXPECT_EQ(first, second);
    hashes.insert(first);
  }
  EXPECT_GT(hashes.size(), 10U);
}

TEST(SimSchedulerTest, DestroyingALoopDropsAllThatItWasGoingToRun) {
  SimScheduler scheduler(2);
  SimLoop survivor(scheduler, kStart);
  int dead_runs = 0;
  int alive_runs = 0;
  {
    SimLoop victim(scheduler, kStart);
    victim.Post([&] { ++dead_runs; });
    const Pending timer = victim.CallAfter(Duration::Seconds(1), [&] { ++dead_runs; });
    survivor.Post([&] { ++alive_runs; });
  }
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(dead_runs, 0);
  EXPECT_EQ(alive_runs, 1);
}

TEST(SimSchedulerTest, RunForStopsAtItsEndAndKeepsLaterTimers) {
  SimScheduler scheduler(3);
  SimLoop loop(scheduler, kStart);
  bool ran = false;
  const Pending timer = loop.CallAfter(Duration::Seconds(10), [&] { ran = true; });
  scheduler.RunFor(Duration::Seconds(9));
  EXPECT_FALSE(ran);
  EXPECT_EQ(scheduler.now().since_zero(), Duration::Seconds(9));
  scheduler.RunFor(Duration::Seconds(1));
  EXPECT_TRUE(ran);
}

TEST(SimLoopTest, TheWallClockJumpsWithoutTheMonotonicOne) {
  SimScheduler scheduler(4);
  SimLoop loop(scheduler, kStart);
  scheduler.RunFor(Duration::Seconds(5));
  loop.JumpWall(Duration::Days(-3'650));
  EXPECT_EQ(loop.Now().since_zero(), Duration::Seconds(5));
  EXPECT_EQ(loop.WallNow(), kStart + Duration::Seconds(5) - Duration::Days(3'650));
}

TEST(SimLoopTest, AClockOfAnotherRateMovesTimersWithIt) {
  SimScheduler scheduler(7);
  SimLoop slow(scheduler, kStart);
  SimLoop fast(scheduler, kStart);
  slow.SetRate(500);
  fast.SetRate(2'000);
  std::vector<Duration> seen;
  const auto note = [&] { seen.push_back(scheduler.now().since_zero()); };
  const Pending a = slow.CallAfter(Duration::Seconds(10), note);
  const Pending b = fast.CallAfter(Duration::Seconds(10), note);
  scheduler.RunFor(Duration::Seconds(4));
  EXPECT_EQ(slow.Now().since_zero(), Duration::Seconds(2));
  EXPECT_EQ(fast.WallNow(), kStart + Duration::Seconds(8));
  slow.SetRate(4'000);  // Eight of its seconds are left, so two of ours.
  fast.SetRate(1'000);
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(seen, (std::vector<Duration>{Duration::Seconds(6), Duration::Seconds(6)}));
}

TEST(SimLoopTest, NoRateLetsATimerRunEarly) {
  Prng prng(8);
  for (int i = 0; i < 2'000; ++i) {
    SimScheduler scheduler(static_cast<std::uint64_t>(i));
    SimLoop loop(scheduler, kStart);
    loop.SetRate(prng.Between(1, 5'000));
    scheduler.RunFor(prng.UpTo(Duration::Seconds(5)));
    loop.SetRate(prng.Between(1, 5'000));
    const Instant due = loop.Now() + prng.UpTo(Duration::Seconds(5));
    bool early = true;
    const Pending timer = loop.CallAt(due, [&] { early = loop.Now() < due; });
    while (scheduler.Step()) {
    }
    EXPECT_FALSE(early) << i;
  }
}

TEST(SimLoopTest, APausedProcessRunsNothingWhileItsClockRunsOn) {
  SimScheduler scheduler(9);
  SimLoop loop(scheduler, kStart);
  std::vector<Duration> seen;
  const auto note = [&] { seen.push_back(loop.Now().since_zero()); };
  const Pending kept = loop.CallAfter(Duration::Seconds(1), note);
  Pending dropped = loop.CallAfter(Duration::Seconds(1), note);
  const Pending later = loop.CallAfter(Duration::Seconds(30), note);
  loop.Pause();
  loop.Post(note);
  scheduler.RunFor(Duration::Seconds(10));
  EXPECT_TRUE(seen.empty());
  dropped.Cancel();
  loop.Resume();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(seen, (std::vector<Duration>{Duration::Seconds(10), Duration::Seconds(10),
                                         Duration::Seconds(30)}));
}

TEST(SimLoopTest, ARestoredClockGoesBackAndTimersKeepTheirLength) {
  SimScheduler scheduler(10);
  SimLoop loop(scheduler, kStart);
  scheduler.RunFor(Duration::Hours(1));
  loop.Post([] {});
  scheduler.RunFor({});
  bool ran = false;
  const Pending timer = loop.CallAfter(Duration::Seconds(10), [&] { ran = true; });
  scheduler.RunFor(Duration::Seconds(4));
  loop.SetClock(loop.Now() - Duration::Minutes(10));
  EXPECT_EQ(loop.Now().since_zero(), Duration::Minutes(50) + Duration::Seconds(4));
  // What has passed since the process last ran is not known to it.
  scheduler.RunFor(Duration::Seconds(9));
  EXPECT_FALSE(ran);
  scheduler.RunFor(Duration::Seconds(1));
  EXPECT_TRUE(ran);
}

TEST(SimLoopTest, AClockThatGoesOnFromLaterThanTheProcessHasSeenMovesItsTimers) {
  SimScheduler scheduler(10);
  SimLoop loop(scheduler, kStart);
  bool ran = false;
  const Pending timer = loop.CallAfter(Duration::Seconds(10), [&] { ran = true; });
  const Pending watch = loop.WatchClock([] { ADD_FAILURE() << "it cannot know"; });
  const Instant saved = loop.Now() + Duration::Seconds(2);
  scheduler.RunFor(Duration::Seconds(5));
  loop.SetClock(saved);
  scheduler.RunFor(Duration::Seconds(7));
  EXPECT_FALSE(ran);
  scheduler.RunFor(Duration::Seconds(1));
  EXPECT_TRUE(ran);
}

TEST(SeededRandomTest, RepeatsItselfWithItsSeed) {
  SeededRandom a(5);
  SeededRandom b(5);
  SeededRandom c(6);
  const auto bytes = a.Array<32>();
  EXPECT_EQ(bytes, b.Array<32>());
  EXPECT_NE(bytes, c.Array<32>());
}

}  // namespace
}  // namespace nstance::sim

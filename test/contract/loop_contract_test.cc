// The guarantees of ports/loop.h, held against the real and the simulated loop with the same tests.
// Each test sets the loop up, lets it run until a condition holds, and looks at what was recorded.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"
#include "base/prng.h"
#include "ports/loop.h"
#include "sim/sim_loop.h"

namespace nstance {
namespace {

constexpr Duration kLimit = Duration::Seconds(20);

class LoopUnderTest {
 public:
  LoopUnderTest() = default;
  LoopUnderTest(const LoopUnderTest&) = delete;
  LoopUnderTest& operator=(const LoopUnderTest&) = delete;
  virtual ~LoopUnderTest() = default;
  virtual Loop& loop() = 0;
  // Runs tasks until `done` holds after one of them; false after kLimit.
  virtual bool RunUntil(std::function<bool()> done) = 0;
  // As in a process that was restored from a saved state.
  virtual void SetClockBack(Duration by) = 0;
  // The same while the loop has nothing to run; until a task calls WakeUp(), or false after kLimit.
  virtual bool SleepWhileTheClockGoesBack(Duration by) = 0;
  virtual void WakeUp() = 0;
};

class RealLoopUnderTest final : public LoopUnderTest {
 public:
  Loop& loop() override { return loop_; }
  bool RunUntil(std::function<bool()> done) override {
    bool held = false;
    const Pending limit = loop_.CallAfter(kLimit, [this] { loop_.Stop(); });
    std::function<void()> look = [&] {
      held = done();
      if (held) {
        loop_.Stop();
      } else {
        loop_.Post([&look] { look(); });
      }
    };
    loop_.Post([&look] { look(); });
    loop_.Run();
    return held;
  }
  void SetClockBack(Duration by) override { behind_ += by.nanoseconds(); }
  bool SleepWhileTheClockGoesBack(Duration by) override {
    // Most likely the loop sleeps by then; what is promised holds in any case.
    const std::jthread other([this, by](const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any ended;
      std::unique_lock lock(mutex);
      ended.wait_for(lock, stop, std::chrono::milliseconds(20), [] { return false; });
      SetClockBack(by);
      ended.wait_for(lock, stop, std::chrono::seconds(20), [] { return false; });
      loop_.Stop();
    });
    loop_.Run();
    return std::exchange(awake_, false);
  }
  void WakeUp() override {
    awake_ = true;
    loop_.Stop();
  }

 private:
  static Instant Clock() {
    timespec now{};
    EXPECT_EQ(::clock_gettime(CLOCK_BOOTTIME, &now), 0);
    // Far from zero, so that it can go back.
    return Instant::FromClock(Duration::Seconds(now.tv_sec) + Duration::Days(100) +
                              Duration::Nanoseconds(now.tv_nsec - behind_.load()));
  }

  inline static std::atomic<std::int64_t> behind_ = 0;
  RealLoop loop_{&Clock};
  bool awake_ = false;
};

class SimLoopUnderTest final : public LoopUnderTest {
 public:
  Loop& loop() override { return loop_; }
  bool RunUntil(std::function<bool()> done) override {
    return scheduler_.RunUntilTrue(done, kLimit);
  }
  void SetClockBack(Duration by) override { loop_.SetClock(loop_.Now() - by); }
  bool SleepWhileTheClockGoesBack(Duration by) override {
    scheduler_.RunFor(Duration::Milliseconds(20));
    SetClockBack(by);
    return scheduler_.RunUntilTrue([this] { return awake_; }, kLimit);
  }
  void WakeUp() override { awake_ = true; }

 private:
  sim::SimScheduler scheduler_{7};
  sim::SimLoop loop_{scheduler_, Timestamp::FromUnix(1'767'225'600)};
  bool awake_ = false;
};

struct LoopKind {
  std::string name;
  std::function<std::unique_ptr<LoopUnderTest>()> make;
};

class LoopContractTest : public testing::TestWithParam<LoopKind> {
 protected:
  Loop& loop() { return world_->loop(); }
  bool RunUntil(std::function<bool()> done) { return world_->RunUntil(std::move(done)); }
  LoopUnderTest& world() { return *world_; }

 private:
  std::unique_ptr<LoopUnderTest> world_ = GetParam().make();
};

TEST_P(LoopContractTest, APostedTaskRunsOnceAndNotInsideThePost) {
  int runs = 0;
  loop().Post([&] { ++runs; });
  EXPECT_EQ(runs, 0);
  bool last = false;
  ASSERT_TRUE(RunUntil([&] { return runs > 0; }));
  loop().Post([&] { last = true; });
  ASSERT_TRUE(RunUntil([&] { return last; }));
  EXPECT_EQ(runs, 1);
}

TEST_P(LoopContractTest, TasksNeverNest) {
  bool inside = false;
  bool nested = false;
  int runs = 0;
  std::vector<Pending> timers;
  const auto body = [&] {
    nested = nested || inside;
    inside = true;
    if (++runs < 50) {
      loop().Post([&] {
        ++runs;
        nested = nested || inside;
      });
      timers.push_back(loop().CallAfter(Duration(), [&] {
        ++runs;
        nested = nested || inside;
      }));
    }
    inside = false;
  };
  for (int i = 0; i < 20; ++i) loop().Post(body);
  ASSERT_TRUE(RunUntil([&] { return runs >= 60; }));
  EXPECT_FALSE(nested);
}

TEST_P(LoopContractTest, TimersOfDifferentTimesRunInThatOrderAndNeverEarly) {
  Prng prng(11);
  std::vector<std::int64_t> order;
  std::vector<Pending> timers;
  bool early = false;
  std::vector<std::int64_t> delays;
  for (std::int64_t i = 0; i < 30; ++i) delays.push_back(i * 2);
  prng.Shuffle(std::span(delays));
  const Instant start = loop().Now();
  for (const std::int64_t delay : delays) {
    const Instant at = start + Duration::Milliseconds(delay);
    timers.push_back(loop().CallAt(at, [&, at, delay] {
      early = early || loop().Now() < at;
      order.push_back(delay);
    }));
  }
  ASSERT_TRUE(RunUntil([&] { return order.size() == delays.size(); }));
  EXPECT_FALSE(early);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST_P(LoopContractTest, ATimerWhosePendingIsGoneDoesNotRun) {
  bool cancelled_ran = false;
  bool replaced_ran = false;
  bool done = false;
  {
    const Pending dropped = loop().CallAfter(Duration(), [&] { cancelled_ran = true; });
  }
  Pending pending = loop().CallAfter(Duration(), [&] { replaced_ran = true; });
  pending = loop().CallAfter(Duration::Milliseconds(5), [&] { done = true; });
  ASSERT_TRUE(RunUntil([&] { return done; }));
  EXPECT_FALSE(cancelled_ran);
  EXPECT_FALSE(replaced_ran);
}

TEST_P(LoopContractTest, ATimerThatIsDueCanStillBeCancelledByAnother) {
  // Both are due at once; whichever runs first cancels the other.
  int runs = 0;
  Pending a;
  Pending b;
  const Instant at = loop().Now() + Duration::Milliseconds(1);
  a = loop().CallAt(at, [&] {
    ++runs;
    b.Cancel();
  });
  b = loop().CallAt(at, [&] {
    ++runs;
    a.Cancel();
  });
  bool done = false;
  const Pending end = loop().CallAt(at + Duration::Milliseconds(5), [&] { done = true; });
  ASSERT_TRUE(RunUntil([&] { return done; }));
  EXPECT_EQ(runs, 1);
}

TEST_P(LoopContractTest, ATaskMayDestroyItsOwnPendingAndThoseOfOthers) {
  auto timers = std::make_unique<std::vector<Pending>>();
  bool ran = false;
  for (int i = 0; i < 10; ++i) {
    timers->push_back(loop().CallAfter(Duration::Milliseconds(1), [&] {
      ran = true;
      timers.reset();
    }));
  }
  ASSERT_TRUE(RunUntil([&] { return ran; }));
  EXPECT_EQ(timers, nullptr);
}

TEST_P(LoopContractTest, CancellingATimerThatOwnsAnotherCancelsBoth) {
  bool ran = false;
  auto inner =
      std::make_unique<Pending>(loop().CallAfter(Duration::Milliseconds(2), [&] { ran = true; }));
  Pending outer =
      loop().CallAfter(Duration::Milliseconds(1), [&ran, held = std::move(inner)] { ran = true; });
  outer.Cancel();
  bool done = false;
  const Pending end = loop().CallAfter(Duration::Milliseconds(6), [&] { done = true; });
  ASSERT_TRUE(RunUntil([&] { return done; }));
  EXPECT_FALSE(ran);
}

TEST_P(LoopContractTest, TimeStandsStillWithinATaskAndNeverGoesBack) {
  Instant last = loop().Now();
  int runs = 0;
  bool moved = false;
  bool back = false;
  std::vector<Pending> timers;
  for (int i = 0; i < 20; ++i) {
    timers.push_back(loop().CallAfter(Duration::Milliseconds(i % 4), [&] {
      const Instant now = loop().Now();
      for (int spin = 0; spin < 1'000; ++spin) moved = moved || loop().Now() != now;
      back = back || now < last;
      last = now;
      ++runs;
    }));
  }
  ASSERT_TRUE(RunUntil([&] { return runs == 20; }));
  EXPECT_FALSE(moved);
  EXPECT_FALSE(back);
}

TEST_P(LoopContractTest, WhoWatchesTheClockIsToldFirstThatItWentBack) {
  std::vector<std::string> order;
  const Pending watch = loop().WatchClock([&] { order.emplace_back("told"); });
  ASSERT_TRUE(RunUntil([] { return true; }));
  world().SetClockBack(Duration::Hours(1));
  for (int i = 0; i < 3; ++i) loop().Post([&] { order.emplace_back("task"); });
  EXPECT_TRUE(RunUntil([&] { return order.size() == 4; }));
  EXPECT_EQ(order, (std::vector<std::string>{"told", "task", "task", "task"}));
}

TEST_P(LoopContractTest, TimersKeepTheirLengthWhenTheClockGoesBack) {
  std::vector<std::string> order;
  const Pending watch = loop().WatchClock([&] { order.emplace_back("told"); });
  ASSERT_TRUE(RunUntil([] { return true; }));
  const Pending later = loop().CallAfter(Duration::Milliseconds(60), [&] {
    order.emplace_back("second");
    world().WakeUp();
  });
  const Pending timer =
      loop().CallAfter(Duration::Milliseconds(50), [&] { order.emplace_back("first"); });
  // Nothing else wakes it.
  EXPECT_TRUE(world().SleepWhileTheClockGoesBack(Duration::Hours(1)));
  EXPECT_EQ(order, (std::vector<std::string>{"told", "first", "second"}));
}

TEST_P(LoopContractTest, TimersThatWereSetBeforeTheClockWentBackCanBeCancelled) {
  bool told = false;
  Pending cancelled = loop().CallAfter(Duration::Milliseconds(20), [&] { ADD_FAILURE(); });
  const Pending watch = loop().WatchClock([&] {
    told = true;
    cancelled = Pending();
  });
  ASSERT_TRUE(RunUntil([] { return true; }));
  world().SetClockBack(Duration::Hours(1));
  bool ran = false;
  const Pending after = loop().CallAfter(Duration::Milliseconds(40), [&] { ran = true; });
  EXPECT_TRUE(RunUntil([&] { return ran; }));
  EXPECT_TRUE(told);
}

TEST_P(LoopContractTest, AWatchOfTheClockThatIsGoneIsNotToldAndMayEndOthers) {
  int told = 0;
  Pending first;
  Pending second;
  Pending gone = loop().WatchClock([&] { ADD_FAILURE() << "its Pending is gone"; });
  const auto end_both = [&] {
    ++told;
    first = Pending();
    second = Pending();
  };
  first = loop().WatchClock(end_both);
  second = loop().WatchClock(end_both);
  gone = Pending();
  ASSERT_TRUE(RunUntil([] { return true; }));
  world().SetClockBack(Duration::Hours(1));
  bool ran = false;
  loop().Post([&] { ran = true; });
  EXPECT_TRUE(RunUntil([&] { return ran; }));
  EXPECT_EQ(told, 1);
}

TEST_P(LoopContractTest, ATimerInThePastRunsSoon) {
  bool ran = false;
  const Pending timer = loop().CallAt(loop().Now() - Duration::Hours(1), [&] { ran = true; });
  EXPECT_TRUE(RunUntil([&] { return ran; }));
}

TEST_P(LoopContractTest, ATaskThatPostsItselfForEverDoesNotStarveTimers) {
  bool stop = false;
  int turns = 0;
  std::function<void()> again = [&] {
    ++turns;
    if (!stop) loop().Post([&again] { again(); });
  };
  loop().Post([&again] { again(); });
  // The simulated clock moves only when nothing is ready, so its timer is due from the start.
  const Pending timer = loop().CallAt(loop().Now(), [&] { stop = true; });
  EXPECT_TRUE(RunUntil([&] { return stop; }));
}

INSTANTIATE_TEST_SUITE_P(
    Loops, LoopContractTest,
    testing::Values(LoopKind{"Real", [] { return std::make_unique<RealLoopUnderTest>(); }},
                    LoopKind{"Simulated", [] { return std::make_unique<SimLoopUnderTest>(); }}),
    [](const testing::TestParamInfo<LoopKind>& kind) { return kind.param.name; });

}  // namespace
}  // namespace nstance

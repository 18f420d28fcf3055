// The threads below the file store. What runs is held up by latches, so that nothing depends on
// timing.
#include "adapters/file_store/worker_pool.h"

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace nstance {
namespace {

TEST(WorkerPoolTest, RunsEveryJobOnce) {
  std::atomic<int> sum = 0;
  std::latch done(100);
  WorkerPool pool({.threads = 4, .queue = 100});
  for (std::uint64_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(pool.Add(i, [&, i](const std::stop_token&) {
      sum += static_cast<int>(i);
      done.count_down();
    }));
  }
  done.wait();
  EXPECT_EQ(sum, 5'050);
}

TEST(WorkerPoolTest, AFullQueueRefusesAndAWithdrawnJobNeverRuns) {
  std::latch begun(1);
  std::latch go(1);
  std::latch last(1);
  std::atomic<bool> withdrawn_ran = false;
  WorkerPool pool({.threads = 1, .queue = 2});
  ASSERT_TRUE(pool.Add(1, [&](const std::stop_token&) {
    begun.count_down();
    go.wait();
  }));
  begun.wait();
  EXPECT_TRUE(pool.Add(2, [&](const std::stop_token&) { withdrawn_ran = true; }));
  EXPECT_TRUE(pool.Add(3, [&](const std::stop_token&) { last.count_down(); }));
  EXPECT_FALSE(pool.Add(4, [&](const std::stop_token&) { withdrawn_ran = true; }));
  EXPECT_TRUE(pool.Withdraw(2));
  EXPECT_FALSE(pool.Withdraw(2));
  EXPECT_FALSE(pool.Withdraw(1)) << "it has begun";
  go.count_down();
  last.wait();
  EXPECT_FALSE(withdrawn_ran);
}

TEST(WorkerPoolTest, DestroyingItDropsWhatHasNotBegunAndStopsWhatHas) {
  std::atomic<bool> second_ran = false;
  std::atomic<bool> stopped = false;
  auto token = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = token;
  {
    std::latch begun(1);
    WorkerPool pool({.threads = 1, .queue = 2});
    ASSERT_TRUE(pool.Add(1, [&](const std::stop_token& stop) {
      begun.count_down();
      while (!stop.stop_requested()) std::this_thread::yield();
      stopped = true;
    }));
    begun.wait();
    ASSERT_TRUE(
        pool.Add(2, [&, held = std::move(token)](const std::stop_token&) { second_ran = true; }));
  }
  EXPECT_TRUE(stopped);
  EXPECT_FALSE(second_ran);
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace nstance

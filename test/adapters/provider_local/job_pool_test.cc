// Turns, keys and bounds of the pool. Jobs meet at latches, so nothing here depends on time.
#include "adapters/provider_local/job_pool.h"

#include <atomic>
#include <latch>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace nstance::provider_local {
namespace {

// The order in which jobs began.
class Order final {
 public:
  void Note(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    names_.push_back(name);
  }
  [[nodiscard]] std::vector<std::string> names() {
    const std::scoped_lock lock(mutex_);
    return names_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_;
};

TEST(JobPoolTest, TenantsTakeTurns) {
  Order order;
  std::latch begun(1);
  std::latch go(1);
  std::latch done(7);
  JobPool pool({.threads = 1, .waiting = 64});
  ASSERT_TRUE(pool.Add({.tenant = "x", .work = [&](const auto&) {
                          begun.count_down();
                          go.wait();
                          done.count_down();
                        }}));
  begun.wait();
  for (const std::string name : {"a1", "a2", "a3", "a4"}) {
    ASSERT_TRUE(pool.Add({.tenant = "a", .work = [&, name](const auto&) {
                            order.Note(name);
                            done.count_down();
                          }}));
  }
  for (const std::string name : {"b1", "b2"}) {
    ASSERT_TRUE(pool.Add({.tenant = "b", .work = [&, name](const auto&) {
                            order.Note(name);
                            done.count_down();
                          }}));
  }
  go.count_down();
  done.wait();
  EXPECT_EQ(order.names(), (std::vector<std::string>{"a1", "b1", "a2", "b2", "a3", "a4"}));
}

TEST(JobPoolTest, AFullQueueOfOneTenantLeavesRoomForAnother) {
  std::latch begun(1);
  std::latch go(1);
  JobPool pool({.threads = 1, .waiting = 2});
  ASSERT_TRUE(pool.Add({.tenant = "a", .work = [&](const auto&) {
                          begun.count_down();
                          go.wait();
                        }}));
  begun.wait();
  EXPECT_TRUE(pool.Add({.tenant = "a", .work = [](const auto&) {}}));
  EXPECT_TRUE(pool.Add({.tenant = "a", .work = [](const auto&) {}}));
  EXPECT_FALSE(pool.Add({.tenant = "a", .work = [](const auto&) {}}));
  EXPECT_TRUE(pool.Add({.tenant = "b", .work = [](const auto&) {}}));
  EXPECT_TRUE(pool.Add({.tenant = "a", .work = [](const auto&) {}}, JobPool::Bound::kIgnored));
  go.count_down();
}

TEST(JobPoolTest, JobsOfOneKeyNeverMeetAndKeepTheirOrder) {
  constexpr int kJobs = 200;
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::latch done(kJobs + 50);
  Order order;
  std::vector<std::string> expected;
  {
    JobPool pool({.threads = 4, .waiting = 1'000});
    for (int i = 0; i < kJobs; ++i) {
      expected.push_back(std::to_string(i));
      ASSERT_TRUE(pool.Add({.key = "k", .work = [&, i](const auto&) {
                              const int now = ++inside;
                              if (now > most) most = now;
                              order.Note(std::to_string(i));
                              --inside;
                              done.count_down();
                            }}));
      if (i % 4 == 0) {
        ASSERT_TRUE(pool.Add({.work = [&](const auto&) { done.count_down(); }}));
      }
    }
    done.wait();
  }
  EXPECT_EQ(most, 1);
  EXPECT_EQ(order.names(), expected);
}

TEST(JobPoolTest, ABusyKeyHoldsNobodyElseUp) {
  std::latch begun(1);
  std::latch go(1);
  std::latch other(1);
  JobPool pool({.threads = 2, .waiting = 64});
  ASSERT_TRUE(pool.Add({.key = "k", .work = [&](const auto&) {
                          begun.count_down();
                          go.wait();
                        }}));
  begun.wait();
  ASSERT_TRUE(pool.Add({.key = "k", .work = [](const auto&) {}}));
  ASSERT_TRUE(pool.Add({.key = "l", .work = [&](const auto&) { other.count_down(); }}));
  other.wait();
  go.count_down();
}

TEST(JobPoolTest, WhatHasNotBegunCanBeWithdrawn) {
  std::latch begun(1);
  std::latch go(1);
  std::atomic<bool> ran = false;
  {
    JobPool pool({.threads = 1, .waiting = 64});
    ASSERT_TRUE(pool.Add({.id = 1, .work = [&](const auto&) {
                            begun.count_down();
                            go.wait();
                          }}));
    ASSERT_TRUE(pool.Add({.id = 2, .work = [&](const auto&) { ran = true; }}));
    begun.wait();
    EXPECT_FALSE(pool.Withdraw(1));
    EXPECT_TRUE(pool.Withdraw(2));
    EXPECT_FALSE(pool.Withdraw(2));
    go.count_down();
  }
  EXPECT_FALSE(ran);
}

TEST(JobPoolTest, TheEndDropsWhatWaitsAndAsksWhatRunsToStop) {
  std::latch begun(1);
  std::atomic<bool> asked = false;
  std::atomic<bool> ran = false;
  {
    JobPool pool({.threads = 1, .waiting = 64});
    ASSERT_TRUE(pool.Add({.work = [&](const std::stop_token& stop) {
      begun.count_down();
      while (!stop.stop_requested()) continue;
      asked = true;
    }}));
    ASSERT_TRUE(pool.Add({.work = [&](const auto&) { ran = true; }}));
    begun.wait();
  }
  EXPECT_TRUE(asked);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace nstance::provider_local

// What only the real loop does: descriptors, posts from other threads, stopping. Sanitizers watch.
#include "adapters/real_loop/real_loop.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/secure_random/system_random.h"

namespace nstance {
namespace {

// A connected pair of sockets that closes itself.
class SocketPair {
 public:
  SocketPair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_.data()), 0); }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;
  ~SocketPair() {
    CloseFar();
    close(near());
  }
  [[nodiscard]] int near() const { return ends_[0]; }
  void WriteFar(char c) const { EXPECT_EQ(write(ends_[1], &c, 1), 1); }
  void CloseFar() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }

 private:
  std::array<int, 2> ends_{};
};

class RealLoopTest : public testing::Test {
 protected:
  // Ends a test that waits for something that never comes.
  RealLoop loop_;
  Pending limit_ = loop_.CallAfter(Duration::Seconds(20), [this] {
    ADD_FAILURE() << "timed out";
    loop_.Stop();
  });
};

TEST_F(RealLoopTest, ADescriptorReportsReadableUntilItIsRead) {
  const SocketPair pair;
  int calls = 0;
  const auto watch = loop_.Watch(pair.near(), {.readable = true}, [&](Readiness ready) {
    EXPECT_TRUE(ready.readable);
    EXPECT_FALSE(ready.closed);
    if (++calls == 2) {  // Level-triggered: the unread byte is reported again.
      char c = 0;
      EXPECT_EQ(read(pair.near(), &c, 1), 1);
      loop_.Stop();
    }
  });
  pair.WriteFar('x');
  loop_.Run();
  EXPECT_EQ(calls, 2);
}

TEST_F(RealLoopTest, WritableIsReportedOnlyWhileItIsAskedFor) {
  const SocketPair pair;
  int writable = 0;
  std::unique_ptr<DescriptorWatch> watch;
  watch = loop_.Watch(pair.near(), {.writable = true}, [&](Readiness ready) {
    if (ready.writable) ++writable;
    watch->SetInterest({.readable = true});
    if (ready.readable) loop_.Stop();
  });
  const Pending later = loop_.CallAfter(Duration::Milliseconds(5), [&] { pair.WriteFar('x'); });
  loop_.Run();
  EXPECT_EQ(writable, 1);
}

TEST_F(RealLoopTest, AClosedPeerIsReported) {
  SocketPair pair;
  bool closed = false;
  const auto watch = loop_.Watch(pair.near(), {.readable = true}, [&](Readiness ready) {
    closed = ready.closed;
    loop_.Stop();
  });
  pair.CloseFar();
  loop_.Run();
  EXPECT_TRUE(closed);
}

TEST_F(RealLoopTest, WithoutInterestAClosedPeerIsSilent) {
  SocketPair pair;
  int calls = 0;
  const auto watch = loop_.Watch(pair.near(), {}, [&](Readiness) { ++calls; });
  pair.CloseFar();
  const Pending end = loop_.CallAfter(Duration::Milliseconds(5), [&] { loop_.Stop(); });
  loop_.Run();
  EXPECT_EQ(calls, 0);
}

TEST_F(RealLoopTest, AWatchMayDestroyItselfAndOthersInItsCallback) {
  const SocketPair a;
  const SocketPair b;
  int calls = 0;
  std::vector<std::unique_ptr<DescriptorWatch>> watches;
  for (const int descriptor : {a.near(), b.near()}) {
    watches.push_back(loop_.Watch(descriptor, {.readable = true}, [&](Readiness) {
      ++calls;
      watches.clear();
      loop_.Stop();
    }));
  }
  a.WriteFar('x');
  b.WriteFar('y');
  loop_.Run();
  EXPECT_EQ(calls, 1);
}

TEST_F(RealLoopTest, PostsFromOtherThreadsAllArrive) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 2'000;
  int arrived = 0;  // Only the loop_'s thread touches it.
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kPosts; ++n) {
        loop_.Post([&] {
          if (++arrived == kThreads * kPosts) loop_.Stop();
        });
      }
    });
  }
  loop_.Run();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arrived, kThreads * kPosts);
}

TEST_F(RealLoopTest, StopFromAnotherThreadEndsRun) {
  std::thread stopper([&] { loop_.Stop(); });
  loop_.Run();
  stopper.join();
}

TEST_F(RealLoopTest, RunMayBeCalledAgain) {
  for (int i = 0; i < 3; ++i) {
    bool ran = false;
    loop_.Post([&] {
      ran = true;
      loop_.Stop();
    });
    loop_.Run();
    EXPECT_TRUE(ran);
  }
}

TEST(RealLoopTeardownTest, UnrunTasksAreDestroyedWithWhatTheyHold) {
  auto held = std::make_shared<int>(1);
  {
    RealLoop loop;
    loop.Post([held] {});
    auto inner = std::make_shared<Pending>(loop.CallAfter(Duration::Hours(1), [held] {}));
    // A timer's task that owns the Pending of another timer of the same loop.
    Pending outer = loop.CallAfter(Duration::Hours(2), [inner, held] {});
    inner.reset();
    loop.Post([kept = std::move(outer)] {});
    EXPECT_GT(held.use_count(), 3);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(RealLoopDeathTest, TimersMayNotBeSetFromAnotherThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        RealLoop loop;
        loop.Post([&] {
          std::thread([&] { const Pending p = loop.CallAfter(Duration(), [] {}); }).join();
        });
        loop.Run();
      },
      "only Post\\(\\) and Stop\\(\\)");
}

TEST(SystemRandomTest, FillsEveryByte) {
  SystemRandom random;
  std::array<int, 256> seen{};
  for (int i = 0; i < 200; ++i) {
    for (const std::uint8_t byte : random.Array<64>()) ++seen.at(byte);
  }
  for (const int count : seen) EXPECT_GT(count, 0);
  random.Fill({});
}

}  // namespace
}  // namespace nstance

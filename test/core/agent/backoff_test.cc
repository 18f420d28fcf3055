// Examples for the shape of the waits, then properties over seeds: every wait lies in its bounds.
#include "core/agent/backoff.h"

#include <vector>

#include <gtest/gtest.h>

namespace nstance::agent {
namespace {

constexpr Instant kZero = Instant::FromClock(Duration::Hours(1));

struct Bounds {
  Duration low;
  Duration high;
};
Bounds Around(Duration length) { return {.low = length / 2, .high = length / 2 * 3}; }

void ExpectWithin(Duration wait, const Bounds& bounds, std::uint64_t seed) {
  EXPECT_GE(wait, bounds.low) << "seed " << seed;
  EXPECT_LE(wait, bounds.high) << "seed " << seed;
}

TEST(BackoffTest, DoublesUpToTwoSecondsInTheFirstMinuteAndToThirtyAfterIt) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng jitter(seed);
    Backoff backoff;
    Instant now = kZero;
    const auto early = {Duration::Milliseconds(500), Duration::Seconds(1), Duration::Seconds(2),
                        Duration::Seconds(2), Duration::Seconds(2)};
    for (const Duration expected : early) {
      const Duration wait = backoff.Ended(now, Code::kUnavailable, jitter);
      ExpectWithin(wait, Around(expected), seed);
      now = now + wait;
    }
    now = kZero + Duration::Seconds(60);
    for (const Duration expected : {Duration::Seconds(16), Duration::Seconds(30)}) {
      ExpectWithin(backoff.Ended(now, std::nullopt, jitter), Around(expected), seed);
    }
  }
}

TEST(BackoffTest, TheFirstWaitAfterALongLifeIsAtMostASecond) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng jitter(seed);
    Backoff backoff;
    for (int i = 0; i < 20; ++i) (void)backoff.Ended(kZero, Code::kUnavailable, jitter);
    backoff.Opened(kZero);
    const Instant end = kZero + Duration::Seconds(30);
    ExpectWithin(backoff.Ended(end, Code::kUnavailable, jitter), {{}, Duration::Seconds(1)}, seed);
    // And the outage counts from there.
    ExpectWithin(backoff.Ended(end, Code::kUnavailable, jitter),
                 Around(Duration::Milliseconds(500)), seed);
    EXPECT_EQ(backoff.outage_since(), end);
  }
}

TEST(BackoffTest, AShortLifeChangesNothing) {
  Prng jitter(1);
  Backoff backoff;
  for (int i = 0; i < 3; ++i) {
    backoff.Opened(kZero);
    const Duration wait =
        backoff.Ended(kZero + Duration::Milliseconds(29'999), Code::kUnavailable, jitter);
    ExpectWithin(wait, Around(Duration::Milliseconds(500) * (1 << i)), 1);
  }
}

TEST(BackoffTest, SomeStatusesHaveWaitsOfTheirOwn) {
  struct Row {
    Code code;
    Duration cap;
  };
  for (const Row& row : {Row{Code::kUnauthenticated, Duration::Seconds(60)},
                         Row{Code::kPermissionDenied, Duration::Seconds(60)},
                         Row{Code::kUnimplemented, Duration::Minutes(5)},
                         Row{Code::kInternal, Duration::Seconds(2)}}) {
    Prng jitter(7);
    Backoff backoff;
    Duration longest;
    for (int i = 0; i < 30; ++i) {
      longest = std::max(longest, backoff.Ended(kZero, row.code, jitter));
    }
    EXPECT_LE(longest, row.cap / 2 * 3) << CodeName(row.code);
    EXPECT_GT(longest, row.cap) << CodeName(row.code);
  }
}

TEST(BackoffTest, WhoWasReplacedWaitsAtLeastFiveSeconds) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Prng jitter(seed);
    Backoff backoff;
    EXPECT_GE(backoff.Ended(kZero, Code::kAborted, jitter), Duration::Seconds(5));
    backoff.Opened(kZero);
    EXPECT_GE(backoff.Ended(kZero + Duration::Hours(1), Code::kAborted, jitter),
              Duration::Seconds(5));
  }
}

TEST(BackoffTest, DoubledNeverPassesItsCapWhateverTheCount) {
  for (const int n : {0, 1, 5, 63, 1'000'000}) {
    EXPECT_LE(Doubled(n, Duration::Seconds(10)), Duration::Seconds(10));
  }
  EXPECT_EQ(Doubled(0, Duration::Seconds(10)), Duration::Milliseconds(500));
  EXPECT_EQ(Doubled(4, Duration::Seconds(10)), Duration::Seconds(8));
}

}  // namespace
}  // namespace nstance::agent

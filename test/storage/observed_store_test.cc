// What an observed store remembers of the other one: here the clock that it told.
#include "storage/observed_store.h"

#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"

namespace nstance {
namespace {

const ObjectKey kKey = *ObjectKey::Parse("ca.crt");
const ObjectKey kOther = *ObjectKey::Parse("lease");
const Timestamp kStart = Timestamp::FromUnix(1'700'000'000);

class ObservedStoreTest : public testing::Test {
 public:
  Result<Object> Get() {
    std::optional<Result<Object>> answer;
    const Pending call =
        store.Get(kKey, [&](Result<Object> got) { answer.emplace(std::move(got)); });
    EXPECT_TRUE(scheduler.RunUntilTrue([&] { return answer.has_value(); }, Duration::Seconds(10)));
    return answer.value_or(Fail(Internal("no answer")));
  }
  // `after`: for what is asked while this is under way.
  void Write(const sim::SimStoreFaults& after = {}) {
    bool answered = false;
    const Pending call = store.Put({.key = kOther, .bytes = "x", .condition = IfAbsent{}},
                                   [&](const Result<ObjectVersion>& put) {
                                     EXPECT_TRUE(put.has_value());
                                     answered = true;
                                   });
    below.faults() = after;
    EXPECT_TRUE(scheduler.RunUntilTrue([&] { return answered; }, Duration::Seconds(10)));
    scheduler.RunFor(Duration::Seconds(1));
    below.faults() = {};
    bucket.EraseByHand(kOther);
  }
  // By the store's clock.
  [[nodiscard]] Timestamp StoreTime() const { return kStart + scheduler.now().since_zero(); }

  sim::SimScheduler scheduler{1};
  sim::SimBucket bucket{scheduler, {.wall_start = kStart}};
  sim::SimLoop loop{scheduler, kStart - Duration::Hours(5)};
  sim::SimObjectStore below{bucket, loop, {.process = "p"}};
  metrics::Registry metrics;
  ObservedStore store{loop, below, metrics};
};

TEST_F(ObservedStoreTest, TheStoresClockGoesOnFromItsLastAnswerWhateverOursDoes) {
  EXPECT_FALSE(store.StoreNow().has_value());
  EXPECT_FALSE(Get().has_value());
  EXPECT_FALSE(store.StoreNow().has_value()) << "what is not there has told no time";
  bucket.SetByHand(kKey, "bytes");
  ASSERT_TRUE(Get().has_value());
  const auto off = [&] { return *store.StoreNow() - StoreTime(); };
  EXPECT_LT(off(), Duration::Seconds(1));
  EXPECT_GT(off(), Duration::Seconds(-1));
  loop.JumpWall(Duration::Hours(9));
  scheduler.RunFor(Duration::Hours(1));
  EXPECT_LT(off(), Duration::Seconds(1));
  EXPECT_GT(off(), Duration::Seconds(-1));
}

class ObservedRightClockTest : public ObservedStoreTest {
 public:
  ObservedRightClockTest() {
    loop.JumpWall(Duration::Hours(5));
    bucket.SetByHand(kKey, "bytes");
    EXPECT_TRUE(Get().has_value());
  }
  [[nodiscard]] std::uint64_t Reads() const { return bucket.Count(sim::SimMethod::kGet, "lease"); }
};

TEST_F(ObservedRightClockTest, RU8_TimeThatAWrongRateHasCarriedAwayIsAskedForAnew) {
  loop.SetRate(2 * sim::SimLoop::kTrueRate);
  scheduler.RunFor(Duration::Minutes(3));
  loop.SetRate(sim::SimLoop::kTrueRate);
  loop.JumpWall(StoreTime() - loop.WallNow());
  EXPECT_GT(*store.StoreNow() - StoreTime(), Duration::Minutes(2));
  Write();
  EXPECT_EQ(Reads(), 1U);
  EXPECT_LT(*store.StoreNow() - StoreTime(), Duration::Seconds(1));
  EXPECT_GT(*store.StoreNow() - StoreTime(), Duration::Seconds(-1));
  scheduler.RunFor(Duration::Minutes(3));
  Write();
  EXPECT_EQ(Reads(), 1U) << "nothing is in doubt";
}

TEST_F(ObservedRightClockTest, AWallClockThatStaysWrongIsAskedAboutOnceAMinute) {
  loop.JumpWall(Duration::Hours(9));
  Write();
  EXPECT_EQ(Reads(), 0U) << "the store has told its time just now";
  scheduler.RunFor(Duration::Minutes(1));
  for (int second = 0; second < 110; second += 2) {
    Write();
    scheduler.RunFor(Duration::Seconds(1));
  }
  EXPECT_EQ(Reads(), 2U);
  EXPECT_LT(*store.StoreNow() - StoreTime(), Duration::Seconds(1));
}

TEST_F(ObservedRightClockTest, AReadThatFailsIsRepeatedAMinuteLater) {
  loop.JumpWall(Duration::Hours(9));
  scheduler.RunFor(Duration::Minutes(2));
  Write({.error_not_done = 10'000});
  Write();
  EXPECT_EQ(Reads(), 1U);
  scheduler.RunFor(Duration::Minutes(1));
  Write();
  EXPECT_EQ(Reads(), 2U);
}

}  // namespace
}  // namespace nstance

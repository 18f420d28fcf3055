// What an observed store remembers of the other one: here the clock that it told.
#include "storage/observed_store.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  // By the store's clock.
  [[nodiscard]] Timestamp StoreTime() const { return kStart + scheduler.now().since_zero(); }
  void ExpectRight() const {
    ASSERT_TRUE(store.StoreNow().has_value());
    EXPECT_LT(*store.StoreNow() - StoreTime(), Duration::Seconds(1));
    EXPECT_GT(*store.StoreNow() - StoreTime(), Duration::Seconds(-1));
  }

  sim::SimScheduler scheduler{1};
  sim::SimBucket bucket{scheduler, {.wall_start = kStart}};
  sim::SimLoop loop{scheduler, kStart - Duration::Hours(5)};
  sim::SimObjectStore below{bucket, loop, {.process = "p"}};
  metrics::Registry metrics;
  ObservedStore store{loop, below, metrics};
};

TEST_F(ObservedStoreTest, TheStoresClockGoesOnFromItsLastAnswerWhateverOursDoes) {
  EXPECT_FALSE(store.StoreNow().has_value());
  bucket.SetByHand(kKey, "bytes");
  ASSERT_TRUE(Get().has_value());
  ExpectRight();
  loop.JumpWall(Duration::Hours(9));
  scheduler.RunFor(Duration::Hours(1));
  ExpectRight();
}

TEST_F(ObservedStoreTest, RU8_EveryAnswerTellsTheStoresTime) {
  bucket.SetByHand(kKey, "bytes");
  using Ask = std::function<Pending(std::function<void()> answered)>;
  const auto told = [](auto answered) { return [answered](const auto&) { answered(); }; };
  const std::vector<std::pair<std::string, Ask>> calls = {
      {"a read", [&](auto answered) { return store.Get(kKey, told(answered)); }},
      {"of what is not there", [&](auto answered) { return store.Get(kOther, told(answered)); }},
      {"a look", [&](auto answered) { return store.Head(kKey, told(answered)); }},
      {"a conflict",
       [&](auto answered) {
         return store.Put({.key = kKey, .bytes = "x", .condition = IfAbsent{}}, told(answered));
       }},
      {"a write",
       [&](auto answered) {
         return store.Put({.key = kOther, .bytes = "x", .condition = IfAbsent{}}, told(answered));
       }},
      {"a deletion",
       [&](auto answered) {
         return store.Delete({.key = kOther, .version = std::nullopt}, told(answered));
       }},
      {"a listing", [&](auto answered) { return store.List({.prefix = ""}, told(answered)); }},
      {"a refusal",
       [&](auto answered) {
         below.faults().error_not_done = 10'000;
         return store.Head(kKey, told(answered));
       }},
  };
  for (const auto& [name, ask] : calls) {
    SCOPED_TRACE(name);
    // Carried away by a clock at a wrong rate.
    loop.SetRate(2 * sim::SimLoop::kTrueRate);
    scheduler.RunFor(Duration::Minutes(3));
    loop.SetRate(sim::SimLoop::kTrueRate);
    bool answered = false;
    const Pending call = ask([&] { answered = true; });
    ASSERT_TRUE(scheduler.RunUntilTrue([&] { return answered; }, Duration::Seconds(10)));
    ExpectRight();
  }
}

TEST_F(ObservedStoreTest, RU8_NoAnswerTellsNoTime) {
  below.link().requests_lost = true;
  EXPECT_FALSE(Get().has_value());
  EXPECT_FALSE(store.StoreNow().has_value());
}

}  // namespace
}  // namespace nstance

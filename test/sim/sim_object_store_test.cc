// The simulated store's faults, each alone and at full chance, seen from both ends: what the caller
// is told and what the bucket holds. Without faults it passes the contract of all stores
// (test/contract/).
#include "sim/sim_object_store.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace nstance::sim {
namespace {

const ObjectKey kKey = *ObjectKey::Parse("journal/a.json");
constexpr std::uint32_t kAlways = 10'000;

struct World {
  explicit World(const SimStoreFaults& faults = {}, const SimBucket::Options& options = {},
                 std::uint64_t seed = 1)
      : scheduler(seed), bucket(scheduler, options) {
    loop = std::make_unique<SimLoop>(scheduler, Timestamp());
    store = std::make_unique<SimObjectStore>(
        bucket, *loop, SimObjectStore::Options{.process = "server", .faults = faults});
  }

  template <class T, class F>
  Result<T> Await(F ask) {
    std::optional<Result<T>> answer;
    const Pending pending = ask([&](Result<T> result) { answer = std::move(result); });
    EXPECT_TRUE(scheduler.RunUntilTrue([&] { return answer.has_value(); }, Duration::Minutes(1)));
    return answer.value_or(Fail(Internal("no answer")));
  }
  Result<ObjectVersion> Put(std::string bytes, PutCondition condition = IfAbsent{}) {
    return Await<ObjectVersion>([&](auto done) {
      return store->Put({.key = kKey, .bytes = std::move(bytes), .condition = std::move(condition)},
                        std::move(done));
    });
  }
  Result<Object> Get() {
    return Await<Object>([&](auto done) { return store->Get(kKey, std::move(done)); });
  }
  std::string Stored() {
    const Object* object = bucket.Find(kKey);
    return object == nullptr ? "nothing" : object->bytes;
  }

  SimScheduler scheduler;
  SimBucket bucket;
  std::unique_ptr<SimLoop> loop;
  std::unique_ptr<SimObjectStore> store;
};

void ExpectError(const auto& result, Code code, Outcome outcome) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << result.error().ToString();
  EXPECT_EQ(result.error().outcome, outcome) << result.error().ToString();
}

TEST(SimObjectStoreTest, F3_AnErrorIsWithoutEffect) {
  World world({.error_not_done = kAlways});
  ExpectError(world.Put("x"), Code::kUnavailable, Outcome::kNotDone);
  EXPECT_EQ(world.Stored(), "nothing");
  ExpectError(world.Get(), Code::kUnavailable, Outcome::kNotDone);
}

TEST(SimObjectStoreTest, F4_ALostAnswerIsAppliedAndTimesOut) {
  World world({.answer_lost = kAlways});
  ExpectError(world.Put("x"), Code::kDeadlineExceeded, Outcome::kMaybeDone);
  EXPECT_EQ(world.scheduler.now().since_zero(), Duration::Seconds(3));
  EXPECT_EQ(world.Stored(), "x");
  ExpectError(world.Get(), Code::kDeadlineExceeded, Outcome::kNotDone);
}

TEST(SimObjectStoreTest, F4_ALostRequestTimesOutWithoutEffect) {
  World world({.request_lost = kAlways});
  ExpectError(world.Put("x"), Code::kDeadlineExceeded, Outcome::kMaybeDone);
  world.scheduler.RunFor(Duration::Hours(1));
  EXPECT_EQ(world.Stored(), "nothing");
}

TEST(SimObjectStoreTest, F4_AnErrorAtOnceIsAppliedHalfOfTheTime) {
  int applied = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    World world({.error_maybe_done = kAlways}, {}, seed);
    ExpectError(world.Put("x"), Code::kUnavailable, Outcome::kMaybeDone);
    EXPECT_LT(world.scheduler.now().since_zero(), Duration::Seconds(1));
    if (world.Stored() == "x") ++applied;
  }
  EXPECT_GT(applied, 30);
  EXPECT_LT(applied, 70);
}

TEST(SimObjectStoreTest, F4_ALateWriteIsJudgedWhenItArrivesAlthoughItsSenderIsDead) {
  int applied = 0;
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    World world({.applied_late = kAlways}, {}, seed);
    ExpectError(world.Put("late"), Code::kDeadlineExceeded, Outcome::kMaybeDone);
    world.store.reset();
    world.loop.reset();
    // Somebody else writes after five minutes, if nobody has.
    world.scheduler.RunFor(Duration::Minutes(5));
    if (world.Stored() == "nothing") world.bucket.SetByHand(kKey, "other");
    const std::string before = world.Stored();
    world.scheduler.RunFor(Duration::Minutes(6));
    EXPECT_EQ(world.Stored(), before) << "a condition that no longer holds was not refused";
    ++(before == "late" ? applied : refused);
    EXPECT_EQ(world.bucket.Count(SimMethod::kPut, "journal"), 1U);
  }
  EXPECT_GT(applied, 20);
  EXPECT_GT(refused, 20);
}

TEST(SimObjectStoreTest, F5_AWriteDeliveredTwiceIsRefusedByItself) {
  World world({.delivered_twice = kAlways});
  ExpectError(world.Put("x"), Code::kAborted, Outcome::kNotDone);
  EXPECT_EQ(world.Stored(), "x");
}

TEST(SimObjectStoreTest, F6_AStaleReadShowsWhatWasThere) {
  World world({.stale_read = kAlways, .stale_by = Duration::Seconds(5)});
  world.bucket.SetByHand(kKey, "old");
  world.scheduler.RunFor(Duration::Minutes(1));
  world.bucket.SetByHand(kKey, "new");
  int old = 0;
  for (int i = 0; i < 20; ++i) {
    const auto read = world.Get();
    ASSERT_TRUE(read);
    if (read->bytes == "old") ++old;
  }
  EXPECT_GT(old, 5);
  EXPECT_EQ(world.Stored(), "new");
  world.scheduler.RunFor(Duration::Seconds(6));
  EXPECT_EQ(world.Get()->bytes, "new");
}

TEST(SimObjectStoreTest, F6_AStaleListingMissesTheNewAndShowsTheDeleted) {
  World world({}, {.personality = {.listings_lag = Duration::Seconds(5)}});
  const auto listed = [&] {
    const auto page = world.Await<ListPage>(
        [&](auto done) { return world.store->List({.prefix = "journal/"}, std::move(done)); });
    return page ? page->objects.size() : 99;
  };
  world.bucket.SetByHand(kKey, "x");
  EXPECT_EQ(listed(), 0U);
  world.scheduler.RunFor(Duration::Seconds(6));
  EXPECT_EQ(listed(), 1U);
  world.bucket.EraseByHand(kKey);
  EXPECT_EQ(listed(), 1U);
  world.scheduler.RunFor(Duration::Seconds(6));
  EXPECT_EQ(listed(), 0U);
}

TEST(SimObjectStoreTest, F13_OneWayPartitionsLoseRequestsOrAnswersUntilTheyHeal) {
  World world;
  world.store->link().requests_lost = true;
  ExpectError(world.Put("x"), Code::kDeadlineExceeded, Outcome::kMaybeDone);
  EXPECT_EQ(world.Stored(), "nothing");
  world.store->link() = {.answers_lost = true};
  ExpectError(world.Put("x"), Code::kDeadlineExceeded, Outcome::kMaybeDone);
  EXPECT_EQ(world.Stored(), "x");
  world.store->link() = {};
  EXPECT_EQ(world.Get()->bytes, "x");
}

TEST(SimObjectStoreTest, ASlowStoreAnswersAtTheDeadline) {
  World world({.latency_min = Duration::Seconds(10), .latency_max = Duration::Seconds(10)});
  ExpectError(world.Put("x"), Code::kDeadlineExceeded, Outcome::kMaybeDone);
  EXPECT_EQ(world.scheduler.now().since_zero(), Duration::Seconds(3));
  world.scheduler.RunFor(Duration::Seconds(10));
  EXPECT_EQ(world.Stored(), "x");
}

TEST(SimObjectStoreTest, VersionsAreNewWithEveryWriteAlsoOfTheSameBytes) {
  World world;
  const auto first = world.Put("x");
  ASSERT_TRUE(first);
  const auto second = world.Put("x", IfVersion{*first});
  ASSERT_TRUE(second);
  EXPECT_NE(*first, *second);
}

TEST(SimObjectStoreTest, PagesMayBeShorterThanAskedForButNothingIsMissing) {
  World world({.short_page = kAlways});
  for (int i = 0; i < 50; ++i) {
    world.bucket.SetByHand(*ObjectKey::Parse("k/" + std::to_string(100 + i)), "x");
  }
  std::size_t listed = 0;
  std::size_t pages = 0;
  ListRequest request{.prefix = "k/", .page_size = 20};
  do {
    const auto page = world.Await<ListPage>(
        [&](auto done) { return world.store->List(request, std::move(done)); });
    ASSERT_TRUE(page);
    listed += page->objects.size();
    request.page_token = page->next_page_token;
    ++pages;
  } while (!request.page_token.empty());
  EXPECT_EQ(listed, 50U);
  EXPECT_GT(pages, 3U);
}

TEST(SimObjectStoreTest, EveryRequestIsCountedOnceAndEveryChangeIsSeen) {
  World world({}, {.log = SimBucket::Options::Log::kRequests});
  std::vector<std::string> changes;
  world.bucket.set_observer([&](const SimChange& change) {
    changes.push_back((change.before != nullptr ? change.before->bytes : "-") + " > " +
                      (change.after != nullptr ? change.after->bytes : "-") + " by " +
                      change.process);
  });
  EXPECT_FALSE(world.Get());
  const auto version = world.Put("x");
  ASSERT_TRUE(version);
  EXPECT_FALSE(world.Put("y"));
  EXPECT_TRUE(world.Get());
  EXPECT_TRUE(world.Await<void>([&](auto done) {
    return world.store->Delete({.key = kKey, .version = *version}, std::move(done));
  }));
  world.bucket.SetByHand(kKey, "z");
  EXPECT_EQ(changes, (std::vector<std::string>{"- > x by server", "x > - by server", "- > z by "}));
  using Counter = SimBucket::Counter;
  const std::map<Counter, std::uint64_t> expected = {
      {Counter(SimMethod::kGet, "journal", SimResult::kNotFound), 1},
      {Counter(SimMethod::kGet, "journal", SimResult::kDone), 1},
      {Counter(SimMethod::kPut, "journal", SimResult::kDone), 1},
      {Counter(SimMethod::kPut, "journal", SimResult::kRefused), 1},
      {Counter(SimMethod::kDelete, "journal", SimResult::kDone), 1}};
  EXPECT_EQ(world.bucket.counts(), expected);
  EXPECT_EQ(world.bucket.requests().size(), 5U);
}

TEST(SimObjectStoreTest, TheSameSeedGivesTheSameRun) {
  const auto run = [](std::uint64_t seed) {
    World world({.error_not_done = 1'000,
                 .error_maybe_done = 1'000,
                 .answer_lost = 1'000,
                 .applied_late = 1'000,
                 .delivered_twice = 1'000},
                {}, seed);
    for (int i = 0; i < 50; ++i) (void)world.Put("write " + std::to_string(i));
    return world.scheduler.trace_hash();
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

}  // namespace
}  // namespace nstance::sim

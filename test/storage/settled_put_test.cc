// SettledPut in simulated time: several writers on one object of a store that loses, delays,
// repeats and refuses. The bucket's own record of changes is the judge of every answer.
#include "storage/settled_put.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "sim/sim_object_store.h"

namespace nstance {
namespace {

using sim::SimBucket;
using sim::SimChange;
using sim::SimLoop;
using sim::SimObjectStore;
using sim::SimScheduler;
using sim::SimStoreFaults;

const ObjectKey kKey = *ObjectKey::Parse("journal/a.json");

SimStoreFaults Hostile() {
  return {.error_not_done = 1'000,
          .error_maybe_done = 1'000,
          .request_lost = 700,
          .answer_lost = 1'500,
          .applied_late = 700,
          .delivered_twice = 1'000};
}

// One process with one store.
struct Process {
  Process(SimScheduler& scheduler, SimBucket& bucket, const std::string& name)
      : loop(scheduler, Timestamp()),
        store(bucket, loop, {.process = name, .faults = Hostile()}),
        jitter(scheduler.prng().Fork()) {}

  SettledPut::Deps deps() { return {.loop = loop, .store = store, .jitter = jitter}; }

  SimLoop loop;
  SimObjectStore store;
  Prng jitter;
};

// All bytes that were ever in the bucket, with their version, and what is there now.
struct Truth {
  explicit Truth(SimBucket& bucket) {
    bucket.set_observer([this](const SimChange& change) {
      if (change.after == nullptr) return;
      EXPECT_TRUE(applied.emplace(change.after->bytes, change.after->version).second)
          << change.after->bytes << " was applied twice";
    });
  }
  std::map<std::string, ObjectVersion> applied;
};

struct Tally {
  int applied = 0;
  int conflicts = 0;
  int not_done = 0;
  int maybe_done = 0;
};

// Sends writes one after the other, each from the version that the process saw last.
class Writer final {
 public:
  Writer(Process& process, Truth& truth, std::string name, Tally& tally)
      : process_(process), truth_(truth), name_(std::move(name)), tally_(tally) {}

  void Start(int writes) {
    left_ = writes;
    Next();
  }
  [[nodiscard]] bool done() const { return left_ == 0; }
  // Bytes that were reported as surely without effect.
  [[nodiscard]] const std::set<std::string>& never() const { return never_; }

 private:
  void Next() {
    bytes_ = fmt::format("{} {}", name_, left_);
    const Instant deadline = process_.loop.Now() + Duration::Seconds(8);
    put_ = std::make_unique<SettledPut>(
        process_.deps(),
        SettledPut::Request{.put = {.key = kKey, .bytes = bytes_, .condition = condition_},
                            .deadline = deadline},
        [this](Result<ObjectVersion> result) { Note(std::move(result)); });
    put_->Start();
  }

  void Note(Result<ObjectVersion> result) {
    const auto at = truth_.applied.find(bytes_);
    if (result) {
      ++tally_.applied;
      ASSERT_NE(at, truth_.applied.end()) << bytes_;
      EXPECT_EQ(at->second, *result);
      condition_ = IfVersion{*result};
    } else if (result.error().code == Code::kAborted) {
      ++tally_.conflicts;
      // Ours is not there now, and will never be applied from now on.
      if (at == truth_.applied.end()) never_.insert(bytes_);
      return Look();
    } else if (result.error().outcome == Outcome::kNotDone) {
      ++tally_.not_done;
      EXPECT_EQ(at, truth_.applied.end()) << bytes_;
      never_.insert(bytes_);
    } else {
      ++tally_.maybe_done;
      return Look();
    }
    Turn();
  }

  // Reads until the store answers, to write from there.
  void Look() {
    pending_ = process_.store.Get(kKey, [this](Result<Object> read) {
      if (!read && read.error().code != Code::kNotFound) return Look();
      condition_ = read ? PutCondition(IfVersion{read->version}) : PutCondition(IfAbsent{});
      Turn();
    });
  }
  void Turn() {
    if (--left_ > 0) Next();
  }

  Process& process_;
  Truth& truth_;
  std::string name_;
  Tally& tally_;
  int left_ = 0;
  std::string bytes_;
  PutCondition condition_ = IfAbsent{};
  std::unique_ptr<SettledPut> put_;
  Pending pending_;
  std::set<std::string> never_;
};

TEST(SettledPutTest, RU1_TheAnswerIsTrueWhateverTheStoreDoes) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimScheduler scheduler(seed);
    SimBucket bucket(scheduler, {.personality = {.rival_gets_conflict = seed % 3 == 1,
                                                 .lost_race_gets_error = seed % 3 == 2,
                                                 .tells_no_version = seed % 5 == 0}});
    Truth truth(bucket);
    Process first(scheduler, bucket, "first");
    Process second(scheduler, bucket, "second");
    Writer a(first, truth, "a", tally);
    Writer b(second, truth, "b", tally);
    a.Start(6);
    b.Start(6);
    ASSERT_TRUE(
        scheduler.RunUntilTrue([&] { return a.done() && b.done(); }, Duration::Minutes(30)));
    // Late writes have landed by now.
    scheduler.RunFor(Duration::Minutes(15));
    for (const Writer* writer : {&a, &b}) {
      for (const std::string& bytes : writer->never()) {
        EXPECT_FALSE(truth.applied.contains(bytes)) << bytes << " took effect after all";
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(tally.applied, 500);
  EXPECT_GT(tally.conflicts, 500);
  EXPECT_GT(tally.not_done, 200);
  EXPECT_GT(tally.maybe_done, 100);
}

TEST(SettledPutTest, TheSameBytesMaybeSentAgainAfterMaybeDone) {
  int repeated = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimScheduler scheduler(seed);
    SimBucket bucket(scheduler, {});
    Truth truth(bucket);
    Process process(scheduler, bucket, "only");
    process.store.faults().applied_late = 5'000;
    std::optional<Result<ObjectVersion>> result;
    std::unique_ptr<SettledPut> put;
    while (!result || !*result) {
      result.reset();
      put = std::make_unique<SettledPut>(
          process.deps(),
          SettledPut::Request{.put = {.key = kKey, .bytes = "ours", .condition = IfAbsent{}},
                              .deadline = process.loop.Now() + Duration::Seconds(5)},
          [&](auto answer) { result = std::move(answer); });
      put->Start();
      ASSERT_TRUE(scheduler.RunUntilTrue([&] { return result.has_value(); }, Duration::Minutes(1)));
      ASSERT_TRUE(*result || result->error().code != Code::kAborted);
      if (!*result) ++repeated;
    }
    EXPECT_EQ(truth.applied.at("ours"), **result);
  }
  EXPECT_GT(repeated, 50);
}

TEST(SettledPutTest, RU1_TheWriteIsSentOnce) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SimScheduler scheduler(seed);
    SimBucket bucket(scheduler, {});
    Process process(scheduler, bucket, "only");
    process.store.faults().delivered_twice = 0;
    bool answered = false;
    SettledPut put(process.deps(),
                   {.put = {.key = kKey, .bytes = "ours", .condition = IfAbsent{}},
                    .deadline = process.loop.Now() + Duration::Seconds(5)},
                   [&](const auto&) { answered = true; });
    put.Start();
    ASSERT_TRUE(scheduler.RunUntilTrue([&] { return answered; }, Duration::Minutes(1)));
    scheduler.RunFor(Duration::Minutes(15));
    EXPECT_EQ(bucket.Count(sim::SimMethod::kPut, "journal"), 1U) << "seed " << seed;
  }
}

TEST(SettledPutTest, NothingRunsOnceItIsGone) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SimScheduler scheduler(seed);
    SimBucket bucket(scheduler, {});
    Process process(scheduler, bucket, "only");
    bool called = false;
    auto put = std::make_unique<SettledPut>(
        process.deps(),
        SettledPut::Request{.put = {.key = kKey, .bytes = "ours", .condition = IfAbsent{}},
                            .deadline = process.loop.Now() + Duration::Minutes(5)},
        [&](const auto&) { called = true; });
    put->Start();
    for (std::uint64_t step = 0; step < seed % 5 && !called; ++step) scheduler.Step();
    const bool called_before = called;
    put.reset();
    scheduler.RunFor(Duration::Hours(1));
    EXPECT_EQ(called, called_before) << "seed " << seed;
  }
}

TEST(SettledPutTest, TheErrorNamesTheKey) {
  SimScheduler scheduler(1);
  SimBucket bucket(scheduler, {});
  bucket.SetByHand(kKey, "theirs");
  SimLoop loop(scheduler, Timestamp());
  SimObjectStore store(bucket, loop, {});
  Prng jitter(1);
  std::optional<Result<ObjectVersion>> result;
  SettledPut put({.loop = loop, .store = store, .jitter = jitter},
                 {.put = {.key = kKey, .bytes = "ours", .condition = IfAbsent{}},
                  .deadline = loop.Now() + Duration::Seconds(5)},
                 [&](auto answer) { result = std::move(answer); });
  put.Start();
  ASSERT_TRUE(scheduler.RunUntilTrue([&] { return result.has_value(); }, Duration::Minutes(1)));
  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().message,
            "put journal/a.json: another write stands (412: the condition is not met)");
}

}  // namespace
}  // namespace nstance

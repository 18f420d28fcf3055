// The worked example, tested the way every machine is: first the table, row by row and without any
// world around it; then runner and machine in simulated time against a hostile store, over seeds.
#include "test/examples/settled_put/settled_put.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/sim_loop.h"
#include "test/examples/settled_put/settled_put_runner.h"

namespace nstance::example {
namespace {

const Instant kDeadline = Instant::FromClock(Duration::Seconds(10));

SettledPut Writing() {
  SettledPut machine("mine", kDeadline);
  EXPECT_TRUE(std::holds_alternative<SettledPut::Put>(machine.Start()));
  return machine;
}

SettledPut Reading() {
  SettledPut machine = Writing();
  const auto command =
      machine.On(SettledPut::PutAnswer{Fail(Unavailable("timed out").MaybeDone())});
  EXPECT_TRUE(std::holds_alternative<SettledPut::Get>(command));
  return machine;
}

Status Finished(const SettledPut::Command& command) {
  const auto* finish = std::get_if<SettledPut::Finish>(&command);
  if (finish == nullptr) return Fail(Internal("not finished"));
  return finish->result;
}

TEST(SettledPutTest, AnAppliedWriteIsDone) {
  EXPECT_TRUE(Finished(Writing().On(SettledPut::PutAnswer{})).has_value());
}

TEST(SettledPutTest, ADefiniteErrorIsHandedOnWithoutAReadBack) {
  const auto command = Writing().On(SettledPut::PutAnswer{Fail(Aborted("exists"))});
  EXPECT_EQ(Finished(command).error().code, Code::kAborted);
}

TEST(SettledPutTest, ALostAnswerIsSettledByReadingBack) {
  EXPECT_TRUE(Finished(Reading().On(SettledPut::GetAnswer{"mine"})).has_value());
  EXPECT_EQ(Finished(Reading().On(SettledPut::GetAnswer{"other"})).error().code, Code::kAborted);
  const Status absent = Finished(Reading().On(SettledPut::GetAnswer{std::nullopt}));
  EXPECT_EQ(absent.error().code, Code::kUnavailable);
  EXPECT_EQ(absent.error().outcome, Outcome::kNotDone);
}

TEST(SettledPutTest, AFailedReadBackIsTriedAgainUntilTheDeadline) {
  SettledPut machine = Reading();
  Instant now;
  Duration last;
  for (;;) {
    const auto wait = machine.On(SettledPut::GetAnswer{Fail(Unavailable("down"))});
    const auto* length = std::get_if<SettledPut::Wait>(&wait);
    ASSERT_NE(length, nullptr);
    EXPECT_GE(length->length, last);
    last = length->length;
    now = now + last;
    const auto command = machine.On(SettledPut::Woke{}, now);
    if (std::holds_alternative<SettledPut::Get>(command)) continue;
    EXPECT_EQ(Finished(command).error().outcome, Outcome::kMaybeDone);
    EXPECT_GE(now, kDeadline);
    return;
  }
}

TEST(SettledPutDeathTest, AnAnswerThatNobodyAskedForIsOurOwnMistake) {
  EXPECT_DEATH((void)Writing().On(SettledPut::GetAnswer{std::nullopt}), "in state");
}

// Loses answers after and before the effect, fails reads, and lets a rival write first.
class HostileStore final : public ExampleStore {
 public:
  HostileStore(Loop& loop, Prng prng) : loop_(loop), prng_(prng) {}

  Pending PutIfAbsent(std::string write_id, PutDone done) override {
    if (prng_.Chance(1, 4)) content_ = content_.value_or("rival");
    const bool lost_request = prng_.Chance(1, 3);
    const bool lost_answer = lost_request || prng_.Chance(1, 3);
    const bool conflict = !lost_request && content_.has_value();
    if (!lost_request && !conflict) content_ = std::move(write_id);
    return Later([done = std::move(done), lost_answer, conflict]() mutable {
      if (lost_answer) return done(Fail(Unavailable("timed out").MaybeDone()));
      if (conflict) return done(Fail(Aborted("exists")));
      done({});
    });
  }

  Pending Get(GetDone done) override {
    const bool fails = prng_.Chance(1, 3);
    return Later([this, done = std::move(done), fails]() mutable {
      if (fails) return done(Fail(Unavailable("read failed")));
      done(content_);
    });
  }

  [[nodiscard]] const std::optional<std::string>& content() const { return content_; }

 private:
  Pending Later(Task task) {
    return loop_.CallAfter(prng_.UpTo(Duration::Seconds(2)), std::move(task));
  }

  Loop& loop_;
  Prng prng_;
  std::optional<std::string> content_;
};

TEST(SettledPutRunnerTest, TheAnswerIsTrueWhateverTheStoreDoes) {
  int applied = 0;
  int conflicts = 0;
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    sim::SimScheduler scheduler(seed);
    sim::SimLoop loop(scheduler, Timestamp());
    HostileStore store(loop, scheduler.prng().Fork());
    std::optional<Status> result;
    SettledPutRunner runner({.loop = loop, .store = store},
                            SettledPut("mine", loop.Now() + Duration::Minutes(5)),
                            [&](Status status) { result = std::move(status); });
    runner.Start();
    ASSERT_TRUE(scheduler.RunUntilTrue([&] { return result.has_value(); }, Duration::Minutes(6)))
        << "seed " << seed;
    const bool ours = store.content() == "mine";
    if (result->has_value()) {
      EXPECT_TRUE(ours) << "seed " << seed;
      ++applied;
    } else if (result->error().code == Code::kAborted) {
      EXPECT_FALSE(ours) << "seed " << seed;
      ++conflicts;
    } else {
      EXPECT_FALSE(ours) << "seed " << seed;
      ++lost;
    }
  }
  EXPECT_GT(applied, 100);
  EXPECT_GT(conflicts, 100);
  EXPECT_GT(lost, 100);
}

TEST(SettledPutRunnerTest, NothingRunsOnceTheRunnerIsGone) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    sim::SimScheduler scheduler(seed);
    sim::SimLoop loop(scheduler, Timestamp());
    HostileStore store(loop, scheduler.prng().Fork());
    bool called = false;
    auto runner =
        std::make_unique<SettledPutRunner>(SettledPutRunner::Deps{.loop = loop, .store = store},
                                           SettledPut("mine", loop.Now() + Duration::Minutes(5)),
                                           [&](const Status&) { called = true; });
    runner->Start();
    for (std::uint64_t step = 0; step < seed % 3 && !called; ++step) scheduler.Step();
    const bool called_before = called;
    runner.reset();
    scheduler.RunFor(Duration::Hours(1));
    EXPECT_EQ(called, called_before) << "seed " << seed;
  }
}

}  // namespace
}  // namespace nstance::example

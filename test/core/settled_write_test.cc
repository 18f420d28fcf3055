// The machine of core/settled_write.h, row by row and without any world around it. Tests that begin
// with Row are named after the situations in which stores answer conditional writes differently.
#include "core/settled_write.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace nstance {
namespace {

const Instant kNow = Instant::FromClock(Duration::Seconds(100));
const Instant kDeadline = kNow + Duration::Seconds(10);
const ObjectVersion kOld{"v1"};
const ObjectVersion kOurs{"v2"};
const ObjectVersion kTheirs{"v3"};

using Machine = SettledWrite;

Machine Writing(PutCondition condition) {
  Machine machine({.bytes = "ours", .condition = std::move(condition), .deadline = kDeadline});
  EXPECT_TRUE(std::holds_alternative<Machine::Put>(machine.Start()));
  return machine;
}

// The machine after the put was answered like this, and asked for a read.
Machine Reading(PutCondition condition, Result<ObjectVersion> answer) {
  Machine machine = Writing(std::move(condition));
  EXPECT_TRUE(std::holds_alternative<Machine::Get>(machine.On(Machine::PutAnswer{answer})));
  return machine;
}

Result<ObjectVersion> Refused() { return Fail(Aborted("412")); }
Result<ObjectVersion> Lost() { return Fail(Unavailable("timed out").MaybeDone()); }

Result<ObjectVersion> Finished(const Machine::Command& command) {
  const auto* finish = std::get_if<Machine::Finish>(&command);
  if (finish == nullptr) return Fail(Internal("not finished"));
  return finish->result;
}

Result<ObjectVersion> After(Machine machine, Result<Machine::Content> found) {
  Prng jitter(1);
  return Finished(machine.On(Machine::GetAnswer{std::move(found)}, kNow, jitter));
}

Result<Machine::Content> Absent() { return Fail(NotFound("no object")); }
Result<Machine::Content> There(std::string bytes, ObjectVersion version) {
  return Machine::Content{.bytes = std::move(bytes), .version = std::move(version)};
}

void ExpectError(const Result<ObjectVersion>& result, Code code, Outcome outcome) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << result.error().ToString();
  EXPECT_EQ(result.error().outcome, outcome) << result.error().ToString();
}

TEST(SettledWriteTest, AnAppliedWriteIsDoneWithoutARead) {
  const auto result = Finished(Writing(IfAbsent{}).On(Machine::PutAnswer{kOurs}));
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, kOurs);
}

TEST(SettledWriteTest, RowRateLimitedIsNotDoneAndHandedOn) {
  const auto result =
      Finished(Writing(IfAbsent{}).On(Machine::PutAnswer{Fail(Unavailable("503 SlowDown"))}));
  ExpectError(result, Code::kUnavailable, Outcome::kNotDone);
}

TEST(SettledWriteTest, AnErrorThatIsNoneOfTheFourIsHandedOn) {
  const auto result =
      Finished(Writing(IfAbsent{}).On(Machine::PutAnswer{Fail(InvalidArgument("too large"))}));
  ExpectError(result, Code::kInvalidArgument, Outcome::kNotDone);
}

TEST(SettledWriteTest, RowCreateOfAnExistingKeyIsAConflict) {
  ExpectError(After(Reading(IfAbsent{}, Refused()), There("theirs", kTheirs)), Code::kAborted,
              Outcome::kNotDone);
}

TEST(SettledWriteTest, RowCreateWithARivalInFlightThatCameToNothingMayBeSentAgain) {
  ExpectError(After(Reading(IfAbsent{}, Refused()), Absent()), Code::kUnavailable,
              Outcome::kNotDone);
}

TEST(SettledWriteTest, RowUpdateOfADifferentVersionIsAConflict) {
  ExpectError(After(Reading(IfVersion{kOld}, Refused()), There("theirs", kTheirs)), Code::kAborted,
              Outcome::kNotDone);
}

TEST(SettledWriteTest, RowUpdateOfAMissingKeyIsAConflict) {
  ExpectError(After(Reading(IfVersion{kOld}, Refused()), Absent()), Code::kAborted,
              Outcome::kNotDone);
}

TEST(SettledWriteTest, RowUpdateRefusedAlthoughItsVersionStandsMayBeSentAgain) {
  ExpectError(After(Reading(IfVersion{kOld}, Refused()), There("old", kOld)), Code::kUnavailable,
              Outcome::kNotDone);
}

TEST(SettledWriteTest, RowLostRaceInsideTheStoreIsSettledByWhoeverIsThere) {
  ExpectError(After(Reading(IfVersion{kOld}, Lost()), There("theirs", kTheirs)), Code::kAborted,
              Outcome::kNotDone);
  ExpectError(After(Reading(IfAbsent{}, Lost()), There("theirs", kTheirs)), Code::kAborted,
              Outcome::kNotDone);
}

TEST(SettledWriteTest, RowRefusalOfOurOwnEarlierWriteIsSuccess) {
  for (const PutCondition& condition : {PutCondition(IfAbsent{}), PutCondition(IfVersion{kOld})}) {
    const auto result = After(Reading(condition, Refused()), There("ours", kOurs));
    ASSERT_TRUE(result);
    EXPECT_EQ(*result, kOurs);
  }
}

TEST(SettledWriteTest, RowTimedOutButAppliedIsSuccess) {
  for (const PutCondition& condition : {PutCondition(IfAbsent{}), PutCondition(IfVersion{kOld})}) {
    const auto result = After(Reading(condition, Lost()), There("ours", kOurs));
    ASSERT_TRUE(result);
    EXPECT_EQ(*result, kOurs);
  }
}

TEST(SettledWriteTest, RowTimedOutAndNotThereYetMayStillLand) {
  ExpectError(After(Reading(IfAbsent{}, Lost()), Absent()), Code::kUnavailable,
              Outcome::kMaybeDone);
  ExpectError(After(Reading(IfVersion{kOld}, Lost()), There("old", kOld)), Code::kUnavailable,
              Outcome::kMaybeDone);
}

TEST(SettledWriteTest, RowTimedOutAndTheKeyIsGoneIsAConflict) {
  ExpectError(After(Reading(IfVersion{kOld}, Lost()), Absent()), Code::kAborted, Outcome::kNotDone);
}

TEST(SettledWriteTest, RowAppliedWithoutAVersionIsReadToLearnIt) {
  const auto result = After(Reading(IfAbsent{}, ObjectVersion{}), There("ours", kOurs));
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, kOurs);
  ExpectError(After(Reading(IfAbsent{}, ObjectVersion{}), There("theirs", kTheirs)), Code::kAborted,
              Outcome::kNotDone);
  // A read that is older than the write.
  ExpectError(After(Reading(IfVersion{kOld}, ObjectVersion{}), There("old", kOld)),
              Code::kUnavailable, Outcome::kMaybeDone);
}

TEST(SettledWriteTest, TheOutcomeCountsAndNotTheCode) {
  for (const Code code : {Code::kDeadlineExceeded, Code::kInternal, Code::kAborted}) {
    Error error = Error{.code = code, .outcome = Outcome::kMaybeDone, .message = "lost"};
    ExpectError(After(Reading(IfAbsent{}, Fail(std::move(error))), Absent()), Code::kUnavailable,
                Outcome::kMaybeDone);
  }
}

TEST(SettledWriteTest, AFailedReadIsTriedAgainWithJitterUntilTheDeadline) {
  Machine machine = Reading(IfAbsent{}, Lost());
  Prng jitter(3);
  Instant now = kNow;
  int reads = 0;
  for (;;) {
    const auto command = machine.On(Machine::GetAnswer{Fail(Unavailable("down"))}, now, jitter);
    ++reads;
    const auto* wait = std::get_if<Machine::Wait>(&command);
    if (wait == nullptr) {
      ExpectError(Finished(command), Code::kUnavailable, Outcome::kMaybeDone);
      break;
    }
    EXPECT_GE(wait->length, Duration::Milliseconds(1));
    EXPECT_LE(wait->length, Duration::Milliseconds(2'500));
    now = now + wait->length;
    EXPECT_TRUE(std::holds_alternative<Machine::Get>(machine.On(Machine::Woke{})));
  }
  EXPECT_EQ(now, kDeadline);
  EXPECT_GE(reads, 8);
  EXPECT_LE(reads, 12);
}

TEST(SettledWriteTest, AReadThatSucceedsAtLastSettlesTheWrite) {
  Machine machine = Reading(IfAbsent{}, Refused());
  Prng jitter(3);
  EXPECT_TRUE(std::holds_alternative<Machine::Wait>(
      machine.On(Machine::GetAnswer{Fail(Unavailable("down"))}, kNow, jitter)));
  EXPECT_TRUE(std::holds_alternative<Machine::Get>(machine.On(Machine::Woke{})));
  EXPECT_TRUE(Finished(machine.On(Machine::GetAnswer{There("ours", kOurs)}, kNow, jitter)));
}

TEST(SettledWriteTest, OneReadIsTriedAlsoWhenTheDeadlineHasPassed) {
  Prng jitter(3);
  const Instant late = kDeadline + Duration::Seconds(1);
  Machine machine = Reading(IfAbsent{}, Lost());
  EXPECT_TRUE(Finished(machine.On(Machine::GetAnswer{There("ours", kOurs)}, late, jitter)));
  Machine failing = Reading(IfAbsent{}, Refused());
  ExpectError(Finished(failing.On(Machine::GetAnswer{Fail(Unavailable("down"))}, late, jitter)),
              Code::kUnavailable, Outcome::kMaybeDone);
}

TEST(SettledWriteDeathTest, AnAnswerThatNobodyAskedForIsOurOwnMistake) {
  Prng jitter(3);
  EXPECT_DEATH((void)Writing(IfAbsent{}).On(Machine::GetAnswer{Absent()}, kNow, jitter),
               "in state");
  EXPECT_DEATH((void)Reading(IfAbsent{}, Lost()).On(Machine::Woke{}), "in state");
  EXPECT_DEATH((void)Reading(IfAbsent{}, Lost()).On(Machine::PutAnswer{kOurs}), "in state");
}

}  // namespace
}  // namespace nstance

// The lease machine without any world around it. A small driver plays store and clock: each test
// puts the machine into a state by events, gives it one more, and looks at the step that comes
// back.
#include "core/lease_machine.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance {
namespace {

constexpr Duration kSecond = Duration::Seconds(1);

Duration Ms(std::int64_t n) { return Duration::Milliseconds(n); }

// Keeps the last step and counts versions; chance is zero unless a test asks for some.
class Driver {
 public:
  std::string boot_id = "first";  // Before the constructor draws on it.

  explicit Driver(BucketAge bucket = BucketAge::kUsed)
      : machine({.leader_id = "s1", .leader_addr = "a:1", .timings = {}, .bucket = bucket}) {
    Keep(machine.Start(In()));
  }

  LeaseMachine::Input In() {
    LeaseMachine::Input in{.now = now, .wall_now = {}, .entropy = {}, .boot_id = boot_id};
    ++draws;
    in.entropy[0] = static_cast<std::uint8_t>(draws);
    in.entropy[1] = static_cast<std::uint8_t>(draws >> 8U);
    in.entropy[16] = static_cast<std::uint8_t>(draws);
    in.entropy[24] = jitter;
    return in;
  }
  void Keep(LeaseStep next) {
    step = std::move(next);
    if (auto* write = std::get_if<LeaseStep::Write>(&step.call)) {
      written = *write;
      written_at = now;
    }
    if (step.alarm) alarm = step.alarm;
  }

  void Read(LeaseMachine::ReadAnswer answer) { Keep(machine.OnRead(answer, In())); }
  void ReadMissing() { Read(std::nullopt); }
  void ReadError() { Read(Fail(Unavailable("down"))); }
  void ReadRecord(const LeaseRecord& record, std::string version) {
    Read(LeaseMachine::Found{.bytes = EncodeLease(record), .version = std::move(version)});
  }
  // What was last written stands in the store.
  void ReadOurs(std::string version) {
    Read(LeaseMachine::Found{.bytes = written.bytes, .version = std::move(version)});
  }
  void Applied(std::string version) { Keep(machine.OnWrite(std::move(version), In())); }
  void WriteFails(Error error) { Keep(machine.OnWrite(Fail(std::move(error)), In())); }
  void Lost() { WriteFails(Unavailable("timed out").MaybeDone()); }
  void Conflict() { WriteFails(Aborted("412")); }

  // To the moment that the machine asked to be woken at.
  void Wake() {
    ASSERT_NE(step.wake_at, Instant::Never());
    now = std::max(now, step.wake_at);
    Keep(machine.OnTime(In()));
  }
  void At(Duration since_zero) {
    now = Instant::FromClock(since_zero);
    Keep(machine.OnTime(In()));
  }

  [[nodiscard]] bool reads() const { return std::holds_alternative<LeaseStep::Read>(step.call); }
  [[nodiscard]] bool writes() const { return std::holds_alternative<LeaseStep::Write>(step.call); }
  [[nodiscard]] bool acquired() const {
    return std::holds_alternative<LeaseStep::Acquired>(step.news);
  }
  [[nodiscard]] std::optional<LeaseLoss> lost() const {
    const auto* news = std::get_if<LeaseStep::Lost>(&step.news);
    return news == nullptr ? std::nullopt : std::optional(news->loss);
  }
  [[nodiscard]] bool stopped() const {
    return std::holds_alternative<LeaseStep::Stopped>(step.news);
  }
  [[nodiscard]] LeaseRecord last() const { return DecodeLease(written.bytes).record; }

  Instant now = Instant::FromClock(Duration::Seconds(100));
  LeaseMachine machine;
  LeaseStep step;
  LeaseStep::Write written;
  Instant written_at;
  std::optional<LeaseAlarm> alarm;
  std::uint64_t draws = 0;
  std::uint8_t jitter = 0;
};

LeaseRecord Others() {
  return {.leader_id = "s2",
          .leader_addr = "b:1",
          .last_updated = {},
          .incarnation = "ffffffffffffffff",
          .term = 4,
          .lease = Duration::Seconds(8),
          .released = false,
          .write_id = "other",
          .unknown = {}};
}

Driver Holding() {
  Driver driver(BucketAge::kNew);
  driver.ReadMissing();
  driver.Applied("v1");
  EXPECT_TRUE(driver.acquired());
  driver.machine.TakenOver();
  return driver;
}

// Polls with the same answer until the machine writes; returns how long that took.
Duration UntilWrite(Driver& driver, const LeaseMachine::ReadAnswer& answer) {
  const Instant begin = driver.now;
  for (int i = 0; i < 1'000 && !driver.writes(); ++i) {
    if (driver.reads()) {
      driver.Read(answer);
    } else {
      driver.Wake();
    }
  }
  EXPECT_TRUE(driver.writes());
  return driver.now - begin;
}

LeaseMachine::ReadAnswer Found(const LeaseRecord& record) {
  return LeaseMachine::Found{.bytes = EncodeLease(record), .version = "other-1"};
}

TEST(LeaseMachineTest, AFollowerPollsEveryRenewIntervalAndOnceMoreWhenTheLeaseRunsOut) {
  Driver driver;
  EXPECT_TRUE(driver.reads());
  int polls = 1;
  driver.Read(Found(Others()));
  while (!driver.writes()) {
    driver.Wake();
    ++polls;
    driver.Read(Found(Others()));
  }
  EXPECT_EQ(driver.now - Instant::FromClock(Duration::Seconds(100)), Duration::Seconds(8));
  EXPECT_EQ(polls, 5);  // At 0, 2, 4, 6 and 8 s.
}

TEST(LeaseMachineTest, UnchangedBytesAreTimedForTheLongerOfBothLeases) {
  for (const std::int64_t theirs : {1, 8, 20}) {
    Driver driver;
    LeaseRecord record = Others();
    record.lease = Duration::Seconds(theirs);
    EXPECT_EQ(UntilWrite(driver, Found(record)),
              Duration::Seconds(std::max<std::int64_t>(8, theirs)));
    EXPECT_EQ(driver.written.expected_version, "other-1");
    EXPECT_EQ(driver.last().term, 5);
    EXPECT_EQ(driver.last().leader_id, "s1");
  }
}

TEST(LeaseMachineTest, ChangedBytesStartTheTimeAgain) {
  Driver driver;
  driver.ReadRecord(Others(), "a");
  driver.At(Duration::Seconds(107));
  driver.ReadRecord(Others(), "b");
  EXPECT_FALSE(driver.writes());
  EXPECT_EQ(UntilWrite(driver, LeaseMachine::Found{.bytes = EncodeLease(Others()), .version = "b"}),
            Duration::Seconds(8));
}

TEST(LeaseMachineTest, TheTimeCountsFromTheAnswerNotFromTheQuestion) {
  Driver driver;
  driver.now = driver.now + Duration::Seconds(3);
  driver.Read(Found(Others()));
  EXPECT_EQ(UntilWrite(driver, Found(Others())), Duration::Seconds(8));
}

TEST(LeaseMachineTest, AReleasedLeaseIsTakenAtOnce) {
  Driver driver;
  LeaseRecord record = Others();
  record.released = true;
  driver.ReadRecord(record, "a");
  EXPECT_TRUE(driver.writes());
}

TEST(LeaseMachineTest, EveryAcquisitionWaitsUpToHalfARenewIntervalByChance) {
  Duration longest;
  for (int jitter = 0; jitter < 256; ++jitter) {
    Driver driver;
    driver.jitter = static_cast<std::uint8_t>(jitter);
    LeaseRecord record = Others();
    record.released = true;
    const Duration waited = UntilWrite(driver, Found(record));
    EXPECT_LE(waited, kSecond);
    longest = std::max(longest, waited);
  }
  EXPECT_GT(longest, Ms(900));
}

TEST(LeaseMachineTest, AMissingCorruptOrForeignRecordIsExpiredAfterOneLease) {
  const std::vector<std::pair<LeaseMachine::ReadAnswer, std::optional<LeaseAlarm>>> rows = {
      {std::nullopt, std::nullopt},
      {LeaseMachine::Found{.bytes = "", .version = "x"}, LeaseAlarm::kCorrupt},
      {LeaseMachine::Found{.bytes = "rubbish", .version = "x"}, LeaseAlarm::kCorrupt},
      {LeaseMachine::Found{
           .bytes = R"({"leaderID":"g","leaderAddr":"","lastUpdated":"2026-01-01T00:00:00Z"})",
           .version = "x"},
       LeaseAlarm::kForeign},
  };
  for (const auto& [answer, alarm] : rows) {
    Driver driver;
    EXPECT_EQ(UntilWrite(driver, answer), Duration::Seconds(8));
    EXPECT_EQ(driver.alarm, alarm);
    EXPECT_EQ(driver.written.expected_version,
              answer->has_value() ? std::optional<std::string>("x") : std::nullopt);
  }
}

TEST(LeaseMachineTest, AMissingOrCorruptRecordMustBeWatchedWithoutAGap) {
  const std::vector<LeaseMachine::ReadAnswer> rows = {
      std::nullopt, LeaseMachine::Found{.bytes = "", .version = "x"}};
  for (const LeaseMachine::ReadAnswer& answer : rows) {
    Driver driver;
    driver.Read(answer);
    while (driver.now < Instant::FromClock(Duration::Seconds(110))) {
      driver.Wake();
      if (driver.reads()) driver.ReadError();
    }
    // Somebody may have led meanwhile.
    driver.Wake();
    driver.Read(answer);
    EXPECT_EQ(UntilWrite(driver, answer), Duration::Seconds(8));
  }
}

TEST(LeaseMachineTest, AHeldRecordCannotComeBackSoAGapDoesNotMatter) {
  Driver driver;
  driver.Read(Found(Others()));
  while (driver.now < Instant::FromClock(Duration::Seconds(110))) {
    driver.Wake();
    if (driver.reads()) driver.ReadError();
  }
  driver.Wake();
  driver.Read(Found(Others()));
  EXPECT_TRUE(driver.writes());
}

TEST(LeaseMachineTest, AnAcquisitionOfOursThatLandsAfterAllIsWaitedForLikeAnothers) {
  Driver driver(BucketAge::kNew);
  driver.ReadMissing();
  const std::string late = driver.written.bytes;
  driver.Lost();
  driver.Read(Found(Others()));
  driver.now = driver.now + Duration::Seconds(7);
  driver.Wake();
  const LeaseMachine::ReadAnswer landed = LeaseMachine::Found{.bytes = late, .version = "late"};
  driver.Read(landed);
  EXPECT_FALSE(driver.acquired());
  EXPECT_GE(UntilWrite(driver, landed), Duration::Seconds(8));
}

TEST(LeaseMachineTest, AnEarlierAcquisitionOfOursThatLandsAfterAllIsWaitedForLikeAnothers) {
  Driver driver(BucketAge::kNew);
  driver.ReadMissing();
  const std::string late = driver.written.bytes;
  driver.Lost();
  EXPECT_LT(UntilWrite(driver, std::nullopt), kSecond);
  driver.Conflict();
  // Another leads; its record is deleted by hand, and then our first creation lands.
  driver.Read(Found(Others()));
  driver.Wake();
  const LeaseMachine::ReadAnswer landed = LeaseMachine::Found{.bytes = late, .version = "late"};
  driver.Read(landed);
  EXPECT_FALSE(driver.acquired());
  EXPECT_GE(UntilWrite(driver, landed), Duration::Seconds(8));
}

TEST(LeaseMachineTest, NoTwoCreationsHaveOneTerm) {
  Driver driver(BucketAge::kNew);
  driver.ReadMissing();
  const LeaseMachine::ReadAnswer late =
      LeaseMachine::Found{.bytes = driver.written.bytes, .version = "late"};
  driver.Lost();
  EXPECT_LT(UntilWrite(driver, std::nullopt), kSecond);
  EXPECT_EQ(driver.last().term, 2);
  driver.Applied("v1");
  ASSERT_TRUE(driver.acquired());
  // We lose it; what then lands is not the leadership that we had.
  driver.At(driver.machine.deadline().since_zero());
  if (!driver.lost()) driver.WriteFails(Unavailable("503"));
  EXPECT_GE(UntilWrite(driver, late), Duration::Seconds(8));
}

TEST(LeaseMachineTest, ARecordThatGoesMissingRaisesAnAlarm) {
  Driver driver;
  driver.ReadRecord(Others(), "a");
  driver.Wake();
  driver.ReadMissing();
  EXPECT_EQ(driver.alarm, LeaseAlarm::kMissing);
}

TEST(LeaseMachineTest, ANewBucketIsTakenAtOnceButOnlyUntilALeaseWasSeen) {
  Driver fresh(BucketAge::kNew);
  fresh.ReadMissing();
  EXPECT_TRUE(fresh.writes());
  EXPECT_EQ(fresh.written.expected_version, std::nullopt);
  EXPECT_EQ(fresh.last().term, 1);

  Driver seen(BucketAge::kNew);
  seen.ReadRecord(Others(), "a");
  seen.Wake();
  EXPECT_EQ(UntilWrite(seen, std::nullopt), Duration::Seconds(8));
}

TEST(LeaseMachineTest, ANewBucketIsNoLongerBelievedAfterAGapOfMoreThanALease) {
  Driver driver(BucketAge::kNew);
  driver.ReadMissing();
  driver.Lost();
  // Nothing is heard for a while, in which our creation lands, another leads, and its record is
  // deleted by hand.
  driver.now = driver.now + Duration::Seconds(20);
  driver.ReadMissing();
  EXPECT_FALSE(driver.writes());
  EXPECT_GE(UntilWrite(driver, std::nullopt), Duration::Seconds(8));
}

TEST(LeaseMachineTest, AnotherProcessWithOurIdIsARival) {
  Driver driver;
  LeaseRecord record = Others();
  record.leader_id = "s1";
  EXPECT_EQ(UntilWrite(driver, Found(record)), Duration::Seconds(8));
}

TEST(LeaseMachineTest, TheDeadlineCountsFromBeforeTheWriteWasSent) {
  Driver driver(BucketAge::kNew);
  driver.ReadMissing();
  driver.now = driver.now + kSecond;
  driver.Applied("v1");
  EXPECT_TRUE(driver.acquired());
  EXPECT_EQ(driver.machine.deadline(), driver.written_at + Duration::Seconds(6));
  EXPECT_TRUE(driver.machine.Leads(driver.written_at + Ms(5'999)));
  EXPECT_FALSE(driver.machine.Leads(driver.written_at + Ms(6'000)));
  EXPECT_FALSE(driver.machine.MayStart(driver.written_at + Ms(3'000), Duration::Seconds(3)));
  EXPECT_TRUE(driver.machine.MayStart(driver.written_at + Ms(2'999), Duration::Seconds(3)));
}

TEST(LeaseMachineTest, AHolderRenewsEveryInterval) {
  Driver driver = Holding();
  for (int i = 0; i < 100; ++i) {
    const Instant before = driver.written_at;
    driver.Wake();
    ASSERT_TRUE(driver.writes());
    EXPECT_EQ(driver.written_at - before, Duration::Seconds(2));
    driver.now = driver.now + Ms(300);
    driver.Applied("v" + std::to_string(i));
    EXPECT_EQ(driver.machine.deadline(), driver.written_at + Duration::Seconds(6));
    EXPECT_EQ(driver.last().term, 1);
  }
}

TEST(LeaseMachineTest, AnUnconfirmedRenewalMovesNothingAndTheHolderStepsDownAtTheDeadline) {
  Driver driver = Holding();
  const Instant deadline = driver.machine.deadline();
  driver.Wake();
  driver.now = driver.now + Duration::Seconds(3);
  driver.Lost();
  EXPECT_TRUE(driver.reads());
  driver.ReadError();
  EXPECT_FALSE(driver.writes());
  EXPECT_EQ(driver.machine.deadline(), deadline);
  while (!driver.lost()) {
    if (driver.reads()) {
      driver.ReadError();
    } else {
      driver.Wake();
    }
  }
  EXPECT_EQ(driver.lost(), LeaseLoss::kDeadline);
  EXPECT_EQ(driver.now, deadline);
}

TEST(LeaseMachineTest, AnAnswerAfterTheDeadlineComesTooLate) {
  Driver driver = Holding();
  driver.Wake();
  driver.now = driver.machine.deadline();
  driver.Applied("v2");
  EXPECT_EQ(driver.lost(), LeaseLoss::kDeadline);
  EXPECT_TRUE(driver.reads());
  EXPECT_FALSE(driver.machine.holding());
}

TEST(LeaseMachineTest, AnAmbiguousRenewalIsSettledByReadingBack) {
  for (const bool conflict : {false, true}) {
    Driver driver = Holding();
    driver.Wake();
    driver.now = driver.now + kSecond;
    if (conflict) {
      driver.Conflict();
    } else {
      driver.Lost();
    }
    ASSERT_TRUE(driver.reads());
    driver.ReadOurs("v2");
    EXPECT_EQ(driver.machine.deadline(), driver.written_at + Duration::Seconds(6));
    driver.Wake();
    EXPECT_EQ(driver.written.expected_version, "v2");
  }
}

TEST(LeaseMachineTest, AnEarlierWriteOfOursMeansThatWeStillHoldButMovesNothing) {
  Driver driver = Holding();
  const LeaseStep::Write first = driver.written;
  const Instant deadline = driver.machine.deadline();
  driver.Wake();
  driver.Lost();
  driver.Read(LeaseMachine::Found{.bytes = first.bytes, .version = "v1"});
  EXPECT_FALSE(driver.lost());
  EXPECT_EQ(driver.machine.deadline(), deadline);
  driver.Wake();
  ASSERT_TRUE(driver.writes());
  EXPECT_EQ(driver.written.expected_version, "v1");
}

TEST(LeaseMachineTest, AnotherHoldersRecordEndsLeadership) {
  LeaseRecord same_id = Others();
  same_id.leader_id = "s1";
  const std::vector<std::pair<LeaseMachine::ReadAnswer, LeaseLoss>> rows = {
      {Found(Others()), LeaseLoss::kTaken},
      {Found(same_id), LeaseLoss::kTaken},
      {std::nullopt, LeaseLoss::kVanished},
      {LeaseMachine::Found{.bytes = "x", .version = "x"}, LeaseLoss::kCorrupted},
  };
  for (const auto& [answer, loss] : rows) {
    Driver driver = Holding();
    driver.Wake();
    driver.Conflict();
    driver.Read(answer);
    EXPECT_EQ(driver.lost(), loss);
    EXPECT_FALSE(driver.machine.Leads(driver.now));
  }
}

TEST(LeaseMachineTest, ARenewalThatWasSurelyNotDoneIsSentAgainWithoutARead) {
  Driver driver = Holding();
  driver.Wake();
  driver.WriteFails(Unavailable("503"));
  EXPECT_FALSE(driver.reads());
  driver.Wake();
  EXPECT_TRUE(driver.writes());
  EXPECT_EQ(driver.now - driver.written_at, Duration());
}

TEST(LeaseMachineTest, AnAmbiguousAcquisitionIsSettledByReadingBack) {
  Driver driver(BucketAge::kNew);
  driver.ReadMissing();
  const Instant sent = driver.now;
  driver.now = driver.now + Duration::Seconds(3);
  driver.Lost();
  ASSERT_TRUE(driver.reads());
  driver.ReadOurs("v1");
  EXPECT_TRUE(driver.acquired());
  EXPECT_EQ(driver.machine.deadline(), sent + Duration::Seconds(6));
}

TEST(LeaseMachineTest, ALostRaceMakesAFollower) {
  Driver driver(BucketAge::kNew);
  driver.ReadMissing();
  driver.Conflict();
  driver.Read(Found(Others()));
  EXPECT_FALSE(driver.writes());
  EXPECT_EQ(UntilWrite(driver, Found(Others())), Duration::Seconds(8));
}

TEST(LeaseMachineTest, ALeaseAcquiredTooLateIsNotUsedAndLeftToOthersForAWhile) {
  Driver driver(BucketAge::kNew);
  driver.ReadMissing();
  driver.now = driver.now + Duration::Seconds(6);
  driver.Applied("v1");
  EXPECT_FALSE(driver.acquired());
  ASSERT_TRUE(driver.reads());
  EXPECT_GE(UntilWrite(driver, LeaseMachine::Found{.bytes = driver.written.bytes, .version = "v1"}),
            Duration::Seconds(10));
}

TEST(LeaseMachineTest, AfterOneMissedDeadlineOurOwnRecordIsTakenUpAtOnceAfterTwoNot) {
  Driver driver = Holding();
  const auto lose = [&] {
    driver.At(driver.machine.deadline().since_zero());
    if (!driver.lost()) driver.WriteFails(Unavailable("503"));
    for (int i = 0; i < 10 && !driver.reads(); ++i) driver.Wake();
  };
  lose();
  ASSERT_TRUE(driver.reads());
  const LeaseMachine::ReadAnswer ours =
      LeaseMachine::Found{.bytes = driver.written.bytes, .version = "v1"};
  driver.Read(ours);
  ASSERT_TRUE(driver.writes());
  EXPECT_EQ(driver.last().term, 2);  // A new leadership, a new term.
  driver.Applied("v2");
  ASSERT_TRUE(driver.acquired());
  driver.machine.TakenOver();
  lose();
  EXPECT_GE(UntilWrite(driver, LeaseMachine::Found{.bytes = driver.written.bytes, .version = "v2"}),
            Duration::Seconds(10));
}

TEST(LeaseMachineTest, AFailedTakeOverReleasesAndWaitsLongerEachTime) {
  Driver driver(BucketAge::kNew);
  driver.ReadMissing();
  Duration last;
  for (int round = 0; round < 6; ++round) {
    driver.Applied("v" + std::to_string(round));
    ASSERT_TRUE(driver.acquired()) << round;
    // Renewal goes on for the whole minute.
    const Instant acquired = driver.now;
    while (!driver.lost()) {
      driver.Wake();
      if (driver.writes() && !driver.lost()) driver.Applied("r" + std::to_string(driver.draws));
    }
    EXPECT_EQ(driver.lost(), LeaseLoss::kTakeOverFailed);
    EXPECT_EQ(driver.now - acquired, Duration::Minutes(1));
    ASSERT_TRUE(driver.writes());
    EXPECT_TRUE(driver.last().released);
    driver.Applied("released");
    ASSERT_TRUE(driver.reads());
    const Duration waited = UntilWrite(
        driver, LeaseMachine::Found{.bytes = driver.written.bytes, .version = "released"});
    EXPECT_GE(waited, Duration::Seconds(10));
    EXPECT_LE(waited, Duration::Seconds(160));
    EXPECT_GE(waited, last);
    last = waited;
  }
  EXPECT_GE(last, Duration::Seconds(80));
}

TEST(LeaseMachineTest, ALeadershipThatLastsClearsTheCount) {
  Driver driver = Holding();
  driver.Keep(driver.machine.StepDown(driver.In()));
  driver.Applied("released");
  UntilWrite(driver, LeaseMachine::Found{.bytes = driver.written.bytes, .version = "released"});
  driver.Applied("v3");
  driver.machine.TakenOver();
  for (int i = 0; i < 20; ++i) {
    driver.Wake();
    driver.Applied("r" + std::to_string(i));
  }
  driver.Keep(driver.machine.StepDown(driver.In()));
  driver.Applied("released-2");
  EXPECT_LE(UntilWrite(driver,
                       LeaseMachine::Found{.bytes = driver.written.bytes, .version = "released-2"}),
            Duration::Seconds(20));
}

TEST(LeaseMachineTest, StoppingReleasesByCompareAndSwap) {
  Driver driver = Holding();
  driver.Keep(driver.machine.Stop(driver.now + Duration::Seconds(5), driver.In()));
  ASSERT_TRUE(driver.writes());
  EXPECT_EQ(driver.written.expected_version, "v1");
  EXPECT_TRUE(driver.last().released);
  EXPECT_EQ(driver.last().last_updated, Timestamp::GoZero());
  EXPECT_FALSE(driver.machine.Leads(driver.now));
  driver.Applied("v2");
  EXPECT_TRUE(driver.stopped());
}

TEST(LeaseMachineTest, StoppingDuringARenewalWaitsForItsAnswer) {
  Driver driver = Holding();
  driver.Wake();
  driver.Keep(driver.machine.Stop(driver.now + Duration::Seconds(5), driver.In()));
  EXPECT_FALSE(driver.writes());
  driver.Applied("v2");
  ASSERT_TRUE(driver.writes());
  EXPECT_EQ(driver.written.expected_version, "v2");
  EXPECT_TRUE(driver.last().released);
}

TEST(LeaseMachineTest, AnAmbiguousReleaseIsReadBackAndRepeated) {
  Driver driver = Holding();
  const std::string held = driver.written.bytes;
  driver.Keep(driver.machine.Stop(driver.now + Duration::Seconds(5), driver.In()));
  driver.Lost();
  ASSERT_TRUE(driver.reads());
  driver.Read(LeaseMachine::Found{.bytes = held, .version = "v1"});
  driver.Wake();
  ASSERT_TRUE(driver.writes());
  driver.Conflict();
  driver.ReadOurs("v2");
  EXPECT_TRUE(driver.stopped());
}

TEST(LeaseMachineTest, ARecordThatVanishedWhileItWasOursIsWrittenAsReleased) {
  Driver driver = Holding();
  driver.Keep(driver.machine.Stop(driver.now + Duration::Seconds(5), driver.In()));
  driver.Conflict();
  driver.ReadMissing();
  driver.Wake();
  ASSERT_TRUE(driver.writes());
  EXPECT_EQ(driver.written.expected_version, std::nullopt);
  EXPECT_TRUE(driver.last().released);
  driver.Applied("v2");
  EXPECT_TRUE(driver.stopped());
}

TEST(LeaseMachineTest, WhatVanishedAfterOurLeaseRanOutIsNotOursToRelease) {
  Driver driver = Holding();
  driver.Keep(driver.machine.Stop(driver.now + Duration::Minutes(1), driver.In()));
  driver.now = driver.machine.deadline();
  driver.Conflict();
  driver.ReadMissing();
  EXPECT_TRUE(driver.stopped());
}

TEST(LeaseMachineTest, ARestoredMemoryThatStopsReleasesTheTermThatStands) {
  // Saved before it had ever tried; it acquired later, in the life that was thrown away.
  Driver driver;
  driver.Read(Found(Others()));
  LeaseRecord ours = Others();
  ours.leader_id = "s1";
  ours.incarnation = driver.machine.incarnation();
  driver.Wake();
  driver.ReadRecord(ours, "v9");
  driver.Keep(driver.machine.Stop(driver.now + Duration::Seconds(5), driver.In()));
  for (int i = 0; i < 3 && !driver.writes(); ++i) driver.ReadRecord(ours, "v9");
  ASSERT_TRUE(driver.writes());
  EXPECT_TRUE(driver.last().released);
  EXPECT_EQ(driver.last().term, ours.term);
}

TEST(LeaseMachineTest, StoppingEndsInTimeAlsoWhenTheStoreIsSilent) {
  Driver driver = Holding();
  const Instant by = driver.now + Duration::Seconds(5);
  driver.Keep(driver.machine.Stop(by, driver.In()));
  EXPECT_EQ(driver.step.wake_at, by);
  driver.At(by.since_zero());
  EXPECT_TRUE(driver.stopped());
}

TEST(LeaseMachineTest, AFollowerStopsAtOnceUnlessAWriteOfItsOwnMayStand) {
  Driver idle;
  idle.Keep(idle.machine.Stop(idle.now + kSecond, idle.In()));
  EXPECT_TRUE(idle.stopped());

  Driver acquiring(BucketAge::kNew);
  acquiring.ReadMissing();
  acquiring.Keep(acquiring.machine.Stop(acquiring.now + kSecond, acquiring.In()));
  EXPECT_FALSE(acquiring.stopped());
  acquiring.Applied("v1");
  EXPECT_FALSE(acquiring.acquired());
  ASSERT_TRUE(acquiring.writes());
  EXPECT_TRUE(acquiring.last().released);
}

TEST(LeaseMachineTest, WhenTheClockGoesBackLeadershipEndsAndANewIncarnationBegins) {
  Driver driver = Holding();
  const std::string before = driver.machine.incarnation();
  driver.now = driver.now - Ms(1);
  EXPECT_FALSE(driver.machine.Leads(driver.now));
  driver.Keep(driver.machine.OnTime(driver.In()));
  EXPECT_EQ(driver.lost(), LeaseLoss::kRestored);
  EXPECT_NE(driver.machine.incarnation(), before);
  // What we wrote is a stranger's now, and waited for.
  EXPECT_EQ(UntilWrite(driver, LeaseMachine::Found{.bytes = driver.written.bytes, .version = "v1"}),
            Duration::Seconds(8));
}

TEST(LeaseMachineTest, RU9_AnotherBootEndsLeadershipBeforeTheRenewalThatIsDue) {
  Driver driver = Holding();
  const std::string before = driver.machine.incarnation();
  driver.boot_id = "second";
  EXPECT_TRUE(driver.machine.IsOtherBoot("second"));
  driver.At(driver.step.wake_at.since_zero());
  EXPECT_EQ(driver.lost(), LeaseLoss::kRestored);
  EXPECT_FALSE(driver.machine.holding());
  EXPECT_FALSE(driver.writes());
  EXPECT_NE(driver.machine.incarnation(), before);
  EXPECT_FALSE(driver.machine.IsOtherBoot("second"));
}

// Its record would be released under the same term by another incarnation.
TEST(LeaseMachineTest, RU9_WhoIsToldToStopAfterItWasRestoredLeavesTheLeaseOfItsOtherLifeAlone) {
  Driver driver = Holding();
  driver.boot_id = "second";
  driver.Keep(driver.machine.Stop(driver.now + Duration::Seconds(5), driver.In()));
  EXPECT_FALSE(driver.writes());
  EXPECT_TRUE(driver.stopped());
}

TEST(LeaseMachineTest, RU9_ABootThatIsNotKnownForAWhileIsNoOther) {
  Driver driver = Holding();
  const std::string before = driver.machine.incarnation();
  for (const std::string boot : {"", "first"}) {
    driver.boot_id = boot;
    EXPECT_FALSE(driver.machine.IsOtherBoot(boot));
    driver.Wake();
    EXPECT_FALSE(driver.lost());
    if (driver.writes()) driver.Applied("v2");
  }
  EXPECT_TRUE(driver.machine.holding());
  EXPECT_EQ(driver.machine.incarnation(), before);
}

TEST(LeaseMachineTest, ACopyInTheMiddleOfSomethingGoesOnWithItsAnswerLost) {
  Driver driver = Holding();
  driver.Wake();
  LeaseMachine copy = driver.machine;
  const LeaseStep step = copy.Start(driver.In());
  EXPECT_TRUE(std::holds_alternative<LeaseStep::Read>(step.call));
}

TEST(LeaseMachineTest, NoTwoWritesHaveOneWriteId) {
  Driver driver = Holding();
  std::string last;
  for (int i = 0; i < 50; ++i) {
    driver.Wake();
    EXPECT_NE(driver.last().write_id, last);
    last = driver.last().write_id;
    driver.Applied("v" + std::to_string(i));
  }
}

TEST(LeaseMachineTest, UnknownKeysOfTheRecordAreKept) {
  Driver driver;
  LeaseRecord record = Others();
  record.released = true;
  record.unknown.push_back(
      {.key = "note", .key_position = {}, .value = json::Value::String("kept")});
  driver.ReadRecord(record, "a");
  EXPECT_EQ(driver.last().unknown, record.unknown);
}

TEST(LeaseMachineDeathTest, AnAnswerThatNobodyAskedForIsOurOwnMistake) {
  Driver driver;
  EXPECT_DEATH(driver.Applied("v1"), "outstanding");
}

}  // namespace
}  // namespace nstance

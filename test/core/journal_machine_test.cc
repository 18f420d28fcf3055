// The journal machine without any world around it: a small driver plays the store, honest about
// conditions, and each test says what happens to one call.
#include "core/journal_machine.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "test/core/random_journal.h"

namespace nstance {
namespace {

using Budget = JournalMachine::Budget;
using Urgency = JournalMachine::Urgency;

class Driver {
 public:
  explicit Driver(EpochEvidence evidence = EpochEvidence::kNone, JournalLimits limits = {})
      : machine({.identity = ExampleIdentity(),
                 .holder = "s1/0001",
                 .evidence = evidence,
                 .limits = limits}) {}

  JournalMachine::Input In() {
    ++draws;
    JournalMachine::Input in{.now = now, .wall_now = {}, .entropy = {}, .budget = budget};
    in.entropy[0] = static_cast<std::uint8_t>(draws);
    in.entropy[1] = static_cast<std::uint8_t>(draws >> 8U);
    return in;
  }
  void Keep(JournalStep next) {
    step = std::move(next);
    if (std::holds_alternative<JournalStep::Write>(step.call)) ++writes_sent;
    for (const auto& settled : step.settled) answers.push_back(settled);
    if (const auto* news = std::get_if<JournalStep::Lost>(&step.news)) lost = news->loss;
    if (const auto* news = std::get_if<JournalStep::Refused>(&step.news)) refused = news->why;
    if (const auto* news = std::get_if<JournalStep::TookOver>(&step.news)) epoch = news->epoch;
  }

  void Start() { Keep(machine.Start(In())); }
  [[nodiscard]] bool reads() const { return std::holds_alternative<JournalStep::Read>(step.call); }
  [[nodiscard]] bool writes() const {
    return std::holds_alternative<JournalStep::Write>(step.call);
  }
  [[nodiscard]] const JournalStep::Write& write() const {
    return std::get<JournalStep::Write>(step.call);
  }

  void AnswerRead() {
    if (!stored) return Keep(machine.OnRead(std::nullopt, In()));
    Keep(machine.OnRead(JournalMachine::Found{.bytes = *stored, .version = Version()}, In()));
  }
  void ReadFails() { Keep(machine.OnRead(Fail(Unavailable("down")), In())); }
  // The store judges the write honestly.
  bool Land(const JournalStep::Write& put) {
    const bool holds =
        put.expected_version ? stored && *put.expected_version == Version() : !stored;
    if (holds) Store(put.bytes);
    return holds;
  }
  void AnswerWrite() {
    const bool landed = Land(write());
    if (landed) return Keep(machine.OnWrite(Version(), In()));
    Keep(machine.OnWrite(Fail(Aborted("412")), In()));
  }
  void LoseAnswer() { Keep(machine.OnWrite(Fail(Unavailable("timed out").MaybeDone()), In())); }
  void WriteNotDone() { Keep(machine.OnWrite(Fail(Unavailable("503")), In())); }
  void Wake() {
    ASSERT_NE(step.wake_at, Instant::Never());
    now = std::max(now, step.wake_at);
    Keep(machine.OnTime(In()));
  }
  // Answers everything and wakes until nothing more is due within `length`.
  void Settle(Duration length = Duration()) {
    const Instant end = now + length;
    for (int i = 0; i < 1'000; ++i) {
      if (reads()) {
        AnswerRead();
      } else if (writes()) {
        AnswerWrite();
      } else if (step.wake_at <= end) {
        Wake();
      } else {
        return;
      }
    }
    ADD_FAILURE() << "does not settle";
  }

  std::uint64_t Open(IntentKind kind = IntentKind::kCreate) {
    return Submit({.intent = ExampleIntent(kind, prng)});
  }
  std::uint64_t Submit(JournalChange change, Urgency urgency = Urgency::kNow) {
    Keep(machine.Submit({.ticket = ++tickets, .change = std::move(change), .urgency = urgency},
                        In()));
    return tickets;
  }

  void Remember(const JournalMemory& news) { Keep(machine.Remember(news, In())); }

  void Store(std::string bytes) {
    stored = std::move(bytes);
    ++versions;
  }
  [[nodiscard]] std::string Version() const { return "v" + std::to_string(versions); }
  [[nodiscard]] Journal Stored() const { return DecodeJournal(*stored, ExampleIdentity()).value(); }

  Instant now = Instant::FromClock(Duration::Seconds(100));
  Budget budget = Budget::kOpen;
  JournalMachine machine;
  JournalStep step;
  std::optional<std::string> stored;
  int versions = 0;
  int writes_sent = 0;
  std::uint64_t draws = 0;
  std::uint64_t tickets = 0;
  std::vector<JournalStep::Settled> answers;
  std::optional<JournalLoss> lost;
  std::optional<Error> refused;
  std::int64_t epoch = 0;
  Prng prng{5};
};

Driver TakenOver() {
  Driver driver;
  Prng prng(6);
  driver.Store(EncodeJournal(RandomJournal(prng, 4)));
  driver.Start();
  driver.Settle();
  EXPECT_TRUE(driver.machine.open());
  driver.writes_sent = 0;
  return driver;
}

TEST(JournalMachineTest, TakesOverByRewritingWithTheNextEpochBeforeAnythingElse) {
  Driver driver;
  Prng prng(7);
  const Journal before = RandomJournal(prng, 4);
  driver.Store(EncodeJournal(before));
  driver.Start();
  (void)driver.Open();
  ASSERT_FALSE(driver.machine.open());
  driver.AnswerRead();
  ASSERT_TRUE(driver.writes());
  EXPECT_EQ(driver.write().expected_version, "v1");
  driver.AnswerWrite();
  EXPECT_EQ(driver.epoch, before.epoch + 1);
  EXPECT_EQ(driver.Stored().intents, before.intents);
  EXPECT_TRUE(driver.answers.empty());
  driver.Settle();
  EXPECT_EQ(driver.Stored().intents.size(), before.intents.size() + 1);
  EXPECT_EQ(driver.answers.size(), 1U);
}

TEST(JournalMachineTest, TheFirstLeaderCreatesTheJournal) {
  Driver driver;
  driver.Start();
  driver.AnswerRead();
  ASSERT_TRUE(driver.writes());
  EXPECT_EQ(driver.write().expected_version, std::nullopt);
  driver.AnswerWrite();
  EXPECT_EQ(driver.epoch, 1);
}

TEST(JournalMachineTest, RefusesToLeadWithoutATrustworthyJournal) {
  Driver missing(EpochEvidence::kSome);
  missing.Start();
  missing.AnswerRead();
  ASSERT_TRUE(missing.refused.has_value());
  EXPECT_FALSE(missing.writes());

  Driver corrupt;
  corrupt.Store("rubbish");
  corrupt.Start();
  corrupt.AnswerRead();
  ASSERT_TRUE(corrupt.refused.has_value());
  EXPECT_EQ(corrupt.refused->code, Code::kDataLoss);
  EXPECT_TRUE(corrupt.machine.ended());
}

TEST(JournalMachineTest, AnOldLeadersCommitDuringTheTakeOverIsReadAndKept) {
  Driver driver = TakenOver();
  Driver next;
  next.stored = driver.stored;
  next.versions = driver.versions;
  next.Start();
  next.AnswerRead();
  // The old leader commits between the read and the write.
  (void)driver.Open();
  driver.Settle();
  next.stored = driver.stored;
  next.versions = driver.versions;
  next.Settle(Duration::Seconds(1));
  EXPECT_EQ(next.epoch, driver.machine.table().journal().epoch + 1);
  EXPECT_EQ(next.Stored().intents, driver.machine.table().journal().intents);
}

TEST(JournalMachineTest, EverythingOfOneTurnSharesOneWrite) {
  Driver driver = TakenOver();
  for (int i = 0; i < 50; ++i) (void)driver.Open();
  EXPECT_EQ(driver.writes_sent, 0);
  EXPECT_EQ(driver.step.wake_at, driver.now);
  driver.Settle();
  EXPECT_EQ(driver.writes_sent, 1);
  EXPECT_EQ(driver.answers.size(), 50U);
}

TEST(JournalMachineTest, WhatComesDuringAWriteGoesIntoTheNext) {
  Driver driver = TakenOver();
  (void)driver.Open();
  driver.Wake();
  ASSERT_TRUE(driver.writes());
  const JournalStep::Write first = driver.write();
  for (int i = 0; i < 50; ++i) (void)driver.Open();
  EXPECT_EQ(driver.writes_sent, 1);
  ASSERT_TRUE(driver.Land(first));
  driver.Keep(driver.machine.OnWrite(driver.Version(), driver.In()));
  EXPECT_EQ(driver.answers.size(), 1U);
  driver.Settle();
  EXPECT_EQ(driver.writes_sent, 2);
  EXPECT_EQ(driver.answers.size(), 51U);
}

TEST(JournalMachineTest, ClosingForcesNoWriteAndRidesWithTheNext) {
  Driver driver = TakenOver();
  (void)driver.Open();
  driver.Settle();
  const std::string id = *driver.answers.back().id;
  driver.writes_sent = 0;
  (void)driver.Submit({.id = id}, Urgency::kLazy);
  driver.Settle();
  EXPECT_EQ(driver.writes_sent, 0);
  (void)driver.Open();
  driver.Settle();
  EXPECT_EQ(driver.writes_sent, 1);
  for (const Intent& intent : driver.Stored().intents) EXPECT_NE(intent.id, id);
}

TEST(JournalMachineTest, ClosingAloneIsWrittenAfterASecond) {
  Driver driver = TakenOver();
  (void)driver.Open();
  driver.Settle();
  driver.writes_sent = 0;
  (void)driver.Submit({.id = *driver.answers.back().id}, Urgency::kLazy);
  EXPECT_EQ(driver.step.wake_at, driver.now + Duration::Seconds(1));
  driver.Settle(Duration::Seconds(1));
  EXPECT_EQ(driver.writes_sent, 1);
}

TEST(JournalMachineTest, WhatIsToBeRememberedRidesWithTheNextWrite) {
  Driver driver = TakenOver();
  const GroupsMark mark = {.epoch = 7, .seq = 8, .sha256 = "aa"};
  driver.Remember({.records = 4, .groups = mark});
  driver.Settle();
  EXPECT_EQ(driver.writes_sent, 0);
  driver.Open();
  driver.Settle(Duration::Seconds(5));
  EXPECT_EQ(driver.writes_sent, 1);
  EXPECT_EQ(driver.Stored().memory.groups, mark);
  EXPECT_EQ(driver.Stored().memory.records, 4);
}

TEST(JournalMachineTest, AMarkAloneIsWrittenAfterASecondAndACountOfRecordsIsNot) {
  Driver driver = TakenOver();
  driver.Remember({.records = 4});
  driver.Settle(Duration::Seconds(5));
  EXPECT_EQ(driver.writes_sent, 0);
  driver.Remember({.groups = GroupsMark{.epoch = 7, .seq = 8, .sha256 = "aa"}});
  driver.Settle(Duration::Milliseconds(999));
  EXPECT_EQ(driver.writes_sent, 0);
  driver.Settle(Duration::Seconds(1));
  EXPECT_EQ(driver.writes_sent, 1);
  EXPECT_EQ(driver.Stored().memory.records, 4);
  driver.Remember({.records = 0});
  driver.Settle(Duration::Seconds(1));
  EXPECT_EQ(driver.Stored().memory.records, 0) << "the last record has gone";
}

TEST(JournalMachineTest, WhatIsRememberedDuringAWriteGoesIntoTheNext) {
  Driver driver = TakenOver();
  driver.Open();
  driver.Wake();
  ASSERT_TRUE(driver.writes());
  const GroupsMark mark = {.epoch = 7, .seq = 8, .sha256 = "aa"};
  const JournalStep write = driver.step;
  driver.Remember({.groups = mark});
  driver.step = write;
  driver.AnswerWrite();
  EXPECT_NE(driver.Stored().memory.groups, mark);
  driver.Settle(Duration::Seconds(1));
  EXPECT_EQ(driver.Stored().memory.groups, mark);
}

TEST(JournalMachineTest, AnIdleJournalIsNotWritten) {
  Driver driver = TakenOver();
  driver.Settle(Duration::Hours(1));
  EXPECT_EQ(driver.writes_sent, 0);
  EXPECT_EQ(driver.step.wake_at, Instant::Never());
}

TEST(JournalMachineTest, AnAmbiguousCommitIsAnsweredOnlyAfterAReadBack) {
  Driver driver = TakenOver();
  (void)driver.Open();
  driver.Wake();
  ASSERT_TRUE(driver.Land(driver.write()));
  driver.LoseAnswer();
  EXPECT_TRUE(driver.answers.empty());
  ASSERT_TRUE(driver.reads());
  driver.ReadFails();
  EXPECT_FALSE(driver.writes());
  EXPECT_TRUE(driver.answers.empty());
  driver.Settle(Duration::Seconds(1));
  EXPECT_EQ(driver.answers.size(), 1U);
  EXPECT_EQ(driver.writes_sent, 1);
}

TEST(JournalMachineTest, WhatDidNotLandIsSentAgainWithTheSameBytesSoOnlyOneCanLand) {
  Driver driver = TakenOver();
  (void)driver.Open();
  driver.Wake();
  const JournalStep::Write late = driver.write();
  driver.LoseAnswer();
  driver.AnswerRead();
  (void)driver.Open();  // Waits for the next write.
  driver.Wake();
  ASSERT_TRUE(driver.writes());
  const JournalStep::Write again = driver.write();
  EXPECT_EQ(again.bytes, late.bytes);
  EXPECT_EQ(again.expected_version, late.expected_version);
  ASSERT_TRUE(driver.Land(late));    // The first one arrives after all,
  EXPECT_FALSE(driver.Land(again));  // and the second finds its condition broken.
  driver.Keep(driver.machine.OnWrite(Fail(Aborted("412")), driver.In()));
  driver.Settle(Duration::Seconds(2));
  EXPECT_EQ(driver.answers.size(), 2U);
  EXPECT_FALSE(driver.lost.has_value());
}

TEST(JournalMachineTest, ANewerLeadersJournalEndsItBeforeAnythingElse) {
  Driver driver = TakenOver();
  (void)driver.Open();
  driver.Wake();
  driver.Store(EncodeJournal(
      TakeOver(driver.Stored(), {.holder = "s2/0002", .write_id = "theirs", .at = Timestamp()})));
  driver.AnswerWrite();
  ASSERT_TRUE(driver.reads());
  driver.AnswerRead();
  EXPECT_EQ(driver.lost, JournalLoss::kHigherEpoch);
  EXPECT_TRUE(driver.answers.empty());
  (void)driver.Open();
  EXPECT_FALSE(driver.writes());
  EXPECT_EQ(driver.step.wake_at, Instant::Never());
}

TEST(JournalMachineTest, DamageEndsItByName) {
  const auto after = [](auto damage) {
    Driver driver = TakenOver();
    (void)driver.Open();
    driver.Wake();
    const JournalStep::Write write = driver.write();
    damage(driver);
    driver.Keep(driver.machine.OnWrite(Fail(Aborted("412")), driver.In()));
    driver.Settle(Duration::Seconds(20));
    return driver.lost;
  };
  EXPECT_EQ(after([](Driver& driver) { driver.stored.reset(); }), JournalLoss::kMissing);
  EXPECT_EQ(after([](Driver& driver) { driver.Store("{"); }), JournalLoss::kCorrupt);
  EXPECT_EQ(after([](Driver& driver) {
              Journal rival = driver.Stored();
              ++rival.seq;
              rival.write_id = "theirs";
              driver.Store(EncodeJournal(rival));
            }),
            JournalLoss::kRival);
  EXPECT_EQ(after([](Driver& driver) {
              Journal old = driver.Stored();
              old.epoch = 1;
              driver.Store(EncodeJournal(old));
            }),
            JournalLoss::kRolledBack);
}

TEST(JournalMachineTest, AStaleReadBackIsReadAgain) {
  Driver driver = TakenOver();
  Journal old = driver.Stored();
  --old.seq;
  (void)driver.Open();
  driver.Wake();
  ASSERT_TRUE(driver.Land(driver.write()));
  driver.LoseAnswer();
  driver.Keep(driver.machine.OnRead(
      JournalMachine::Found{.bytes = EncodeJournal(old), .version = "v0"}, driver.In()));
  EXPECT_FALSE(driver.lost.has_value());
  EXPECT_FALSE(driver.writes());
  driver.Settle(Duration::Seconds(1));
  EXPECT_EQ(driver.answers.size(), 1U);
}

TEST(JournalMachineTest, NothingIsWrittenWhenTheLeaseLeavesNoTime) {
  Driver driver = TakenOver();
  (void)driver.Open();
  driver.budget = Budget::kSpent;
  for (int i = 0; i < 10; ++i) driver.Wake();
  EXPECT_EQ(driver.writes_sent, 0);
  driver.budget = Budget::kOpen;
  driver.Settle(Duration::Seconds(1));
  EXPECT_EQ(driver.writes_sent, 1);
}

TEST(JournalMachineTest, WhatFindsNoRoomWaitsAndIsRefilledInBatches) {
  Driver driver(EpochEvidence::kNone, {.intents = 200, .tenant = 200, .tenant_creations = 200});
  driver.Start();
  driver.Settle();
  for (int i = 0; i < 300; ++i) (void)driver.Open();
  driver.Settle();
  EXPECT_EQ(driver.machine.blocked(), 100U);
  EXPECT_EQ(driver.answers.size(), 200U);
  driver.writes_sent = 0;
  const std::vector<JournalStep::Settled> opened = driver.answers;
  // Sixty-three closings wait for their second; the sixty-fourth makes a batch.
  for (std::size_t i = 0; i < 63; ++i) (void)driver.Submit({.id = *opened[i].id}, Urgency::kLazy);
  driver.Settle(Duration::Milliseconds(900));
  EXPECT_EQ(driver.writes_sent, 0);
  (void)driver.Submit({.id = *opened[63].id}, Urgency::kLazy);
  driver.Settle();
  EXPECT_EQ(driver.writes_sent, 1);
  EXPECT_EQ(driver.machine.blocked(), 36U);
  // A single free place is used after a second.
  (void)driver.Submit({.id = *opened[64].id}, Urgency::kLazy);
  driver.Settle(Duration::Seconds(1));
  EXPECT_EQ(driver.writes_sent, 2);
  EXPECT_EQ(driver.machine.blocked(), 35U);
}

TEST(JournalMachineTest, AChangeOfWhatIsNotOpenIsAnsweredAsSuch) {
  Driver driver = TakenOver();
  const std::uint64_t ticket = driver.Submit({.id = "9-9-9"});
  driver.Settle();
  ASSERT_EQ(driver.answers.size(), 1U);
  EXPECT_EQ(driver.answers[0].ticket, ticket);
  EXPECT_EQ(driver.answers[0].id.error().code, Code::kNotFound);
  EXPECT_EQ(driver.writes_sent, 0);
}

TEST(JournalMachineTest, SeqRisesByOneWithEveryWrite) {
  Driver driver = TakenOver();
  std::int64_t seq = driver.Stored().seq;
  for (int i = 0; i < 20; ++i) {
    (void)driver.Open();
    driver.Settle();
    EXPECT_EQ(driver.Stored().seq, ++seq);
  }
}

TEST(JournalMachineTest, ACopyInTheMiddleOfAWriteReadsBackFirst) {
  Driver driver = TakenOver();
  (void)driver.Open();
  driver.Wake();
  JournalMachine copy = driver.machine;
  const JournalStep step = copy.Start(driver.In());
  EXPECT_TRUE(std::holds_alternative<JournalStep::Read>(step.call));
}

TEST(JournalMachineDeathTest, AnAnswerThatNobodyAskedForIsOurOwnMistake) {
  Driver driver;
  driver.Start();
  EXPECT_DEATH(driver.LoseAnswer(), "outstanding");
}

}  // namespace
}  // namespace nstance

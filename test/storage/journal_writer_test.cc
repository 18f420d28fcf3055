// The journal writer over the simulated store and loop: what its header promises, one test each.
// The bucket's own record of changes is the judge of every answer; a property over seeds comes
// last.
#include "storage/journal_writer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/seeded_random.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"

namespace nstance {
namespace {

using sim::SimBucket;
using sim::SimChange;
using sim::SimLoop;
using sim::SimMethod;
using sim::SimObjectStore;
using sim::SimScheduler;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ObjectKey kKey = *ObjectKey::Parse("journal/a.json");
constexpr Duration kSoon = Duration::Seconds(1);

JournalIdentity Identity(std::string_view cluster = "c1", std::string_view shard = "a") {
  return {.cluster = *ClusterId::Parse(cluster), .shard = *ShardId::Parse(shard)};
}

Intent SomeIntent(std::string reason = "scale-up") {
  return {.id = {},
          .kind = IntentKind::kCreate,
          .instance_id = *ParsePuidv7("knc06bgm7733st2576nx5jht4ecjw"),
          .tenant = *TenantId::Parse("prod"),
          .group = *GroupKey::Parse("workers"),
          .opened_at = Timestamp(),
          .epoch = 0,
          .reason = std::move(reason)};
}

// A journal as some leader left it.
std::string SomeJournal(std::int64_t epoch, std::int64_t seq,
                        const JournalIdentity& identity = Identity()) {
  return EncodeJournal(ResetJournal(identity, {.highest_epoch = epoch - 1, .highest_seq = seq - 1},
                                    {.holder = "z/1", .write_id = "z", .at = Timestamp()}));
}

// One process with a writer, and what it was told.
struct Process {
  Process(SimScheduler& scheduler, SimBucket& bucket, const std::string& name,
          EpochEvidence evidence = EpochEvidence::kNone)
      : loop(scheduler, Timestamp()),
        random(scheduler.prng().Next()),
        store(bucket, loop, {.process = name}),
        writer(std::make_unique<JournalWriter>(
            JournalWriter::Deps{.loop = loop, .store = store, .random = random},
            JournalWriter::Options{.key = kKey},
            JournalMachine({.identity = Identity(), .holder = name + "/1", .evidence = evidence}),
            JournalWriter::Owner{
                .took_over = [this](std::int64_t e) { Note("epoch " + std::to_string(e)); },
                .refused = [this](const Error& why) { Note("refused: " + why.message); },
                .lost = [this](JournalLoss loss) { Note(std::string(JournalLossName(loss))); },
                .may_start =
                    [this](Duration bound) {
                      asked.insert(bound);
                      return may_start;
                    }})) {}

  void Note(std::string what) {
    events.push_back(std::move(what));
    if (hook) hook();
  }
  void Open() {
    writer->Open(SomeIntent(), [this](const Result<std::string>& id) {
      answers.push_back(id.value_or("error"));
    });
  }

  SimLoop loop;
  sim::SeededRandom random;
  SimObjectStore store;
  bool may_start = true;
  std::set<Duration> asked;
  std::vector<std::string> events;
  std::vector<std::string> answers;
  std::function<void()> hook;
  std::unique_ptr<JournalWriter> writer;
};

class JournalWriterTest : public testing::Test {
 public:
  // REQUIRES: somebody has taken over.
  [[nodiscard]] Journal Stored() const {
    return DecodeJournal(bucket.Find(kKey)->bytes, Identity()).value();
  }
  [[nodiscard]] std::uint64_t Puts() const { return bucket.Count(SimMethod::kPut, "journal"); }
  [[nodiscard]] std::uint64_t Gets() const { return bucket.Count(SimMethod::kGet, "journal"); }
  [[nodiscard]] bool Run(const std::function<bool()>& done, Duration limit = kSoon) {
    return scheduler.RunUntilTrue(done, limit);
  }
  void TakeOver(Process& taker) {
    taker.writer->Start();
    ASSERT_TRUE(Run([&] { return taker.writer->machine().open(); }, Duration::Seconds(10)));
  }

  SimScheduler scheduler{1};
  SimBucket bucket{scheduler, {}};
  Process process{scheduler, bucket, "p"};
};

TEST_F(JournalWriterTest, TheFirstLeaderWritesEpochOne) {
  TakeOver(process);
  EXPECT_THAT(process.events, ElementsAre("epoch 1"));
  EXPECT_EQ(Stored().epoch, 1);
  EXPECT_EQ(Stored().holder, "p/1");
  EXPECT_EQ(Puts(), 1U);
}

TEST_F(JournalWriterTest, ANewLeaderKeepsWhatIsOpenUnderTheNextEpoch) {
  TakeOver(process);
  process.Open();
  ASSERT_TRUE(Run([&] { return !process.answers.empty(); }));
  process.writer.reset();
  Process next(scheduler, bucket, "q", EpochEvidence::kSome);
  TakeOver(next);
  EXPECT_THAT(next.events, ElementsAre("epoch 2"));
  ASSERT_EQ(next.writer->journal().intents.size(), 1U);
  EXPECT_EQ(next.writer->journal().intents[0].id, process.answers[0]);
  EXPECT_EQ(Stored(), next.writer->journal());
}

TEST_F(JournalWriterTest, EverythingSubmittedInOneTurnIsOneWrite) {
  TakeOver(process);
  process.loop.Post([&] {
    for (int i = 0; i < 50; ++i) process.Open();
  });
  EXPECT_TRUE(Run([&] { return process.answers.size() == 50; }));
  EXPECT_EQ(Puts(), 2U) << "the take-over and one more";
  EXPECT_EQ(Stored().intents.size(), 50U);
  EXPECT_EQ(Stored().seq, 2);
}

TEST_F(JournalWriterTest, WhatComesWhileAWriteIsUnderWayGoesIntoOneMore) {
  TakeOver(process);
  process.Open();
  // Sent, and not yet answered.
  ASSERT_TRUE(Run([&] { return Puts() == 2; }));
  ASSERT_THAT(process.answers, IsEmpty());
  for (int i = 0; i < 20; ++i) process.Open();
  EXPECT_TRUE(Run([&] { return process.answers.size() == 21; }));
  EXPECT_EQ(Puts(), 3U);
}

TEST_F(JournalWriterTest, ACloseAloneWaitsASecondAndForcesNoWriteBefore) {
  TakeOver(process);
  process.Open();
  ASSERT_TRUE(Run([&] { return !process.answers.empty(); }));
  process.writer->Close(process.answers[0]);
  scheduler.RunFor(Duration::Seconds(1) - Duration::Nanoseconds(1));
  EXPECT_EQ(Puts(), 2U);
  EXPECT_EQ(Stored().intents.size(), 1U);
  scheduler.RunFor(Duration::Milliseconds(200));
  EXPECT_EQ(Puts(), 3U);
  EXPECT_THAT(Stored().intents, IsEmpty());
}

TEST_F(JournalWriterTest, ACloseRidesWithTheNextWrite) {
  TakeOver(process);
  process.Open();
  ASSERT_TRUE(Run([&] { return process.answers.size() == 1; }));
  process.writer->Close(process.answers[0]);
  process.Open();
  ASSERT_TRUE(Run([&] { return process.answers.size() == 2; }));
  EXPECT_EQ(Puts(), 3U);
  ASSERT_EQ(Stored().intents.size(), 1U);
  EXPECT_EQ(Stored().intents[0].id, process.answers[1]);
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(Puts(), 3U) << "the close was written twice";
}

TEST_F(JournalWriterTest, RU1_AWriteWhoseAnswerIsLostIsReadBackAndAnsweredOnce) {
  TakeOver(process);
  process.store.link().answers_lost = true;
  process.Open();
  ASSERT_TRUE(Run([&] { return Stored().intents.size() == 1; }));
  scheduler.RunFor(Duration::Milliseconds(200));
  process.store.link().answers_lost = false;
  EXPECT_THAT(process.answers, IsEmpty()) << "answered without a confirmation";
  const std::uint64_t gets = Gets();
  scheduler.RunFor(Duration::Seconds(10));
  EXPECT_THAT(process.answers, ElementsAre("1-2-1"));
  EXPECT_EQ(Puts(), 2U) << "sent again blindly";
  EXPECT_EQ(Gets(), gets + 1);
}

TEST_F(JournalWriterTest, RU1_AWriteThatDidNotArriveIsSentAgainWithTheSameBytesAndAnsweredOnce) {
  TakeOver(process);
  process.store.link().requests_lost = true;
  process.Open();
  ASSERT_TRUE(Run([&] { return Puts() == 2; }));
  process.store.link().requests_lost = false;
  process.Open();  // Waits for the next write: the bytes of the first are decided.
  EXPECT_TRUE(Run([&] { return process.answers.size() == 2; }, Duration::Seconds(10)));
  EXPECT_THAT(process.answers, ElementsAre("1-2-1", "1-3-1"));
  EXPECT_EQ(Stored().seq, 3);
  EXPECT_EQ(Puts(), 4U);
}

TEST_F(JournalWriterTest, AnAppliedWriteWithoutAVersionIsReadBack) {
  bucket.personality().tells_no_version = true;
  TakeOver(process);
  for (std::size_t i = 1; i <= 5; ++i) {
    process.Open();
    ASSERT_TRUE(Run([&] { return process.answers.size() == i; }));
  }
  EXPECT_EQ(Puts(), 6U);
  EXPECT_EQ(Gets(), 7U);
}

TEST_F(JournalWriterTest, RU3_AHigherEpochEndsTheWriterAndItWritesNothingAnyMore) {
  TakeOver(process);
  bucket.SetByHand(kKey, SomeJournal(7, 40));
  process.Open();
  EXPECT_TRUE(Run([&] { return process.events.size() == 2; }));
  EXPECT_THAT(process.events, ElementsAre("epoch 1", "higher-epoch"));
  const std::uint64_t puts = Puts();
  process.Open();
  process.writer->Close("1-1-1");
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(Puts(), puts);
  EXPECT_THAT(process.answers, IsEmpty());
  EXPECT_EQ(process.events.size(), 2U);
  EXPECT_EQ(Stored().epoch, 7);
}

// Two writers, as when a leader wakes up late: the older one's commit never lands.
TEST_F(JournalWriterTest, I1_AnOlderLeadersCommitNeverLandsAfterATakeOver) {
  TakeOver(process);
  process.loop.Pause();
  Process next(scheduler, bucket, "q");
  TakeOver(next);
  std::vector<std::int64_t> epochs;
  bucket.set_observer([&](const SimChange& change) {
    epochs.push_back(DecodeJournal(change.after->bytes, Identity())->epoch);
  });
  process.loop.Resume();
  process.Open();
  next.Open();
  scheduler.RunFor(Duration::Seconds(10));
  EXPECT_THAT(process.events, ElementsAre("epoch 1", "higher-epoch"));
  EXPECT_THAT(process.answers, IsEmpty());
  EXPECT_THAT(next.answers, ElementsAre("2-3-1"));
  EXPECT_THAT(epochs, ElementsAre(2));
}

TEST_F(JournalWriterTest, RefusesAJournalThatIsCorruptOrForeignOrMissingWithEvidence) {
  const struct {
    const char* name;
    std::optional<std::string> stored;
    EpochEvidence evidence;
    const char* why;
  } rows[] = {
      {"cut short", SomeJournal(3, 9).substr(0, 40), EpochEvidence::kSome, "corrupt journal"},
      {"empty", "", EpochEvidence::kSome, "corrupt journal"},
      {"other cluster", SomeJournal(3, 9, Identity("c2")), EpochEvidence::kSome, "c2"},
      {"other shard", SomeJournal(3, 9, Identity("c1", "b")), EpochEvidence::kSome, "shard"},
      {"missing", std::nullopt, EpochEvidence::kSome, "missing"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    SimScheduler world(1);
    SimBucket truth(world, {});
    if (row.stored) truth.SetByHand(kKey, *row.stored);
    Process taker(world, truth, "p", row.evidence);
    taker.Open();
    taker.writer->Start();
    world.RunFor(Duration::Minutes(1));
    ASSERT_EQ(taker.events.size(), 1U);
    EXPECT_THAT(taker.events[0], HasSubstr("refused: "));
    EXPECT_THAT(taker.events[0], HasSubstr(row.why));
    EXPECT_EQ(truth.Count(SimMethod::kPut, "journal"), 0U);
    EXPECT_THAT(taker.answers, IsEmpty());
    EXPECT_EQ(truth.Find(kKey) != nullptr, row.stored.has_value());
  }
}

TEST_F(JournalWriterTest, RU4_NoWriteBeginsUnlessTheLeaseLeavesTimeForIt) {
  process.may_start = false;
  process.writer->Start();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(Puts(), 0U) << "took over without a lease";
  process.may_start = true;
  ASSERT_TRUE(Run([&] { return process.writer->machine().open(); }));
  process.may_start = false;
  process.Open();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(Puts(), 1U);
  EXPECT_THAT(process.answers, IsEmpty());
  process.may_start = true;
  EXPECT_TRUE(Run([&] { return process.answers.size() == 1; }));
  EXPECT_THAT(process.asked, ElementsAre(Duration::Seconds(3)));
}

TEST_F(JournalWriterTest, DoneMaySubmitMore) {
  TakeOver(process);
  std::vector<std::string> ids;
  std::function<void()> next = [&] {
    process.writer->Open(SomeIntent(), [&](const Result<std::string>& id) {
      ids.push_back(*id);
      process.writer->Close(*id);
      if (ids.size() < 100) next();
    });
  };
  for (int i = 0; i < 3; ++i) next();
  EXPECT_TRUE(Run([&] { return ids.size() >= 100; }, Duration::Minutes(1)));
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size()) << "an id was given twice";
  scheduler.RunFor(Duration::Seconds(5));
  EXPECT_THAT(Stored().intents, IsEmpty());
}

TEST_F(JournalWriterTest, DoneIsNeverCalledFromInsideSubmit) {
  TakeOver(process);
  bool inside = true;
  bool called = false;
  process.writer->Submit({.id = "9-9-9"}, JournalMachine::Urgency::kNow,
                         [&](const Result<std::string>& id) {
                           EXPECT_FALSE(inside);
                           EXPECT_EQ(id.error().code, Code::kNotFound);
                           called = true;
                         });
  inside = false;
  EXPECT_TRUE(Run([&] { return called; }));
  EXPECT_EQ(Puts(), 1U) << "nothing had changed";
}

TEST_F(JournalWriterTest, TookOverMayDestroyTheWriter) {
  process.hook = [&] { process.writer.reset(); };
  process.writer->Start();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_THAT(process.events, ElementsAre("epoch 1"));
}

TEST_F(JournalWriterTest, RefusedMayDestroyTheWriter) {
  bucket.SetByHand(kKey, "rubbish");
  process.hook = [&] { process.writer.reset(); };
  process.writer->Start();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(process.events.size(), 1U);
}

TEST_F(JournalWriterTest, LostMayDestroyTheWriter) {
  TakeOver(process);
  bucket.SetByHand(kKey, SomeJournal(7, 40));
  process.hook = [&] { process.writer.reset(); };
  process.Open();
  process.Open();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_THAT(process.events, ElementsAre("epoch 1", "higher-epoch"));
  EXPECT_THAT(process.answers, IsEmpty());
}

// At every moment: taking over, idle, with a write under way, with something lazy waiting.
TEST_F(JournalWriterTest, DestroyingLeavesNoTimerAndNoCallback) {
  for (int moment = 0; moment < 200; ++moment) {
    SCOPED_TRACE(moment);
    SimScheduler world(static_cast<std::uint64_t>(moment));
    SimBucket truth(world, {});
    Process own(world, truth, "p");
    own.writer->Start();
    own.Open();
    world.RunFor(Duration::Milliseconds(7) * (moment / 2));
    if (moment % 2 == 1) own.writer->Close("1-2-1");
    const auto events = own.events;
    const auto answers = own.answers;
    own.writer.reset();
    // A request that was sent arrives all the same; its answer reaches nobody.
    int steps = 0;
    while (steps < 100 && world.Step()) ++steps;
    EXPECT_LE(steps, 2);
    EXPECT_EQ(own.events, events);
    EXPECT_EQ(own.answers, answers);
  }
}

// Everything at once: a hostile store, a leader after the other, each closing what it opened.
TEST(JournalWriterProperty, RU11_WhatIsAnsweredWasInTheStoreWhateverTheStoreDoes) {
  std::size_t answered = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    SimScheduler world(seed);
    SimBucket truth(world, {});
    std::set<std::string> durable;  // Ids that were ever stored.
    std::int64_t epoch = 0;
    std::int64_t seq = 0;
    truth.set_observer([&](const SimChange& change) {
      const auto journal = DecodeJournal(change.after->bytes, Identity());
      ASSERT_TRUE(journal) << journal.error().ToString();
      EXPECT_EQ(journal->seq, seq + 1);
      EXPECT_GE(journal->epoch, epoch);
      seq = journal->seq;
      epoch = journal->epoch;
      for (const Intent& intent : journal->intents) durable.insert(intent.id);
    });
    std::map<std::string, int> told;
    std::vector<std::unique_ptr<Process>> processes;
    for (int leader = 0; leader < 3; ++leader) {
      auto& own = *processes.emplace_back(
          std::make_unique<Process>(world, truth, "p" + std::to_string(leader)));
      own.store.faults() = {.error_not_done = 1'000,
                            .error_maybe_done = 1'000,
                            .request_lost = 500,
                            .answer_lost = 1'000,
                            .applied_late = 500,
                            .delivered_twice = 1'000};
      own.writer->Start();
      for (int i = 0; i < 15; ++i) {
        own.writer->Open(SomeIntent(), [&](const Result<std::string>& id) {
          ASSERT_TRUE(id) << id.error().ToString();
          EXPECT_TRUE(durable.contains(*id)) << *id << " is not in the store";
          EXPECT_EQ(++told[*id], 1) << *id;
          own.writer->Close(*id);
        });
        world.RunFor(world.prng().UpTo(Duration::Milliseconds(400)));
      }
      // The next one comes while this one is still at work.
      if (seed % 2 == 0) world.RunFor(Duration::Seconds(20));
    }
    world.RunFor(Duration::Minutes(15));
    // Whoever has written last goes on; nobody else believes that it has this epoch.
    const auto goes_on = [&](const auto& own) {
      return own->writer->machine().open() && own->writer->journal().epoch == epoch;
    };
    EXPECT_EQ(std::ranges::count_if(processes, goes_on), 1);
    answered += told.size();
  }
  EXPECT_GT(answered, 60U * 15U) << "hardly anything was committed";
}

}  // namespace
}  // namespace nstance

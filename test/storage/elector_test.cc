// The elector over the simulated store and loop: what its header promises, one test each. Who holds
// the lease is judged by the bytes in the bucket, never by what the elector says of itself.
#include "storage/elector.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lease.h"
#include "sim/seeded_random.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"

namespace nstance {
namespace {

using sim::SimBucket;
using sim::SimLoop;
using sim::SimMethod;
using sim::SimObjectStore;
using sim::SimScheduler;
using testing::ElementsAre;
using testing::IsEmpty;

const ObjectKey kShardKey = *ObjectKey::Parse("leader/a.json");
const ObjectKey kClusterKey = *ObjectKey::Parse("leader/cluster.json");
constexpr LeaseTimings kTimings;
constexpr Duration kSoon = Duration::Seconds(3);
// I-4: the longest from a leader's death to the next one.
constexpr Duration kTakeOverBound =
    kTimings.lease + kTimings.renew + (kTimings.renew / 2) + (kTimings.store_timeout * 3);

// One process: its clock, its way to the bucket, its chance.
struct Process {
  Process(SimScheduler& scheduler, SimBucket& bucket, const std::string& name)
      : loop(scheduler, Timestamp()),
        random(scheduler.prng().Next()),
        store(bucket, loop, {.process = name}) {}

  SimLoop loop;
  sim::SeededRandom random;
  SimObjectStore store;
  std::string boot_id = "first";
};

// One elector and what it has told.
struct Candidate {
  struct Config {
    std::string id;
    ObjectKey key = kShardKey;
    BucketAge bucket = BucketAge::kNew;
    LeaseTimings timings = kTimings;
  };

  Candidate(Process& process, Config config)
      : elector(std::make_unique<Elector>(
            Elector::Deps{.loop = process.loop,
                          .store = process.store,
                          .random = process.random,
                          .boot_id = [&process] { return process.boot_id; }},
            config.key,
            LeaseMachine({.leader_id = config.id,
                          .leader_addr = config.id + ":8443",
                          .timings = config.timings,
                          .bucket = config.bucket}),
            Elector::Owner{.acquired = [this](std::int64_t term) { Note("acquired", term); },
                           .lost = [this](LeaseLoss loss) { Note(LeaseLossName(loss)); },
                           .alarm = [this](LeaseAlarm alarm) { Note(LeaseAlarmName(alarm)); }})) {}

  void Note(std::string_view what, std::int64_t term = 0) {
    events.push_back(term == 0 ? std::string(what) : fmt::format("{} {}", what, term));
    // The hook may destroy the elector, as a callback may.
    if (hook) hook(events.back());
  }
  [[nodiscard]] bool Leads() const { return elector && elector->Leads(); }

  std::vector<std::string> events;
  std::function<void(const std::string&)> hook;
  std::unique_ptr<Elector> elector;
};

class ElectorTest : public testing::Test {
 public:
  [[nodiscard]] std::optional<LeaseRecord> Record(const ObjectKey& key = kShardKey) const {
    const Object* object = bucket.Find(key);
    if (object == nullptr) return std::nullopt;
    DecodedLease decoded = DecodeLease(object->bytes);
    EXPECT_EQ(decoded.form, LeaseForm::kValid) << decoded.flaw;
    return std::move(decoded.record);
  }
  [[nodiscard]] bool Run(const std::function<bool()>& done, Duration limit) {
    return scheduler.RunUntilTrue(done, limit);
  }
  // A leader that has taken over.
  void Lead(Candidate& candidate) {
    candidate.elector->Start();
    ASSERT_TRUE(Run([&] { return candidate.Leads(); }, kTakeOverBound));
    candidate.elector->TakenOver();
  }
  // Runs whatever is left; the number of tasks.
  int Drain() {
    int steps = 0;
    while (steps < 1'000 && scheduler.Step()) ++steps;
    return steps;
  }
  // What the store was asked for, of leases.
  [[nodiscard]] std::uint64_t Requests() const {
    return bucket.Count(SimMethod::kGet, "leader") + bucket.Count(SimMethod::kPut, "leader");
  }

  SimScheduler scheduler{1};
  SimBucket bucket{scheduler, {}};
  Process process{scheduler, bucket, "a"};
  Process other{scheduler, bucket, "b"};
};

TEST_F(ElectorTest, OneCandidateInANewBucketLeadsAtOnceAndGoesOnLeading) {
  Candidate one(process, {.id = "one"});
  one.elector->Start();
  EXPECT_TRUE(Run([&] { return one.Leads(); }, kSoon));
  one.elector->TakenOver();
  scheduler.RunFor(Duration::Minutes(10));
  EXPECT_TRUE(one.Leads());
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  EXPECT_EQ(Record()->leader_id, "one");
  EXPECT_FALSE(Record()->released);
}

TEST_F(ElectorTest, AcquiredMayDestroyTheElector) {
  Candidate one(process, {.id = "one"});
  one.hook = [&](const std::string&) { one.elector.reset(); };
  one.elector->Start();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  EXPECT_EQ(one.elector, nullptr);
}

TEST_F(ElectorTest, LostMayDestroyTheElector) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  one.hook = [&](const std::string&) { one.elector.reset(); };
  process.store.link() = {.requests_lost = true, .answers_lost = true};
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_THAT(one.events, ElementsAre("acquired 1", "deadline"));
}

// The record is spoilt while it is held: the loss and the alarm come of one read.
TEST_F(ElectorTest, AnAlarmMayDestroyTheElectorAndNothingIsToldAfterwards) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  one.hook = [&](const std::string& what) {
    if (what == "lease_corrupt") one.elector.reset();
  };
  bucket.SetByHand(kShardKey, "{\"rubbish\":");
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(one.elector, nullptr);
  EXPECT_THAT(one.events, ElementsAre("acquired 1", "corrupted", "lease_corrupt"));
}

TEST_F(ElectorTest, AnElectorThatIsDestroyedInLostTellsNoAlarm) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  one.hook = [&](const std::string& what) {
    if (what == "corrupted") one.elector.reset();
  };
  bucket.SetByHand(kShardKey, "{\"rubbish\":");
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(one.elector, nullptr);
  EXPECT_THAT(one.events, ElementsAre("acquired 1", "corrupted"));
}

// A callback is a closure that the elector owns; what it captured must outlive the elector's end.
TEST_F(ElectorTest, ACallbackThatDestroysTheElectorKeepsWhatItCaptured) {
  std::unique_ptr<Elector> elector;
  std::vector<std::string> told;
  auto words = std::make_unique<std::string>("still here");
  elector = std::make_unique<Elector>(
      Elector::Deps{.loop = process.loop, .store = process.store, .random = process.random},
      kShardKey,
      LeaseMachine(
          {.leader_id = "one", .leader_addr = "x", .timings = {}, .bucket = BucketAge::kNew}),
      Elector::Owner{.acquired =
                         [&elector, &told, words = std::move(words)](std::int64_t) {
                           elector.reset();
                           told.push_back(*words);
                         },
                     .lost = [](LeaseLoss) {}});
  elector->Start();
  scheduler.RunFor(kSoon);
  EXPECT_THAT(told, ElementsAre("still here"));
}

TEST_F(ElectorTest, StoppedMayDestroyTheElector) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  int stopped = 0;
  one.elector->Stop(process.loop.Now() + kSoon, [&] {
    ++stopped;
    one.elector.reset();
  });
  EXPECT_EQ(stopped, 0) << "told from inside Stop()";
  scheduler.RunFor(kSoon);
  EXPECT_EQ(stopped, 1);
  EXPECT_EQ(one.elector, nullptr);
}

TEST_F(ElectorTest, ACallbackMayStopTheElector) {
  Candidate one(process, {.id = "one"});
  int stopped = 0;
  one.hook = [&](const std::string&) {
    one.elector->Stop(process.loop.Now() + kSoon, [&] { ++stopped; });
  };
  one.elector->Start();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(stopped, 1);
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  EXPECT_TRUE(Record()->released);
}

// At every moment of a life: as a follower, with calls under way, as leader, as a leader that has
// lost the store.
TEST_F(ElectorTest, DestroyingLeavesNoTimerAndNoCallback) {
  for (int moment = 0; moment < 200; ++moment) {
    SCOPED_TRACE(moment);
    SimScheduler world(static_cast<std::uint64_t>(moment));
    SimBucket truth(world, {});
    Process own(world, truth, "p");
    Candidate one(own, {.id = "one"});
    one.elector->Start();
    world.RunFor(Duration::Milliseconds(41) * (moment / 2));
    if (moment % 2 == 1) {
      own.store.link() = {.requests_lost = true, .answers_lost = true};
      world.RunFor(Duration::Milliseconds(2'100));
    }
    const std::vector<std::string> before = one.events;
    one.elector.reset();
    const std::uint64_t puts = truth.Count(SimMethod::kPut, "leader");
    // A request that was sent arrives all the same; its answer reaches nobody.
    int steps = 0;
    while (steps < 100 && world.Step()) ++steps;
    EXPECT_LE(steps, 2);
    EXPECT_LE(truth.Count(SimMethod::kPut, "leader"), puts + 1);
    EXPECT_EQ(one.events, before);
  }
}

TEST_F(ElectorTest, StopReleasesAndTellsNothingElse) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  bool stopped = false;
  one.elector->Stop(process.loop.Now() + kSoon, [&] { stopped = true; });
  EXPECT_FALSE(one.Leads()) << "leads while it gives the lease back";
  EXPECT_TRUE(Run([&] { return stopped; }, kSoon));
  EXPECT_TRUE(Record()->released);
  EXPECT_EQ(Record()->term, 1);
  EXPECT_EQ(Record()->last_updated, Timestamp::GoZero());
  EXPECT_LE(Drain(), 1) << "something still runs";
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
}

TEST_F(ElectorTest, StopReleasesEvenIfTheLeaseObjectHasVanished) {
  Candidate zero(other, {.id = "zero"});
  Lead(zero);
  zero.elector->StepDown();
  Candidate one(process, {.id = "one"});
  Lead(one);
  bucket.EraseByHand(kShardKey);
  bool stopped = false;
  one.elector->Stop(process.loop.Now() + kSoon, [&] { stopped = true; });
  EXPECT_TRUE(Run([&] { return stopped; }, kSoon));
  ASSERT_TRUE(Record());
  EXPECT_TRUE(Record()->released);
  EXPECT_EQ(Record()->leader_id, "one");
  EXPECT_THAT(one.events, ElementsAre("acquired 2")) << "an alarm after Stop";
}

TEST_F(ElectorTest, StopOfAFollowerWritesNothing) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  Candidate two(other, {.id = "two"});
  two.elector->Start();
  scheduler.RunFor(kSoon);
  bool stopped = false;
  two.elector->Stop(other.loop.Now() + kSoon, [&] { stopped = true; });
  EXPECT_TRUE(Run([&] { return stopped; }, kSoon));
  EXPECT_EQ(Record()->leader_id, "one");
  EXPECT_FALSE(Record()->released);
}

TEST_F(ElectorTest, StopEndsInTimeWhenTheStoreIsGone) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  process.store.link() = {.requests_lost = true, .answers_lost = true};
  const Instant by = process.loop.Now() + Duration::Seconds(5);
  std::optional<Instant> stopped;
  one.elector->Stop(by, [&] { stopped = process.loop.Now(); });
  scheduler.RunFor(Duration::Minutes(1));
  ASSERT_TRUE(stopped);
  EXPECT_EQ(*stopped, by);
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
}

// The process stood still over its deadline, and is told to stop before any timer has run.
TEST_F(ElectorTest, StopAfterAnUnnoticedDeadlineTellsOnlyThatItStopped) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  process.loop.Pause();
  scheduler.RunFor(kTimings.lease);
  int stopped = 0;
  one.elector->Stop(process.loop.Now() + kSoon, [&] { ++stopped; });
  process.loop.Resume();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(stopped, 1);
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  EXPECT_TRUE(Record()->released);
}

TEST_F(ElectorTest, StepDownReleasesAndGivesOthersATurn) {
  Candidate one(process, {.id = "one"});
  Candidate two(other, {.id = "two"});
  Lead(one);
  two.elector->Start();
  scheduler.RunFor(kSoon);
  one.elector->StepDown();
  EXPECT_FALSE(one.Leads());
  EXPECT_TRUE(Run([&] { return two.Leads(); }, kTimings.renew * 2));
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  EXPECT_THAT(two.events, ElementsAre("acquired 2"));
}

TEST_F(ElectorTest, WhoSteppedDownLeavesTheLeaseAloneEvenWhenNobodyElseWantsIt) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  one.elector->StepDown();
  ASSERT_TRUE(Run([&] { return Record()->released; }, kSoon));
  scheduler.RunFor(Duration::Seconds(9));
  EXPECT_TRUE(Record()->released);
  EXPECT_TRUE(Run([&] { return one.Leads(); }, Duration::Seconds(15)));
  EXPECT_THAT(one.events, ElementsAre("acquired 1", "acquired 2"));
}

TEST_F(ElectorTest, StepDownAfterAnUnnoticedDeadlineCallsNothingFromInside) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  process.loop.Pause();
  scheduler.RunFor(kTimings.lease);
  one.elector->StepDown();
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  EXPECT_FALSE(one.Leads());
}

TEST_F(ElectorTest, RU4_MayStartIsFalseAtTheDeadlineWithoutATimerHavingFired) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  const Instant deadline = one.elector->machine().deadline();
  const Duration bound = Duration::Seconds(3);
  process.loop.Pause();  // No timer of the process runs from here on; its clock does.
  scheduler.RunUntil(deadline - bound - Duration::Nanoseconds(1));
  EXPECT_TRUE(one.elector->MayStart(bound));
  scheduler.RunUntil(deadline - bound);
  EXPECT_FALSE(one.elector->MayStart(bound));
  scheduler.RunUntil(deadline - Duration::Nanoseconds(1));
  EXPECT_TRUE(one.elector->Leads());
  scheduler.RunUntil(deadline);
  EXPECT_FALSE(one.elector->Leads());
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  process.loop.Resume();
  scheduler.RunFor({});
  EXPECT_THAT(one.events, ElementsAre("acquired 1", "deadline"));
}

// The deadline counts from before the renewal was sent, whenever its answer comes.
TEST_F(ElectorTest, RU4_TheDeadlineCountsFromTheSendingOfTheConfirmedWrite) {
  Candidate one(process, {.id = "one"});
  process.store.faults().latency_min = Duration::Milliseconds(700);
  process.store.faults().latency_max = Duration::Milliseconds(700);
  std::optional<Instant> applied;
  bucket.set_observer([&](const sim::SimChange& change) { applied = change.at; });
  Lead(one);
  ASSERT_TRUE(applied);
  // The answer takes time as well, so an elector that counts from it would be later by both.
  EXPECT_LT(one.elector->machine().deadline(), *applied + kTimings.lease - kTimings.margin);
}

TEST_F(ElectorTest, AnAppliedWriteWithoutAVersionIsReadBack) {
  bucket.personality().tells_no_version = true;
  Candidate one(process, {.id = "one"});
  Lead(one);
  const std::uint64_t gets = bucket.Count(SimMethod::kGet, "leader");
  const std::uint64_t puts = bucket.Count(SimMethod::kPut, "leader");
  scheduler.RunFor(Duration::Minutes(2));
  EXPECT_TRUE(one.Leads());
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  const std::uint64_t renewals = bucket.Count(SimMethod::kPut, "leader") - puts;
  EXPECT_GE(renewals, 50U);
  EXPECT_NEAR(static_cast<double>(bucket.Count(SimMethod::kGet, "leader") - gets),
              static_cast<double>(renewals), 1.0);
}

TEST_F(ElectorTest, RU1_AnAcquisitionWhoseAnswerIsLostIsFoundByReadingBack) {
  Candidate one(process, {.id = "one"});
  bucket.set_observer([&](const sim::SimChange&) { process.store.link().answers_lost = true; });
  one.elector->Start();
  ASSERT_TRUE(Run([&] { return Record().has_value(); }, kSoon));
  scheduler.RunFor(kSoon / 2);
  EXPECT_THAT(one.events, IsEmpty()) << "leads without a confirmation";
  process.store.link().answers_lost = false;
  bucket.set_observer({});
  EXPECT_TRUE(Run([&] { return one.Leads(); }, Duration::Seconds(3)));
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  EXPECT_EQ(bucket.Count(SimMethod::kPut, "leader"), 1U) << "sent again blindly";
}

TEST_F(ElectorTest, TwoCandidatesHaveOneLeaderAtATime) {
  Candidate one(process, {.id = "one"});
  Candidate two(other, {.id = "two"});
  one.elector->Start();
  two.elector->Start();
  const bool both = Run([&] { return one.Leads() && two.Leads(); }, Duration::Minutes(5));
  EXPECT_FALSE(both);
  EXPECT_NE(one.Leads(), two.Leads());
}

TEST_F(ElectorTest, F10_TwoProcessesOfOneIdAreRivals) {
  Candidate one(process, {.id = "same"});
  Lead(one);
  Candidate two(other, {.id = "same", .bucket = BucketAge::kUsed});
  two.elector->Start();
  EXPECT_FALSE(Run([&] { return two.Leads(); }, Duration::Minutes(2)));
  EXPECT_TRUE(one.Leads());
}

// Over seeds: phases of polling, jitter and latency differ.
TEST_F(ElectorTest, AReleasedLeaseIsTakenAtOnceAndADeadOnesWithinTheBound) {
  Duration longest;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    SimScheduler world(seed);
    SimBucket truth(world, {});
    auto first = std::make_unique<Process>(world, truth, "a");
    Process second(world, truth, "b");
    Process third(world, truth, "c");
    auto one = std::make_unique<Candidate>(*first, Candidate::Config{.id = "one"});
    Candidate two(second, {.id = "two"});
    Candidate three(third, {.id = "three"});
    one->elector->Start();
    ASSERT_TRUE(world.RunUntilTrue([&] { return one->Leads(); }, kSoon));
    one->elector->TakenOver();
    two.elector->Start();
    world.RunFor(Duration::Seconds(3) + world.prng().UpTo(kTimings.renew));

    bool stopped = false;
    one->elector->Stop(first->loop.Now() + kSoon, [&] { stopped = true; });
    ASSERT_TRUE(world.RunUntilTrue([&] { return stopped; }, kSoon));
    // One poll, the jitter, and three storage calls of 100 ms at most.
    ASSERT_TRUE(world.RunUntilTrue([&] { return two.Leads(); },
                                   (kTimings.renew * 3 / 2) + Duration::Milliseconds(300)));
    two.elector->TakenOver();
    one.reset();
    first.reset();

    three.elector->Start();
    world.RunFor(Duration::Seconds(3) + world.prng().UpTo(kTimings.renew));
    const Instant death = world.now();
    two.elector.reset();
    ASSERT_TRUE(world.RunUntilTrue([&] { return three.Leads(); }, kTakeOverBound));
    longest = std::max(longest, world.now() - death);
    EXPECT_GE(world.now() - death, kTimings.lease - kTimings.renew);
    EXPECT_THAT(three.events, ElementsAre("acquired 3"));
  }
  // A store that answers leaves only lease, one poll and the jitter.
  EXPECT_LE(longest, kTimings.lease + (kTimings.renew * 3 / 2) + Duration::Milliseconds(300));
}

TEST_F(ElectorTest, ALeaderThatIsCutOffStopsBeforeAnotherBegins) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    SimScheduler world(seed);
    SimBucket truth(world, {});
    Process first(world, truth, "a");
    Process second(world, truth, "b");
    Candidate one(first, {.id = "one"});
    Candidate two(second, {.id = "two"});
    one.elector->Start();
    ASSERT_TRUE(world.RunUntilTrue([&] { return one.Leads(); }, kSoon));
    one.elector->TakenOver();
    two.hook = [&](const std::string&) { two.elector->TakenOver(); };
    two.elector->Start();
    world.RunFor(world.prng().UpTo(Duration::Seconds(6)));
    first.store.link() = {.requests_lost = seed % 3 != 1, .answers_lost = seed % 3 != 0};
    // With one-way loss writes still land, so only a full cut makes room for another.
    const bool both =
        world.RunUntilTrue([&] { return one.Leads() && two.Leads(); }, Duration::Minutes(3));
    EXPECT_FALSE(both);
    EXPECT_THAT(one.events, testing::Contains("deadline"));
    EXPECT_TRUE(seed % 3 != 2 || two.Leads());
  }
}

// Shard and cluster leadership are two keys and nothing else.
TEST_F(ElectorTest, ShardAndClusterAreTwoElectionsOfOneProcess) {
  Candidate shard(process, {.id = "one"});
  Candidate cluster(process, {.id = "one", .key = kClusterKey});
  Lead(shard);
  Lead(cluster);
  Candidate other_shard(other, {.id = "two"});
  Candidate other_cluster(other, {.id = "two", .key = kClusterKey});
  other_shard.elector->Start();
  other_cluster.elector->Start();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_TRUE(shard.Leads() && cluster.Leads());

  cluster.elector->StepDown();
  EXPECT_TRUE(Run([&] { return other_cluster.Leads(); }, kTimings.renew * 2));
  other_cluster.elector->TakenOver();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_TRUE(shard.Leads() && other_cluster.Leads());
  EXPECT_FALSE(cluster.Leads() || other_shard.Leads());
  EXPECT_EQ(Record(kShardKey)->leader_id, "one");
  EXPECT_EQ(Record(kClusterKey)->leader_id, "two");
  EXPECT_THAT(shard.events, ElementsAre("acquired 1"));
  EXPECT_THAT(other_shard.events, IsEmpty());
}

TEST_F(ElectorTest, RU9_AClockThatWentBackEndsLeadershipInATurnOfItsOwn) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  scheduler.RunFor(Duration::Minutes(1));
  const std::string incarnation = one.elector->machine().incarnation();
  process.loop.SetClock(process.loop.Now() - Duration::Seconds(40));
  EXPECT_FALSE(one.elector->MayStart(Duration()));
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  scheduler.RunFor({});
  EXPECT_THAT(one.events, ElementsAre("acquired 1", "restored"));
  EXPECT_NE(one.elector->machine().incarnation(), incarnation);
}

// By its own timers it would look forty seconds later, when the clock is where it was.
TEST_F(ElectorTest, RU9_WhoHasNothingToDoNoticesThatItsClockWentBack) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  scheduler.RunFor(Duration::Minutes(1));
  process.loop.SetClock(process.loop.Now() - Duration::Seconds(40));
  scheduler.RunFor(kTimings.renew);
  EXPECT_THAT(one.events, ElementsAre("acquired 1", "restored"));
}

TEST_F(ElectorTest, RU9_AClockThatWentBackIsKnownBeforeAnythingElseRuns) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  scheduler.RunFor(Duration::Minutes(1));
  process.loop.SetClock(process.loop.Now() - Duration::Seconds(40));
  std::vector<std::string> known;
  process.loop.Post([&] { known = one.events; });
  scheduler.RunFor({});
  EXPECT_THAT(known, ElementsAre("acquired 1", "restored"));
}

TEST_F(ElectorTest, RU9_AFollowerWhoseClockWentBackWatchesTheLeaseOn) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  Candidate two(other, {.id = "two"});
  two.elector->Start();
  scheduler.RunFor(Duration::Minutes(1));
  other.loop.SetClock(other.loop.Now() - Duration::Seconds(40));
  one.elector.reset();
  EXPECT_TRUE(Run([&] { return two.Leads(); }, kTimings.lease + kTimings.renew * 2));
}

TEST_F(ElectorTest, RU9_AnotherBootEndsLeadershipBeforeTheNextEffect) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  const std::string incarnation = one.elector->machine().incarnation();
  process.boot_id = "second";
  EXPECT_FALSE(one.elector->MayStart(Duration()));
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  scheduler.RunFor({});
  EXPECT_THAT(one.events, ElementsAre("acquired 1", "restored"));
  EXPECT_NE(one.elector->machine().incarnation(), incarnation);
  // Its own record is a stranger's now.
  EXPECT_FALSE(Run([&] { return one.Leads(); }, kTimings.lease - Duration::Seconds(1)));
  EXPECT_TRUE(Run([&] { return one.Leads(); }, Duration::Seconds(5)));
}

TEST_F(ElectorTest, RU9_AnotherBootIsNoticedWithoutAnyEffect) {
  Candidate one(process, {.id = "one"});
  Lead(one);
  process.boot_id = "second";
  scheduler.RunFor(kTimings.renew);
  EXPECT_THAT(one.events, ElementsAre("acquired 1", "restored"));
}

TEST_F(ElectorTest, AnOwnerThatDoesNotTakeOverLosesTheLeaseAndItIsReleased) {
  Candidate one(process, {.id = "one"});
  one.elector->Start();
  ASSERT_TRUE(Run([&] { return one.Leads(); }, kSoon));
  scheduler.RunFor(kTimings.take_over_limit - Duration::Seconds(1));
  EXPECT_THAT(one.events, ElementsAre("acquired 1"));
  scheduler.RunFor(Duration::Seconds(2));
  EXPECT_THAT(one.events, ElementsAre("acquired 1", "take-over-failed"));
  EXPECT_TRUE(Record()->released);
}

TEST_F(ElectorTest, ACorruptRecordRaisesAnAlarmAndIsTakenAfterAFullLease) {
  bucket.SetByHand(kShardKey, "{\"rubbish\":");
  Candidate one(process, {.id = "one"});
  one.elector->Start();
  scheduler.RunFor(kTimings.lease - Duration::Seconds(1));
  EXPECT_THAT(one.events, ElementsAre("lease_corrupt"));
  EXPECT_TRUE(Run([&] { return one.Leads(); }, Duration::Seconds(3)));
}

TEST_F(ElectorTest, ADeadFollowerCostsTheStoreNothing) {
  Candidate one(process, {.id = "one"});
  one.elector->Start();
  scheduler.RunFor(Duration::Seconds(20));
  one.elector.reset();
  scheduler.RunFor(Duration::Seconds(1));
  const std::uint64_t requests = Requests();
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(Requests(), requests);
}

}  // namespace
}  // namespace nstance

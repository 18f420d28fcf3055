// The group source over the simulated store, disk and loop: what its header and the machine's
// promise, one test each. The bucket's own record of changes is the judge of every answer. Rivals
// and faults over seeds come last.
#include "server/group_source.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/instance_config/config_hash.h"
#include "test/core/instance_config/config_builder.h"
#include "test/server/server_world.h"

namespace nstance {
namespace {

using config::DynamicGroups;
using sim::SimMethod;
using test::Group;
using test::TenantNamed;
using testing::HasSubstr;
using testing::IsEmpty;

const ObjectKey kKey = *ObjectKey::Parse("groups/local-a.jsonc");

ConfigRef MakeConfig(std::optional<int> static_size = std::nullopt) {
  config::Config config = test::SmallConfig();
  config.defaults.userdata = config::UserData{.content = "#!/bin/sh\n"};
  if (static_size) {
    config.groups[DefaultTenant()][Group("fixed")] = {.template_name = "worker",
                                                      .size = static_size};
  }
  return std::make_shared<const ConfigSnapshot>(
      ConfigSnapshot{.config = std::move(config), .etag = "e"});
}

UpsertRequest Sized(std::int64_t size) { return {.template_name = "worker", .size = size}; }

struct Leader : test::Process {
  explicit Leader(test::World& world, std::int64_t epoch = 1, sim::SimStoreFaults faults = {})
      : Process(world, "p" + std::to_string(epoch), faults),
        source(std::make_unique<GroupSource>(
            GroupSource::Deps{.loop = loop,
                              .store = store,
                              .cache = folder,
                              .random = random,
                              .jitter = jitter,
                              .log = log},
            GroupSource::Options{.key = kKey, .epoch = epoch},
            GroupSource::Owner{.took_over = [this] { took_over = true; },
                               .lost = [this](std::int64_t by) { lost = by; },
                               .published = [this](const GroupsRef& g) { published.push_back(g); },
                               .may_start = [this](Duration) { return may_start; },
                               .seq = [] { return 7; }})) {}

  void Begin(test::World& world, const ConfigRef& config = MakeConfig()) {
    source->Start();
    ASSERT_TRUE(world.Run([this] { return took_over; }));
    source->SetConfig(config);
    ASSERT_FALSE(published.empty());
  }
  // Numbers the answers by the order of the calls.
  void Upsert(std::string_view group, UpsertRequest request, std::string id = "",
              const TenantId& tenant = DefaultTenant()) {
    const std::size_t at = answers.size();
    answers.emplace_back();
    source->Upsert({.tenant = tenant,
                    .key = Group(group),
                    .request = std::move(request),
                    .request_id = std::move(id)},
                   [this, at](Result<GroupAnswer> answer) { answers[at] = std::move(answer); });
  }
  void Delete(std::string_view group) {
    const std::size_t at = answers.size();
    answers.emplace_back();
    source->Delete({.tenant = DefaultTenant(), .key = Group(group)},
                   [this, at](Result<GroupAnswer> answer) { answers[at] = std::move(answer); });
  }
  void Refresh(ConfigRef config) {
    const std::size_t at = answers.size();
    answers.emplace_back();
    source->Refresh(std::move(config),
                    [this, at](Result<GroupAnswer> answer) { answers[at] = std::move(answer); });
  }
  [[nodiscard]] bool answered() const {
    return std::ranges::all_of(answers, [](const auto& answer) { return answer.has_value(); });
  }
  [[nodiscard]] const Result<GroupAnswer>& last() const { return *answers.back(); }

  bool took_over = false;
  bool may_start = true;
  std::optional<std::int64_t> lost;
  std::vector<GroupsRef> published;
  std::vector<std::optional<Result<GroupAnswer>>> answers;
  std::unique_ptr<GroupSource> source;
};

class GroupSourceTest : public testing::Test {
 public:
  void Settle(Leader& who) {
    ASSERT_TRUE(world.Run([&] { return who.answered(); }, Duration::Minutes(2)));
  }
  [[nodiscard]] config::DynamicGroupsResult Stored() const {
    return config::DecodeDynamicGroups(world.bucket.Find(kKey)->bytes);
  }
  [[nodiscard]] int StoredSize(std::string_view group) const {
    return *Stored().groups->at(DefaultTenant()).at(Group(group)).layer.size;
  }
  [[nodiscard]] std::uint64_t Puts() const { return world.bucket.Count(SimMethod::kPut, "groups"); }

  test::World world;
  Leader leader{world};
};

TEST_F(GroupSourceTest, TakeOverCreatesAnAbsentObjectEmptyWithOurStamp) {
  leader.Begin(world);
  ASSERT_TRUE(Stored().stamp);
  EXPECT_EQ(Stored().stamp->epoch, 1);
  EXPECT_EQ(Stored().stamp->seq, 7);
  EXPECT_THAT(*Stored().groups, IsEmpty());
}

TEST_F(GroupSourceTest, TakeOverKeepsWhatIsThereAndStampsIt) {
  world.bucket.SetByHand(kKey, R"({"default": {"a": {"template": "worker", "size": 4, "x": 1}}})");
  leader.Begin(world);
  EXPECT_EQ(Stored().stamp->epoch, 1);
  EXPECT_EQ(StoredSize("a"), 4);
  EXPECT_THAT(world.bucket.Find(kKey)->bytes, HasSubstr("\"x\": 1"));
  EXPECT_EQ(leader.published.back()->Find(DefaultTenant(), Group("a"))->group.size(), 4);
  EXPECT_EQ(world.disk.files["groups.jsonc"], world.bucket.Find(kKey)->bytes);
}

TEST_F(GroupSourceTest, F12_AnOldLeadersWriteLosesAndItLearnsWhoLeads) {
  leader.Begin(world);
  Leader next(world, 2);
  next.Begin(world);
  leader.Upsert("a", Sized(3));
  ASSERT_TRUE(world.Run([&] { return leader.lost.has_value(); }));
  EXPECT_EQ(leader.lost, 2);
  EXPECT_EQ(leader.last().error().code, Code::kUnavailable);
  EXPECT_THAT(*Stored().groups, IsEmpty());
  // Nothing else happens.
  leader.Upsert("a", Sized(3));
  Settle(leader);
  EXPECT_EQ(leader.last().error().code, Code::kUnavailable);
}

TEST_F(GroupSourceTest, RU11_AnUpsertIsAnsweredWhenTheStoreHoldsIt) {
  leader.Begin(world);
  leader.Upsert("a", Sized(3));
  EXPECT_FALSE(leader.answered()) << "answered from inside the call";
  Settle(leader);
  ASSERT_TRUE(leader.last()) << leader.last().error().message;
  EXPECT_TRUE(leader.last()->changed);
  EXPECT_EQ(leader.last()->groups, leader.published.back());
  EXPECT_EQ(StoredSize("a"), 3);
  const MergedGroup* group = leader.source->groups()->Find(DefaultTenant(), Group("a"));
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->group.size(), 3);
  EXPECT_FALSE(group->frozen);
  EXPECT_EQ(group->runtime_hash, RuntimeConfigHash(*group->config));
  EXPECT_EQ(group->infra_hash, InfraConfigHash(*group->config));
}

TEST_F(GroupSourceTest, EverythingSubmittedInOneTurnIsOneWrite) {
  leader.Begin(world);
  const std::uint64_t before = Puts();
  for (int i = 0; i < 50; ++i) leader.Upsert("g" + std::to_string(i), Sized(i));
  Settle(leader);
  EXPECT_EQ(Puts(), before + 1);
  EXPECT_EQ(Stored().groups->at(DefaultTenant()).size(), 50U);
}

TEST_F(GroupSourceTest, WhatWaitsDuringAWriteSharesTheNext) {
  leader.Begin(world);
  leader.Upsert("a", Sized(1));
  const std::uint64_t before = Puts();
  ASSERT_TRUE(world.Run([&] { return Puts() == before + 1; }));
  for (int i = 0; i < 20; ++i) leader.Upsert("b", Sized(i));
  Settle(leader);
  EXPECT_EQ(Puts(), before + 2);
  EXPECT_EQ(StoredSize("b"), 19);
}

TEST_F(GroupSourceTest, EachIsJudgedOnTheMergedBaseAndABadOneSpoilsNothing) {
  leader.Begin(world);
  leader.Upsert("a", Sized(1));
  leader.Upsert("a", {.template_name = "nonsense"});
  leader.Upsert("a", {.size = 5});
  leader.Upsert("b", {.size = 5});
  Settle(leader);
  EXPECT_TRUE(*leader.answers[0]);
  EXPECT_EQ((*leader.answers[1]).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(*leader.answers[2]) << "the group of the first is there";
  EXPECT_EQ((*leader.answers[3]).error().code, Code::kInvalidArgument) << "a new one needs more";
  EXPECT_EQ(StoredSize("a"), 5);
}

TEST_F(GroupSourceTest, ARequestWithoutEffectIsNotWritten) {
  leader.Begin(world);
  leader.Upsert("a", Sized(1));
  Settle(leader);
  const std::uint64_t before = Puts();
  leader.Upsert("a", Sized(1));
  leader.Delete("unknown");
  Settle(leader);
  EXPECT_FALSE((*leader.answers[1])->changed);
  EXPECT_FALSE(leader.last()->changed);
  EXPECT_EQ(Puts(), before);
}

TEST_F(GroupSourceTest, ARequestIdIsAppliedOnceAndBelongsToItsContent) {
  leader.Begin(world);
  leader.Upsert("a", Sized(1), "id1");
  leader.Upsert("a", Sized(1), "id1");
  leader.Upsert("a", Sized(9), "id1");
  leader.Upsert("a", Sized(2), "id2");
  Settle(leader);
  EXPECT_TRUE((*leader.answers[0])->changed);
  EXPECT_FALSE((*leader.answers[1])->changed);
  EXPECT_EQ((*leader.answers[2]).error().code, Code::kAlreadyExists);
  EXPECT_EQ(StoredSize("a"), 2);
  leader.Upsert("a", Sized(1), "id1");
  Settle(leader);
  EXPECT_FALSE(leader.last()->changed);
  EXPECT_EQ(StoredSize("a"), 2) << "a repeat is not applied again";
  // Another group's are its own.
  leader.Upsert("b", Sized(9), "id1");
  Settle(leader);
  EXPECT_TRUE(leader.last()->changed);
}

TEST_F(GroupSourceTest, SixtyFourRequestIdsAreRemembered) {
  leader.Begin(world);
  for (int i = 0; i <= 64; ++i) leader.Upsert("a", Sized(i), "id" + std::to_string(i));
  Settle(leader);
  leader.Upsert("a", Sized(1), "id1");
  Settle(leader);
  EXPECT_FALSE(leader.last()->changed);
  leader.Upsert("a", Sized(0), "id0");
  Settle(leader);
  EXPECT_TRUE(leader.last()->changed) << "the oldest was forgotten";
}

TEST_F(GroupSourceTest, AnOlderFenceIsRefusedAndANewerOneIsAChange) {
  leader.Begin(world);
  UpsertRequest request = Sized(1);
  request.fence = config::Fence{.lease_uid = "u", .transitions = 5};
  leader.Upsert("a", request);
  request.fence->transitions = 4;
  leader.Upsert("a", request);
  request.fence->transitions = 6;
  leader.Upsert("a", request);
  Settle(leader);
  EXPECT_EQ((*leader.answers[1]).error().code, Code::kFailedPrecondition);
  EXPECT_TRUE((*leader.answers[2])->changed);
  EXPECT_EQ(Stored().groups->at(DefaultTenant()).at(Group("a")).fence->transitions, 6);
}

TEST_F(GroupSourceTest, RemovalsAreStoredWithTheSize) {
  leader.Begin(world);
  UpsertRequest request = Sized(1);
  request.remove_instance_ids = {test::SomeId(1).text()};
  leader.Upsert("a", request);
  Settle(leader);
  const GroupsRef groups = leader.source->groups();
  EXPECT_THAT(groups->Find(DefaultTenant(), Group("a"))->group.remove,
              testing::ElementsAre(test::SomeId(1)));
}

TEST_F(GroupSourceTest, DeleteRemovesTheLayerAndAStaticGroupGetsItsValuesBack) {
  leader.Begin(world, MakeConfig(3));
  leader.Upsert("fixed", {.size = 8});
  leader.Upsert("a", Sized(1));
  Settle(leader);
  EXPECT_EQ(leader.source->groups()->Find(DefaultTenant(), Group("fixed"))->group.size(), 8);
  leader.Delete("fixed");
  leader.Delete("a");
  Settle(leader);
  const GroupsRef groups = leader.source->groups();
  EXPECT_EQ(groups->Find(DefaultTenant(), Group("fixed"))->group.size(), 3);
  EXPECT_EQ(groups->Find(DefaultTenant(), Group("a")), nullptr);
  EXPECT_THAT(*Stored().groups, IsEmpty()) << "empty tenants are removed";
}

TEST_F(GroupSourceTest, F5_APersonsEditSurvivesAndIsTheBase) {
  leader.Begin(world);
  world.bucket.SetByHand(kKey, R"({"default": {"theirs": {"template": "worker", "size": 2}}})");
  leader.Upsert("ours", Sized(1));
  Settle(leader);
  ASSERT_TRUE(leader.last()) << leader.last().error().message;
  EXPECT_EQ(StoredSize("theirs"), 2);
  EXPECT_EQ(StoredSize("ours"), 1);
}

TEST_F(GroupSourceTest, F5_AfterFourRetriesItIsAborted) {
  // An editor who is always faster.
  int edits = 0;
  test::World busy(2);
  Leader second(busy);
  second.Begin(busy);
  second.Upsert("ours", Sized(1));
  while (!second.answered() && edits < 5'000) {
    busy.bucket.SetByHand(kKey, "{ } // " + std::to_string(++edits));
    busy.scheduler.RunFor(Duration::Milliseconds(2));
  }
  ASSERT_TRUE(second.answered());
  EXPECT_EQ(second.last().error().code, Code::kAborted);
  EXPECT_EQ(busy.bucket.Count(SimMethod::kPut, "groups"), 1U + 1U + GroupMachine::kMaxRetries);
}

TEST_F(GroupSourceTest, F3_AnUnreachableStoreIsToldAndNothingChanges) {
  leader.Begin(world);
  leader.store.faults().error_not_done = 10'000;
  leader.Upsert("a", Sized(1));
  Settle(leader);
  EXPECT_EQ(leader.last().error().code, Code::kUnavailable);
  EXPECT_EQ(leader.last().error().outcome, Outcome::kNotDone);
  leader.store.faults() = {};
  leader.Upsert("b", Sized(1));
  Settle(leader);
  EXPECT_TRUE(leader.last());
  EXPECT_FALSE(Stored().groups->at(DefaultTenant()).contains(Group("a")));
}

TEST_F(GroupSourceTest, F4_ALostAnswerIsReadBack) {
  leader.Begin(world);
  leader.store.faults().answer_lost = 10'000;
  leader.Upsert("a", Sized(1));
  world.scheduler.RunFor(Duration::Milliseconds(500));
  leader.store.faults() = {};
  Settle(leader);
  EXPECT_TRUE(leader.last());
  EXPECT_EQ(StoredSize("a"), 1);
}

TEST_F(GroupSourceTest, F4_AWriteInDoubtIsToldAsSuchAndKeptOutByAnotherWrite) {
  leader.Begin(world);
  // The write arrives half a minute late; until then nothing is answered.
  leader.store.faults() = {
      .applied_late = 10'000, .late_min = Duration::Seconds(60), .late_max = Duration::Seconds(60)};
  leader.Upsert("a", Sized(1));
  world.scheduler.RunFor(Duration::Milliseconds(10));
  leader.store.faults() = {};
  leader.store.link().requests_lost = true;
  Settle(leader);
  EXPECT_EQ(leader.last().error().outcome, Outcome::kMaybeDone);
  leader.store.link().requests_lost = false;
  world.scheduler.RunFor(Duration::Minutes(3));
  EXPECT_THAT(*Stored().groups, IsEmpty()) << "the late write lost";
  EXPECT_THAT(leader.source->groups()->dynamic, IsEmpty());
}

TEST_F(GroupSourceTest, RU4_NoWriteBeginsWithoutBudget) {
  leader.Begin(world);
  const std::uint64_t before = Puts();
  leader.may_start = false;
  leader.Upsert("a", Sized(1));
  Settle(leader);
  EXPECT_EQ(leader.last().error().code, Code::kUnavailable);
  EXPECT_EQ(Puts(), before);
}

TEST_F(GroupSourceTest, AnObjectThatDoesNotParseIsLeftAloneAndTheLastGoodCopyIsShown) {
  world.disk.files["groups.jsonc"] = R"({"default": {"a": {"template": "worker", "size": 4}}})";
  world.bucket.SetByHand(kKey, "{\n  nonsense");
  leader.Begin(world);
  ASSERT_TRUE(leader.source->groups()->dynamic_invalid);
  EXPECT_THAT(leader.source->groups()->dynamic_invalid->message,
              HasSubstr("groups/local-a.jsonc:2:3"));
  EXPECT_EQ(leader.source->groups()->Find(DefaultTenant(), Group("a"))->group.size(), 4);
  leader.Upsert("a", Sized(1));
  leader.Delete("a");
  Settle(leader);
  EXPECT_EQ((*leader.answers[0]).error().code, Code::kFailedPrecondition);
  EXPECT_THAT((*leader.answers[0]).error().message, HasSubstr(":2:3"));
  EXPECT_EQ(leader.last().error().code, Code::kFailedPrecondition);
  EXPECT_EQ(world.bucket.Find(kKey)->bytes, "{\n  nonsense");
  EXPECT_EQ(Puts(), 0U);
  // Repaired, it is found within a minute and stamped.
  world.bucket.SetByHand(kKey, R"({"default": {"b": {"template": "worker", "size": 2}}})");
  world.scheduler.RunFor(Duration::Seconds(62));
  EXPECT_FALSE(leader.source->groups()->dynamic_invalid);
  EXPECT_EQ(Stored().stamp->epoch, 1);
  EXPECT_EQ(StoredSize("b"), 2);
}

TEST_F(GroupSourceTest, WithoutACopyTheStaticGroupsAreShown) {
  world.bucket.SetByHand(kKey, "nonsense");
  leader.Begin(world, MakeConfig(3));
  EXPECT_TRUE(leader.source->groups()->dynamic_invalid);
  EXPECT_EQ(leader.source->groups()->Find(DefaultTenant(), Group("fixed"))->group.size(), 3);
}

TEST_F(GroupSourceTest, AnObjectThatVanishesWithGroupsInItDestroysNothing) {
  leader.Begin(world);
  leader.Upsert("a", Sized(4));
  Settle(leader);
  world.bucket.EraseByHand(kKey);
  leader.Upsert("b", Sized(1));
  Settle(leader);
  EXPECT_EQ(leader.last().error().code, Code::kFailedPrecondition);
  EXPECT_THAT(leader.last().error().message, HasSubstr("vanished"));
  EXPECT_EQ(leader.source->groups()->Find(DefaultTenant(), Group("a"))->group.size(), 4);
  world.bucket.SetByHand(kKey, "{}");
  leader.Refresh(MakeConfig());
  Settle(leader);
  EXPECT_TRUE(leader.last());
  EXPECT_EQ(leader.source->groups()->Find(DefaultTenant(), Group("a")), nullptr);
}

TEST_F(GroupSourceTest, RefreshReadsTheObjectAndChangesTheConfigurationInOneStep) {
  leader.Begin(world, MakeConfig(3));
  world.bucket.SetByHand(kKey, R"({"default": {"a": {"template": "worker", "size": 2}}})");
  const ConfigRef next = MakeConfig(5);
  const std::size_t before = leader.published.size();
  leader.Refresh(next);
  Settle(leader);
  ASSERT_EQ(leader.published.size(), before + 1);
  EXPECT_EQ(leader.published.back()->config, next);
  EXPECT_EQ(leader.published.back()->Find(DefaultTenant(), Group("fixed"))->group.size(), 5);
  EXPECT_EQ(leader.published.back()->Find(DefaultTenant(), Group("a"))->group.size(), 2);
}

TEST_F(GroupSourceTest, AStaticGroupThatLeavesTheFileLivesOnByItsDynamicLayer) {
  leader.Begin(world, MakeConfig(3));
  leader.Upsert("fixed", {.size = 8});
  Settle(leader);
  leader.Refresh(MakeConfig());
  Settle(leader);
  ASSERT_TRUE(leader.last());
  const MergedGroup* group = leader.source->groups()->Find(DefaultTenant(), Group("fixed"));
  ASSERT_NE(group, nullptr);
  EXPECT_FALSE(group->frozen);
  EXPECT_EQ(group->group.size(), 8);
  EXPECT_EQ(Stored().groups->at(DefaultTenant()).at(Group("fixed")).layer.template_name, "worker");
}

TEST_F(GroupSourceTest, ARefreshThatCannotReadChangesNothing) {
  const ConfigRef before = MakeConfig(3);
  leader.Begin(world, before);
  leader.store.link().requests_lost = true;
  leader.Refresh(MakeConfig(5));
  Settle(leader);
  EXPECT_EQ(leader.last().error().code, Code::kUnavailable);
  EXPECT_EQ(leader.source->groups()->config, before);
}

TEST_F(GroupSourceTest, TooManyThatWaitAreRefused) {
  leader.Begin(world);
  for (std::size_t i = 0; i <= GroupMachine::kMaxWaiting; ++i) leader.Upsert("a", Sized(1));
  Settle(leader);
  EXPECT_EQ(leader.last().error().code, Code::kResourceExhausted);
  EXPECT_TRUE(*leader.answers[0]);
}

TEST_F(GroupSourceTest, UnchangedGroupsAreSharedBetweenSnapshots) {
  leader.Begin(world, MakeConfig(3));
  leader.Upsert("a", Sized(1));
  Settle(leader);
  const GroupsRef first = leader.source->groups();
  leader.Upsert("b", Sized(1));
  Settle(leader);
  EXPECT_EQ(first->Find(DefaultTenant(), Group("a")),
            leader.source->groups()->Find(DefaultTenant(), Group("a")));
  EXPECT_EQ(first->Find(DefaultTenant(), Group("b")), nullptr) << "a snapshot does not change";
}

TEST(GroupEtagTest, IsThatOfTheGoImplementation) {
  EffectiveGroup group;
  group.is_static = true;
  group.layer = {.template_name = "test", .size = 2, .subnet_pool = test::PoolName("default")};
  EXPECT_EQ(GroupEtag(DefaultTenant(), Group("test"), group), "92a399085146e9001316d6dd31f887b7");
}

// Two leaders one after the other, a person who edits, a store with every fault. What was answered
// with success is in the store at that moment; nothing of an old epoch lands after a newer one's
// first write; in the end everybody who was answered agrees with what is stored.
class Rivals {
 public:
  explicit Rivals(std::uint64_t seed) : world(seed) {
    world.bucket.set_observer([this](const sim::SimChange& change) {
      if (change.after == nullptr) return;
      history.push_back(change.after->bytes);
      const auto stored = config::DecodeDynamicGroups(change.after->bytes);
      ASSERT_TRUE(stored.stamp);
      EXPECT_GE(stored.stamp->epoch, highest) << "I-1";
      highest = stored.stamp->epoch;
    });
  }

  void Work(Leader& leader, int changes) {
    Prng& prng = world.scheduler.prng();
    for (int i = 0; i < changes; ++i) {
      const auto size = prng.Between(0, 100);
      // A group of its own: of two changes of one group in one write only the later shows.
      const std::string group = "g" + std::to_string(next_group++);
      leader.source->Upsert(
          {.tenant = DefaultTenant(), .key = Group(group), .request = Sized(size)},
          [this, size, group](const Result<GroupAnswer>& answer) {
            if (answer) Confirm(group, size);
          });
      world.scheduler.RunFor(prng.UpTo(Duration::Milliseconds(300)));
    }
  }

  // I-8: looked up in the history of the object, since another may have written since.
  void Confirm(const std::string& group, std::int64_t size) {
    ++confirmed;
    bool seen = false;
    for (const std::string& bytes : history) {
      const auto stored = config::DecodeDynamicGroups(bytes);
      const auto tenant = stored.groups->find(DefaultTenant());
      if (tenant == stored.groups->end()) continue;
      const auto found = tenant->second.find(Group(group));
      seen = seen || (found != tenant->second.end() && found->second.layer.size == size);
    }
    EXPECT_TRUE(seen) << group << " " << size;
  }

  test::World world;
  std::int64_t highest = 0;
  int confirmed = 0;
  int next_group = 0;
  std::vector<std::string> history;
};

TEST(GroupSourceProperty, OverSeedsSuccessIsDurableAndOldLeadersLose) {
  int confirmed = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Rivals rivals(seed);
    const sim::SimStoreFaults faults{.error_not_done = 500,
                                     .error_maybe_done = 500,
                                     .request_lost = 300,
                                     .answer_lost = 500,
                                     .applied_late = 300,
                                     .delivered_twice = 500};
    Leader old(rivals.world, 1, faults);
    old.source->Start();
    ASSERT_TRUE(rivals.world.Run([&] { return old.took_over; }, Duration::Minutes(5)));
    old.source->SetConfig(MakeConfig());
    rivals.Work(old, 15);
    Leader next(rivals.world, 2, faults);
    next.source->Start();
    rivals.Work(old, 10);
    ASSERT_TRUE(rivals.world.Run([&] { return next.took_over; }, Duration::Minutes(5)));
    next.source->SetConfig(MakeConfig());
    rivals.Work(next, 15);
    rivals.Work(old, 5);
    old.store.faults() = {};
    next.store.faults() = {};
    rivals.world.scheduler.RunFor(Duration::Minutes(30));
    // Calm: what the leader shows is what is stored.
    next.source->Refresh(MakeConfig(), [](const Result<GroupAnswer>&) {});
    rivals.world.scheduler.RunFor(Duration::Minutes(1));
    const auto stored = config::DecodeDynamicGroups(rivals.world.bucket.Find(kKey)->bytes);
    EXPECT_EQ(next.source->groups()->dynamic, *stored.groups);
    EXPECT_FALSE(next.lost);
    confirmed += rivals.confirmed;
  }
  EXPECT_GT(confirmed, 400) << "the faults leave something to look at";
}

}  // namespace
}  // namespace nstance

// The configuration source over the simulated store, disk and loop: what its header promises, one
// test each; then faults over seeds.
#include "server/config_source.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/config_restart.h"
#include "test/server/server_world.h"

namespace nstance {
namespace {

using sim::SimMethod;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ObjectKey kKey = *ObjectKey::Parse("config/local-a.jsonc");
const ObjectKey kOther = *ObjectKey::Parse("shard/local-a/config.jsonc");
const std::string kGood(config::kCompleteExample);
const std::string kTen = test::ExampleWith("\"size\": 3", "\"size\": 10");

struct Server : test::Process {
  explicit Server(test::World& world, sim::SimStoreFaults faults = {},
                  std::vector<ConfigSource::Place> places = {{.key = kKey}})
      : Process(world, "p", faults),
        source({.loop = loop, .store = store, .cache = folder, .jitter = jitter, .log = log},
               {.places = std::move(places), .shard = *ShardId::Parse("local-a")},
               {.loaded = [this](const ConfigRef& config) { loaded.push_back(config); },
                .status_changed = [this] { ++changes; }}) {}

  void Refresh() {
    source.Refresh([this](Result<ConfigSource::Reload> r) { answers.push_back(std::move(r)); });
  }
  void LoadNow() {
    source.LoadNow([this](Result<ConfigSource::Reload> r) { answers.push_back(std::move(r)); });
  }
  [[nodiscard]] ConfigStanding standing() const { return source.status().standing; }

  std::vector<ConfigRef> loaded;
  std::vector<Result<ConfigSource::Reload>> answers;
  int changes = 0;
  ConfigSource source;
};

int WorkersOf(const ConfigRef& config) {
  return *config->config.groups.at(DefaultTenant()).at(*GroupKey::Parse("workers")).size;
}

class ConfigSourceTest : public testing::Test {
 public:
  void Start() {
    server.source.Start();
    ASSERT_TRUE(world.Run([&] { return !server.loaded.empty(); }));
  }
  [[nodiscard]] std::uint64_t Gets() const { return world.bucket.Count(SimMethod::kGet, "config"); }

  test::World world;
  Server server{world};
};

TEST_F(ConfigSourceTest, TheStoredConfigurationIsLoadedAndKeptOnDisk) {
  world.bucket.SetByHand(kKey, kGood);
  Start();
  EXPECT_EQ(server.loaded[0], server.source.current());
  EXPECT_EQ(server.loaded[0]->origin, ConfigOrigin::kStorage);
  EXPECT_EQ(server.loaded[0]->etag, world.bucket.Find(kKey)->version.text);
  EXPECT_EQ(server.loaded[0]->size, kGood.size());
  EXPECT_EQ(server.loaded[0]->modified_at, test::WorldStart());
  EXPECT_EQ(server.standing(), ConfigStanding::kCurrent);
  EXPECT_EQ(world.disk.files["config.jsonc"], kGood);
}

TEST_F(ConfigSourceTest, TheFirstPlaceThatExistsCounts) {
  Server other(world, {}, {{.key = kKey}, {.key = kOther, .layout = config::Layout::kNstanceV2}});
  world.bucket.SetByHand(kOther, kGood);
  other.source.Start();
  ASSERT_TRUE(world.Run([&] { return !other.loaded.empty(); }));
  EXPECT_EQ(other.loaded[0]->layout, config::Layout::kNstanceV2);
  EXPECT_EQ(world.disk.files.count("config.nstance-v2.jsonc"), 1U);
  // It is kept to.
  world.bucket.SetByHand(kKey, kTen);
  other.LoadNow();
  ASSERT_TRUE(world.Run([&] { return !other.answers.empty(); }));
  EXPECT_FALSE(other.answers[0]->updated());
}

TEST_F(ConfigSourceTest, WithoutAnyItIsTriedEveryTenSeconds) {
  server.source.Start();
  world.scheduler.RunFor(Duration::Seconds(35));
  EXPECT_THAT(server.loaded, IsEmpty());
  EXPECT_EQ(server.standing(), ConfigStanding::kNone);
  EXPECT_THAT(server.source.status().last_error->message, HasSubstr("no such object"));
  EXPECT_EQ(Gets(), 4U);
  world.bucket.SetByHand(kKey, kGood);
  world.scheduler.RunFor(Duration::Seconds(11));
  EXPECT_EQ(server.loaded.size(), 1U);
}

TEST_F(ConfigSourceTest, AnInvalidOneIsToldWithItsPlaceAndTheCachedCopyServes) {
  world.disk.files["config.jsonc"] = kGood;
  world.bucket.SetByHand(kKey, test::ExampleWith("\"size\": 3", "\"size\": -3"));
  Start();
  EXPECT_EQ(server.loaded[0]->origin, ConfigOrigin::kCachedCopy);
  EXPECT_EQ(server.loaded[0]->etag, "");
  EXPECT_EQ(server.standing(), ConfigStanding::kInvalid);
  EXPECT_EQ(server.source.status().last_error->code, Code::kFailedPrecondition);
  EXPECT_THAT(server.source.status().last_error->message,
              testing::AllOf(testing::StartsWith("config/local-a.jsonc:"),
                             HasSubstr("groups.default.workers.size: -3")));
  // Storage is asked again until it has a valid one.
  world.bucket.SetByHand(kKey, kTen);
  ASSERT_TRUE(world.Run([&] { return server.loaded.size() == 2; }, Duration::Minutes(1)));
  EXPECT_EQ(WorkersOf(server.source.current()), 10);
  EXPECT_EQ(server.standing(), ConfigStanding::kCurrent);
}

TEST_F(ConfigSourceTest, AnUnreachableStoreMeansTheCachedCopyToo) {
  world.disk.files["config.jsonc"] = kGood;
  world.bucket.SetByHand(kKey, kTen);
  server.store.link().requests_lost = true;
  Start();
  EXPECT_EQ(server.loaded[0]->origin, ConfigOrigin::kCachedCopy);
  EXPECT_EQ(server.standing(), ConfigStanding::kUnreachable);
  server.store.link().requests_lost = false;
  ASSERT_TRUE(world.Run([&] { return server.loaded.size() == 2; }, Duration::Minutes(2)));
  EXPECT_EQ(WorkersOf(server.source.current()), 10);
}

TEST_F(ConfigSourceTest, ADamagedCopyIsNotUsed) {
  world.disk.files["config.jsonc"] = kGood.substr(0, 100);
  server.source.Start();
  world.scheduler.RunFor(Duration::Seconds(5));
  EXPECT_THAT(server.loaded, IsEmpty());
  EXPECT_EQ(server.standing(), ConfigStanding::kNone);
}

TEST_F(ConfigSourceTest, AFailedReloadLeavesWhatIsInForceAndNeverReadsTheCopy) {
  world.bucket.SetByHand(kKey, kGood);
  Start();
  world.disk.files["config.jsonc"] = kTen;
  world.bucket.SetByHand(kKey, "{");
  server.LoadNow();
  ASSERT_TRUE(world.Run([&] { return !server.answers.empty(); }));
  EXPECT_EQ(server.answers[0].error().code, Code::kFailedPrecondition);
  EXPECT_EQ(server.standing(), ConfigStanding::kInvalid);
  server.store.link().requests_lost = true;
  server.LoadNow();
  ASSERT_TRUE(world.Run([&] { return server.answers.size() == 2; }));
  EXPECT_EQ(server.answers[1].error().code, Code::kUnavailable);
  world.scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(server.loaded.size(), 1U);
  EXPECT_EQ(WorkersOf(server.source.current()), 3);
}

TEST_F(ConfigSourceTest, RefreshTellsBothEtagsAndUnchangedIsNotAnUpdate) {
  world.bucket.SetByHand(kKey, kGood);
  Start();
  const std::string before = server.source.current()->etag;
  world.bucket.SetByHand(kKey, kTen);
  server.Refresh();
  ASSERT_TRUE(world.Run([&] { return !server.answers.empty(); }));
  EXPECT_TRUE(server.answers[0]->updated());
  EXPECT_EQ(server.answers[0]->prev_etag, before);
  EXPECT_EQ(server.answers[0]->config, server.source.current());
  server.Refresh();
  ASSERT_TRUE(world.Run([&] { return server.answers.size() == 2; }));
  EXPECT_FALSE(server.answers[1]->updated());
  EXPECT_EQ(server.loaded.size(), 2U);
}

TEST_F(ConfigSourceTest, RefreshesWithinFiveSecondsShareOneReloadThatSeesEarlierUploads) {
  world.bucket.SetByHand(kKey, kGood);
  Start();
  server.Refresh();
  ASSERT_TRUE(world.Run([&] { return server.answers.size() == 1; }));
  const std::uint64_t gets = Gets();
  world.bucket.SetByHand(kKey, kTen);
  for (int i = 0; i < 20; ++i) server.Refresh();
  world.scheduler.RunFor(Duration::Seconds(4));
  EXPECT_EQ(Gets(), gets);
  world.scheduler.RunFor(Duration::Seconds(2));
  EXPECT_EQ(Gets(), gets + 1);
  ASSERT_EQ(server.answers.size(), 21U);
  EXPECT_EQ(WorkersOf(server.answers[20]->config), 10);
}

TEST_F(ConfigSourceTest, WhoAsksDuringALoadIsAnsweredByTheNext) {
  world.bucket.SetByHand(kKey, kGood);
  Start();
  server.LoadNow();
  ASSERT_TRUE(world.Run([&] { return Gets() == 2; }));
  world.bucket.SetByHand(kKey, kTen);
  server.LoadNow();
  ASSERT_TRUE(world.Run([&] { return server.answers.size() == 2; }));
  EXPECT_EQ(WorkersOf(server.answers[1]->config), 10);
}

TEST_F(ConfigSourceTest, AnotherShardOrClusterIsInvalid) {
  world.bucket.SetByHand(kKey, kGood);
  Start();
  server.source.ExpectCluster(*ClusterId::Parse("other"));
  server.LoadNow();
  ASSERT_TRUE(world.Run([&] { return !server.answers.empty(); }));
  EXPECT_THAT(server.answers[0].error().message, HasSubstr("other (its journal)"));
  world.bucket.SetByHand(kKey, test::ExampleWith("\"local-a\"", "\"local-b\""));
  server.LoadNow();
  ASSERT_TRUE(world.Run([&] { return server.answers.size() == 2; }));
  EXPECT_THAT(server.answers[1].error().message, HasSubstr("local-b"));
}

TEST_F(ConfigSourceTest, TheLeaderSeesThatTheObjectHasChangedAndDoesNotApplyIt) {
  world.bucket.SetByHand(kKey, kGood);
  Start();
  server.source.StartComparing();
  world.bucket.SetByHand(kKey, kTen);
  world.scheduler.RunFor(Duration::Seconds(59));
  EXPECT_FALSE(server.source.status().pending);
  world.scheduler.RunFor(Duration::Seconds(2));
  EXPECT_TRUE(server.source.status().pending);
  EXPECT_EQ(WorkersOf(server.source.current()), 3);
  EXPECT_EQ(world.bucket.Count(SimMethod::kHead, "config"), 1U);
  server.LoadNow();
  ASSERT_TRUE(world.Run([&] { return !server.answers.empty(); }));
  EXPECT_FALSE(server.source.status().pending);
}

TEST_F(ConfigSourceTest, ADiskThatFailsCostsNothing) {
  world.disk.broken = true;
  world.bucket.SetByHand(kKey, kGood);
  Start();
  world.scheduler.RunFor(Duration::Seconds(1));
  EXPECT_EQ(server.sink.last, "configuration not kept in the cache folder");
  EXPECT_EQ(server.standing(), ConfigStanding::kCurrent);
}

TEST_F(ConfigSourceTest, OverSeedsWhatIsInForceIsAlwaysOneOfTheUploads) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    test::World any(seed);
    any.disk.error = 2'000;
    Server busy(any, {.error_not_done = 2'000, .answer_lost = 2'000});
    busy.source.Start();
    busy.source.StartComparing();
    for (int i = 0; i < 10; ++i) {
      const bool good = any.scheduler.prng().Chance(2, 3);
      any.bucket.SetByHand(kKey, good ? (i % 2 == 0 ? kGood : kTen) : "{\"server\": 1}");
      busy.Refresh();
      any.scheduler.RunFor(any.scheduler.prng().UpTo(Duration::Seconds(20)));
    }
    any.bucket.SetByHand(kKey, kTen);
    busy.store.faults() = {};
    any.scheduler.RunFor(Duration::Minutes(1));
    const std::size_t answered = busy.answers.size();
    EXPECT_EQ(answered, 10U);
    busy.LoadNow();
    ASSERT_TRUE(any.Run([&] { return busy.answers.size() > answered; }));
    EXPECT_EQ(WorkersOf(busy.answers.back()->config), 10);
    for (const ConfigRef& config : busy.loaded) {
      EXPECT_THAT(WorkersOf(config), testing::AnyOf(3, 10));
    }
  }
}

TEST(NeedsRestartTest, NamesTheKeysThatAReloadDoesNotApply) {
  const config::Config was = *config::Load(kGood).config;
  config::Config now = was;
  EXPECT_THAT(NeedsRestart(was, now), IsEmpty());
  now.server.create_concurrency = 3;
  EXPECT_THAT(NeedsRestart(was, now), IsEmpty());
  now.server.bind.agent_addr.port = 1;
  now.server.leader_election.renew_interval = Duration::Seconds(1);
  EXPECT_THAT(NeedsRestart(was, now), ElementsAre("server.bind", "server.leader_election"));
}

}  // namespace
}  // namespace nstance

// Whose creation is next: by example, then fairness over seeds.
#include "core/fleet/creation_order.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "core/fleet/subnet.h"
#include "test/core/fleet/views.h"

namespace nstance::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

GroupName Of(const std::string& tenant, const std::string& group) {
  return {TenantId::Parse(tenant).value(), GroupKey::Parse(group).value()};
}

WaitingCreation Wait(std::uint32_t n, const GroupName& group, int priority = 5) {
  return {.id = Id(n), .group = group, .priority = priority, .since = At(n)};
}

TEST(CreationOrderTest, TenantsInTurnThenGroupsInTurn) {
  std::vector<WaitingCreation> waiting;
  for (std::uint32_t n = 1; n <= 4; ++n) waiting.push_back(Wait(n, Of("a", "x")));
  waiting.push_back(Wait(5, Of("a", "y")));
  waiting.push_back(Wait(6, Of("b", "x")));
  CreationTurns turns;
  const CreationPicks picks = turns.Pick(waiting, {}, {}, At(100));
  EXPECT_THAT(picks.start, ElementsAre(Id(1), Id(6), Id(5), Id(2), Id(3), Id(4)));
  EXPECT_THAT(picks.waits, IsEmpty());
}

TEST(CreationOrderTest, ReplacementsGoBeforeScaleUpThenTheOlder) {
  CreationTurns turns;
  const GroupName group = Of("a", "x");
  const CreationPicks picks =
      turns.Pick(std::vector{Wait(3, group), Wait(2, group), Wait(4, group, 3)}, {}, {}, At(100));
  EXPECT_THAT(picks.start, ElementsAre(Id(4), Id(2), Id(3)));
}

TEST(CreationOrderTest, ConcurrencyIsPerGroup) {
  CreationTurns turns;
  std::vector<WaitingCreation> waiting;
  for (std::uint32_t n = 1; n <= 4; ++n) waiting.push_back(Wait(n, Of("a", "x")));
  waiting.push_back(Wait(9, Of("a", "y")));
  const CreationPicks picks = turns.Pick(waiting, {{Of("a", "x"), 1}}, {.concurrency = 3}, At(100));
  EXPECT_THAT(picks.start, ElementsAre(Id(1), Id(9), Id(2)));
  EXPECT_THAT(picks.waits, ElementsAre(std::pair(Id(3), HoldCode::kCreateConcurrency),
                                       std::pair(Id(4), HoldCode::kCreateConcurrency)));
  EXPECT_EQ(picks.next_at, std::nullopt);
}

TEST(CreationOrderTest, TheRateLimitIsForTheShard) {
  CreationTurns turns;
  const CreationPace pace{.rate_limit = Duration::Seconds(10)};
  std::vector<WaitingCreation> waiting = {Wait(1, Of("a", "x")), Wait(2, Of("a", "x")),
                                          Wait(3, Of("b", "x"))};
  CreationPicks picks = turns.Pick(waiting, {}, pace, At(100));
  EXPECT_THAT(picks.start, ElementsAre(Id(1)));
  EXPECT_EQ(picks.next_at, At(110));
  EXPECT_EQ(picks.waits.size(), 2U);
  EXPECT_EQ(picks.waits[0].second, HoldCode::kCreateRateLimit);
  waiting.erase(waiting.begin());
  EXPECT_THAT(turns.Pick(waiting, {}, pace, At(109)).start, IsEmpty());
  EXPECT_THAT(turns.Pick(waiting, {}, pace, At(110)).start, ElementsAre(Id(3)));
}

TEST(CreationOrderTest, ACallInBackOffIsPassedOver) {
  CreationTurns turns;
  std::vector<WaitingCreation> waiting = {Wait(1, Of("a", "x")), Wait(2, Of("a", "x"))};
  waiting[0].not_before = At(105);
  const CreationPicks picks = turns.Pick(waiting, {}, {}, At(100));
  EXPECT_THAT(picks.start, ElementsAre(Id(2)));
  EXPECT_EQ(picks.next_at, At(105));
}

TEST(CreationOrderTest, EveryWaitingTenantGetsOneOfEveryRound) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Prng prng(seed);
    CreationTurns turns;
    const CreationPace pace{.rate_limit = Duration::Seconds(1), .concurrency = 1'000};
    std::vector<WaitingCreation> waiting;
    std::map<std::string, int> left;
    const auto tenants = static_cast<int>(prng.Between(2, 5));
    std::uint32_t n = 0;
    for (int t = 0; t < tenants; ++t) {
      const std::string tenant = "t" + std::to_string(t);
      const std::int64_t count = prng.Between(3, 20);
      for (std::int64_t i = 0; i < count; ++i) {
        waiting.push_back(Wait(++n, Of(tenant, "g" + std::to_string(prng.Below(3)))));
        ++left[tenant];
      }
    }
    // As long as all of them wait, each round of picks has every tenant once.
    for (std::int64_t round = 0; round < 3; ++round) {
      std::set<std::string> served;
      for (int t = 0; t < tenants; ++t) {
        const CreationPicks picks = turns.Pick(waiting, {}, pace, At(round * 100 + t));
        ASSERT_EQ(picks.start.size(), 1U);
        const auto picked = std::ranges::find(waiting, picks.start[0], &WaitingCreation::id);
        served.insert(picked->group.first.text());
        waiting.erase(picked);
      }
      ASSERT_EQ(served.size(), static_cast<std::size_t>(tenants)) << seed;
    }
  }
}

TEST(CreationOrderTest, IntentsAreOpenedAMinuteAheadOrTenTimesTheConcurrency) {
  EXPECT_EQ(OpenLimit({.rate_limit = Duration::Seconds(5)}, 0), 12);
  EXPECT_EQ(OpenLimit({.rate_limit = Duration::Seconds(5)}, 10), 2);
  EXPECT_EQ(OpenLimit({.rate_limit = Duration::Seconds(5)}, 50), 0);
  EXPECT_EQ(OpenLimit({.rate_limit = Duration::Minutes(5)}, 0), 1);
  EXPECT_EQ(OpenLimit({.concurrency = 10}, 0), 100);
}

TEST(CreationOrderTest, AGroupIsToppedUpWhenHalfOfItsPlacesAreFree) {
  EXPECT_EQ(OpenLimit({.concurrency = 10}, 50), 50);
  EXPECT_EQ(OpenLimit({.concurrency = 10}, 51), 0);
  EXPECT_EQ(OpenLimit({.concurrency = 10}, 100), 0);
  EXPECT_EQ(OpenLimit({.concurrency = 1}, 5), 5);
  EXPECT_EQ(OpenLimit({.concurrency = 1}, 6), 0);
}

TEST(CreationOrderTest, PlacesGoToTheTenantAndTheGroupWithTheFewest) {
  const std::vector<CreationDemand> demands = {
      {Of("a", "x"), 100, 0}, {Of("b", "x"), 2, 0}, {Of("a", "y"), 100, 1}, {Of("c", "x"), 5, 9}};
  EXPECT_THAT(ShareCreations(demands, 0), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(ShareCreations(demands, 1), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(ShareCreations(demands, 4), ElementsAre(2, 2, 0, 0));
  EXPECT_THAT(ShareCreations(demands, 5), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(ShareCreations(demands, 1'000), ElementsAre(100, 2, 100, 5));
  EXPECT_THAT(ShareCreations({}, 5), IsEmpty());
}

TEST(CreationOrderTest, NoPlaceIsLostAndNobodyGetsMoreThanWanted) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Prng prng(seed);
    std::vector<CreationDemand> demands;
    int wanted = 0;
    for (int t = 0; t < 3; ++t) {
      for (int g = 0; g < 3; ++g) {
        demands.push_back({Of("t" + std::to_string(t), "g" + std::to_string(g)),
                           static_cast<int>(prng.Below(6)), static_cast<int>(prng.Below(6))});
        wanted += demands.back().wanted;
      }
    }
    const auto places = static_cast<int>(prng.Below(60));
    const std::vector<int> given = ShareCreations(demands, places);
    int total = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      ASSERT_LE(given[i], demands[i].wanted);
      total += given[i];
    }
    ASSERT_EQ(total, std::min(places, wanted)) << seed;
  }
}

TEST(SubnetTest, TheFewestLiveInstancesThenTheName) {
  std::vector<SubnetView> subnets = {
      {.id = "b", .live = 1}, {.id = "a", .live = 1}, {.id = "c", .live = 0, .full = true}};
  EXPECT_EQ(ChooseSubnet(subnets), 1U);
  subnets[0].live = 0;
  EXPECT_EQ(ChooseSubnet(subnets), 0U);
  subnets[0].full = true;
  subnets[1].full = true;
  EXPECT_EQ(ChooseSubnet(subnets), std::nullopt);
  EXPECT_EQ(ChooseSubnet({}), std::nullopt);
}

}  // namespace
}  // namespace nstance::fleet

// What of a plan's holds is news: by example, then against a plain comparison of sets over seeds,
// with every allocation counted.
#include "core/fleet/hold_news.h"

#include <cstddef>
#include <cstdlib>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "test/core/fleet/views.h"

namespace {

std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  void* block = std::malloc(size);
  if (block == nullptr) std::abort();
  return block;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return operator new(size); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { operator delete(block); }
void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

namespace nstance::fleet {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using Kind = HoldNews::Kind;
using HoldName = std::pair<std::optional<InstanceId>, HoldCode>;

Hold On(std::uint32_t n, HoldCode code) {
  Hold hold = {.code = code};
  if (n > 0) hold.instance = Id(n);
  return hold;
}

TEST(HoldNewsTest, WhatGoesOnIsNoNewsWhateverItsDetail) {
  Hold before = On(1, HoldCode::kWaitingDrain);
  Hold after = before;
  after.until = At(kNow + 5);
  after.detail = "longer now";
  EXPECT_THAT(CompareHolds({&before, 1}, {&after, 1}), IsEmpty());
}

TEST(HoldNewsTest, WhatBeginsAndWhatIsOverIsNews) {
  const std::vector<Hold> before = {On(0, HoldCode::kCreateBackoff), On(2, HoldCode::kBrake)};
  const std::vector<Hold> after = {On(1, HoldCode::kBrake), On(2, HoldCode::kSecondLook)};
  const std::vector<HoldNews> news = CompareHolds(before, after);
  ASSERT_THAT(news, SizeIs(4));
  EXPECT_EQ(news[0].kind, Kind::kBegan);
  EXPECT_THAT(news[0].instances, testing::ElementsAre(Id(1)));
  EXPECT_EQ(news[2].kind, Kind::kOver);
  EXPECT_EQ(Describe(news[2], At(kNow)), "no longer: the deletion budget of the tenant is used up");
  EXPECT_THAT(news[3].instances, IsEmpty()) << "of the group";
}

TEST(HoldNewsTest, ManyOfOneCauseAreOnePieceOfNews) {
  std::vector<Hold> after = {On(0, HoldCode::kOneRotation)};
  for (std::uint32_t i = 1; i <= 1'000; ++i) after.push_back(On(i, HoldCode::kOneRotation));
  after.push_back(On(1'001, HoldCode::kBrake));
  const std::vector<HoldNews> news = CompareHolds({}, after);
  ASSERT_THAT(news, SizeIs(3));
  EXPECT_THAT(news[2].instances, SizeIs(1'000));
  EXPECT_THAT(Describe(news[2], At(kNow)), testing::EndsWith("; 1000 instances"));
}

TEST(HoldNewsTest, TheTimeIsTold) {
  HoldNews news = {.hold = {.code = HoldCode::kSecondLook, .until = At(kNow + 60)}};
  EXPECT_EQ(Describe(news, At(kNow)), "the provider's word is checked a second time, for 1m");
}

std::set<HoldName> Names(const std::vector<Hold>& holds) {
  std::set<HoldName> out;
  for (const Hold& hold : holds) out.insert({hold.instance, hold.code});
  return out;
}

// Sorted as a plan's.
std::vector<Hold> RandomHolds(Prng& prng) {
  std::set<HoldName> names;
  for (std::uint64_t i = prng.Below(30); i > 0; --i) {
    const auto n = static_cast<std::uint32_t>(prng.Below(12));
    const auto code = static_cast<HoldCode>(prng.Below(4));
    names.insert({n == 0 ? std::nullopt : std::optional(Id(n)), code});
  }
  std::vector<Hold> out;
  out.reserve(names.size());
  for (const auto& [instance, code] : names) out.push_back({.code = code, .instance = instance});
  return out;
}

TEST(HoldNewsTest, EveryDifferenceIsToldOnceAndNothingElse) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Prng prng(seed);
    const std::vector<Hold> before = RandomHolds(prng);
    const std::vector<Hold> after = RandomHolds(prng);
    std::set<HoldName> now = Names(before);
    std::map<std::pair<Kind, HoldCode>, std::size_t> pieces;
    for (const HoldNews& news : CompareHolds(before, after)) {
      ++pieces[{news.kind, news.hold.code}];
      std::vector<HoldName> names;
      names.reserve(news.instances.size() + 1);
      for (const InstanceId& id : news.instances) names.emplace_back(id, news.hold.code);
      if (names.empty()) names.emplace_back(std::nullopt, news.hold.code);
      for (const HoldName& name : names) {
        const bool fresh =
            news.kind == Kind::kBegan ? now.insert(name).second : now.erase(name) == 1;
        EXPECT_TRUE(fresh) << seed;
      }
    }
    EXPECT_EQ(now, Names(after)) << seed;
    for (const auto& [what, count] : pieces) EXPECT_LE(count, kFewHolds + 1) << seed;
  }
}

TEST(HoldNewsTest, NothingIsAllocatedWhenNothingChanged) {
  Prng prng(7);
  std::vector<Hold> before = RandomHolds(prng);
  ASSERT_FALSE(before.empty());
  const std::vector<Hold> after = before;
  const std::size_t already = allocations;
  const std::size_t news = CompareHolds(before, after).size();
  EXPECT_EQ(allocations, already);
  EXPECT_EQ(news, 0U);
}

}  // namespace
}  // namespace nstance::fleet

// The judgements of core/store_probe_rules.h as tables: a script, what was seen, what that says. A
// round in which everything is as it should be is the base; each row changes one sight.
#include "core/store_probe_rules.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace nstance::probe {
namespace {

using What = Sight::What;
using Verdict = Finding::What;

constexpr Extent kExtent = {.endpoints = 2, .writers = 32};

Sight Shows(int content) { return {.what = What::kContent, .content = content}; }
Sight Is(What what) { return {.what = what, .message = "message"}; }

struct Round {
  Script script;
  Sights sights;

  Round& Set(std::size_t line, Sight sight) {
    sights.at(line) = std::move(sight);
    return *this;
  }
  // Nothing from this line on was asked.
  Round& EndAt(std::size_t line) {
    for (std::size_t i = line; i < sights.size(); ++i) sights.at(i).reset();
    return *this;
  }
  [[nodiscard]] Verdict Judged() const { return Judge(script, sights).what; }
};

Round Make(int check, const std::vector<Sight>& sights) {
  Round round{.script = MakeScript(check, kExtent), .sights = {}};
  for (const Sight& sight : sights) round.sights.emplace_back(sight);
  return round;
}

// 32 rivals, of which number 7 wins; then a read, and one from each endpoint.
Round CreateRace() {
  std::vector<Sight> sights(32, Is(What::kRefused));
  sights[7] = Is(What::kApplied);
  sights.insert(sights.end(), 3, Shows(7));
  return Make(1, sights);
}

// The same with a create and a read before; rival number 7 writes content 8.
Round UpdateRace() {
  std::vector<Sight> sights = {Is(What::kApplied), Shows(0)};
  sights.insert(sights.end(), 32, Is(What::kRefused));
  sights[2 + 7] = Is(What::kApplied);
  sights.insert(sights.end(), 3, Shows(8));
  return Make(2, sights);
}

TEST(StoreProbeRulesTest, Check1OneWinner) {
  EXPECT_EQ(CreateRace().Judged(), Verdict::kHolds);
  EXPECT_EQ(CreateRace().Set(8, Is(What::kApplied)).Judged(), Verdict::kBroken);
  // The winner's answer was lost, or it was told of its own write.
  EXPECT_EQ(CreateRace().Set(7, Is(What::kMaybeDone)).Judged(), Verdict::kHolds);
  EXPECT_EQ(CreateRace().Set(7, Is(What::kRefused)).Judged(), Verdict::kHolds);
  EXPECT_EQ(CreateRace().Set(8, Is(What::kMaybeDone)).Judged(), Verdict::kHolds);
  // Another's bytes are read; or nobody's; or nothing.
  EXPECT_EQ(CreateRace().Set(32, Shows(8)).Judged(), Verdict::kBroken);
  EXPECT_EQ(CreateRace().Set(32, Shows(-1)).Judged(), Verdict::kBroken);
  EXPECT_EQ(CreateRace().Set(7, Is(What::kMaybeDone)).Set(32, Shows(-1)).Judged(),
            Verdict::kBroken);
  EXPECT_EQ(CreateRace().Set(32, Is(What::kAbsent)).Judged(), Verdict::kBroken);
  EXPECT_EQ(CreateRace().Set(34, Shows(8)).Judged(), Verdict::kBroken);
  EXPECT_EQ(CreateRace().Set(33, Is(What::kAbsent)).Judged(), Verdict::kBroken);
}

TEST(StoreProbeRulesTest, Check1NobodyWins) {
  Round nobody = CreateRace();
  nobody.Set(7, Is(What::kRefused));
  for (std::size_t i = 32; i < 35; ++i) nobody.Set(i, Is(What::kAbsent));
  EXPECT_EQ(nobody.Judged(), Verdict::kStubborn);
  EXPECT_EQ(nobody.Set(7, Is(What::kMaybeDone)).Judged(), Verdict::kInconclusive);
  EXPECT_EQ(nobody.Set(7, Is(What::kFailed)).Judged(), Verdict::kInconclusive);
}

TEST(StoreProbeRulesTest, Check1ErrorsProveNothing) {
  EXPECT_EQ(CreateRace().Set(32, Is(What::kFailed)).Judged(), Verdict::kInconclusive);
  EXPECT_EQ(CreateRace().Set(34, Is(What::kFailed)).Judged(), Verdict::kInconclusive);
  Round alone = CreateRace();
  for (std::size_t i = 8; i < 32; ++i) alone.Set(i, Is(What::kFailed));
  EXPECT_EQ(alone.Judged(), Verdict::kHolds);
  EXPECT_EQ(alone.Set(0, Is(What::kFailed)).Judged(), Verdict::kInconclusive) << "no race";
  EXPECT_EQ(CreateRace().Set(3, Is(What::kUnsupported)).Judged(), Verdict::kBroken);
}

TEST(StoreProbeRulesTest, Check2OneWinner) {
  EXPECT_EQ(UpdateRace().Judged(), Verdict::kHolds);
  EXPECT_EQ(UpdateRace().Set(3, Is(What::kApplied)).Judged(), Verdict::kBroken);
  EXPECT_EQ(UpdateRace().Set(34, Shows(0)).Judged(), Verdict::kBroken);
  Round nobody = UpdateRace();
  nobody.Set(9, Is(What::kRefused));
  for (std::size_t i = 34; i < 37; ++i) nobody.Set(i, Shows(0));
  EXPECT_EQ(nobody.Judged(), Verdict::kStubborn);
  EXPECT_EQ(UpdateRace().Set(0, Is(What::kRefused)).Set(1, Is(What::kAbsent)).EndAt(2).Judged(),
            Verdict::kStubborn);
  EXPECT_EQ(UpdateRace().Set(0, Is(What::kMaybeDone)).Set(1, Is(What::kAbsent)).EndAt(2).Judged(),
            Verdict::kInconclusive);
  EXPECT_EQ(UpdateRace().Set(1, Is(What::kFailed)).EndAt(2).Judged(), Verdict::kInconclusive);
}

Round StaleUpdate() {
  return Make(3, {Is(What::kApplied), Shows(0), Is(What::kApplied), Shows(1), Is(What::kRefused),
                  Shows(1)});
}

TEST(StoreProbeRulesTest, Check3StaleVersion) {
  EXPECT_EQ(StaleUpdate().Judged(), Verdict::kHolds);
  EXPECT_EQ(StaleUpdate().Set(4, Is(What::kMaybeDone)).Judged(), Verdict::kHolds);
  EXPECT_EQ(StaleUpdate().Set(4, Is(What::kApplied)).Judged(), Verdict::kBroken);
  EXPECT_EQ(StaleUpdate().Set(5, Shows(2)).Judged(), Verdict::kBroken);
  EXPECT_EQ(StaleUpdate().Set(4, Is(What::kFailed)).Judged(), Verdict::kInconclusive);
  EXPECT_EQ(StaleUpdate().Set(5, Is(What::kFailed)).Judged(), Verdict::kInconclusive);
  EXPECT_EQ(StaleUpdate().Set(2, Is(What::kRefused)).Set(3, Shows(0)).Judged(), Verdict::kStubborn);
  EXPECT_EQ(StaleUpdate().Set(3, Shows(0)).Judged(), Verdict::kBroken) << "stale read";
}

Round MissingKey() {
  return Make(4, {Is(What::kApplied), Shows(0), Is(What::kApplied), Is(What::kAbsent),
                  Is(What::kRefused), Is(What::kRefused), Is(What::kAbsent), Is(What::kAbsent)});
}

TEST(StoreProbeRulesTest, Check4MissingKey) {
  EXPECT_EQ(MissingKey().Judged(), Verdict::kHolds);
  for (const std::size_t update : {4U, 5U}) {
    EXPECT_EQ(MissingKey().Set(update, Is(What::kApplied)).Judged(), Verdict::kBroken);
    EXPECT_EQ(MissingKey().Set(update + 2, Shows(1)).Judged(), Verdict::kBroken);
    EXPECT_EQ(MissingKey().Set(update, Is(What::kMaybeDone)).Judged(), Verdict::kHolds);
    EXPECT_EQ(MissingKey().Set(update, Is(What::kFailed)).Judged(), Verdict::kInconclusive);
  }
  EXPECT_EQ(MissingKey().Set(3, Shows(0)).Judged(), Verdict::kBroken) << "deleted and still read";
  EXPECT_EQ(MissingKey().Set(2, Is(What::kMaybeDone)).Set(3, Shows(0)).Judged(),
            Verdict::kInconclusive);
}

Round CreateAgain() {
  return Make(5, {Is(What::kApplied), Shows(0), Is(What::kApplied), Is(What::kAbsent),
                  Is(What::kApplied), Shows(1), Is(What::kRefused), Shows(1)});
}

TEST(StoreProbeRulesTest, Check5DeleteThenCreate) {
  EXPECT_EQ(CreateAgain().Judged(), Verdict::kHolds);
  EXPECT_EQ(CreateAgain().Set(4, Is(What::kRefused)).Set(5, Is(What::kAbsent)).Judged(),
            Verdict::kStubborn);
  EXPECT_EQ(CreateAgain().Set(6, Is(What::kApplied)).Judged(), Verdict::kBroken);
  EXPECT_EQ(CreateAgain().Set(7, Shows(2)).Judged(), Verdict::kBroken);
}

// Three writes, each read from two endpoints.
Round FreshReads() {
  return Make(6, {Is(What::kApplied), Shows(0), Shows(0), Is(What::kApplied), Shows(1), Shows(1),
                  Is(What::kApplied), Shows(2), Shows(2)});
}

TEST(StoreProbeRulesTest, Check6ReadAfterWriteFromEachEndpoint) {
  EXPECT_EQ(FreshReads().Judged(), Verdict::kHolds);
  EXPECT_EQ(FreshReads().Set(5, Shows(0)).Judged(), Verdict::kBroken);
  EXPECT_EQ(FreshReads().Set(2, Is(What::kAbsent)).Judged(), Verdict::kBroken);
  // A write whose answer was lost may land between two reads.
  EXPECT_EQ(FreshReads().Set(3, Is(What::kMaybeDone)).Judged(), Verdict::kHolds);
  EXPECT_EQ(FreshReads().Set(3, Is(What::kMaybeDone)).Set(5, Shows(0)).Judged(),
            Verdict::kInconclusive);
  EXPECT_EQ(FreshReads().Set(8, Is(What::kFailed)).Judged(), Verdict::kInconclusive);
  const Finding finding = Judge(FreshReads().script, FreshReads().Set(5, Shows(0)).sights);
  EXPECT_EQ(finding.detail, "endpoint 2 shows write 0 after write 1 was acknowledged");
}

Round StaleDelete() {
  return Make(9, {Is(What::kApplied), Shows(0), Is(What::kApplied), Shows(1), Is(What::kRefused),
                  Shows(1), Is(What::kApplied), Is(What::kAbsent)});
}

TEST(StoreProbeRulesTest, Check9StaleDelete) {
  EXPECT_EQ(StaleDelete().Judged(), Verdict::kHolds);
  EXPECT_EQ(StaleDelete().Set(4, Is(What::kApplied)).Judged(), Verdict::kBroken);
  EXPECT_EQ(StaleDelete().Set(5, Is(What::kAbsent)).Judged(), Verdict::kBroken);
  EXPECT_EQ(StaleDelete().Set(6, Is(What::kRefused)).Set(7, Shows(1)).Judged(), Verdict::kBroken);
  EXPECT_EQ(StaleDelete().Set(4, Is(What::kFailed)).Judged(), Verdict::kInconclusive);
  EXPECT_EQ(StaleDelete().Set(0, Is(What::kRefused)).Set(1, Is(What::kAbsent)).EndAt(2).Judged(),
            Verdict::kInconclusive);
}

TEST(StoreProbeRulesTest, WhatWasNeverAskedFailedForTheReasonBefore) {
  const Round round = StaleUpdate().Set(1, {.what = What::kFailed, .message = "cut off"}).EndAt(2);
  EXPECT_EQ(Judge(round.script, round.sights).detail, "cut off");
}

TEST(StoreProbeRulesTest, RivalsAreSpreadOverTheEndpoints) {
  for (const int check : {1, 2}) {
    const Script script = MakeScript(check, {.endpoints = 3, .writers = 32});
    const Batch& rivals = script.batches.at(check == 1 ? 0 : 2);
    ASSERT_EQ(rivals.size(), 32U);
    for (std::size_t i = 0; i < rivals.size(); ++i) EXPECT_EQ(rivals[i].endpoint, i % 3);
  }
}

}  // namespace
}  // namespace nstance::probe

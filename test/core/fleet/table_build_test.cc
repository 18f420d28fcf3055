// Every row of the table of server.md 3, then all combinations of facts for what must never be; and
// the sweep.
#include "core/fleet/table_build.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/fleet/sweep.h"
#include "test/core/fleet/views.h"

namespace nstance::fleet {
namespace {

using enum InstancePhase;
using Step = TableStep;

constexpr ProviderFinding kFound = ProviderFinding::kFound;
constexpr ProviderFinding kAbsent = ProviderFinding::kAbsent;
constexpr ProviderFinding kUnlisted = ProviderFinding::kUnlisted;

struct Row {
  std::string name;
  TableFacts facts;
  TableRow expected;
};

TableFacts Facts(std::optional<InstancePhase> phase, const std::string& intents,
                 ProviderFinding provider) {
  return {.phase = phase,
          .has_provider_id = phase && *phase >= kProvisioned,
          .create_open = intents.contains('c'),
          .drain_open = intents.contains('d'),
          .delete_open = intents.contains('x'),
          .provider = provider};
}

TEST(TableBuildTest, EveryRowOfTheTable) {
  const std::vector<Row> rows = {
      {"no record, create", Facts({}, "c", kAbsent), {.step = Step::kCancelCreation}},
      {"no record, create, unlisted", Facts({}, "c", kUnlisted), {.step = Step::kCancelCreation}},
      {"no record, create, found", Facts({}, "c", kFound), {.step = Step::kReadAgain}},
      {"creating, create", Facts(kCreating, "c", kAbsent), {.step = Step::kResumeCreation}},
      {"creating, no intent",
       Facts(kCreating, "", kAbsent),
       {.step = Step::kResumeCreation, .open_create = true}},
      {"creating, create, found",
       Facts(kCreating, "c", kFound),
       {.step = Step::kAdopt, .close_create = true}},
      {"creating, no intent, found", Facts(kCreating, "", kFound), {.step = Step::kAdopt}},
      {"provisioned, found", Facts(kProvisioned, "", kFound), {.step = Step::kKeep}},
      {"registered, found", Facts(kRegistered, "", kFound), {.step = Step::kKeep}},
      {"provisioned, not found", Facts(kProvisioned, "", kAbsent), {.step = Step::kLook}},
      {"registered, not found", Facts(kRegistered, "", kAbsent), {.step = Step::kLook}},
      {"registered, unlisted", Facts(kRegistered, "", kUnlisted), {.step = Step::kKeep}},
      {"draining, drain", Facts(kDraining, "d", kFound), {.step = Step::kContinueDrain}},
      {"draining, no intent",
       Facts(kDraining, "", kAbsent),
       {.step = Step::kContinueDrain, .open_drain = true}},
      {"deleting, delete", Facts(kDeleting, "x", kAbsent), {.step = Step::kContinueDelete}},
      {"deleting, no intent",
       Facts(kDeleting, "", kFound),
       {.step = Step::kContinueDelete, .open_delete = true}},
      {"gone, found", Facts(kGone, "", kFound), {.step = Step::kLateCreation}},
      {"failed, found", Facts(kFailed, "", kFound), {.step = Step::kLateCreation}},
      {"failed, none", Facts(kFailed, "", kAbsent), {.step = Step::kRetain}},
      {"gone, none", Facts(kGone, "", kAbsent), {.step = Step::kRetain}},
      {"provisioned, delete", Facts(kProvisioned, "x", kFound), {.step = Step::kRepeatDelete}},
      {"registered, delete", Facts(kRegistered, "x", kAbsent), {.step = Step::kRepeatDelete}},
      {"draining, delete", Facts(kDraining, "x", kFound), {.step = Step::kRepeatDelete}},
      {"draining, drain and delete",
       Facts(kDraining, "dx", kFound),
       {.step = Step::kRepeatDelete, .close_drain = true}},
      {"creating, delete", Facts(kCreating, "x", kAbsent), {.step = Step::kResolveThenDelete}},
      {"creating, create and delete",
       Facts(kCreating, "cx", kFound),
       {.step = Step::kResolveThenDelete}},
      {"registered, drain", Facts(kRegistered, "d", kFound), {.step = Step::kRepeatDrain}},
      {"provisioned, create",
       Facts(kProvisioned, "c", kFound),
       {.step = Step::kKeep, .close_create = true}},
      {"registered, create",
       Facts(kRegistered, "c", kFound),
       {.step = Step::kKeep, .close_create = true}},
      {"failed, create",
       Facts(kFailed, "c", kAbsent),
       {.step = Step::kRetain, .close_create = true}},
      {"gone, create, found",
       Facts(kGone, "c", kFound),
       {.step = Step::kLateCreation, .close_create = true}},
      {"gone, drain", Facts(kGone, "d", kAbsent), {.step = Step::kRetain, .close_drain = true}},
      {"gone, delete", Facts(kGone, "x", kAbsent), {.step = Step::kRetain, .close_delete = true}},
      {"gone, delete, unlisted", Facts(kGone, "x", kUnlisted), {.step = Step::kContinueDelete}},
      {"gone, unlisted", Facts(kGone, "", kUnlisted), {.step = Step::kRetain}},
      {"gone, delete, found", Facts(kGone, "x", kFound), {.step = Step::kLateCreation}},
      {"no record, drain", Facts({}, "d", kAbsent), {.step = Step::kNothing, .close_drain = true}},
      {"no record, delete",
       Facts({}, "x", kAbsent),
       {.step = Step::kNothing, .close_delete = true}},
      {"no record, found", Facts({}, "", kFound), {.step = Step::kOrphan}},
      {"no record, delete, found",
       Facts({}, "x", kFound),
       {.step = Step::kOrphan, .close_delete = true}}};
  for (const Row& row : rows) {
    const TableRow built = BuildRow(row.facts);
    EXPECT_EQ(Word(built.step), Word(row.expected.step)) << row.name;
    EXPECT_EQ(built, row.expected) << row.name;
  }
}

TEST(TableBuildTest, ARegisteredRecordWithoutProviderIdIsCompleted) {
  TableFacts facts = Facts(kRegistered, "c", kFound);
  facts.has_provider_id = false;
  EXPECT_EQ(BuildRow(facts), (TableRow{.step = Step::kAdopt, .close_create = true}));
}

TEST(TableBuildTest, ACorruptRecordIsNeverTreatedAsAbsent) {
  for (const ProviderFinding provider : {kFound, kAbsent, kUnlisted}) {
    for (const std::string intents : {"", "c", "d", "x", "cdx"}) {
      TableFacts facts = Facts({}, intents, provider);
      facts.corrupt = true;
      EXPECT_EQ(BuildRow(facts), (TableRow{.step = Step::kHoldCorrupt}));
    }
  }
}

TEST(TableBuildTest, WhateverTheFactsNothingContradictsItself) {
  std::vector<std::optional<InstancePhase>> phases = {std::nullopt};
  for (int phase = 1; phase < 8; ++phase) phases.emplace_back(static_cast<InstancePhase>(phase));
  for (const auto& phase : phases) {
    for (unsigned intents = 0; intents < 8; ++intents) {
      for (const ProviderFinding provider : {kFound, kAbsent, kUnlisted}) {
        const TableFacts facts{.phase = phase,
                               .create_open = (intents & 1U) != 0,
                               .drain_open = (intents & 2U) != 0,
                               .delete_open = (intents & 4U) != 0,
                               .provider = provider};
        const TableRow row = BuildRow(facts);
        // What is closed was open, what is opened was not.
        EXPECT_TRUE(facts.create_open || !row.close_create);
        EXPECT_TRUE(facts.drain_open || !row.close_drain);
        EXPECT_TRUE(facts.delete_open || !row.close_delete);
        EXPECT_FALSE(facts.create_open && row.open_create);
        EXPECT_FALSE(facts.drain_open && row.open_drain);
        EXPECT_FALSE(facts.delete_open && row.open_delete);
        // A deletion that the record shows, or that is open for a live one, goes on.
        const bool live = phase && *phase <= kDeleting;
        if (live && facts.delete_open) {
          EXPECT_FALSE(row.close_delete);
          EXPECT_TRUE(row.step == Step::kRepeatDelete || row.step == Step::kContinueDelete ||
                      row.step == Step::kResolveThenDelete);
        }
        // Nothing that runs is cancelled, forgotten or called an orphan.
        if (live) {
          EXPECT_TRUE(row.step != Step::kCancelCreation && row.step != Step::kOrphan &&
                      row.step != Step::kNothing && row.step != Step::kRetain);
        }
      }
    }
  }
}

// ---- sweep -------------------------------------------------------------------------------------

TEST(SweepTest, AnIncompleteListingIsDiscardedAndAnEmptyOneIsAnError) {
  EXPECT_EQ(JudgeListing({.complete = false, .listed = 5, .expected = 5}), ListingUse::kDiscard);
  EXPECT_EQ(JudgeListing({.complete = true, .listed = 0, .expected = 1}), ListingUse::kLookAtEach);
  EXPECT_EQ(JudgeListing({.complete = true, .listed = 0, .expected = 0}), ListingUse::kUse);
  EXPECT_EQ(JudgeListing({.complete = true, .listed = 1, .expected = 9}), ListingUse::kUse);
}

constexpr Duration kGrace = Duration::Minutes(10);

UnknownVm Vm(const std::string& id = Id(1).text()) {
  return {.provider_id = "i-1",
          .instance_id = id,
          .tenant = "prod",
          .managed = true,
          .launched_at = At(0)};
}

TEST(SweepTest, AnOrphanIsDeletedAfterTwoListingsAndItsGrace) {
  OrphanWatch watch;
  const std::vector<UnknownVm> listing = {Vm()};
  auto findings = watch.OnListing(listing, kGrace, {}, At(10'000));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].use, OrphanUse::kWait);
  EXPECT_EQ(findings[0].until, At(10'600));
  EXPECT_EQ(watch.OnListing(listing, kGrace, {}, At(10'599))[0].use, OrphanUse::kWait);
  findings = watch.OnListing(listing, kGrace, {}, At(10'600));
  EXPECT_EQ(findings[0].use, OrphanUse::kDelete);
  EXPECT_EQ(findings[0].instance_id, Id(1));
  EXPECT_EQ(findings[0].tenant.text(), "prod");
}

TEST(SweepTest, WithoutGraceTwoListingsTVisApartDecide) {
  OrphanWatch watch;
  const std::vector<UnknownVm> listing = {Vm()};
  EXPECT_EQ(watch.OnListing(listing, {}, {}, At(10'000))[0].use, OrphanUse::kWait);
  EXPECT_EQ(watch.OnListing(listing, {}, {}, At(10'059))[0].use, OrphanUse::kWait);
  EXPECT_EQ(watch.OnListing(listing, {}, {}, At(10'060))[0].use, OrphanUse::kDelete);
  // One listing alone never does, not even with no waits at all.
  OrphanWatch hasty;
  FleetTimes times;
  times.t_vis = Duration();
  EXPECT_EQ(hasty.OnListing(listing, {}, times, At(10'000))[0].use, OrphanUse::kWait);
}

TEST(SweepTest, AVmThatWasKnownInBetweenStartsOver) {
  OrphanWatch watch;
  const std::vector<UnknownVm> listing = {Vm()};
  (void)watch.OnListing(listing, kGrace, {}, At(10'000));
  EXPECT_TRUE(watch.OnListing({}, kGrace, {}, At(10'300)).empty());
  EXPECT_EQ(watch.OnListing(listing, kGrace, {}, At(10'600))[0].use, OrphanUse::kWait);
}

TEST(SweepTest, AYoungVmIsProtectedByItsLaunchTime) {
  OrphanWatch watch;
  UnknownVm vm = Vm();
  vm.launched_at = At(10'300);
  const std::vector<UnknownVm> listing = {vm};
  (void)watch.OnListing(listing, kGrace, {}, At(10'000));
  EXPECT_EQ(watch.OnListing(listing, kGrace, {}, At(10'899))[0].use, OrphanUse::kWait);
  EXPECT_EQ(watch.OnListing(listing, kGrace, {}, At(10'900))[0].use, OrphanUse::kDelete);
}

TEST(SweepTest, WhatDoesNotParseOrIsNotManagedIsOnlyReported) {
  UnknownVm foreign = Vm();
  foreign.managed = false;
  for (const UnknownVm& vm : {Vm("nonsense"), Vm("KNC" + Id(1).text().substr(3)), foreign}) {
    OrphanWatch watch;
    const std::vector<UnknownVm> listing = {vm};
    for (std::int64_t now = 10'000; now < 20'000; now += 1'000) {
      EXPECT_EQ(watch.OnListing(listing, {}, {}, At(now))[0].use, OrphanUse::kReport);
    }
  }
  UnknownVm vm = Vm();
  vm.tenant = "Not A Name";
  OrphanWatch watch;
  const std::vector<UnknownVm> listing = {vm};
  EXPECT_EQ(watch.OnListing(listing, kGrace, {}, At(0))[0].tenant, DefaultTenant());
}

TEST(SweepTest, TombstonesAndFailedRecordsAreKeptForTheirRetention) {
  const Duration retention = Duration::Hours(25);
  for (int phase = 1; phase < 8; ++phase) {
    const auto value = static_cast<InstancePhase>(phase);
    const bool ended = value == kGone || value == kFailed;
    const auto at = RemovableAt({.phase = value, .phase_at = At(100)}, retention);
    EXPECT_EQ(at, ended ? std::optional(At(90'100)) : std::nullopt);
    EXPECT_EQ(RemovableAt({.phase = value, .phase_at = At(100), .vm_found = true}, retention),
              std::nullopt);
  }
}

TEST(WordsTest, WordsAreReadBack) {
  for (int i = 0; i <= static_cast<int>(Reason::kOrphan); ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_EQ(ParseReason(Word(reason)).value(), reason);
  }
  EXPECT_FALSE(ParseReason("because").has_value());
  for (int i = 0; i <= static_cast<int>(ProviderStatus::kFailed); ++i) {
    const auto status = static_cast<ProviderStatus>(i);
    EXPECT_EQ(ParseProviderStatus(Word(status)), status);
    EXPECT_EQ(IsDead(status), status >= ProviderStatus::kStopping);
  }
  EXPECT_EQ(ParseProviderStatus("rebooting"), ProviderStatus::kUnknown);
  EXPECT_EQ(Word(HoldCode::kMassSilence), "mass-silence");
  EXPECT_EQ(Word(HoldCode::kPoolUnavailable), "pool-unavailable");
}

}  // namespace
}  // namespace nstance::fleet

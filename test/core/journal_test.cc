// The journal's bytes, by the vector of the format, by tables of bad inputs and over seeds; then
// what changes make of it, and its bounds.
#include "core/journal.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/journal_table.h"
#include "test/core/random_journal.h"

namespace nstance {
namespace {

using Fate = ChangeResult::Fate;

JournalStamp Stamp() {
  return {.holder = "s2/0002", .write_id = "new", .at = Timestamp::FromUnix(1'767'225'601)};
}

Journal Empty() {
  const JournalIdentity identity = ExampleIdentity();
  return {.cluster = identity.cluster,
          .shard = identity.shard,
          .epoch = 1,
          .seq = 1,
          .write_id = "AAECAwQFBgcICQoLDA0ODw",
          .holder = "s1/0001",
          .updated_at = Timestamp::FromUnix(1'767'225'600),
          .intents = {}};
}

TEST(JournalTest, TheVectorOfTheFormat) {
  const std::string bytes =
      R"({"version":1,"cluster_id":"example-cluster","shard":"dc1-zone-a","epoch":1,"seq":1,)"
      R"("write_id":"AAECAwQFBgcICQoLDA0ODw","holder":"s1/0001",)"
      R"("updated_at":"2026-01-01T00:00:00Z","intents":[],"checksum":)"
      R"("sha256:103cc4997b1a0dff263555a89293773bb904d553430310eef5411367d707bf6f"})";
  EXPECT_EQ(EncodeJournal(Empty()), bytes);
  const auto decoded = DecodeJournal(bytes, ExampleIdentity());
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(*decoded, Empty());
}

TEST(JournalTest, EveryKindOfIntentHasItsMembersInOrder) {
  Prng prng(1);
  const auto text = [&](Intent intent) {
    intent.id = "3-7-1";
    intent.instance_id = ParsePuidv7("knc06bgm7733st2576nx5jht4ecjw").value();
    intent.opened_at = Timestamp::FromUnix(1'767'225'600);
    intent.epoch = 3;
    const std::string bytes = EncodeIntent(intent);
    const std::string common =
        R"("instance_id":"knc06bgm7733st2576nx5jht4ecjw","tenant":"prod","group":"workers",)"
        R"("opened_at":"2026-01-01T00:00:00Z","epoch":3)";
    const std::size_t at = bytes.find(common);
    EXPECT_NE(at, std::string::npos) << bytes;
    return bytes.substr(0, at) + bytes.substr(at + common.size());
  };
  Intent create = ExampleIntent(IntentKind::kCreate, prng);
  create.replaces = ParsePuidv7("knc06bgm7733st2576nx5jht4ecjw").value();
  create.attempts = 2;
  create.not_before = Timestamp::FromUnix(1'767'225'660);
  create.request_id = "r1";
  EXPECT_EQ(text(create), R"({"id":"3-7-1","kind":"create",,"reason":"scale-up",)"
                          R"("replaces":"knc06bgm7733st2576nx5jht4ecjw","attempts":2,)"
                          R"("not_before":"2026-01-01T00:01:00Z","request_id":"r1"})");
  Intent drain = ExampleIntent(IntentKind::kDrain, prng);
  drain.deadline = Timestamp::FromUnix(1'767'225'660);
  drain.length = Duration::Minutes(1);
  drain.counted = true;
  drain.acked_at = Timestamp::FromUnix(1'767'225'601);
  EXPECT_EQ(
      text(drain),
      R"({"id":"3-7-1","kind":"drain",,"reason":"unhealthy","deadline":"2026-01-01T00:01:00Z",)"
      R"("length_ms":60000,"ordered":false,"counted":true,)"
      R"("acked_at":"2026-01-01T00:00:01Z"})");
  EXPECT_EQ(text(ExampleIntent(IntentKind::kDelete, prng)),
            R"({"id":"3-7-1","kind":"delete",,"reason":"requested","ordered":false,)"
            R"("counted":false,"record_etag":"etag"})");
  EXPECT_EQ(text(ExampleIntent(IntentKind::kClaim, prng)),
            R"({"id":"3-7-1","kind":"claim",,"record_etag":"etag","class":"claimed","vars":{},)"
            R"("request_id":"request"})");
  EXPECT_EQ(text(ExampleIntent(IntentKind::kPark, prng)), R"({"id":"3-7-1","kind":"park",})");
  EXPECT_EQ(text(ExampleIntent(IntentKind::kWake, prng)), R"({"id":"3-7-1","kind":"wake",})");
}

TEST(JournalTest, WhatIsWrittenIsReadBackTheSame) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    Prng prng(seed);
    const Journal journal = RandomJournal(prng, 8);
    const std::string bytes = EncodeJournal(journal);
    const auto decoded = DecodeJournal(bytes, ExampleIdentity());
    ASSERT_TRUE(decoded.has_value()) << seed << decoded.error().message;
    EXPECT_EQ(*decoded, journal) << seed;
    EXPECT_EQ(EncodeJournal(*decoded), bytes) << seed;
  }
}

TEST(JournalTest, AnotherClustersOrShardsJournalIsRefusedByName) {
  for (const auto& [cluster, shard] : std::vector<std::pair<std::string, std::string>>{
           {"other", "dc1-zone-a"}, {"example-cluster", "other"}}) {
    const auto decoded = DecodeJournal(
        EncodeJournal(Empty()),
        {.cluster = ClusterId::Parse(cluster).value(), .shard = ShardId::Parse(shard).value()});
    ASSERT_FALSE(decoded.has_value());
    EXPECT_EQ(decoded.error().code, Code::kFailedPrecondition);
    EXPECT_NE(decoded.error().message.find("other"), std::string::npos);
  }
}

TEST(JournalTest, ACutOrChangedJournalIsCorrupt) {
  Prng prng(2);
  const std::string good = EncodeJournal(RandomJournal(prng, 3));
  for (std::size_t length = 0; length < good.size(); ++length) {
    const auto decoded = DecodeJournal(good.substr(0, length), ExampleIdentity());
    ASSERT_FALSE(decoded.has_value()) << length;
    EXPECT_EQ(decoded.error().code, Code::kDataLoss);
    EXPECT_TRUE(decoded.error().message.starts_with("corrupt journal: "));
  }
  // A changed *name* of the checksum is a key that we do not know, and a missing one is accepted.
  const std::size_t name = good.rfind("checksum");
  for (std::size_t at = 0; at < good.size(); ++at) {
    if (at >= name && at < name + 8) continue;
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(DecodeJournal(changed, ExampleIdentity()).has_value()) << at;
  }
}

// One member at a time made wrong, without a checksum, which is accepted when missing.
TEST(JournalTest, EveryMemberIsChecked) {
  const std::string good =
      R"({"version":1,"cluster_id":"example-cluster","shard":"dc1-zone-a","epoch":2,"seq":1,)"
      R"("write_id":"w","holder":"h","updated_at":"2026-01-01T00:00:00Z","intents":[)"
      R"({"id":"1-1-1","kind":"drain","instance_id":"knc06bgm7733st2576nx5jht4ecjw",)"
      R"("tenant":"prod","group":"workers","opened_at":"2026-01-01T00:00:00Z","epoch":1,)"
      R"("reason":"unhealthy","deadline":"2026-01-01T00:00:00Z","length_ms":1,"ordered":true,)"
      R"("counted":true}]})";
  ASSERT_TRUE(DecodeJournal(good, ExampleIdentity()).has_value());
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"("version":1)", R"("version":2)"},
      {R"("version":1)", R"("version":"1")"},
      {R"("cluster_id":"example-cluster")", R"("cluster_id":3)"},
      {R"("epoch":2)", R"("epoch":0)"},
      {R"("epoch":2)", R"("epoch":2.5)"},
      {R"("epoch":2)", R"("epoch":9223372036854775807)"},
      {R"("seq":1)", R"("seq":-1)"},
      {R"("write_id":"w")", R"("write_id":"")"},
      {R"("holder":"h")", R"("holder":null)"},
      {R"("updated_at":"2026-01-01T00:00:00Z")", R"("updated_at":"yesterday")"},
      {R"("intents":[)", R"("intents":3,"x":[)"},
      {R"("id":"1-1-1")", R"("id":"1-1")"},
      {R"("id":"1-1-1")", R"("id":"")"},
      {R"("id":"1-1-1")", R"("id":"a-b-c")"},
      {R"("id":"1-1-1")", R"("id":"1--1")"},
      {R"("kind":"drain")", R"("kind":"dance")"},
      {R"("instance_id":"knc)", R"("instance_id":"KNC)"},
      {R"("tenant":"prod")", R"("tenant":"../prod")"},
      {R"("group":"workers")", R"("group":"")"},
      {R"("reason":"unhealthy")", R"("reason":"")"},
      {R"("deadline":"2026)", R"("deadline":"x2026)"},
      {R"("length_ms":1)", R"("length_ms":-1)"},
      {R"("ordered":true)", R"("ordered":"yes")"},
      {R"("counted":true)", R"("uncounted":true)"},
  };
  for (const auto& [from, to] : rows) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    const auto decoded = DecodeJournal(bad, ExampleIdentity());
    ASSERT_FALSE(decoded.has_value()) << to;
    EXPECT_EQ(decoded.error().code, Code::kDataLoss) << to;
  }
}

TEST(JournalTest, TwoIntentsOfOneIdAreCorrupt) {
  Prng prng(3);
  Journal journal = Empty();
  for (int i = 0; i < 2; ++i) {
    journal.intents.push_back(ExampleIntent(IntentKind::kPark, prng));
    journal.intents.back().id = "1-1-1";
  }
  EXPECT_FALSE(DecodeJournal(EncodeJournal(journal), ExampleIdentity()).has_value());
}

TEST(JournalTest, TakingOverRaisesEpochAndSeqAndKeepsEverythingElse) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Prng prng(seed);
    const Journal before = RandomJournal(prng, 5);
    const Journal after = TakeOver(before, Stamp());
    EXPECT_EQ(after.epoch, before.epoch + 1);
    EXPECT_EQ(after.seq, before.seq + 1);
    EXPECT_EQ(after.holder, "s2/0002");
    EXPECT_EQ(after.write_id, "new");
    EXPECT_EQ(after.intents, before.intents);
    EXPECT_EQ(after.unknown, before.unknown);
    EXPECT_EQ(after.audit_head, before.audit_head);
    EXPECT_EQ(after.memory, before.memory);
  }
}

TEST(JournalTest, AnAbsentJournalIsEpochOneOnlyWhenNoRecordCarriesAnEpoch) {
  const auto first = FirstJournal(ExampleIdentity(), EpochEvidence::kNone, Stamp());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->epoch, 1);
  EXPECT_EQ(first->seq, 1);
  EXPECT_EQ(first->memory.created_at, Stamp().at);
  EXPECT_EQ(first->memory.records, 0);
  EXPECT_FALSE(first->memory.groups.has_value());
  const auto refused = FirstJournal(ExampleIdentity(), EpochEvidence::kSome, Stamp());
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("reset-journal"), std::string::npos);
}

TEST(JournalTest, WhatIsRememberedStandsBeforeTheIntents) {
  Journal journal = Empty();
  journal.memory = {
      .created_at = Timestamp::FromUnix(1'767'225'600),
      .records = 3,
      .restarted =
          JournalRestart{
              .at = Timestamp::FromUnix(1'767'225'660), .by = "recover", .mode = "adopt"},
      .groups = GroupsMark{.epoch = 2, .seq = 9, .sha256 = "00ff"},
  };
  const std::string bytes = EncodeJournal(journal);
  EXPECT_NE(bytes.find(R"("updated_at":"2026-01-01T00:00:00Z",)"
                       R"("created_at":"2026-01-01T00:00:00Z","records":3,)"
                       R"("restarted":{"at":"2026-01-01T00:01:00Z","by":"recover","mode":"adopt"},)"
                       R"("groups":{"epoch":2,"seq":9,"sha256":"00ff"},"intents":[])"),
            std::string::npos)
      << bytes;
}

TEST(JournalTest, AMarkIsBelowAnotherByEpochThenBySeq) {
  const GroupsMark mark = {.epoch = 2, .seq = 5, .sha256 = "a"};
  EXPECT_TRUE(IsBelow({.epoch = 1, .seq = 9, .sha256 = "b"}, mark));
  EXPECT_TRUE(IsBelow({.epoch = 2, .seq = 4, .sha256 = "b"}, mark));
  EXPECT_FALSE(IsBelow({.epoch = 2, .seq = 5, .sha256 = "b"}, mark));
  EXPECT_FALSE(IsBelow({.epoch = 3, .seq = 1, .sha256 = "b"}, mark));
}

TEST(JournalTest, AResetJournalIsAboveEverythingFound) {
  const Journal reset =
      ResetJournal(ExampleIdentity(), {.highest_epoch = 41, .highest_seq = 1'000}, Stamp());
  EXPECT_EQ(reset.epoch, 42);
  EXPECT_EQ(reset.seq, 1'001);
  EXPECT_TRUE(reset.intents.empty());
}

// --- Changes ------------------------------------------------------------------------------------

Intent Of(IntentKind kind, std::string_view tenant) {
  static Prng prng(4);
  Intent intent = ExampleIntent(kind, prng);
  intent.tenant = TenantId::Parse(tenant).value();
  return intent;
}

std::vector<Fate> Fates(const JournalDraft& draft) {
  std::vector<Fate> fates;
  for (const ChangeResult& result : draft.results) fates.push_back(result.fate);
  return fates;
}

TEST(JournalTableTest, IntentsAreNamedAfterTheWriteThatBringsThem) {
  const JournalTable table(Empty(), {});
  const JournalDraft draft =
      table.Plan(std::vector<JournalChange>{{.intent = Of(IntentKind::kCreate, "a")},
                                            {.intent = Of(IntentKind::kDrain, "a")}},
                 Stamp());
  const Journal& next = draft.table.journal();
  EXPECT_EQ(next.seq, 2);
  EXPECT_EQ(next.epoch, 1);
  ASSERT_EQ(next.intents.size(), 2U);
  EXPECT_EQ(next.intents[0].id, "1-2-1");
  EXPECT_EQ(next.intents[1].id, "1-2-2");
  EXPECT_EQ(draft.results[1].id, "1-2-2");
  EXPECT_EQ(next.intents[0].epoch, 1);
}

TEST(JournalTableTest, ChangesAreMadeInTheirOrder) {
  JournalTable table(Empty(), {});
  table = table
              .Plan(std::vector<JournalChange>{{.intent = Of(IntentKind::kDrain, "a")},
                                               {.intent = Of(IntentKind::kCreate, "a")},
                                               {.intent = Of(IntentKind::kPark, "a")}},
                    Stamp())
              .table;
  Intent acked = table.journal().intents[0];
  acked.acked_at = Timestamp::FromUnix(1);
  const JournalDraft draft = table.Plan(
      std::vector<JournalChange>{
          {.id = "1-2-1", .intent = acked, .identity = JournalChange::Identity::kSame},
          {.id = "1-2-1", .intent = Of(IntentKind::kDelete, "a")},
          {.id = "1-2-2"},
          {.id = "1-2-2"},
          {.id = "no-such-1"},
      },
      Stamp());
  EXPECT_EQ(Fates(draft), (std::vector<Fate>{Fate::kMade, Fate::kMade, Fate::kMade, Fate::kUnknown,
                                             Fate::kUnknown}));
  ASSERT_EQ(draft.table.journal().intents.size(), 2U);
  EXPECT_EQ(draft.table.journal().intents[0].id, "1-3-1");
  EXPECT_EQ(draft.table.journal().intents[0].kind, IntentKind::kDelete);
  EXPECT_EQ(draft.table.journal().intents[1].id, "1-2-3");
  EXPECT_EQ(table.journal().intents.size(), 3U);  // A plan changes nothing.
}

struct RoomRow {
  IntentKind kind;
  std::string tenant;
  Brake brake;
  std::size_t fit;
};

TEST(JournalTableTest, EachLimitHolds) {
  const std::vector<RoomRow> rows = {
      {IntentKind::kCreate, "a", Brake::kFree, 320},  // Five eighths of a tenant's half.
      {IntentKind::kDelete, "a", Brake::kHeld, 128},  // A quarter of it.
      {IntentKind::kDrain, "a", Brake::kFree, 64},    // What is left of the half.
      {IntentKind::kClaim, "a", Brake::kFree, 0},    {IntentKind::kCreate, "b", Brake::kFree, 320},
      {IntentKind::kCreate, "c", Brake::kFree, 128},  // 768 creations in all.
      {IntentKind::kDelete, "c", Brake::kFree, 64},   // 1,024 in all.
      {IntentKind::kDelete, "d", Brake::kFree, 0},
  };
  JournalTable table(Empty(), {});
  for (const RoomRow& row : rows) {
    std::vector<JournalChange> changes;
    for (int i = 0; i < 1'100; ++i) {
      changes.push_back({.intent = Of(row.kind, row.tenant), .brake = row.brake});
    }
    JournalDraft draft = table.Plan(changes, Stamp());
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(Fates(draft), Fate::kMade)), row.fit)
        << row.tenant;
    table = std::move(draft.table);
  }
  EXPECT_EQ(table.free_places(), 0U);
  EXPECT_LE(EncodeJournal(table.journal()).size(), 512U * 1024U);
}

TEST(JournalTableTest, WhatDoesNotFitLeavesRoomForWhatDoes) {
  JournalTable table(Empty(), {.intents = 3, .creations = 1});
  const JournalDraft draft =
      table.Plan(std::vector<JournalChange>{{.intent = Of(IntentKind::kCreate, "a")},
                                            {.intent = Of(IntentKind::kCreate, "a")},
                                            {.intent = Of(IntentKind::kDrain, "a")}},
                 Stamp());
  EXPECT_EQ(Fates(draft), (std::vector<Fate>{Fate::kMade, Fate::kWaits, Fate::kMade}));
  EXPECT_EQ(draft.results[2].id, "1-2-2");  // Numbers have no gaps.
}

TEST(JournalTableTest, BytesAreBoundedWhateverIntentsHold) {
  JournalTable table(Empty(), {});
  Intent claim = Of(IntentKind::kClaim, "a");
  claim.vars.push_back(
      {.key = "blob", .key_position = {}, .value = json::Value::String(std::string(20'000, '<'))});
  EXPECT_EQ(Fates(table.Plan(std::vector<JournalChange>{{.intent = claim}}, Stamp())),
            (std::vector<Fate>{Fate::kTooLarge}));
  claim.vars[0].value = json::Value::String(std::string(30'000, 'x'));
  const JournalDraft draft =
      table.Plan(std::vector<JournalChange>(100, {.intent = claim}), Stamp());
  const auto fates = Fates(draft);
  EXPECT_GT(std::ranges::count(fates, Fate::kMade), 10);
  EXPECT_GT(std::ranges::count(fates, Fate::kWaits), 10);
  EXPECT_LE(EncodeJournal(draft.table.journal()).size(), 512U * 1024U);
}

TEST(JournalTableTest, AReplacementNeedsNoPlace) {
  JournalTable table(Empty(), {.intents = 1});
  table = table.Plan(std::vector<JournalChange>{{.intent = Of(IntentKind::kDrain, "a")}}, Stamp())
              .table;
  const JournalDraft draft = table.Plan(
      std::vector<JournalChange>{{.id = "1-2-1", .intent = Of(IntentKind::kDelete, "a")}}, Stamp());
  EXPECT_EQ(Fates(draft), (std::vector<Fate>{Fate::kMade}));
}

TEST(JournalTableTest, AReleasedBrakeGivesItsPlaceBack) {
  JournalTable table(Empty(), {.tenant_held = 1});
  table = table
              .Plan(std::vector<JournalChange>{{.intent = Of(IntentKind::kDelete, "a"),
                                                .brake = Brake::kHeld}},
                    Stamp())
              .table;
  const TenantId tenant = TenantId::Parse("a").value();
  EXPECT_FALSE(table.HasPlace(IntentKind::kDelete, tenant, Brake::kHeld));
  table.SetBrake("1-2-1", Brake::kFree);
  EXPECT_TRUE(table.HasPlace(IntentKind::kDelete, tenant, Brake::kHeld));
}

TEST(JournalTableTest, OverManyChangesTheCountsStayTrueAndTheBytesBounded) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Prng prng(seed);
    const JournalLimits limits{.intents = 20, .bytes = 8'000, .intent_bytes = 700, .creations = 8};
    JournalTable table(Empty(), limits);
    for (int round = 0; round < 30; ++round) {
      std::vector<JournalChange> changes;
      const std::uint64_t count = prng.Below(8);
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto& open = table.journal().intents;
        JournalChange change;
        if (!open.empty() && prng.Chance(1, 2)) change.id = open[prng.Below(open.size())].id;
        if (change.id.empty() || prng.Chance(1, 3)) change.intent = RandomIntent(prng);
        if (prng.Chance(1, 4)) change.brake = Brake::kHeld;
        changes.push_back(std::move(change));
      }
      table = table.Plan(changes, Stamp()).table;
      const JournalTable fresh(table.journal(), limits);
      EXPECT_EQ(table.free_places(), fresh.free_places()) << seed;
      const std::string bytes = EncodeJournal(table.journal());
      EXPECT_LE(bytes.size(), limits.bytes) << seed;
      EXPECT_TRUE(DecodeJournal(bytes, ExampleIdentity()).has_value()) << seed;
    }
  }
}

}  // namespace
}  // namespace nstance

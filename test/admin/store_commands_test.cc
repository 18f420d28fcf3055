// `store`, `cert` and `secrets` on a simulated store.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "core/deny_list.h"
#include "core/journal.h"
#include "core/lease.h"
#include "crypto/checksum.h"
#include "crypto/envelope.h"
#include "test/admin/storage_fixture.h"

namespace nstance::admin::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class StoreCommandsTest : public StorageTest {
 public:
  static const JournalIdentity& Identity() {
    static const JournalIdentity identity = {.cluster = *ClusterId::Parse("local"),
                                             .shard = *ShardId::Parse("local-a")};
    return identity;
  }
  static std::string JournalOf(std::int64_t epoch, std::int64_t seq) {
    return EncodeJournal(ResetJournal(
        Identity(), {.highest_epoch = epoch - 1, .highest_seq = seq - 1},
        {.holder = "s1/0001", .write_id = "AAECAwQFBgcICQoLDA0ODw", .at = WorldStart()}));
  }
  static std::string LeaseOf(const std::string& write_id, Duration lease = Duration::Seconds(8)) {
    return EncodeLease({.leader_id = "s1",
                        .leader_addr = "127.0.0.1:8991",
                        .last_updated = WorldStart(),
                        .incarnation = "0123456789abcdef",
                        .term = 1,
                        .lease = lease,
                        .released = false,
                        .write_id = write_id,
                        .unknown = {}});
  }
  Result<Journal> StoredJournal() {
    return DecodeJournal(Object("journal/local-a.json").value_or(""), Identity());
  }
  // Sealed with the key of 32 times `fill`.
  static std::string Sealed(char fill, const std::string& name, crypto::EnvelopeForm form,
                            std::string_view plain = "hello") {
    const ClusterId cluster = *ClusterId::Parse("local");
    const auto key = *crypto::EncryptionKey::Parse(AsBytes(std::string(32, fill)));
    const Bytes sealed =
        *crypto::Seal(key, AsBytes(plain),
                      {.place = {.cluster = cluster, .object = name}, .form = form, .nonce = {}});
    return std::string(AsText(sealed));
  }
  Result<std::string> Opened(char fill, const std::string& name) {
    const ClusterId cluster = *ClusterId::Parse("local");
    const crypto::KeyRing ring = {
        .current = *crypto::EncryptionKey::Parse(AsBytes(std::string(32, fill))), .old = {}};
    const std::string bytes = *Object(name);
    const auto opened = crypto::Open(ring, AsBytes(bytes),
                                     {.place = {.cluster = cluster, .object = name},
                                      .legacy = crypto::LegacyPolicy::kRefused,
                                      .source = {}});
    if (!opened) return Fail(opened.error());
    return std::string(AsText(opened->plain.Reveal()));
  }
};

// --- probe ---------------------------------------------------------------------------------------

TEST_F(StoreCommandsTest, AnHonestStoreIsSafe) {
  const Ending ending = Admin("store probe");
  EXPECT_EQ(ending.exit_code, 0) << Shown(ending);
  EXPECT_THAT(ending.out, StartsWith("RULE  RESULT  "));
  EXPECT_THAT(ending.out, EndsWith("store is safe for nstance\n"));
  EXPECT_EQ(std::ranges::count(ending.out, '\n'), 11) << "headings, nine rules, the verdict";
  EXPECT_TRUE(Everything().empty()) << "nothing is left behind";
  const json::Value told = Json(Admin("store probe --json --shard x"));
  EXPECT_TRUE(*told.Find("safe")->if_bool());
  EXPECT_EQ(told.Find("checks")->if_array()->size(), 9U);
  EXPECT_GT(*told.Find("checks")->if_array()->front().Find("milliseconds")->if_integer(), 0);
}

TEST_F(StoreCommandsTest, AStoreThatLiesIsNotSafe) {
  world.bucket.personality().ignores_conditions = true;
  const Ending ending = Admin("store probe");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.out, AllOf(HasSubstr("FAIL"), HasSubstr("\nstore is NOT safe: ")));
  EXPECT_FALSE(*Json(Admin("store probe --json")).Find("safe")->if_bool());
}

TEST_F(StoreCommandsTest, AStoreThatDoesNotAnswerIsAnError) {
  prepare = [](AdminProcess& process) { process.store().faults().error_not_done = 10'000; };
  const Ending ending = Admin("store probe --json");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.out, IsEmpty());
  EXPECT_THAT(ending.err, AllOf(HasSubstr("the store could not be probed"),
                                HasSubstr("\"code\":\"UNAVAILABLE\"")));
}

// --- show ----------------------------------------------------------------------------------------

TEST_F(StoreCommandsTest, WhatIsNotThereExitsWith3) {
  const Ending ending = Admin("store show journal/x.json");
  EXPECT_EQ(ending.exit_code, 3);
  EXPECT_THAT(ending.err, StartsWith("Error: "));
  EXPECT_EQ(Admin("store show ../x").exit_code, 2);
  EXPECT_EQ(Admin("store show").exit_code, 2);
}

TEST_F(StoreCommandsTest, ShowsBytesAndJudgesThem) {
  SetObject("journal/local-a.json", JournalOf(3, 17));
  const Ending good = Admin("store show journal/local-a.json");
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_EQ(good.out, JournalOf(3, 17) + "\n");
  EXPECT_THAT(good.err, AllOf(HasSubstr("journal, "), HasSubstr("checksum right"),
                              Not(HasSubstr("Problem"))));
  std::string damaged = JournalOf(3, 17);
  damaged[damaged.find("\"epoch\":3") + 8] = '4';
  SetObject("journal/local-a.json", damaged);
  const Ending bad = Admin("store show journal/local-a.json");
  EXPECT_EQ(bad.exit_code, 0);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("checksum WRONG"), HasSubstr("Problem: corrupt journal")));
  EXPECT_EQ(Text(Json(Admin("store show journal/local-a.json --json")), "checksum"), "WRONG");
  SetObject("leader/local-a.json", LeaseOf("AAECAwQFBgcICQoLDA0ODw"));
  EXPECT_THAT(Admin("store show leader/local-a.json").err,
              AllOf(HasSubstr("lease, "), HasSubstr("checksum right"), Not(HasSubstr("Problem"))));
  SetObject("instance/local-a/default.x.json", "{}");
  EXPECT_THAT(Admin("store show instance/local-a/default.x.json").err, HasSubstr("Problem: "));
}

TEST_F(StoreCommandsTest, SecretsStaySealed) {
  MakeCluster();
  const Ending ending = Admin("store show secret/ca.key");
  EXPECT_EQ(ending.exit_code, 0);
  EXPECT_EQ(ending.out, Base64Encode(AsBytes(*Object("secret/ca.key"))) + "\n");
  EXPECT_THAT(ending.err, ContainsRegex("sealed: form v1, key id [0-9a-f]{16}"));
  SetObject("secret/plain", "NSTANCE-CANARY-1");
  const Ending plain = Admin("store show secret/plain");
  EXPECT_THAT(Shown(plain), AllOf(HasSubstr("not sealed"), Not(HasSubstr("CANARY"))));
  EXPECT_THAT(Admin("store show secret/plain --json").out, Not(HasSubstr("CANARY")));
  EXPECT_THAT(Admin("store show secret/plain --json").out,
              Not(HasSubstr(Base64Encode(AsBytes("NSTANCE-CANARY-1")))));
}

TEST_F(StoreCommandsTest, WhatATerminalWouldActOnIsNotPrinted) {
  SetObject("file/x", "a\x1b[2Jb");
  EXPECT_EQ(Admin("store show file/x").out, Base64Encode(AsBytes("a\x1b[2Jb")) + "\n");
}

// --- reset-journal -------------------------------------------------------------------------------

TEST_F(StoreCommandsTest, ANewJournalIsAboveEverythingThatTellsOfAnEpoch) {
  MakeCluster();
  SetObject("journal/local-a.json", "{ damaged");
  SetObject("instance/local-a/default.wrk06bgm7733st2576nx5jht4ecjw.json",
            R"({"epoch":5,"seq":40})");
  SetObject("instance/other/default.wrk06bgm7733st2576nx5jht4ecjw.json", R"({"epoch":99})");
  SetObject("groups/local-a.jsonc", "// nstance epoch=7 seq=3 write_id=x sha256=y\n{}");
  SetObject("certlog/local-a/default.20260101000000000.x.json", R"({"epoch":6})");
  const Ending ending = Admin("store reset-journal --shard local-a --yes");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  const auto journal = StoredJournal();
  ASSERT_TRUE(journal) << journal.error().ToString();
  EXPECT_EQ(journal->epoch, 8);
  EXPECT_EQ(journal->seq, 41);
  EXPECT_TRUE(journal->intents.empty());
  EXPECT_THAT(journal->holder, StartsWith("nstance-admin/"));
  EXPECT_THAT(ending.out, HasSubstr("epoch      8\n"));
  EXPECT_THAT(ending.err, HasSubstr("journal/local-a.json is not readable"));
  EXPECT_THAT(notes, HasSubstr("Watching the lease of shard local-a for 10s."));
}

TEST_F(StoreCommandsTest, AReadableJournalCountsToo) {
  MakeCluster();
  SetObject("journal/local-a.json", JournalOf(12, 100));
  ASSERT_EQ(Admin("store reset-journal --shard local-a --yes").exit_code, 0);
  EXPECT_EQ(StoredJournal()->epoch, 13);
}

TEST_F(StoreCommandsTest, AMissingJournalIsCreated) {
  MakeCluster();
  ASSERT_EQ(Admin("store reset-journal --shard local-a --yes").exit_code, 0);
  EXPECT_EQ(StoredJournal()->epoch, 1);
}

TEST_F(StoreCommandsTest, NothingIsResetWhileSomebodyLeads) {
  MakeCluster();
  SetObject("journal/local-a.json", "{ damaged");
  SetObject("leader/local-a.json", LeaseOf("AAECAwQFBgcICQoLDA0ODw"));
  Pending renewal;
  prepare = [&](AdminProcess& process) {
    renewal = process.loop().CallAfter(Duration::Seconds(9), [&] {
      SetObject("leader/local-a.json", LeaseOf("BBECAwQFBgcICQoLDA0ODw"));
    });
  };
  const Ending ending = Admin("store reset-journal --shard local-a --yes");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("shard local-a has a leader"), HasSubstr("held by s1"),
                                HasSubstr("Stop the shard's servers first")));
  EXPECT_EQ(*Object("journal/local-a.json"), "{ damaged");
  EXPECT_EQ(changes, 0);
}

TEST_F(StoreCommandsTest, ALongLeaseIsWatchedForItsWholeLength) {
  MakeCluster();
  SetObject("leader/local-a.json", LeaseOf("AAECAwQFBgcICQoLDA0ODw", Duration::Seconds(60)));
  Pending renewal;
  prepare = [&](AdminProcess& process) {
    renewal = process.loop().CallAfter(Duration::Seconds(50), [&] {
      SetObject("leader/local-a.json", LeaseOf("BBECAwQFBgcICQoLDA0ODw", Duration::Seconds(60)));
    });
  };
  EXPECT_EQ(Admin("store reset-journal --shard local-a --yes").exit_code, 1);
}

TEST_F(StoreCommandsTest, AJournalThatChangesMeanwhileStands) {
  MakeCluster();
  SetObject("journal/local-a.json", "{ damaged");
  Pending other;
  prepare = [&](AdminProcess& process) {
    other = process.loop().CallAfter(Duration::Seconds(5),
                                     [&] { SetObject("journal/local-a.json", JournalOf(20, 20)); });
  };
  const Ending ending = Admin("store reset-journal --shard local-a --yes");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, HasSubstr("the journal has changed meanwhile"));
  EXPECT_EQ(StoredJournal()->epoch, 20);
}

TEST_F(StoreCommandsTest, AResetHasToBeConfirmed) {
  MakeCluster();
  const Ending ending = Admin("store reset-journal --shard local-a");
  EXPECT_EQ(ending.exit_code, 2);
  EXPECT_THAT(ending.err, HasSubstr("confirm with --yes"));
  EXPECT_EQ(Admin("store reset-journal --yes").exit_code, 2);
}

// --- cost ----------------------------------------------------------------------------------------

TEST_F(StoreCommandsTest, CostIsTheBudgetTimesTheHours) {
  const json::Value told = Json(Admin("store cost --json"));
  // LB5: 1,802 lease writes and 430 reads an hour; the cluster lease as many writes again.
  // LB6: a standby reads 1,800 + 420 times an hour, and 1,800 times the cluster lease.
  EXPECT_EQ(*told.Find("put")->if_integer(), (1802 + 1802) * 730);
  EXPECT_EQ(*told.Find("get")->if_integer(), (430 + 1800 + 420 + 1800) * 730);
  const json::Value slow = Json(Admin("store cost --shards 2 --standbys 0 --renew 5s --json"));
  EXPECT_EQ(*slow.Find("put")->if_integer(), (2 * 722 + 722) * 730);
  EXPECT_EQ(*slow.Find("get")->if_integer(), (2 * 430 + 720) * 730);
  const Ending table = Admin("store cost");
  EXPECT_THAT(table.out, AllOf(StartsWith("SERVERS"), HasSubstr("1 standing by"),
                               HasSubstr("total"), HasSubstr("2630920")));
  EXPECT_EQ(Admin("store cost --renew 1ms").exit_code, 2);
  EXPECT_EQ(Admin("store cost --shards 0").exit_code, 2);
}

// --- cert ----------------------------------------------------------------------------------------

TEST_F(StoreCommandsTest, DenyAddsToTheListThatServersFollow) {
  EXPECT_EQ(Admin("cert denied").out, "nobody is denied\n");
  const Ending ending = Admin("cert deny --serial 4711 --reason lost");
  EXPECT_EQ(ending.exit_code, 0) << Shown(ending);
  EXPECT_THAT(ending.out, HasSubstr("denied the certificate 4711 until 2027-01-01T"));
  ASSERT_EQ(Admin("cert deny --tenant prod --identity knc06bgm7733st2576nx5jht4ecjw").exit_code, 0);
  const auto list = DecodeDenyList(*Object("deny/cluster.json"));
  ASSERT_TRUE(list) << list.error().ToString();
  ASSERT_EQ(list->entries.size(), 2U);
  EXPECT_EQ(list->entries[0].serial, "4711");
  EXPECT_EQ(list->entries[0].reason, "lost");
  EXPECT_EQ(list->entries[0].expires_at - list->entries[0].denied_at, Duration::Hours(8'760));
  EXPECT_EQ(list->entries[1].tenant->text(), "prod");
  EXPECT_EQ(crypto::CheckChecksum(*Object("deny/cluster.json")), crypto::ChecksumState::kRight);
  EXPECT_THAT(Admin("cert denied").out,
              AllOf(StartsWith("SERIAL  TENANT  IDENTITY"), HasSubstr("\n4711    -       -")));
  EXPECT_EQ(Json(Admin("cert denied --json")).Find("entries")->if_array()->size(), 2U);
  // Twice is once.
  ASSERT_EQ(Admin("cert deny --serial 4711 --reason again").exit_code, 0);
  EXPECT_EQ(DecodeDenyList(*Object("deny/cluster.json"))->entries.size(), 2U);
}

TEST_F(StoreCommandsTest, TwoWhoDenyAtOnceAreBothHeard) {
  ASSERT_EQ(Admin("cert deny --serial 1").exit_code, 0);
  const std::string first = *Object("deny/cluster.json");
  ASSERT_EQ(Admin("cert deny --serial 2").exit_code, 0);
  const std::string second = *Object("deny/cluster.json");
  SetObject("deny/cluster.json", first);
  // Ours has read the first list when the second one is written.
  Pending other;
  prepare = [&](AdminProcess& process) {
    process.store().faults().latency_min = Duration::Milliseconds(100);
    process.store().faults().latency_max = Duration::Milliseconds(100);
    other = process.loop().CallAfter(Duration::Milliseconds(150),
                                     [&] { SetObject("deny/cluster.json", second); });
  };
  ASSERT_EQ(Admin("cert deny --serial 3").exit_code, 0);
  EXPECT_EQ(DecodeDenyList(*Object("deny/cluster.json"))->entries.size(), 3U);
}

TEST_F(StoreCommandsTest, AListThatCannotBeReadIsNotReplaced) {
  SetObject("deny/cluster.json", "{ damaged");
  for (const char* command : {"cert deny --serial 1", "cert denied"}) {
    const Ending ending = Admin(command);
    EXPECT_EQ(ending.exit_code, 1) << command;
    EXPECT_THAT(ending.err, AllOf(HasSubstr("deny/cluster.json"), HasSubstr("repair it by hand")));
  }
  EXPECT_EQ(*Object("deny/cluster.json"), "{ damaged");
}

TEST_F(StoreCommandsTest, WhomToDenyHasToBeClear) {
  for (const char* words : {"", "--serial 1 --tenant t --identity i", "--tenant t", "--identity i",
                            "--serial x", "--serial -1", "--tenant T --identity i"}) {
    const Ending ending = Admin(std::string("cert deny ") + words);
    EXPECT_EQ(ending.exit_code, 2) << words;
  }
  EXPECT_TRUE(Everything().empty());
}

TEST_F(StoreCommandsTest, DenyDiesAtItsOnlyChangeAndIsRunAgain) {
  for (const auto death : {Life::Death::kBefore, Life::Death::kAfter}) {
    AdminSite site;
    EXPECT_EQ(site.Admin("cert deny --serial 9", {.die_at = 1, .death = death}).exit_code, 1);
    EXPECT_EQ(site.Admin("cert deny --serial 9").exit_code, 0);
    EXPECT_EQ(DecodeDenyList(*site.Object("deny/cluster.json"))->entries.size(), 1U);
  }
}

TEST_F(StoreCommandsTest, AWriteWhoseAnswerIsLostIsReadBackAndNotGuessed) {
  int done = 0;
  int not_done = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    AdminSite site(seed);
    // Every write is answered with an error, and done in half of the cases.
    site.prepare = [](AdminProcess& process) {
      process.store().faults().error_maybe_done = 10'000;
    };
    const Ending ending = site.Admin("cert deny --serial 9");
    const bool there = site.Object("deny/cluster.json").has_value();
    EXPECT_EQ(ending.exit_code, there ? 0 : 1) << seed << Shown(ending);
    ++(there ? done : not_done);
  }
  EXPECT_GT(done, 0);
  EXPECT_GT(not_done, 0);
}

// --- secrets -------------------------------------------------------------------------------------

class ResealTest : public StoreCommandsTest {
 public:
  // A cluster whose configuration names the key `n`, and `o` as the old one.
  ResealTest() {
    files["/keys/n"] = std::string(32, 'n');
    files["/keys/o"] = std::string(32, 'o');
    MakeCluster("--key-provider file --key-source /keys/n");
    std::string text = *Object("config/local-a.jsonc");
    text.replace(text.find("\"encryption_key\""), 0,
                 "\"old_encryption_keys\": [ { \"provider\": \"file\", \"source\": \"/keys/o\" } "
                 "],\n      ");
    SetObject("config/local-a.jsonc", text);
    SetObject("secret/a", Sealed('o', "secret/a", crypto::EnvelopeForm::kV1));
    SetObject("secret/b", Sealed('o', "secret/b", crypto::EnvelopeForm::kLegacy));
    SetObject("secret/c", Sealed('n', "secret/c", crypto::EnvelopeForm::kV1));
  }
};

TEST_F(ResealTest, EverySecretIsSealedAnewWithThePresentKey) {
  const auto unchanged = *Object("secret/c");
  const Ending ending = Admin("secrets reseal");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  for (const char* name : {"secret/a", "secret/b", "secret/c"}) {
    EXPECT_EQ(Opened('n', name).value_or("(closed)"), "hello") << name;
  }
  EXPECT_EQ(*Object("secret/c"), unchanged);
  EXPECT_THAT(ending.out, AllOf(ContainsRegex("secret/a +[0-9a-f]{16}  [0-9a-f]{16}  resealed"),
                                ContainsRegex("secret/b +legacy +[0-9a-f]{16}  resealed"),
                                ContainsRegex("secret/c .* unchanged"), Not(HasSubstr("hello"))));
  const Ending again = Admin("secrets reseal");
  EXPECT_EQ(changes, 0);
  EXPECT_THAT(again.out, Not(HasSubstr("resealed")));
}

TEST_F(ResealTest, ARehearsalOnlyTells) {
  const auto before = Everything();
  const json::Value told = Json(Admin("secrets reseal --dry-run --json"));
  EXPECT_EQ(Everything(), before);
  const json::Array& secrets = *told.Find("secrets")->if_array();
  ASSERT_EQ(secrets.size(), 5U);
  EXPECT_EQ(Text(secrets[0], "result"), "to reseal");
  EXPECT_EQ(Text(secrets[2], "result"), "unchanged");
}

TEST_F(ResealTest, WhatDoesNotOpenStaysAndIsTold) {
  SetObject("secret/d", Sealed('x', "secret/d", crypto::EnvelopeForm::kV1));
  SetObject("secret/e", Sealed('n', "secret/other", crypto::EnvelopeForm::kV1));
  const auto d = *Object("secret/d");
  const Ending ending = Admin("secrets reseal");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("2 of 7 secrets were not resealed"),
                                HasSubstr("old_encryption_keys")));
  EXPECT_THAT(ending.out, HasSubstr("needs the key with id"));
  EXPECT_EQ(*Object("secret/d"), d);
  EXPECT_EQ(Opened('n', "secret/a").value_or("(closed)"), "hello") << "the others are done";
}

TEST_F(ResealTest, DiesAtEveryChangeAndIsRunAgain) {
  for (int at = 1; at <= 2; ++at) {
    for (const auto death : {Life::Death::kBefore, Life::Death::kAfter}) {
      SetObject("secret/a", Sealed('o', "secret/a", crypto::EnvelopeForm::kV1));
      SetObject("secret/b", Sealed('o', "secret/b", crypto::EnvelopeForm::kLegacy));
      EXPECT_EQ(Admin("secrets reseal", {.die_at = at, .death = death}).exit_code, 1);
      EXPECT_TRUE(died);
      ASSERT_EQ(Admin("secrets reseal").exit_code, 0);
      for (const char* name : {"secret/a", "secret/b"}) {
        EXPECT_EQ(Opened('n', name).value_or("(closed)"), "hello") << name;
      }
    }
  }
}

TEST_F(ResealTest, ASecretThatIsReplacedMeanwhileIsNeverLost) {
  const std::string rival = Sealed('o', "secret/a", crypto::EnvelopeForm::kV1, "rival");
  sim::SimLoop rivals(world.scheduler, WorldStart());
  prepare = [](AdminProcess& process) {
    process.store().faults().latency_min = Duration::Milliseconds(100);
    process.store().faults().latency_max = Duration::Milliseconds(100);
  };
  int failed = 0;
  for (int milliseconds = 50; milliseconds <= 2'000; milliseconds += 50) {
    SetObject("secret/a", Sealed('o', "secret/a", crypto::EnvelopeForm::kV1));
    bool came = false;
    const Pending other = rivals.CallAfter(Duration::Milliseconds(milliseconds), [&] {
      came = true;
      SetObject("secret/a", rival);
    });
    if (Admin("secrets reseal").exit_code != 0) ++failed;
    if (!came || *Object("secret/a") == rival) continue;
    EXPECT_EQ(Opened('n', "secret/a").value_or("(closed)"), "rival") << milliseconds;
  }
  EXPECT_GT(failed, 0) << "it was replaced between our read and our write at least once";
}

TEST_F(ResealTest, AKeyThatServersDoNotHaveIsRefused) {
  variables["NSTANCE_ENCRYPTION_KEY"] = std::string(32, 'o');
  const auto before = Everything();
  const Ending ending = Admin("secrets reseal");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("names another key (file /keys/n)"),
                                HasSubstr("environment variable NSTANCE_ENCRYPTION_KEY")));
  EXPECT_EQ(Everything(), before);
}

TEST_F(ResealTest, AClusterThatIsSharedWithOlderProgramsIsLeftAlone) {
  std::string text = *Object("config/local-a.jsonc");
  text.replace(text.find("\"encryption_key\""), 0, "\"envelope\": \"legacy\",\n      ");
  SetObject("config/local-a.jsonc", text);
  const Ending ending = Admin("secrets reseal");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, HasSubstr("asks for the legacy envelope"));
  EXPECT_EQ(changes, 0);
}

}  // namespace
}  // namespace nstance::admin::test

// A shard that nobody answers for, in virtual time: how long the tool tries, whom it names from the
// lease in the bucket, and what --debug tells of each try.
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "admin/shard/lease_news.h"
#include "base/json.h"
#include "core/lease.h"
#include "test/admin/shard_world.h"

namespace nstance::admin::test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

LeaseRecord LeaseOf(const std::string& holder) {
  return {.leader_id = holder,
          .leader_addr = "10.0.0.1:8994",
          .last_updated = kToday,
          .incarnation = "0123456789abcdef",
          .term = 3,
          .lease = Duration::Seconds(8),
          .write_id = "w",
          .unknown = {}};
}

class ShardOutageTest : public testing::Test {
 public:
  ShardOutageTest() {
    for (const char* name : {"a", "b"}) {
      world.shard(name).groups["workers"] = {.key = "workers", .tenant = "prod", .size = 2};
    }
  }
  void PutLease(const std::string& bytes) {
    world.bucket.SetByHand(*ObjectKey::Parse("leader/a.json"), bytes);
  }
  // `group list` of shard a, with a bucket.
  [[nodiscard]] Ending List(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"group", "list",      "--shard", "a", "--storage-bucket",
                                      "b1",    "--timeout", "6s"};
    words.insert(words.end(), more.begin(), more.end());
    return world.Run(words);
  }

  ShardWorld world{{"a", "b"}};
};

// --- Who leads -----------------------------------------------------------------------------------

TEST_F(ShardOutageTest, TheHolderOfALeaseThatRanOutIsNamedWithItsAge) {
  PutLease(EncodeLease(LeaseOf("srv-1")));
  world.RunFor(Duration::Seconds(3'600));
  world.StopShard("a");
  const Instant before = world.loop.Now();
  const Ending ending = List();
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_EQ(world.loop.Now() - before, Duration::Seconds(6)) << "the lease costs no time";
  EXPECT_THAT(ending.err,
              AllOf(StartsWith("Error on a: "), HasSubstr("(tried for 6s)"),
                    HasSubstr("nobody leads shard a at a.example:8993: its lease ran out: srv-1 "
                              "(10.0.0.1:8994) held it, last renewed 1h ago")));
  EXPECT_EQ(std::ranges::count(ending.err, '\n'), 1);
}

TEST_F(ShardOutageTest, TheHolderOfALeaseThatIsKeptIsNamedAsTheOneToReach) {
  world.shard("a").refuse["ListGroups"] = Unavailable("not the acting leader");
  world.Start({"group", "list", "--shard", "a", "--storage-bucket", "b1", "--json"});
  for (int i = 0; i < 30; ++i) {
    PutLease(EncodeLease(LeaseOf("srv-2")));
    world.RunFor(Duration::Seconds(1));
  }
  ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }));
  const auto error = json::Parse(world.ending->err);
  ASSERT_TRUE(error) << world.ending->err;
  EXPECT_EQ(*error->Find("code")->if_string(), "UNAVAILABLE");
  EXPECT_THAT(*error->Find("error")->if_string(),
              AllOf(HasSubstr("its lease is held by srv-2 (10.0.0.1:8994), renewed 0s ago"),
                    HasSubstr("--servers")));
  // Once, a few seconds before the end; what a bucket costs is asked of nobody who does not need
  // it.
  EXPECT_EQ(world.bucket.Count(sim::SimMethod::kGet, "leader"), 1U);
}

TEST_F(ShardOutageTest, TheLeaseOfAGoServerIsFoundByItsOwnName) {
  world.bucket.SetByHand(*ObjectKey::Parse("shard/a/leader.json"), EncodeLease(LeaseOf("go-1")));
  world.StopShard("a");
  EXPECT_THAT(List().err, HasSubstr("go-1 (10.0.0.1:8994)"));
  EXPECT_THAT(List({"--layout", "nstance-v2"}).err, HasSubstr("go-1 (10.0.0.1:8994)"));
  EXPECT_THAT(List({"--layout", "seed"}).err, HasSubstr("the bucket has no lease of it"));
  // Ours comes first.
  PutLease(EncodeLease(LeaseOf("srv-1")));
  EXPECT_THAT(List().err, AllOf(HasSubstr("srv-1"), Not(HasSubstr("go-1"))));
  EXPECT_THAT(List({"--layout", "nstance-v2"}).err, HasSubstr("go-1"));
}

TEST_F(ShardOutageTest, TheLeaseIsLookedForBelowThePrefix) {
  world.bucket.SetByHand(*ObjectKey::Parse("here/leader/a.json"), EncodeLease(LeaseOf("srv-1")));
  world.StopShard("a");
  EXPECT_THAT(List({"--storage-prefix", "here"}).err, HasSubstr("srv-1 (10.0.0.1:8994)"));
  EXPECT_THAT(List().err, HasSubstr("the bucket has no lease of it"));
}

TEST_F(ShardOutageTest, WithoutABucketTheMessageSaysWhatToGive) {
  world.StopShard("a");
  const Ending ending = world.Run({"group", "list", "--shard", "a", "--timeout", "3s"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err,
              EndsWith("nobody leads shard a at a.example:8993: ask each of its servers "
                       "for /leader/health, or correct --servers; with "
                       "--storage-bucket this names the holder of the lease\n"));
}

TEST_F(ShardOutageTest, ABucketThatDoesNotHelpIsSaidToBeSo) {
  world.StopShard("a");
  EXPECT_THAT(List().err, HasSubstr("the bucket has no lease of it: no server has led it yet, or "
                                    "--storage-bucket and --storage-prefix are another cluster's"));
  PutLease("nonsense");
  EXPECT_THAT(List().err, HasSubstr("its lease, written 3s ago, does not read: "));
  world.store.faults().error_not_done = 10'000;
  EXPECT_THAT(List().err,
              AllOf(HasSubstr("its lease cannot be read: "), HasSubstr("--storage-bucket")));
  world.store.faults().error_not_done = 0;
  world.store.link().answers_lost = true;
  const Instant before = world.loop.Now();
  EXPECT_THAT(List().err, HasSubstr("its lease could not be read in time"));
  EXPECT_EQ(world.loop.Now() - before, Duration::Seconds(6));
}

TEST_F(ShardOutageTest, TextOfTheLeaseNeverReachesTheTerminalAsControls) {
  LeaseRecord evil = LeaseOf("srv\x1b[2J");
  evil.leader_addr = "\r\nError: all is well";
  PutLease(EncodeLease(evil));
  world.StopShard("a");
  const Ending ending = List();
  EXPECT_THAT(ending.err, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r"))));
  EXPECT_EQ(std::ranges::count(ending.err, '\n'), 1);
}

TEST_F(ShardOutageTest, TheBucketOfTheEnvironmentCountsAndAWrongKindIsABadLine) {
  world.StopShard("a");
  world.environment["NSTANCE_ADMIN_STORAGE_BUCKET"] = "b1";
  PutLease(EncodeLease(LeaseOf("srv-1")));
  const Ending ending = world.Run({"group", "list", "--shard", "a", "--timeout", "3s"});
  EXPECT_THAT(ending.err, HasSubstr("srv-1 (10.0.0.1:8994)"));
  const Ending bad = world.Run({"group", "list", "--shard", "a", "--storage-provider", "ftp"});
  EXPECT_EQ(bad.exit_code, kExitBadCommandLine);
  EXPECT_THAT(bad.err, HasSubstr("--storage-provider: \"ftp\" is unknown; one of: file, s3, gcs"));
}

TEST_F(ShardOutageTest, AShardThatAnswersCostsTheBucketNothing) {
  EXPECT_EQ(List().exit_code, 0);
  EXPECT_EQ(world.bucket.Count(sim::SimMethod::kGet, "leader"), 0U);
}

TEST(LeaseClauseTest, TheAgeIsByTheBestClockThereIs) {
  struct Moments {
    std::optional<Timestamp> modified_at = std::nullopt;
    std::optional<Timestamp> store_time = std::nullopt;
  };
  const auto clause = [](const LeaseRecord& record, const Moments& moments) {
    Object object{.bytes = EncodeLease(record), .version = {}};
    object.modified_at = moments.modified_at;
    object.store_time = moments.store_time;
    return LeaseClause(object, kToday + Duration::Seconds(5));
  };
  LeaseRecord record = LeaseOf("s");
  // Our own clock against the holder's.
  EXPECT_THAT(clause(record, {}), HasSubstr("is held by s (10.0.0.1:8994), renewed 5s ago"));
  // Our own clock against the store's.
  EXPECT_THAT(clause(record, {.modified_at = kToday + Duration::Seconds(2)}),
              HasSubstr("renewed 3s ago"));
  // The store's alone: ours may be wrong by hours.
  EXPECT_THAT(clause(record, {.modified_at = kToday + Duration::Hours(3) - Duration::Seconds(1),
                              .store_time = kToday + Duration::Hours(3)}),
              HasSubstr("renewed 1s ago"));
  // Up to the end of its time it is kept.
  EXPECT_THAT(clause(record, {.modified_at = kToday - Duration::Seconds(3)}),
              HasSubstr("is held by s"));
  EXPECT_THAT(clause(record, {.modified_at = kToday - Duration::Seconds(4)}),
              HasSubstr("ran out: s (10.0.0.1:8994) held it, last renewed 9s ago"));
  record.released = true;
  record.last_updated = Timestamp::GoZero();
  EXPECT_THAT(clause(record, {.modified_at = kToday - Duration::Minutes(2)}),
              HasSubstr("was given back by s (10.0.0.1:8994) 2m5s ago: start a server"));
  EXPECT_THAT(clause(record, {}), HasSubstr("at a time that is not known"));
}

// --- How long ------------------------------------------------------------------------------------

TEST_F(ShardOutageTest, TheTimeoutBoundsAllStepsOfACommandTogether) {
  FakeShard& shard = world.shard("a");
  shard.refuse["ListGroups"] = Unavailable("stepping down");
  shard.refuse["UpsertGroup"] = Unavailable("stepping down");
  const Instant before = world.loop.Now();
  world.Start({"group", "scale", "workers", "3", "--shard", "a", "--timeout", "7s"});
  world.RunFor(Duration::Seconds(4));
  shard.refuse.erase("ListGroups");
  ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }));
  EXPECT_EQ(world.ending->exit_code, 1);
  EXPECT_GT(shard.Calls("UpsertGroup"), 0);
  EXPECT_EQ(world.loop.Now() - before, Duration::Seconds(7));
}

TEST_F(ShardOutageTest, TheTimeoutIsThatOfEachShardSoThatOneThatIsDownTakesNothingFromOthers) {
  world.StopShard("b");
  const Ending ending =
      world.Run({"group", "scale", "workers", "3", "--all-shards", "--timeout", "5s"});
  EXPECT_EQ(ending.exit_code, kExitSomeShardsFailed);
  EXPECT_EQ(ending.out, "a: group workers has size 3\n");
  EXPECT_THAT(ending.err, StartsWith("Error on b: "));
}

TEST_F(ShardOutageTest, AShardWhoseTimeIsUsedUpIsNotTriedOnceMore) {
  world.StopShard("b");
  for (const char* id : {kId, kOtherId}) world.shard("a").instances[id] = {.instance_id = id};
  const Instant before = world.loop.Now();
  // Both are looked for in both shards, one after the other.
  const Ending ending =
      world.Run({"instance", "delete", kId, kOtherId, "--yes", "--timeout", "5s"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_LT(world.loop.Now() - before, Duration::Seconds(6));
  const Ending unknown = world.Run(
      {"instance", "delete", "knd06bgm9z1k8q3tw5hv0m2xrjc40", kId, "--yes", "--timeout", "5s"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("may be in b"), HasSubstr("(tried for 5s)")));
}

TEST_F(ShardOutageTest, TheTimeThatSomebodyTakesToAnswerDoesNotCount) {
  world.terminal.in_is_terminal = world.terminal.err_is_terminal = true;
  world.terminal.lines = {"y"};
  world.terminal.thinking = Duration::Seconds(60);
  world.Start({"group", "delete", "workers", "--shard", "a", "--timeout", "5s"});
  world.RunFor(Duration::Seconds(59));
  EXPECT_FALSE(world.ending);
  ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }, Duration::Seconds(2)));
  EXPECT_EQ(world.ending->exit_code, 0) << world.ending->err;
}

TEST_F(ShardOutageTest, AWaitThatEndsInAnOutageDoesNotSayThatNothingHoldsIt) {
  world.Start(
      {"group", "scale", "workers", "9", "--shard", "a", "--wait=30s", "--storage-bucket", "b1"});
  world.RunFor(Duration::Seconds(3));
  PutLease(EncodeLease(LeaseOf("srv-1")));
  world.StopShard("a");
  ASSERT_TRUE(world.Until([&] { return world.ending.has_value(); }));
  EXPECT_EQ(world.ending->exit_code, kExitWaitedTooLong);
  EXPECT_THAT(world.ending->err, AllOf(HasSubstr("what holds it could not be asked: "),
                                       HasSubstr("srv-1"), Not(HasSubstr("nothing holds it"))));
}

// --- --debug -------------------------------------------------------------------------------------

TEST_F(ShardOutageTest, DebugTellsOfEveryTryOnStderr) {
  int refusals = 1;
  world.shard("a").before = [&](const std::string& method) {
    if (refusals-- > 0) {
      world.shard("a").refuse[method] = Unavailable("stepping down");
    } else {
      world.shard("a").refuse.clear();
    }
  };
  const Ending ending = world.Run({"group", "list", "--shard", "a", "--debug"});
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out, StartsWith("SHARD"));
  const std::string& log = world.terminal.err;
  EXPECT_THAT(log, AllOf(HasSubstr("debug admin: identity read folder=id tenant=prod"),
                         HasSubstr("debug rpc: dialling shard=a address=a.example:8993"),
                         HasSubstr("connected shard=a"), HasSubstr("tls="),
                         HasSubstr("method=/nstance.v1.OperatorService/ListGroups try=1"),
                         HasSubstr("call failed"), HasSubstr("stepping down"),
                         HasSubstr("trying again"), HasSubstr("try=2"), HasSubstr("answered")));
  world.terminal.err.clear();
  EXPECT_EQ(world.Run({"group", "list", "--shard", "a"}).exit_code, 0);
  EXPECT_EQ(world.terminal.err, "") << "only when it is asked for";
}

TEST_F(ShardOutageTest, DebugTellsWhyAConnectionIsNone) {
  world.StopShard("a");
  PutLease(EncodeLease(LeaseOf("srv-1")));
  EXPECT_EQ(List({"--debug"}).exit_code, 1);
  EXPECT_THAT(world.terminal.err,
              AllOf(HasSubstr("connection failed"), HasSubstr("reading the lease"),
                    HasSubstr("its lease is held by srv-1")));
  world.terminal.err.clear();
  world.environment["NSTANCE_ADMIN_SERVERS"] = "a=b.example:8993";
  sim::SimRpcServer impostor(world.network, world.loop,
                             sim::SimRpcServer::Options{.process = "x", .policy = WholePolicy()});
  world.StopShard("b");
  ASSERT_TRUE(impostor.SetTls(world.cluster.ServerTls("a.example", kToday)));
  FakeShard fake;
  const Pending opening = impostor.Open({.port = RpcPort::kOperator,
                                         .bind = {.host = "b.example", .port = 8993},
                                         .accept = fake.Acceptor()},
                                        [](const Result<RpcAddress>&) {});
  EXPECT_EQ(world.Run({"group", "list", "--debug"}).exit_code, 1);
  EXPECT_THAT(world.terminal.err, HasSubstr("connection refused by TLS"));
}

TEST_F(ShardOutageTest, DebugLinesAndLinesThatAreKeptUpToDateDoNotMix) {
  world.terminal.err_is_terminal = true;
  world.Start({"group", "scale", "workers", "4", "--shard", "a", "--wait", "--debug"});
  world.RunFor(Duration::Seconds(10));
  EXPECT_THAT(world.terminal.err, AllOf(HasSubstr("opening a stream"), HasSubstr("0/4 ready"),
                                        Not(HasSubstr("\x1b["))));
  world.Drop();
  world.terminal.err.clear();
  world.terminal.in_is_terminal = world.terminal.out_is_terminal = true;
  world.Start({"watch", "--shard", "a", "--debug"});
  world.RunFor(Duration::Seconds(3));
  EXPECT_THAT(world.terminal.err, Not(HasSubstr("opening a stream"))) << "over the screen";
  world.Drop();
  world.terminal.err_is_terminal = false;
  world.Start({"watch", "--shard", "a", "--debug"});
  world.RunFor(Duration::Seconds(3));
  EXPECT_THAT(world.terminal.err, HasSubstr("opening a stream")) << "into a file";
}

}  // namespace
}  // namespace nstance::admin::test

// What goes wrong for users, each with the message that helps and its exit code.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "test/admin/shard_world.h"

namespace nstance::admin::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ShardBadInputTest : public testing::Test {
 public:
  ShardBadInputTest() { world.shard("a").groups["workers"] = {.key = "workers", .size = 2}; }
  ShardWorld world{{"a"}};
};

TEST_F(ShardBadInputTest, AnUnknownGroupIsNotFoundAndTheNearestIsNamed) {
  const Ending ending = world.Run({"group", "scale", "wrokers", "3"});
  EXPECT_EQ(ending.exit_code, kExitNotFound);
  EXPECT_EQ(ending.err,
            "Error on a: tenant prod has no group \"wrokers\"; it has: workers. Did you mean "
            "\"workers\"?\n");
  EXPECT_EQ(ending.out, "");
  EXPECT_TRUE(world.shard("a").upserts.empty());
}

TEST_F(ShardBadInputTest, ATenantThatTheServerDoesNotDefineNamesTheIdentity) {
  world.shard("a").refuse["ListGroups"] = PermissionDenied("the tenant is not defined");
  const Ending ending = world.Run({"group", "list"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_EQ(ending.err,
            "Error on a: the tenant is not defined; id/identity.crt is of tenant prod: use the "
            "identity of another tenant with --identity-dir, or define the tenant in the server's "
            "configuration\n");
}

TEST_F(ShardBadInputTest, AnExpiredIdentityIsFoundBeforeAnybodyIsAsked) {
  world.GiveIdentity({.life = Duration::Minutes(30), .age = Duration::Minutes(31)});
  const Ending ending = world.Run({"group", "list"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(StartsWith("Error: id/identity.crt expired at 2030-"),
                                HasSubstr("nstance-admin cluster register-operator")));
  EXPECT_EQ(world.shard("a").Calls("ListGroups"), 0);
}

TEST_F(ShardBadInputTest, AnIdentityFolderThatCannotBeReadIsNamed) {
  world.files.erase("id/identity.key");
  const Ending missing = world.Run({"group", "list"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("id/identity.key: No such file or directory"),
                                 HasSubstr("--identity-dir")));
  world.GiveIdentity({});
  world.files["id/identity.crt"] = "-----BEGIN CERTIFICATE-----\nnonsense\n";
  EXPECT_THAT(world.Run({"group", "list"}).err, HasSubstr("Error: id/identity.crt: "));
  world.GiveIdentity({});
  world.files["id/ca.crt"] = "";
  EXPECT_THAT(world.Run({"group", "list"}).err, HasSubstr("Error: id/ca.crt: "));
}

TEST_F(ShardBadInputTest, AKeyOfAnotherCertificateIsNamed) {
  const std::string certificate = world.files["id/identity.crt"];
  world.GiveIdentity({.key = 33});
  world.files["id/identity.crt"] = certificate;
  EXPECT_THAT(world.Run({"group", "list"}).err,
              HasSubstr("id/identity.key does not belong to id/identity.crt"));
}

TEST_F(ShardBadInputTest, TheCertificateOfAnAgentIsNotAnOperators) {
  const crypto::PrivateKey key = crypto::test::KeyOf(9);
  world.files["id/identity.crt"] = crypto::test::Must(world.cluster.authority().IssueClient(
                                                          crypto::test::Agent(), key.public_key(),
                                                          {.serial = world.cluster.NextSerial(),
                                                           .issued_at = kToday,
                                                           .life = Duration::Hours(24)}))
                                       .ToPem();
  EXPECT_THAT(world.Run({"group", "list"}).err,
              HasSubstr("is the certificate of an agent, not of an operator"));
}

TEST_F(ShardBadInputTest, AnIdentityOfAnotherClusterIsRefusedHere) {
  agent::test::Cluster other(kToday, 5);
  world.files["id/ca.crt"] = other.RootPem();
  const Ending ending = world.Run({"group", "list"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, HasSubstr("id/identity.crt would be refused: "));
}

TEST_F(ShardBadInputTest, AServerOfAnotherNameIsNotTrusted) {
  world.environment["NSTANCE_ADMIN_SERVERS"] = "a=b.example:8993";
  // Somebody else answers there, with the certificate of a.example.
  sim::SimRpcServer impostor(world.network, world.loop,
                             sim::SimRpcServer::Options{.process = "x", .policy = WholePolicy()});
  ASSERT_TRUE(impostor.SetTls(world.cluster.ServerTls("a.example", kToday)));
  FakeShard fake;
  const Pending opening = impostor.Open({.port = RpcPort::kOperator,
                                         .bind = {.host = "b.example", .port = 8993},
                                         .accept = fake.Acceptor()},
                                        [](const Result<RpcAddress>&) {});
  const Ending ending = world.Run({"group", "list"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, HasSubstr("by a name of its certificate"));
  EXPECT_EQ(fake.Calls("ListGroups"), 0);
}

TEST_F(ShardBadInputTest, AServerThatIsDownIsTriedForTheWholeTimeoutAndThenNamed) {
  world.StopShard("a");
  const Instant before = world.loop.Now();
  const Ending ending = world.Run({"group", "list", "--timeout", "7s"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_EQ(world.loop.Now() - before, Duration::Seconds(7));
  EXPECT_THAT(ending.err, AllOf(StartsWith("Error on a: "), HasSubstr("(tried for 7s)"),
                                HasSubstr("nobody leads shard a at a.example:8993"),
                                HasSubstr("/leader/health"), HasSubstr("--servers")));
}

TEST_F(ShardBadInputTest, AServerThatIsNotLeaderAnyMoreIsTriedAgain) {
  world.shard("a").refuse["ListGroups"] = Unavailable("not the acting leader");
  const Ending ending = world.Run({"group", "list", "--timeout", "3s"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_GT(world.shard("a").Calls("ListGroups"), 3);
  EXPECT_THAT(ending.err, HasSubstr("not the acting leader (tried for 3s)"));
}

TEST_F(ShardBadInputTest, AnOldServerIsSaidToBeOld) {
  world.shard("a").refuse["Plan"] = {.code = Code::kUnimplemented, .message = "unknown method"};
  const Ending ending = world.Run({"plan"});
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, HasSubstr("it is older than this tool"));
}

TEST_F(ShardBadInputTest, JsonErrorsHaveMessageCodeAndShard) {
  const Ending ending = world.Run({"group", "scale", "nope", "3", "--json"});
  EXPECT_EQ(ending.exit_code, kExitNotFound);
  const auto error = json::Parse(ending.err);
  ASSERT_TRUE(error) << ending.err;
  EXPECT_EQ(*error->Find("code")->if_string(), "NOT_FOUND");
  EXPECT_EQ(*error->Find("shard")->if_string(), "a");
  EXPECT_TRUE(json::Parse(ending.out)) << ending.out;
}

TEST_F(ShardBadInputTest, TextOfServersNeverReachesTheTerminalAsControls) {
  world.shard("a").refuse["ListGroups"] = FailedPrecondition("bad\x1b[2J\r\nEvil\xE2\x80\xAE");
  const Ending ending = world.Run({"group", "list"});
  EXPECT_THAT(ending.err, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r")),
                                HasSubstr("bad\\x1b[2J\\r\\nEvil")));
  EXPECT_EQ(std::ranges::count(ending.err, '\n'), 1);
  world.shard("a").refuse.clear();
  world.shard("a").groups["x"] = {.key = "x\x1b]0;title\x07",
                                  .template_name =
                                      "\x9b"
                                      "31m"};
  EXPECT_THAT(world.Run({"group", "list"}).out,
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")), Not(HasSubstr("\x9b"))));
}

}  // namespace
}  // namespace nstance::admin::test

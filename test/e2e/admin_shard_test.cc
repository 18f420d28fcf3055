// nstance-admin as a person uses it, against a shard of real servers and agents: its output, exit
// codes, and a failover in the middle.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "test/e2e/shard_fixture.h"
#include "test/support/process.h"

namespace nstance::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

class AdminShardTest : public ShardTest {
 public:
  void BeginWithAdmin(Setup setup) {
    ASSERT_NO_FATAL_FAILURE(BeginWithOperator(std::move(setup)));
    ASSERT_TRUE(client->WriteIdentity(identity()).has_value());
  }
  [[nodiscard]] std::string identity() const { return (folder.path() / "identity").string(); }
  [[nodiscard]] std::string servers() const {
    return cluster->config().shard + "=" + cluster->forwarder().Address(LeaderForwarder::kOperator);
  }
  [[nodiscard]] ProcessOutput Admin(std::vector<std::string> words) const {
    words.insert(words.begin(), NSTANCE_ADMIN_PROGRAM);
    const auto result = RunProcess({.argv = std::move(words),
                                    .deadline = Duration::Seconds(150),
                                    .environment = {"NSTANCE_ADMIN_SERVERS=" + servers(),
                                                    "NSTANCE_ADMIN_IDENTITY_DIR=" + identity()}});
    EXPECT_TRUE(result) << result.error().ToString();
    return result.value_or(ProcessOutput{.exit_code = -1, .out = "", .err = ""});
  }

  TempDir folder;
};

TEST_F(AdminShardTest, GroupsAndInstancesAreShownScaledAndDeleted) {
  ASSERT_NO_FATAL_FAILURE(BeginWithAdmin({.servers = 1, .size = 2}));
  ASSERT_TRUE(AllReady(2)) << Story();

  const auto config = Admin({"config", "status"});
  EXPECT_EQ(config.exit_code, 0) << config.err;
  EXPECT_THAT(config.out, AllOf(StartsWith("SHARD"), HasSubstr("local-a  ")));
  const auto groups = Admin({"group", "list"});
  EXPECT_EQ(groups.exit_code, 0) << groups.err;
  EXPECT_THAT(groups.out, HasSubstr("local-a  workers"));

  const auto preview = Admin({"group", "scale", "workers", "4", "--dry-run"});
  EXPECT_EQ(preview.exit_code, 0) << preview.err;
  EXPECT_THAT(preview.out, AllOf(StartsWith("PRIORITY  ACTION"), HasSubstr("create")));
  EXPECT_THAT(Admin({"plan"}).out, StartsWith("Next look: ")) << "no action, and nothing held";

  const auto scaled = Admin({"group", "scale", "workers", "3", "--wait=2m"});
  EXPECT_EQ(scaled.exit_code, 0) << scaled.err << Story();
  EXPECT_THAT(scaled.out, HasSubstr("local-a: group workers has size 3; 3/3 ready after"));
  EXPECT_THAT(scaled.err, HasSubstr("workers@local-a  ["));
  EXPECT_EQ(Registered().size(), 3U);

  const auto listed = Admin({"instance", "list", "--json"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  const auto document = json::Parse(listed.out);
  ASSERT_TRUE(document) << listed.out;
  const json::Value& shard = document->Find("shards")->if_array()->at(0);
  EXPECT_EQ(shard.Find("instances")->if_array()->size(), 3U);
  const std::string id = *Registered().begin();
  const auto shown = Admin({"instance", "show", id});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(StartsWith(id + " in local-a"), HasSubstr("registered")));

  const auto why = Admin({"why", id});
  EXPECT_EQ(why.exit_code, 0) << why.err;
  EXPECT_THAT(why.out, AllOf(HasSubstr("Phase"), HasSubstr("History:")));
  const auto status = Admin({"group", "status", "workers"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_THAT(status.out, AllOf(StartsWith("workers in local-a\n"), HasSubstr("Members:\n")));

  const auto gone = Admin({"instance", "delete", id, "--yes", "--wait=2m"});
  EXPECT_EQ(gone.exit_code, 0) << gone.err << Story();
  EXPECT_EQ(gone.out, "local-a: instance " + id + " gone\n");
  const auto unknown = Admin({"group", "scale", "wrokers", "1"});
  EXPECT_EQ(unknown.exit_code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("Did you mean \"workers\"?"));
}

TEST_F(AdminShardTest, AFailoverIsRiddenOutAndNobodyAtAllIsNamed) {
  ASSERT_NO_FATAL_FAILURE(BeginWithAdmin({.servers = 2, .size = 1}));
  ASSERT_NO_FATAL_FAILURE(KillLeader());
  const auto during = Admin({"group", "list"});
  EXPECT_EQ(during.exit_code, 0) << during.err << Story();
  EXPECT_THAT(during.out, HasSubstr("workers"));
  for (std::size_t i = 0; i < cluster->servers(); ++i) cluster->server(i).Kill();
  const auto nobody = Admin({"group", "list", "--timeout", "2s"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.err, AllOf(StartsWith("Error on local-a: "), HasSubstr("/leader/health"),
                                HasSubstr("--storage-bucket")));
  const auto named = Admin({"group", "list", "--timeout", "2s", "--storage-provider", "file",
                            "--storage-bucket", cluster->bucket()});
  EXPECT_EQ(named.exit_code, 1);
  EXPECT_THAT(named.err, ContainsRegex("lease .*s[0-9]+ \\(.*\\).* renewed [0-9]+s ago"));
}

// The certificate is the cluster's own, and its tenant none that the server serves.
TEST_F(AdminShardTest, AnIdentityOfATenantThatIsNotDefinedIsRefusedWithWhatToDo) {
  ASSERT_NO_FATAL_FAILURE(BeginWithAdmin({.servers = 1, .size = 0}));
  const std::string ghost = (folder.path() / "ghost").string();
  const auto registered =
      RunProcess({.argv = {NSTANCE_ADMIN_PROGRAM, "cluster", "register-operator", "--tenant",
                           "ghost", "--force", "--storage-provider", "file", "--storage-bucket",
                           cluster->bucket(), "--output-dir", ghost},
                  .environment = {"NSTANCE_ENCRYPTION_KEY=0123456789abcdef0123456789abcdef"}});
  ASSERT_TRUE(registered.has_value());
  ASSERT_EQ(registered->exit_code, 0) << registered->err;
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"group", "list"}, {"group", "scale", "workers", "3"}, {"watch"}}) {
    std::vector<std::string> line = words;
    line.insert(line.end(), {"--identity-dir", ghost});
    const auto output = Admin(line);
    EXPECT_EQ(output.exit_code, 1) << output.err;
    EXPECT_EQ(output.out, "");
    EXPECT_THAT(output.err, AllOf(StartsWith("Error on local-a: "), HasSubstr("is of tenant ghost"),
                                  HasSubstr("--identity-dir"), HasSubstr("define the tenant")));
  }
}

}  // namespace
}  // namespace nstance::test

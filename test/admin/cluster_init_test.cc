// `cluster init` on a simulated store: what it makes, that it makes nothing twice, and that it may
// die at every change and be run again.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "core/config/load.h"
#include "core/instance_config/template_check.h"
#include "crypto/certificate.h"
#include "test/admin/storage_fixture.h"

namespace nstance::admin::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ClusterInitTest : public StorageTest {};

TEST_F(ClusterInitTest, OneCommandMakesAClusterThatIsReadyToRun) {
  const Ending ending = Admin("cluster init --group web=3 --group db=1");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  const auto text = Object("config/local-a.jsonc");
  ASSERT_TRUE(text);
  const config::LoadResult loaded = LoadChecked(*text);
  ASSERT_TRUE(loaded.config);
  EXPECT_TRUE(loaded.warnings.empty()) << loaded.warnings.front().message;
  const config::Server& server = loaded.config->server;
  EXPECT_EQ(server.cluster_id.text(), "local");
  EXPECT_EQ(server.shard.text(), "local-a");
  EXPECT_EQ(std::get<config::LocalOptions>(server.provider.options).root,
            "/data/bucket.instances/local-a");
  EXPECT_EQ(config::FormatAddress(server.bind.health_addr), "127.0.0.1:0");
  EXPECT_EQ(config::FormatAddress(server.bind.election_addr), "127.0.0.1:0");
  EXPECT_EQ(config::FormatAddress(server.bind.registration_addr), "127.0.0.1:4001");
  EXPECT_EQ(config::FormatAddress(server.bind.operator_addr), "127.0.0.1:4002");
  EXPECT_EQ(config::FormatAddress(server.bind.agent_addr), "127.0.0.1:4003");
  EXPECT_EQ(server.health_check_interval, Duration::Seconds(5));
  EXPECT_EQ(server.default_drain_timeout, Duration::Seconds(5));
  const auto& groups = loaded.config->groups.at(DefaultTenant());
  EXPECT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups.at(*GroupKey::Parse("web")).size, 3);
  EXPECT_THAT(*text, AllOf(StartsWith("// Shard local-a of cluster local"),
                           HasSubstr("NSTANCE_REPORT_INTERVAL=5s"),
                           HasSubstr("\"/usr/bin/nstance-agent\"")));
  EXPECT_TRUE(Object("ca.crt"));
  EXPECT_TRUE(Object("secret/ca.key"));
  EXPECT_TRUE(Object("secret/registration-nonce.key"));
  // The key file: 32 random bytes, and nowhere else.
  const std::string key = files.at("/data/bucket.key");
  EXPECT_EQ(key.size(), 65U);
  EXPECT_TRUE(crypto::EncryptionKey::Parse(AsBytes(key)));
  EXPECT_THAT(Shown(ending), Not(HasSubstr(key.substr(0, 64))));
  for (const auto& [name, bytes] : Everything()) {
    EXPECT_THAT(bytes, Not(HasSubstr(key.substr(0, 64)))) << name;
    EXPECT_THAT(bytes, Not(HasSubstr("PRIVATE KEY"))) << name;
  }
}

TEST_F(ClusterInitTest, PrintsHowToStartAServerAndAStandby) {
  const Ending ending = Admin("cluster init --shard dc1");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  EXPECT_THAT(ending.out,
              HasSubstr("/usr/bin/nstance-server --id s1 --shard dc1 --storage file --bucket "
                        "/data/bucket --cachedir /data/bucket.cache/dc1-s1 --bind "
                        "health=127.0.0.1:0 --bind election=127.0.0.1:0\n"));
  EXPECT_THAT(ending.out, HasSubstr("--id s2 --shard dc1"));
  EXPECT_THAT(ending.out, HasSubstr("--cachedir /data/bucket.cache/dc1-s2"));
  EXPECT_THAT(ending.out, HasSubstr("nstance-admin group list --servers dc1=127.0.0.1:4002\n"));
  EXPECT_THAT(ending.out, HasSubstr("Keep a copy of /data/bucket.key"));
}

TEST_F(ClusterInitTest, TheSecondTimeNothingChanges) {
  MakeCluster("--group web=1");
  const auto before = Everything();
  const Files disk = files;
  const Ending again = Admin("cluster init --group web=1 --json");
  EXPECT_EQ(again.exit_code, 0) << Shown(again);
  EXPECT_EQ(Everything(), before);
  EXPECT_EQ(files, disk);
  EXPECT_EQ(changes, 0);
  const json::Value told = Json(again);
  EXPECT_TRUE(told.Find("created")->if_array()->empty());
  EXPECT_EQ(told.Find("kept")->if_array()->size(), 5U);
  EXPECT_EQ(Text(told, "operator_addr"), "127.0.0.1:4002");
}

TEST_F(ClusterInitTest, DiesAtEveryChangeAndIsRunAgain) {
  MakeCluster("--group web=1");
  const int all = changes;
  EXPECT_EQ(all, 5) << "key file, configuration, CA key, CA, token key";
  for (int at = 1; at <= all; ++at) {
    for (const auto death : {Life::Death::kBefore, Life::Death::kAfter}) {
      SCOPED_TRACE(testing::Message() << "change " << at << ", " << static_cast<int>(death));
      AdminSite site(static_cast<std::uint64_t>(at));
      const Ending cut = site.Admin("cluster init --group web=1", {.die_at = at, .death = death});
      EXPECT_TRUE(site.died);
      EXPECT_EQ(cut.exit_code, 1) << Shown(cut);
      const auto left = site.Everything();
      const Files disk = site.files;
      const Ending again = site.Admin("cluster init --group web=1");
      EXPECT_EQ(again.exit_code, 0) << Shown(again);
      // What was there stands.
      const auto now = site.Everything();
      for (const auto& [name, bytes] : left) EXPECT_EQ(now.at(name), bytes) << name;
      for (const auto& [name, bytes] : disk) EXPECT_EQ(site.files.at(name), bytes) << name;
      EXPECT_EQ(now.size(), 4U);
      // And it works: the token key opens.
      const Ending nonce = site.Admin("cluster nonce --output -");
      EXPECT_EQ(nonce.exit_code, 0) << Shown(nonce);
    }
  }
}

TEST_F(ClusterInitTest, ASecondShardJoinsTheClusterThatIsThere) {
  MakeCluster("--cluster-id prod --shard a");
  const auto before = Everything();
  const Ending ending = Admin("cluster init --shard b --json");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  EXPECT_EQ(Text(Json(ending), "cluster_id"), "prod");
  EXPECT_EQ(Everything().size(), before.size() + 1);
  EXPECT_EQ(config::Load(*Object("config/b.jsonc")).config->server.cluster_id.text(), "prod");
}

TEST_F(ClusterInitTest, TheKeyMayComeFromAVariable) {
  variables["NSTANCE_ENCRYPTION_KEY"] = std::string(32, 'k');
  const Ending ending = Admin("cluster init");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  EXPECT_FALSE(files.contains("/data/bucket.key"));
  const config::Secrets key = config::Load(*Object("config/local-a.jsonc")).config->server.secrets;
  EXPECT_EQ(key.encryption_key->provider, config::KeyProvider::kEnv);
  EXPECT_EQ(key.encryption_key->source, "NSTANCE_ENCRYPTION_KEY");
  EXPECT_THAT(ending.out, HasSubstr("Servers need it set"));
}

TEST_F(ClusterInitTest, AVariableThatIsNotSetIsAnErrorThatSaysSo) {
  const Ending ending = Admin("cluster init --key-provider env --key-source MY_KEY");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(StartsWith("Error: "), HasSubstr("MY_KEY: it is not set"),
                                HasSubstr("set MY_KEY to the cluster's key")));
  EXPECT_TRUE(Everything().empty());
  EXPECT_EQ(changes, 0);
}

TEST_F(ClusterInitTest, AKeyFileOfTheAdministratorIsUsedAsItIs) {
  files["/keys/k"] = std::string(32, 'k');
  MakeCluster("--key-provider file --key-source /keys/k");
  EXPECT_EQ(files.at("/keys/k"), std::string(32, 'k'));
  EXPECT_THAT(*Object("config/local-a.jsonc"), HasSubstr("\"source\": \"/keys/k\""));
}

TEST_F(ClusterInitTest, NoNewKeyIsMadeForSecretsThatAnOldOneSealed) {
  MakeCluster();
  files.erase("/data/bucket.key");
  const auto before = Everything();
  const Ending ending = Admin("cluster init");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("the store has secrets"),
                                HasSubstr("there is no key file /data/bucket.key")));
  EXPECT_EQ(Everything(), before);
  EXPECT_FALSE(files.contains("/data/bucket.key"));
}

TEST_F(ClusterInitTest, AWrongKeyIsToldBeforeAnythingIsWritten) {
  MakeCluster();
  Erase("config/local-a.jsonc");
  files["/data/bucket.key"] = std::string(32, 'x');
  const Ending ending = Admin("cluster init");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("secret/ca.key"), HasSubstr("needs the key with id"),
                                HasSubstr("the key given (file /data/bucket.key) has the id"),
                                HasSubstr("--key-source")));
  EXPECT_FALSE(Object("config/local-a.jsonc"));
}

TEST_F(ClusterInitTest, ACaWithoutItsKeyIsNotReplaced) {
  MakeCluster();
  Erase("secret/ca.key");
  const Ending ending = Admin("cluster init");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("ca.crt exists but ca.key is missing"),
                                HasSubstr("restore the secret"), Not(HasSubstr("--key-source"))));
}

TEST_F(ClusterInitTest, AnAgentThatIsNotThereIsAnError) {
  const Ending ending = Admin("cluster init --agent /opt/agent");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err,
              HasSubstr("there is no agent at /opt/agent; name the program with --agent"));
  EXPECT_FALSE(Object("config/local-a.jsonc"));
}

TEST_F(ClusterInitTest, AnAgentWithAnOddPathIsQuoted) {
  const std::string odd = "/opt/odd'{{.Nonce}}\"agent";
  files[odd] = "program";
  MakeCluster("--agent " + odd);
  const config::LoadResult loaded = LoadChecked(*Object("config/local-a.jsonc"));
  ASSERT_TRUE(loaded.config);
  EXPECT_EQ(loaded.config->defaults.vars.at("AGENT"), odd);
}

TEST_F(ClusterInitTest, AConfigurationThatIsNotValidIsLeftAlone) {
  SetObject("config/local-a.jsonc", "{ not json");
  const Ending ending = Admin("cluster init --json");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("config/local-a.jsonc is there and is not valid"),
                                HasSubstr("\"code\":\"FAILED_PRECONDITION\"")));
  EXPECT_EQ(*Object("config/local-a.jsonc"), "{ not json");
}

TEST_F(ClusterInitTest, BadFlagsAreBadLines) {
  for (const auto& [words, message] : std::map<std::string, std::string>{
           {"--group web", "is not NAME=SIZE"},
           {"--group web=-1", "is no whole number from 0 to 10000"},
           {"--group web=1 --group web=2", "web is given twice"},
           {"--provider aws", "makes configurations for: local"},
           {"--shard A", "--shard: "},
           {"--layout nstance", "one of: auto, seed, nstance-v2"},
           {"--key-provider file", "--key-source is missing"},
           {"--secrets-provider memory", "it has: object-storage"}}) {
    const Ending ending = Admin("cluster init " + words);
    EXPECT_EQ(ending.exit_code, 2) << words;
    EXPECT_THAT(ending.err, HasSubstr(message)) << words;
  }
}

}  // namespace
}  // namespace nstance::admin::test

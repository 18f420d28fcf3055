// Commands on a bucket with the names of the Go implementation: every object of a cluster is moved
// to where that has it, and the commands do there what they do at home. What they write is looked
// for by its own name.
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/journal.h"
#include "core/nstance_v2.h"
#include "test/admin/storage_fixture.h"

namespace nstance::admin::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::StartsWith;

class BucketLayoutTest : public StorageTest {
 public:
  // A cluster, with everything where nstance-v2 has it.
  void MakeTheirs() {
    MakeCluster();
    MoveTo(NstanceV2Names({}));
  }
  void MoveTo(const NstanceV2Names& names) {
    for (const auto& [name, bytes] : Everything()) {
      Erase(name);
      SetObject(names.Theirs(*ObjectKey::Parse(name))->text(), bytes);
    }
  }
  // Those that begin so.
  [[nodiscard]] int CountBelow(const std::string& prefix) const {
    int count = 0;
    for (const auto& [name, bytes] : Everything()) count += name.starts_with(prefix) ? 1 : 0;
    return count;
  }
};

TEST_F(BucketLayoutTest, TheLayoutOfTheGoServersIsFoundAndTheirClusterUsed) {
  MakeTheirs();
  const auto before = Everything();
  ASSERT_THAT(before, AllOf(Contains(Key("shard/local-a/config.jsonc")),
                            Contains(Key("cluster/ca.crt")), Not(Contains(Key("ca.crt")))));
  const Ending nonce = Admin("cluster nonce --output -");
  EXPECT_EQ(nonce.exit_code, 0) << Shown(nonce);
  EXPECT_EQ(Everything(), before) << "a token changes nothing";

  const Ending registered = Admin("cluster register-operator --output-dir /id");
  ASSERT_EQ(registered.exit_code, 0) << Shown(registered);
  EXPECT_EQ(files.at("/id/ca.crt"), before.at("cluster/ca.crt"));
  EXPECT_EQ(CountBelow("cluster/operator/"), 1);
  EXPECT_EQ(CountBelow("cluster/certlog/"), 1);
  EXPECT_EQ(CountBelow("operator/") + CountBelow("certlog/") + CountBelow("config/"), 0);

  ASSERT_EQ(Admin("cert deny --serial 4711").exit_code, 0);
  EXPECT_TRUE(Object("cluster/deny/cluster.json").has_value());
  EXPECT_FALSE(Object("deny/cluster.json").has_value());
}

TEST_F(BucketLayoutTest, TheJournalOfAShardIsResetAndShownByOurName) {
  MakeTheirs();
  ASSERT_EQ(Admin("store reset-journal --shard local-a --yes").exit_code, 0);
  ASSERT_TRUE(Object("shard/local-a/journal.json").has_value());
  const Ending shown = Admin("store show journal/local-a.json");
  EXPECT_EQ(shown.exit_code, 0) << Shown(shown);
  EXPECT_THAT(shown.out, StartsWith(*Object("shard/local-a/journal.json")));
}

TEST_F(BucketLayoutTest, NoSecondClusterIsMadeInTheBucketOfTheGoServers) {
  MakeTheirs();
  const auto before = Everything();
  for (const char* more : {"", "--shard new-b", "--layout nstance-v2", "--cluster-id other"}) {
    const Ending ending = Admin(std::string("cluster init ") + more);
    EXPECT_EQ(ending.exit_code, 1) << more;
    EXPECT_THAT(ending.err, AllOf(StartsWith("Error: the bucket has a cluster of the Go"),
                                  HasSubstr("--layout seed")));
    EXPECT_EQ(Everything(), before) << more;
  }
  // Of a cluster whose shards are in other buckets, too.
  Erase("shard/local-a/config.jsonc");
  EXPECT_EQ(Admin("cluster init").exit_code, 1);
  // Whoever says it wants it.
  files.erase("/data/bucket.key");
  EXPECT_EQ(Admin("cluster init --layout seed").exit_code, 0);
  EXPECT_TRUE(Object("config/local-a.jsonc").has_value());
}

TEST_F(BucketLayoutTest, AFlagIsBelievedAndOursComesFirst) {
  MakeTheirs();
  const Ending seed = Admin("cluster nonce --output - --layout seed");
  EXPECT_EQ(seed.exit_code, 1);
  EXPECT_THAT(seed.err, HasSubstr("no configuration (config/<shard>.jsonc)"));
  MakeCluster("--layout seed --cluster-id ours");
  EXPECT_THAT(Admin("cluster nonce --output - --json").out, HasSubstr("\"token\""));
  EXPECT_THAT(Admin("cluster nonce --output - --cluster-id local").err,
              HasSubstr("no configuration in this store is of cluster local; found: ours"))
      << "a server of a shard looks for our name first, too";
  const Ending theirs =
      Admin("cluster nonce --output - --layout nstance-v2 --cluster-id local --quiet");
  EXPECT_EQ(theirs.exit_code, 0) << Shown(theirs);
  EXPECT_THAT(Admin("cluster nonce --layout nstance").err,
              HasSubstr("--layout: \"nstance\" is unknown; one of: auto, seed, nstance-v2"));
}

// Each shard has the layout that its own configuration is in.
TEST_F(BucketLayoutTest, TheShardThatIsMeantDecidesWhereBothAre) {
  MakeTheirs();
  MakeCluster("--layout seed --shard ours-b");
  ASSERT_EQ(Admin("store reset-journal --shard ours-b --yes --cluster-id local").exit_code, 0);
  EXPECT_TRUE(Object("journal/ours-b.json").has_value());
  ASSERT_EQ(Admin("store reset-journal --shard local-a --yes --cluster-id local").exit_code, 0);
  EXPECT_TRUE(Object("shard/local-a/journal.json").has_value());
}

TEST_F(BucketLayoutTest, ThePrefixIsTheScopeOfTheCluster) {
  MakeCluster();
  MoveTo(NstanceV2Names({.cluster_scope = "all/"}));
  const Ending ending = Admin("cluster register-operator --output-dir /id --storage-prefix all");
  EXPECT_EQ(ending.exit_code, 0) << Shown(ending);
  EXPECT_EQ(CountBelow("all/operator/"), 1);
}

TEST_F(BucketLayoutTest, APrefixOfOurNamesIsUsedForAllOfThem) {
  MakeCluster("--storage-prefix here");
  EXPECT_TRUE(Object("here/config/local-a.jsonc").has_value());
  EXPECT_EQ(CountBelow("here/"), static_cast<int>(Everything().size()));
  EXPECT_EQ(Admin("cluster nonce --output - --storage-prefix here/").exit_code, 0);
  EXPECT_EQ(Admin("cluster nonce --output -").exit_code, 1);
  EXPECT_THAT(Admin("cluster nonce --output - --storage-prefix /x").err, HasSubstr("prefix"));
}

TEST_F(BucketLayoutTest, SecretsStayInTheFormThatTheGoServersRead) {
  MakeTheirs();
  const auto before = Everything();
  const Ending ending = Admin("secrets reseal");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("as configurations of layout nstance-v2 do"),
                                HasSubstr("set server.secrets.envelope to v1")));
  EXPECT_EQ(Everything(), before);
}

// A store that does wrong is what the probe is for: it does not stop at the look before it.
TEST_F(BucketLayoutTest, AProbeRunsAlsoWhereTheLayoutCannotBeFound) {
  prepare = [](AdminProcess& process) { process.store().faults().error_not_done = 10'000; };
  const Ending ending = Admin("store probe");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, Not(HasSubstr("--layout")));
  prepare = nullptr;
  MakeTheirs();
  EXPECT_EQ(Admin("store probe --shard local-a").exit_code, 0);
  EXPECT_EQ(CountBelow("shard/local-a/probe/") + CountBelow("probe/"), 0);
}

}  // namespace
}  // namespace nstance::admin::test

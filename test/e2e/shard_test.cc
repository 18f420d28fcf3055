// A shard of real processes on the file store and the local provider: a server, a standby and
// agents on every instance, behind a forwarder that stands for the leader's network. Records in the
// bucket and processes of this machine are the judges.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "test/e2e/e2e_cluster.h"
#include "test/support/loop_runner.h"

namespace nstance::test {
namespace {

using testing::SizeIs;

constexpr Duration kSoon = Duration::Seconds(120);

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class ShardTest : public testing::Test {
 public:
  void Begin(int size, std::size_t servers) {
    cluster = std::make_unique<E2eCluster>(
        E2eCluster::Options{.server_program = NSTANCE_SERVER_PROGRAM,
                            .agent_command = {NSTANCE_AGENT_PROGRAM},
                            .servers = servers,
                            .groups = {{.name = "workers", .size = size}}});
    ASSERT_TRUE(cluster->Start().has_value());
    leader = cluster->WaitForLeader(kSoon);
    ASSERT_TRUE(leader.has_value()) << cluster->Logs();
  }

  // Instance id to phase, of everything in the bucket.
  std::map<std::string, std::string> Phases() const {
    std::map<std::string, std::string> out;
    const std::filesystem::path folder =
        std::filesystem::path(cluster->bucket()) / "instance" / cluster->config().shard;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      if (entry.path().extension() != ".json") continue;
      const Result<json::Value> record = json::Parse(ReadAll(entry.path()));
      if (!record.has_value()) continue;  // Being replaced.
      out[*record->Find("instance_id")->if_string()] = *record->Find("phase")->if_string();
    }
    return out;
  }

  std::set<std::string> In(const std::string& phase) const {
    std::set<std::string> out;
    for (const auto& [id, is] : Phases()) {
      if (is == phase) out.insert(id);
    }
    return out;
  }

  bool Until(const std::function<bool()>& done, Duration limit = kSoon) {
    return RunUntil(cluster->loop(), done, limit);
  }

  // Every live instance has a folder and the reverse.
  bool Settled(std::size_t size) const {
    std::set<std::string> live;
    for (const auto& [id, phase] : Phases()) {
      if (phase == "registered") live.insert(id);
      if (phase != "registered" && phase != "gone") return false;
    }
    const std::vector<std::string> folders = cluster->instances();
    return live.size() == size && std::set(folders.begin(), folders.end()) == live;
  }

  std::unique_ptr<E2eCluster> cluster;
  std::optional<std::size_t> leader;
};

// The shell's process of an instance, as its folder tells.
pid_t ProcessOf(const E2eCluster& cluster, const std::string& id) {
  const Result<json::Value> run =
      json::Parse(ReadAll(std::filesystem::path(cluster.instance_folder(id)) / "run.json"));
  if (!run.has_value()) return 0;
  const json::Value* pid = run->Find("pid");
  return pid == nullptr ? 0 : static_cast<pid_t>(*pid->if_integer());
}

TEST_F(ShardTest, AGroupComesUpAndHealsWhenAnInstanceDies) {
  Begin(5, 1);
  ASSERT_TRUE(Until([&] { return Settled(5); })) << cluster->Logs();
  const std::string victim = *In("registered").begin();
  const pid_t process = ProcessOf(*cluster, victim);
  ASSERT_GT(process, 0);
  ASSERT_EQ(kill(-process, SIGKILL), 0);
  ASSERT_TRUE(Until([&] { return Phases()[victim] == "gone" && Settled(5); })) << cluster->Logs();
}

TEST_F(ShardTest, AStandbyTakesOverAndReplacesNothing) {
  Begin(5, 2);
  ASSERT_TRUE(Until([&] { return Settled(5); })) << cluster->Logs();
  const std::set<std::string> before = In("registered");
  const std::int64_t epoch = cluster->epoch();
  cluster->server(*leader).Kill();
  const auto next = cluster->WaitForLeader(kSoon, epoch);
  ASSERT_TRUE(next.has_value()) << cluster->Logs();
  EXPECT_NE(*next, *leader);
  // It goes on healing, and only that.
  const std::string victim = *before.begin();
  ASSERT_EQ(kill(-ProcessOf(*cluster, victim), SIGKILL), 0);
  ASSERT_TRUE(Until([&] { return Phases()[victim] == "gone" && Settled(5); })) << cluster->Logs();
  const std::set<std::string> after = In("registered");
  std::set<std::string> kept;
  std::ranges::set_intersection(before, after, std::inserter(kept, kept.end()));
  EXPECT_THAT(kept, SizeIs(4));
}

TEST_F(ShardTest, ASignalEndsTheServerAndLeavesTheInstances) {
  Begin(2, 1);
  ASSERT_TRUE(Until([&] { return Settled(2); })) << cluster->Logs();
  const std::set<std::string> before = In("registered");
  EXPECT_EQ(cluster->server(0).Terminate(cluster->loop(), Duration::Seconds(30)), 0);
  for (const std::string& id : before) EXPECT_EQ(kill(ProcessOf(*cluster, id), 0), 0) << id;
  ASSERT_TRUE(cluster->server(0).Start().has_value());
  ASSERT_TRUE(cluster->WaitForLeader(kSoon, cluster->epoch()).has_value());
  ASSERT_TRUE(Until([&] { return Settled(2); })) << cluster->Logs();
  EXPECT_EQ(In("registered"), before);
}

}  // namespace
}  // namespace nstance::test

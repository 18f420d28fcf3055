// ShardTest: a shard of real processes under test, and what may be seen of it from outside: the
// records in the bucket, the folders of the provider, the processes of this machine.
//
//   Begin({.servers = 2, .size = 20});       // One group, "workers".
//   ASSERT_TRUE(Settles(20)) << Story();
//   ASSERT_TRUE(Resize(30));
//
// "Settled" is I-14 and I-17 of the fault model: every record is either registered, with a folder
// and a live agent, or a tombstone; nothing else has a folder or a process; the number is right.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/instance_record.h"
#include "test/e2e/e2e_cluster.h"
#include "test/e2e/operator_client.h"

namespace nstance::test {

class ShardTest : public testing::Test {
 public:
  static constexpr Duration kSoon = Duration::Seconds(120);
  static constexpr const char* kGroup = "workers";

  struct Setup {
    std::size_t servers = 1;
    int size = 0;
    std::vector<json::Member> server_keys = {};  // ClusterConfig::server.
  };

  // Starts everything and waits for the first leader, and until the others stand by.
  void Begin(Setup setup);
  // The operator has joined afterwards.
  void BeginWithOperator(Setup setup);

  // By id, of everything in the bucket. What is being replaced at this moment is read again.
  [[nodiscard]] std::map<std::string, InstanceRecord> Records() const;
  [[nodiscard]] std::optional<InstanceRecord> RecordOf(const std::string& id) const;
  [[nodiscard]] std::set<std::string> In(InstancePhase phase) const;
  [[nodiscard]] std::set<std::string> Registered() const { return In(InstancePhase::kRegistered); }

  // Looks several times a second.
  [[nodiscard]] bool Until(const std::function<bool()>& done, Duration limit = kSoon);
  // Lets that time pass.
  void Wait(Duration time);
  // Empty when the shard is settled with that many instances, else what is not.
  [[nodiscard]] std::string Unsettled(std::size_t size) const;
  // Waits for it.
  [[nodiscard]] bool Settles(std::size_t size, Duration limit = kSoon);
  // Waits until the leader sees that many healthy instances and no others.
  [[nodiscard]] bool AllReady(int size, Duration limit = kSoon);
  [[nodiscard]] testing::AssertionResult Resize(int size);

  // The agents' processes, by instance.
  [[nodiscard]] std::map<std::string, pid_t> Agents() const;
  // SIGKILL to whoever leads now, who is `leader` afterwards; its epoch is cluster->epoch().
  void KillLeader();
  // SIGKILL to the keeper and everything below it.
  void KillTree(const std::string& id) const;

  // Bytes of the objects whose keys begin so, by key.
  [[nodiscard]] std::map<std::string, std::string> Objects(const std::string& prefix) const;
  [[nodiscard]] std::map<std::string, int> PhaseCounts() const;
  // For the message of a failing test: what is not settled, and logs.
  [[nodiscard]] std::string Story() const;

  std::unique_ptr<E2eCluster> cluster;
  std::unique_ptr<OperatorClient> client;
  std::optional<std::size_t> leader;

 private:
  std::size_t wanted_ = 0;
};

}  // namespace nstance::test

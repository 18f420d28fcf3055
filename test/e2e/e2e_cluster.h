// E2eCluster: a shard of real processes on this machine: file store, servers, and a forwarder whose
// addresses agents and operators are told.
//
//   E2eCluster cluster({.server_program = ..., .agent_command = {...}, .servers = 2,
//                       .groups = {{.name = "workers", .size = 3}}});
//   ASSERT_TRUE(cluster.Start().has_value());
//   const auto leader = cluster.WaitForLeader(Duration::Seconds(30));
//   cluster.server(*leader).Kill();
//
// When it goes, the servers are killed first and then every process of the instances
// (instance_guard.h). NSTANCE_E2E_KEEP=folder
// keeps a copy of the bucket, the instances' folders and the logs there, for a look at a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/real_loop/real_loop.h"
#include "base/result.h"
#include "test/e2e/cluster_config.h"
#include "test/e2e/instance_guard.h"
#include "test/e2e/leader_forwarder.h"
#include "test/e2e/operator_client.h"
#include "test/e2e/server_process.h"
#include "test/support/temp_dir.h"

namespace nstance::test {

class E2eCluster final {
 public:
  struct Options {
    std::string server_program;
    std::vector<std::string> agent_command = {"/bin/false"};
    std::size_t servers = 1;
    std::vector<std::string> tenants = {};
    std::vector<GroupSpec> groups = {};
    std::vector<json::Member> server_keys = {};  // ClusterConfig::server.
    std::vector<std::string> server_flags = {};
  };

  explicit E2eCluster(Options options);
  E2eCluster(const E2eCluster&) = delete;
  E2eCluster& operator=(const E2eCluster&) = delete;
  ~E2eCluster();

  // Starts all servers; does not wait for them.
  [[nodiscard]] Status Start();
  // The number of the acting leader of an epoch above `after`; nothing when the time was up.
  [[nodiscard]] std::optional<std::size_t> WaitForLeader(Duration limit, std::int64_t after = 0);
  // Of the leader that WaitForLeader() has seen last.
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }

  [[nodiscard]] ServerProcess& server(std::size_t number) { return *servers_.at(number); }
  [[nodiscard]] std::size_t servers() const { return servers_.size(); }
  [[nodiscard]] LeaderForwarder& forwarder() { return *forwarder_; }
  [[nodiscard]] const LeaderForwarder& forwarder() const { return *forwarder_; }
  [[nodiscard]] RealLoop& loop() { return loop_; }
  [[nodiscard]] const ClusterConfig& config() const { return config_; }

  // An operator of the tenant `default`, who has not joined yet.
  [[nodiscard]] std::unique_ptr<OperatorClient> NewOperator();

  [[nodiscard]] std::string bucket() const { return (dir_.path() / "bucket").string(); }
  // The folder of an instance, below which `work/recv/` has its files.
  [[nodiscard]] std::string instance_folder(const std::string& id) const;
  // Ids of the instances that the local provider has folders for, sorted.
  [[nodiscard]] std::vector<std::string> instances() const;
  // The ends of the logs of all servers, for the message of a failing test.
  [[nodiscard]] std::string Logs() const;

 private:
  TempDir dir_;
  RealLoop loop_;
  std::optional<InstanceGuard> guard_;
  Options options_;
  ClusterConfig config_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::unique_ptr<LeaderForwarder> forwarder_;
  std::int64_t epoch_ = 0;
};

}  // namespace nstance::test

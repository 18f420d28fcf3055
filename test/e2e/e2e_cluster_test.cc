// What end-to-end tests stand on, tried with a stand-in for the server: the forwarder against
// hostile files and dying leaders, processes from start to exit code, the configuration against
// the product's own loader.
#include "test/e2e/e2e_cluster.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/load.h"
#include "test/e2e/cluster_config.h"
#include "test/e2e/leader_forwarder.h"
#include "test/e2e/server_process.h"
#include "test/e2e/tcp_socket.h"
#include "test/support/loop_runner.h"
#include "test/support/process.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

constexpr Duration kPatience = Duration::Seconds(30);

E2eCluster::Options StandIns(std::size_t servers) {
  return {.server_program = NSTANCE_STAND_IN_SERVER, .servers = servers};
}

TcpSocket Connect(const std::string& address) {
  Result<TcpSocket> socket = TcpSocket::Connect(PortOf(address), 20'000);
  EXPECT_TRUE(socket.has_value());
  return socket.has_value() ? *std::move(socket) : TcpSocket();
}

std::string Ask(const TcpSocket& socket, const std::string& line) {
  EXPECT_TRUE(socket.Write(line + "\n"));
  return socket.ReadLine();
}

TEST(LeaderForwarderTest, WithoutALeaderAConnectionIsClosedAtOnce) {
  const TempDir dir;
  const LeaderForwarder forwarder({(dir.path() / "nothing.json").string(),
                                   dir.Write("cut.json", R"({"health":"127.)"),
                                   dir.Write("list.json", "[1]"), dir.Write("empty.json", "{}"),
                                   dir.Write("ports.json", R"({"health":"127.0.0.1:1","epoch":1,
                                     "registration":"x","operator":"","agent":"127.0.0.1:70000"})"),
                                   dir.Write("dead.json", R"({"health":"127.0.0.1:1","epoch":9,
                                     "registration":"127.0.0.1:1","operator":"127.0.0.1:1",
                                     "agent":"127.0.0.1:1"})")});
  const TcpSocket socket = Connect(forwarder.Address(LeaderForwarder::kAgent));
  EXPECT_EQ(socket.ReadAll(), "");
  EXPECT_FALSE(forwarder.WaitForLeader(Duration::Milliseconds(200)).has_value());
}

TEST(LeaderForwarderTest, AServiceThatIsShutTurnsAwayWhoComesUntilItIsOpened) {
  E2eCluster cluster(StandIns(1));
  ASSERT_TRUE(cluster.Start().has_value());
  ASSERT_TRUE(cluster.WaitForLeader(kPatience).has_value());
  LeaderForwarder& forwarder = cluster.forwarder();
  forwarder.Shut(LeaderForwarder::kRegistration);
  EXPECT_EQ(Connect(forwarder.Address(LeaderForwarder::kRegistration)).ReadAll(), "");
  EXPECT_NE(Ask(Connect(forwarder.Address(LeaderForwarder::kAgent)), "a"), "");
  forwarder.Open(LeaderForwarder::kRegistration);
  EXPECT_NE(Ask(Connect(forwarder.Address(LeaderForwarder::kRegistration)), "b"), "");
}

TEST(LeaderForwarderTest, EachPortGoesToItsServiceOfTheLeader) {
  E2eCluster cluster(StandIns(2));
  ASSERT_TRUE(cluster.Start().has_value());
  const auto leader = cluster.WaitForLeader(kPatience);
  ASSERT_TRUE(leader.has_value()) << cluster.Logs();
  const LeaderForwarder& forwarder = cluster.forwarder();
  const std::string who = fmt::format("s{} 1", *leader);
  EXPECT_EQ(Ask(Connect(forwarder.Address(LeaderForwarder::kRegistration)), "a"),
            who + " registration a");
  EXPECT_EQ(Ask(Connect(forwarder.Address(LeaderForwarder::kOperator)), "b"), who + " operator b");
  EXPECT_EQ(Ask(Connect(forwarder.Address(LeaderForwarder::kAgent)), "c"), who + " agent c");
}

TEST(LeaderForwarderTest, AHalfCloseIsPassedOnAndTheAnswerStillComes) {
  E2eCluster cluster(StandIns(1));
  ASSERT_TRUE(cluster.Start().has_value());
  ASSERT_TRUE(cluster.WaitForLeader(kPatience).has_value()) << cluster.Logs();
  const TcpSocket socket = Connect(cluster.forwarder().Address(LeaderForwarder::kAgent));
  ASSERT_TRUE(socket.Write("last\n"));
  ::shutdown(socket.number(), SHUT_WR);
  EXPECT_EQ(socket.ReadAll(), "s0 1 agent last\nbye\n");
  EXPECT_TRUE(RunUntil(cluster.loop(), [&] { return cluster.forwarder().connections() == 0; }));
}

TEST(LeaderForwarderTest, MuchGoesThroughBothWaysUnchanged) {
  E2eCluster cluster(StandIns(1));
  ASSERT_TRUE(cluster.Start().has_value());
  ASSERT_TRUE(cluster.WaitForLeader(kPatience).has_value()) << cluster.Logs();
  const TcpSocket socket = Connect(cluster.forwarder().Address(LeaderForwarder::kAgent));
  const std::string line(3'000, 'x');
  for (int i = 0; i < 200; ++i) ASSERT_EQ(Ask(socket, line), "s0 1 agent " + line) << i;
}

TEST(LeaderForwarderTest, ADeadLeadersConnectionsEndAndTheNextOneServes) {
  E2eCluster cluster(StandIns(3));
  ASSERT_TRUE(cluster.Start().has_value());
  std::vector<std::size_t> leaders;
  for (int round = 1; round <= 3; ++round) {
    const auto leader = cluster.WaitForLeader(kPatience, cluster.epoch());
    ASSERT_TRUE(leader.has_value()) << cluster.Logs();
    EXPECT_EQ(cluster.epoch(), round);
    leaders.push_back(*leader);
    const TcpSocket socket = Connect(cluster.forwarder().Address(LeaderForwarder::kAgent));
    EXPECT_EQ(Ask(socket, "x"), fmt::format("s{} {} agent x", *leader, round));
    cluster.server(*leader).Kill();
    EXPECT_EQ(socket.ReadAll(), "") << "the connection ends with its server";
  }
  std::ranges::sort(leaders);
  EXPECT_THAT(leaders, testing::ElementsAre(0, 1, 2));
  EXPECT_TRUE(RunUntil(cluster.loop(), [&] { return !cluster.forwarder().leader().has_value(); }));
}

// A stopped leader keeps its connections open and answers nothing: it is the forwarder that cuts.
TEST(LeaderForwarderTest, ConnectionsToAServerThatDoesNotAnswerAreCut) {
  E2eCluster cluster(StandIns(1));
  ASSERT_TRUE(cluster.Start().has_value());
  ASSERT_TRUE(cluster.WaitForLeader(kPatience).has_value()) << cluster.Logs();
  const TcpSocket socket = Connect(cluster.forwarder().Address(LeaderForwarder::kAgent));
  EXPECT_EQ(Ask(socket, "x"), "s0 1 agent x");
  cluster.server(0).Pause();
  EXPECT_EQ(socket.ReadAll(), "");
  EXPECT_TRUE(RunUntil(cluster.loop(), [&] { return !cluster.forwarder().leader().has_value(); }));
  cluster.server(0).Resume();
  EXPECT_TRUE(cluster.WaitForLeader(kPatience).has_value());
}

TEST(ServerProcessTest, IsReadyActsAndEndsWithItsExitCode) {
  E2eCluster cluster(StandIns(2));
  ASSERT_TRUE(cluster.server(0).Start().has_value());
  EXPECT_TRUE(cluster.server(0).WaitUntilReady(cluster.loop(), kPatience));
  EXPECT_TRUE(cluster.server(0).WaitUntilActing(cluster.loop(), kPatience));
  ASSERT_TRUE(cluster.server(1).Start().has_value());
  EXPECT_TRUE(cluster.server(1).WaitUntilReady(cluster.loop(), kPatience));
  EXPECT_FALSE(cluster.server(1).IsActing()) << "the other one holds the lock";
  EXPECT_EQ(cluster.server(0).Terminate(cluster.loop(), kPatience), 0);
  EXPECT_TRUE(cluster.server(1).WaitUntilActing(cluster.loop(), kPatience));
  EXPECT_FALSE(cluster.server(0).Running());
  EXPECT_EQ(cluster.server(0).exit_code(), 0);
}

TEST(ServerProcessTest, OneThatEndsByItselfIsNotWaitedFor) {
  const TempDir dir;
  RealLoop loop;
  ServerProcess server({.program = "/bin/false",
                        .id = "s0",
                        .shard = "a",
                        .bucket = dir.path().string(),
                        .folder = (dir.path() / "s0").string()});
  ASSERT_TRUE(server.Start().has_value());
  EXPECT_FALSE(server.WaitUntilReady(loop, Duration::Minutes(10)));
  EXPECT_EQ(server.exit_code(), 1);
  ServerProcess missing({.program = "/no/such/program",
                         .id = "s0",
                         .shard = "a",
                         .bucket = dir.path().string(),
                         .folder = (dir.path() / "s1").string()});
  EXPECT_FALSE(missing.Start().has_value());
}

TEST(E2eClusterTest, ItsInstancesEndWithItAndNobodyElses) {
  const TempDir dir;
  const std::string mine = (dir.path() / "mine").string();
  const std::string other = (dir.path() / "mine-too").string();
  std::filesystem::create_directories(other);
  auto bystander = BackgroundProcess::Start(
      {.argv = {"/bin/sleep", "600"}, .environment = {"NSTANCE_LOCAL_ID=wrk"}, .directory = other},
      (dir.path() / "log").string());
  ASSERT_TRUE(bystander.has_value());
  RealLoop loop;
  ASSERT_TRUE(RunUntil(loop, [&] { return InstanceProcesses(other).size() == 1; }));
  std::string root;
  {
    E2eCluster cluster(StandIns(1));
    root = cluster.config().instances_root;
    ServerProcess::Options options = cluster.server(0).options();
    options.flags = {"--instance", cluster.instance_folder("wrk1") + "/work"};
    ServerProcess server(options);
    ASSERT_TRUE(server.Start().has_value());
    ASSERT_TRUE(RunUntil(loop, [&] { return InstanceProcesses(root).size() == 1; }));
    server.Kill();
    EXPECT_EQ(InstanceProcesses(root).size(), 1U) << "instances outlive servers";
  }
  EXPECT_TRUE(InstanceProcesses(root).empty());
  EXPECT_TRUE((*bystander)->Running()) << "a folder whose name only begins alike";
}

TEST(ClusterConfigTest, LoadsAndSaysWhatItPromises) {
  const ClusterConfig config{
      .instances_root = "/tmp/instances",
      .agent_command = {"/opt/it's here/nstance-agent", "--debug"},
      .tenants = {"dev"},
      .groups = {{.name = "workers", .size = 3}, {.tenant = "dev", .name = "web", .size = 1}},
      .registration_address = "127.0.0.1:1001",
      .operator_address = "127.0.0.1:1002",
      .agent_address = "127.0.0.1:1003"};
  const config::LoadResult loaded = config::Load(config.ToText());
  std::string problems;
  for (const config::Problem& problem : loaded.errors)
    problems += config::Format(problem, "config") + "\n";
  ASSERT_TRUE(loaded.config.has_value()) << problems << config.ToText();
  const config::Server& server = loaded.config->server;
  EXPECT_EQ(server.health_check_interval, Duration::Seconds(2));
  EXPECT_EQ(server.default_drain_timeout, Duration::Seconds(5));
  EXPECT_EQ(server.leader_election.renew_interval, Duration::Seconds(1));
  EXPECT_EQ(server.leader_election.lease_timeout, Duration::Seconds(4));
  EXPECT_EQ(server.deletion_brake.ordered.window, Duration());
  EXPECT_EQ(server.deletion_brake.unordered.window, Duration());
}

TEST(ClusterConfigTest, UserDataRunsTheAgentWithItsEnvironment) {
  const TempDir dir;
  const ClusterConfig config{.agent_command = {"/usr/bin/env", "it's=quoted"}};
  const json::Value all = config.ToJson();
  const json::Value* content = all.Find("defaults")->Find("userdata")->Find("content");
  std::string script;
  for (const json::Value& line : *content->if_array()) script += *line.if_string() + "\n";
  const Result<ProcessOutput> output = RunProcess(
      {.argv = {"/bin/bash", dir.Write("userdata", script)}, .directory = dir.path().string()});
  ASSERT_TRUE(output.has_value());
  EXPECT_EQ(output->exit_code, 0) << output->err;
  EXPECT_THAT(output->out, testing::HasSubstr("it's=quoted\n"));
  EXPECT_THAT(output->out, testing::HasSubstr("NSTANCE_INSTANCE_ID={{ .Instance.ID }}\n"));
  EXPECT_THAT(output->out,
              testing::HasSubstr("NSTANCE_SERVER_AGENT_ADDR={{ .Server.AgentAddr }}\n"));
  EXPECT_THAT(output->out, testing::HasSubstr("NSTANCE_RECV_DIR=" + dir.path().string() + "/recv"));
  std::ifstream nonce(dir.path() / "identity/nonce.jwt");
  std::string text;
  std::getline(nonce, text);
  EXPECT_EQ(text, "{{ .Nonce }}");
}

}  // namespace
}  // namespace nstance::test

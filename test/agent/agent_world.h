// One agent, one scripted server and the network between them, in virtual time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "agent/agent.h"
#include "sim/seeded_random.h"
#include "sim/sim_agent_files.h"
#include "sim/sim_host.h"
#include "sim/sim_loop.h"
#include "sim/sim_network.h"
#include "sim/sim_rpc.h"
#include "sim/sim_scheduler.h"
#include "test/agent/scripted_server.h"

namespace nstance::agent::test {

inline const Timestamp kToday = Timestamp::FromUnix(1'900'000'000);
inline constexpr std::string_view kHost = "server.example";

// Keeps lines, for tests about words.
class KeepingSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level level) const override { return level >= log::Level::kInfo; }
  void Write(const log::Record& record) override {
    lines.push_back(log::FormatText(record, kToday));
  }
  [[nodiscard]] int Count(std::string_view words) const {
    int count = 0;
    for (const std::string& line : lines) count += line.contains(words) ? 1 : 0;
    return count;
  }
  std::vector<std::string> lines = {};
};

class World final {
 public:
  explicit World(std::uint64_t seed)
      : scheduler(seed), network(scheduler, {}), seed_(seed), server_loop(scheduler, kToday) {
    disk.files["ca.crt"] = cluster.RootPem();
    disk.files["nonce.jwt"] = cluster.Nonce() + "\n";
  }
  ~World() {
    StopAgent();
    StopServer();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // --- The server ---

  void StartServer() { StartServer(cluster.ServerTls(std::string(kHost), ServerNow())); }
  void StartServer(RpcTls tls) {
    rpc_server = std::make_unique<sim::SimRpcServer>(
        network, server_loop, sim::SimRpcServer::Options{.process = "server"});
    server = std::make_unique<ScriptedServer>(cluster, record, [this] { return ServerNow(); });
    server->script = script;
    ASSERT_TRUE(rpc_server->SetTls(std::move(tls)));
    for (const auto& [port, number] :
         {std::pair(RpcPort::kRegistration, 8992), std::pair(RpcPort::kAgent, 8994)}) {
      openings_.push_back(rpc_server->Open(
          {.port = port,
           .bind = {.host = std::string(kHost), .port = static_cast<std::uint16_t>(number)},
           .accept = server->Acceptor()},
          [](const Result<RpcAddress>& opened) {
            ASSERT_TRUE(opened) << opened.error().ToString();
          }));
    }
  }
  void StopServer() {
    openings_.clear();
    server.reset();
    rpc_server.reset();
  }
  [[nodiscard]] Timestamp ServerNow() const { return server_loop.WallNow(); }

  // --- The agent ---

  void StartAgent() {
    exit_code.reset();
    ++runs_;
    agent_loop = std::make_unique<sim::SimLoop>(scheduler, kToday + skew);
    dialer = std::make_unique<sim::SimRpcDialer>(network, *agent_loop,
                                                 sim::SimRpcDialer::Options{.process = "agent"});
    random = std::make_unique<sim::SeededRandom>((seed_ * 1'000) + runs_);
    identity = std::make_unique<sim::SimAgentFiles>(disk);
    agent = std::make_unique<Agent>(Agent::Deps{.loop = *agent_loop,
                                                .dialer = *dialer,
                                                .random = *random,
                                                .host = host,
                                                .identity = *identity,
                                                .received = received,
                                                .log = log::Logger(sink, "agent"),
                                                .settled = [this] { ++settled; }},
                                    settings, [this](int code) { exit_code = code; });
    agent->Start();
  }
  // As kill -9 does.
  void StopAgent() {
    agent.reset();
    dialer.reset();
    agent_loop.reset();
  }

  [[nodiscard]] bool Until(const std::function<bool()>& done,
                           Duration limit = Duration::Minutes(2)) {
    return scheduler.RunUntilTrue(done, limit);
  }
  [[nodiscard]] bool UntilServing(Duration limit = Duration::Minutes(2)) {
    return Until([this] { return server != nullptr && server->AllOpen(); }, limit);
  }
  void RunFor(Duration length) { scheduler.RunFor(length); }
  [[nodiscard]] HttpAnswer Ready() const { return agent->Page({.path = "/readyz"}); }
  [[nodiscard]] int CallsOf(std::string_view path) const {
    const auto at = server->calls.find(path);
    return at == server->calls.end() ? 0 : at->second;
  }

  Cluster cluster{kToday};
  Record record;
  Script script;
  sim::SimAgentDisk disk;
  sim::SimAgentDisk received_disk;
  sim::SimAgentFiles received{received_disk};
  sim::SimHost host;
  KeepingSink sink;
  Settings settings = {.registration = {.host = std::string(kHost), .port = 8992},
                       .agent = {.host = std::string(kHost), .port = 8994}};
  Duration skew;  // Of the agent's clock.
  std::optional<int> exit_code;
  int settled = 0;  // How often the agent said so.

  sim::SimScheduler scheduler;
  sim::SimNetwork network;

 private:
  std::uint64_t seed_;
  std::uint64_t runs_ = 0;
  std::vector<Pending> openings_;

 public:
  sim::SimLoop server_loop;
  std::unique_ptr<sim::SimRpcServer> rpc_server;
  std::unique_ptr<ScriptedServer> server;
  std::unique_ptr<sim::SimLoop> agent_loop;
  std::unique_ptr<sim::SimRpcDialer> dialer;
  std::unique_ptr<sim::SeededRandom> random;
  std::unique_ptr<sim::SimAgentFiles> identity;
  std::unique_ptr<Agent> agent;
};

}  // namespace nstance::agent::test

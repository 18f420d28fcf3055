// A cluster of fake shards and one nstance-admin, in virtual time.
//
//   ShardWorld world({"a", "b"});
//   world.shard("a").groups["workers"] = {.key = "workers", .size = 2};
//   const Ending ending = world.Run({"group", "list", "--all-shards"});
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "admin/command_line.h"
#include "admin/shard_commands.h"
#include "sim/seeded_random.h"
#include "sim/sim_loop.h"
#include "sim/sim_network.h"
#include "sim/sim_object_store.h"
#include "sim/sim_rpc.h"
#include "sim/sim_scheduler.h"
#include "sim/sim_terminal.h"
#include "test/admin/fake_shard.h"
#include "test/agent/scripted_server.h"

namespace nstance::admin::test {

inline const Timestamp kToday = Timestamp::FromUnix(1'900'000'000);
inline constexpr const char* kId = "knd06bgm7733st2576nx5jht4ecjw";
inline constexpr const char* kOtherId = "knd06bgm9z1k8q3tw5hv0m2xrjc4r";

// Every method, whether the server offers it yet or not.
inline const std::vector<RpcPolicyRow>& WholePolicy() {
  static const std::vector<RpcPolicyRow> policy = [] {
    std::vector<RpcPolicyRow> rows(RpcPolicy().begin(), RpcPolicy().end());
    for (RpcPolicyRow& row : rows) row.offer = RpcOffer::kOffered;
    return rows;
  }();
  return policy;
}

struct IdentitySpec {
  std::string tenant = "prod";
  Duration life = Duration::Hours(720);
  Duration age = {};
  std::uint8_t key = 9;
};

class ShardWorld final {
 public:
  explicit ShardWorld(std::vector<std::string> names)
      : scheduler(7),
        network(scheduler, {}),
        loop(scheduler, kToday),
        terminal(loop),
        bucket(scheduler, {.wall_start = kToday}),
        store(bucket, loop, {.process = "admin", .deadline = Duration::Seconds(5)}) {
    for (const std::string& name : names) {
      shards_[name] = std::make_unique<Shard>(scheduler);
      StartShard(name);
      servers.push_back(fmt::format("{}={}.example:8993", name, name));
    }
    GiveIdentity({});
  }
  ShardWorld(const ShardWorld&) = delete;
  ShardWorld& operator=(const ShardWorld&) = delete;
  ~ShardWorld() {
    running_.reset();
    for (auto& [name, shard] : shards_) StopShard(name);
  }

  [[nodiscard]] FakeShard& shard(const std::string& name) { return *shards_.at(name)->fake; }

  void StartShard(const std::string& name) {
    Shard& shard = *shards_.at(name);
    shard.rpc = std::make_unique<sim::SimRpcServer>(
        network, shard.loop, sim::SimRpcServer::Options{.process = name, .policy = WholePolicy()});
    ASSERT_TRUE(shard.rpc->SetTls(cluster.ServerTls(name + ".example", kToday)));
    shard.opening = shard.rpc->Open(
        {.port = RpcPort::kOperator,
         .bind = {.host = name + ".example", .port = 8993},
         .accept = shard.fake->Acceptor()},
        [](const Result<RpcAddress>& opened) { ASSERT_TRUE(opened) << opened.error().ToString(); });
  }
  // As kill -9 does; what the fake has stays.
  void StopShard(const std::string& name) {
    Shard& shard = *shards_.at(name);
    shard.fake->DropStreams();
    shard.opening = {};
    shard.rpc.reset();
  }

  // Its host is gone without a word, and another one leads at the same address: connections of
  // before stay open here, and nothing comes on them.
  void ReplaceSilently(const std::string& name) {
    network.Silence(name);
    StopShard(name);
    network.Unsilence(name);
    StartShard(name);
  }

  void GiveIdentity(const IdentitySpec& spec) {
    const crypto::PrivateKey key = crypto::test::KeyOf(spec.key);
    const auto leaf = crypto::test::Must(cluster.authority().IssueClient(
        crypto::OperatorSubject{.tenant = crypto::test::Tenant(spec.tenant),
                                .id = crypto::test::Cluster()},
        key.public_key(),
        {.serial = cluster.NextSerial(), .issued_at = kToday - spec.age, .life = spec.life}));
    const crypto::Secret pem = key.ToPem();
    files["id/ca.crt"] = cluster.RootPem();
    files["id/identity.crt"] = leaf.ToPem();
    files["id/identity.key"] = std::string(AsText(pem.Reveal()));
  }

  // Parses the words, with --servers and --identity-dir from the environment, and begins.
  void Start(std::vector<std::string> words) {
    ending.reset();
    const auto line =
        ParseCommandLine(words, [this](const std::string& name) { return Variable(name); });
    if (!line) {
      ending = line.error();
      return;
    }
    const auto* command = std::get_if<ShardCommand>(&line->command);
    ASSERT_NE(command, nullptr);
    dialer_ = std::make_unique<sim::SimRpcDialer>(
        network, loop, sim::SimRpcDialer::Options{.process = "admin", .policy = WholePolicy()});
    running_ = StartShardCommand(
        *command, line->common,
        {.loop = loop,
         .dialer = *dialer_,
         .random = random,
         .terminal = terminal,
         .read = [this](const std::string& path, std::size_t) { return Read(path); },
         .store = command->flags.storage ? &store : nullptr},
        [this](Ending told) { ending = std::move(told); });
  }
  // To its end, which must come within an hour.
  [[nodiscard]] Ending Run(std::vector<std::string> words) {
    Start(std::move(words));
    EXPECT_TRUE(Until([this] { return ending.has_value(); }, Duration::Hours(1)));
    running_.reset();
    return ending.value_or(Ending{.exit_code = -1});
  }
  [[nodiscard]] bool Until(const std::function<bool()>& done,
                           Duration limit = Duration::Minutes(2)) {
    return scheduler.RunUntilTrue(done, limit);
  }
  void RunFor(Duration length) { scheduler.RunFor(length); }
  void Drop() { running_.reset(); }

  sim::SimScheduler scheduler;
  sim::SimNetwork network;
  sim::SimLoop loop;
  sim::SimTerminal terminal;
  sim::SimBucket bucket;
  sim::SimObjectStore store;
  sim::SeededRandom random{3};
  agent::test::Cluster cluster{kToday};
  std::vector<std::string> servers = {};
  std::map<std::string, std::string> environment = {};
  std::map<std::string, std::string> files = {};
  std::optional<Ending> ending = std::nullopt;

 private:
  struct Shard {
    explicit Shard(sim::SimScheduler& of) : loop(of, kToday) {}
    sim::SimLoop loop;
    std::unique_ptr<FakeShard> fake = std::make_unique<FakeShard>();
    std::unique_ptr<sim::SimRpcServer> rpc = {};
    Pending opening = {};
  };

  [[nodiscard]] std::optional<std::string> Variable(const std::string& name) const {
    if (const auto found = environment.find(name); found != environment.end()) {
      return found->second;
    }
    if (name == "NSTANCE_ADMIN_SERVERS") return fmt::format("{}", fmt::join(servers, ","));
    if (name == "NSTANCE_ADMIN_IDENTITY_DIR") return "id";
    return std::nullopt;
  }
  [[nodiscard]] Result<std::string> Read(const std::string& path) const {
    const auto found = files.find(path);
    if (found == files.end()) return Fail(FailedPrecondition(path + ": No such file or directory"));
    return found->second;
  }

  std::map<std::string, std::unique_ptr<Shard>> shards_;
  std::unique_ptr<sim::SimRpcDialer> dialer_;
  std::unique_ptr<Running> running_;
};

}  // namespace nstance::admin::test

// A world for whole servers: the product's ServerProcess on simulated loops, store, disk, cloud and
// network, from its start to its end. A node is one process; the world is what outlives it.
//
//   ProcessWorld world;
//   world.Configure({.size = 2});
//   ServerNode node(world, "s1");
//   ASSERT_TRUE(world.Until([&] { return node.acting(); }));
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "server/process/server_process.h"
#include "sim/seeded_random.h"
#include "sim/sim_cache.h"
#include "sim/sim_cache_folder.h"
#include "sim/sim_host.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "sim/sim_provider.h"
#include "sim/sim_rpc.h"
#include "test/support/scripted_http.h"

namespace nstance::test {

inline Timestamp ProcessStart() { return Timestamp::FromUnix(1'700'000'000); }

// Keeps the lines, as text.
class LineSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level /*level*/) const override { return true; }
  void Write(const log::Record& record) override {
    lines.push_back(log::FormatText(record, ProcessStart()));
  }
  [[nodiscard]] std::size_t Count(std::string_view part) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(lines, [&](const std::string& line) { return line.contains(part); }));
  }
  std::vector<std::string> lines;
};

class FixedKey final : public KeySource {
 public:
  explicit FixedKey(Loop& loop) : loop_(loop) {}
  [[nodiscard]] Pending Load(Done done) override {
    return loop_.CallAfter({}, [done = std::move(done)]() mutable {
      done(*crypto::EncryptionKey::Parse(AsBytes(std::string(32, 'k'))));
    });
  }
  [[nodiscard]] std::string Description() const override { return "fixed key"; }

 private:
  Loop& loop_;
};

// The way to the bucket; keys that begin with `closed` cannot be reached through it.
class DoorStore final : public ObjectStore {
 public:
  DoorStore(Loop& loop, ObjectStore& below) : loop_(loop), below_(below) {}

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override {
    return Shut(key) ? Refuse(std::move(done)) : below_.Get(key, std::move(done));
  }
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override {
    return Shut(key) ? Refuse(std::move(done)) : below_.Head(key, std::move(done));
  }
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override {
    return Shut(request.key) ? Refuse(std::move(done))
                             : below_.Put(std::move(request), std::move(done));
  }
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override {
    return Shut(request.key) ? Refuse(std::move(done))
                             : below_.Delete(std::move(request), std::move(done));
  }
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override {
    return below_.List(std::move(request), std::move(done));
  }
  [[nodiscard]] Pending WatchTime(TimeTold told) override {
    return below_.WatchTime(std::move(told));
  }
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override {
    return below_.PutUnconditionally(std::move(key), std::move(bytes), std::move(done));
  }

  std::string closed;  // Empty: nothing is.

 private:
  [[nodiscard]] bool Shut(const ObjectKey& key) const {
    return !closed.empty() && key.text().starts_with(closed);
  }
  template <class T>
  [[nodiscard]] Pending Refuse(Done<T> done) {
    return loop_.CallAfter(Duration::Milliseconds(5), [done = std::move(done)]() mutable {
      done(Fail(Unavailable("the door is shut")));
    });
  }

  Loop& loop_;
  ObjectStore& below_;
};

struct ConfigParts {
  int size = 0;
  std::string provider = R"({"kind": "local"})";
  std::string server = {};  // Members of `server`, each with a comma in front.
  std::string whole = {};   // Members of the file, likewise.
  std::string group = {};   // Members of the group `workers`, likewise.
  std::string from = {};    // Members of the template `t`, likewise.
  std::string key = "config/a.jsonc";
};

class ProcessWorld {
 public:
  explicit ProcessWorld(std::uint64_t seed = 1)
      : scheduler(seed),
        bucket(scheduler, {.wall_start = ProcessStart()}),
        network(scheduler, {}),
        cloud(scheduler, {.capabilities = {.kind = config::ProviderKind::kLocal,
                                           .max_create_time = Duration::Seconds(5),
                                           .push_events = true,
                                           .leader_network = true}}) {}

  void Configure(const ConfigParts& parts) {
    Put(parts.key, R"({"server": {"cluster_id": "c1", "shard": "a", "provider": )" +
                       parts.provider + R"(,
          "subnet_pools": {"p": ["s1", "s2"]},
          "bind": {"registration_addr": "10.0.0.1:0", "operator_addr": "10.0.0.1:0",
                   "agent_addr": "10.0.0.1:0", "health_addr": "10.0.0.1:0",
                   "election_addr": "10.0.0.1:0"},
          "secrets": {"provider": "object-storage",
                      "encryption_key": {"provider": "env", "source": "KEY"}})" +
                       parts.server + R"(},
          "tenants": {"prod": {}},
          "templates": {"t": {"kind": "wrk", "arch": "amd64", "instance_type": "small",
            "subnet_pool": "p", "userdata": {"content": "run {{ .Nonce }}"})" +
                       parts.from + R"(}},
          "groups": {"default": {"workers": {"template": "t", "size": )" +
                       std::to_string(parts.size) + parts.group + "}}}" + parts.whole + "}");
  }
  void Put(const std::string& key, std::string bytes) {
    bucket.SetByHand(*ObjectKey::Parse(key), std::move(bytes));
  }
  [[nodiscard]] bool Has(const std::string& key) const {
    return bucket.Find(*ObjectKey::Parse(key)) != nullptr;
  }
  bool Until(const std::function<bool()>& done, Duration limit = Duration::Minutes(2)) {
    return scheduler.RunUntilTrue(done, limit);
  }
  void For(Duration length) { scheduler.RunFor(length); }

  sim::SimScheduler scheduler;
  sim::SimBucket bucket;
  sim::SimNetwork network;
  sim::SimCloud cloud;
  sim::SimDisk disk;
  sim::SimCacheDisk rows;
};

struct NodeOptions {
  std::span<const RpcPolicyRow> policy = RpcPolicy();
  std::function<OtherCalls()> other_calls = {};
  LayoutChoice layout = LayoutChoice::kAuto;
  std::string prefix = {};
  std::optional<Error> no_provider = std::nullopt;  // Why none can be made.
  Cache* rows = nullptr;                            // Instead of the node's own.
};

class ServerNode {
 public:
  ServerNode(ProcessWorld& world, const std::string& name, const NodeOptions& options = {})
      : loop(world.scheduler, ProcessStart()),
        bare_store(world.bucket, loop, {.process = name}),
        store(loop, bare_store),
        folder(loop, world.disk, world.scheduler.prng().Next()),
        rows(loop, world.rows),
        random(world.scheduler.prng().Next()),
        http(loop),
        rpc(world.network, loop, {.process = name, .policy = options.policy}),
        process(
            {.loop = loop,
             .store = store,
             .http = http,
             .cache = folder,
             .random = random,
             .metrics = metrics,
             .probe = probe,
             .log = log::Logger(sink, "server"),
             .rpc = rpc,
             .factories = {
                 .provider = [this, &world, name, none = options.no_provider](
                                 const config::Config&) -> Result<std::unique_ptr<Provider>> {
                   if (none) return Fail(*none);
                   auto made = std::make_unique<sim::SimProvider>(
                       world.cloud, loop,
                       sim::SimProvider::Options{.process = name,
                                                 .cluster = *ClusterId::Parse("c1"),
                                                 .shard = *ShardId::Parse("a")});
                   provider = made.get();
                   return made;
                 },
                 .key_source =
                     [this](const config::EncryptionKey&) -> Result<std::unique_ptr<KeySource>> {
                   return std::make_unique<FixedKey>(loop);
                 }},
             .rows = options.rows == nullptr ? &rows : options.rows,
             .other_calls = options.other_calls,
             .host = &host},
            {.id = name,
             .shard = *ShardId::Parse("a"),
             .layout = options.layout,
             .prefix = options.prefix},
            {.ended = [this](int code) { exit_code = code; },
             .acting =
                 [this](std::int64_t at, const std::map<RpcPort, RpcAddress>& open) {
                   epoch = at;
                   addresses = open;
                 },
             .configured = [this](const config::Config&) { ++configured; }}) {
    process.Start();
  }
  ServerNode(const ServerNode&) = delete;
  ServerNode& operator=(const ServerNode&) = delete;
  ~ServerNode() { EXPECT_EQ(sink.Count("the counts of the table were wrong"), 0U); }

  [[nodiscard]] HttpAnswer Page(const std::string& path) {
    std::optional<HttpAnswer> answer;
    process.Page({.path = path}, [&](HttpAnswer got) { answer = std::move(got); });
    return answer.value_or(HttpAnswer{.status = 0});
  }
  [[nodiscard]] bool acting() { return Page("/leader/health").status == 200; }
  // The value of a series of the page; -1: there is none.
  [[nodiscard]] double Metric(const std::string& series) {
    const std::string page = "\n" + Page("/metrics").body;
    const std::size_t at = page.find("\nnstance_" + series + " ");
    if (at == std::string::npos) return -1;
    return std::stod(page.substr(at + series.size() + 10));
  }

  LineSink sink;
  metrics::Registry metrics;
  InputProbe probe{metrics};
  sim::SimLoop loop;
  sim::SimObjectStore bare_store;
  DoorStore store;
  sim::SimCacheFolder folder;
  sim::SimCache rows;
  sim::SeededRandom random;
  ScriptedHttp http;
  sim::SimHost host;
  sim::SimRpcServer rpc;
  sim::SimProvider* provider = nullptr;  // The process's own, once it has one.
  std::optional<int> exit_code;
  std::int64_t epoch = 0;
  int configured = 0;
  std::map<RpcPort, RpcAddress> addresses;
  ServerProcess process;
};

}  // namespace nstance::test

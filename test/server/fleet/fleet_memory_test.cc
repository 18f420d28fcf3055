// What steady work costs in allocations (load.md LB11, LB12), with every one of this program
// counted. Health reports go the whole way from the loop's Post() through the stream's rules to the
// table; transport and protobuf are before that. Plans are counted between the two readings of the
// clock that measures them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"
#include "server/services/agent_streams.h"
#include "sim/sim_cache_folder.h"
#include "test/server/fleet/fleet_world.h"

namespace {

std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  void* block = std::malloc(size);
  if (block == nullptr) std::abort();
  return block;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return operator new(size); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { operator delete(block); }
void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

namespace nstance::test {
namespace {

constexpr int kAgents = 50;
constexpr int kReports = 10'000;
constexpr std::size_t kPlanBudget = 2;

// An agent's health stream, as the transport hands it over.
class FakeStream final : public RpcServerCall {
 public:
  explicit FakeStream(RpcServerEvents& events) : events_(events) {}
  [[nodiscard]] const RpcCallInfo& info() const override { return info_; }
  void Listen(RpcServerEvents events) override { events_ = std::move(events); }
  void SetResponseMetadata(RpcMetadata /*metadata*/) override {}
  RpcSend Send(RpcMessage /*message*/) override { return RpcSend::kTaken; }
  void Finish(Status status, RpcMetadata /*trailing*/) override {
    ADD_FAILURE() << (status.has_value() ? "ended" : status.error().ToString());
  }
  void Pause() override {}
  void Resume() override {}

 private:
  RpcServerEvents& events_;
  RpcCallInfo info_;
};

// What AgentStreams is made with; only loop, fleet and source are ever used.
struct StreamParts {
  explicit StreamParts(World& world)
      : leader(world.leader()),
        folder(leader.loop(), disk, 1),
        groups({.loop = leader.loop(),
                .store = leader.store(),
                .cache = folder,
                .random = random,
                .jitter = jitter,
                .log = logger},
               {.key = *ObjectKey::Parse("groups/a.jsonc")}, {}),
        types(leader.loop(), leader.provider(), 1),
        config({.loop = leader.loop(),
                .store = leader.store(),
                .cache = folder,
                .jitter = jitter,
                .log = logger},
               {.places = {{.key = *ObjectKey::Parse("config/a.jsonc")}}, .shard = kShard}, {}),
        denied({.loop = leader.loop(), .store = leader.store(), .log = logger},
               {.key = *ObjectKey::Parse("deny/cluster.json")}, {}),
        issuer({.loop = leader.loop(),
                .store = leader.store(),
                .random = random,
                .jitter = jitter,
                .leader = scope},
               {.shard = kShard}, nullptr),
        context({.loop = leader.loop(),
                 .store = leader.store(),
                 .cluster_store = leader.store(),
                 .random = random,
                 .jitter = jitter,
                 .log = logger,
                 .source = {.interface = "test"},
                 .leader = scope,
                 .fleet = leader.fleet(),
                 .groups = groups,
                 .types = types,
                 .config = config,
                 .denied = denied,
                 .issuer = issuer,
                 .identity = nullptr,
                 .cluster = kCluster,
                 .shard = kShard,
                 .alarm = {}}) {}

  Leader& leader;
  SilentSink sink;
  log::Logger logger{sink, "test"};
  sim::SimDisk disk;
  sim::SeededRandom random{1};
  Prng jitter{1};
  LeaderScope scope;
  sim::SimCacheFolder folder;
  GroupSource groups;
  TypeArchs types;
  ConfigSource config;
  DenyWatch denied;
  CertificateIssuer issuer;
  ServiceContext context;
};

struct Agent {
  InstanceId id;
  RpcServerEvents events = {};
  api::HealthReportRequest report = {};
};

// As long as what agents really send: nothing fits into a string by itself.
api::HealthReportRequest ReportOf(const InstanceId& id) {
  return {.version = "1.2.3-rc.4+build.20261116",
          .instance_id = id.text(),
          .config_hash = "sha256:" + std::string(64, 'a'),
          .booted_at = Timestamp::FromUnix(1'699'000'000),
          .agent_started_at = Timestamp::FromUnix(1'699'000'100),
          .report_interval = Duration::Minutes(1)};
}

class ReportMemoryTest : public testing::Test {
 public:
  // One report from Post() to the end of its turn.
  std::size_t Deliver(Agent& agent) {
    ++agent.report.count;
    const RpcMessage message = RpcMessage::Of(agent.report);
    struct Delivery {
      Agent& agent;
      const RpcMessage& message;
      RealLoop& loop;
    } delivery = {.agent = agent, .message = message, .loop = loop};
    const std::size_t before = allocations;
    loop.Post([&delivery] {
      delivery.agent.events.message(delivery.message);
      delivery.loop.Stop();
    });
    loop.Run();
    return allocations - before;
  }

  RealLoop loop;
};

TEST_F(ReportMemoryTest, LB11_ASteadyReportAllocatesNothing) {
  World world({.size = kAgents, .interval = "60s"});
  world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(kAgents));
  StreamParts parts(world);
  AgentStreams streams(parts.context);
  std::vector<std::unique_ptr<Agent>> agents;
  for (auto& [id, agent] : world.agents()) {
    agent.frozen = true;  // It is us who report from now on.
    agents.push_back(std::make_unique<Agent>(Agent{.id = id, .report = ReportOf(id)}));
    streams.OpenHealth(id, std::make_unique<FakeStream>(agents.back()->events));
  }
  const auto round = [&] {
    world.For(Duration::Minutes(1));
    std::size_t sum = 0;
    for (const auto& agent : agents) sum += Deliver(*agent);
    return sum;
  };
  for (int i = 0; i < 3; ++i) (void)round();
  std::size_t sum = 0;
  for (int sent = 0; sent < kReports; sent += kAgents) sum += round();
  EXPECT_EQ(sum, 0U);
  EXPECT_EQ(world.Ready(), kAgents);
  // All the same everything is where it belongs.
  world.For(Duration::Seconds(10));
  const Instance* one = world.leader().fleet().Find(agents.front()->id);
  ASSERT_TRUE(one->report.has_value());
  EXPECT_EQ(one->report->count, agents.front()->report.count);
  EXPECT_EQ(world.rows().health.at(one->id).health_at, one->report->at);
}

config::DynamicGroups Groups(const std::vector<std::pair<std::string, int>>& sizes) {
  config::DynamicGroups groups;
  for (const auto& [name, size] : sizes) {
    config::DynamicGroup& group = groups[DefaultTenant()][*GroupKey::Parse(name)];
    group.layer.template_name = "t";
    group.layer.size = size;
  }
  return groups;
}

TEST(PlanMemoryTest, LB12_PlanningWithoutAChangeAllocatesAtMostTwice) {
  std::size_t begun = 0;
  std::size_t most = 0;
  std::size_t plans = 0;
  bool inside = false;
  World world({.size = 7});
  world.settings().stopwatch = [&] {
    inside = !inside;
    if (inside) {
      begun = allocations;
    } else {
      most = std::max(most, allocations - begun);
      ++plans;
    }
    return Instant();
  };
  Leader& leader = world.Lead("s1");
  ASSERT_TRUE(world.UntilReady(7));
  // Groups of several sizes, with names too long to be kept in place.
  leader.Publish(Groups({{"a-group-with-quite-a-long-name", 20}, {"another-one-of-that-kind", 1}}));
  ASSERT_TRUE(world.Until([&] {
    return world.cloud().Vms().size() == 28 &&
           leader.fleet()
                   .Figures(DefaultTenant(), *GroupKey::Parse("a-group-with-quite-a-long-name"))
                   .ready == 20;
  }));
  world.For(Duration::Minutes(5));
  const auto plan_all = [&] {
    leader.fleet().PauseExpiry(leader.loop().Now());
    world.For(Duration::Milliseconds(10));
  };
  for (int i = 0; i < 3; ++i) plan_all();
  most = 0;
  plans = 0;
  for (int i = 0; i < 100; ++i) plan_all();
  EXPECT_GE(plans, 300U);
  EXPECT_LE(most, kPlanBudget);
}

}  // namespace
}  // namespace nstance::test

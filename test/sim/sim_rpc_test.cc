// The simulated network's own faults, seen from both ends of a call: one-way cuts, processes that
// die or stand still, keepalive. What it has in common with the real transport is in
// test/contract/rpc_contract.cc.
#include "sim/sim_rpc.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "crypto/certificate_authority.h"
#include "ports/api/methods.h"
#include "ports/rpc_unary.h"
#include "sim/sim_loop.h"
#include "sim/sim_network.h"
#include "sim/sim_scheduler.h"

namespace nstance::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

template <class T>
T Must(Result<T> result) {
  CHECK(result.has_value(), "{}", result.error().ToString());
  return *std::move(result);
}

crypto::PrivateKey KeyOf(std::uint8_t number) {
  std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{};
  seed.fill(number);
  return crypto::PrivateKey::FromSeed(seed);
}

const Timestamp kStart = Timestamp::FromUnix(1'900'000'000);

RpcTls Material(crypto::Certificate leaf, std::uint8_t key, const crypto::Certificate& root) {
  return std::make_shared<RpcTlsMaterial>(
      RpcTlsMaterial{.chain = {std::move(leaf)},
                     .key = std::make_shared<const crypto::PrivateKey>(KeyOf(key)),
                     .roots = {root}});
}

// One agent that reports to one server, each a process with a loop of its own.
struct World {
  explicit World(std::uint64_t seed = 1) : scheduler(seed) {
    const crypto::IssueTerms terms{.issued_at = kStart - Duration::Hours(1),
                                   .life = Duration::Hours(24)};
    auto root = Must(crypto::IssueCa({.organization = {"Nstance Cluster a"}}, KeyOf(1), terms));
    const auto authority = Must(crypto::CertificateAuthority::Make(root, KeyOf(1)));
    UuidBytes uuid{};
    uuid[6] = 0x70;
    uuid[8] = 0x80;
    server_tls = Material(
        Must(authority.IssueServer({.hosts = {"server"}}, KeyOf(2).public_key(), terms)), 2, root);
    const InstanceId id("knc", uuid);
    agent_id = id.text();
    agent_tls = Material(
        Must(authority.IssueClient(crypto::AgentSubject{.tenant = DefaultTenant(), .instance = id},
                                   KeyOf(3).public_key(), terms)),
        3, root);
    StartServer();
    dialer = std::make_unique<SimRpcDialer>(network, agent_loop,
                                            SimRpcDialer::Options{.process = "agent"});
    Connect();
  }

  void StartServer() {
    server_loop = std::make_unique<SimLoop>(scheduler, kStart);
    server = std::make_unique<SimRpcServer>(network, *server_loop,
                                            SimRpcServer::Options{.process = "server"});
    CHECK(server->SetTls(server_tls).has_value());
    opening = server->Open({.port = RpcPort::kAgent,
                            .bind = {.host = "server", .port = 8994},
                            .accept = [this](auto accepted) { Accept(std::move(accepted)); }},
                           [](const Result<RpcAddress>& address) { CHECK(address.has_value()); });
    scheduler.RunFor(Duration::Milliseconds(1));
  }

  void Accept(std::unique_ptr<RpcServerCall> accepted) {
    handler = std::move(accepted);
    handler->Listen({.message =
                         [this](const RpcMessage& message) {
                           const auto* report = message.As<api::HealthReportRequest>();
                           if (report != nullptr) counts.push_back(report->count);
                         },
                     .half_close = {},
                     .cancelled = [this](const Error& why) { cancelled.push_back(why); },
                     .drained = {}});
  }

  void Connect() {
    channel = dialer->Dial({.address = {.host = "server", .port = 8994}, .tls = agent_tls}, {});
    channel->Connect();
    CHECK(Run([this] { return channel->state() == RpcChannelState::kReady; }));
    call = channel->Start(
        api::kSubmitHealthReport.path, {},
        {.metadata = {}, .message = {}, .drained = {}, .end = [this](const RpcEnd& end) {
           ends.push_back(end);
         }});
    CHECK(Run([this] { return handler != nullptr; }));
  }

  void Report(std::int64_t count) {
    call->Send(RpcMessage::Of(api::HealthReportRequest{.count = count}));
  }
  bool Run(const std::function<bool()>& done) {
    return scheduler.RunUntilTrue(done, Duration::Minutes(5));
  }

  SimScheduler scheduler;
  SimNetwork network{scheduler, {}};
  std::string agent_id;
  RpcTls server_tls;
  RpcTls agent_tls;
  std::unique_ptr<SimLoop> server_loop;
  SimLoop agent_loop{scheduler, kStart};
  std::unique_ptr<SimRpcServer> server;
  std::unique_ptr<SimRpcDialer> dialer;
  Pending opening;
  std::vector<std::int64_t> counts;
  std::vector<Error> cancelled;
  std::vector<RpcEnd> ends;
  std::unique_ptr<RpcServerCall> handler;
  std::unique_ptr<RpcChannel> channel;
  std::unique_ptr<RpcCall> call;
};

TEST(SimRpc, ACutThatHealsInTimeCostsNothing) {
  World world;
  world.network.Cut("agent", "server");
  for (int i = 1; i <= 5; ++i) world.Report(i);
  world.scheduler.RunFor(Duration::Seconds(5));
  EXPECT_THAT(world.counts, IsEmpty());
  world.network.Heal("agent", "server");
  ASSERT_TRUE(world.Run([&] { return world.counts.size() == 5; }));
  EXPECT_THAT(world.counts, ElementsAre(1, 2, 3, 4, 5));
  world.scheduler.RunFor(Duration::Minutes(5));
  EXPECT_THAT(world.ends, IsEmpty()) << "pings are answered";
  EXPECT_THAT(world.cancelled, IsEmpty());
}

TEST(SimRpc, TheServerFindsACutTowardsItByItsPing) {
  World world;
  world.network.Cut("agent", "server");
  const Instant cut_at = world.scheduler.now();
  ASSERT_TRUE(world.Run([&] { return !world.cancelled.empty(); }));
  EXPECT_EQ(world.cancelled.front().code, Code::kUnavailable);
  EXPECT_LE(world.scheduler.now() - cut_at, Duration::Seconds(15));
  // The other direction is open: what the server said when it gave up arrives.
  ASSERT_TRUE(world.Run([&] { return !world.ends.empty(); }));
  EXPECT_EQ(world.ends.front().status.error().code, Code::kUnavailable);
}

TEST(SimRpc, TheClientFindsACutTowardsItByItsPing) {
  World world;
  world.network.Cut("server", "agent");
  const Instant cut_at = world.scheduler.now();
  ASSERT_TRUE(world.Run([&] { return !world.ends.empty(); }));
  EXPECT_EQ(world.ends.front().status.error().code, Code::kUnavailable);
  EXPECT_EQ(world.ends.front().status.error().outcome, Outcome::kMaybeDone);
  EXPECT_LE(world.scheduler.now() - cut_at, Duration::Seconds(31));
  EXPECT_THAT(world.counts, IsEmpty());
}

TEST(SimRpc, ReportsArriveThoughTheirAnswersCannot) {
  World world;
  world.network.Cut("server", "agent");
  world.Report(1);
  ASSERT_TRUE(world.Run([&] { return world.counts.size() == 1; }));
}

TEST(SimRpc, AStreamIsTheServersFromItsAcceptanceToItsEnd) {
  World world;
  const RpcIdentity agent{.role = crypto::Role::kAgent, .id = world.agent_id};
  EXPECT_TRUE(world.server->HasStreamOf(agent));
  EXPECT_FALSE(world.server->HasStreamOf({.role = crypto::Role::kOperator, .id = world.agent_id}));
  world.handler->Finish(Fail(Unauthenticated("denied")));
  EXPECT_THAT(world.ends, IsEmpty()) << "the client does not know yet";
  EXPECT_FALSE(world.server->HasStreamOf(agent));
  ASSERT_TRUE(world.Run([&] { return !world.ends.empty(); }));
  world.call = world.channel->Start(api::kSubmitHealthReport.path, {}, {});
  EXPECT_FALSE(world.server->HasStreamOf(agent)) << "it is on its way";
  ASSERT_TRUE(world.Run([&] { return world.server->HasStreamOf(agent); }));
}

TEST(SimRpc, AServerProcessThatDiesIsToldByItsKernel) {
  World world;
  world.handler.reset();
  world.server.reset();
  world.server_loop.reset();
  ASSERT_TRUE(world.Run([&] { return !world.ends.empty(); }));
  EXPECT_EQ(world.ends.front().status.error().code, Code::kUnavailable);
  ASSERT_TRUE(world.Run([&] { return world.channel->state() == RpcChannelState::kGone; }));
  world.call.reset();
  world.StartServer();
  world.Connect();
  world.Report(7);
  ASSERT_TRUE(world.Run([&] { return !world.counts.empty(); }));
  EXPECT_THAT(world.counts, ElementsAre(7));
}

TEST(SimRpc, AConnectionToACutServerTimesOut) {
  World world;
  world.network.Cut("agent", "server");
  std::vector<RpcChannelState> states;
  const auto second = world.dialer->Dial(
      {.address = {.host = "server", .port = 8994}, .tls = world.agent_tls},
      {.state = [&](RpcChannelState state, const Status&) { states.push_back(state); }});
  second->Connect();
  ASSERT_TRUE(world.Run([&] { return second->state() == RpcChannelState::kGone; }));
  EXPECT_THAT(states, ElementsAre(RpcChannelState::kResolving, RpcChannelState::kConnecting,
                                  RpcChannelState::kGone));
}

TEST(SimRpc, AProcessThatStandsStillAnswersNoPing) {
  World world;
  world.agent_loop.Pause();
  ASSERT_TRUE(world.Run([&] { return !world.cancelled.empty(); }));
  world.agent_loop.Resume();
  ASSERT_TRUE(world.Run([&] { return !world.ends.empty(); }));
}

TEST(SimRpc, AConnectionEndsWithItsCertificate) {
  World world;
  world.scheduler.RunFor(Duration::Hours(22));
  EXPECT_THAT(world.cancelled, IsEmpty());
  world.scheduler.RunFor(Duration::Hours(2));
  EXPECT_THAT(world.cancelled, testing::SizeIs(1));
}

TEST(SimRpc, TheThirdConnectionOfAnAgentClosesItsFirst) {
  World world;
  std::vector<std::unique_ptr<RpcChannel>> more;
  for (int i = 0; i < 2; ++i) {
    more.push_back(world.dialer->Dial(
        {.address = {.host = "server", .port = 8994}, .tls = world.agent_tls}, {}));
    more.back()->Connect();
    ASSERT_TRUE(world.Run([&] { return more.back()->state() == RpcChannelState::kReady; }));
  }
  ASSERT_TRUE(world.Run([&] { return world.channel->state() == RpcChannelState::kGone; }));
  EXPECT_EQ(more[0]->state(), RpcChannelState::kReady);
  EXPECT_EQ(more[1]->state(), RpcChannelState::kReady);
}

TEST(SimRpc, AUnaryCallIsOneFunction) {
  World world;
  std::vector<Result<api::RenewCertificateResponse>> answers;
  const auto ask = [&](std::string id) {
    return CallUnary(
        *world.channel, api::kAgentRenewCertificate,
        {.message = {.public_key_pem = std::move(id)}, .timeout = Duration::Seconds(10)},
        [&](Result<api::RenewCertificateResponse> answer) {
          answers.push_back(std::move(answer));
        });
  };
  Pending first = ask("a");
  world.handler.reset();
  ASSERT_TRUE(world.Run([&] { return world.handler != nullptr; }));
  world.handler->Send(RpcMessage::Of(api::RenewCertificateResponse()));
  world.handler->Finish({});
  ASSERT_TRUE(world.Run([&] { return answers.size() == 1; }));
  EXPECT_TRUE(answers[0]);

  const Pending second = ask("b");
  ASSERT_TRUE(world.Run([&] { return answers.size() == 2; }));
  EXPECT_EQ(answers[1].error().code, Code::kDeadlineExceeded);

  Pending dropped = ask("c");
  dropped.Cancel();
  world.scheduler.RunFor(Duration::Minutes(1));
  EXPECT_EQ(answers.size(), 2U);
}

TEST(SimRpc, TheSameSeedGivesTheSameRun) {
  const auto run = [](std::uint64_t seed) {
    World world(seed);
    for (int i = 1; i <= 10; ++i) world.Report(i);
    world.network.Cut("agent", "server");
    world.scheduler.RunFor(Duration::Minutes(1));
    return world.scheduler.trace_hash();
  };
  EXPECT_EQ(run(11), run(11));
  EXPECT_NE(run(11), run(12));
}

// Whatever happens on the way, a stream is a prefix: in order, without gaps, nothing twice.
TEST(SimRpc, ReportsArriveInOrderWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    World world(seed);
    Prng prng(seed);
    std::int64_t next = 1;
    for (int step = 0; step < 30; ++step) {
      switch (prng.Below(5)) {
        case 0: world.network.Cut("agent", "server"); break;
        case 1: world.network.Cut("server", "agent"); break;
        case 2: world.network.HealAll(); break;
        case 3:
          if (prng.Chance(1, 10)) world.network.BreakConnections("agent", "server");
          break;
        default: break;
      }
      if (world.call->Send(RpcMessage::Of(api::HealthReportRequest{.count = next})) !=
          RpcSend::kRefused) {
        ++next;
      }
      world.scheduler.RunFor(prng.UpTo(Duration::Seconds(3)));
    }
    world.network.HealAll();
    world.scheduler.RunFor(Duration::Minutes(1));
    for (std::size_t i = 0; i < world.counts.size(); ++i) {
      ASSERT_EQ(world.counts[i], static_cast<std::int64_t>(i) + 1) << "seed " << seed;
    }
    ASSERT_LE(world.counts.size(), static_cast<std::size_t>(next - 1)) << "seed " << seed;
    ASSERT_LE(world.ends.size(), 1U) << "seed " << seed;
    ASSERT_EQ(world.ends.empty(), world.cancelled.empty()) << "seed " << seed;
    if (world.ends.empty()) {
      ASSERT_EQ(world.counts.size(), static_cast<std::size_t>(next - 1)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace nstance::sim

// Whole servers on a simulated world: what a configuration asks for in vain is told, who is denied
// has no connection, the cache on disk follows and decides nothing, old objects are removed by the
// cluster's leader, the leader's network comes first and goes last.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/deny_list.h"
#include "core/operator_record.h"
#include "crypto/certificate_authority.h"
#include "ports/api/methods.h"
#include "server/cluster_keys.h"
#include "storage/object_secret_store.h"
#include "test/server/process/process_world.h"

namespace nstance::test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Reads the cluster's keys as another server would.
class KeyReader {
 public:
  explicit KeyReader(ProcessWorld& world)
      : loop(world.scheduler, ProcessStart()),
        store(world.bucket, loop, {.process = "reader"}),
        random(7),
        secrets(
            {.loop = loop, .store = store, .random = random, .jitter = jitter, .metrics = metrics},
            {.cluster = *ClusterId::Parse("c1"),
             .prefix = "secret/",
             .keys = {.current = *crypto::EncryptionKey::Parse(AsBytes(std::string(32, 'k'))),
                      .old = {}}}),
        keys({.loop = loop,
              .store = store,
              .secrets = secrets,
              .random = random,
              .jitter = jitter,
              .log = log::Logger(sink, "keys")},
             {},
             {.ready = [this](ClusterIdentityRef r) { identity = std::move(r); },
              .failed = [](const Error& why) { ADD_FAILURE() << why.message; },
              .may_create = [] { return false; }}) {
    keys.Start();
    EXPECT_TRUE(world.Until([this] { return identity != nullptr; }));
  }

  [[nodiscard]] RpcTls Operator(const TenantId& tenant) {
    auto key = std::make_shared<const crypto::PrivateKey>(
        crypto::PrivateKey::FromSeed(random.Array<crypto::PrivateKey::kSeedSize>()));
    serial = crypto::SerialNumber::FromRandom(random.Array<16>());
    auto certificate = identity->authority->IssueClient(
        crypto::OperatorSubject{.tenant = tenant, .id = *ClusterId::Parse("c1")}, key->public_key(),
        {.serial = serial, .issued_at = loop.WallNow(), .life = Duration::Days(1)});
    EXPECT_TRUE(certificate.has_value());
    return std::make_shared<const RpcTlsMaterial>(
        RpcTlsMaterial{.chain = {*certificate}, .key = std::move(key), .roots = identity->roots});
  }

  LineSink sink;
  sim::SimLoop loop;
  sim::SimObjectStore store;
  sim::SeededRandom random;
  Prng jitter{3};
  metrics::Registry metrics;
  ObjectSecretStore secrets;
  ClusterIdentityRef identity;
  crypto::SerialNumber serial = crypto::SerialNumber::One();
  ClusterKeys keys;
};

// One operator that watches groups.
class Watcher {
 public:
  Watcher(ProcessWorld& world, const RpcAddress& address, RpcTls tls)
      : loop(world.scheduler, ProcessStart()), dialer(world.network, loop, {.process = "client"}) {
    channel = dialer.Dial({.address = address, .tls = std::move(tls)},
                          {.state = [this](RpcChannelState now, const Status&) { state = now; }});
    channel->Connect();
    EXPECT_TRUE(world.Until(
        [this] { return state == RpcChannelState::kReady || state == RpcChannelState::kGone; }));
    call = channel->Start(api::kWatchGroups.path, {},
                          {.message = [this](const RpcMessage&) { ++messages; },
                           .end = [this](const RpcEnd& end) { ended = end.status; }});
    call->Send(RpcMessage::Of(api::Empty{}));
    world.For(Duration::Seconds(1));
  }

  sim::SimLoop loop;
  sim::SimRpcDialer dialer;
  RpcChannelState state = RpcChannelState::kIdle;
  int messages = 0;
  std::optional<Status> ended;
  std::unique_ptr<RpcChannel> channel;
  std::unique_ptr<RpcCall> call;
};

void Deny(ProcessWorld& world, const crypto::SerialNumber& serial) {
  world.Put("deny/cluster.json",
            EncodeDenyList({.entries = {{.serial = serial.decimal(),
                                         .reason = "lost",
                                         .denied_at = ProcessStart(),
                                         .expires_at = ProcessStart() + Duration::Days(400)}},
                            .write_id = "w"}));
}

class ServerProcessTest : public testing::Test {
 public:
  void Lead(const ConfigParts& parts) {
    world.Configure(parts);
    node = std::make_unique<ServerNode>(world, "s1");
    ASSERT_TRUE(world.Until([&] { return node->acting(); }))
        << testing::PrintToString(node->sink.lines);
  }

  ProcessWorld world;
  std::unique_ptr<ServerNode> node;
};

// --- Configuration -------------------------------------------------------------------------------

TEST_F(ServerProcessTest, WhatIsConfiguredAndNotBuiltIsToldOncePerPlaceAtStartAndAtReload) {
  Lead({.whole = R"(, "images": {"base": {"provider": "local", "fallback": "img"}})",
        .group = R"(, "pool": {}, "load_balancers": [])",
        .from = R"(, "files": {"a.txt": {"kind": "string", "template": "x"}})"});
  EXPECT_EQ(node->sink.Count("groups.default.workers.pool: not yet active"), 1U);
  EXPECT_EQ(node->sink.Count("templates.t.files: not yet active"), 1U);
  EXPECT_EQ(node->sink.Count("not yet active"), 2U);
  EXPECT_EQ(node->configured, 1);
}

TEST_F(ServerProcessTest, NothingIsToldOfAConfigurationThatIsWhollyInForce) {
  Lead({.size = 1});
  EXPECT_EQ(node->sink.Count("not yet active"), 0U);
}

// --- The deny list -------------------------------------------------------------------------------

TEST_F(ServerProcessTest, NobodyIsServedBeforeTheDenyListIsKnown) {
  world.Configure({});
  node = std::make_unique<ServerNode>(world, "s1");
  node->store.closed = "deny/";
  world.For(Duration::Seconds(30));
  EXPECT_FALSE(node->acting());
  EXPECT_THAT(node->addresses, IsEmpty());
  node->store.closed.clear();
  EXPECT_TRUE(world.Until([&] { return node->acting(); }, Duration::Seconds(30)));
}

TEST_F(ServerProcessTest, WhoIsDeniedWhileConnectedLosesTheConnectionAndMayNotComeBack) {
  Lead({});
  KeyReader reader(world);
  const RpcTls tls = reader.Operator(DefaultTenant());
  Watcher watcher(world, node->addresses.at(RpcPort::kOperator), tls);
  EXPECT_EQ(watcher.messages, 1);
  EXPECT_EQ(node->Metric(R"(operators_connected{tenant="default"})"), 1);
  EXPECT_EQ(node->Metric(R"(watch_streams{kind="groups"})"), 1);
  Deny(world, reader.serial);
  ASSERT_TRUE(world.Until([&] { return watcher.ended.has_value(); }, Duration::Seconds(12)));
  EXPECT_EQ(watcher.ended->error().code, Code::kUnauthenticated);
  EXPECT_TRUE(world.Until([&] { return watcher.state == RpcChannelState::kGone; }));
  Watcher again(world, node->addresses.at(RpcPort::kOperator), tls);
  ASSERT_TRUE(again.ended.has_value());
  EXPECT_EQ(again.ended->error().code, Code::kUnauthenticated);
  EXPECT_EQ(
      node->Metric(
          R"(grpc_requests_total{method="nstance.v1.OperatorService/WatchGroups",code="UNAUTHENTICATED"})"),
      2);
}

TEST_F(ServerProcessTest, ATenantThatLeavesTheConfigurationLosesItsConnections) {
  Lead({.server = R"(, "leader_election": {"renew_interval": "1s"})"});
  KeyReader reader(world);
  const RpcTls mine = reader.Operator(DefaultTenant());
  Watcher watcher(world, node->addresses.at(RpcPort::kOperator),
                  reader.Operator(*TenantId::Parse("prod")));
  EXPECT_FALSE(watcher.ended.has_value());
  std::string text = world.bucket.Find(*ObjectKey::Parse("config/a.jsonc"))->bytes;
  const std::string tenants = R"("tenants": {"prod": {}},)";
  text.replace(text.find(tenants), tenants.size(), "");
  world.Put("config/a.jsonc", text);
  Watcher refresher(world, node->addresses.at(RpcPort::kOperator), mine);
  refresher.call =
      refresher.channel->Start(api::kRefreshConfig.path, {}, {.end = [](const auto&) {}});
  refresher.call->Send(RpcMessage::Of(api::Empty{}));
  ASSERT_TRUE(world.Until([&] { return watcher.ended.has_value(); }, Duration::Seconds(20)));
  EXPECT_EQ(watcher.ended->error().code, Code::kPermissionDenied);
}

// --- The cache -----------------------------------------------------------------------------------

TEST_F(ServerProcessTest, TheCacheOnDiskIsFlushedAtTheEnd) {
  Lead({.size = 2});
  ASSERT_TRUE(world.Until([&] { return world.cloud.Vms().size() == 2; }));
  world.For(Duration::Seconds(10));
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }));
  EXPECT_EQ(*node->exit_code, 0);
  const cache::Contents rows = world.rows.Read();
  ASSERT_THAT(rows.instances, SizeIs(2));
  for (const cache::InstanceRow& row : rows.instances) {
    EXPECT_EQ(row.phase, "provisioned");
    EXPECT_FALSE(row.provider_id.empty());
    EXPECT_FALSE(row.record_etag.empty());
  }
  ASSERT_THAT(rows.groups, SizeIs(1));
  EXPECT_EQ(rows.groups[0].size, 2);
}

// --- Calls that the services do not serve --------------------------------------------------------

const std::vector<RpcPolicyRow>& PolicyWithDebug() {
  static const std::vector<RpcPolicyRow> kRows = [] {
    std::vector<RpcPolicyRow> rows(RpcPolicy().begin(), RpcPolicy().end());
    rows.push_back({.path = "/debug.Service/Ask",
                    .port = RpcPort::kOperator,
                    .kind = RpcKind::kUnary,
                    .caller = RpcCaller::kOperator,
                    .tenant_rule = RpcTenantRule::kOwn,
                    .limits = RpcLimitsClass::kOperatorUnary,
                    .time_limit = Duration::Seconds(10)});
    return rows;
  }();
  return kRows;
}

// Answers to one question.
std::optional<Status> Ask(ProcessWorld& world, const RpcAddress& address, const RpcTls& tls) {
  sim::SimLoop loop(world.scheduler, ProcessStart());
  sim::SimRpcDialer dialer(world.network, loop, {.process = "client", .policy = PolicyWithDebug()});
  std::optional<Status> ended;
  const auto channel = dialer.Dial({.address = address, .tls = tls}, {});
  channel->Connect();
  EXPECT_TRUE(world.Until([&] { return channel->state() == RpcChannelState::kReady; }));
  const auto call = channel->Start("/debug.Service/Ask", {},
                                   {.end = [&](const RpcEnd& end) { ended = end.status; }});
  call->Send(RpcMessage::Of(api::Empty{}));
  EXPECT_TRUE(world.Until([&] { return ended.has_value(); }));
  return ended;
}

TEST_F(ServerProcessTest, ACallWithoutAHandlerGoesToOthersBehindTheGateAndEndsWithTheLeadership) {
  int asked = 0;
  std::weak_ptr<int> alive;
  world.Configure({});
  node = std::make_unique<ServerNode>(
      world, "s1", NodeOptions{.policy = PolicyWithDebug(), .other_calls = [&]() -> OtherCalls {
                                 auto held = std::make_shared<int>(0);
                                 alive = held;
                                 return [&asked, held](std::unique_ptr<RpcServerCall> call)
                                            -> std::unique_ptr<RpcServerCall> {
                                   if (call->info().policy->path != "/debug.Service/Ask")
                                     return call;
                                   ++asked;
                                   call->Send(RpcMessage::Of(api::Empty{}));
                                   call->Finish({});
                                   return nullptr;
                                 };
                               }});
  ASSERT_TRUE(world.Until([&] { return node->acting(); }));
  KeyReader reader(world);
  const RpcTls tls = reader.Operator(DefaultTenant());
  const RpcAddress address = node->addresses.at(RpcPort::kOperator);
  EXPECT_EQ(Ask(world, address, tls), Status());
  EXPECT_EQ(asked, 1);
  Deny(world, reader.serial);
  world.For(Duration::Seconds(12));
  EXPECT_EQ(Ask(world, address, tls)->error().code, Code::kUnauthenticated);
  EXPECT_EQ(asked, 1) << "the gate comes first";
  EXPECT_FALSE(alive.expired());
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }));
  EXPECT_TRUE(alive.expired());
}

// --- The leader's network ------------------------------------------------------------------------

TEST_F(ServerProcessTest, TheLeadersNetworkIsAssignedBeforeAnythingIsServedAndReleasedAtTheEnd) {
  const std::string ip = "10.9.9.9";
  Lead({.provider = R"({"kind": "aws", "region": "r", "zone": "z"})",
        .server = R"(, "leader_network": {"ip": "10.9.9.9", "interface_id": "eni-1"})"});
  EXPECT_EQ(world.cloud.LeaderHolder(ip), "s1");
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }));
  EXPECT_EQ(world.cloud.LeaderHolder(ip), "");
}

// --- What the cluster's leader removes -----------------------------------------------------------

std::string OperatorText(Timestamp expires_at) {
  return EncodeOperatorRecord({.cert_serial = "1",
                               .client_id = "c1",
                               .expires_at = expires_at,
                               .public_key_pem = "pem",
                               .registered_at = ProcessStart(),
                               .registered_by = "nstance-server",
                               .write_id = "w"});
}

TEST_F(ServerProcessTest, TheClustersLeaderRemovesWhatIsPastItsTimeAndNothingElse) {
  const auto log_of = [](Timestamp expires_at) {
    return R"({"batch_size":1,"certificates":[{"certificate_name":"agent","serial_number":"1",)"
           R"("expires_at":")" +
           FormatTimestamp(expires_at) + "\"}]}";
  };
  world.Put("operator-nonce/" + std::string(64, 'a') + ".pem", "key");
  world.Put("operator/default." + std::string(32, 'a') + ".json",
            OperatorText(ProcessStart() - Duration::Days(31)));
  world.Put("operator/default." + std::string(32, 'b') + ".json",
            OperatorText(ProcessStart() + Duration::Days(31)));
  world.Put("operator/default." + std::string(32, 'c') + ".json", "not a record");
  world.Put("certlog/b/default.20230101000000000.old.json",
            log_of(ProcessStart() - Duration::Days(31)));
  world.Put("certlog/a/default.20230101000000000.new.json", log_of(ProcessStart()));
  // Few turns in two days.
  world.Configure({.server = R"(, "garbage_collection": {"interval": "30m"},
                     "leader_election": {"renew_interval": "60s", "lease_timeout": "240s",
                       "cluster": {"renew_interval": "60s", "lease_timeout": "240s"}})"});
  node = std::make_unique<ServerNode>(world, "s1");
  world.For(Duration::Minutes(70));
  ASSERT_TRUE(node->acting());
  EXPECT_FALSE(world.Has("operator/default." + std::string(32, 'a') + ".json"));
  EXPECT_TRUE(world.Has("operator/default." + std::string(32, 'b') + ".json"));
  EXPECT_TRUE(world.Has("operator/default." + std::string(32, 'c') + ".json"));
  EXPECT_FALSE(world.Has("certlog/b/default.20230101000000000.old.json"));
  EXPECT_TRUE(world.Has("certlog/a/default.20230101000000000.new.json"));
  EXPECT_TRUE(world.Has("operator-nonce/" + std::string(64, 'a') + ".pem")) << "two days";
  world.For(Duration::Days(2));
  EXPECT_FALSE(world.Has("operator-nonce/" + std::string(64, 'a') + ".pem"));
}

TEST_F(ServerProcessTest, ASweepRemovesAHundredAtMostAndTheNextOneGoesOn) {
  for (int i = 0; i < 250; ++i) {
    world.Put(fmt::format("operator/default.{:032x}.json", i),
              OperatorText(ProcessStart() - Duration::Days(31)));
  }
  Lead({});
  const auto left = [&] {
    return std::ranges::count_if(world.bucket.Keys(), [](const ObjectKey& key) {
      return key.text().starts_with("operator/");
    });
  };
  ASSERT_TRUE(world.Until([&] { return left() < 250; }, Duration::Minutes(5)));
  world.For(Duration::Seconds(60));
  EXPECT_EQ(left(), 150);
  ASSERT_TRUE(world.Until([&] { return left() == 0; }, Duration::Minutes(10)));
}

}  // namespace
}  // namespace nstance::test

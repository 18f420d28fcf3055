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
#include "core/instance_record.h"
#include "core/journal.h"
#include "core/lease.h"
#include "core/object_layout.h"
#include "core/operator_record.h"
#include "crypto/certificate_authority.h"
#include "ports/api/methods.h"
#include "storage/cluster_keys.h"
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

struct Question {
  RpcAddress address;
  RpcTls tls;
  std::string_view path;
};

// The answer to one question.
std::optional<Status> Ask(ProcessWorld& world, const Question& question, RpcMessage message) {
  sim::SimLoop loop(world.scheduler, ProcessStart());
  sim::SimRpcDialer dialer(world.network, loop, {.process = "client", .policy = PolicyWithDebug()});
  std::optional<Status> ended;
  const auto channel = dialer.Dial({.address = question.address, .tls = question.tls}, {});
  channel->Connect();
  EXPECT_TRUE(world.Until([&] { return channel->state() == RpcChannelState::kReady; }));
  const auto call =
      channel->Start(question.path, {}, {.end = [&](const RpcEnd& end) { ended = end.status; }});
  call->Send(std::move(message));
  EXPECT_TRUE(world.Until([&] { return ended.has_value(); }));
  return ended;
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
  ConfigParts parts = {.whole = R"(, "images": {"base": {"provider": "local", "fallback": "img"}})",
                       .group = R"(, "pool": {}, "load_balancers": [])",
                       .from = R"(, "files": {"a.txt": {"kind": "string", "template": "x"}})"};
  Lead(parts);
  const std::string pool = "groups.default.workers.pool: not yet active";
  const std::string files = "templates.t.files: not yet active";
  EXPECT_EQ(node->sink.Count(pool), 1U);
  EXPECT_EQ(node->sink.Count(files), 1U);
  EXPECT_EQ(node->sink.Count("not yet active"), 2U);
  EXPECT_EQ(node->configured, 1);

  KeyReader reader(world);
  const Question refresh = {.address = node->addresses.at(RpcPort::kOperator),
                            .tls = reader.Operator(DefaultTenant()),
                            .path = api::kRefreshConfig.path};
  EXPECT_EQ(Ask(world, refresh, RpcMessage::Of(api::Empty{})), Status());
  EXPECT_EQ(node->sink.Count("not yet active"), 2U) << "nothing is new";
  EXPECT_EQ(node->configured, 1);
  parts.size = 1;
  world.Configure(parts);
  EXPECT_EQ(Ask(world, refresh, RpcMessage::Of(api::Empty{})), Status());
  EXPECT_EQ(node->sink.Count(pool), 2U);
  EXPECT_EQ(node->sink.Count(files), 2U);
  EXPECT_EQ(node->sink.Count("not yet active"), 4U);
  EXPECT_EQ(node->configured, 2);
  parts.group.clear();
  world.Configure(parts);
  EXPECT_EQ(Ask(world, refresh, RpcMessage::Of(api::Empty{})), Status());
  EXPECT_EQ(node->sink.Count(pool), 2U) << "it is asked for no more";
  EXPECT_EQ(node->sink.Count(files), 3U);
  EXPECT_EQ(node->configured, 3);
}

TEST_F(ServerProcessTest, NothingIsToldOfAConfigurationThatIsWhollyInForce) {
  Lead({.size = 1});
  EXPECT_EQ(node->sink.Count("not yet active"), 0U);
}

// --- The deny list -------------------------------------------------------------------------------

TEST_F(ServerProcessTest, AWallClockThatJumpsIsAnAlarm) {
  world.Configure({.size = 1});
  node = std::make_unique<ServerNode>(world, "s1");
  ASSERT_TRUE(world.Until([&] { return node->acting(); }));
  const std::string alarms = R"(alarms_total{alarm="wall_clock_jump"})";
  node->loop.JumpWall(Duration::Seconds(59));
  world.For(Duration::Seconds(5));
  EXPECT_EQ(node->Metric(alarms), -1) << "that is how clocks are set";
  node->loop.JumpWall(Duration::Seconds(61));
  world.For(Duration::Seconds(5));
  EXPECT_EQ(node->Metric(alarms), 1);
  node->loop.JumpWall(Duration::Hours(-2));
  world.For(Duration::Seconds(5));
  EXPECT_EQ(node->Metric(alarms), 2);
  EXPECT_TRUE(node->acting());
}

TEST_F(ServerProcessTest, WhatAnOperatorsGroupAsksForAndIsNotBuiltIsToldOnce) {
  world.Configure({.size = 0});
  world.Put("groups/a.jsonc", R"({"default": {"web": {"template": "t", "size": 1, "pool": {}}}})");
  node = std::make_unique<ServerNode>(world, "s1");
  ASSERT_TRUE(world.Until([&] { return node->acting(); }));
  world.For(Duration::Minutes(10));
  EXPECT_EQ(node->sink.Count("groups.default.web.pool: not yet active"), 1U);
}

TEST_F(ServerProcessTest, WhatAnOperatorsGroupAsksForIsToldAgainWithAnotherConfiguration) {
  world.Configure({.size = 0});
  world.Put("groups/a.jsonc", R"({"default": {"web": {"template": "t", "size": 1, "pool": {}}}})");
  node = std::make_unique<ServerNode>(world, "s1");
  ASSERT_TRUE(world.Until([&] { return node->acting(); }));
  KeyReader reader(world);
  const Question refresh = {.address = node->addresses.at(RpcPort::kOperator),
                            .tls = reader.Operator(DefaultTenant()),
                            .path = api::kRefreshConfig.path};
  EXPECT_EQ(Ask(world, refresh, RpcMessage::Of(api::Empty{})), Status());
  EXPECT_EQ(node->sink.Count("groups.default.web.pool: not yet active"), 1U) << "nothing is new";
  world.Configure({.size = 1});
  EXPECT_EQ(Ask(world, refresh, RpcMessage::Of(api::Empty{})), Status());
  EXPECT_EQ(node->sink.Count("groups.default.web.pool: not yet active"), 2U);
}

// --- The end of a server that cannot go on -------------------------------------------------------

LeaseRecord LeaseOf(ProcessWorld& world, const std::string& name) {
  const Object* object = world.bucket.Find(*ObjectKey::Parse("leader/" + name + ".json"));
  return object == nullptr ? LeaseRecord() : DecodeLease(object->bytes).record;
}

TEST_F(ServerProcessTest, AFatalErrorReleasesBothLeasesBeforeItsDelayIsOver) {
  // Few turns in a day.
  Lead({.server = R"(, "error_exit_jitter": {"min_delay": "60s", "max_delay": "60s"},
                     "garbage_collection": {"interval": "30m"},
                     "leader_election": {"renew_interval": "60s", "lease_timeout": "240s",
                       "cluster": {"renew_interval": "60s", "lease_timeout": "240s"}})"});
  world.For(Duration::Hours(23));
  ASSERT_FALSE(LeaseOf(world, "cluster").leader_id.empty());
  ASSERT_FALSE(LeaseOf(world, "cluster").released);
  world.bucket.personality().writes_on_missing_key = true;  // The daily probe finds out.
  ASSERT_TRUE(world.Until([&] { return node->sink.Count("fatal") > 0; }, Duration::Hours(2)));
  world.For(Duration::Seconds(6));
  EXPECT_TRUE(LeaseOf(world, "a").released);
  EXPECT_TRUE(LeaseOf(world, "cluster").released);
  world.For(Duration::Seconds(30));
  EXPECT_TRUE(LeaseOf(world, "cluster").released) << "it is not taken again";
  EXPECT_FALSE(node->exit_code.has_value());
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }));
  EXPECT_EQ(*node->exit_code, ServerProcess::kExitStoreRefused);
}

TEST_F(ServerProcessTest, AFatalErrorBeforeTheElectionReleasesTheClustersLease) {
  world.Configure({.server = R"(, "error_exit_jitter": {"min_delay": "60s", "max_delay": "60s"})"});
  node = std::make_unique<ServerNode>(
      world, "s1", NodeOptions{.no_provider = InvalidArgument("there is no such provider")});
  ASSERT_TRUE(world.Until([&] { return node->sink.Count("fatal") > 0; }));
  ASSERT_FALSE(LeaseOf(world, "cluster").leader_id.empty());
  world.For(Duration::Seconds(6));
  EXPECT_TRUE(LeaseOf(world, "cluster").released);
  EXPECT_FALSE(node->exit_code.has_value());
}

// --- How long a stop takes -----------------------------------------------------------------------

constexpr Duration kLongestStop = Duration::Seconds(10);

// A disk that hangs.
class HangingCache final : public Cache {
 public:
  void Write(std::vector<cache::Change> /*changes*/) override {}
  [[nodiscard]] Pending Load(Loaded /*done*/) override { return {}; }
  [[nodiscard]] Pending Flush(Task done) override {
    flushed = std::move(done);
    return {};
  }
  [[nodiscard]] Pending Watch(BegunAnew /*begun_anew*/) override { return {}; }
  Task flushed;
};

const ConfigParts& WithLeaderNetwork() {
  static const ConfigParts kParts = {
      .provider = R"({"kind": "aws", "region": "r", "zone": "z"})",
      .server = R"(, "leader_network": {"ip": "10.9.9.9", "interface_id": "eni-1"})"};
  return kParts;
}

TEST_F(ServerProcessTest, AProviderThatDoesNotAnswerDelaysATakeOverByTheConfiguredTime) {
  Lead({.server = R"(, "request_timeout": "4s")"});
  ServerNode standby(world, "s2");
  ASSERT_TRUE(world.Until([&] { return standby.provider != nullptr; }));
  standby.provider->link().requests_lost = true;
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return standby.sink.Count("the journal is ours") == 1; }));
  ASSERT_TRUE(world.Until([&] { return standby.acting(); }, Duration::Seconds(5)));
  EXPECT_EQ(standby.sink.Count("the provider could not be listed"), 1U);
}

TEST_F(ServerProcessTest, I44_AProviderThatDoesNotAnswerDelaysAStopByLessThanTenSeconds) {
  Lead(WithLeaderNetwork());
  node->provider->link().requests_lost = true;
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }, kLongestStop));
  EXPECT_EQ(*node->exit_code, 0);
  EXPECT_TRUE(LeaseOf(world, "a").released);
  EXPECT_TRUE(LeaseOf(world, "cluster").released);
}

TEST_F(ServerProcessTest, I44_ADiskThatHangsDelaysAStopByASecondAndIsTold) {
  HangingCache hanging;
  world.Configure({});
  node = std::make_unique<ServerNode>(world, "s1", NodeOptions{.rows = &hanging});
  ASSERT_TRUE(world.Until([&] { return node->acting(); }));
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }, Duration::Seconds(2)));
  EXPECT_EQ(*node->exit_code, 0);
  EXPECT_EQ(node->sink.Count("the cache on disk was not flushed in time"), 1U);
  EXPECT_TRUE(LeaseOf(world, "a").released);
}

TEST_F(ServerProcessTest, I44_WithProviderStoreAndDiskAllSilentAStopStillEndsWithinTenSeconds) {
  HangingCache hanging;
  world.Configure(WithLeaderNetwork());
  node = std::make_unique<ServerNode>(world, "s1", NodeOptions{.rows = &hanging});
  ASSERT_TRUE(world.Until([&] { return node->acting(); }));
  node->provider->link().requests_lost = true;
  node->bare_store.link().requests_lost = true;
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }, kLongestStop));
  EXPECT_EQ(*node->exit_code, 0);
}

TEST_F(ServerProcessTest, ASecondSignalEndsAtOnce) {
  Lead(WithLeaderNetwork());
  node->provider->link().requests_lost = true;
  node->process.Stop();
  world.For(Duration::Seconds(1));
  ASSERT_FALSE(node->exit_code.has_value()) << "the leader's address is not given back yet";
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }, Duration::Milliseconds(1)));
  EXPECT_EQ(*node->exit_code, 0);
  world.For(kLongestStop);  // What was under way holds the leadership until its end.
}

TEST_F(ServerProcessTest, ASignalCutsTheDelayOfAFatalErrorShortAndKeepsItsCode) {
  world.Configure({.server = R"(, "error_exit_jitter": {"min_delay": "60s", "max_delay": "60s"})"});
  node = std::make_unique<ServerNode>(
      world, "s1", NodeOptions{.no_provider = InvalidArgument("there is no such provider")});
  ASSERT_TRUE(world.Until([&] { return LeaseOf(world, "cluster").released; }));
  ASSERT_FALSE(node->exit_code.has_value());
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }, Duration::Milliseconds(1)));
  EXPECT_EQ(*node->exit_code, ServerProcess::kExitFatal);
}

// --- How long effects may take -------------------------------------------------------------------

// Runs until the lease has been renewed just now, and lets no further renewal through.
void StopRenewals(ProcessWorld& world, ServerNode& node) {
  const Instant before = node.process.elector()->machine().deadline();
  ASSERT_TRUE(world.Until([&] { return node.process.elector()->machine().deadline() > before; }));
  node.store.closed = "leader/a";
}

TEST_F(ServerProcessTest, RU4_UnderAShortLeaseProviderCallsBeginLongAfterARenewal) {
  Lead({.server = R"(, "leader_election": {"renew_interval": "1s", "lease_timeout": "4s"})"});
  KeyReader reader(world);
  const RpcTls tls = reader.Operator(DefaultTenant());
  StopRenewals(world, *node);
  const Instant renewed = node->process.elector()->machine().deadline() - Duration::Seconds(3);
  ASSERT_TRUE(
      world.Until([&] { return node->loop.Now() > renewed + Duration::Milliseconds(1020); }));
  EXPECT_EQ(Ask(world,
                {.address = node->addresses.at(RpcPort::kOperator),
                 .tls = tls,
                 .path = api::kUpsertGroup.path},
                RpcMessage::Of(api::UpsertGroupRequest{
                    .key = "web", .config = api::GroupConfig{.template_name = "t", .size = 1}})),
            Status());
  ASSERT_TRUE(world.Until([&] { return !world.cloud.Vms().empty(); },
                          renewed + Duration::Milliseconds(2900) - node->loop.Now()));
  EXPECT_TRUE(node->acting());
}

TEST_F(ServerProcessTest, RU4_TheLeadersAddressIsNotReleasedWhenTheLeaseIsAboutToEnd) {
  const std::string ip = "10.9.9.9";
  Lead({.provider = R"({"kind": "aws", "region": "r", "zone": "z"})",
        .server = R"(, "leader_network": {"ip": "10.9.9.9", "interface_id": "eni-1"})"});
  ASSERT_EQ(world.cloud.LeaderHolder(ip), "s1");
  StopRenewals(world, *node);
  const Instant deadline = node->process.elector()->machine().deadline();
  ASSERT_TRUE(
      world.Until([&] { return node->loop.Now() > deadline - Duration::Milliseconds(1900); }));
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }));
  EXPECT_EQ(world.cloud.LeaderHolder(ip), "s1") << "a late release would hit the next leader";
}

TEST_F(ServerProcessTest, RU4_TheLeadersAddressIsNotTakenWhenTheLeaseIsAboutToEnd) {
  const std::string ip = "10.9.9.9";
  world.Configure({.provider = R"({"kind": "aws", "region": "r", "zone": "z"})",
                   .server = R"(, "leader_network": {"ip": "10.9.9.9", "interface_id": "eni-1"})"});
  node = std::make_unique<ServerNode>(world, "s1");
  ASSERT_TRUE(world.Until([&] { return world.cloud.LeaderHolder(ip) == "s1"; }));
  const Instant again = node->loop.Now() + Duration::Seconds(15);
  sim::SimProvider old(
      world.cloud, node->loop,
      {.process = "s0", .cluster = *ClusterId::Parse("c1"), .shard = *ShardId::Parse("a")});
  const Pending call = old.AssignLeaderNetwork(
      {.epoch = 0, .deadline = node->loop.Now() + Duration::Minutes(1)},
      {.ip = ip, .interface_id = "eni-1"}, [](const ProviderResult<void>&) {});
  ASSERT_TRUE(world.Until([&] { return world.cloud.LeaderHolder(ip) == "s0"; }));
  // The lease ends soon after the moment at which the address is asked for again.
  ASSERT_TRUE(world.Until(
      [&] {
        const Duration left = node->process.elector()->machine().deadline() - again;
        return left > Duration::Milliseconds(300) && left < Duration::Milliseconds(1950);
      },
      Duration::Minutes(3)));
  node->store.closed = "leader/a";
  world.For(again + Duration::Milliseconds(200) - node->loop.Now());
  EXPECT_GT(node->sink.Count("the leader's network cannot be assigned"), 0U);
  world.For(Duration::Seconds(5));
  EXPECT_EQ(world.cloud.LeaderHolder(ip), "s0");
}

// A leadership that ends for another's epoch, and whose provider does not answer meanwhile.
void EndByHigherEpoch(ProcessWorld& world, ServerNode& node) {
  KeyReader reader(world);
  const RpcTls tls = reader.Operator(DefaultTenant());
  node.provider->link().requests_lost = true;
  const ObjectKey key = *ObjectKey::Parse("journal/a.json");
  Journal journal =
      *DecodeJournal(world.bucket.Find(key)->bytes,
                     {.cluster = *ClusterId::Parse("c1"), .shard = *ShardId::Parse("a")});
  journal.epoch += 1;
  world.bucket.SetByHand(key, EncodeJournal(journal));
  EXPECT_EQ(Ask(world,
                {.address = node.addresses.at(RpcPort::kOperator),
                 .tls = tls,
                 .path = api::kUpsertGroup.path},
                RpcMessage::Of(api::UpsertGroupRequest{
                    .key = "web", .config = api::GroupConfig{.template_name = "t", .size = 1}})),
            Status());
  ASSERT_TRUE(world.Until([&] { return node.sink.Count("leadership ends") > 0; }));
}

TEST_F(ServerProcessTest, AStopDuringAStepDownWaitsForIt) {
  ConfigParts parts = WithLeaderNetwork();
  parts.server += R"(, "shutdown_timeout": "4s")";
  Lead(parts);
  EndByHigherEpoch(world, *node);
  world.For(Duration::Seconds(1));
  node->process.Stop();
  world.For(Duration::Seconds(2));
  EXPECT_FALSE(node->exit_code.has_value());
  EXPECT_FALSE(LeaseOf(world, "a").released) << "what it guards has not ended";
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }, Duration::Seconds(3)));
  EXPECT_EQ(*node->exit_code, 0);
  EXPECT_TRUE(LeaseOf(world, "a").released);
}

TEST_F(ServerProcessTest, I44_AStopDuringALongStepDownStillEndsWithinTenSeconds) {
  ConfigParts parts = WithLeaderNetwork();
  parts.server += R"(, "shutdown_timeout": "10m")";
  Lead(parts);
  EndByHigherEpoch(world, *node);
  node->process.Stop();
  ASSERT_TRUE(world.Until([&] { return node->exit_code.has_value(); }, kLongestStop));
  EXPECT_EQ(*node->exit_code, 0);
  EXPECT_TRUE(LeaseOf(world, "a").released);
}

// --- The wall clock ------------------------------------------------------------------------------

// An instance of the group that has registered long ago, as the bucket tells it.
void MakeOld(ProcessWorld& world, const InstanceId& id, Duration age) {
  const RecordKey name = {.tenant = DefaultTenant(), .instance_id = id};
  const ObjectKey key = InstanceRecordKey(*ShardId::Parse("a"), name);
  const Object* object = world.bucket.Find(key);
  ASSERT_NE(object, nullptr);
  InstanceRecord record = *DecodeInstanceRecord(object->bytes, name);
  record.phase = InstancePhase::kRegistered;
  record.created_at = record.created_at - age;
  record.registered_at = record.created_at;
  world.bucket.SetByHand(key, EncodeInstanceRecord(record));
}

TEST_F(ServerProcessTest, RU8_AJumpThatIsSeenWhileStandingByPausesExpiryOfTheNextLeader) {
  for (const bool jumps : {false, true}) {
    ProcessWorld own(7);
    own.Configure({.size = 1,
                   .server = R"(, "leader_election": {"renew_interval": "2s",
                                  "lease_timeout": "30s"})",
                   .group = R"(, "expiry": {"forced_age": "1h"})"});
    ServerNode first(own, "s1");
    ASSERT_TRUE(own.Until([&] { return own.cloud.Vms().size() == 1; }));
    own.For(Duration::Seconds(30));
    ServerNode second(own, "s2");
    own.For(Duration::Seconds(10));
    ASSERT_TRUE(first.acting());
    MakeOld(own, *own.cloud.Vms().front()->shown.instance_id, Duration::Hours(2));
    const Instant jumped = second.loop.Now();
    if (jumps) second.loop.JumpWall(Duration::Minutes(2));
    own.For(Duration::Seconds(2));
    first.process.Stop();
    ASSERT_TRUE(own.Until([&] { return second.acting(); }));
    EXPECT_EQ(second.sink.Count("wall_clock_jump"), jumps ? 1U : 0U);
    own.For(jumped + Duration::Seconds(29) - second.loop.Now());
    ASSERT_EQ(own.cloud.Vms().size(), jumps ? 1U : 2U) << "its successor is made at once";
    EXPECT_TRUE(own.Until([&] { return own.cloud.Vms().size() == 2; }, Duration::Seconds(10)));
  }
}

TEST_F(ServerProcessTest, RU9_OnAnotherBootItIsAFollowerAndBelievesNothingThatItHadRead) {
  Lead({});
  const std::string before = LeaseOf(world, "a").incarnation;
  const std::int64_t epoch = node->epoch;
  node->store.closed = "deny/";
  node->host.boot_id = std::string("boot-2");
  ASSERT_TRUE(world.Until([&] { return !node->acting(); }, Duration::Seconds(3)));
  EXPECT_EQ(node->sink.Count("why=restored"), 1U) << testing::PrintToString(node->sink.lines);
  EXPECT_EQ(LeaseOf(world, "a").incarnation, before) << "it releases nothing";
  ASSERT_TRUE(world.Until([&] { return LeaseOf(world, "a").incarnation != before; }));
  world.For(Duration::Seconds(20));
  EXPECT_FALSE(node->acting()) << "who is denied may have changed";
  node->store.closed.clear();
  ASSERT_TRUE(world.Until([&] { return node->acting(); }));
  EXPECT_GT(node->epoch, epoch);
}

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

std::optional<Status> Ask(ProcessWorld& world, const RpcAddress& address, const RpcTls& tls) {
  return Ask(world, {.address = address, .tls = tls, .path = "/debug.Service/Ask"},
             RpcMessage::Of(api::Empty{}));
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

TEST_F(ServerProcessTest, AnAddressThatAnOlderLeaderTookIsTakenBack) {
  const std::string ip = "10.9.9.9";
  Lead({.provider = R"({"kind": "aws", "region": "r", "zone": "z"})",
        .server = R"(, "leader_network": {"ip": "10.9.9.9", "interface_id": "eni-1"})"});
  ASSERT_EQ(world.cloud.LeaderHolder(ip), "s1");
  // A request that was under way when its sender lost the lease.
  sim::SimProvider old(
      world.cloud, node->loop,
      {.process = "s0", .cluster = *ClusterId::Parse("c1"), .shard = *ShardId::Parse("a")});
  const Pending call = old.AssignLeaderNetwork(
      {.epoch = 0, .deadline = node->loop.Now() + Duration::Minutes(1)},
      {.ip = ip, .interface_id = "eni-1"}, [](const ProviderResult<void>&) {});
  ASSERT_TRUE(world.Until([&] { return world.cloud.LeaderHolder(ip) == "s0"; }));
  EXPECT_TRUE(
      world.Until([&] { return world.cloud.LeaderHolder(ip) == "s1"; }, Duration::Minutes(5)));
}

// What it sent when it last gave up the lease arrives when it leads again.
TEST_F(ServerProcessTest, L8_F8_AnAddressThatWasReleasedLateIsTakenBackSoon) {
  const std::string ip = "10.9.9.9";
  Lead({.provider = R"({"kind": "aws", "region": "r", "zone": "z"})",
        .server = R"(, "leader_network": {"ip": "10.9.9.9", "interface_id": "eni-1"})"});
  world.For(Duration::Minutes(1));
  sim::SimProvider before(
      world.cloud, node->loop,
      {.process = "s1", .cluster = *ClusterId::Parse("c1"), .shard = *ShardId::Parse("a")});
  const Pending call = before.ReleaseLeaderNetwork(
      {.epoch = 0, .deadline = node->loop.Now() + Duration::Minutes(1)},
      {.ip = ip, .interface_id = "eni-1"}, [](const ProviderResult<void>&) {});
  ASSERT_TRUE(world.Until([&] { return world.cloud.LeaderHolder(ip).empty(); }));
  EXPECT_TRUE(
      world.Until([&] { return world.cloud.LeaderHolder(ip) == "s1"; }, Duration::Seconds(16)));
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

TEST_F(ServerProcessTest, WhatASweepHasReadAndIsNotDueIsNotReadAgain) {
  const std::string renewed = "operator/default." + std::string(32, 'a') + ".json";
  world.Put(renewed, OperatorText(ProcessStart() + Duration::Days(31)));
  world.Put("operator/default." + std::string(32, 'b') + ".json", "not a record");
  world.Put("operator-nonce/" + std::string(64, 'a') + ".pem", "key");
  // Of now: its name tells that it stays.
  world.Put("certlog/b/default.20231114221320000.new.json", "not even read");
  Lead({.server = R"(, "garbage_collection": {"interval": "30s"})"});
  const auto reads = [&] {
    return world.bucket.Count(sim::SimMethod::kGet, "operator") +
           world.bucket.Count(sim::SimMethod::kGet, "operator-nonce") +
           world.bucket.Count(sim::SimMethod::kGet, "certlog");
  };
  // Two of them for the rows of the cache, once.
  ASSERT_TRUE(world.Until([&] { return reads() == 5; }, Duration::Minutes(2)));
  world.For(Duration::Minutes(30));
  EXPECT_EQ(reads(), 5U);
  world.Put(renewed, OperatorText(ProcessStart() + Duration::Days(62)));
  world.For(Duration::Minutes(10));
  EXPECT_EQ(reads(), 6U) << "what has changed is looked at";
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

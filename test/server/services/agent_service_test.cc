// The agent's side of the services: health streams, their limits, what agents may say, and when an
// identity loses its streams.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/deny_list.h"
#include "test/server/services/services_world.h"

namespace nstance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const RpcMetadata kRenews = {{.name = "nstance-features", .value = "renew"}};

class AgentServiceTest : public testing::Test {
 public:
  // A stream that has carried its first report.
  ClientCallPtr Health(const JoinedAgent& who) {
    ClientCallPtr call = world.Open(who.tls, api::kSubmitHealthReport.path, {.metadata = kRenews});
    EXPECT_TRUE(call->connected);
    Send(*call, Report(who));
    world.Settle();
    return call;
  }
  api::HealthReportRequest Report(const JoinedAgent& who) {
    return {.version = "1.0", .instance_id = who.id.text(), .count = ++count};
  }
  static void Send(ClientCall& call, api::HealthReportRequest report) {
    call.call->Send(RpcMessage::Of(std::move(report)));
  }
  api::Instance Detail(const JoinedAgent& who) {
    const auto answer = world.Call(world.Operator(who.tenant), api::kGetInstanceStatus,
                                   {.instance_id = who.id.text()});
    EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
    return *answer->instance;
  }

  ServicesWorld world;
  JoinedAgent agent = world.JoinNew(kProd);
  std::int64_t count = 0;
};

TEST_F(AgentServiceTest, AReportMakesTheInstanceHealthyAndTheStreamsEndDoesNot) {
  const ClientCallPtr call = Health(agent);
  EXPECT_FALSE(call->end.has_value());
  EXPECT_EQ(Detail(agent).health, "healthy");
  EXPECT_EQ(Detail(agent).agent_version, "1.0");
  call->call->HalfClose();
  ASSERT_TRUE(world.Until([&] { return call->end.has_value(); }));
  EXPECT_TRUE(call->good());
  EXPECT_EQ(Detail(agent).health, "disconnected");
}

TEST_F(AgentServiceTest, BI62_AReportInTheNameOfAnotherEndsTheStream) {
  const JoinedAgent other = world.JoinNew(kProd);
  const ClientCallPtr call = Health(agent);
  const auto before = world.Objects();
  Send(*call, Report(other));
  ASSERT_TRUE(world.Until([&] { return call->end.has_value(); }));
  EXPECT_EQ(call->code(), Code::kPermissionDenied);
  EXPECT_EQ(call->end->error().message, "instance ID mismatch");
  EXPECT_FALSE(Detail(other).last_seen.has_value());
  EXPECT_EQ(world.Metric("bad_input_total", "instance_id"), 1);
  EXPECT_EQ(world.Objects(), before);
}

TEST_F(AgentServiceTest, BI63_AReportAboveTheLimitIsRefused) {
  for (int kind = 0; kind < 6; ++kind) {
    const ClientCallPtr call = Health(agent);
    api::HealthReportRequest report = Report(agent);
    if (kind == 0) report.version = std::string(std::size_t{5} << 20U, 'v');
    if (kind == 1) report.version = std::string(300'000, 'v');
    if (kind == 2) report.files[std::string(std::size_t{1} << 20U, 'f')] = {};
    if (kind == 3) report.metrics.emplace().cpu_core_usage.assign(1'000'000, 1.0);
    if (kind == 4) {
      for (int i = 0; i < 30'000; ++i) report.files[std::to_string(i)] = {};
    }
    if (kind == 5) report.metrics.emplace().cpu_core_usage.assign(40'000, 1.0);
    Send(*call, std::move(report));
    world.Settle();
    // The client's own limit is 4 MiB: those are not even sent. What the server says to a client
    // that has none is in RpcAbuseTest.BI63, and that they could not be decoded in RoundTrip.BI63.
    if (kind == 0 || kind == 3) {
      EXPECT_FALSE(call->end.has_value());
      continue;
    }
    ASSERT_TRUE(call->end.has_value()) << kind;
    EXPECT_EQ(call->code(), Code::kResourceExhausted) << call->end->error().ToString();
  }
}

TEST_F(AgentServiceTest, BI64_BI65_NumbersThatCannotBeCostNothing) {
  const ClientCallPtr call = Health(agent);
  const auto before = world.Objects();
  const std::size_t machines = world.cloud.Vms().size();
  const auto shown = [&] {
    api::Instance detail = Detail(agent);
    detail.last_seen.reset();
    return detail;
  };
  const api::Instance instance = shown();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::uint64_t counter = 1'000'000'000'000;
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 1e308, -5.0}) {
    api::HealthReportRequest report = Report(agent);
    report.metrics = api::Metrics{.cpu_usage = value,
                                  .cpu_core_usage = {value, value},
                                  .memory_usage = value,
                                  .network_interface = api::InterfaceMetrics{.rx_bytes = counter,
                                                                             .tx_bytes = counter,
                                                                             .rx_packets = counter,
                                                                             .tx_drops = counter},
                                  .ebpf_counters = {{0, 1}, {70'000, 1}},
                                  .conntrack_count = 10,
                                  .conntrack_max = 5};
    report.one_minute = report.metrics;
    Send(*call, std::move(report));
    world.For(Duration::Seconds(2));
    counter /= 1'000;  // Counters of an interface only rise.
  }
  EXPECT_FALSE(call->end.has_value());
  EXPECT_EQ(Detail(agent).health, "healthy");
  EXPECT_EQ(shown(), instance) << "as if they were absent";
  EXPECT_EQ(world.Objects(), before);
  EXPECT_EQ(world.cloud.Vms().size(), machines);
}

TEST_F(AgentServiceTest, BI65_AHundredThousandPortsAreRefused) {
  const ClientCallPtr call = Health(agent);
  api::HealthReportRequest report = Report(agent);
  report.metrics.emplace();
  for (std::uint32_t port = 0; port < 100'000; ++port) report.metrics->ebpf_counters[port] = 1;
  Send(*call, std::move(report));
  ASSERT_TRUE(world.Until([&] { return call->end.has_value(); }));
  EXPECT_THAT(*call->code(), testing::AnyOf(Code::kResourceExhausted, Code::kInvalidArgument));
}

TEST_F(AgentServiceTest, BI66_TheAgentsClockDoesNotCount) {
  const ClientCallPtr call = Health(agent);
  for (const char* when : {"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"}) {
    api::HealthReportRequest report = Report(agent);
    report.timestamp = *ParseTimestamp(when);
    report.booted_at = report.timestamp;
    report.agent_started_at = report.timestamp;
    Send(*call, std::move(report));
    world.For(Duration::Seconds(2));
    const api::Instance detail = Detail(agent);
    EXPECT_EQ(detail.health, "healthy");
    EXPECT_LT(world.now() - *detail.last_seen, Duration::Seconds(10)) << "dated by the server";
  }
}

TEST_F(AgentServiceTest, BI67_CountersThatGoBackAreCountedAndAccepted) {
  const ClientCallPtr call = Health(agent);
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::int64_t>::max(), std::int64_t{1}}) {
    api::HealthReportRequest report = Report(agent);
    report.count = value;
    Send(*call, std::move(report));
    world.For(Duration::Seconds(2));
  }
  EXPECT_FALSE(call->end.has_value());
  EXPECT_EQ(world.Metric("bad_input_total", "health_seq_anomaly"), 4);
  EXPECT_THAT(world.alarms, ElementsAre("health_seq_anomaly")) << "once per stream";
  EXPECT_EQ(Detail(agent).health, "healthy");
}

TEST_F(AgentServiceTest, BI68_LongAndStrangeVersionsAreCutAndEscaped) {
  const ClientCallPtr call = Health(agent);
  api::HealthReportRequest report = Report(agent);
  report.version = std::string(std::size_t{64} * 1024, 'v');
  Send(*call, report);
  world.For(Duration::Seconds(2));
  EXPECT_FALSE(call->end.has_value());
  EXPECT_LE(Detail(agent).agent_version.size(), 256U);
  report = Report(agent);
  report.version = "1.0\x1b[2J\n";
  Send(*call, report);
  world.For(Duration::Seconds(2));
  EXPECT_FALSE(Detail(agent).agent_version.contains('\x1b'));
  for (const std::string& line : world.sink.lines) EXPECT_FALSE(line.contains('\x1b'));
}

TEST_F(AgentServiceTest, BI68_EscapesInErrorsReachNoTerminal) {
  const ClientCallPtr errors = world.Watch(world.Operator(kProd), api::kWatchErrors);
  const ClientCallPtr events = world.Watch(world.Operator(kProd), api::kWatchEvents);
  const ClientCallPtr call = Health(agent);
  const std::string escapes = "\x1b]0;owned\x07\x1b[2J\r\n";
  api::HealthReportRequest report = Report(agent);
  report.uptime = escapes;
  report.config_hash = escapes;
  report.files[escapes].status = escapes;
  report.files["node.env"].status = escapes;
  report.metrics = api::Metrics{
      .network_interface_error = escapes, .ebpf_error = escapes, .conntrack_error = escapes};
  report.termination_notice = api::TerminationNotice{.action = escapes};
  Send(*call, report);
  world.For(Duration::Seconds(2));
  EXPECT_FALSE(call->end.has_value());
  EXPECT_EQ(Detail(agent).health, "healthy");
  EXPECT_EQ(Detail(agent).reason.find('\x1b'), std::string::npos);
  for (const std::string& line : world.sink.lines) EXPECT_FALSE(line.contains('\x1b')) << line;
  for (const api::ErrorEvent& event : errors->Received<api::ErrorEvent>()) {
    EXPECT_FALSE(event.error.contains('\x1b')) << event.error;
  }
  for (const api::Event& event : events->Received<api::Event>()) {
    EXPECT_FALSE(event.message.contains('\x1b')) << event.message;
  }
  for (const auto& [key, bytes] : world.Objects()) EXPECT_FALSE(bytes.contains('\x1b')) << key;
}

TEST_F(AgentServiceTest, BI69_AHashThatIsNoneOrAnotherGroupsChangesNothing) {
  const ClientCallPtr call = Health(agent);
  ASSERT_TRUE(world.Call(world.Operator(kProd), api::kUpsertGroup,
                         {.key = "web",
                          .config = api::GroupConfig{
                              .template_name = "t", .size = 0, .vars = {{"GREETING", "bye"}}}}));
  world.Settle();
  const auto before = world.Objects();
  const GroupsRef& groups = world.leader->fleet()->groups();
  const MergedGroup* own = groups->Find(kProd, *GroupKey::Parse("workers"));
  const MergedGroup* other = groups->Find(kProd, *GroupKey::Parse("web"));
  ASSERT_NE(own, nullptr);
  ASSERT_NE(other, nullptr);
  ASSERT_NE(own->runtime_hash, other->runtime_hash);
  for (const std::string& hash :
       {std::string("no hash"), std::string(1'000, 'f'), other->runtime_hash}) {
    api::HealthReportRequest report = Report(agent);
    report.config_hash = hash;
    Send(*call, std::move(report));
    world.For(Duration::Seconds(2));
  }
  EXPECT_FALSE(call->end.has_value());
  EXPECT_EQ(world.Objects(), before);
  EXPECT_EQ(Detail(agent).health, "healthy");
}

TEST_F(AgentServiceTest, BI71_TooManyReportsEndTheStreamAndABurstIsMerged) {
  const ClientCallPtr burst = Health(agent);
  for (int i = 0; i < 50; ++i) {
    api::HealthReportRequest report = Report(agent);
    report.version = "2." + std::to_string(i);
    Send(*burst, std::move(report));
    if (i % 5 == 4) world.For(Duration::Milliseconds(10));  // The client's queue is bounded, too.
  }
  world.Settle();
  EXPECT_FALSE(burst->end.has_value());
  world.For(Duration::Seconds(2));
  EXPECT_EQ(Detail(agent).agent_version, "2.49") << "the latest of a burst counts";
  EXPECT_GT(world.Metric("limit_hits_total", "health_report_rate"), 0);
  for (int i = 0; i < 150 && !burst->end.has_value(); ++i) {
    Send(*burst, Report(agent));
    if (i % 5 == 4) world.For(Duration::Milliseconds(10));
  }
  ASSERT_TRUE(world.Until([&] { return burst->end.has_value(); }));
  EXPECT_EQ(burst->code(), Code::kResourceExhausted);
  EXPECT_EQ(world.Metric("limit_hits_total", "health_reports"), 1);
}

TEST_F(AgentServiceTest, BI71_OfManyHealthStreamsOneIsLeft) {
  std::vector<ClientCallPtr> calls;
  for (int i = 0; i < 100; ++i) calls.push_back(Health(agent));
  int open = 0;
  for (const ClientCallPtr& call : calls) {
    if (!call->end.has_value()) ++open;
  }
  EXPECT_EQ(open, 1);
  EXPECT_FALSE(calls.back()->end.has_value());
  EXPECT_EQ(calls.front()->code(), Code::kAborted);
  EXPECT_EQ(Detail(agent).health, "healthy") << "the end of an older stream is no disconnect";
}

TEST_F(AgentServiceTest, ANewerStreamWithAnOlderCertificateIsAnAlarm) {
  const auto key = world.NewKey();
  const auto renewed =
      world.Call(agent.tls, api::kAgentRenewCertificate,
                 {.public_key_pem = key->public_key().ToPem()}, {.metadata = kRenews});
  ASSERT_TRUE(renewed.has_value()) << renewed.error().ToString();
  JoinedAgent after = agent;
  after.tls = world.WithCertificate(renewed->client_certificate_pem, key);
  const ClientCallPtr errors = world.Watch(world.Operator(kProd), api::kWatchErrors);
  const ClientCallPtr older = Health(agent);
  const ClientCallPtr newer = Health(after);
  EXPECT_EQ(older->code(), Code::kAborted);
  EXPECT_THAT(world.alarms, IsEmpty()) << "that is how a renewal goes";
  newer->channel->Close();
  older->channel->Close();  // An agent has two connections at most.
  world.Settle();
  const ClientCallPtr again = Health(agent);
  EXPECT_THAT(world.alarms, IsEmpty()) << "there was no other stream";
  const ClientCallPtr good = Health(after);
  again->channel->Close();
  world.Settle();
  const ClientCallPtr copy = Health(agent);
  EXPECT_EQ(good->code(), Code::kAborted) << "the newest wins all the same";
  EXPECT_FALSE(copy->end.has_value());
  EXPECT_THAT(world.alarms, ElementsAre("older_certificate"));
  const auto told = errors->Received<api::ErrorEvent>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].instance_id, agent.id.text());
  EXPECT_TRUE(told[0].error.starts_with("alarm older_certificate: ")) << told[0].error;
}

TEST_F(AgentServiceTest, AnAlarmIsToldToItsTenantAndToNobodyElse) {
  const ClientCallPtr own = world.Watch(world.Operator(kProd), api::kWatchErrors);
  const ClientCallPtr events = world.Watch(world.Operator(kProd), api::kWatchEvents);
  const ClientCallPtr foreign = world.Watch(world.Operator(kDev), api::kWatchErrors);
  const ClientCallPtr call = Health(agent);
  for (int i = 0; i < 3; ++i) {
    api::HealthReportRequest report = Report(agent);
    report.count = 1;
    Send(*call, std::move(report));
    world.For(Duration::Seconds(2));
  }
  const auto told = own->Received<api::ErrorEvent>();
  ASSERT_EQ(told.size(), 1U) << "once per stream";
  EXPECT_EQ(told[0].instance_id, agent.id.text());
  EXPECT_EQ(told[0].group, "workers");
  EXPECT_EQ(told[0].error, "alarm health_seq_anomaly: its reports count 1 after 1");
  EXPECT_THAT(foreign->messages, IsEmpty());
  int seen = 0;
  for (const api::Event& event : events->Received<api::Event>()) {
    if (event.type == "error" && event.message == told[0].error) ++seen;
  }
  EXPECT_EQ(seen, 1);
}

TEST_F(AgentServiceTest, ANewerStreamEndsTheOlderOneAsTheAgentCanBearIt) {
  const ClientCallPtr files = world.Watch(agent.tls, api::kReceiveFiles, {.metadata = kRenews});
  const ClientCallPtr newer = world.Watch(agent.tls, api::kReceiveFiles, {.metadata = kRenews});
  EXPECT_EQ(files->code(), Code::kAborted);
  files->channel->Close();  // An agent has two connections at most.
  // An agent that announced nothing would exit on an error: its streams end well, or stay.
  const ClientCallPtr legacy = world.Watch(agent.tls, api::kReceiveFiles);
  EXPECT_TRUE(newer->good());
  EXPECT_FALSE(legacy->end.has_value());
  const JoinedAgent other = world.JoinNew(kProd);
  const ClientCallPtr first = world.Watch(other.tls, api::kReceiveKeyRequests);
  const ClientCallPtr second = world.Watch(other.tls, api::kReceiveKeyRequests);
  EXPECT_FALSE(first->end.has_value());
  EXPECT_FALSE(second->end.has_value());
}

// Both have their whole request with its first message: their clients are half-closed and read on.
TEST_F(AgentServiceTest, BI74_AHalfClosedClientThatReadsOnIsEndedByKeepaliveOnceItIsSilent) {
  const ClientCallPtr files = world.Watch(agent.tls, api::kReceiveFiles, {.metadata = kRenews});
  const ClientCallPtr keys =
      world.Watch(agent.tls, api::kReceiveKeyRequests, {.metadata = kRenews});
  files->call->HalfClose();  // Once more changes nothing.
  world.For(Duration::Minutes(5));
  const auto before = world.Objects();
  EXPECT_FALSE(files->end.has_value()) << "it answers pings";
  EXPECT_FALSE(keys->end.has_value());
  const RpcIdentity who = {.role = crypto::Role::kAgent, .id = agent.id.text()};
  EXPECT_TRUE(world.rpc.HasStreamOf(who));
  world.network.Cut("client", "server");
  world.For(Duration::Seconds(16));
  EXPECT_FALSE(world.rpc.HasStreamOf(who));
  EXPECT_EQ(world.Objects(), before);
  world.network.HealAll();
}

TEST_F(AgentServiceTest, BI75_AnInstanceThatIsDeletedLosesItsStreamsAndGetsNoNewOnes) {
  const ClientCallPtr health = Health(agent);
  const ClientCallPtr files = world.Watch(agent.tls, api::kReceiveFiles, {.metadata = kRenews});
  const auto answer =
      world.Call(world.Operator(kProd), api::kDeleteInstance, {.instance_id = agent.id.text()});
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, "deleting");
  world.Settle();
  EXPECT_EQ(health->code(), Code::kPermissionDenied);
  EXPECT_EQ(files->code(), Code::kPermissionDenied);
  for (int i = 0; i < 2; ++i) {  // While it is deleting, and when it is gone.
    EXPECT_EQ(world.Watch(agent.tls, api::kReceiveFiles)->code(), Code::kPermissionDenied);
    EXPECT_EQ(world.Watch(agent.tls, api::kReceiveKeyRequests)->code(), Code::kPermissionDenied);
    const auto renewal = world.Call(agent.tls, api::kAgentRenewCertificate,
                                    {.public_key_pem = agent.key->public_key().ToPem()});
    EXPECT_EQ(renewal.error().code, Code::kPermissionDenied);
    ASSERT_TRUE(
        world.Until([&] { return world.Record(kProd, agent.id).phase == InstancePhase::kGone; }));
  }
}

TEST_F(AgentServiceTest, BI48_ADeniedIdentityLosesItsStreamsWithinTheInterval) {
  const ClientCallPtr health = Health(agent);
  const RpcTls ops = world.Operator(kProd);
  const ClientCallPtr watch = world.Watch(ops, api::kWatchGroups);
  DenyList list;
  list.entries.push_back({.tenant = kProd,
                          .identity = agent.id.text(),
                          .reason = "stolen",
                          .denied_at = world.now(),
                          .expires_at = world.now() + Duration::Hours(1)});
  list.entries.push_back({.serial = ops->chain.front().facts().serial.decimal(),
                          .reason = "stolen",
                          .denied_at = world.now(),
                          .expires_at = world.now() + Duration::Hours(1)});
  world.Put("deny/cluster.json", EncodeDenyList(list));
  world.For(Duration::Seconds(12));
  EXPECT_EQ(health->code(), Code::kUnauthenticated);
  EXPECT_EQ(watch->code(), Code::kUnauthenticated);
  EXPECT_EQ(world.Watch(agent.tls, api::kReceiveFiles)->code(), Code::kUnauthenticated);
  EXPECT_EQ(world.Call(ops, api::kListGroups, {}).error().code, Code::kUnauthenticated);
}

TEST_F(AgentServiceTest, AStepDownEndsTheStreamsWithUnavailable) {
  const ClientCallPtr health = Health(agent);
  const ClientCallPtr watch = world.Watch(world.Operator(kProd), api::kWatchGroups);
  world.StepDown();
  world.Settle();
  EXPECT_EQ(health->code(), Code::kUnavailable);
  EXPECT_EQ(watch->code(), Code::kUnavailable);
}

}  // namespace
}  // namespace nstance::test

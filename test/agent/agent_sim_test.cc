// A whole agent in virtual time against a scripted server on the simulated network: joining, losing
// and finding servers, renewing, stopping. Seeds change every order and every jitter.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/version.h"
#include "test/agent/agent_world.h"

namespace nstance::agent::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kJoin = api::kRegisterAgent.path;
constexpr std::string_view kHealth = api::kSubmitHealthReport.path;
constexpr std::string_view kRenew = api::kAgentRenewCertificate.path;

// --- Joining ------------------------------------------------------------------------------------

TEST(AgentSimTest, RegistersOnceOpensItsStreamsAndReports) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world(seed);
    world.StartServer();
    world.StartAgent();
    EXPECT_EQ(world.Ready().status, 503);
    ASSERT_TRUE(world.UntilServing(Duration::Seconds(1))) << "seed " << seed;
    ASSERT_TRUE(world.Until([&] { return !world.server->reports.empty(); }));
    EXPECT_EQ(world.CallsOf(kJoin), 1);
    EXPECT_THAT(world.server->features, ElementsAre("renew,rebind"));
    const auto& join = world.server->registrations.front();
    EXPECT_EQ(join.hostname, "sim-host");
    EXPECT_EQ(join.private_ipv4, "10.0.0.7");
    EXPECT_FALSE(world.disk.files.contains("nonce.jwt"));
    EXPECT_EQ(world.disk.files["identity.crt"], world.record.certificate_pem);
    EXPECT_EQ(world.disk.files["identity.pub"], world.record.key_pem);
    EXPECT_EQ(world.disk.files["config.hash"], "sha256:aa");
    EXPECT_EQ(world.Ready().status, 200);
    EXPECT_EQ(world.agent->Page({.path = "/healthz"}).status, 200);
    EXPECT_EQ(world.agent->Page({.path = "/"}).status, 404);
    EXPECT_FALSE(world.exit_code);
  }
}

TEST(AgentSimTest, SettlesWhenItsStreamHasStayedOpen) {
  World world(1);
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.RunFor(kSettledAfter - Duration::Seconds(1));
  EXPECT_EQ(world.settled, 0);
  // A stream that ends in between does not count.
  world.StopServer();
  world.RunFor(kSettledAfter);
  EXPECT_EQ(world.settled, 0);
  world.StartServer();
  ASSERT_TRUE(world.UntilServing());
  world.RunFor(kSettledAfter + Duration::Seconds(1));
  EXPECT_EQ(world.settled, 1);
  world.RunFor(Duration::Minutes(10));
  EXPECT_EQ(world.settled, 1);
}

TEST(AgentSimTest, ReportsSayWhatTheHostSays) {
  World world(1);
  world.host.uptime = Duration::Hours(26) + Duration::Minutes(3) + Duration::Seconds(4);
  world.host.reading.traffic = agent::TrafficCounters{.rx_bytes = 5};
  world.host.reading.conntrack = Fail(Unavailable("no such file"));
  world.settings.metrics_interface = "eth0";
  world.settings.ebpf = true;
  world.received_disk.files = {{"app.env", "A=1"}, {"write-files.last", "1"}};
  world.received_disk.changed_at = kToday;
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.Until([&] { return world.server && !world.server->reports.empty(); }));
  const api::HealthReportRequest& first = world.server->reports.front();
  EXPECT_EQ(first.version, Version());
  EXPECT_EQ(first.instance_id, crypto::test::kInstance);
  EXPECT_EQ(first.count, 1);
  EXPECT_EQ(first.uptime, "26h3m4s");
  EXPECT_EQ(first.config_hash, "sha256:aa");
  EXPECT_EQ(first.booted_at, Timestamp::FromUnix(1'700'000'000));
  EXPECT_EQ(first.agent_started_at, kToday);
  EXPECT_EQ(first.report_interval, Duration::Seconds(60));
  ASSERT_TRUE(first.metrics);
  EXPECT_EQ(first.metrics->ebpf_error, "not supported");
  EXPECT_EQ(first.metrics->conntrack_error, "no such file");
  EXPECT_EQ(first.metrics->network_interface->rx_bytes, 5U);
  EXPECT_FALSE(first.one_minute);
  EXPECT_FALSE(first.termination_notice);
  ASSERT_EQ(first.files.size(), 1U);
  EXPECT_EQ(std::get<Timestamp>(first.files.at("app.env").status), kToday);
}

TEST(AgentSimTest, ReportsComeEveryIntervalAndCarryFullWindows) {
  World world(2);
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.RunFor(Duration::Minutes(16));
  const auto& reports = world.server->reports;
  ASSERT_GE(reports.size(), 14U);
  ASSERT_LE(reports.size(), 19U);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].count, static_cast<std::int64_t>(i) + 1);
  }
  EXPECT_TRUE(reports.back().fifteen_minutes);
  EXPECT_FALSE(reports[4].five_minutes && reports[4].fifteen_minutes);
}

TEST(AgentSimTest, ANewBootTimeIsReportedAtOnce) {
  World world(3);
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.RunFor(Duration::Seconds(10));
  const std::size_t before = world.server->reports.size();
  world.host.booted_at = Timestamp::FromUnix(1'700'009'999);
  world.RunFor(Duration::Seconds(6));
  ASSERT_EQ(world.server->reports.size(), before + 1);
  EXPECT_EQ(world.server->reports.back().booted_at, Timestamp::FromUnix(1'700'009'999));
}

TEST(AgentSimTest, AnIntervalOfZeroMeansNoReports) {
  World world(3);
  world.settings.report_interval = {};
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.RunFor(Duration::Minutes(10));
  EXPECT_TRUE(world.server->reports.empty());
  EXPECT_EQ(world.Ready().status, 200);
}

TEST(AgentSimTest, ALostAnswerIsAskedForAgainWithTheSameKey) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world(seed);
    world.script.lose_registrations = 3;
    world.StartServer();
    world.StartAgent();
    ASSERT_TRUE(world.UntilServing()) << "seed " << seed;
    EXPECT_EQ(world.CallsOf(kJoin), 4);
    EXPECT_EQ(world.server->registered_keys.size(), 1U);
    EXPECT_EQ(world.record.generation, 1);
    EXPECT_FALSE(world.record.nonce_reuse);
  }
}

TEST(AgentSimTest, AnExpiredTokenIsTriedOnceAndEndsWithThree) {
  World world(1);
  world.disk.files["nonce.jwt"] = world.cluster.Nonce(Duration::Minutes(-5));
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.Until([&] { return world.exit_code.has_value(); }));
  EXPECT_EQ(world.exit_code, kExitCannotJoin);
  EXPECT_EQ(world.CallsOf(kJoin), 1);
}

TEST(AgentSimTest, WithoutAServerItTriesUntilTheTokenExpires) {
  World world(1);
  world.StartAgent();
  world.RunFor(Duration::Minutes(10) - Duration::Seconds(1));
  EXPECT_FALSE(world.exit_code);
  EXPECT_THAT(world.Ready().body, HasSubstr("not registered: "));
  world.RunFor(Duration::Seconds(11));
  EXPECT_EQ(world.exit_code, kExitCannotJoin);
}

TEST(AgentSimTest, EveryRefusalIsTriedAgainUntilTheServerChangesItsMind) {
  for (const Code code : {Code::kUnavailable, Code::kUnauthenticated, Code::kInvalidArgument,
                          Code::kPermissionDenied, Code::kInternal, Code::kUnimplemented}) {
    World world(5);
    world.script.refuse.emplace(kJoin, Error{.code = code, .message = "not now"});
    world.StartServer();
    world.StartAgent();
    world.RunFor(Duration::Minutes(3));
    EXPECT_FALSE(world.exit_code) << CodeName(code);
    EXPECT_GE(world.CallsOf(kJoin), 3) << CodeName(code);
    EXPECT_THAT(world.Ready().body, HasSubstr("not now"));
    world.server->script.refuse.clear();
    EXPECT_TRUE(world.UntilServing()) << CodeName(code);
  }
}

TEST(AgentSimTest, AnAnswerThatIsNotOurCertificateIsNotKept) {
  World world(5);
  world.script.answer_instead = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  world.StartServer();
  world.StartAgent();
  world.RunFor(Duration::Minutes(1));
  EXPECT_FALSE(world.exit_code);
  EXPECT_FALSE(world.disk.files.contains("identity.crt"));
  world.server->script.answer_instead.reset();
  EXPECT_TRUE(world.UntilServing());
}

TEST(AgentSimTest, AHostNameThatTheServerWouldRefuseIsNotTold) {
  World world(5);
  world.host.names.hostname = "my_host";
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  EXPECT_EQ(world.server->registrations.front().hostname, "");
}

// --- Starting with what is there ----------------------------------------------------------------

TEST(AgentSimTest, ARestartSkipsRegistrationAndRemovesALeftNonce) {
  World world(6);
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.StopAgent();
  world.disk.files["nonce.jwt"] = world.cluster.Nonce();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  EXPECT_EQ(world.CallsOf(kJoin), 1);
  EXPECT_FALSE(world.disk.files.contains("nonce.jwt"));
}

TEST(AgentSimTest, WhatCannotBeUsedEndsWithItsCode) {
  struct Row {
    std::string name;
    std::function<void(World&)> change;
    int code;
  };
  const std::vector<Row> rows = {
      {"no roots", [](World& w) { w.disk.files.erase("ca.crt"); }, kExitUnusable},
      {"bad roots", [](World& w) { w.disk.files["ca.crt"] = "hello"; }, kExitUnusable},
      {"no nonce", [](World& w) { w.disk.files.erase("nonce.jwt"); }, kExitCannotJoin},
      {"bad nonce", [](World& w) { w.disk.files["nonce.jwt"] = "a.b.c"; }, kExitCannotJoin},
      {"huge nonce", [](World& w) { w.disk.files["nonce.jwt"] = std::string(5'000, 'a'); },
       kExitCannotJoin},
      {"nonce of another",
       [](World& w) { w.settings.instance = Puidv7Generator().Next("knc", kToday, {}); },
       kExitCannotJoin},
      {"bad key", [](World& w) { w.disk.files["identity.key"] = "junk"; }, kExitUnusable},
      {"certificate without key", [](World& w) { w.disk.files["identity.crt"] = "x"; },
       kExitUnusable},
      {"full disk", [](World& w) { w.disk.refuse = Unavailable("no space"); }, kExitUnusable},
  };
  for (const Row& row : rows) {
    World world(7);
    row.change(world);
    world.StartServer();
    world.StartAgent();
    EXPECT_TRUE(world.Until([&] { return world.exit_code.has_value(); })) << row.name;
    EXPECT_EQ(world.exit_code, row.code) << row.name;
    EXPECT_EQ(world.CallsOf(kJoin), 0) << row.name;
  }
}

TEST(AgentSimTest, APublicKeyAloneOrMissingIsMended) {
  for (const bool alone : {true, false}) {
    World world(8);
    const crypto::PrivateKey key = crypto::test::KeyOf(9);
    if (alone) {
      world.disk.files["identity.pub"] = key.public_key().ToPem();
    } else {
      const crypto::Secret pem = key.ToPem();
      world.disk.files["identity.key"] = std::string(AsText(pem.Reveal()));
    }
    world.StartServer();
    world.StartAgent();
    ASSERT_TRUE(world.UntilServing());
    EXPECT_EQ(world.record.key_pem == key.public_key().ToPem(), !alone);
    EXPECT_EQ(world.disk.files["identity.pub"], world.record.key_pem);
  }
}

// --- Servers that come and go -------------------------------------------------------------------

TEST(AgentSimTest, OutlivesAServerThatIsAwayForLong) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    World world(seed);
    world.StartServer();
    world.StartAgent();
    ASSERT_TRUE(world.UntilServing());
    world.RunFor(Duration::Minutes(5));
    world.StopServer();
    world.RunFor(Duration::Hours(3));
    EXPECT_FALSE(world.exit_code);
    EXPECT_EQ(world.Ready().status, 503);
    EXPECT_THAT(world.Ready().body, HasSubstr("not connected: "));
    world.StartServer();
    // At most one wait of the late cap, and the connection.
    EXPECT_TRUE(world.UntilServing(Duration::Seconds(46))) << "seed " << seed;
    EXPECT_EQ(world.Ready().status, 200);
  }
}

TEST(AgentSimTest, FollowsAFailOverWithinSeconds) {
  std::vector<Duration> took;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    World world(seed);
    world.StartServer();
    world.StartAgent();
    ASSERT_TRUE(world.UntilServing());
    world.RunFor(Duration::Minutes(2));
    world.StopServer();
    world.RunFor(Duration::Seconds(8));
    const Instant listening = world.scheduler.now();
    world.StartServer();
    ASSERT_TRUE(world.UntilServing(Duration::Seconds(10))) << "seed " << seed;
    took.push_back(world.scheduler.now() - listening);
  }
  std::ranges::sort(took);
  EXPECT_LT(took[took.size() / 2], Duration::Milliseconds(1'500));
  EXPECT_LT(took[took.size() * 99 / 100], Duration::Seconds(4));
}

TEST(AgentSimTest, FindsASilentConnectionByItsPings) {
  World world(4);
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.RunFor(Duration::Minutes(1));
  world.network.Cut("server", "agent");
  world.RunFor(Duration::Seconds(31));
  EXPECT_EQ(world.Ready().status, 503);
  world.network.HealAll();
  EXPECT_TRUE(world.UntilServing(Duration::Seconds(20)));
}

TEST(AgentSimTest, StreamsEndAndBeginByThemselves) {
  World world(5);
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.RunFor(Duration::Minutes(1));
  world.server->End(kHealth, Fail(Unavailable("step-down")));
  EXPECT_EQ(world.server->Open(api::kReceiveFiles.path), 1);
  const std::size_t reports = world.server->reports.size();
  ASSERT_TRUE(world.UntilServing(Duration::Seconds(2)));
  EXPECT_TRUE(
      world.Until([&] { return world.server->reports.size() > reports; }, Duration::Seconds(1)));
  // A clean end is an end as well.
  world.RunFor(Duration::Minutes(1));
  world.server->End(api::kReceiveKeyRequests.path, {});
  EXPECT_TRUE(world.UntilServing(Duration::Seconds(2)));
  EXPECT_EQ(world.CallsOf(api::kReceiveFiles.path), 1);
  EXPECT_EQ(world.CallsOf(kHealth), 2);
}

TEST(AgentSimTest, RefusalsOfAStreamAreTriedAgainSlowlyForEver) {
  for (const Code code : {Code::kUnauthenticated, Code::kPermissionDenied, Code::kUnimplemented}) {
    World world(6);
    for (const std::string_view path :
         {kHealth, api::kReceiveFiles.path, api::kReceiveKeyRequests.path}) {
      world.script.refuse.emplace(path, Error{.code = code, .message = "no"});
    }
    world.StartServer();
    world.StartAgent();
    ASSERT_TRUE(world.Until([&] { return world.server->calls.contains(kHealth); }));
    world.RunFor(Duration::Hours(2));
    EXPECT_FALSE(world.exit_code);
    const int calls = world.CallsOf(kHealth);
    EXPECT_LT(calls, 260) << CodeName(code);
    EXPECT_GT(calls, 15) << CodeName(code);
    EXPECT_TRUE(world.disk.files.contains("identity.crt"));
    if (code == Code::kUnimplemented) {
      EXPECT_EQ(world.sink.Count("stream=health"), 1);
    }
    if (code == Code::kUnauthenticated) {
      EXPECT_LE(world.sink.Count("stream=health"), 3);
    }
    world.server->script.refuse.clear();
    EXPECT_TRUE(world.UntilServing(Duration::Minutes(8))) << CodeName(code);
  }
}

TEST(AgentSimTest, ForeignKeyAndFileMessagesChangeNothing) {
  World world(7);
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  const auto before = world.disk.files;
  world.server->SendKeyRequest({.key_names = {"../../etc/passwd", "etcd"}});
  world.server->SendFile({.filename = "../identity/ca.crt", .content = "junk"});
  world.server->SendFile({.config_hash = "sha256:bb"});
  world.RunFor(Duration::Minutes(2));
  EXPECT_EQ(world.disk.files, before);
  EXPECT_TRUE(world.received_disk.files.empty());
  EXPECT_EQ(world.server->reports.back().config_hash, "sha256:aa");
  EXPECT_TRUE(world.server->AllOpen());
}

// --- Who is at the other end --------------------------------------------------------------------

TEST(AgentSimTest, BI111_AServerThatIsNotWhoItShouldBeIsNotTalkedTo) {
  struct Row {
    std::string name;
    std::function<RpcTls(World&)> tls;
  };
  const std::vector<Row> rows = {
      {"agent role",
       [](World& w) {
         auto key = std::make_shared<const crypto::PrivateKey>(crypto::test::KeyOf(50));
         return w.cluster.Wrap(crypto::test::Must(w.cluster.authority().IssueClient(
                                   crypto::test::Agent(), key->public_key(),
                                   {.serial = w.cluster.NextSerial(),
                                    .issued_at = kToday,
                                    .life = Duration::Hours(24)})),
                               key);
       }},
      {"other cluster",
       [](World& w) {
         Cluster other(kToday, 9);
         RpcTlsMaterial material = *other.ServerTls(std::string(kHost), kToday);
         material.roots = {w.cluster.authority().certificate()};
         return RpcTls(std::make_shared<const RpcTlsMaterial>(std::move(material)));
       }},
      {"expired",
       [](World& w) {
         return w.cluster.ServerTls(std::string(kHost), kToday - Duration::Days(366));
       }},
      {"wrong name", [](World& w) { return w.cluster.ServerTls("another.example", kToday); }}};
  for (const Row& row : rows) {
    World world(8);
    if (row.name == "expired") {
      // Its authority must be as old.
      world.cluster = Cluster(kToday - Duration::Days(400));
      world.disk.files["ca.crt"] = world.cluster.RootPem();
      world.disk.files["nonce.jwt"] = Cluster(kToday).Nonce();
    }
    world.StartServer(row.tls(world));
    world.StartAgent();
    world.RunFor(Duration::Minutes(1));
    EXPECT_TRUE(world.server->calls.empty()) << row.name;
    EXPECT_FALSE(world.exit_code) << row.name;
    world.StopServer();
    world.StartServer(world.cluster.ServerTls(std::string(kHost), kToday));
    EXPECT_TRUE(world.UntilServing()) << row.name;
  }
}

TEST(AgentSimTest, RootsThatWereExchangedAreReadAgain) {
  World world(9);
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  Cluster next(kToday, 5);
  // A bundle of both, and then a server of the new root that still trusts the old one's agents.
  world.disk.files["ca.crt"] = world.cluster.RootPem() + next.RootPem();
  world.StopServer();
  RpcTlsMaterial material = *next.ServerTls(std::string(kHost), kToday);
  material.roots.push_back(world.cluster.authority().certificate());
  world.StartServer(std::make_shared<const RpcTlsMaterial>(std::move(material)));
  EXPECT_TRUE(world.UntilServing());
  EXPECT_EQ(world.sink.Count("ca.crt has changed"), 1);
  // A file that is spoiled later changes nothing.
  world.disk.files["ca.crt"] = "spoiled";
  world.network.BreakConnections("agent", "server");
  EXPECT_TRUE(world.Until([&] { return !world.server->AllOpen(); }));
  EXPECT_TRUE(world.UntilServing());
}

TEST(AgentSimTest, ClocksThatDifferALittleDoNotMatter) {
  for (const Duration skew : {Duration::Seconds(25), Duration::Seconds(-25)}) {
    World world(10);
    world.skew = skew;
    world.StartServer();
    world.StartAgent();
    EXPECT_TRUE(world.UntilServing()) << FormatDuration(skew);
  }
}

TEST(AgentSimTest, AClockThatIsFarAheadStillTriesItsTokenOnce) {
  World world(10);
  world.skew = Duration::Hours(2);
  world.StartServer();
  world.StartAgent();
  // The server's clock decides, and there the token is good.
  EXPECT_TRUE(world.UntilServing());
  EXPECT_EQ(world.CallsOf(kJoin), 1);
}

TEST(AgentSimTest, AClockThatIsFarBehindWaitsForItsCorrection) {
  World world(10);
  world.skew = Duration::Hours(-2);  // The roots and the server's certificate are not valid yet.
  world.StartServer();
  world.StartAgent();
  world.RunFor(Duration::Minutes(3));
  EXPECT_FALSE(world.exit_code);
  EXPECT_EQ(world.CallsOf(kJoin), 0);
  world.agent_loop->JumpWall(Duration::Hours(2));
  EXPECT_TRUE(world.UntilServing());
}

// --- Renewal ------------------------------------------------------------------------------------

// Streams on connections that show the present certificate, and no others.
bool Moved(const World& world) {
  return world.server != nullptr && world.server->AllOpen() &&
         world.server->SerialsOfStreams() == std::set<std::string>{world.record.serial};
}

TEST(AgentSimTest, RenewsWithANewKeyAndMovesItsStreams) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    World world(seed);
    world.StartServer();
    world.StartAgent();
    ASSERT_TRUE(world.UntilServing());
    std::set<std::string> keys = {world.record.key_pem};
    for (int generation = 2; generation <= 4; ++generation) {
      ASSERT_TRUE(
          world.Until([&] { return world.record.generation == generation; }, Duration::Hours(17)))
          << "seed " << seed;
      keys.insert(world.record.key_pem);
      ASSERT_TRUE(world.Until([&] { return Moved(world); }, Duration::Seconds(10)));
      EXPECT_EQ(world.disk.files["identity.crt"], world.record.certificate_pem);
      EXPECT_EQ(world.disk.files["identity.pub"], world.record.key_pem);
      EXPECT_FALSE(world.disk.files.contains("next.key"));
      EXPECT_FALSE(world.disk.files.contains("next.crt"));
    }
    EXPECT_EQ(keys.size(), 4U);
    EXPECT_FALSE(world.record.identity_clone);
    EXPECT_EQ(world.CallsOf(kJoin), 1);
  }
}

TEST(AgentSimTest, ALostRenewalIsAskedForAgainWithTheSameKey) {
  World world(3);
  world.script.lose_renewals = 3;
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  ASSERT_TRUE(world.Until([&] { return world.record.generation == 2; }, Duration::Hours(17)));
  const std::string key = world.record.key_pem;
  ASSERT_TRUE(world.Until([&] { return Moved(world); }, Duration::Minutes(5)));
  EXPECT_EQ(world.record.key_pem, key);
  EXPECT_EQ(world.CallsOf(kRenew), 4);
  EXPECT_FALSE(world.record.identity_clone);
}

TEST(AgentSimTest, ARebindRenewsAtOnce) {
  World world(3);
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.server->SendKeyRequest({.rebind = "claim-1"});
  EXPECT_TRUE(world.Until([&] { return world.record.generation == 2 && Moved(world); },
                          Duration::Seconds(3)));
  EXPECT_FALSE(world.record.identity_clone);
}

TEST(AgentSimTest, AServerThatCannotRenewIsAskedAgainWhenItComesBack) {
  World world(3);
  world.script.refuse.emplace(kRenew, Error{.code = Code::kUnimplemented, .message = "no"});
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.RunFor(Duration::Hours(18));
  EXPECT_EQ(world.CallsOf(kRenew), 1);
  EXPECT_EQ(world.sink.Count("was not renewed"), 1);
  world.script.refuse.clear();
  world.StopServer();
  world.StartServer();
  EXPECT_TRUE(world.Until([&] { return world.record.generation == 2 && Moved(world); },
                          Duration::Minutes(2)));
}

TEST(AgentSimTest, AnExpiredCertificateIsToldAndTriedEveryHalfMinute) {
  World world(3);
  world.script.refuse.emplace(kRenew, Unauthenticated("blocked"));
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.RunFor(Duration::Hours(24) + Duration::Minutes(5));
  EXPECT_FALSE(world.exit_code);
  EXPECT_EQ(world.Ready().status, 503);
  EXPECT_THAT(world.Ready().body, HasSubstr("the certificate expired at "));
  EXPECT_TRUE(world.disk.files.contains("identity.key"));
}

TEST(AgentSimTest, WhateverBreaksDuringRenewalsNobodyTakesItForAClone) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world(seed);
    Prng& chance = world.scheduler.prng();
    world.script.certificate_life = Duration::Hours(1);
    world.StartServer();
    world.StartAgent();
    ASSERT_TRUE(world.UntilServing());
    const Instant end = world.scheduler.now() + Duration::Hours(4);
    while (world.scheduler.now() < end) {
      world.RunFor(Duration::Seconds(chance.Between(1, 600)));
      switch (chance.Below(5)) {
        case 0: world.network.BreakConnections("agent", "server"); break;
        case 1: world.server->script.lose_renewals = 1; break;
        case 2:
          // Not for so long that the certificate ends: then a restart has nothing to show.
          world.disk.refuse = Unavailable("no space");
          world.RunFor(Duration::Seconds(chance.Between(1, 300)));
          world.disk.refuse.reset();
          break;
        case 3:
          world.StopAgent();
          world.StartAgent();
          break;
        default: world.server->SendKeyRequest({.rebind = "claim"});
      }
      ASSERT_FALSE(world.exit_code) << "seed " << seed;
    }
    world.server->script.lose_renewals = 0;
    EXPECT_TRUE(world.Until([&] { return Moved(world); }, Duration::Minutes(10)))
        << "seed " << seed;
    EXPECT_FALSE(world.record.identity_clone) << "seed " << seed;
    EXPECT_GT(world.record.generation, 4) << "seed " << seed;
  }
}

// --- Crashes ------------------------------------------------------------------------------------

// Kills the agent at every change of its disk, from the first start to the second certificate, and
// restarts it on what is left.
TEST(AgentSimTest, AKillAtAnyStepLeavesAnAgentThatComesBack) {
  for (const auto death : {sim::SimAgentDisk::Death::kBefore, sim::SimAgentDisk::Death::kAfter}) {
    std::int64_t changes = 0;
    for (std::int64_t at = 1;; ++at) {
      World world(static_cast<std::uint64_t>(at));
      world.script.certificate_life = Duration::Hours(1);
      world.disk.die_at = at;
      world.disk.death = death;
      world.StartServer();
      world.StartAgent();
      const auto renewed = [&] { return world.record.generation >= 2 && Moved(world); };
      const bool whole =
          !world.Until([&] { return world.disk.dead() || renewed(); }, Duration::Hours(2)) ||
          !world.disk.dead();
      changes = world.disk.changes();
      if (whole) break;
      world.StopAgent();
      world.disk.Revive();
      world.StartAgent();
      ASSERT_TRUE(world.UntilServing()) << "killed at change " << at;
      ASSERT_TRUE(world.Until(renewed, Duration::Hours(2))) << "killed at change " << at;
      EXPECT_FALSE(world.exit_code) << "killed at change " << at;
      EXPECT_FALSE(world.record.nonce_reuse) << "killed at change " << at;
      EXPECT_FALSE(world.record.identity_clone) << "killed at change " << at;
      EXPECT_EQ(world.disk.files["identity.crt"], world.record.certificate_pem);
      EXPECT_EQ(world.disk.files["identity.pub"], world.record.key_pem);
    }
    // key, pub, hash, crt, nonce; next.key, next.crt, key, pub, crt.
    EXPECT_GE(changes, 10);
  }
}

// --- Stopping -----------------------------------------------------------------------------------

TEST(AgentSimTest, StopsWithZeroAfterHalfClosingItsHealthStream) {
  World world(1);
  world.StartServer();
  world.StartAgent();
  ASSERT_TRUE(world.UntilServing());
  world.agent->Stop();
  ASSERT_TRUE(world.Until([&] { return world.exit_code.has_value(); }, Duration::Seconds(2)));
  EXPECT_EQ(world.exit_code, kExitStopped);
  EXPECT_EQ(world.server->half_closes, 1);
}

TEST(AgentSimTest, StopsWithinTwoSecondsWhateverTheServerDoes) {
  for (const bool joined : {true, false}) {
    World world(1);
    if (joined) {
      world.StartServer();
    }
    world.StartAgent();
    if (joined) {
      ASSERT_TRUE(world.UntilServing());
    }
    world.RunFor(Duration::Seconds(5));
    world.network.Cut("server", "agent");
    world.network.Cut("agent", "server");
    world.agent->Stop();
    world.agent->Stop();
    EXPECT_TRUE(world.Until([&] { return world.exit_code.has_value(); }, Duration::Seconds(2)));
    EXPECT_EQ(world.exit_code, kExitStopped);
  }
}

}  // namespace
}  // namespace nstance::agent::test

// Every limit of security.md 7 and 8 that the other files leave out is reached once on real
// sockets, shortened where the real one takes long, and counts in limit_hits_total (I-41).
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crypto/clock_skew.h"
#include "test/adapters/rpc/abuse_fixture.h"

namespace nstance::grpc {
namespace {

using test::AppendFrame;
using test::FrameType;
using test::IdentityOf;
using test::RawClient;
using test::RawFrame;
using test::RawTlsClient;
using test::RawTlsSetup;
using test::Who;
using testing::HasSubstr;

constexpr int kResourceExhausted = 8;
constexpr int kUnavailable = 14;
constexpr int kCalm = 11;

class RpcLimitsTest : public test::AbuseFixture {
 public:
  // The server anew, with limits_ as they are and these rules.
  void Shorten(const std::function<void(RulesOfListeners&)>& change = [](RulesOfListeners&) {}) {
    change(rules_);
    server_.reset();
    Remake();
    agents_ = Open(RpcPort::kAgent);
    operators_ = Open(RpcPort::kOperator);
    strangers_ = Open(RpcPort::kRegistration);
  }

  static std::unique_ptr<RawTlsClient> Connect(const RpcAddress& address, Who who,
                                               const std::string& from = "") {
    auto client =
        std::make_unique<RawTlsClient>(address, RawTlsSetup{.identity = IdentityOf(who)}, from);
    EXPECT_TRUE(client->open());
    client->Write(test::ClientOpening());
    return client;
  }

  // All that was written so far has been read by the server; false when it does not say so in time.
  static bool IsRead(RawTlsClient& client) {
    client.Write(RawFrame{.type = FrameType::kPing, .payload = std::string(8, 'p')});
    return client.ReadUntil([&] {
      return std::ranges::any_of(client.frames(), [](const RawFrame& frame) {
        return frame.type == FrameType::kPing && frame.flags == test::kAck;
      });
    });
  }

  // Joins one after the other, until one is refused; how many were served.
  static int JoinUntilRefused(RawTlsClient& client, const std::string& reason) {
    for (int served = 0; served < 1'000; ++served) {
      const auto stream = static_cast<std::uint32_t>(2 * served + 1);
      client.Request(stream, test::kJoin);
      client.Message(stream, "x");
      const int status = client.StatusOf(stream);
      if (status == 0) continue;
      EXPECT_EQ(status, kResourceExhausted);
      EXPECT_THAT(client.HeaderOf(stream, "grpc-message"), HasSubstr(reason));
      return served;
    }
    return -1;
  }

  // Looks until it has counted, or ten seconds.
  std::uint64_t HitsWithin(const std::string& limit) {
    const Instant end = loop_.Now() + Duration::Seconds(10);
    std::uint64_t hits = LimitHits(limit);
    while (hits == 0 && loop_.Now() < end) hits = LimitHits(limit);
    return hits;
  }

  RpcAddress operators_;
  RpcAddress strangers_;
};

// --- Connections --------------------------------------------------------------------------------

TEST_F(RpcLimitsTest, BI74_AClientThatAnswersNoPingIsClosed) {
  Shorten([](RulesOfListeners& rules) {
    rules.agent.ping_after = Duration::Milliseconds(100);
    rules.agent.ping_limit = Duration::Seconds(1);
  });
  echo_ = false;
  Attack([&] {
    const auto client = Connect(agents_, Who::kAgent);
    client->Request(1, test::kEcho);
    client->Message(1, "x");  // Half-closed; and it would read on.
    EXPECT_TRUE(client->ReadToEnd());
  });
  EXPECT_EQ(LimitHits("rpc_keepalive"), 1U);
}

TEST_F(RpcLimitsTest, AnIdleStrangerIsClosed) {
  Shorten([](RulesOfListeners& rules) { rules.registration.idle_limit = Duration::Seconds(1); });
  Attack([&] {
    const auto client = Connect(strangers_, Who::kNobody);
    client->Request(1, test::kJoin);
    client->Message(1, "x");
    EXPECT_EQ(client->StatusOf(1), 0);
    EXPECT_TRUE(client->ReadToEnd());
  });
  EXPECT_EQ(LimitHits("rpc_idle"), 1U);
}

TEST_F(RpcLimitsTest, AConnectionEndsWithItsCertificate) {
  const auto key = std::make_shared<const crypto::PrivateKey>(crypto::test::KeyOf(62));
  // It has ended, and the tolerance for clocks ends in some seconds.
  const Duration life = Duration::Minutes(10) - crypto::kClockSkew + Duration::Seconds(4);
  const crypto::IssueTerms terms = {.serial = crypto::test::SerialOf(0x62),
                                    .issued_at = loop_.WallNow() - Duration::Minutes(10),
                                    .life = life};
  test::TestClient& client =
      Dial(agents_, test::WithRoots({.chain = {crypto::test::Must(test::AuthorityNow(1).IssueClient(
                                         crypto::test::Agent(), key->public_key(), terms))},
                                     .key = key},
                                    {test::Root()}));
  ASSERT_TRUE(Until([&] { return client.ready(); }));
  const test::TestCall& call = Start(client, test::kEcho);
  ASSERT_TRUE(Until([&] { return call.end.has_value(); }));
  EXPECT_EQ(CodeOf(call), Code::kUnavailable);
  EXPECT_EQ(LimitHits("rpc_certificate_end"), 1U);
}

TEST_F(RpcLimitsTest, WithoutDescriptorsConnectionsWaitAndAreTakenLater) {
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next, 0);
  close(next);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const RawClient client(agents_);  // The last one.
  const std::uint64_t hits = HitsWithin("rpc_descriptors");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(client.connected());
  EXPECT_GT(hits, 0U);
  EXPECT_TRUE(Until([&] { return server_->usage().connections == 1; }));
}

TEST_F(RpcLimitsTest, AFullLineOfHandshakesPausesAcceptAndAllGetIn) {
  Shorten([](RulesOfListeners& rules) {
    rules.agent.max_waiting_us = 1;
    rules.agent.handshakes_per_turn = 1;
  });
  Attack([&] {
    const auto client = Connect(agents_, Who::kAgent);
    EXPECT_TRUE(IsRead(*client));
  });
  EXPECT_GE(LimitHits("rpc_handshake_line"), 2U) << "the neighbour's, and this one's";
}

TEST_F(RpcLimitsTest, ConnectionsOfTheProcessAreBoundedAndATenthIsKeptForTheVerified) {
  limits_.connections = 20;
  Shorten([](RulesOfListeners& rules) { rules.agent.hello_limit = rules.agent.handshake_limit; });
  std::vector<std::unique_ptr<RawClient>> silent;
  Attack([&] {
    for (int i = 0; i < 18; ++i) silent.push_back(std::make_unique<RawClient>(agents_));
    RawClient refused(agents_);
    EXPECT_TRUE(refused.ClosesWithin(10'000));
    EXPECT_FALSE(silent.back()->ClosesWithin(0));
  });
  EXPECT_EQ(LimitHits("connections"), 1U);
  EXPECT_EQ(server_->usage().connections, 19U) << "with the neighbour's";
}

TEST_F(RpcLimitsTest, OfTheConnectionsOfAnAgentTheNewestStay) {
  Shorten();
  Attack([&] {
    const auto oldest = Connect(agents_, Who::kAgent);
    EXPECT_TRUE(IsRead(*oldest));
    const auto older = Connect(agents_, Who::kAgent);
    EXPECT_TRUE(IsRead(*older));
    const auto newest = Connect(agents_, Who::kAgent);
    EXPECT_TRUE(IsRead(*newest));
    EXPECT_TRUE(oldest->ReadToEnd());
    EXPECT_FALSE(older->raw().ClosesWithin(0));
  });
  EXPECT_EQ(LimitHits("agent_connections"), 1U);
}

TEST_F(RpcLimitsTest, ConnectionsOfATenantsOperatorsAreBounded) {
  EXPECT_EQ(AdmissionLimits{}.operator_connections, 64U);
  limits_.operator_connections = 2;
  Shorten();
  Attack([&] {
    const auto first = Connect(operators_, Who::kOperator);
    EXPECT_TRUE(IsRead(*first));
    const auto second = Connect(operators_, Who::kOperator);
    EXPECT_TRUE(IsRead(*second));
    const auto third = Connect(operators_, Who::kOperator);
    EXPECT_TRUE(third->ReadToEnd());
    EXPECT_EQ(third->goaway(), kCalm);
    EXPECT_THAT(third->goaway_text(), HasSubstr("too many connections"));
    EXPECT_FALSE(first->raw().ClosesWithin(0));
  });
  EXPECT_EQ(LimitHits("operator_connections"), 1U);
}

// --- Calls --------------------------------------------------------------------------------------

TEST_F(RpcLimitsTest, StrangersHaveARatePerAddress) {
  EXPECT_EQ(AdmissionLimits{}.calls_per_address, 5U);
  EXPECT_EQ(AdmissionLimits{}.calls_burst, 20U);
  limits_.loopback = AdmissionLimits::Loopback::kLimited;
  limits_.calls_per_address = 1;
  Shorten();
  Attack([&] {
    const auto client = Connect(strangers_, Who::kNobody, "127.0.3.1");
    const int served = JoinUntilRefused(*client, "too many calls from this address");
    EXPECT_GE(served, 20);
    EXPECT_LT(served, 40);
    const auto other = Connect(strangers_, Who::kNobody, "127.0.3.2");
    other->Request(1, test::kJoin);
    other->Message(1, "x");
    EXPECT_EQ(other->StatusOf(1), 0) << "another address has its own";
  });
  EXPECT_EQ(LimitHits("rpc_calls"), 1U);
}

TEST_F(RpcLimitsTest, AllStrangersTogetherHaveARate) {
  EXPECT_EQ(AdmissionLimits{}.calls_total, 400U);
  limits_.calls_total = 5;
  Shorten();
  Attack([&] {
    const auto client = Connect(strangers_, Who::kNobody);
    EXPECT_GE(JoinUntilRefused(*client, "too many registrations"), 5);
  });
  EXPECT_EQ(LimitHits("rpc_calls"), 1U);
}

TEST_F(RpcLimitsTest, RegistrationsInFlightAreBounded) {
  Shorten();
  std::vector<std::unique_ptr<RawTlsClient>> clients;
  Attack([&] {
    for (int i = 0; i < 32; ++i) {
      clients.push_back(Connect(strangers_, Who::kNobody));
      for (const std::uint32_t stream : {1U, 3U, 5U, 7U}) {
        clients.back()->Request(stream, test::kJoin);
        clients.back()->Message(stream, "hang");
      }
      ASSERT_TRUE(IsRead(*clients.back()));
    }
    const auto one_more = Connect(strangers_, Who::kNobody);
    one_more->Request(1, test::kJoin);
    one_more->Message(1, "x");
    EXPECT_EQ(one_more->StatusOf(1), kUnavailable);
    EXPECT_THAT(one_more->HeaderOf(1, "grpc-message"), HasSubstr("128"));
  });
  EXPECT_EQ(LimitHits("rpc_calls"), 1U);
}

TEST_F(RpcLimitsTest, CallsOfAnAgentInFlightAreBounded) {
  Shorten();
  Attack([&] {
    const auto client = Connect(agents_, Who::kAgent);
    for (const std::uint32_t stream : {1U, 3U, 5U}) {
      client->Request(stream, test::kUnary);
      client->Message(stream, "hang");
    }
    EXPECT_EQ(client->StatusOf(5), kResourceExhausted);
    EXPECT_EQ(client->HeaderOf(3, "grpc-status"), "");
  });
  EXPECT_EQ(LimitHits("rpc_calls"), 1U);
}

TEST_F(RpcLimitsTest, BI85_WatchesOfATenantAreBounded) {
  Shorten();
  constexpr std::uint32_t kMany = 1'000;
  constexpr std::uint32_t kAllowed = 32;
  Attack([&] {
    const auto client = Connect(operators_, Who::kOperator);
    for (std::uint32_t i = 0; i < kMany; ++i) {
      client->Request(2 * i + 1, test::kWatch);
      client->Message(2 * i + 1, "x");
      if (i < kAllowed) continue;
      ASSERT_EQ(client->StatusOf(2 * i + 1), kResourceExhausted) << i;
    }
    for (std::uint32_t i = 0; i < kAllowed; ++i) {
      EXPECT_EQ(client->HeaderOf(2 * i + 1, "grpc-status"), "") << i;
    }
  });
  EXPECT_EQ(LimitHits("rpc_calls"), kMany - kAllowed);
}

// --- The loop -----------------------------------------------------------------------------------

TEST_F(RpcLimitsTest, EventsThatTheLoopDoesNotTakeStopTheReading) {
  limits_.agent_connections = 1'000;
  Shorten();
  // Two events for each stream that is opened and reset, and less than 200 resets each. The loop
  // does nothing meanwhile.
  constexpr std::size_t kStreams = 190;
  Bytes flood;
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    AppendFrame(flood, {.type = FrameType::kHeaders,
                        .flags = test::kEndHeaders,
                        .stream = 2 * i + 1,
                        .payload = test::RequestFields(test::kEcho)});
    AppendFrame(
        flood,
        {.type = FrameType::kReset, .stream = 2 * i + 1, .payload = std::string("\0\0\0\x08", 4)});
  }
  std::vector<std::unique_ptr<RawTlsClient>> clients;
  for (int i = 0; i < 60; ++i) clients.push_back(Connect(agents_, Who::kAgent));
  std::size_t opened = 0;
  RawTlsClient* unheard = nullptr;
  for (const auto& client : clients) {
    client->raw().GiveUpAfter(Duration::Seconds(5));
    client->Write(flood);
    opened += kStreams;
    if (IsRead(*client)) continue;
    unheard = client.get();
    break;
  }
  ASSERT_NE(unheard, nullptr);
  EXPECT_TRUE(Until([&] { return handlers_.size() == opened; })) << "none is lost";
  EXPECT_GE(LimitHits("rpc_loop_queue"), 1U);
  EXPECT_TRUE(IsRead(*unheard)) << "it is read on";
}

}  // namespace
}  // namespace nstance::grpc

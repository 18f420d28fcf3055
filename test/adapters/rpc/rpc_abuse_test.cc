// Bad input at the transport, rows BI-51 to BI-61: slow, silent, flooding and lying clients that
// speak TLS and HTTP/2 by hand, beside a neighbour that must not notice.
#include <ctime>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/adapters/rpc/abuse_fixture.h"

namespace nstance::grpc {
namespace {

using test::AppendFrame;
using test::FrameType;
using test::IdentityOf;
using test::LiteralField;
using test::RawClient;
using test::RawFrame;
using test::RawTlsClient;
using test::Who;
using testing::HasSubstr;

constexpr int kInvalidArgument = 3;
constexpr int kDeadlineExceeded = 4;
constexpr int kResourceExhausted = 8;
constexpr int kUnimplemented = 12;
constexpr int kProtocolReset = 101;
constexpr int kCalm = 11;
constexpr std::size_t kMiB = std::size_t{1} << 20U;

class RpcAbuseTest : public test::AbuseFixture {
 public:
  // As an agent that has opened its connection properly.
  void AttackAsAgent(const std::function<void(RawTlsClient&)>& attack) {
    Attack([&] {
      RawTlsClient client(agents_, {.identity = IdentityOf(Who::kAgent)});
      ASSERT_TRUE(client.open());
      client.Write(test::ClientOpening());
      attack(client);
    });
  }

  // The connection ends with this GOAWAY, and the limit is counted once.
  void ExpectEnd(const std::function<void(RawTlsClient&)>& attack, int code,
                 const std::string& limit, const std::string& reason) {
    const std::uint64_t before = LimitHits(limit);
    AttackAsAgent([&](RawTlsClient& client) {
      attack(client);
      EXPECT_TRUE(client.ReadToEnd()) << limit << ": the server did not close";
      EXPECT_EQ(client.goaway(), code) << limit;
      EXPECT_THAT(client.goaway_text(), HasSubstr(reason));
    });
    EXPECT_EQ(LimitHits(limit), before + 1) << limit;
  }

  // Writes until the server has had enough, or `count` times.
  static void Flood(RawTlsClient& client, const RawFrame& frame, int count) {
    for (int i = 0; i < count; ++i) {
      if (!client.Write(frame)) return;
    }
  }

  // Handlers that send whenever they may.
  void Fill() {
    if (!filling_) return;
    for (const auto& handler : handlers_) {
      if (handler->cancelled || handler->call->info().policy->path != test::kEcho) continue;
      while (handler->call->Send(test::Text(std::string(50'000, 'x'))) == RpcSend::kTaken) {
      }
    }
    fill_ = loop_.CallAfter(Duration::Milliseconds(1), [this] { Fill(); });
  }

  void RemakeWith(const std::function<void(ListenerRules&)>& change) {
    for (ListenerRules* rules : {&rules_.registration, &rules_.agent, &rules_.operators}) {
      change(*rules);
    }
    server_.reset();
    Remake();
    agents_ = Open(RpcPort::kAgent);
  }

  bool filling_ = true;
  Pending fill_;
};

// --- Slow and silent ----------------------------------------------------------------------------

TEST_F(RpcAbuseTest, BI51_SlowHandshakesAreClosedAtTheLimitsOfThePort) {
  RemakeWith([](ListenerRules& rules) {
    rules.hello_limit = Duration::Milliseconds(200);
    rules.handshake_limit = Duration::Milliseconds(400);
    rules.request_limit = Duration::Milliseconds(400);
    rules.ping_after = std::nullopt;
  });
  const RpcAddress strangers = Open(RpcPort::kRegistration);
  // The neighbour is at home before and has made its request.
  Attack([] {});
  const std::uint64_t before = LimitHits("rpc_handshake_time");
  const std::uint64_t requests = LimitHits("rpc_request_time");
  Attack([&] {
    const Bytes hello = RawTlsClient::Hello();
    RawClient silent(agents_);
    EXPECT_TRUE(silent.ClosesWithin(10'000));
    RawClient first_byte(agents_);
    first_byte.Write(std::span(hello).first(1));
    EXPECT_TRUE(first_byte.ClosesWithin(10'000));
    // The hello in records of one byte each, slower than the limit.
    RawClient records(agents_);
    bool closed = false;
    for (std::size_t i = 5; i < hello.size() && !closed; ++i) {
      records.Write(Bytes{0x16, 3, 1, 0, 1, hello[i]});
      closed = records.ClosesWithin(5);
    }
    EXPECT_TRUE(closed || records.ClosesWithin(10'000));
    RawClient answered(strangers);  // The server's hello is not answered.
    answered.Write(hello);
    EXPECT_TRUE(answered.ClosesWithin(10'000));
    RawTlsClient no_preface(agents_, {.identity = IdentityOf(Who::kAgent)});
    EXPECT_TRUE(no_preface.ReadToEnd());
    RawTlsClient half_preface(agents_, {.identity = IdentityOf(Who::kAgent)});
    half_preface.Write(AsBytes(test::kPreface.substr(0, 10)));
    EXPECT_TRUE(half_preface.ReadToEnd());
  });
  EXPECT_EQ(LimitHits("rpc_handshake_time"), before + 6);
  Attack([&] {
    RawTlsClient no_request(strangers, {});
    no_request.Write(test::ClientOpening());
    EXPECT_TRUE(no_request.ReadToEnd());
    RawTlsClient half_request(strangers, {});
    half_request.Write(test::ClientOpening());
    half_request.Request(1, test::kJoin);
    half_request.Write(RawFrame{
        .type = FrameType::kData, .stream = 1, .payload = std::string("\0\0\0\0\x10x", 6)});
    EXPECT_TRUE(half_request.ReadToEnd());
  });
  EXPECT_EQ(LimitHits("rpc_request_time"), requests + 2);
}

TEST_F(RpcAbuseTest, BI52_ManySilentConnectionsAreBoundedPerAddressAndInTotal) {
  limits_.loopback = AdmissionLimits::Loopback::kLimited;
  RemakeWith([](ListenerRules& rules) { rules.hello_limit = rules.handshake_limit; });
  Attack([] {});
  std::vector<std::unique_ptr<RawClient>> silent;
  std::size_t most = 0;
  Attack([&] {
    for (int i = 0; i < 15'000; ++i) {
      // First from one address, then from many.
      const std::string from = i < 2'000 ? "127.0.0.1" : "127.0.1." + std::to_string(i % 200 + 1);
      silent.push_back(std::make_unique<RawClient>(agents_, from));
      if (i % 100 == 0) most = std::max(most, server_->usage().connections);
    }
  });
  EXPECT_LE(most, 2'048U + 1'024U) << "those that wait, and what accept has dealt meanwhile";
  EXPECT_GT(LimitHits("rpc_waiting_handshakes_per_address"), 1'000U);
  EXPECT_GT(LimitHits("rpc_waiting_handshakes"), 1'000U);
  silent.clear();
  ASSERT_TRUE(Until([&] { return server_->usage().connections == 1; })) << "the neighbour's";
}

TEST_F(RpcAbuseTest, BI52_StrangersAreBoundedPerAddressAndTheOldestIdleMakesRoom) {
  limits_.loopback = AdmissionLimits::Loopback::kLimited;
  limits_.registration_per_address = 4;
  limits_.registration_connections = 8;
  RemakeWith([](ListenerRules&) {});
  const RpcAddress strangers = Open(RpcPort::kRegistration);
  std::vector<std::unique_ptr<RawTlsClient>> open;
  const auto knock = [&](const std::string& from) {
    open.push_back(std::make_unique<RawTlsClient>(strangers, test::RawTlsSetup{}, from));
    if (!open.back()->open()) return false;
    open.back()->Write(test::ClientOpening());
    return open.back()->ReadUntil([&] { return !open.back()->frames().empty(); });
  };
  Attack([&] {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(knock("127.0.2.1"));
    EXPECT_FALSE(knock("127.0.2.1"));
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(knock("127.0.2.2"));
    EXPECT_TRUE(knock("127.0.2.3")) << "the oldest has made room";
    EXPECT_TRUE(open.front()->ReadToEnd());
  });
  EXPECT_EQ(LimitHits("registration_connections_per_address"), 1U);
  EXPECT_GE(LimitHits("registration_connections"), 1U);
}

// --- Floods -------------------------------------------------------------------------------------

TEST_F(RpcAbuseTest, BI53_RapidResetsEndTheConnection) {
  const std::clock_t before = std::clock();
  ExpectEnd(
      [](RawTlsClient& client) {
        for (std::uint32_t i = 0; i < 1'000'000; ++i) {
          Bytes pair;
          AppendFrame(pair, {.type = FrameType::kHeaders,
                             .flags = test::kEndHeaders,
                             .stream = 2 * i + 1,
                             .payload = test::RequestFields(test::kEcho)});
          AppendFrame(pair, {.type = FrameType::kReset,
                             .stream = 2 * i + 1,
                             .payload = std::string("\0\0\0\x08", 4)});
          if (!client.Write(pair)) return;
        }
      },
      kCalm, "h2_resets", "h2_resets");
  EXPECT_LT((std::clock() - before) / CLOCKS_PER_SEC, 10) << "of CPU, both sides together";
  EXPECT_LT(peak_, 16 * kMiB);
  ASSERT_TRUE(Until([&] { return server_->usage().connections == 1; }));
  EXPECT_EQ(server_->usage().calls, 0U);
}

TEST_F(RpcAbuseTest, BI53_ResetsThatNobodyReadsDoNotPileUp) {
  // Streams above the limit are refused; a client that has not acknowledged it may open them.
  const std::uint64_t before = LimitHits("h2_queued_frames") + LimitHits("h2_resets");
  Attack([&] {
    RawTlsClient client(agents_, {.identity = IdentityOf(Who::kAgent)});
    ASSERT_TRUE(client.open());
    Bytes opening(test::kPreface.begin(), test::kPreface.end());
    AppendFrame(opening, {.type = FrameType::kSettings});
    client.Write(opening);
    for (std::uint32_t i = 0; i < 100'000; ++i) {
      if (!client.Request(2 * i + 1, test::kEcho)) break;
    }
    EXPECT_TRUE(client.ReadToEnd());
  });
  EXPECT_EQ(LimitHits("h2_queued_frames") + LimitHits("h2_resets"), before + 1);
  EXPECT_GT(LimitHits("h2_streams"), 0U);
  EXPECT_LT(peak_, 16 * kMiB);
}

TEST_F(RpcAbuseTest, BI54_ContinuationsHeaderListsAndBombsEndTheConnection) {
  ExpectEnd(
      [](RawTlsClient& client) {
        client.Write(RawFrame{
            .type = FrameType::kHeaders, .stream = 1, .payload = test::RequestFields(test::kEcho)});
        Flood(client,
              {.type = FrameType::kContinuation, .stream = 1, .payload = LiteralField("x", "y")},
              100'000);
      },
      kCalm, "h2_continuations", "");
  // One entry of the table named again and again.
  std::string bomb = test::RequestFields(test::kEcho);
  std::string indexed = LiteralField("x-bomb", std::string(3'900, 'x'));
  indexed[0] = '\x40';
  bomb += indexed + std::string(8'000, '\xbe');
  ExpectEnd(
      [&](RawTlsClient& client) {
        client.Write(RawFrame{
            .type = FrameType::kHeaders, .flags = test::kEndHeaders, .stream = 1, .payload = bomb});
      },
      kCalm, "h2_header_list", "16 KiB");
  // 1 MiB of headers, and 100,000 of them.
  for (const std::string& field :
       {LiteralField("x-long", std::string(15'000, 'x')), LiteralField("x", "")}) {
    std::string block = test::RequestFields(test::kEcho);
    for (int i = 0; i < 100'000 && block.size() < kMiB; ++i) block += field;
    ExpectEnd(
        [&](RawTlsClient& client) {
          FrameType type = FrameType::kHeaders;
          for (std::size_t at = 0; at < block.size(); at += 16'384) {
            const RawFrame part = {.type = type, .stream = 1, .payload = block.substr(at, 16'384)};
            if (!client.Write(part)) return;
            type = FrameType::kContinuation;
          }
        },
        kCalm, "h2_header_list", "16 KiB");
    EXPECT_LT(peak_, 16 * kMiB);
  }
  EXPECT_TRUE(handlers_.empty());
}

TEST_F(RpcAbuseTest, BI54_AFrameAbove16KiBEndsTheConnection) {
  ExpectEnd(
      [](RawTlsClient& client) {
        client.Write(RawFrame{.type = FrameType::kUnknown, .payload = std::string(16'385, 'x')});
      },
      6, "h2_frame_size", "frame above");
}

TEST_F(RpcAbuseTest, BI55_FloodsOfEveryKindEndTheConnection) {
  const RawFrame ping = {.type = FrameType::kPing, .payload = std::string(8, 'x')};
  const RawFrame settings = {.type = FrameType::kSettings};
  const RawFrame priority = {
      .type = FrameType::kPriority, .stream = 3, .payload = std::string(5, '\0')};
  const RawFrame update = {.type = FrameType::kWindowUpdate, .payload = std::string("\0\0\0\1", 4)};
  const auto flood = [](const RawFrame& frame) {
    return [&frame](RawTlsClient& client) { Flood(client, frame, 100'000); };
  };
  ExpectEnd(flood(ping), kCalm, "h2_ping_strikes", "too_many_pings");
  ExpectEnd(flood(settings), kCalm, "h2_settings", "h2_settings");
  ExpectEnd(flood(priority), kCalm, "h2_idle_frames", "h2_idle_frames");
  ExpectEnd(flood(update), kCalm, "h2_window_updates", "h2_window_updates");
  EXPECT_LT(peak_, 16 * kMiB);
  const std::uint64_t before = BadInput("h2_window_update");
  AttackAsAgent([&](RawTlsClient& client) {
    client.Write(RawFrame{.type = FrameType::kWindowUpdate, .payload = std::string(4, 0)});
    EXPECT_TRUE(client.ReadToEnd());
    EXPECT_EQ(client.goaway(), 1);
  });
  EXPECT_EQ(BadInput("h2_window_update"), before + 1);
}

TEST_F(RpcAbuseTest, BI55_KeyUpdatesWithoutDataEndTheConnection) {
  ExpectEnd(
      [](RawTlsClient& client) {
        for (int i = 0; i < 1'000; ++i) {
          if (!client.KeyUpdate()) return;
        }
      },
      kCalm, "tls_key_updates", "tls_key_updates");
}

TEST_F(RpcAbuseTest, BI55_AWindowOfZeroHoldsNoMoreThanAQueueAndIsToldTheEnd) {
  echo_ = false;
  std::atomic<bool> opened = false;
  std::size_t taken = 0;
  Attack([&] {
    RawTlsClient client(agents_, {.identity = IdentityOf(Who::kAgent)});
    ASSERT_TRUE(client.open());
    client.Write(test::ClientOpening());
    client.Write(RawFrame{.type = FrameType::kSettings, .payload = std::string("\0\4\0\0\0\0", 6)});
    client.Request(1, test::kEcho);
    client.Request(3, test::kEcho, LiteralField("grpc-timeout", "300m"));
    loop_.Post([&] { opened = true; });
    EXPECT_EQ(client.StatusOf(3), kDeadlineExceeded) << "told without a window";
    loop_.Post([&] {
      for (const auto& handler : handlers_) {
        if (handler->cancelled || handler->call->info().policy->path != test::kEcho) continue;
        std::size_t of_one = 0;
        while (handler->call->Send(test::Text(std::string(50'000, 'x'))) != RpcSend::kRefused) {
          ++of_one;
        }
        taken = std::max(taken, of_one);
      }
    });
    // The connection itself goes on.
    client.Request(5, "/t.Nobody/Knows");
    EXPECT_EQ(client.StatusOf(5), kUnimplemented);
  });
  EXPECT_LE(taken, kAgentLimits.queue_full / 50'000 + 1);
  EXPECT_LT(peak_, 16 * kMiB);
}

TEST_F(RpcAbuseTest, BI55_AClientThatReadsNothingAtAllIsClosed) {
  RemakeWith([](ListenerRules& rules) { rules.send_stall = Duration::Milliseconds(300); });
  const std::uint64_t before = LimitHits("rpc_send_stall");
  Attack([&] {
    RawTlsClient client(agents_, {.identity = IdentityOf(Who::kAgent)});
    ASSERT_TRUE(client.open());
    client.Write(test::ClientOpening());
    // As much as it likes on every stream, and it reads none of it.
    const std::string most("\x7f\xff\x00\x00", 4);
    client.Write(RawFrame{.type = FrameType::kSettings, .payload = std::string("\0\4", 2) + most});
    client.Write(RawFrame{.type = FrameType::kWindowUpdate, .payload = most});
    for (std::uint32_t i = 0; i < 8; ++i) client.Request(2 * i + 1, test::kEcho);
    loop_.Post([&] { Fill(); });
    EXPECT_TRUE(client.raw().HangsUpWithin(60'000));
  });
  filling_ = false;
  EXPECT_EQ(LimitHits("rpc_send_stall"), before + 1);
  ASSERT_TRUE(Until([&] { return server_->usage().connections == 1; }));
}

// --- Messages -----------------------------------------------------------------------------------

TEST_F(RpcAbuseTest, BI56_LengthsAreJudgedBeforeTheyAreBelieved) {
  const std::uint64_t before = LimitHits("grpc_message");
  AttackAsAgent([&](RawTlsClient& client) {
    client.Request(1, test::kEcho);
    client.Write(RawFrame{
        .type = FrameType::kData, .stream = 1, .payload = std::string("\0\xff\xff\xff\xff", 5)});
    EXPECT_EQ(client.StatusOf(1), kResourceExhausted);
    client.Request(3, test::kEcho);
    client.Write(
        RawFrame{.type = FrameType::kData, .stream = 3, .payload = std::string("\0\0\4\0\1", 5)});
    EXPECT_EQ(client.StatusOf(3), kResourceExhausted) << "one above the limit of 256 KiB";
    EXPECT_FALSE(client.ended());
  });
  EXPECT_EQ(LimitHits("grpc_message"), before + 2);
  EXPECT_LT(peak_, 4 * kMiB);
}

TEST_F(RpcAbuseTest, BI63_AReportOfMebibytesIsRefusedByItsLength) {
  const std::uint64_t before = LimitHits("grpc_message");
  AttackAsAgent([&](RawTlsClient& client) {
    std::uint32_t stream = 1;
    // 5 MiB; a million files, at two bytes each and more; a million cores; a name of a MiB.
    for (const std::size_t length :
         {5 * kMiB, std::size_t{2'000'000}, std::size_t{8'000'000}, kMiB}) {
      std::string payload(1, '\0');
      for (int shift = 24; shift >= 0; shift -= 8) payload += static_cast<char>(length >> shift);
      client.Request(stream, test::kEcho);
      client.Write(RawFrame{.type = FrameType::kData,
                            .stream = stream,
                            .payload = payload + std::string(10'000, 'x')});
      EXPECT_EQ(client.StatusOf(stream), kResourceExhausted) << length;
      stream += 2;
    }
  });
  EXPECT_EQ(LimitHits("grpc_message"), before + 4);
  for (const auto& handler : handlers_) {
    if (handler->call->info().policy->path != test::kEcho) continue;
    EXPECT_EQ(handler->bytes, 0U);
  }
  EXPECT_LT(peak_, 4 * kMiB);
}

TEST_F(RpcAbuseTest, BI56_AMessageInFramesOfOneByteCostsNoMoreThanTwiceItsSize) {
  echo_ = false;
  AttackAsAgent([&](RawTlsClient& client) {
    client.Request(1, test::kEcho);
    constexpr std::size_t kSize = 60'000;  // Below the stream's window.
    Bytes frames;
    const std::string head = std::string("\0\0\0\xea\x60", 5);
    for (std::size_t i = 0; i < kSize + 5; ++i) {
      AppendFrame(frames, {.type = FrameType::kData,
                           .stream = 1,
                           .payload = std::string(1, i < 5 ? head[i] : 'y')});
      if (frames.size() < 16'000) continue;
      client.Write(frames);
      frames.clear();
    }
    client.Write(frames);
    client.Request(3, "/t.Nobody/Knows");
    EXPECT_EQ(client.StatusOf(3), kUnimplemented);
  });
  ASSERT_TRUE(Until([&] { return !handlers_.empty() && handlers_[0]->bytes == 60'000; }));
  EXPECT_LT(peak_, 4 * kMiB);
}

TEST_F(RpcAbuseTest, BI56_UnfinishedMessagesAreBoundedOverAllStreams) {
  const std::uint64_t before = LimitHits("grpc_unfinished");
  AttackAsAgent([&](RawTlsClient& client) {
    // Each stream claims 250 KiB and gives 200 KiB of it: the third is too much.
    std::uint32_t refused = 0;
    std::uint32_t next = 1;
    for (std::uint32_t part = 1; part <= 3; ++part) {
      const std::uint32_t stream = std::exchange(next, next + 2);
      client.Request(stream, test::kEcho);
      client.Write(RawFrame{
          .type = FrameType::kData, .stream = stream, .payload = std::string("\0\0\3\xe8\0", 5)});
      for (int i = 0; i < 20; ++i) {
        client.Write(RawFrame{
            .type = FrameType::kData, .stream = stream, .payload = std::string(10'240, 'x')});
        // Credit is waited for, so that the window is never exceeded.
        const std::uint32_t probe = std::exchange(next, next + 2);
        client.Request(probe, "/t.No/Body");
        ASSERT_EQ(client.StatusOf(probe), kUnimplemented);
        if (client.HeaderOf(stream, "grpc-status") == "8") refused = part;
        if (refused != 0) break;
      }
    }
    EXPECT_EQ(refused, 3U);
    EXPECT_FALSE(client.ended());
  });
  EXPECT_EQ(LimitHits("grpc_unfinished"), before + 1);
  EXPECT_LT(peak_, 8 * kMiB);
}

TEST_F(RpcAbuseTest, BI57_CompressedMessagesAreRefusedUnopened) {
  const std::uint64_t before = BadInput("grpc_message");
  // What gzip makes of many zeros.
  const std::string bomb =
      std::string("\1\0\0\0\x1c\x1f\x8b\x08\0\0\0\0\0\0\3", 15) +
      std::string("\xed\xc1\x31\x01\0\0\0\xc2\xa0\xf5\x4f\x6d\x0d\x0f\xa0\0\0\0", 18);
  AttackAsAgent([&](RawTlsClient& client) {
    client.Request(1, test::kEcho, LiteralField("grpc-encoding", "gzip"));
    client.Write(RawFrame{.type = FrameType::kData, .stream = 1, .payload = bomb});
    EXPECT_EQ(client.StatusOf(1), kUnimplemented);
    EXPECT_EQ(client.HeaderOf(1, "grpc-accept-encoding"), "identity");
    client.Request(3, test::kEcho);
    client.Write(RawFrame{.type = FrameType::kData, .stream = 3, .payload = bomb});
    EXPECT_EQ(client.StatusOf(3), 13) << "no grpc-encoding";
  });
  EXPECT_EQ(BadInput("grpc_message"), before + 2);
  EXPECT_LT(peak_, 4 * kMiB);
}

TEST_F(RpcAbuseTest, BI56_MessagesThatTheLoopHasNotTakenAreBounded) {
  // The loop does nothing meanwhile; a PING that is answered says that all was read.
  RawTlsClient client(agents_, {.identity = IdentityOf(Who::kAgent)});
  ASSERT_TRUE(client.open());
  client.Write(test::ClientOpening());
  const std::size_t before = test::Decoded();
  client.Request(1, test::kEcho);
  Bytes frames;
  for (int i = 0; i < 1'000; ++i) {
    AppendFrame(frames,
                {.type = FrameType::kData, .stream = 1, .payload = std::string("\0\0\0\0\1x", 6)});
  }
  AppendFrame(frames, {.type = FrameType::kPing, .payload = std::string(8, 'p')});
  client.Write(frames);
  ASSERT_TRUE(client.ReadUntil([&] {
    return std::ranges::any_of(client.frames(), [](const RawFrame& frame) {
      return frame.type == FrameType::kPing && frame.flags == test::kAck;
    });
  }));
  EXPECT_EQ(test::Decoded() - before, kMaxUntaken);
  ASSERT_TRUE(Until([&] { return !handlers_.empty() && handlers_[0]->bytes == 1'000; }))
      << "none is lost";
}

TEST_F(RpcAbuseTest, BI56_WhatAllConnectionsHoldForTheLoopIsBounded) {
  RawTlsClient client(agents_, {.identity = IdentityOf(Who::kAgent)});
  ASSERT_TRUE(client.open());
  client.Write(test::ClientOpening());
  std::uint32_t stream = 1;
  for (int i = 0; i < 5; ++i, stream += 2) {
    client.Request(stream, test::kEcho);
    client.Message(stream, "heavy", 0);  // Says that it takes a fourth of what is allowed.
  }
  EXPECT_EQ(client.StatusOf(stream - 2), kResourceExhausted);
  EXPECT_EQ(client.HeaderOf(stream - 4, "grpc-status"), "");
  ASSERT_TRUE(Until([&] { return handlers_.size() == 5; }));
  EXPECT_EQ(LimitHits("rpc_untaken_bytes"), 1U);
  Attack([&] {
    client.Request(stream, test::kEcho);
    client.Message(stream, "heavy");
    EXPECT_EQ(client.StatusOf(stream), 0) << "they have been taken";
  });
}

// --- Headers ------------------------------------------------------------------------------------

TEST_F(RpcAbuseTest, BI58_TimeoutsAreClampedExceededOrInvalid) {
  const std::uint64_t before = BadInput("grpc_headers");
  AttackAsAgent([&](RawTlsClient& client) {
    std::uint32_t stream = 1;
    for (const auto& [text, status] :
         std::vector<std::pair<std::string, int>>{{"99999999H", 0},
                                                  {"0n", kDeadlineExceeded},
                                                  {"0H", kDeadlineExceeded},
                                                  {"-1S", kInvalidArgument},
                                                  {"1x", kInvalidArgument},
                                                  {"S", kInvalidArgument},
                                                  {"123456789S", kInvalidArgument}}) {
      client.Request(stream, test::kUnary, LiteralField("grpc-timeout", text));
      client.Message(stream, "x");
      EXPECT_EQ(client.StatusOf(stream), status) << text;
      stream += 2;
    }
  });
  ASSERT_EQ(handlers_.size(), 1U);
  EXPECT_LE(handlers_[0]->call->info().deadline, loop_.Now() + Duration::Seconds(60));
  EXPECT_EQ(BadInput("grpc_headers"), before + 4);
}

TEST_F(RpcAbuseTest, BI59_PathsThatAreNotExactlyAMethodAreUnimplemented) {
  const std::uint64_t before = BadInput("rpc_path");
  const std::vector<std::string> paths = {"/t.Agent/../t.Agent/Unary",
                                          "/t.Agent/./Unary",
                                          "/t.Agent/%55nary",
                                          "/t.Agent/Unary%2e",
                                          "/t.Agent/unary",
                                          "/T.Agent/Unary",
                                          "/t.Agent/Unary/",
                                          "/t.Agent/Unary?x",
                                          "/",
                                          "*",
                                          "/t.Nobody/Unary",
                                          "/t.Agent/Unary" + std::string(8'000, 'x')};
  AttackAsAgent([&](RawTlsClient& client) {
    std::uint32_t stream = 1;
    for (const std::string& path : paths) {
      client.Request(stream, path);
      client.Message(stream, "x");
      // `*` is a path of OPTIONS alone: the stream is reset.
      EXPECT_EQ(client.StatusOf(stream), path == "*" ? kProtocolReset : kUnimplemented) << path;
      stream += 2;
    }
    client.Request(stream, test::kWatch);
    EXPECT_EQ(client.StatusOf(stream), kUnimplemented) << "a method of another port";
    client.Request(stream + 2, test::kLater);
    EXPECT_EQ(client.StatusOf(stream + 2), kUnimplemented) << "a method that is not offered";
  });
  EXPECT_EQ(BadInput("rpc_path"), before + paths.size() - 1);
  EXPECT_TRUE(handlers_.empty());
}

TEST_F(RpcAbuseTest, BI60_BadMetadataIsResetOrInvalidAndForgedIdentitiesAreIgnored) {
  const std::uint64_t resets = BadInput("h2_stream");
  const std::uint64_t invalid = BadInput("grpc_headers");
  AttackAsAgent([&](RawTlsClient& client) {
    std::uint32_t stream = 1;
    const auto expect = [&](const std::string& name, const std::string& value, int status) {
      client.Request(stream, test::kUnary, LiteralField(name, value));
      client.Message(stream, "x");
      EXPECT_EQ(client.StatusOf(stream), status) << name;
      stream += 2;
    };
    expect("X-Upper", "a", kProtocolReset);
    expect("x-line", "a\r\nb", kProtocolReset);
    expect("x-nul", std::string("a\0b", 3), kProtocolReset);
    expect("x-bin", "!!", kInvalidArgument);
    expect("x-data-bin", "AAA=,?", kInvalidArgument);
    client.Request(stream, test::kUnary,
                   LiteralField("x-tenant", "dev") + LiteralField("x-client-cert", "forged") +
                       LiteralField("x-asked", "yes"));
    client.Message(stream, "x");
    EXPECT_EQ(client.StatusOf(stream), 0);
  });
  EXPECT_EQ(BadInput("h2_stream"), resets + 3);
  EXPECT_EQ(BadInput("grpc_headers"), invalid + 2);
  ASSERT_EQ(handlers_.size(), 1U);
  const RpcCallInfo& info = handlers_[0]->call->info();
  EXPECT_EQ(info.peer.identity->tenant.text(), "prod");
  EXPECT_EQ(info.metadata, (RpcMetadata{{.name = "x-asked", .value = "yes"}}));
}

TEST_F(RpcAbuseTest, BI61_ServicesOfOthersAreUnimplemented) {
  const std::uint64_t before = BadInput("rpc_path");
  AttackAsAgent([&](RawTlsClient& client) {
    std::uint32_t stream = 1;
    for (const char* path : {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                             "/grpc.channelz.v1.Channelz/GetServers", "/grpc.health.v1.Health/List",
                             "/grpc.health.v1.Health/Check"}) {
      client.Request(stream, path);
      client.Message(stream, "");
      EXPECT_EQ(client.StatusOf(stream), kUnimplemented) << path;
      stream += 2;
    }
  });
  EXPECT_EQ(BadInput("rpc_path"), before + 5);
  EXPECT_TRUE(handlers_.empty());
}

}  // namespace
}  // namespace nstance::grpc

// A server session against bytes written by hand: the limits of a connection, each reached and each
// just not reached, and requests that are no gRPC.
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/adapters/rpc/raw_frames.h"
#include "test/adapters/rpc/session_pair.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::grpc {
namespace {

using test::AppendFrame;
using test::FrameType;
using test::LiteralField;
using test::RawFrame;
using testing::HasSubstr;

class RawServerTest : public testing::Test {
 public:
  RawServerTest() {
    handler_.session = &server_;
    handler_.now = now_;
    Write(test::ClientOpening());
  }

  void Write(std::span<const std::uint8_t> bytes) {
    static_cast<void>(server_.Receive(bytes, now_));
    Bytes out;
    server_.Collect(out, std::size_t{1} << 24U, now_);
    for (RawFrame& frame : test::ParseFrames(out)) answer_.push_back(std::move(frame));
  }
  void Write(const RawFrame& frame) {
    Bytes bytes;
    AppendFrame(bytes, frame);
    Write(bytes);
  }
  void Request(std::uint32_t stream, std::string fields, std::uint8_t flags = 0) {
    Write(RawFrame{.type = FrameType::kHeaders,
                   .flags = static_cast<std::uint8_t>(test::kEndHeaders | flags),
                   .stream = stream,
                   .payload = std::move(fields)});
  }
  // GOAWAY's code and text; -1 when there is none.
  [[nodiscard]] std::pair<int, std::string> Goaway() const {
    for (const RawFrame& frame : answer_) {
      if (frame.type != FrameType::kGoaway) continue;
      return {static_cast<unsigned char>(frame.payload.at(7)), frame.payload.substr(8)};
    }
    return {-1, ""};
  }
  [[nodiscard]] int ResetCode(std::uint32_t stream) const {
    for (const RawFrame& frame : answer_) {
      if (frame.type == FrameType::kReset && frame.stream == stream) {
        return static_cast<unsigned char>(frame.payload.at(3));
      }
    }
    return -1;
  }
  // The literal texts of a stream's header blocks; our encoder may index and compress others.
  [[nodiscard]] bool Answered(std::uint32_t stream) const {
    return std::ranges::any_of(answer_, [&](const RawFrame& frame) {
      return frame.type == FrameType::kHeaders && frame.stream == stream;
    });
  }

  crypto::test::CountingSource counts_;
  test::ScriptedServer handler_;
  Instant now_ = Instant::FromClock(Duration::Seconds(1'000));
  ServerSession server_{kAgentLimits, handler_, counts_.source()};
  std::vector<RawFrame> answer_;
};

struct FloodRow {
  const char* name;
  RawFrame frame;
  int allowed;
  std::string reason;
};

class FloodTest : public RawServerTest, public testing::WithParamInterface<FloodRow> {};

TEST_P(FloodTest, IsEndedAboveItsLimitAndNotBelow) {
  Request(1, test::RequestFields("/t/hold"));
  for (int i = 0; i < GetParam().allowed; ++i) Write(GetParam().frame);
  EXPECT_EQ(Goaway().first, -1) << Goaway().second;
  EXPECT_EQ(counts_.Limits(), 0U);
  Write(GetParam().frame);
  EXPECT_EQ(Goaway().first, 11);
  EXPECT_THAT(Goaway().second, HasSubstr(GetParam().reason));
  EXPECT_TRUE(server_.h2().closing());
  EXPECT_EQ(counts_.Limits(), 1U);
  const std::size_t answered = answer_.size();
  for (int i = 0; i < 1'000; ++i) Write(GetParam().frame);
  EXPECT_EQ(answer_.size(), answered) << "nothing is answered after the end";
}

INSTANTIATE_TEST_SUITE_P(
    Limits, FloodTest,
    testing::Values(
        FloodRow{"Settings", {.type = FrameType::kSettings}, 9, "h2_settings"},
        FloodRow{"Priority",
                 {.type = FrameType::kPriority, .stream = 3, .payload = std::string(5, '\0')},
                 100,
                 "h2_idle_frames"},
        FloodRow{"Unknown", {.type = FrameType::kUnknown}, 100, "h2_idle_frames"},
        FloodRow{"EmptyData", {.type = FrameType::kData, .stream = 1}, 100, "h2_idle_frames"},
        FloodRow{"WindowUpdate",
                 {.type = FrameType::kWindowUpdate, .payload = std::string("\0\0\0\1", 4)},
                 100,
                 "h2_window_updates"},
        FloodRow{"PingAck",
                 {.type = FrameType::kPing, .flags = test::kAck, .payload = std::string(8, 'x')},
                 100,
                 "h2_idle_frames"},
        // The first one is free, then two strikes are allowed.
        FloodRow{"Ping",
                 {.type = FrameType::kPing, .payload = std::string(8, 'x')},
                 3,
                 "too_many_pings"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST_F(RawServerTest, PingsThatAreSpacedOrAnsweredByTrafficAreNoStrikes) {
  Request(1, test::RequestFields("/t/hold"));
  const RawFrame ping = {.type = FrameType::kPing, .payload = std::string(8, 'x')};
  for (int i = 0; i < 20; ++i) {
    now_ = now_ + Duration::Seconds(10);
    Write(ping);
  }
  for (int i = 0; i < 20; ++i) {
    server_.Send(1, test::Message("x"), ServerSession::Queue::kBelow, now_);
    Write(RawFrame{.type = FrameType::kUnknown});
    Write(ping);
  }
  EXPECT_EQ(Goaway().first, -1) << Goaway().second;
}

TEST_F(RawServerTest, APingForEachMessageIsNoFloodHoweverManyTheyAre) {
  Request(1, test::RequestFields("/t/hold"));
  for (int i = 0; i < 1'000; ++i) {
    server_.Send(1, test::Message("x"), ServerSession::Queue::kBelow, now_);
    // As grpc-go does for every DATA frame that it receives.
    Write({.type = FrameType::kWindowUpdate, .payload = std::string("\0\0\0\6", 4)});
    Write({.type = FrameType::kPing, .payload = std::string(8, 'x')});
    ASSERT_EQ(Goaway().first, -1) << i << ": " << Goaway().second;
  }
}

TEST_F(RawServerTest, ManyResetsEndTheConnection) {
  for (std::uint32_t i = 0; i < 200; ++i) {
    Request(2 * i + 1, test::RequestFields("/t/hold"));
    Write(RawFrame{.type = FrameType::kReset, .stream = 2 * i + 1, .payload = std::string(4, 0)});
  }
  EXPECT_EQ(Goaway().first, -1);
  Request(401, test::RequestFields("/t/hold"));
  Write(RawFrame{.type = FrameType::kReset, .stream = 401, .payload = std::string(4, 0)});
  EXPECT_EQ(Goaway().first, 11);
  EXPECT_THAT(Goaway().second, HasSubstr("h2_resets"));
}

TEST_F(RawServerTest, RequestsThatMustBeResetCountAsTheirResets) {
  for (std::uint32_t i = 0; i <= 200; ++i) {
    Request(2 * i + 1, test::RequestFields("/t/hold") + LiteralField("Upper", "x"));
  }
  EXPECT_EQ(ResetCode(1), 1);
  EXPECT_EQ(Goaway().first, 11);
}

TEST_F(RawServerTest, AHeaderListAbove16KiBEndsTheConnection) {
  std::string fields = test::RequestFields("/t/hold");
  for (int i = 0; i < 3; ++i) fields += LiteralField("x-long", std::string(5'000, 'x'));
  Request(1, fields);
  EXPECT_EQ(Goaway().first, -1);
  fields += LiteralField("x-long", std::string(1'200, 'x'));
  Request(3, fields);
  EXPECT_EQ(Goaway().first, 11);
  EXPECT_THAT(Goaway().second, HasSubstr("header list"));
}

TEST_F(RawServerTest, SmallHeadersThatUnpackToMuchAreCounted) {
  // One entry of 4,000 bytes goes into the table; then each byte of input names it again.
  std::string fields = test::RequestFields("/t/hold");
  std::string indexed = LiteralField("x-bomb", std::string(3'900, 'x'));
  indexed[0] = '\x40';
  fields += indexed + std::string(8'000, '\xbe');
  Request(1, fields);
  EXPECT_EQ(Goaway().first, 11);
  EXPECT_TRUE(handler_.log.empty());
}

TEST_F(RawServerTest, TheNinthContinuationEndsTheConnection) {
  const auto write = [&](std::uint32_t stream, int continuations) {
    Write(RawFrame{
        .type = FrameType::kHeaders, .stream = stream, .payload = test::RequestFields("/t/hold")});
    for (int i = 1; i <= continuations; ++i) {
      Write(RawFrame{.type = FrameType::kContinuation,
                     .flags = i == continuations ? test::kEndHeaders : std::uint8_t{0},
                     .stream = stream,
                     .payload = LiteralField("x-more", "y")});
    }
  };
  write(1, 8);
  EXPECT_EQ(Goaway().first, -1);
  EXPECT_EQ(handler_.log.size(), 1U);
  write(3, 9);
  EXPECT_EQ(Goaway().first, 11);
  EXPECT_EQ(handler_.log.size(), 1U);
}

TEST_F(RawServerTest, AStreamIdBelowAnEarlierOneThatWasNeverUsedIsAnError) {
  Request(5, test::RequestFields("/t/hold"));
  EXPECT_EQ(Goaway().first, -1);
  Request(3, test::RequestFields("/t/hold"));
  EXPECT_EQ(Goaway().first, 1);
}

TEST_F(RawServerTest, AWindowUpdateOfZeroIsAnErrorAlsoOnAClosedStream) {
  Request(1, test::RequestFields("/t/none"));
  Bytes bytes;
  AppendFrame(bytes, {.type = FrameType::kWindowUpdate, .stream = 1, .payload = std::string(4, 0)});
  for (const std::uint8_t byte : bytes) Write(std::span(&byte, 1));
  EXPECT_EQ(Goaway().first, 1);
}

TEST_F(RawServerTest, LateFramesOfAClosedStreamAreNoError) {
  Request(1, test::RequestFields("/t/none"));  // Answered and reset.
  EXPECT_EQ(ResetCode(1), 0);
  Write(RawFrame{.type = FrameType::kData, .stream = 1, .payload = "abc"});
  Request(3, test::RequestFields("/t/hold"));
  EXPECT_EQ(Goaway().first, -1);
  EXPECT_EQ(server_.calls(), 1U);
}

TEST_F(RawServerTest, OtherMethodsAndContentTypesGetAShortText) {
  const std::string base = LiteralField(":scheme", "https") + LiteralField(":path", "/t/unary") +
                           LiteralField(":authority", "test");
  Request(1, LiteralField(":method", "GET") + base, test::kEndStream);
  Request(3, LiteralField(":method", "POST") + base + LiteralField("content-type", "text/html"));
  Request(5, LiteralField(":method", "POST") + base +
                 LiteralField("content-type", "application/grpc-web"));
  std::vector<std::string> bodies;
  for (const RawFrame& frame : answer_) {
    if (frame.type == FrameType::kData) bodies.push_back(frame.payload);
  }
  EXPECT_THAT(bodies, testing::ElementsAre(HasSubstr("POST"), HasSubstr("application/grpc"),
                                           HasSubstr("application/grpc")));
  EXPECT_TRUE(handler_.log.empty());
  EXPECT_EQ(ResetCode(3), 0) << "the client had not ended";
  EXPECT_EQ(ResetCode(1), -1);
  EXPECT_EQ(server_.calls(), 0U);
}

TEST_F(RawServerTest, BadMetadataAndTimeoutsNeverReachAHandler) {
  std::uint32_t stream = 1;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"grpc-timeout", "-1S"},
                                                        {"grpc-timeout", "1x"},
                                                        {"grpc-timeout", "0n"},
                                                        {"x-bin", "!"}}) {
    Request(stream, test::RequestFields("/t/hold") + LiteralField(name, value));
    EXPECT_TRUE(Answered(stream)) << name << " " << value;
    stream += 2;
  }
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"X-Upper", "a"}, {"x-line", "a\r\nb"}, {"x-nul", std::string("a\0b", 3)}}) {
    Request(stream, test::RequestFields("/t/hold") + LiteralField(name, value));
    EXPECT_EQ(ResetCode(stream), 1) << name;
    stream += 2;
  }
  EXPECT_TRUE(handler_.log.empty());
  EXPECT_EQ(Goaway().first, -1);
  Request(stream, test::RequestFields("/t/hold") + LiteralField("grpc-timeout", "99999999H"));
  EXPECT_EQ(handler_.log.size(), 1U);
}

TEST_F(RawServerTest, ACutMessageIsInvalidAndACompressedOneIsRefused) {
  Request(1, test::RequestFields("/t/echo"));
  Write(RawFrame{.type = FrameType::kData,
                 .flags = test::kEndStream,
                 .stream = 1,
                 .payload = std::string("\0\0\0\0\5abc", 8)});
  EXPECT_THAT(handler_.log, testing::Contains("1 cancelled INVALID_ARGUMENT"));
  Request(3, test::RequestFields("/t/echo"));
  Write(
      RawFrame{.type = FrameType::kData, .stream = 3, .payload = std::string("\1\0\0\0\5abc", 8)});
  EXPECT_THAT(handler_.log, testing::Contains("3 cancelled INTERNAL"));
  Request(5, test::RequestFields("/t/echo") + LiteralField("grpc-encoding", "gzip"));
  Write(
      RawFrame{.type = FrameType::kData, .stream = 5, .payload = std::string("\1\0\0\0\5abc", 8)});
  EXPECT_THAT(handler_.log, testing::Contains("5 cancelled UNIMPLEMENTED"));
}

TEST_F(RawServerTest, AMessageInFramesOfOneByteIsReadWithoutMore) {
  Request(1, test::RequestFields("/t/echo"));
  const std::string message = std::string("\0\0\0\1\0", 5) + std::string(256, 'y');
  for (const char c : message) {
    Write(RawFrame{.type = FrameType::kData, .stream = 1, .payload = std::string(1, c)});
  }
  EXPECT_THAT(handler_.log, testing::Contains("1 message <256 bytes>"));
}

TEST_F(RawServerTest, AWindowThatStaysShutIsEndedByTime) {
  // SETTINGS_INITIAL_WINDOW_SIZE 0 for ever.
  Write(RawFrame{.type = FrameType::kSettings, .payload = std::string("\0\4\0\0\0\0", 6)});
  Request(1, test::RequestFields("/t/hold"));
  server_.Send(1, test::Message("waiting"), ServerSession::Queue::kFull, now_);
  Write(RawFrame{.type = FrameType::kUnknown});
  EXPECT_EQ(server_.NextDue(), now_ + kSendStall);
  now_ = now_ + kSendStall;
  server_.OnTime(now_);
  Write(RawFrame{.type = FrameType::kUnknown});
  EXPECT_EQ(ResetCode(1), 8);
  EXPECT_EQ(server_.calls(), 0U);
}

}  // namespace
}  // namespace nstance::grpc

// Client and server sessions against each other in memory. Time is a number, the way the bytes are
// cut is drawn from a seed.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/adapters/rpc/session_pair.h"

namespace nstance::grpc {
namespace {

using test::Message;
using test::SessionPair;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

bool Has(const std::vector<std::string>& log, std::string_view line) {
  return std::ranges::find(log, line) != log.end();
}

TEST(SessionTest, AUnaryCallIsAnsweredWithMetadataAndTrailers) {
  SessionPair pair;
  const StreamId call = pair.Unary("/t/unary", "hello");
  EXPECT_THAT(pair.client_handler.log, ElementsAre("1 message hello", "1 end OK"));
  EXPECT_THAT(pair.server_handler.log,
              ElementsAre("1 call /t/unary", "1 message hello", "1 half-close", "1 gone"));
  const Metadata asked = {{.name = "user-agent", .value = "nstance-cpp"},
                          {.name = "x-ask", .value = "why"}};
  EXPECT_EQ(pair.server_handler.metadata[call], asked);
  EXPECT_EQ(pair.client_handler.metadata[call], (Metadata{{.name = "x-head", .value = "1"}}));
  EXPECT_EQ(pair.client_handler.trailing[call],
            (Metadata{{.name = "x-trail-bin", .value = std::string("\0\xff", 2)}}));
  EXPECT_EQ(pair.server.calls(), 0U);
  EXPECT_EQ(pair.client.calls(), 0U);
}

TEST(SessionTest, StreamsGoBothWaysUntilTheHalfClose) {
  SessionPair pair;
  const StreamId call = pair.Start("/t/echo");
  for (const char* text : {"a", "", "c"}) {
    pair.Send(call, text);
    pair.Pump();
  }
  pair.Send(call, std::string(200'000, 'x'));
  pair.client.HalfClose(call);
  pair.Pump();
  EXPECT_THAT(pair.client_handler.log, ElementsAre("1 message a", "1 message ", "1 message c",
                                                   "1 message <200000 bytes>", "1 end OK"));
}

TEST(SessionTest, AnErrorAtTheHeadersIsTheWholeAnswer) {
  SessionPair pair;
  const StreamId call = pair.Unary("/t/%2e%2e/unary", "x");
  EXPECT_EQ(pair.EndOf(call).code, Code::kUnimplemented);
  EXPECT_EQ(pair.EndOf(call).outcome, Outcome::kNotDone);
  EXPECT_THAT(pair.server_handler.log, ElementsAre("1 call /t/%2e%2e/unary"));
  EXPECT_FALSE(pair.client_handler.metadata.contains(call));
}

TEST(SessionTest, NoneOrTwoMessagesInAUnaryCallAreUnimplemented) {
  SessionPair pair;
  const StreamId none = pair.Start("/t/unary", RpcKind::kUnary);
  pair.client.HalfClose(none);
  pair.Pump();
  EXPECT_EQ(pair.EndOf(none).code, Code::kUnimplemented);
  const StreamId two = pair.Start("/t/unary", RpcKind::kUnary);
  pair.Send(two, "1");
  pair.Send(two, "2");
  pair.Pump();
  EXPECT_EQ(pair.EndOf(two).code, Code::kUnimplemented);
  EXPECT_FALSE(Has(pair.server_handler.log, "3 half-close"));
  EXPECT_EQ(pair.server.calls(), 0U);
}

TEST(SessionTest, NoneOrTwoAnswersInAUnaryCallAreUnimplemented) {
  SessionPair pair;
  const StreamId none = pair.Start("/t/one", RpcKind::kUnary);
  pair.Send(none, "x");
  pair.Pump();
  pair.server.Finish(none, {}, {});
  pair.Pump();
  EXPECT_EQ(pair.EndOf(none).code, Code::kUnimplemented);
  const StreamId two = pair.Start("/t/echo", RpcKind::kUnary);  // The server sees a stream.
  pair.Send(two, "1");
  pair.Send(two, "2");
  pair.Pump();
  EXPECT_EQ(pair.EndOf(two).code, Code::kUnimplemented);
  EXPECT_EQ(pair.EndOf(two).outcome, Outcome::kMaybeDone);
}

TEST(SessionTest, AServerThatEndsEarlySaysWhyAndThenResets) {
  SessionPair pair;
  const StreamId call = pair.Start("/t/early");
  pair.Send(call, "x");
  pair.Pump();
  EXPECT_EQ(pair.EndOf(call).code, Code::kAborted);
  EXPECT_EQ(pair.EndOf(call).message, "early");
  EXPECT_EQ(pair.server.calls(), 0U) << "the stream must not wait for the client";
  EXPECT_EQ(pair.client.calls(), 0U);
  // The connection goes on.
  EXPECT_TRUE(pair.Ok(pair.Unary("/t/unary", "again")));
}

TEST(SessionTest, ADeadlineEndsTheCallOnBothSides) {
  SessionPair pair;
  const StreamId call = pair.Start("/t/hold", RpcKind::kBidirectional, Duration::Seconds(2));
  pair.Send(call, "x");
  pair.Pump();
  EXPECT_EQ(pair.server.NextDue(), pair.now + Duration::Seconds(2));
  // The server's clock first: its status arrives.
  pair.SetTime(pair.now + Duration::Seconds(2));
  pair.server.OnTime(pair.now);
  pair.Pump();
  EXPECT_EQ(pair.EndOf(call).code, Code::kDeadlineExceeded);
  EXPECT_EQ(pair.EndOf(call).outcome, Outcome::kMaybeDone);
  EXPECT_TRUE(Has(pair.server_handler.log, "1 cancelled DEADLINE_EXCEEDED"));
  // The client's clock first: the server learns of a reset.
  const StreamId second = pair.Start("/t/hold", RpcKind::kBidirectional, Duration::Seconds(2));
  pair.Pump();
  pair.SetTime(pair.now + Duration::Seconds(2));
  pair.client.OnTime(pair.now);
  EXPECT_EQ(pair.EndOf(second).code, Code::kDeadlineExceeded);
  pair.Pump();
  EXPECT_TRUE(Has(pair.server_handler.log, "3 cancelled CANCELLED"));
}

TEST(SessionTest, ACallThatWasNeverSentIsSurelyNotDone) {
  SessionPair pair;
  const StreamId call = pair.Start("/t/unary", RpcKind::kUnary, Duration::Seconds(1));
  pair.SetTime(pair.now + Duration::Seconds(1));
  pair.client.OnTime(pair.now);
  EXPECT_EQ(pair.EndOf(call).code, Code::kDeadlineExceeded);
  EXPECT_EQ(pair.EndOf(call).outcome, Outcome::kNotDone);
  pair.Pump();
  EXPECT_TRUE(pair.server_handler.log.empty());
  EXPECT_EQ(pair.client.calls(), 0U);
}

TEST(SessionTest, CallsAboveTheServersLimitWaitForTheirTurn) {
  SessionPair pair(kRegistrationLimits);
  std::vector<StreamId> calls;
  for (int i = 0; i < 6; ++i) calls.push_back(pair.Start("/t/hold"));
  pair.Pump();
  EXPECT_EQ(pair.server.calls(), 4U);
  pair.server.Finish(calls[0], {}, {});
  pair.Pump();
  EXPECT_TRUE(pair.Ok(calls[0]));
  EXPECT_EQ(pair.server.calls(), 4U) << "the fifth has taken its place";
  EXPECT_TRUE(Has(pair.server_handler.log, "9 call /t/hold"));
}

TEST(SessionTest, CancellingReachesTheHandlerAndNothingComesBack) {
  SessionPair pair;
  const StreamId call = pair.Start("/t/hold");
  pair.Pump();
  pair.client.Cancel(call);
  pair.Pump();
  EXPECT_TRUE(Has(pair.server_handler.log, "1 cancelled CANCELLED"));
  EXPECT_TRUE(Has(pair.server_handler.log, "1 gone"));
  EXPECT_TRUE(pair.client_handler.log.empty());
  pair.server.Send(call, Message("late"), ServerSession::Queue::kBelow, pair.now);
  pair.server.Finish(call, {}, {});
  pair.Pump();
  EXPECT_TRUE(pair.client_handler.log.empty());
}

TEST(SessionTest, AMessageAboveTheLimitEndsItsCallAlone) {
  SessionPair pair(kRegistrationLimits);
  const StreamId other = pair.Start("/t/echo");
  const StreamId call = pair.Start("/t/echo");
  pair.Send(call, std::string(kRegistrationLimits.max_message + 1, 'x'));
  pair.Pump();
  EXPECT_EQ(pair.EndOf(call).code, Code::kResourceExhausted);
  EXPECT_TRUE(Has(pair.server_handler.log, "3 cancelled RESOURCE_EXHAUSTED"));
  pair.Send(other, "still here");
  pair.Pump();
  EXPECT_TRUE(Has(pair.client_handler.log, "1 message still here"));
  const StreamId exact = pair.Start("/t/echo");
  pair.Send(exact, std::string(kRegistrationLimits.max_message, 'x'));
  pair.Pump();
  EXPECT_TRUE(Has(pair.client_handler.log, "5 message <65536 bytes>"));
}

TEST(SessionTest, AnUndecodableMessageEndsItsCall) {
  SessionPair pair;
  const StreamId call = pair.Start("/t/echo");
  pair.Send(call, "undecodable");
  pair.Pump();
  EXPECT_EQ(pair.EndOf(call).code, Code::kInvalidArgument);
  EXPECT_TRUE(Has(pair.server_handler.log, "1 cancelled INVALID_ARGUMENT"));
}

TEST(SessionTest, UnfinishedMessagesAreBoundedOverAllStreams) {
  SessionLimits limits = kAgentLimits;
  limits.max_unfinished = 100'000;
  SessionPair pair(limits);
  std::vector<StreamId> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(pair.Start("/t/hold"));
    pair.Send(calls.back(), std::string(60'000, 'x'));
  }
  Bytes up;
  pair.client.Collect(up, std::size_t{1} << 20U, pair.now);
  // HTTP/2 interleaves the three streams in frames of 16 KiB, so that all three messages are still
  // unfinished when the rest of the bytes is withheld.
  const std::span<const std::uint8_t> bytes(up);
  ASSERT_TRUE(pair.server.Receive(bytes.first(bytes.size() * 5 / 6), pair.now).has_value());
  Bytes down;
  pair.server.Collect(down, std::size_t{1} << 20U, pair.now);
  ASSERT_TRUE(pair.client.Receive(down, pair.now).has_value());
  EXPECT_EQ(std::ranges::count_if(pair.client_handler.ends,
                                  [](const auto& end) {
                                    return !end.second.has_value() &&
                                           end.second.error().code == Code::kResourceExhausted;
                                  }),
            1)
      << "only the stream that went too far";
}

TEST(SessionTest, APausedCallIsHeldBackAndOthersAreNot) {
  SessionPair pair;
  const StreamId slow = pair.Start("/t/echo");
  const StreamId fast = pair.Start("/t/echo");
  pair.Pump();
  pair.server.Pause(slow);
  ClientSession::Taken taken = ClientSession::Taken::kBelow;
  int sent = 0;
  while (taken == ClientSession::Taken::kBelow) {
    taken = pair.Send(slow, std::string(10'000, 'x'));
    ++sent;
    pair.Pump();
  }
  EXPECT_EQ(taken, ClientSession::Taken::kNowFull) << "the window shut, then the queue filled";
  EXPECT_EQ(pair.Send(slow, "more"), ClientSession::Taken::kRefused);
  pair.client.HalfClose(slow);
  pair.Pump();
  EXPECT_FALSE(Has(pair.server_handler.log, "1 message <10000 bytes>"));
  pair.Send(fast, "hi");
  pair.Pump();
  EXPECT_TRUE(Has(pair.client_handler.log, "3 message hi"));
  pair.server.Resume(slow, pair.now);
  pair.Pump();
  EXPECT_EQ(std::ranges::count(pair.client_handler.log, "1 message <10000 bytes>"), sent);
  EXPECT_EQ(std::ranges::count(pair.client_handler.log, "1 drained"), 1);
  EXPECT_TRUE(pair.Ok(slow));
}

TEST(SessionTest, APausedClientGetsItsMessagesBeforeTheEnd) {
  SessionPair pair;
  const StreamId call = pair.Start("/t/echo");
  pair.Pump();
  pair.client.Pause(call);
  pair.Send(call, "one");
  pair.Send(call, "two");
  pair.client.HalfClose(call);
  pair.Pump();
  EXPECT_TRUE(pair.client_handler.log.empty());
  pair.client.Resume(call, pair.now);
  EXPECT_THAT(pair.client_handler.log, ElementsAre("1 message one", "1 message two", "1 end OK"));
  EXPECT_EQ(pair.client.calls(), 0U);
}

TEST(SessionTest, TheServerIsToldWhenAFullQueueHasDrained) {
  SessionPair pair;
  const StreamId call = pair.Start("/t/hold");
  pair.Pump();
  pair.client.Pause(call);  // The window of 256 KiB fills, then the queue.
  for (int i = 0; i < 6; ++i) {
    pair.server.Send(call, Message(std::string(100'000, 'x')),
                     i == 5 ? ServerSession::Queue::kFull : ServerSession::Queue::kBelow, pair.now);
  }
  pair.Pump();
  EXPECT_FALSE(Has(pair.server_handler.log, "1 drained"));
  pair.client.Resume(call, pair.now);
  pair.Pump();
  EXPECT_TRUE(Has(pair.server_handler.log, "1 drained"));
  EXPECT_EQ(pair.server_handler.written[call], 6U * 100'005);
}

TEST(SessionTest, ASendQueueWithoutProgressResetsItsStream) {
  SessionPair pair;
  const StreamId call = pair.Start("/t/hold");
  pair.Pump();
  pair.client.Pause(call);
  pair.server.Send(call, Message(std::string(400'000, 'x')), ServerSession::Queue::kBelow,
                   pair.now);
  pair.Pump();
  pair.Advance(Duration::Seconds(59));
  EXPECT_FALSE(Has(pair.server_handler.log, "1 cancelled RESOURCE_EXHAUSTED"));
  pair.Advance(Duration::Seconds(2));
  EXPECT_TRUE(Has(pair.server_handler.log, "1 cancelled RESOURCE_EXHAUSTED"));
  EXPECT_TRUE(Has(pair.server_handler.log, "1 gone"));
  EXPECT_EQ(pair.server.NextDue(), Instant::Never());
}

TEST(SessionTest, ALostConnectionEndsCallsByWhatTheServerCanHaveHeard) {
  SessionPair pair;
  const StreamId heard = pair.Start("/t/hold");
  pair.Pump();
  const StreamId unheard = pair.Start("/t/hold");
  pair.client.Lost(Unavailable("gone"), ClientSession::Heard::kMaybe);
  EXPECT_EQ(pair.EndOf(heard).outcome, Outcome::kMaybeDone);
  EXPECT_EQ(pair.EndOf(unheard).outcome, Outcome::kNotDone);
  pair.server.Lost(Unavailable("gone"));
  EXPECT_TRUE(Has(pair.server_handler.log, "1 cancelled UNAVAILABLE"));
}

TEST(SessionTest, DrainingLetsOpenCallsEndAndRefusesNewOnes) {
  SessionPair pair;
  const StreamId open = pair.Start("/t/hold");
  pair.Pump();
  pair.server.h2().Drain();
  pair.Pump();
  EXPECT_THAT(pair.client_handler.log, Contains(HasSubstr("goaway 0")));
  EXPECT_EQ(pair.Start("/t/hold"), 0);
  EXPECT_FALSE(pair.client.h2().closing());
  pair.server.Finish(open, {}, {});
  pair.Pump();
  EXPECT_TRUE(pair.Ok(open));
  EXPECT_TRUE(pair.client.h2().closing());
  EXPECT_TRUE(pair.server.h2().closing());
}

// One run of a script that the seed draws; the bytes are cut by another generator.
std::vector<std::string> RunScript(std::uint64_t seed, Prng* cut) {
  SessionPair pair;
  pair.cut = cut;
  Prng prng(seed);
  std::vector<StreamId> calls;
  constexpr std::array<std::string_view, 5> kPaths = {"/t/unary", "/t/echo", "/t/early", "/t/hold",
                                                      "/t/none"};
  for (int step = 0; step < 40; ++step) {
    const std::uint64_t what = prng.Below(10);
    if (what < 3 || calls.empty()) {
      const std::string_view path = kPaths.at(prng.Below(kPaths.size()));
      calls.push_back(
          pair.Start(path, path == "/t/unary" ? RpcKind::kUnary : RpcKind::kBidirectional));
    } else {
      const StreamId call = calls[prng.Below(calls.size())];
      if (what < 7) pair.Send(call, std::string(prng.Below(prng.Chance(1, 5) ? 90'000 : 20), 'x'));
      if (what == 7) pair.client.HalfClose(call);
      if (what == 8) pair.client.Cancel(call);
      if (what == 9) pair.server.Finish(call, Fail(NotFound("gone")), {});
    }
    pair.Pump();
  }
  std::vector<std::string> log = pair.server_handler.log;
  log.insert(log.end(), pair.client_handler.log.begin(), pair.client_handler.log.end());
  return log;
}

TEST(SessionTest, HowBytesAreCutMakesNoDifferenceToTheEvents) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng cut(seed + 1'000);
    EXPECT_EQ(RunScript(seed, nullptr), RunScript(seed, &cut));
  }
}

}  // namespace
}  // namespace nstance::grpc

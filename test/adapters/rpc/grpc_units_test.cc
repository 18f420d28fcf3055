// The pure parts of the RPC adapter, by tables and by properties over seeds: framing, metadata,
// timeouts, status texts, rates and admission.
#include <sys/resource.h>

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/rpc/admission.h"
#include "adapters/rpc/call_queues.h"
#include "adapters/rpc/grpc_frame.h"
#include "adapters/rpc/grpc_metadata.h"
#include "adapters/rpc/grpc_status.h"
#include "adapters/rpc/h2_limits.h"
#include "base/prng.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::grpc {
namespace {

Bytes Framed(std::string_view message, std::uint8_t flags = 0) {
  const FramePrefix prefix = MakeFramePrefix(message.size());
  Bytes bytes(prefix.begin(), prefix.end());
  bytes[0] = flags;
  bytes.insert(bytes.end(), message.begin(), message.end());
  return bytes;
}

struct Reading {
  std::vector<std::string> messages;
  Status status;
  bool at_boundary = false;

  friend bool operator==(const Reading&, const Reading&) = default;
};

// Reads `bytes` in pieces whose sizes the generator draws; without one, whole.
Reading ReadAll(std::span<const std::uint8_t> bytes, const FrameRules& rules, Prng* prng) {
  MessageReader reader(rules);
  Reading out;
  while (!bytes.empty()) {
    const std::size_t size =
        prng == nullptr ? bytes.size() : std::min<std::size_t>(bytes.size(), prng->Below(9) + 1);
    std::span<const std::uint8_t> piece = bytes.first(size);
    bytes = bytes.subspan(size);
    while (!piece.empty()) {
      const Result<MessageReader::Step> step = reader.Read(piece);
      if (!step.has_value()) {
        out.status = Fail(step.error());
        return out;
      }
      if (step->message) out.messages.emplace_back(AsText(*step->message));
      piece = piece.subspan(step->consumed);
    }
  }
  out.at_boundary = reader.AtBoundary();
  return out;
}

TEST(AdmissionTest, AllDescriptorsThatTheSystemAllowsMayBecomeConnections) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 500;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
  EXPECT_EQ(AdmissionLimits().connections, 450U);
  RaiseDescriptorLimit();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_GT(AdmissionLimits().connections, 450U);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(MessageReaderTest, HowTheBytesAreCutMakesNoDifference) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    Bytes bytes;
    std::vector<std::string> sent;
    for (std::uint64_t i = 0; i < prng.Below(6); ++i) {
      const Bytes body = crypto::test::RandomBytes(prng, prng.Below(40));
      sent.emplace_back(AsText(body));
      const Bytes framed = Framed(sent.back(), prng.Chance(1, 20) ? 1 : 0);
      bytes.insert(bytes.end(), framed.begin(), framed.end());
    }
    if (prng.Chance(1, 3) && !bytes.empty()) bytes.resize(prng.Below(bytes.size()));
    const FrameRules rules = {.max_message = 35};
    const Reading whole = ReadAll(bytes, rules, nullptr);
    EXPECT_EQ(ReadAll(bytes, rules, &prng), whole);
    for (std::size_t i = 0; i < whole.messages.size(); ++i) EXPECT_EQ(whole.messages[i], sent[i]);
  }
}

TEST(MessageReaderTest, ALengthAboveTheLimitIsRefusedAtItsPrefix) {
  for (const std::uint64_t length : {std::uint64_t{101}, std::uint64_t{0xffffffff}}) {
    MessageReader reader({.max_message = 100});
    const FramePrefix prefix = MakeFramePrefix(length);
    const auto step = reader.Read(prefix);
    ASSERT_FALSE(step.has_value());
    EXPECT_EQ(step.error().code, Code::kResourceExhausted);
  }
  MessageReader reader({.max_message = 100});
  EXPECT_TRUE(reader.Read(MakeFramePrefix(100)).has_value());
  EXPECT_EQ(reader.missing(), 100U);
  EXPECT_FALSE(reader.AtBoundary());
}

TEST(MessageReaderTest, CompressedMessagesAreRefusedByWhatThePeerAnnounced) {
  const Bytes bytes = Framed("abc", 1);
  EXPECT_EQ(ReadAll(bytes, {.max_message = 9}, nullptr).status.error().code, Code::kInternal);
  EXPECT_EQ(
      ReadAll(bytes, {.max_message = 9, .encoding = Encoding::kOther}, nullptr).status.error().code,
      Code::kUnimplemented);
  EXPECT_EQ(ReadAll(Framed("abc", 2), {.max_message = 9}, nullptr).status.error().code,
            Code::kInternal);
}

TEST(SendQueueTest, GivesPrefixesAndMessagesInPiecesOfAnySize) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    SendQueue queue;
    Bytes expected;
    Bytes got;
    for (int i = 0; i < 200; ++i) {
      if (prng.Chance(1, 2)) {
        const Bytes body = crypto::test::RandomBytes(prng, prng.Below(50));
        queue.Push(std::make_shared<const std::string>(AsText(body)));
        const Bytes framed = Framed(AsText(body));
        expected.insert(expected.end(), framed.begin(), framed.end());
      } else {
        Bytes room(prng.Below(70) + 1);
        const std::size_t size = queue.Read(room);
        got.insert(got.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size));
      }
      EXPECT_EQ(queue.bytes(), expected.size() - got.size());
    }
    Bytes room(queue.bytes());
    queue.Read(room);
    got.insert(got.end(), room.begin(), room.end());
    EXPECT_EQ(got, expected);
    EXPECT_TRUE(queue.empty());
  }
}

TEST(MetadataTest, ReadsWhatOthersSend) {
  Metadata metadata;
  EXPECT_TRUE(AppendReceived(metadata, "x-name", "  a value\t").has_value());
  EXPECT_TRUE(AppendReceived(metadata, "x-bin", "AAEC").has_value());
  EXPECT_TRUE(AppendReceived(metadata, "y-bin", "AA==").has_value());
  EXPECT_TRUE(AppendReceived(metadata, "z-bin", "AA,AQ").has_value());
  EXPECT_TRUE(AppendReceived(metadata, "grpc-anything", "\x01").has_value());
  EXPECT_TRUE(AppendReceived(metadata, ":path", "/a").has_value());
  EXPECT_TRUE(AppendReceived(metadata, "te", "trailers").has_value());
  const Metadata expected = {{.name = "x-name", .value = "a value"},
                             {.name = "x-bin", .value = std::string("\0\1\2", 3)},
                             {.name = "y-bin", .value = std::string("\0", 1)},
                             {.name = "z-bin", .value = std::string("\0", 1)},
                             {.name = "z-bin", .value = "\1"}};
  EXPECT_EQ(metadata, expected);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"X-Name", "a"},
                                                        {"", "a"},
                                                        {"x y", "a"},
                                                        {"x", "\r\n"},
                                                        {"x", "\xC3\xA4"},
                                                        {"x-bin", "A"},
                                                        {"x-bin", "A?=="},
                                                        {"x-bin", "AA,,!"}}) {
    SCOPED_TRACE(name + "=" + value);
    const Status status = AppendReceived(metadata, name, value);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(metadata, expected);
}

TEST(MetadataTest, WhatIsSentIsReadBackTheSame) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Prng prng(seed);
    const Bytes bytes = crypto::test::RandomBytes(prng, prng.Below(30));
    const MetadataEntry entry = {.name = "some-bin", .value = std::string(AsText(bytes))};
    const Result<std::string> value = EncodeValue(entry);
    ASSERT_TRUE(value.has_value());
    Metadata read;
    ASSERT_TRUE(AppendReceived(read, entry.name, *value).has_value());
    EXPECT_EQ(read, Metadata{entry});
  }
  EXPECT_FALSE(EncodeValue({.name = "grpc-status", .value = "0"}).has_value());
  EXPECT_FALSE(EncodeValue({.name = "x", .value = "a\nb"}).has_value());
}

TEST(TimeoutTest, ReadsTheTableOfTheBadInputCorpus) {
  EXPECT_EQ(*ParseTimeout("1H"), Duration::Hours(1));
  EXPECT_EQ(*ParseTimeout("20M"), Duration::Minutes(20));
  EXPECT_EQ(*ParseTimeout("3S"), Duration::Seconds(3));
  EXPECT_EQ(*ParseTimeout("250m"), Duration::Milliseconds(250));
  EXPECT_EQ(*ParseTimeout("7u"), Duration::Microseconds(7));
  EXPECT_EQ(*ParseTimeout("9n"), Duration::Nanoseconds(9));
  EXPECT_EQ(*ParseTimeout("0n"), Duration());
  EXPECT_EQ(*ParseTimeout("99999999H"), Duration::Max());
  for (const std::string_view bad : {"", "S", "1", "-1S", "+1S", "1x", "1 S", "123456789S", "1.5S",
                                     "\xC2\xB5"
                                     "u",
                                     "1SS"}) {
    SCOPED_TRACE(bad);
    const Result<Duration> timeout = ParseTimeout(bad);
    ASSERT_FALSE(timeout.has_value());
    EXPECT_EQ(timeout.error().code, Code::kInvalidArgument);
  }
}

TEST(TimeoutTest, WhatIsSentIsNeverShorterAndHardlyLonger) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    Prng prng(seed);
    const Duration timeout =
        Duration::Nanoseconds(static_cast<std::int64_t>(prng.Next() >> (1 + prng.Below(62))));
    const Result<Duration> read = ParseTimeout(FormatTimeout(timeout));
    ASSERT_TRUE(read.has_value()) << FormatTimeout(timeout);
    EXPECT_GE(*read, timeout);
    EXPECT_LE(read->nanoseconds() - timeout.nanoseconds(), timeout.nanoseconds() / 100'000 + 1);
  }
  EXPECT_EQ(FormatTimeout(Duration::Seconds(-1)), "0n");
}

TEST(StatusMessageTest, SurvivesTheWay) {
  EXPECT_EQ(EncodeStatusMessage("50% \t\xE2\x98\xBA"), "50%25 %09%E2%98%BA");
  EXPECT_EQ(DecodeStatusMessage("50%25 %09%E2%98%BA"), "50% \t\xE2\x98\xBA");
  EXPECT_EQ(DecodeStatusMessage("%zz%1"), "%zz%1");
  EXPECT_EQ(DecodeStatusMessage("%FF"), "\xEF\xBF\xBD");
  const std::string cut = DecodeStatusMessage(EncodeStatusMessage(std::string(2'000, 'x')));
  EXPECT_EQ(cut, std::string(kMaxStatusMessageBytes, 'x'));
}

TEST(StatusTest, OutcomesFollowTheTable) {
  for (int i = 1; i <= 16; ++i) {
    const Status status = StatusFromTrailers(std::to_string(i), "m");
    ASSERT_FALSE(status.has_value());
    const bool not_done = i == 3 || (i >= 5 && i <= 12) || i == 16;
    EXPECT_EQ(status.error().outcome, not_done ? Outcome::kNotDone : Outcome::kMaybeDone) << i;
  }
  EXPECT_TRUE(StatusFromTrailers("0", "").has_value());
  for (const std::string_view bad : {"", "17", "-1", "x", "0x"}) {
    EXPECT_EQ(StatusFromTrailers(bad, "").error().code, Code::kUnknown);
  }
  EXPECT_EQ(FromReset(H2Code::kRefusedStream).outcome, Outcome::kNotDone);
  EXPECT_EQ(FromReset(H2Code::kCancel).code, Code::kCancelled);
  EXPECT_EQ(FromHttpStatus("503").code, Code::kUnavailable);
}

TEST(RatesTest, CountWithinTheirWindowOnly) {
  const Instant start = Instant::FromClock(Duration::Seconds(100));
  RateCounters rates;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(rates.Count(Rate::kSettings, start));
  EXPECT_FALSE(rates.Count(Rate::kSettings, start + Duration::Seconds(9)));
  EXPECT_TRUE(rates.Count(Rate::kSettings, start + Duration::Seconds(10)));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(rates.Count(Rate::kWindowUpdate, start));
  rates.DataSent(start);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(rates.Count(Rate::kWindowUpdate, start));
  EXPECT_FALSE(rates.Count(Rate::kWindowUpdate, start));
}

TEST(TokenBucketTest, AllowsItsBurstAndThenItsRate) {
  const Instant start = Instant::FromClock(Duration::Seconds(100));
  TokenBucket bucket(5, 20, start);
  int taken = 0;
  while (bucket.Take(start)) ++taken;
  EXPECT_EQ(taken, 20);
  EXPECT_FALSE(bucket.Take(start + Duration::Milliseconds(199)));
  EXPECT_TRUE(bucket.Take(start + Duration::Milliseconds(200)));
  EXPECT_FALSE(bucket.Take(start + Duration::Milliseconds(201)));
}

crypto::PeerIdentity IdentityOf(const std::string& id, crypto::Role role) {
  return {.role = role,
          .tenant = crypto::test::Tenant("prod"),
          .id = id,
          .serial = "1",
          .not_after = crypto::test::Noon()};
}

TEST(AdmissionTest, ConnectionsOfOneAddressAndOfTheRegistrationPortAreBounded) {
  Admission admission({.registration_connections = 3, .registration_per_address = 2});
  EXPECT_TRUE(admission.Accept(RpcPort::kRegistration, "192.0.2.1").has_value());
  EXPECT_TRUE(admission.Accept(RpcPort::kRegistration, "192.0.2.1").has_value());
  EXPECT_FALSE(admission.Accept(RpcPort::kRegistration, "192.0.2.1").has_value());
  EXPECT_TRUE(admission.Accept(RpcPort::kRegistration, "2001:db8::1").has_value());
  EXPECT_FALSE(admission.Accept(RpcPort::kRegistration, "192.0.2.9").has_value());
  EXPECT_TRUE(admission.Accept(RpcPort::kAgent, "192.0.2.1").has_value());
  admission.Release({.port = RpcPort::kRegistration, .host = "192.0.2.1"});
  EXPECT_TRUE(admission.Accept(RpcPort::kRegistration, "192.0.2.1").has_value());
  EXPECT_EQ(admission.usage().connections, 4U);
}

TEST(AdmissionTest, NeighboursInIpv6CountTogether) {
  EXPECT_EQ(AddressKey("2001:db8::1"), AddressKey("2001:db8::2"));
  EXPECT_NE(AddressKey("2001:db8::1"), AddressKey("2001:db8:0:1::1"));
  EXPECT_EQ(AddressKey("192.0.2.1"), "192.0.2.1");
}

TEST(AdmissionTest, ATenthIsKeptForVerifiedConnections) {
  Admission admission({.connections = 20});
  for (int i = 0; i < 18; ++i) {
    EXPECT_TRUE(admission.Accept(RpcPort::kAgent, "192.0.2.1").has_value());
  }
  EXPECT_FALSE(admission.Accept(RpcPort::kAgent, "192.0.2.1").has_value());
  const crypto::PeerIdentity identity = IdentityOf("knc1", crypto::Role::kAgent);
  ASSERT_TRUE(admission.Verify({.port = RpcPort::kAgent, .connection = 1, .identity = identity})
                  .has_value());
  EXPECT_TRUE(admission.Accept(RpcPort::kAgent, "192.0.2.1").has_value());
}

TEST(AdmissionTest, TheNewestAgentConnectionWinsAndTheSixtyFifthOperatorIsRefused) {
  Admission admission({});
  const crypto::PeerIdentity agent = IdentityOf("knc1", crypto::Role::kAgent);
  const auto verify = [&](ConnectionId id) {
    return *admission.Verify({.port = RpcPort::kAgent, .connection = id, .identity = agent});
  };
  EXPECT_EQ(verify(1), std::nullopt);
  EXPECT_EQ(verify(2), std::nullopt);
  EXPECT_EQ(verify(3), 1U);
  EXPECT_EQ(verify(4), 2U);
  const crypto::PeerIdentity someone = IdentityOf("cluster", crypto::Role::kOperator);
  for (ConnectionId id = 10; id < 74; ++id) {
    EXPECT_TRUE(
        admission.Verify({.port = RpcPort::kOperator, .connection = id, .identity = someone})
            .has_value());
  }
  EXPECT_FALSE(admission.Verify({.port = RpcPort::kOperator, .connection = 99, .identity = someone})
                   .has_value());
}

TEST(AdmissionTest, CallsInFlightAreCountedForTheirHolder) {
  Admission admission({});
  const RpcPolicyRow row = {.path = "/t.S/M",
                            .port = RpcPort::kAgent,
                            .caller = RpcCaller::kAgent,
                            .limits = RpcLimitsClass::kAgentUnary};
  const crypto::PeerIdentity one = IdentityOf("knc1", crypto::Role::kAgent);
  const crypto::PeerIdentity two = IdentityOf("knc2", crypto::Role::kAgent);
  const Instant now = Instant::FromClock(Duration::Seconds(1));
  const auto start = [&](const crypto::PeerIdentity& who) {
    return admission.StartCall({.row = row, .identity = &who, .host = "192.0.2.1"}, now);
  };
  const Result<std::string> first = start(one);
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(start(one).has_value());
  EXPECT_EQ(start(one).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(start(two).has_value());
  admission.EndCall(*first);
  EXPECT_TRUE(start(one).has_value());
}

}  // namespace
}  // namespace nstance::grpc

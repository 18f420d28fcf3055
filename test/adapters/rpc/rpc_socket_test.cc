// Server and client on real sockets: threads, admission, the ends of connections. Sanitizers watch,
// ThreadSanitizer too.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/adapters/rpc/rpc_fixture.h"
#include "test/support/background_process.h"

namespace nstance::grpc {
namespace {

using test::kEcho;
using test::kJoin;
using test::kLater;
using test::kMissing;
using test::kUnary;
using test::kWatch;
using test::RpcFixture;
using test::TestCall;
using test::TestClient;
using test::Text;
using test::Who;
using testing::ElementsAre;

class RpcSocketTest : public RpcFixture {};

TEST_F(RpcSocketTest, AUnaryCallKnowsItsCallerAndIsAnswered) {
  const RpcAddress address = Open(RpcPort::kAgent);
  TestClient& client = Ready(address, Who::kAgent);
  EXPECT_THAT(client.states, ElementsAre(RpcChannelState::kResolving, RpcChannelState::kConnecting,
                                         RpcChannelState::kReady));
  const TestCall& call = Unary(
      client, kUnary, "hello",
      {.timeout = Duration::Hours(1),
       .metadata = {{.name = "x-asked", .value = "yes"}, {.name = "x-other", .value = "no"}}});
  ASSERT_TRUE(call.end->status.has_value()) << call.end->status.error().ToString();
  EXPECT_THAT(call.messages, ElementsAre("[hello]"));
  EXPECT_EQ(*FindMetadata(call.end->metadata, "x-head"), "1");
  EXPECT_EQ(*FindMetadata(call.end->trailing, "x-tail"), "2");
  ASSERT_EQ(handlers_.size(), 1U);
  const RpcCallInfo& info = handlers_[0]->call->info();
  EXPECT_EQ(info.peer.identity->id, crypto::test::kInstance);
  EXPECT_EQ(info.peer.address.host, "127.0.0.1");
  EXPECT_EQ(info.metadata, (RpcMetadata{{.name = "x-asked", .value = "yes"}}));
  EXPECT_LE(info.deadline, loop_.Now() + Duration::Seconds(60)) << "clamped by the row";
  EXPECT_TRUE(handlers_[0]->half_closed == false) << "finished before";
}

TEST_F(RpcSocketTest, ADialerCallsFromTheAddressThatItWasGiven) {
  const RpcAddress address = Open(RpcPort::kAgent);
  SocketRpcDialer elsewhere({.loop = loop_, .methods = test::Methods(), .call_from = "127.0.0.9"});
  RpcChannelState state = RpcChannelState::kIdle;
  const auto channel =
      elsewhere.Dial({.address = address, .tls = ClientMaterial(Who::kAgent)},
                     {.state = [&](RpcChannelState now, const Status&) { state = now; }});
  channel->Connect();
  ASSERT_TRUE(Until([&] { return state == RpcChannelState::kReady; }));
  const auto call = channel->Start(kUnary, {}, {});
  call->Send(Text("hello"));
  ASSERT_TRUE(Until([&] { return handlers_.size() == 1; }));
  EXPECT_EQ(handlers_[0]->call->info().peer.address.host, "127.0.0.9");
}

TEST_F(RpcSocketTest, ADialerSaysThatItsOwnAddressIsNone) {
  const RpcAddress address = Open(RpcPort::kAgent);
  SocketRpcDialer nowhere({.loop = loop_, .methods = test::Methods(), .call_from = "nowhere"});
  std::optional<Status> gone;
  const auto channel = nowhere.Dial({.address = address, .tls = ClientMaterial(Who::kAgent)},
                                    {.state = [&](RpcChannelState now, const Status& why) {
                                      if (now == RpcChannelState::kGone) gone = why;
                                    }});
  channel->Connect();
  ASSERT_TRUE(Until([&] { return gone.has_value(); }));
  EXPECT_EQ(gone->error().code, Code::kUnavailable);
}

TEST_F(RpcSocketTest, StreamsCarryMoreThanTheirWindowsBothWays) {
  TestClient& client = Ready(Open(RpcPort::kAgent), Who::kAgent);
  TestCall& call = Start(client, kEcho);
  std::size_t sent = 0;
  for (int i = 0; i < 40; ++i) {
    RpcSend taken = RpcSend::kRefused;
    ASSERT_TRUE(Until([&] {
      taken = call.call->Send(Text(std::string(50'000, 'x')));
      return taken != RpcSend::kRefused;
    }));
    sent += 50'000;
  }
  ASSERT_TRUE(Until([&] { return call.bytes == sent; }));
  call.call->HalfClose();
  ASSERT_TRUE(Until([&] { return call.end.has_value(); }));
  EXPECT_TRUE(call.end->status.has_value());
}

TEST_F(RpcSocketTest, PathsRolesAndPortsAreJudgedBeforeAnyHandler) {
  const RpcAddress agents = Open(RpcPort::kAgent);
  const RpcAddress operators = Open(RpcPort::kOperator);
  TestClient& agent = Ready(agents, Who::kAgent);
  EXPECT_EQ(CodeOf(Unary(agent, kLater, "x")), Code::kUnimplemented);
  EXPECT_EQ(CodeOf(Unary(agent, kMissing, "x")), Code::kUnimplemented);
  EXPECT_EQ(CodeOf(Unary(agent, kWatch, "x")), Code::kUnimplemented);
  TestClient& wrong = Ready(operators, Who::kAgent);
  EXPECT_EQ(CodeOf(Unary(wrong, kWatch, "x")), Code::kPermissionDenied);
  TestClient& reverse = Ready(agents, Who::kOperator);
  EXPECT_EQ(CodeOf(Unary(reverse, kUnary, "x")), Code::kPermissionDenied);
  EXPECT_TRUE(handlers_.empty());
}

TEST_F(RpcSocketTest, ClientsWithoutAGoodCertificateAreToldSo) {
  const RpcAddress address = Open(RpcPort::kAgent);
  for (const Who who : {Who::kNobody, Who::kStranger, Who::kServer}) {
    TestClient& client = Dial(address, test::ClientMaterial(who));
    ASSERT_TRUE(Until([&] { return client.is_gone(); }));
    EXPECT_EQ(client.gone.error().code, Code::kUnauthenticated) << client.gone.error().ToString();
  }
  TestClient& anonymous = Ready(Open(RpcPort::kRegistration), Who::kNobody);
  EXPECT_TRUE(Unary(anonymous, kJoin, "token").end->status.has_value());
  EXPECT_FALSE(handlers_.at(0)->call->info().peer.identity.has_value());
}

TEST_F(RpcSocketTest, AServerThatIsNotTheOneDialledIsRefused) {
  const RpcAddress address = Open(RpcPort::kAgent);
  TestClient& other_root =
      Dial(address, test::WithRoots(*test::ClientMaterial(Who::kAgent), {test::OtherRoot()}));
  ASSERT_TRUE(Until([&] { return other_root.is_gone(); }));
  EXPECT_EQ(other_root.gone.error().code, Code::kPermissionDenied);
  TestClient& refused =
      Dial({.host = "127.0.0.1", .port = static_cast<std::uint16_t>(nstance::test::FreePort())},
           test::ClientMaterial(Who::kAgent));
  ASSERT_TRUE(Until([&] { return refused.is_gone(); }));
  EXPECT_EQ(refused.gone.error().code, Code::kUnavailable);
  const TestCall& call = Unary(refused, kUnary, "x");
  EXPECT_EQ(CodeOf(call), Code::kUnavailable);
  EXPECT_EQ(call.end->status.error().outcome, Outcome::kNotDone);
}

TEST_F(RpcSocketTest, NamesAreResolvedOnTheLoop) {
  const RpcAddress address = Open(RpcPort::kAgent);
  TestClient& client = Dial(address, test::ClientMaterial(Who::kAgent), "localhost");
  ASSERT_TRUE(Until([&] { return client.ready() || client.is_gone(); }));
  EXPECT_TRUE(client.ready()) << client.gone.error().ToString();
  EXPECT_TRUE(Unary(client, kUnary, "x").end->status.has_value());
}

TEST_F(RpcSocketTest, DeadlinesCancelsAndDroppedCallsReachTheOtherSide) {
  TestClient& client = Ready(Open(RpcPort::kAgent), Who::kAgent);
  const TestCall& late = Unary(client, kUnary, "hang", {.timeout = Duration::Milliseconds(50)});
  EXPECT_EQ(CodeOf(late), Code::kDeadlineExceeded);
  ASSERT_TRUE(Until([&] { return handlers_.at(0)->cancelled.has_value(); }));
  TestCall& cancelled = Start(client, kUnary);
  cancelled.call->Send(Text("hang"));
  ASSERT_TRUE(Until([&] { return handlers_.size() == 2 && !handlers_[1]->messages.empty(); }));
  cancelled.call.reset();
  ASSERT_TRUE(Until([&] { return handlers_[1]->cancelled.has_value(); }));
  EXPECT_EQ(handlers_[1]->cancelled->code, Code::kCancelled);
  EXPECT_EQ(CodeOf(Unary(client, kUnary, "drop")), Code::kUnavailable);
  EXPECT_EQ(CodeOf(Unary(client, kUnary, "undecodable")), Code::kInvalidArgument);
  EXPECT_EQ(handlers_.size(), 3U) << "the undecodable one was never accepted";
}

TEST_F(RpcSocketTest, AFullQueueIsToldAndDrains) {
  echo_ = false;
  TestClient& client = Ready(Open(RpcPort::kAgent), Who::kAgent);
  TestCall& call = Start(client, kEcho);
  call.call->Pause();
  ASSERT_TRUE(Until([&] { return handlers_.size() == 1; }));
  test::TestHandler& handler = *handlers_[0];
  RpcSend taken = RpcSend::kTaken;
  std::size_t sent = 0;
  ASSERT_TRUE(Until([&] {
    taken = handler.call->Send(Text(std::string(20'000, 'x')));
    if (taken != RpcSend::kRefused) sent += 20'000;
    return taken == RpcSend::kTakenNowFull && sent > 500'000;
  }));
  EXPECT_EQ(handler.call->Send(Text("y")), RpcSend::kRefused);
  EXPECT_EQ(call.bytes, 0U) << "paused";
  const int before = handler.drained;
  call.call->Resume();
  ASSERT_TRUE(Until([&] { return call.bytes == sent && handler.drained > before; }));
  EXPECT_EQ(handler.call->Send(Text(std::string(5 << 20, 'z'))), RpcSend::kTooLarge);
  handler.call->Finish(Fail(Aborted("enough")), {});
  ASSERT_TRUE(Until([&] { return call.end.has_value(); }));
  EXPECT_EQ(CodeOf(call), Code::kAborted);
}

TEST_F(RpcSocketTest, APausedHandlerGetsNothingUntilItResumes) {
  echo_ = false;
  TestClient& client = Ready(Open(RpcPort::kAgent), Who::kAgent);
  TestCall& call = Start(client, kEcho);
  call.call->Send(Text("first"));
  ASSERT_TRUE(Until([&] { return !handlers_.empty() && handlers_[0]->messages.size() == 1; }));
  handlers_[0]->call->Pause();
  call.call->Send(Text("second"));
  call.call->HalfClose();
  TestCall& other = Start(client, kUnary);
  other.call->Send(Text("between"));
  ASSERT_TRUE(Until([&] { return other.end.has_value(); }));
  EXPECT_EQ(handlers_[0]->messages.size(), 1U);
  EXPECT_FALSE(handlers_[0]->half_closed);
  handlers_[0]->call->Resume();
  ASSERT_TRUE(Until([&] { return handlers_[0]->half_closed; }));
  EXPECT_THAT(handlers_[0]->messages, ElementsAre("first", "second"));
}

TEST_F(RpcSocketTest, TheThirdConnectionOfAnAgentReplacesTheFirst) {
  const RpcAddress address = Open(RpcPort::kAgent);
  TestClient& first = Ready(address, Who::kAgent);
  TestClient& second = Ready(address, Who::kAgent);
  TestClient& third = Ready(address, Who::kAgent);
  ASSERT_TRUE(Until([&] { return first.is_gone(); }));
  EXPECT_TRUE(second.ready());
  EXPECT_TRUE(third.ready());
}

TEST_F(RpcSocketTest, AnIdentityThatIsClosedLosesItsCallsWithTheStatusGiven) {
  const RpcAddress address = Open(RpcPort::kAgent);
  TestClient& client = Ready(address, Who::kAgent);
  TestCall& call = Start(client, kEcho);
  ASSERT_TRUE(Until([&] { return handlers_.size() == 1; }));
  server_->CloseConnections(RpcIdentity{.role = crypto::Role::kAgent, .id = "somebody"},
                            Unauthenticated("denied"));
  EXPECT_TRUE(Unary(client, kUnary, "still here").end->status.has_value());
  server_->CloseConnections(
      RpcIdentity{.role = crypto::Role::kAgent, .id = std::string(crypto::test::kInstance)},
      Unauthenticated("denied"));
  ASSERT_TRUE(Until([&] { return call.end.has_value() && client.is_gone(); }));
  EXPECT_EQ(CodeOf(call), Code::kUnauthenticated);
  ASSERT_TRUE(Until([&] { return handlers_[0]->cancelled.has_value(); }));
  EXPECT_EQ(handlers_[0]->cancelled->code, Code::kUnauthenticated);
}

TEST_F(RpcSocketTest, NewMaterialKeepsConnectionsUnlessTheirRootHasLeft) {
  const RpcAddress address = Open(RpcPort::kAgent);
  TestClient& client = Ready(address, Who::kAgent);
  ASSERT_TRUE(
      server_->SetTls(test::WithRoots(*test::ServerMaterial(9), {test::OtherRoot(), test::Root()}))
          .has_value());
  EXPECT_TRUE(Unary(client, kUnary, "x").end->status.has_value());
  RpcTlsMaterial broken = *test::ServerMaterial();
  broken.key = test::ClientMaterial(Who::kAgent)->key;
  EXPECT_FALSE(server_->SetTls(std::make_shared<const RpcTlsMaterial>(broken)).has_value());
  // The new certificate is shown to new connections, which trust the old root only.
  TestClient& fresh = Dial(address, test::ClientMaterial(Who::kAgent));
  ASSERT_TRUE(Until([&] { return fresh.is_gone(); }));
  EXPECT_EQ(fresh.gone.error().code, Code::kPermissionDenied);
  EXPECT_TRUE(client.ready());
  ASSERT_TRUE(
      server_->SetTls(test::WithRoots(*test::ServerMaterial(), {test::OtherRoot()})).has_value());
  ASSERT_TRUE(Until([&] { return client.is_gone(); }));
}

TEST_F(RpcSocketTest, AClosedPortFinishesItsCallsAndOpensAgainOnTheSamePort) {
  const RpcAddress address = Open(RpcPort::kAgent);
  TestClient& client = Ready(address, Who::kAgent);
  TestCall& call = Start(client, kEcho);
  ASSERT_TRUE(Until([&] { return handlers_.size() == 1; }));
  bool closed = false;
  const Pending closing =
      server_->Close(RpcPort::kAgent, loop_.Now() + Duration::Hours(1), [&] { closed = true; });
  // Calls are taken until the word has reached the client.
  Code last = Code::kUnknown;
  for (int i = 0; i < 1'000 && last != Code::kUnavailable; ++i) {
    last = CodeOf(Unary(client, kUnary, "x"));
  }
  EXPECT_EQ(last, Code::kUnavailable);
  EXPECT_FALSE(closed);
  call.call->Send(Text("still open"));
  ASSERT_TRUE(Until([&] { return call.messages.size() == 1; }));
  call.call->HalfClose();
  ASSERT_TRUE(Until([&] { return call.end.has_value() && closed && client.is_gone(); }));
  EXPECT_TRUE(call.end->status.has_value());
  EXPECT_EQ(Open(RpcPort::kAgent), address);
}

TEST_F(RpcSocketTest, StoppingEndsWhatIsOpenAtTheDeadline) {
  TestClient& client = Ready(Open(RpcPort::kAgent), Who::kAgent);
  static_cast<void>(Open(RpcPort::kRegistration));
  TestCall& call = Start(client, kEcho);
  ASSERT_TRUE(Until([&] { return handlers_.size() == 1; }));
  bool stopped = false;
  const Pending stopping =
      server_->Stop(loop_.Now() + Duration::Milliseconds(50), [&] { stopped = true; });
  ASSERT_TRUE(Until([&] { return stopped && call.end.has_value() && client.is_gone(); }));
  EXPECT_EQ(CodeOf(call), Code::kUnavailable);
  std::optional<Result<RpcAddress>> opened;
  const Pending again =
      server_->Open({.port = RpcPort::kAgent, .bind = {.host = "127.0.0.1"}, .accept = [](auto) {}},
                    [&](Result<RpcAddress> address) { opened = std::move(address); });
  ASSERT_TRUE(Until([&] { return opened.has_value(); }));
  EXPECT_EQ(opened->error().code, Code::kFailedPrecondition);
}

TEST_F(RpcSocketTest, UnaryCallsInFlightOfOneAgentAreBounded) {
  TestClient& client = Ready(Open(RpcPort::kAgent), Who::kAgent);
  for (int i = 0; i < 2; ++i) Start(client, kUnary).call->Send(Text("hang"));
  ASSERT_TRUE(Until([&] { return handlers_.size() == 2; }));
  EXPECT_EQ(CodeOf(Unary(client, kUnary, "x")), Code::kResourceExhausted);
  handlers_[0]->call->Finish(Fail(Aborted("go")), {});
  ASSERT_TRUE(Until([&] { return calls_[0]->end.has_value(); }));
  EXPECT_TRUE(Unary(client, kUnary, "x").end->status.has_value());
}

TEST_F(RpcSocketTest, AServerThatIsDestroyedCutsEverybodyOff) {
  TestClient& client = Ready(Open(RpcPort::kAgent), Who::kAgent);
  TestCall& call = Start(client, kEcho);
  ASSERT_TRUE(Until([&] { return handlers_.size() == 1; }));
  server_.reset();
  ASSERT_TRUE(Until([&] { return client.is_gone() && call.end.has_value(); }));
  EXPECT_EQ(call.end->status.error().outcome, Outcome::kMaybeDone);
  EXPECT_FALSE(handlers_[0]->cancelled.has_value());
  handlers_[0]->call->Send(Text("into the void"));
}

}  // namespace
}  // namespace nstance::grpc

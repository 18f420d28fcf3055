// What every implementation of ports/rpc.h must do, as tests: the simulated one and the real
// transport run the same suite. A file that wants it instantiates RpcContractTest with an RpcMaker.
//
// The methods are the suite's own, of all four kinds and on all three ports; their messages are
// plain std::string, so the suite needs no codec but the one it brings. Time is only waited for by
// RunUntil().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "crypto/certificate_authority.h"
#include "ports/loop.h"
#include "ports/rpc.h"
#include "ports/rpc_codec.h"

namespace nstance::test {

inline constexpr std::string_view kAnonymousUnary = "/test.Anonymous/Unary";
inline constexpr std::string_view kUnary = "/test.Agent/Unary";
inline constexpr std::string_view kClientStream = "/test.Agent/ClientStream";
inline constexpr std::string_view kServerStream = "/test.Agent/ServerStream";
inline constexpr std::string_view kBoth = "/test.Agent/Both";
inline constexpr std::string_view kNotOffered = "/test.Agent/NotOffered";
inline constexpr std::string_view kOperatorUnary = "/test.Operator/Unary";

// What the server and the dialer under test are made with.
[[nodiscard]] std::span<const RpcPolicyRow> ContractPolicy();
// The bytes of a message are its text; a text that begins with "undecodable" is refused.
[[nodiscard]] std::span<const RpcMethod> ContractMethods();

// Limits by address must be off, and the dialer must reach what the server opens on host().
class RpcUnderTest {
 public:
  RpcUnderTest() = default;
  RpcUnderTest(const RpcUnderTest&) = delete;
  RpcUnderTest& operator=(const RpcUnderTest&) = delete;
  virtual ~RpcUnderTest() = default;

  virtual Loop& loop() = 0;
  virtual RpcServer& server() = 0;
  virtual RpcDialer& dialer() = 0;
  virtual void DestroyServer() = 0;
  // Where to open listeners: "127.0.0.1".
  [[nodiscard]] virtual std::string host() const = 0;
  // Runs the loop until it holds, or for a minute; tells which.
  virtual bool RunUntil(const std::function<bool()>& done) = 0;
  // The address under which clients reach a listener; a relay may stand between.
  virtual RpcAddress Reach(const RpcAddress& listener) { return listener; }
  // All connections are lost at once, as by a cable that is cut and a kernel that gives up.
  virtual void LoseConnections() = 0;
  // Whether messages become bytes on the way.
  [[nodiscard]] virtual bool carries_bytes() const { return true; }
};

struct RpcMaker {
  std::string name;
  std::function<std::unique_ptr<RpcUnderTest>()> make;

  friend void PrintTo(const RpcMaker& maker, std::ostream* out) { *out << maker.name; }
};
[[nodiscard]] inline std::string RpcMakerName(const testing::TestParamInfo<RpcMaker>& info) {
  return info.param.name;
}

// A cluster's authority and what it issues, valid from an hour before `now`.
class ContractAuthority final {
 public:
  ContractAuthority(Timestamp now, std::uint8_t number);

  [[nodiscard]] const crypto::Certificate& root() const { return authority_->certificate(); }
  // For a server that clients dial as `host` (localhost and 127.0.0.1 are always in).
  [[nodiscard]] RpcTls Server(const std::string& host);
  [[nodiscard]] RpcTls Agent(std::string_view tenant, std::uint8_t instance);
  [[nodiscard]] RpcTls Operator(std::string_view tenant);
  // Shows no certificate, trusts this authority.
  [[nodiscard]] RpcTls Nobody();

  // The CN of Agent(..., instance).
  [[nodiscard]] static InstanceId InstanceOf(std::uint8_t instance);

 private:
  [[nodiscard]] crypto::IssueTerms Terms();
  [[nodiscard]] RpcTls Wrap(crypto::Certificate leaf, crypto::PrivateKey key);

  Timestamp issued_at_;
  std::uint8_t number_;
  std::uint8_t next_key_ = 1;
  std::optional<crypto::CertificateAuthority> authority_;
};

// A handler that writes down what it is told.
struct ServedCall {
  std::unique_ptr<RpcServerCall> call;
  std::vector<std::string> messages;
  int half_closes = 0;
  int drained = 0;
  std::vector<Error> cancelled;

  RpcSend Send(std::string text) { return call->Send(RpcMessage::Of(std::move(text))); }
};

struct MadeCall {
  std::unique_ptr<RpcCall> call;
  std::vector<RpcMetadata> metadata;
  std::vector<std::string> messages;
  int drained = 0;
  std::vector<RpcEnd> ends;

  RpcSend Send(std::string text) { return call->Send(RpcMessage::Of(std::move(text))); }
  [[nodiscard]] bool ended() const { return !ends.empty(); }
  [[nodiscard]] Error error() const {
    return ends.empty() || ends.front().status ? Internal("no error") : ends.front().status.error();
  }
};

struct MadeChannel {
  std::unique_ptr<RpcChannel> channel;
  std::vector<RpcChannelState> states;
  Status why;

  [[nodiscard]] bool ready() const { return channel->state() == RpcChannelState::kReady; }
  [[nodiscard]] bool gone() const { return channel->state() == RpcChannelState::kGone; }
};

class RpcContractTest : public testing::TestWithParam<RpcMaker> {
 public:
  void SetUp() override;
  void TearDown() override;

  // Opens a listener whose calls land in `served`.
  RpcAddress Open(RpcPort port);
  std::unique_ptr<MadeChannel> Dial(const RpcAddress& address, RpcTls tls);
  // Dials and waits until it is ready.
  std::unique_ptr<MadeChannel> Connected(const RpcAddress& address, RpcTls tls);
  std::unique_ptr<MadeChannel> ConnectedAgent(std::uint8_t instance = 1);
  std::unique_ptr<MadeCall> Start(MadeChannel& channel, std::string_view path,
                                  RpcCallOptions options = {});
  // Starts a streaming call and waits until its handler has it.
  std::pair<std::unique_ptr<MadeCall>, ServedCall*> Stream(MadeChannel& channel,
                                                           std::string_view path);
  // Waits until the handler of the next call has it; null if none comes.
  ServedCall* NextServed();
  void Listen(ServedCall& served);
  bool Wait(const std::function<bool()>& done) { return world->RunUntil(done); }
  void Tick(MadeCall& call, const ServedCall& handler);
  // How a call ends that no handler takes.
  Error ErrorOf(MadeChannel& channel, std::string_view path);

  std::unique_ptr<RpcUnderTest> world;
  std::optional<ContractAuthority> authority;
  RpcAddress agents;
  std::vector<std::unique_ptr<ServedCall>> served;  // In the order of their arrival.
  std::size_t next_served = 0;
  // What an accepted call gets first; usually Listen().
  std::function<void(ServedCall&)> on_accept;
  // What is asked about calls that are not offered; empty: everybody is let in.
  std::function<Status(const RpcCallInfo&)> gate;
};

}  // namespace nstance::test

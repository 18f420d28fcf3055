// ClientChannel: one connection of a client, from the name to the last call. See ports/rpc.h for
// the states.
//
// Verbs never tell anything: what they cause happens in a task of its own, so that no event comes
// from inside a verb.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "adapters/rpc/client_session.h"
#include "adapters/rpc/resolver.h"
#include "adapters/rpc/rpc_dialer.h"
#include "adapters/rpc/tls_connection.h"

namespace nstance::grpc {

// One call, shared by the connection and whoever holds the RpcCall.
struct ClientCallState {
  const RpcMethod* method = nullptr;
  StreamId stream = 0;
  RpcCallEvents events;
  RpcMetadata metadata;
  std::optional<RpcMessage> response;  // Of a method with a single one, until the end.
  bool over = false;                   // Ended, or let go.
};

class ClientChannel final : public std::enable_shared_from_this<ClientChannel>,
                            private TlsConnection::Owner,
                            private ClientCallHandler {
 public:
  ClientChannel(const RpcDialerSetup& setup, RpcTarget target, RpcChannelEvents events);
  ~ClientChannel() override;

  [[nodiscard]] RpcChannelState state() const { return state_; }
  void Connect();
  void Close();
  // Its owner is gone: nothing is told any more.
  void Abandon();

  [[nodiscard]] std::shared_ptr<ClientCallState> Start(std::string_view path,
                                                       RpcCallOptions options,
                                                       RpcCallEvents events);
  [[nodiscard]] RpcSend Send(ClientCallState& call, const RpcMessage& message);
  void HalfClose(const ClientCallState& call);
  void Cancel(ClientCallState& call);
  void Pause(const ClientCallState& call);
  void Resume(const ClientCallState& call);

 private:
  using CallPointer = std::shared_ptr<ClientCallState>;

  std::shared_ptr<void> KeepAlive() override { return shared_from_this(); }
  void OnOpen() override;
  void OnPlain(std::span<const std::uint8_t> bytes) override;
  void OnInputDone() override { Settle(); }
  void Produce(Bytes& out, std::size_t limit) override;
  void OnLost(const Error& why) override;
  void OnClosed() override {}

  void OnMetadata(StreamId call, Metadata metadata) override;
  [[nodiscard]] Status OnMessage(StreamId call, std::span<const std::uint8_t> message) override;
  void OnDrained(StreamId call) override;
  void OnEnd(StreamId call, const Status& status, Metadata trailing) override;
  void OnGoaway(const H2Goaway& goaway) override;

  void Post(void (ClientChannel::*step)());
  void SetState(RpcChannelState state, const Status& why);
  void Resolve();
  void ConnectNext();
  void Settle();
  void CloseNow();
  void Gone(const Error& why, ClientSession::Heard heard);
  void Arm();
  void OnTimer();
  [[nodiscard]] Instant NextDue();
  // True when the connection was lost by it.
  [[nodiscard]] bool CheckKeepalive(Instant now);
  static void TellEnd(const CallPointer& call, const Status& status, Metadata trailing);
  [[nodiscard]] CallPointer Find(StreamId call) const;

  RealLoop& loop_;
  std::span<const RpcMethod> methods_;
  InputSource source_;
  std::string call_from_;
  RpcTarget target_;
  std::string authority_;
  RpcChannelEvents events_;
  RpcChannelState state_ = RpcChannelState::kIdle;
  std::unique_ptr<Resolver> resolver_;
  std::vector<ResolvedAddress> addresses_;
  std::size_t next_address_ = 0;
  std::optional<Error> last_failure_;
  std::shared_ptr<const TlsContext> tls_;
  Pending connect_limit_;
  Pending timer_;
  Instant armed_ = Instant::Never();
  std::optional<Instant> ping_sent_;
  bool settle_posted_ = false;
  bool abandoned_ = false;
  std::string goaway_;
  std::unordered_map<StreamId, CallPointer> calls_;
  std::unique_ptr<TlsConnection> connection_;
  std::vector<std::unique_ptr<TlsConnection>> failed_;  // Until the events that ended them return.
  std::unique_ptr<ClientSession> session_;
};

}  // namespace nstance::grpc

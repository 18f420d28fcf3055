// ServerConnection: one client of the server, on an I/O thread: socket, TLS, HTTP/2, calls.
//
// It holds the rules of its listener: time limits of the handshake, keepalive, idleness, the end of
// the certificate; and it judges each call at its headers by the policy table, before a byte of the
// body: path, port, role, limits. What passes crosses to the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "adapters/rpc/admission.h"
#include "adapters/rpc/listener_rules.h"
#include "adapters/rpc/server_link.h"
#include "adapters/rpc/server_session.h"
#include "adapters/rpc/tls_connection.h"
#include "adapters/rpc/untaken.h"
#include "base/input_probe.h"
#include "base/log.h"

namespace nstance::grpc {

class ServerConnection;

// What a connection needs from its thread; outlives it.
struct ConnectionHost {
  RealLoop& loop;
  ThreadLink& link;
  Admission& admission;
  std::span<const RpcMethod> methods;
  std::span<const RpcPolicyRow> policy;
  log::Logger logger;
  InputSource source;
  UntakenCount::Bytes untaken_bytes;
  bool reading_paused = false;
  // The thread's own.
  std::function<bool(ServerConnection&)> may_handshake;
  std::function<void(ServerConnection&)> opened;
  std::function<void(ServerConnection&)> gone;
  std::function<void(ConnectionId)> make_room;
  std::function<void()> input_done;
};

class ServerConnection final : public std::enable_shared_from_this<ServerConnection>,
                               private TlsConnection::Owner,
                               private ServerCallHandler {
 public:
  struct Parts {
    ConnectionHost& host;
    const ListenerRules& rules;
    ConnectionId id = 0;
    RpcAddress address;
    std::shared_ptr<const TlsContext> tls;
  };
  ServerConnection(Parts parts, Descriptor socket);
  ~ServerConnection() override;

  // Arms its timer; to be called once it is held by a shared_ptr.
  void Start();
  void ContinueHandshake() { connection_.ContinueHandshake(); }
  // Time in which we do not read does not count against the client.
  void SetReading(bool on);
  void Execute(Command command);
  // Sends what the commands have made ready.
  void Settle();

  // No new calls; closes when those open have ended.
  void Drain();
  // Ends all calls with `why` and closes.
  void CloseWith(const Error& why);
  // Without a word, when the thread ends.
  void CutOff();
  // Whether the client's certificate still leads to a root.
  [[nodiscard]] bool StillTrusted(const TlsContext& context);

  [[nodiscard]] ConnectionId id() const { return id_; }
  [[nodiscard]] RpcPort port() const { return rules_.port; }
  [[nodiscard]] const RpcAddress& address() const { return address_; }
  [[nodiscard]] bool handshaking() const {
    return connection_.state() == TlsConnection::State::kHandshaking;
  }
  [[nodiscard]] bool idle() const { return session_ != nullptr && session_->calls() == 0; }
  // Null without a sound one.
  [[nodiscard]] const crypto::PeerIdentity* identity() const {
    return identity_ ? &*identity_ : nullptr;
  }

 private:
  struct Call {
    std::shared_ptr<CallShared> shared;
    std::string admission_key;
    std::optional<RpcMessage> request;  // Of a method with a single one, until it is complete.
    std::optional<Untaken> untaken;     // The request's.
    bool opened = false;                // The loop knows it.
  };

  std::shared_ptr<void> KeepAlive() override { return shared_from_this(); }
  bool MayHandshake() override;
  void OnOpen() override;
  void OnPlain(std::span<const std::uint8_t> bytes) override;
  void OnInputDone() override;
  void Produce(Bytes& out, std::size_t limit) override;
  void OnLost(const Error& why) override;
  void OnClosed() override;

  [[nodiscard]] Result<ServerCallRules> OnCall(StreamId call, RequestHead head) override;
  [[nodiscard]] Status OnMessage(StreamId call, std::span<const std::uint8_t> message) override;
  void OnHalfClose(StreamId call) override;
  void OnCancelled(StreamId call, const Error& why) override;
  void OnWritten(StreamId call, std::size_t bytes) override;
  void OnDrained(StreamId call) override;
  void OnGone(StreamId call) override;

  [[nodiscard]] Status TakeIdentity();
  [[nodiscard]] Result<const RpcPolicyRow*> Judge(const std::string& path) const;
  void Open(Call& call);
  void PushEvent(const Call& call, CallEvent kind);
  void PushMessage(const Call& call, RpcMessage message, std::optional<Untaken> untaken);
  void CountKeyUpdates();
  void CloseSession();
  [[nodiscard]] Instant NextDue();
  [[nodiscard]] Instant NextDueOfPeer();
  void Arm();
  void OnTimer();
  // True when the connection was closed by it.
  [[nodiscard]] bool CheckHandshakeTime(Instant now);
  [[nodiscard]] bool CheckIdleness(Instant now);
  [[nodiscard]] bool CheckWriting(Instant now);
  void CheckKeepalive(Instant now);
  void End(std::string_view reason);

  ConnectionHost& host_;
  const ListenerRules& rules_;
  ConnectionId id_;
  RpcAddress address_;
  Instant accepted_at_;
  Instant idle_since_;
  std::optional<Instant> ping_sent_;
  std::uint64_t key_updates_ = 0;
  std::optional<crypto::PeerIdentity> identity_;
  std::optional<Error> identity_error_;
  bool counted_identity_ = false;
  bool released_ = false;
  bool request_seen_ = false;
  bool draining_ = false;
  std::optional<Instant> not_reading_since_;
  std::optional<Instant> closing_since_;  // Without having said all that there is to say.
  Pending timer_;
  Instant armed_ = Instant::Never();
  std::unordered_map<StreamId, Call> calls_;
  std::shared_ptr<UntakenCount> untaken_;
  TlsConnection connection_;
  std::unique_ptr<ServerSession> session_;
};

}  // namespace nstance::grpc

#include "adapters/rpc/server_connection.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "crypto/clock_skew.h"

namespace nstance::grpc {
namespace {

// Wall clocks jump: the end of a certificate is looked at again at least this often.
constexpr Duration kExpiryCheck = Duration::Minutes(10);

Error Unimplemented(std::string message) {
  return {.code = Code::kUnimplemented, .message = std::move(message)};
}

}  // namespace

ListenerRules RulesOf(RpcPort port) {
  switch (port) {
    case RpcPort::kRegistration:
      return {.port = port,
              .client_certificates = ClientCertificates::kNone,
              .session = kRegistrationLimits,
              .handshake_limit = Duration::Seconds(5),
              .handshakes_per_turn = 4,
              .max_waiting_client = 256,
              .max_waiting_per_address = 32,
              .max_waiting_us = 64,
              .ping_after = std::nullopt,
              .request_limit = Duration::Seconds(10),
              .idle_limit = Duration::Seconds(30)};
    case RpcPort::kAgent:
    case RpcPort::kOperator: break;
  }
  return {.port = port,
          .client_certificates = ClientCertificates::kRequired,
          .session = port == RpcPort::kAgent ? kAgentLimits : kOperatorLimits,
          .handshake_limit = Duration::Seconds(30),
          .handshakes_per_turn = 8,
          .max_waiting_client = 2'048,
          .max_waiting_per_address = 256,
          .max_waiting_us = 2'048,
          .ping_after = Duration::Seconds(10),
          .request_limit = std::nullopt,
          .idle_limit = std::nullopt};
}

ServerConnection::ServerConnection(Parts parts, Descriptor socket)
    : host_(parts.host),
      rules_(parts.rules),
      id_(parts.id),
      address_(std::move(parts.address)),
      accepted_at_(parts.host.loop.Now()),
      idle_since_(accepted_at_),
      connection_({.loop = parts.host.loop, .owner = *this, .tls = std::move(parts.tls)},
                  std::move(socket), TlsConnection::State::kHandshaking) {}

ServerConnection::~ServerConnection() = default;

void ServerConnection::Start() { Arm(); }

// --- The connection -----------------------------------------------------------------------------

bool ServerConnection::MayHandshake() { return host_.may_handshake(*this); }

void ServerConnection::SetReading(bool on) {
  if (connection_.state() != TlsConnection::State::kClosed) connection_.SetReading(on);
}

// The chain was judged in the handshake; what its identity lacks is told to the first call.
Status ServerConnection::TakeIdentity() {
  const auto& verdict = connection_.tls().verdict();
  if (!verdict) return {};
  if (!verdict->identity.has_value()) {
    identity_error_ = verdict->identity.error();
    return {};
  }
  const Result<std::optional<ConnectionId>> victim = host_.admission.Verify(
      {.port = rules_.port, .connection = id_, .identity = *verdict->identity});
  if (!victim.has_value()) return nstance::Fail(victim.error());
  identity_ = *verdict->identity;
  counted_identity_ = true;
  if (*victim) host_.make_room(**victim);
  return {};
}

void ServerConnection::OnOpen() {
  idle_since_ = host_.loop.Now();
  ServerCallHandler& handler = *this;
  session_ = std::make_unique<ServerSession>(rules_.session, handler, host_.source);
  host_.opened(*this);
  if (const Status taken = TakeIdentity(); !taken.has_value()) {
    host_.source.Limit(taken.error().message);
    session_->h2().End(H2Code::kEnhanceYourCalm, "too many connections of this tenant");
  }
  if (draining_) session_->h2().Drain();
  Arm();
}

void ServerConnection::OnPlain(std::span<const std::uint8_t> bytes) {
  const Instant now = host_.loop.Now();
  ping_sent_.reset();
  // The reason of a failure is kept by the session; Settle() closes.
  static_cast<void>(session_->Receive(bytes, now));
  const std::uint64_t updates = connection_.tls().key_updates();
  if (updates == key_updates_) return;
  session_->h2().CountRate(Rate::kKeyUpdate, static_cast<std::uint32_t>(updates - key_updates_),
                           now);
  key_updates_ = updates;
}

void ServerConnection::Produce(Bytes& out, std::size_t limit) {
  if (session_ != nullptr) session_->Collect(out, limit, host_.loop.Now());
}

void ServerConnection::Settle() {
  if (session_ == nullptr || connection_.state() != TlsConnection::State::kOpen) return;
  const std::shared_ptr<void> alive = KeepAlive();
  connection_.Flush();
  if (connection_.state() != TlsConnection::State::kOpen) return;
  const bool drained = draining_ && session_->calls() == 0;
  if ((session_->h2().closing() || drained) && !session_->h2().WantsToWrite()) {
    if (!session_->h2().reason().empty() && !drained) {
      host_.logger.Info("connection ended", {{"port", RpcPortName(rules_.port)},
                                             {"peer", address_.host},
                                             {"reason", session_->h2().reason()}});
    }
    session_->Lost(Unavailable("the connection was closed"));
    return connection_.Close();
  }
  if (session_->calls() > 0) idle_since_ = host_.loop.Now();
  Arm();
}

void ServerConnection::OnInputDone() {
  Settle();
  host_.input_done();
}

void ServerConnection::OnLost(const Error& why) {
  if (session_ == nullptr) {
    host_.source.Bad("tls_handshake");
    host_.logger.Debug(
        "handshake failed",
        {{"port", RpcPortName(rules_.port)}, {"peer", address_.host}, {"reason", why.message}});
    return;
  }
  session_->Lost(Unavailable(why.message));
}

void ServerConnection::OnClosed() {
  if (std::exchange(released_, true)) return;
  timer_.Cancel();
  if (session_ != nullptr) session_->Lost(Unavailable("the connection was closed"));
  host_.admission.Release({.port = rules_.port,
                           .connection = id_,
                           .host = address_.host,
                           .identity = counted_identity_ ? &*identity_ : nullptr});
  host_.gone(*this);
}

void ServerConnection::Drain() {
  if (std::exchange(draining_, true)) return;
  if (session_ == nullptr) return connection_.Close();
  session_->h2().Drain();
  Settle();
}

void ServerConnection::CloseWith(const Error& why) {
  const std::shared_ptr<void> alive = KeepAlive();
  if (session_ == nullptr) return connection_.Close();
  session_->AbortAll(why);
  session_->h2().End(H2Code::kNoError, why.message);
  connection_.Flush();
  session_->Lost(Unavailable(why.message));
  connection_.Close();
}

void ServerConnection::CutOff() {
  const std::shared_ptr<void> alive = KeepAlive();
  connection_.Abandon();
  OnClosed();
}

bool ServerConnection::StillTrusted(const TlsContext& context) {
  if (rules_.client_certificates == ClientCertificates::kNone || session_ == nullptr) return true;
  return connection_.tls().LeadsTo(context, host_.loop.WallNow());
}

// --- Calls --------------------------------------------------------------------------------------

Result<const RpcPolicyRow*> ServerConnection::Judge(const std::string& path) const {
  const RpcPolicyRow* row = FindRpcPolicy(host_.policy, path, rules_.port);
  if (row == nullptr || row->offer == RpcOffer::kNotOffered) {
    return nstance::Fail(Unimplemented(fmt::format("there is no method {} here", Quote(path))));
  }
  if (identity_error_) return nstance::Fail(*identity_error_);
  const auto role = identity_ ? std::optional(identity_->role) : std::nullopt;
  if (!Admits(*row, role)) {
    return nstance::Fail(PermissionDenied("the certificate's role may not call this method"));
  }
  return row;
}

Result<ServerCallRules> ServerConnection::OnCall(StreamId stream, RequestHead head) {
  const Instant now = host_.loop.Now();
  ASSIGN_OR_RETURN(const RpcPolicyRow* row, Judge(head.path));
  const RpcMethod* method = FindRpcMethod(host_.methods, head.path);
  CHECK(method != nullptr && method->kind == row->kind, "policy row without a method: {}",
        head.path);
  Result<std::string> key =
      host_.admission.StartCall({.row = *row, .identity = identity(), .host = address_.host}, now);
  if (!key.has_value()) {
    host_.source.Limit("rpc_calls");
    return nstance::Fail(std::move(key).error());
  }
  Instant deadline = head.timeout ? now + *head.timeout : Instant::Never();
  if (row->time_limit) deadline = std::min(deadline, now + *row->time_limit);
  auto shared = std::make_shared<CallShared>();
  shared->link = host_.link.shared_from_this();
  shared->connection = id_;
  shared->stream = stream;
  shared->method = method;
  shared->queue_full = rules_.session.queue_full;
  shared->info = {.port = rules_.port,
                  .policy = row,
                  .peer = {.identity = identity_, .address = address_},
                  .metadata = {},
                  .deadline = deadline};
  for (MetadataEntry& entry : head.metadata) {
    if (std::ranges::find(row->metadata, entry.name) == row->metadata.end()) continue;
    shared->info.metadata.push_back(
        {.name = std::move(entry.name), .value = std::move(entry.value)});
  }
  Call& call = calls_[stream];
  call = {.shared = std::move(shared), .admission_key = std::move(key).value(), .request = {}};
  if (!HasSingleRequest(method->kind)) Open(call);
  return ServerCallRules{.kind = method->kind, .deadline = deadline};
}

void ServerConnection::Open(Call& call) {
  call.opened = true;
  request_seen_ = true;
  PushEvent(call, CallEvent::kOpened);
}

void ServerConnection::PushEvent(const Call& call, CallEvent kind) {
  host_.link.Push(
      Event{.kind = kind, .call = call.shared, .message = std::nullopt, .error = std::nullopt});
}

Status ServerConnection::OnMessage(StreamId stream, std::span<const std::uint8_t> message) {
  Call& call = calls_.at(stream);
  ASSIGN_OR_RETURN(RpcMessage decoded,
                   call.shared->method->request.decode(AsText(message), host_.source));
  if (HasSingleRequest(call.shared->method->kind)) {
    call.request = std::move(decoded);
    return {};
  }
  host_.link.Push(Event{.kind = CallEvent::kMessage,
                        .call = call.shared,
                        .message = std::move(decoded),
                        .error = std::nullopt});
  return {};
}

void ServerConnection::OnHalfClose(StreamId stream) {
  Call& call = calls_.at(stream);
  if (call.request) {
    Open(call);
    host_.link.Push(Event{.kind = CallEvent::kMessage,
                          .call = call.shared,
                          .message = std::exchange(call.request, std::nullopt),
                          .error = std::nullopt});
  }
  PushEvent(call, CallEvent::kHalfClose);
}

void ServerConnection::OnCancelled(StreamId stream, const Error& why) {
  const auto at = calls_.find(stream);
  if (at == calls_.end() || !at->second.opened) return;
  host_.link.Push(Event{.kind = CallEvent::kCancelled,
                        .call = at->second.shared,
                        .message = std::nullopt,
                        .error = why});
}

void ServerConnection::OnWritten(StreamId stream, std::size_t bytes) {
  calls_.at(stream).shared->written.fetch_add(bytes);
}

void ServerConnection::OnDrained(StreamId stream) {
  PushEvent(calls_.at(stream), CallEvent::kDrained);
}

void ServerConnection::OnGone(StreamId stream) {
  const auto at = calls_.find(stream);
  if (at == calls_.end()) return;
  host_.admission.EndCall(at->second.admission_key);
  calls_.erase(at);
  idle_since_ = host_.loop.Now();
}

void ServerConnection::Execute(Command command) {
  if (session_ == nullptr) return;
  const StreamId stream = command.call->stream;
  const Instant now = host_.loop.Now();
  switch (command.verb) {
    case CallVerb::kMetadata: return session_->SetMetadata(stream, std::move(command.metadata));
    case CallVerb::kSend:
      return session_->Send(stream, std::move(command.message), ServerSession::Queue::kBelow, now);
    case CallVerb::kSendNowFull:
      return session_->Send(stream, std::move(command.message), ServerSession::Queue::kFull, now);
    case CallVerb::kFinish: return session_->Finish(stream, command.status, command.metadata);
    case CallVerb::kPause: return session_->Pause(stream);
    case CallVerb::kResume: return session_->Resume(stream, now);
    case CallVerb::kRefuse: return session_->Refuse(stream);
  }
}

// --- Time ---------------------------------------------------------------------------------------

Instant ServerConnection::NextDue() {
  if (session_ == nullptr) {
    return accepted_at_ + (connection_.hello_answered()
                               ? rules_.handshake_limit
                               : std::min(rules_.hello_limit, rules_.handshake_limit));
  }
  Instant due = session_->NextDue();
  if (!session_->h2().settings_received())
    due = std::min(due, accepted_at_ + rules_.handshake_limit);
  if (rules_.request_limit && !request_seen_) {
    due = std::min(due, idle_since_ + *rules_.request_limit);
  }
  if (rules_.idle_limit && session_->calls() == 0) {
    due = std::min(due, idle_since_ + *rules_.idle_limit);
  }
  if (rules_.ping_after) {
    due = std::min(due, ping_sent_ ? *ping_sent_ + rules_.ping_limit
                                   : connection_.last_read() + *rules_.ping_after);
  }
  if (identity_) {
    const Duration left = identity_->not_after + crypto::kClockSkew - host_.loop.WallNow();
    due = std::min(due, host_.loop.Now() + std::clamp(left, Duration(), kExpiryCheck));
  }
  return due;
}

// One timer, moved only when something is due earlier than it: traffic does not touch it.
void ServerConnection::Arm() {
  if (connection_.state() == TlsConnection::State::kClosed) return;
  const Instant due = NextDue();
  if (due >= armed_) return;
  armed_ = due;
  timer_ = host_.loop.CallAt(due, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnTimer();
  });
}

void ServerConnection::End(std::string_view reason) {
  host_.logger.Info(
      "connection ended",
      {{"port", RpcPortName(rules_.port)}, {"peer", address_.host}, {"reason", reason}});
  CloseWith(Unavailable(std::string(reason)));
}

bool ServerConnection::CheckHandshakeTime(Instant now) {
  const bool done = session_ != nullptr && session_->h2().settings_received();
  const Duration limit = session_ == nullptr && !connection_.hello_answered()
                             ? std::min(rules_.hello_limit, rules_.handshake_limit)
                             : rules_.handshake_limit;
  if (done || now - accepted_at_ < limit) return false;
  host_.source.Limit("rpc_handshake_time");
  End("the handshake took too long");
  return true;
}

bool ServerConnection::CheckIdleness(Instant now) {
  if (rules_.request_limit && !request_seen_ && now - idle_since_ >= *rules_.request_limit) {
    host_.source.Limit("rpc_request_time");
    End("no complete request in time");
    return true;
  }
  if (rules_.idle_limit && session_->calls() == 0 && now - idle_since_ >= *rules_.idle_limit) {
    End("idle");
    return true;
  }
  if (identity_ && host_.loop.WallNow() >= identity_->not_after + crypto::kClockSkew) {
    End("the client's certificate has expired");
    return true;
  }
  return false;
}

void ServerConnection::CheckKeepalive(Instant now) {
  if (!rules_.ping_after) return;
  if (host_.reading_paused) {
    // We do not listen: silence says nothing about the client.
    ping_sent_.reset();
    return;
  }
  if (ping_sent_ && connection_.last_read() <= *ping_sent_) {
    if (now - *ping_sent_ < rules_.ping_limit) return;
    host_.logger.Info("connection ended", {{"port", RpcPortName(rules_.port)},
                                           {"peer", address_.host},
                                           {"reason", "ping without answer"}});
    session_->Lost(Unavailable("the client did not answer a ping"));
    return CutOff();
  }
  ping_sent_.reset();
  if (now - connection_.last_read() < *rules_.ping_after) return;
  ping_sent_ = now;
  session_->h2().Ping();
}

void ServerConnection::OnTimer() {
  const std::shared_ptr<void> alive = KeepAlive();
  armed_ = Instant::Never();
  const Instant now = host_.loop.Now();
  if (connection_.state() != TlsConnection::State::kHandshaking &&
      connection_.state() != TlsConnection::State::kOpen) {
    return;
  }
  if (CheckHandshakeTime(now)) return;
  if (session_ == nullptr) return Arm();
  session_->OnTime(now);
  if (CheckIdleness(now)) return;
  CheckKeepalive(now);
  if (connection_.state() != TlsConnection::State::kOpen) return;
  if (host_.reading_paused && rules_.ping_after) {
    // Looked at again after a while, not at once.
    connection_.Flush();
    armed_ = now + *rules_.ping_after;
    timer_ = host_.loop.CallAt(armed_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->OnTimer();
    });
    return;
  }
  Settle();
}

}  // namespace nstance::grpc

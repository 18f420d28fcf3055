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
  if (connection_.state() == TlsConnection::State::kClosed) return;
  connection_.SetReading(on);
  const Instant now = host_.loop.Now();
  if (!on) {
    not_reading_since_ = now;
    return;
  }
  const Duration deaf = now - std::exchange(not_reading_since_, std::nullopt).value_or(now);
  accepted_at_ = accepted_at_ + deaf;
  idle_since_ = idle_since_ + deaf;
  ping_sent_.reset();  // Its answer could not be heard: there will be another.
  Arm();
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
  if (*victim) {
    host_.source.probe->LimitHit("agent_connections");
    host_.make_room(**victim);
  }
  return {};
}

void ServerConnection::OnOpen() {
  idle_since_ = host_.loop.Now();
  ServerCallHandler& handler = *this;
  session_ = std::make_unique<ServerSession>(rules_.session, handler, host_.source);
  untaken_ = std::make_shared<UntakenCount>(host_.untaken_bytes,
                                            [link = host_.link.weak_from_this(), id = id_] {
                                              const auto alive = link.lock();
                                              if (alive == nullptr) return;
                                              alive->Push(Command{.verb = CallVerb::kGoOn,
                                                                  .call = nullptr,
                                                                  .message = nullptr,
                                                                  .status = {},
                                                                  .metadata = {},
                                                                  .connection = id});
                                            });
  host_.opened(*this);
  if (const Status taken = TakeIdentity(); !taken.has_value()) {
    host_.source.Limit(taken.error().message);
    session_->h2().End(H2Code::kEnhanceYourCalm, "too many connections of this tenant");
  }
  if (draining_) session_->h2().Drain();
  Arm();
}

void ServerConnection::OnPlain(std::span<const std::uint8_t> bytes) {
  ping_sent_.reset();
  // The reason of a failure is kept by the session; Settle() closes.
  static_cast<void>(session_->Receive(bytes, host_.loop.Now()));
}

// They need not come with any plaintext.
void ServerConnection::CountKeyUpdates() {
  const std::uint64_t updates = connection_.tls().key_updates();
  if (updates == key_updates_ || session_ == nullptr) return;
  session_->h2().CountRate(Rate::kKeyUpdate, static_cast<std::uint32_t>(updates - key_updates_),
                           host_.loop.Now());
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
  if (session_->h2().closing() || (draining_ && session_->calls() == 0)) {
    if (!session_->h2().WantsToWrite()) return CloseSession();
    if (!closing_since_) closing_since_ = host_.loop.Now();
  }
  if (session_->calls() > 0) idle_since_ = host_.loop.Now();
  Arm();
}

void ServerConnection::CloseSession() {
  if (!session_->h2().reason().empty()) {
    host_.logger.Info("connection ended", {{"port", RpcPortName(rules_.port)},
                                           {"peer", address_.host},
                                           {"reason", session_->h2().reason()}});
  }
  session_->Lost(Unavailable("the connection was closed"));
  connection_.Close();
}

void ServerConnection::OnInputDone() {
  CountKeyUpdates();
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
  if (row == nullptr) {
    if (FindRpcPolicy(host_.policy, path) == nullptr) host_.source.Bad("rpc_path");
    return nstance::Fail(Unimplemented(fmt::format("there is no method {} here", Quote(path))));
  }
  if (identity_error_) {
    host_.source.Bad("rpc_identity");
    return nstance::Fail(*identity_error_);
  }
  const auto role = identity_ ? std::optional(identity_->role) : std::nullopt;
  if (!Admits(*row, role)) {
    host_.source.Bad("rpc_role");
    return nstance::Fail(PermissionDenied("the certificate's role may not call this method"));
  }
  return row;
}

Result<ServerCallRules> ServerConnection::OnCall(StreamId stream, RequestHead head) {
  const Instant now = host_.loop.Now();
  ASSIGN_OR_RETURN(const RpcPolicyRow* row, Judge(head.path));
  const RpcMethod* method = FindRpcMethod(host_.methods, head.path);
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
  call.shared = std::move(shared);
  call.admission_key = std::move(key).value();
  // One that is not offered is refused by the loop, whatever the message: it may have no codec.
  if (row->offer == RpcOffer::kNotOffered || !HasSingleRequest(row->kind)) Open(call);
  return ServerCallRules{.kind = row->kind, .deadline = deadline};
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
  if (call.shared->info.policy->offer == RpcOffer::kNotOffered) return {};
  ASSIGN_OR_RETURN(RpcMessage decoded,
                   call.shared->method->request.decode(AsText(message), host_.source));
  std::optional<Untaken> untaken =
      Untaken::Of(untaken_, std::max(message.size(), decoded.weight()));
  if (!untaken) {
    host_.source.Limit("rpc_untaken_bytes");
    return nstance::Fail(ResourceExhausted("the server has too much to do; try again later"));
  }
  if (untaken_->full()) session_->HoldUp();
  if (HasSingleRequest(call.shared->method->kind)) {
    call.request = std::move(decoded);
    call.untaken = std::move(untaken);
    return {};
  }
  PushMessage(call, std::move(decoded), std::move(untaken));
  return {};
}

void ServerConnection::PushMessage(const Call& call, RpcMessage message,
                                   std::optional<Untaken> untaken) {
  host_.link.Push(Event{.kind = CallEvent::kMessage,
                        .call = call.shared,
                        .message = std::move(message),
                        .error = std::nullopt,
                        .untaken = std::move(untaken)});
}

void ServerConnection::OnHalfClose(StreamId stream) {
  Call& call = calls_.at(stream);
  if (call.request) {
    Open(call);
    PushMessage(call, *std::exchange(call.request, std::nullopt),
                std::exchange(call.untaken, std::nullopt));
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
  const Instant now = host_.loop.Now();
  if (command.verb == CallVerb::kGoOn) {
    if (!untaken_->full()) session_->GoOn(now);
    return;
  }
  const StreamId stream = command.call->stream;
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
    case CallVerb::kGoOn: return;
  }
}

// --- Time ---------------------------------------------------------------------------------------

Instant ServerConnection::NextDue() {
  Instant due = host_.reading_paused ? Instant::Never() : NextDueOfPeer();
  if (session_ == nullptr) return due;
  due = std::min(due, session_->NextDue());
  if (closing_since_) due = std::min(due, *closing_since_ + kLingerTime);
  if (const auto stuck = connection_.stuck_since()) due = std::min(due, *stuck + rules_.send_stall);
  if (identity_) {
    const Duration left = identity_->not_after + crypto::kClockSkew - host_.loop.WallNow();
    due = std::min(due, host_.loop.Now() + std::clamp(left, Duration(), kExpiryCheck));
  }
  return due;
}

// What the client must do in time. While we do not read, nothing.
Instant ServerConnection::NextDueOfPeer() {
  if (session_ == nullptr) {
    return accepted_at_ + (connection_.hello_answered()
                               ? rules_.handshake_limit
                               : std::min(rules_.hello_limit, rules_.handshake_limit));
  }
  Instant due = Instant::Never();
  if (!session_->h2().settings_received()) due = accepted_at_ + rules_.handshake_limit;
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
  if (identity_ && host_.loop.WallNow() >= identity_->not_after + crypto::kClockSkew) {
    host_.source.probe->LimitHit("rpc_certificate_end");
    End("the client's certificate has expired");
    return true;
  }
  if (host_.reading_paused) return false;
  if (rules_.request_limit && !request_seen_ && now - idle_since_ >= *rules_.request_limit) {
    host_.source.Limit("rpc_request_time");
    End("no complete request in time");
    return true;
  }
  if (rules_.idle_limit && session_->calls() == 0 && now - idle_since_ >= *rules_.idle_limit) {
    host_.source.probe->LimitHit("rpc_idle");
    End("idle");
    return true;
  }
  return false;
}

// Resets and ends of calls do not help against a client that reads nothing at all.
bool ServerConnection::CheckWriting(Instant now) {
  if (closing_since_ && now - *closing_since_ >= kLingerTime) {
    CloseSession();
    return true;
  }
  const std::optional<Instant> stuck = connection_.stuck_since();
  if (!stuck || now - *stuck < rules_.send_stall) return false;
  host_.source.Limit("rpc_send_stall");
  connection_.GiveUp();
  End("the client reads nothing");
  return true;
}

void ServerConnection::CheckKeepalive(Instant now) {
  // While we do not listen, silence says nothing about the client.
  if (!rules_.ping_after || host_.reading_paused) return;
  if (ping_sent_ && connection_.last_read() <= *ping_sent_) {
    if (now - *ping_sent_ < rules_.ping_limit) return;
    host_.source.probe->LimitHit("rpc_keepalive");
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
  if (!host_.reading_paused && CheckHandshakeTime(now)) return;
  if (session_ == nullptr) return Arm();
  session_->OnTime(now);
  if (CheckIdleness(now) || CheckWriting(now)) return;
  CheckKeepalive(now);
  if (connection_.state() != TlsConnection::State::kOpen) return;
  Settle();
}

}  // namespace nstance::grpc

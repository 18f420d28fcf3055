#include "adapters/rpc/client_channel.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "adapters/rpc/server_call.h"
#include "base/check.h"

namespace nstance::grpc {
namespace {

std::string Authority(const RpcAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", address.host, address.port)
            : fmt::format("{}:{}", address.host, address.port);
}

// Leaves the port to connect(), so that each address has all ports towards each server. False with
// errno set.
bool CallFrom(int socket, const std::string& host) {
  if (host.empty()) return true;
  sockaddr_in from{};
  from.sin_family = AF_INET;
  const int one = 1;
  if (inet_pton(AF_INET, host.c_str(), &from.sin_addr) != 1) {
    errno = EINVAL;
    return false;
  }
  return setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one)) == 0 &&
         bind(socket, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0;
}

}  // namespace

ClientChannel::ClientChannel(const RpcDialerSetup& setup, RpcTarget target, RpcChannelEvents events)
    : loop_(setup.loop),
      methods_(setup.methods),
      source_(setup.source),
      call_from_(setup.call_from),
      target_(std::move(target)),
      authority_(Authority(target_.address)),
      events_(std::move(events)) {}

ClientChannel::~ClientChannel() = default;

void ClientChannel::Post(void (ClientChannel::*step)()) {
  loop_.Post([weak = weak_from_this(), step] {
    if (const auto self = weak.lock(); self != nullptr && !self->abandoned_) (*self.*step)();
  });
}

void ClientChannel::SetState(RpcChannelState state, const Status& why) {
  state_ = state;
  if (!abandoned_ && events_.state) events_.state(state, why);
}

// --- Connecting ---------------------------------------------------------------------------------

void ClientChannel::Connect() {
  CHECK(state_ == RpcChannelState::kIdle);
  state_ = RpcChannelState::kResolving;
  connect_limit_ = loop_.CallAfter(target_.connect_limit, [this] {
    const std::shared_ptr<void> alive = KeepAlive();
    const std::string last =
        last_failure_ ? fmt::format("; before that: {}", last_failure_->message) : "";
    Gone(Unavailable(fmt::format("no connection to {} within {}{}", authority_,
                                 FormatDuration(target_.connect_limit), last)),
         ClientSession::Heard::kSurelyNot);
  });
  Post(&ClientChannel::Resolve);
}

void ClientChannel::Resolve() {
  if (state_ != RpcChannelState::kResolving) return;
  SetState(RpcChannelState::kResolving, {});
  if (abandoned_ || state_ != RpcChannelState::kResolving) return;
  Result<std::shared_ptr<const TlsContext>> tls = TlsContext::ForClient(target_.tls);
  if (!tls.has_value()) return Gone(tls.error(), ClientSession::Heard::kSurelyNot);
  tls_ = std::move(tls).value();
  resolver_ = std::make_unique<Resolver>(
      loop_, target_.address, [this](Result<std::vector<ResolvedAddress>> found) {
        const std::shared_ptr<void> alive = KeepAlive();
        if (!found.has_value()) return Gone(found.error(), ClientSession::Heard::kSurelyNot);
        addresses_ = std::move(found).value();
        SetState(RpcChannelState::kConnecting, {});
        if (!abandoned_ && state_ == RpcChannelState::kConnecting) ConnectNext();
      });
}

void ClientChannel::ConnectNext() {
  while (next_address_ < addresses_.size()) {
    const ResolvedAddress& address = addresses_[next_address_++];
    Descriptor socket(
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int one = 1;
    if (socket.valid()) setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!socket.valid() || !CallFrom(socket.get(), call_from_) ||
        (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) !=
             0 &&
         errno != EINPROGRESS)) {
      last_failure_ = Unavailable(
          fmt::format("connecting to {}: {}", authority_, std::generic_category().message(errno)));
      continue;
    }
    connection_ = std::make_unique<TlsConnection>(
        TlsConnection::Parts{
            .loop = loop_, .owner = *this, .tls = tls_, .target = {.host = target_.address.host}},
        std::move(socket), TlsConnection::State::kConnecting);
    return;
  }
  Gone(last_failure_.value_or(Unavailable("the name has no address")),
       ClientSession::Heard::kSurelyNot);
}

void ClientChannel::OnOpen() {
  ClientCallHandler& handler = *this;
  session_ = std::make_unique<ClientSession>(kClientLimits, handler, source_);
}

void ClientChannel::OnLost(const Error& why) {
  const bool untried = state_ == RpcChannelState::kConnecting && why.code == Code::kUnavailable &&
                       session_ == nullptr && next_address_ < addresses_.size();
  if (untried) {
    last_failure_ = why;
    failed_.push_back(std::move(connection_));
    return ConnectNext();
  }
  Gone(goaway_.empty() ? why : Unavailable(goaway_), why.code == Code::kUnauthenticated
                                                         ? ClientSession::Heard::kSurelyNot
                                                         : ClientSession::Heard::kMaybe);
}

// --- Connected ----------------------------------------------------------------------------------

void ClientChannel::OnPlain(std::span<const std::uint8_t> bytes) {
  ping_sent_.reset();
  // The reason of a failure is kept by the session; Settle() closes.
  static_cast<void>(session_->Receive(bytes, loop_.Now()));
  if (state_ != RpcChannelState::kConnecting || !session_->h2().settings_received()) return;
  connect_limit_.Cancel();
  SetState(RpcChannelState::kReady, {});
}

void ClientChannel::Produce(Bytes& out, std::size_t limit) {
  if (session_ != nullptr) session_->Collect(out, limit, loop_.Now());
}

void ClientChannel::Settle() {
  settle_posted_ = false;
  if (session_ == nullptr || connection_->state() != TlsConnection::State::kOpen) return;
  const std::shared_ptr<void> alive = KeepAlive();
  connection_->Flush();
  if (connection_->state() != TlsConnection::State::kOpen) return;
  if (session_->h2().closing() && !session_->h2().WantsToWrite()) {
    const std::string& reason = goaway_.empty() ? session_->h2().reason() : goaway_;
    return Gone(Unavailable(reason.empty() ? "the server closed the connection" : reason),
                ClientSession::Heard::kMaybe);
  }
  Arm();
}

// The end of everything. Calls are told first, then the state.
void ClientChannel::Gone(const Error& why, ClientSession::Heard heard) {
  if (state_ == RpcChannelState::kGone) return;
  const std::shared_ptr<void> alive = KeepAlive();
  state_ = RpcChannelState::kGone;
  connect_limit_.Cancel();
  timer_.Cancel();
  resolver_.reset();
  if (session_ != nullptr) session_->Lost(why, heard);
  if (connection_ != nullptr) connection_->Close();
  SetState(RpcChannelState::kGone, nstance::Fail(why));
}

void ClientChannel::Close() {
  if (state_ != RpcChannelState::kGone) Post(&ClientChannel::CloseNow);
}

void ClientChannel::CloseNow() {
  if (session_ != nullptr) session_->h2().End(H2Code::kNoError, "");
  Gone(Unavailable("the channel was closed"), ClientSession::Heard::kMaybe);
}

void ClientChannel::Abandon() {
  abandoned_ = true;
  state_ = RpcChannelState::kGone;
  for (const auto& [id, call] : calls_) call->over = true;
  calls_.clear();
  resolver_.reset();
  connect_limit_.Cancel();
  timer_.Cancel();
  if (connection_ == nullptr || connection_->state() != TlsConnection::State::kOpen) {
    if (connection_ != nullptr) connection_->Abandon();
    return;
  }
  // The server is told in passing; nothing waits for that.
  session_->h2().End(H2Code::kNoError, "");
  connection_->Flush();
  connection_->Abandon();
}

// --- Calls --------------------------------------------------------------------------------------

ClientChannel::CallPointer ClientChannel::Find(StreamId call) const {
  const auto at = calls_.find(call);
  return at == calls_.end() ? nullptr : at->second;
}

std::shared_ptr<ClientCallState> ClientChannel::Start(std::string_view path, RpcCallOptions options,
                                                      RpcCallEvents events) {
  auto call = std::make_shared<ClientCallState>();
  call->method = FindRpcMethod(methods_, path);
  CHECK(call->method != nullptr, "no method {}", path);
  call->events = std::move(events);
  if (state_ == RpcChannelState::kReady) {
    const Metadata metadata = ToMetadata(std::move(options.metadata));
    call->stream = session_->Start({.path = call->method->path,
                                    .authority = authority_,
                                    .kind = call->method->kind,
                                    .timeout = options.timeout,
                                    .metadata = metadata},
                                   loop_.Now());
  }
  if (call->stream == 0) {
    loop_.Post(
        [call] { TellEnd(call, nstance::Fail(Unavailable("the channel takes no calls")), {}); });
    return call;
  }
  calls_.emplace(call->stream, call);
  if (!std::exchange(settle_posted_, true)) Post(&ClientChannel::Settle);
  return call;
}

RpcSend ClientChannel::Send(ClientCallState& call, const RpcMessage& message) {
  if (call.over || !calls_.contains(call.stream)) return RpcSend::kRefused;
  RpcMessage::Encoded bytes = EncodeShared(call.method->request, message);
  if (bytes->size() > kMaxRpcMessageBytes) return RpcSend::kTooLarge;
  const ClientSession::Taken taken = session_->Send(call.stream, std::move(bytes), loop_.Now());
  if (taken == ClientSession::Taken::kRefused) return RpcSend::kRefused;
  if (HasSingleRequest(call.method->kind)) session_->HalfClose(call.stream);
  if (!std::exchange(settle_posted_, true)) Post(&ClientChannel::Settle);
  return taken == ClientSession::Taken::kNowFull ? RpcSend::kTakenNowFull : RpcSend::kTaken;
}

void ClientChannel::HalfClose(const ClientCallState& call) {
  if (call.over || !calls_.contains(call.stream)) return;
  session_->HalfClose(call.stream);
  if (!std::exchange(settle_posted_, true)) Post(&ClientChannel::Settle);
}

void ClientChannel::Cancel(ClientCallState& call) {
  call.over = true;
  if (calls_.erase(call.stream) == 0) return;
  session_->Cancel(call.stream);
  if (!std::exchange(settle_posted_, true)) Post(&ClientChannel::Settle);
}

void ClientChannel::Pause(const ClientCallState& call) {
  if (!call.over && calls_.contains(call.stream)) session_->Pause(call.stream);
}

void ClientChannel::Resume(const ClientCallState& call) {
  if (call.over || !calls_.contains(call.stream)) return;
  loop_.Post([weak = weak_from_this(), stream = call.stream] {
    const auto self = weak.lock();
    if (self == nullptr || self->abandoned_ || !self->calls_.contains(stream)) return;
    self->session_->Resume(stream, self->loop_.Now());
    self->Settle();
  });
}

void ClientChannel::OnMetadata(StreamId id, Metadata metadata) {
  const CallPointer call = Find(id);
  if (call == nullptr || call->over) return;
  call->metadata = FromMetadata(std::move(metadata));
  if (call->events.metadata) call->events.metadata(call->metadata);
}

Status ClientChannel::OnMessage(StreamId id, std::span<const std::uint8_t> message) {
  const CallPointer call = Find(id);
  if (call == nullptr || call->over) return {};
  Result<RpcMessage> decoded = call->method->response.decode(AsText(message), source_);
  if (!decoded.has_value()) {
    return nstance::Fail(std::move(decoded).error().Under("the server's answer").MaybeDone());
  }
  if (HasSingleResponse(call->method->kind)) {
    call->response = std::move(decoded).value();
  } else if (call->events.message) {
    call->events.message(std::move(decoded).value());
  }
  return {};
}

void ClientChannel::OnDrained(StreamId id) {
  const CallPointer call = Find(id);
  if (call != nullptr && !call->over && call->events.drained) call->events.drained();
}

void ClientChannel::OnEnd(StreamId id, const Status& status, Metadata trailing) {
  const CallPointer call = Find(id);
  if (call == nullptr) return;
  calls_.erase(id);
  TellEnd(call, status, std::move(trailing));
}

void ClientChannel::TellEnd(const CallPointer& call, const Status& status, Metadata trailing) {
  if (call->over) return;
  if (status.has_value() && call->response && call->events.message) {
    call->events.message(*std::exchange(call->response, std::nullopt));
    if (call->over) return;
  }
  call->over = true;
  if (!call->events.end) return;
  call->events.end({.status = status,
                    .metadata = call->metadata,
                    .trailing = FromMetadata(std::move(trailing))});
}

void ClientChannel::OnGoaway(const H2Goaway& goaway) {
  goaway_ = fmt::format("the server ended the connection (HTTP/2 code {}){}{}",
                        static_cast<std::uint32_t>(goaway.code), goaway.debug.empty() ? "" : ": ",
                        goaway.debug.empty() ? "" : Quote(goaway.debug));
}

// --- Time ---------------------------------------------------------------------------------------

Instant ClientChannel::NextDue() {
  const Instant ping =
      ping_sent_ ? *ping_sent_ + target_.ping_limit : connection_->last_read() + target_.ping_after;
  return std::min(session_->NextDue(), ping);
}

void ClientChannel::Arm() {
  const Instant due = NextDue();
  if (due >= armed_) return;
  armed_ = due;
  timer_ = loop_.CallAt(due, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnTimer();
  });
}

bool ClientChannel::CheckKeepalive(Instant now) {
  if (ping_sent_ && connection_->last_read() <= *ping_sent_) {
    if (now - *ping_sent_ < target_.ping_limit) return false;
    Gone(Unavailable("the server did not answer a ping"), ClientSession::Heard::kMaybe);
    return true;
  }
  ping_sent_.reset();
  if (now - connection_->last_read() < target_.ping_after) return false;
  ping_sent_ = now;
  session_->h2().Ping();
  return false;
}

void ClientChannel::OnTimer() {
  armed_ = Instant::Never();
  if (state_ == RpcChannelState::kGone || session_ == nullptr) return;
  const Instant now = loop_.Now();
  session_->OnTime(now);
  if (state_ == RpcChannelState::kGone || CheckKeepalive(now)) return;
  Settle();
}

// --- The port -----------------------------------------------------------------------------------

namespace {

class SocketRpcCall final : public RpcCall {
 public:
  SocketRpcCall(const std::shared_ptr<ClientChannel>& channel,
                std::shared_ptr<ClientCallState> state)
      : channel_(channel), state_(std::move(state)) {}
  ~SocketRpcCall() override {
    if (const auto channel = channel_.lock()) channel->Cancel(*state_);
    state_->over = true;
  }

  RpcSend Send(RpcMessage message) override {
    const auto channel = channel_.lock();
    return channel == nullptr ? RpcSend::kRefused : channel->Send(*state_, message);
  }
  void HalfClose() override {
    if (const auto channel = channel_.lock()) channel->HalfClose(*state_);
  }
  void Pause() override {
    if (const auto channel = channel_.lock()) channel->Pause(*state_);
  }
  void Resume() override {
    if (const auto channel = channel_.lock()) channel->Resume(*state_);
  }

 private:
  std::weak_ptr<ClientChannel> channel_;
  std::shared_ptr<ClientCallState> state_;
};

class SocketRpcChannel final : public RpcChannel {
 public:
  explicit SocketRpcChannel(std::shared_ptr<ClientChannel> channel)
      : channel_(std::move(channel)) {}
  ~SocketRpcChannel() override { channel_->Abandon(); }

  [[nodiscard]] RpcChannelState state() const override { return channel_->state(); }
  void Connect() override { channel_->Connect(); }
  void Close() override { channel_->Close(); }
  [[nodiscard]] std::unique_ptr<RpcCall> Start(std::string_view path, RpcCallOptions options,
                                               RpcCallEvents events) override {
    return std::make_unique<SocketRpcCall>(
        channel_, channel_->Start(path, std::move(options), std::move(events)));
  }

 private:
  std::shared_ptr<ClientChannel> channel_;
};

}  // namespace

std::unique_ptr<RpcChannel> SocketRpcDialer::Dial(RpcTarget target, RpcChannelEvents events) {
  return std::make_unique<SocketRpcChannel>(
      std::make_shared<ClientChannel>(setup_, std::move(target), std::move(events)));
}

}  // namespace nstance::grpc

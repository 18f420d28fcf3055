#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/overloaded.h"
#include "base/text.h"
#include "crypto/clock_skew.h"
#include "crypto/verify_peer.h"
#include "ports/rpc_offer.h"
#include "sim/sim_rpc.h"
#include "sim/sim_rpc_parts.h"

namespace nstance::sim {
namespace {

constexpr std::size_t kConnectionsPerAgent = 2;
constexpr std::size_t kConnectionsPerTenant = 64;

// A call, shared between its handler and its connection.
struct ServerCall {
  ServerCall(Loop& loop, SimCallId number)
      : id(number), teller(std::make_shared<SimTeller>(loop, SimTeller::Begin::kWhenListening)) {}

  SimCallId id = 0;
  RpcCallInfo info = {};
  RpcServerEvents events = {};
  std::shared_ptr<SimTeller> teller;
  SimSendQueue queue = {};
  bool accepted = false;
  bool ended = false;
  bool abandoned = false;  // Its handler is gone.
  std::optional<RpcMessage> single_request = std::nullopt;
  RpcMetadata metadata = {};
  bool head_sent = false;
  std::size_t messages_sent = 0;
  Pending deadline = {};

  [[nodiscard]] RpcKind kind() const { return info.policy->kind; }
  // One that is not is refused by the acceptor at once, whatever the message.
  [[nodiscard]] bool offered() const { return info.policy->offer == RpcOffer::kOffered; }
};

using CallPtr = std::shared_ptr<ServerCall>;

}  // namespace

class SimServerConnection final : public SimWireUser,
                                  public std::enable_shared_from_this<SimServerConnection> {
 public:
  struct Origin {
    std::uint64_t number = 0;
    RpcPort port = RpcPort::kRegistration;
    RpcAddress from;
    std::shared_ptr<RpcAcceptor> acceptor;
  };
  SimServerConnection(SimRpcServer& server, Origin origin, std::shared_ptr<SimWire> wire)
      : server_(&server),
        loop_(server.loop_),
        network_(server.network_),
        number_(origin.number),
        port_(origin.port),
        from_(std::move(origin.from)),
        acceptor_(std::move(origin.acceptor)),
        wire_(std::move(wire)) {}

  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] RpcPort port() const { return port_; }
  [[nodiscard]] const std::optional<Result<crypto::PeerIdentity>>& identity() const {
    return identity_;
  }
  [[nodiscard]] bool Is(const RpcConnectionsOf& whose) const;
  // Calls in flight of that class.
  [[nodiscard]] std::size_t Count(RpcLimitsClass limits) const;
  [[nodiscard]] bool HasStream() const;
  // Its certificate leads to one of the roots.
  [[nodiscard]] bool FitsRoots(const RpcTlsMaterial& tls, Timestamp now) const {
    return chain_.empty() ||
           network_.Verify({.chain = chain_, .roots = tls.roots, .now = now}).chain.has_value();
  }

  void OnFrame(SimFrame frame) override;

  // No new calls; closes when the last one has ended.
  void GoAway();
  // Ends all calls with `why` and closes.
  void CloseWith(const Error& why);
  // The server is gone, without a word to its handlers.
  void Abandon();

  // --- Verbs of a handler ---
  RpcSend Send(const CallPtr& call, RpcMessage message);
  void Finish(const CallPtr& call, Status status, RpcMetadata trailing);
  void Drop(const CallPtr& call);

 private:
  [[nodiscard]] CallPtr Find(SimCallId id) const {
    const auto found = calls_.find(id);
    return found == calls_.end() ? nullptr : found->second;
  }
  void ToClient(SimFrame frame) { wire_->Send(SimEnd::kServer, std::move(frame)); }

  void OnConnect(SimConnect& connect);
  void OnHeaders(SimHeaders& headers);
  [[nodiscard]] Result<const RpcPolicyRow*> Judge(const SimHeaders& headers) const;
  void OnData(SimData& data);
  void OnHalfClose(SimCallId id);
  void OnCredit(SimCallId id);
  void Accept(const CallPtr& call);
  void TellMessage(const CallPtr& call, RpcMessage message);
  static void TellHalfClose(const CallPtr& call);
  enum class Client : std::uint8_t { kIsTold, kKnows };
  void Cancel(const CallPtr& call, const Error& why, Client client);
  void CancelAll(const Error& why, Client client);
  void SendHead(const CallPtr& call);
  void CheckGoneAway();
  void Close();

  SimRpcServer* server_;  // Null when it is gone.
  Loop& loop_;
  SimNetwork& network_;
  std::uint64_t number_;
  RpcPort port_;
  RpcAddress from_;
  std::shared_ptr<RpcAcceptor> acceptor_;
  std::shared_ptr<SimWire> wire_;
  std::vector<crypto::Certificate> chain_;
  // Empty: none was asked for, or the client has not connected yet.
  std::optional<Result<crypto::PeerIdentity>> identity_;
  bool going_away_ = false;
  bool closed_ = false;
  std::unique_ptr<SimKeepalive> keepalive_;
  Pending expiry_;
  std::map<SimCallId, CallPtr> calls_;
};

namespace {

class ServerCallHandle final : public RpcServerCall {
 public:
  ServerCallHandle(std::shared_ptr<SimServerConnection> connection, CallPtr call)
      : connection_(std::move(connection)), call_(std::move(call)) {}
  ~ServerCallHandle() override { connection_->Drop(call_); }

  [[nodiscard]] const RpcCallInfo& info() const override { return call_->info; }
  void Listen(RpcServerEvents events) override {
    call_->events = std::move(events);
    call_->teller->Listen();
  }
  void SetResponseMetadata(RpcMetadata metadata) override {
    CHECK(!call_->head_sent || call_->ended, "response metadata after the response has begun");
    call_->metadata = std::move(metadata);
  }
  RpcSend Send(RpcMessage message) override { return connection_->Send(call_, std::move(message)); }
  using RpcServerCall::Finish;
  void Finish(Status status, RpcMetadata trailing) override {
    connection_->Finish(call_, std::move(status), std::move(trailing));
  }
  void Pause() override { call_->teller->Pause(); }
  void Resume() override { call_->teller->Resume(); }

 private:
  std::shared_ptr<SimServerConnection> connection_;
  CallPtr call_;
};

}  // namespace

// --- SimServerConnection: frames -----------------------------------------------------------------

void SimServerConnection::OnFrame(SimFrame frame) {
  const auto self = shared_from_this();
  if (keepalive_ != nullptr) keepalive_->Heard();
  std::visit(Overloaded{[this](SimConnect& connect) { OnConnect(connect); },
                        [this](SimHeaders& headers) { OnHeaders(headers); },
                        [this](SimData& data) { OnData(data); },
                        [this](SimHalfClose& half_close) { OnHalfClose(half_close.call); },
                        [this](SimReset& reset) {
                          const CallPtr call = Find(reset.call);
                          if (call == nullptr) return;
                          Cancel(call,
                                 {.code = Code::kCancelled, .message = "cancelled by the client"},
                                 Client::kKnows);
                        },
                        [this](SimCredit& credit) { OnCredit(credit.call); },
                        [this](SimPing&) { ToClient(SimPong{}); },
                        [this](SimClosed& closed) {
                          CancelAll(closed.why, Client::kKnows);
                          Close();
                        },
                        [](auto&) {}},
             frame);
}

void SimServerConnection::OnConnect(SimConnect& connect) {
  const auto refuse = [this](const Error& why) {
    ToClient(SimClosed{.why = why});
    Close();
  };
  if (going_away_ || !server_->IsOpen(port_)) return refuse(Unavailable("connection refused"));
  if (port_ != RpcPort::kRegistration) {
    crypto::PeerVerdict verdict = network_.Verify(
        {.chain = connect.chain, .roots = server_->tls_->roots, .now = loop_.WallNow()});
    if (!verdict.chain) return refuse(Unauthenticated("the server refused our certificate"));
    chain_ = std::move(connect.chain);
    identity_ = std::move(verdict.identity);
    const Duration life = chain_.front().facts().not_after - loop_.WallNow();
    expiry_ = loop_.CallAfter(life + crypto::kClockSkew, [this] {
      CloseWith(Unavailable("the client's certificate has expired"));
    });
  }
  keepalive_ = std::make_unique<SimKeepalive>(
      loop_,
      SimKeepalive::Options{.after = server_->options_.ping_after,
                            .limit = server_->options_.ping_limit,
                            .ping = [this] { ToClient(SimPing{}); },
                            .dead = [this] { CloseWith(Unavailable("no answer to a ping")); }});
  ToClient(SimAccepted{.chain = server_->tls_->chain});
  server_->LimitConnections(*this);
}

// The order of the checks is that of the real transport: see core/rpc_policy.h.
Result<const RpcPolicyRow*> SimServerConnection::Judge(const SimHeaders& headers) const {
  const RpcPolicyRow* row = FindRpcPolicy(server_->options_.policy, headers.path, port_);
  if (row == nullptr) {
    return Fail({.code = Code::kUnimplemented,
                 .message = fmt::format("{} is not offered here", Quote(headers.path))});
  }
  if (identity_ && !*identity_) return Fail(identity_->error());
  std::optional<crypto::Role> role;
  if (identity_) role = (*identity_)->role;
  if (!Admits(*row, role)) return Fail(PermissionDenied("this role may not call this method"));
  if (!server_->HasRoomFor(*row, *this)) {
    if (row->limits == RpcLimitsClass::kRegistration) {
      return Fail(Unavailable("too many registrations at once"));
    }
    return Fail(ResourceExhausted("too many calls at once"));
  }
  return row;
}

void SimServerConnection::OnHeaders(SimHeaders& headers) {
  if (going_away_ || closed_) {
    return ToClient(SimTrailers{.call = headers.call,
                                .status = Fail(Unavailable("the server is going away")),
                                .refused = SimRefused::kBeforeHandling});
  }
  const Result<const RpcPolicyRow*> row = Judge(headers);
  if (!row) return ToClient(SimTrailers{.call = headers.call, .status = Fail(row.error())});

  auto call = std::make_shared<ServerCall>(loop_, headers.call);
  call->info = {.port = port_, .policy = *row, .peer = {.address = from_}};
  if (identity_) call->info.peer.identity = **identity_;
  std::ranges::copy_if(headers.metadata, std::back_inserter(call->info.metadata),
                       [&](const RpcMetadataEntry& entry) {
                         return std::ranges::count((*row)->metadata, entry.name) > 0;
                       });
  if (headers.timeout) call->info.deadline = loop_.Now() + *headers.timeout;
  if ((*row)->time_limit) {
    call->info.deadline = std::min(call->info.deadline, loop_.Now() + *(*row)->time_limit);
  }
  if (call->info.deadline != Instant::Never()) {
    call->deadline = loop_.CallAt(call->info.deadline, [this, id = call->id] {
      if (const CallPtr late = Find(id)) {
        Cancel(late, DeadlineExceeded("deadline exceeded"), Client::kIsTold);
      }
    });
  }
  calls_.emplace(call->id, call);
  if (!call->offered() || !HasSingleRequest(call->kind())) Accept(call);
}

void SimServerConnection::Accept(const CallPtr& call) {
  call->accepted = true;
  const auto acceptor = acceptor_;  // It may let go of the server, and so of this.
  (*acceptor)(std::make_unique<ServerCallHandle>(shared_from_this(), call));
}

void SimServerConnection::OnData(SimData& data) {
  const CallPtr call = Find(data.call);
  if (call == nullptr || !call->offered()) return;
  if (!data.message) return Cancel(call, data.message.error(), Client::kIsTold);
  if (!HasSingleRequest(call->kind())) return TellMessage(call, *std::move(data.message));
  if (call->single_request) {
    return Cancel(call, {.code = Code::kUnimplemented, .message = "more than one request message"},
                  Client::kIsTold);
  }
  call->single_request = *std::move(data.message);
}

void SimServerConnection::OnHalfClose(SimCallId id) {
  const CallPtr call = Find(id);
  if (call == nullptr || !call->offered()) return;
  if (!HasSingleRequest(call->kind())) return TellHalfClose(call);
  if (!call->single_request) {
    return Cancel(call, {.code = Code::kUnimplemented, .message = "no request message"},
                  Client::kIsTold);
  }
  if (going_away_) {
    calls_.erase(id);
    call->deadline.Cancel();
    ToClient(SimTrailers{.call = id,
                         .status = Fail(Unavailable("the server is going away")),
                         .refused = SimRefused::kBeforeHandling});
    return CheckGoneAway();
  }
  TellMessage(call, *std::exchange(call->single_request, std::nullopt));
  TellHalfClose(call);
  Accept(call);
}

void SimServerConnection::TellMessage(const CallPtr& call, RpcMessage message) {
  call->teller->Tell([this, call, message = std::move(message)]() mutable {
    if (!closed_) ToClient(SimCredit{.call = call->id});
    CallEvent(call->events.message, [&] { return !call->abandoned; }, std::move(message));
  });
}

void SimServerConnection::TellHalfClose(const CallPtr& call) {
  call->teller->Tell([call] { CallEvent(call->events.half_close, [] { return false; }); });
}

void SimServerConnection::OnCredit(SimCallId id) {
  const CallPtr call = Find(id);
  if (call == nullptr || !call->queue.Credit()) return;
  call->teller->TellAtOnce(
      [call] { CallEvent(call->events.drained, [&] { return !call->abandoned; }); });
}

// --- SimServerConnection: verbs ------------------------------------------------------------------

void SimServerConnection::SendHead(const CallPtr& call) {
  if (call->head_sent) return;
  call->head_sent = true;
  ToClient(SimResponseHead{.call = call->id, .metadata = call->metadata});
}

RpcSend SimServerConnection::Send(const CallPtr& call, RpcMessage message) {
  if (call->ended || call->queue.full()) return RpcSend::kRefused;
  CHECK(!HasSingleResponse(call->kind()) || call->messages_sent == 0, "{}: a second response",
        call->info.policy->path);
  auto carried =
      network_.Carry(call->info.policy->path, SimNetwork::Direction::kResponse, std::move(message));
  if (!carried) return RpcSend::kTooLarge;
  SendHead(call);
  ++call->messages_sent;
  ToClient(SimData{.call = call->id, .message = *std::move(carried)});
  return call->queue.Take();
}

void SimServerConnection::Finish(const CallPtr& call, Status status, RpcMetadata trailing) {
  if (call->ended) return;
  CHECK(!status || !HasSingleResponse(call->kind()) || call->messages_sent == 1,
        "{}: finished without a response", call->info.policy->path);
  SendHead(call);
  ToClient(
      SimTrailers{.call = call->id, .status = std::move(status), .trailing = std::move(trailing)});
  call->ended = true;
  call->deadline.Cancel();
  call->teller->Stop();
  calls_.erase(call->id);
  CheckGoneAway();
}

void SimServerConnection::Drop(const CallPtr& call) {
  call->abandoned = true;
  Finish(call, Fail(Unavailable("the server has let go of the call")), {});
  call->teller->Stop();
  call->events = {};
}

// --- SimServerConnection: ends -------------------------------------------------------------------

void SimServerConnection::Cancel(const CallPtr& call, const Error& why, Client client) {
  calls_.erase(call->id);
  call->ended = true;
  call->deadline.Cancel();
  if (client == Client::kIsTold) {
    SendHead(call);
    ToClient(SimTrailers{.call = call->id, .status = Fail(why)});
  }
  if (call->accepted) {
    call->teller->End(
        [call, why] { CallEvent(call->events.cancelled, [] { return false; }, why); });
  } else {
    call->teller->Stop();
  }
  CheckGoneAway();
}

void SimServerConnection::CancelAll(const Error& why, Client client) {
  const auto calls = calls_;
  for (const auto& [id, call] : calls) Cancel(call, why, client);
}

void SimServerConnection::GoAway() {
  if (going_away_) return;
  going_away_ = true;
  ToClient(SimGoAway{});
  CheckGoneAway();
}

void SimServerConnection::CloseWith(const Error& why) {
  const auto self = shared_from_this();
  CancelAll(why, Client::kIsTold);
  if (closed_) return;
  ToClient(SimClosed{.why = Unavailable(why.message)});
  Close();
}

void SimServerConnection::CheckGoneAway() {
  if (!going_away_ || closed_ || !calls_.empty()) return;
  ToClient(SimClosed{.why = Unavailable("the server is going away")});
  Close();
}

// Timers are dropped a turn later: this may run inside one of them.
void SimServerConnection::Close() {
  if (closed_) return;
  closed_ = true;
  wire_->Detach(SimEnd::kServer);
  loop_.Post([self = shared_from_this()] {
    self->keepalive_.reset();
    self->expiry_.Cancel();
    if (self->server_ != nullptr) self->server_->Forget(*self);
  });
}

void SimServerConnection::Abandon() {
  server_ = nullptr;
  for (const auto& [id, call] : std::exchange(calls_, {})) {
    call->ended = true;
    call->deadline.Cancel();
    call->teller->Stop();
    call->events = {};
  }
  keepalive_.reset();
  expiry_.Cancel();
  if (closed_) return;
  closed_ = true;
  ToClient(SimClosed{.why = Unavailable("connection reset")});
  wire_->Detach(SimEnd::kServer);
}

// --- SimServerConnection: facts ------------------------------------------------------------------

bool SimServerConnection::Is(const RpcConnectionsOf& whose) const {
  if (!identity_ || !*identity_) return false;
  const crypto::PeerIdentity& identity = **identity_;
  return std::visit(
      Overloaded{[&](const RpcSerial& serial) { return identity.serial == serial.decimal; },
                 [&](const RpcIdentity& who) {
                   return identity.role == who.role && identity.id == who.id;
                 },
                 [&](const TenantId& tenant) { return identity.tenant == tenant; }},
      whose);
}

std::size_t SimServerConnection::Count(RpcLimitsClass limits) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      calls_, [&](const auto& entry) { return entry.second->info.policy->limits == limits; }));
}

bool SimServerConnection::HasStream() const {
  return std::ranges::any_of(calls_, [](const auto& entry) {
    return entry.second->accepted && entry.second->kind() != RpcKind::kUnary;
  });
}

// --- SimRpcServer --------------------------------------------------------------------------------

SimRpcServer::SimRpcServer(SimNetwork& network, Loop& loop, Options options)
    : network_(network), loop_(loop), options_(std::move(options)) {}

SimRpcServer::~SimRpcServer() {
  for (const auto& [port, listener] : listeners_) network_.StopListening(listener.address);
  for (const auto& [number, connection] : connections_) connection->Abandon();
}

Status SimRpcServer::SetTls(RpcTls material) {
  if (material == nullptr || material->chain.empty() || material->key == nullptr) {
    return Fail(InvalidArgument("a server needs a certificate and its key"));
  }
  const auto& key = material->chain.front().facts().public_key;
  if (key != material->key->public_key()) {
    return Fail(InvalidArgument("the key is not that of the certificate"));
  }
  if (material->roots.empty()) return Fail(InvalidArgument("the trust bundle is empty"));
  tls_ = std::move(material);
  const auto connections = connections_;
  for (const auto& [number, connection] : connections) {
    if (connection->FitsRoots(*tls_, loop_.WallNow())) continue;
    connection->CloseWith(Unavailable("the root of the client's certificate has left"));
  }
  return {};
}

Pending SimRpcServer::Open(RpcListen listen, Opened done) {
  CHECK(!IsOpen(listen.port) && !stopped_, "{}", RpcPortName(listen.port));
  RpcAddress address = listen.bind;
  if (address.port == 0) {
    std::uint16_t& chosen = chosen_ports_[listen.port];
    if (chosen == 0) chosen = network_.FreePort();
    address.port = chosen;
  }
  Status opened = Fail(FailedPrecondition("no TLS material"));
  if (tls_ != nullptr) opened = network_.Listen(address, *this);
  Result<RpcAddress> answer = address;
  if (opened) {
    listeners_[listen.port] = {.address = address,
                               .accept = std::make_shared<RpcAcceptor>(
                                   OfferedOnly(std::move(listen.accept), std::move(listen.gate)))};
  } else {
    answer = Fail(std::move(opened).error());
  }
  return loop_.CallAfter(
      Duration(),
      [done = std::move(done), answer = std::move(answer)]() mutable { done(std::move(answer)); });
}

Pending SimRpcServer::Close(RpcPort port, Instant deadline, Task done) {
  return CloseAll({port}, deadline, std::move(done));
}

Pending SimRpcServer::Stop(Instant deadline, Task done) {
  stopped_ = true;
  return CloseAll({RpcPort::kRegistration, RpcPort::kAgent, RpcPort::kOperator}, deadline,
                  std::move(done));
}

Pending SimRpcServer::CloseAll(std::vector<RpcPort> ports, Instant deadline, Task done) {
  for (const RpcPort port : ports) {
    if (const auto found = listeners_.find(port); found != listeners_.end()) {
      network_.StopListening(found->second.address);
      listeners_.erase(found);
    }
    for (const auto& connection : ConnectionsOn(port)) connection->GoAway();
  }
  const std::uint64_t number = next_closing_++;
  auto closing = std::make_shared<Closing>();
  closing->ports = std::move(ports);
  closing->done = std::move(done);
  closing->deadline = loop_.CallAt(deadline, [this, closing_ports = closing->ports] {
    for (const RpcPort port : closing_ports) {
      for (const auto& connection : ConnectionsOn(port)) {
        connection->CloseWith(Unavailable("the server is stopping"));
      }
    }
  });
  closings_.emplace(number, closing);
  loop_.Post([weak = std::weak_ptr(closing), this] {
    if (weak.lock() != nullptr) CheckClosings();
  });
  // Without the handle the closing goes on, but nobody is told.
  return Pending([weak = std::weak_ptr(closing)] {
    if (const auto held = weak.lock()) held->done = nullptr;
  });
}

void SimRpcServer::CheckClosings() {
  std::vector<Task> done;
  std::erase_if(closings_, [&](const auto& entry) {
    const Closing& closing = *entry.second;
    const bool busy = std::ranges::any_of(
        closing.ports, [this](RpcPort port) { return !ConnectionsOn(port).empty(); });
    if (busy) return false;
    done.push_back(std::move(entry.second->done));
    return true;
  });
  for (Task& task : done) {  // The last one may destroy the server.
    if (task) task();
  }
}

void SimRpcServer::CloseConnections(const RpcConnectionsOf& whose, const Error& why) {
  const auto connections = connections_;
  for (const auto& [number, connection] : connections) {
    if (connection->Is(whose)) connection->CloseWith(why);
  }
}

bool SimRpcServer::HasStreamOf(const RpcIdentity& whose) const {
  return std::ranges::any_of(connections_, [&](const auto& entry) {
    return entry.second->Is(whose) && entry.second->HasStream();
  });
}

std::vector<std::shared_ptr<SimServerConnection>> SimRpcServer::ConnectionsOn(RpcPort port) const {
  std::vector<std::shared_ptr<SimServerConnection>> found;
  for (const auto& [number, connection] : connections_) {
    if (connection->port() == port) found.push_back(connection);
  }
  return found;
}

bool SimRpcServer::HasRoomFor(const RpcPolicyRow& row, const SimServerConnection& caller) const {
  const std::optional<std::size_t> limit = InFlightLimit(row.limits);
  if (!limit) return true;
  std::size_t in_flight = 0;
  for (const auto& [number, connection] : connections_) {
    if (connection->port() != caller.port()) continue;
    const bool same_holder =
        row.port == RpcPort::kRegistration ||
        (row.port == RpcPort::kAgent ? connection->Is(RpcIdentity{.role = crypto::Role::kAgent,
                                                                  .id = (*caller.identity())->id})
                                     : connection->Is((*caller.identity())->tenant));
    if (same_holder) in_flight += connection->Count(row.limits);
  }
  return in_flight < *limit;
}

void SimRpcServer::LimitConnections(const SimServerConnection& newest) {
  if (!newest.identity() || !*newest.identity()) return;
  const crypto::PeerIdentity identity = **newest.identity();
  const bool agent = newest.port() == RpcPort::kAgent;
  const RpcConnectionsOf whose =
      agent ? RpcConnectionsOf(RpcIdentity{.role = identity.role, .id = identity.id})
            : RpcConnectionsOf(identity.tenant);
  std::vector<std::shared_ptr<SimServerConnection>> same;  // Oldest first.
  for (const auto& connection : ConnectionsOn(newest.port())) {
    if (connection->Is(whose)) same.push_back(connection);
  }
  if (agent && same.size() > kConnectionsPerAgent) {
    same.front()->CloseWith(Unavailable("replaced by a newer connection"));
  } else if (!agent && same.size() > kConnectionsPerTenant) {
    same.back()->CloseWith(Unavailable("too many connections of the tenant"));
  }
}

void SimRpcServer::OnWire(std::shared_ptr<SimWire> wire, const RpcAddress& from,
                          const RpcAddress& to) {
  const auto found = std::ranges::find_if(
      listeners_, [&](const auto& entry) { return entry.second.address == to; });
  CHECK(found != listeners_.end());
  const std::uint64_t number = next_connection_++;
  auto connection = std::make_shared<SimServerConnection>(
      *this,
      SimServerConnection::Origin{
          .number = number, .port = found->first, .from = from, .acceptor = found->second.accept},
      wire);
  wire->Attach(SimEnd::kServer, loop_, *connection);
  connections_.emplace(number, std::move(connection));
}

void SimRpcServer::Forget(const SimServerConnection& connection) {
  connections_.erase(connection.number());
  CheckClosings();
}

}  // namespace nstance::sim

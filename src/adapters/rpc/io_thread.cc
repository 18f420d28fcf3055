#include "adapters/rpc/io_thread.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/overloaded.h"

namespace nstance::grpc {
namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr Duration kAcceptPause = Duration::Milliseconds(100);

RpcAddress ToAddress(const sockaddr_storage& from) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (from.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    } else {
      inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    }
    return {.host = text.data(), .port = ntohs(v6.sin6_port)};
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
  inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  return {.host = text.data(), .port = ntohs(v4.sin_port)};
}

bool Matches(const ServerConnection& connection, const RpcConnectionsOf& whose) {
  const crypto::PeerIdentity* identity = connection.identity();
  if (identity == nullptr) return false;
  return std::visit(
      Overloaded{[&](const RpcSerial& serial) { return identity->serial == serial.decimal; },
                 [&](const RpcIdentity& who) {
                   return identity->role == who.role && identity->id == who.id;
                 },
                 [&](const TenantId& tenant) { return identity->tenant == tenant; }},
      whose);
}

}  // namespace

IoThread::IoThread(std::shared_ptr<ServerShared> shared, unsigned number, Hooks hooks)
    : shared_(std::move(shared)),
      hooks_(std::move(hooks)),
      // The loop is woken at the end of the turn, once for what all sockets of the turn brought.
      link_(std::make_shared<ThreadLink>([this] { loop_.Post([this] { hooks_.wake_loop(); }); },
                                         [this] { loop_.Post([this] { RunCommands(); }); })),
      host_{.loop = loop_,
            .link = *link_,
            .admission = *shared_->admission,
            .methods = shared_->methods,
            .policy = shared_->policy,
            .logger = shared_->logger,
            .source = {.interface = "rpc", .probe = &probe_},
            .untaken_bytes = shared_->untaken_bytes,
            .may_handshake = [this](ServerConnection& c) { return MayHandshake(c); },
            .opened = [this](ServerConnection& c) { Opened(c); },
            .gone = [this](ServerConnection& c) { Gone(c); },
            .make_room = [this](ConnectionId id) { hooks_.make_room(id); },
            .input_done = [this] { CheckFull(); }},
      next_id_((ConnectionId{number} << 48U) + 1) {
  const RulesOfListeners& rules = shared_->rules;
  for (const ListenerRules* of : {&rules.registration, &rules.agent, &rules.operators}) {
    rules_.emplace(of->port, *of);
  }
  thread_ = std::thread([this] { loop_.Run(); });
}

IoThread::~IoThread() { CHECK(!thread_.joinable()); }

void IoThread::Join() {
  loop_.Post([this] {
    listeners_.clear();
    closing_.clear();
    for (const auto& connection : ConnectionsOf([](const auto&) { return true; })) {
      connection->CutOff();
    }
    loop_.Stop();
  });
  thread_.join();
  link_->Close();
}

// --- Listening ----------------------------------------------------------------------------------

void IoThread::SetTls(const ServerTls& tls) {
  tls_ = tls;
  for (const auto& connection : ConnectionsOf([](const auto&) { return true; })) {
    if (!connection->StillTrusted(*tls_.mutual)) {
      connection->CloseWith(Unauthenticated("the certificate's root is no longer trusted"));
    }
  }
}

void IoThread::Listen(RpcPort port, Descriptor socket) {
  Listener& listener = listeners_[port];
  const int descriptor = socket.get();
  listener.socket = std::move(socket);
  // Behind what was posted before: a client that connects after SetTls() sees what that has set.
  listener.watch = loop_.Watch(descriptor, {.readable = true}, [this, port](Readiness) {
    loop_.Post([this, port] { OnAcceptable(port); });
  });
  SetAccepting();
}

void IoThread::SetAccepting() {
  for (auto& [port, listener] : listeners_) {
    Line& line = lines_[port];
    const bool behind = line.waiting_us.size() >= rules_.at(port).max_waiting_us;
    if (behind && !line.behind) host_.source.Limit("rpc_handshake_line");
    line.behind = behind;
    listener.watch->SetInterest({.readable = !behind && !host_.reading_paused && !listener.paused});
  }
}

void IoThread::OnAcceptable(RpcPort port) {
  const auto at = listeners_.find(port);
  if (at != listeners_.end()) AcceptSome(port, at->second);
}

void IoThread::AcceptSome(RpcPort port, Listener& listener) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (hooks_.behind()) return;  // The kernel holds them; the next turn looks again.
    sockaddr_storage from{};
    socklen_t size = sizeof(from);
    Descriptor socket(accept4(listener.socket.get(), reinterpret_cast<sockaddr*>(&from), &size,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        host_.source.Limit("rpc_descriptors");
        listener.paused = true;
        listener.pause = loop_.CallAfter(kAcceptPause, [this, &listener] {
          listener.paused = false;
          SetAccepting();
        });
        return SetAccepting();
      }
      continue;  // That one connection failed before it was taken.
    }
    Accepted accepted{.port = port, .socket = std::move(socket), .address = ToAddress(from)};
    if (AdmitAddress(port, accepted.address)) hooks_.deal(std::move(accepted));
  }
}

// Cheapest first: nothing has been done for the connection yet.
bool IoThread::AdmitAddress(RpcPort port, const RpcAddress& address) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Status admitted = shared_->admission->Accept(port, address.host);
    if (admitted.has_value()) return true;
    host_.source.Limit(admitted.error().message);
    host_.logger.Debug("connection refused", {{"port", RpcPortName(port)},
                                              {"peer", address.host},
                                              {"reason", admitted.error().message}});
    if (attempt > 0 || admitted.error().message != "registration_connections") return false;
    // Full of clients: the one that has been idle longest makes room.
    const auto idle =
        ConnectionsOf([&](const ServerConnection& c) { return c.port() == port && c.idle(); });
    if (idle.empty()) return false;
    idle.front()->CutOff();
  }
  return false;
}

void IoThread::Adopt(Accepted accepted) {
  const RpcPort port = accepted.port;
  if (!open_.contains(port)) {  // Closed while it was on its way from the thread that accepts.
    return shared_->admission->Release(
        {.port = port, .connection = 0, .host = accepted.address.host, .identity = nullptr});
  }
  const ListenerRules& rules = rules_.at(port);
  const auto& context =
      rules.client_certificates == ClientCertificates::kNone ? tls_.anonymous : tls_.mutual;
  const int one = 1;
  setsockopt(accepted.socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  const ConnectionId id = next_id_++;
  auto connection = std::make_shared<ServerConnection>(
      ServerConnection::Parts{.host = host_,
                              .rules = rules,
                              .id = id,
                              .address = std::move(accepted.address),
                              .tls = context},
      std::move(accepted.socket));
  connections_.emplace(id, connection);
  if (host_.reading_paused) connection->SetReading(false);
  connection->Start();
  EnterLine(*connection);
}

// --- Handshakes ---------------------------------------------------------------------------------

void IoThread::EnterLine(ServerConnection& connection) {
  Line& line = lines_[connection.port()];
  const std::string address = AddressKey(connection.address().host);
  line.waiting_client.emplace(connection.id(), address);
  ++line.by_address[address];
  HoldWaitingLimits(connection.port(), address);
}

void IoThread::LeaveLine(ServerConnection& connection) {
  Line& line = lines_[connection.port()];
  const auto entry = line.waiting_client.find(connection.id());
  if (entry == line.waiting_client.end()) return;
  const auto count = line.by_address.find(entry->second);
  if (--count->second == 0) line.by_address.erase(count);
  line.waiting_client.erase(entry);
}

// REQUIRES: somebody from that address waits.
void IoThread::HoldWaitingLimits(RpcPort port, const std::string& address) {
  Line& line = lines_[port];
  const ListenerRules& rules = rules_.at(port);
  auto oldest = line.waiting_client.end();
  if (line.waiting_client.size() > rules.max_waiting_client) {
    host_.source.Limit("rpc_waiting_handshakes");
    oldest = line.waiting_client.begin();
  } else if (line.by_address.find(address)->second > rules.max_waiting_per_address) {
    oldest = std::ranges::find(line.waiting_client, address,
                               &decltype(line.waiting_client)::value_type::second);
    if (shared_->admission->Exempt(connections_.at(oldest->first)->address().host)) return;
    host_.source.Limit("rpc_waiting_handshakes_per_address");
  }
  if (oldest != line.waiting_client.end()) {
    std::shared_ptr(connections_.at(oldest->first))->CutOff();
  }
}

bool IoThread::MayHandshake(ServerConnection& connection) {
  const RpcPort port = connection.port();
  Line& line = lines_[port];
  LeaveLine(connection);
  line.waiting_us.push_back(connection.id());
  if (!std::exchange(line.posted, true)) loop_.Post([this, port] { RunHandshakes(port); });
  SetAccepting();
  return false;
}

void IoThread::RunHandshakes(RpcPort port) {
  Line& line = lines_[port];
  line.posted = false;
  for (std::size_t i = 0; i < rules_.at(port).handshakes_per_turn; ++i) {
    if (line.waiting_us.empty()) break;
    const ConnectionId id = line.waiting_us.front();
    line.waiting_us.pop_front();
    const auto at = connections_.find(id);
    if (at == connections_.end()) continue;
    const std::shared_ptr<ServerConnection> connection = at->second;
    connection->ContinueHandshake();
    if (connection->handshaking()) EnterLine(*connection);
  }
  if (!line.waiting_us.empty()) {
    line.posted = true;
    loop_.Post([this, port] { RunHandshakes(port); });
  }
  SetAccepting();
}

void IoThread::Opened(ServerConnection& connection) { LeaveLine(connection); }

void IoThread::Gone(ServerConnection& connection) {
  LeaveLine(connection);
  const RpcPort port = connection.port();
  const ConnectionId id = connection.id();
  connections_.erase(id);  // The caller keeps it alive.
  const auto closing = closing_.find(port);
  if (closing == closing_.end()) return;
  closing->second.left.erase(id);
  FinishClosing(port);
}

// --- Calls --------------------------------------------------------------------------------------

void IoThread::RunCommands() {
  std::vector<std::shared_ptr<ServerConnection>> touched;
  for (Command& command : link_->TakeCommands()) {
    const ConnectionId id = command.call ? command.call->connection : command.connection;
    const auto at = connections_.find(id);
    if (at == connections_.end()) continue;
    const std::shared_ptr<ServerConnection> connection = at->second;
    connection->Execute(std::move(command));
    if (touched.empty() || touched.back() != connection) touched.push_back(connection);
  }
  for (const auto& connection : touched) connection->Settle();  // One write each.
  CheckFull();
}

void IoThread::CheckFull() {
  if (host_.reading_paused || !link_->full()) return;
  host_.reading_paused = true;
  host_.source.Limit("rpc_loop_queue");
  for (const auto& [id, connection] : connections_) connection->SetReading(false);
  SetAccepting();
}

void IoThread::EventsHandled() {
  if (!host_.reading_paused || link_->full()) return;
  host_.reading_paused = false;
  for (const auto& connection : ConnectionsOf([](const auto&) { return true; })) {
    connection->SetReading(true);
  }
  SetAccepting();
}

// --- Closing ------------------------------------------------------------------------------------

// Sorted by age; copies, since closing one may take it out of the map.
std::vector<std::shared_ptr<ServerConnection>> IoThread::ConnectionsOf(
    const std::function<bool(const ServerConnection&)>& which) const {
  std::vector<std::shared_ptr<ServerConnection>> found;
  for (const auto& [id, connection] : connections_) {
    if (which(*connection)) found.push_back(connection);
  }
  std::ranges::sort(found, {}, [](const auto& connection) { return connection->id(); });
  return found;
}

void IoThread::CloseConnections(const RpcConnectionsOf& whose, const Error& why) {
  for (const auto& c : ConnectionsOf([&](const auto& x) { return Matches(x, whose); })) {
    c->CloseWith(why);
  }
}

void IoThread::CloseConnection(ConnectionId id, const Error& why) {
  const auto at = connections_.find(id);
  if (at != connections_.end()) std::shared_ptr(at->second)->CloseWith(why);
}

void IoThread::ClosePort(RpcPort port, Instant deadline, Task done) {
  listeners_.erase(port);
  open_.erase(port);
  const auto of_port = [port](const ServerConnection& c) { return c.port() == port; };
  // Closed again before it was done: the later deadline counts, and both are told.
  // Connections of a port that is opened again meanwhile are not among those that are waited for.
  const std::vector<std::shared_ptr<ServerConnection>> draining = ConnectionsOf(of_port);
  Closing& closing = closing_[port];
  closing.done.push_back(std::move(done));
  for (const auto& connection : draining) closing.left.insert(connection->id());
  closing.deadline = loop_.CallAt(deadline, [this, left = closing.left] {
    for (const ConnectionId id : left) {
      CloseConnection(id, Unavailable("the server is stepping down"));
    }
  });
  for (const auto& connection : draining) connection->Drain();
  FinishClosing(port);
}

void IoThread::FinishClosing(RpcPort port) {
  const auto at = closing_.find(port);
  if (at == closing_.end() || !at->second.left.empty()) return;
  std::vector<Task> done = std::move(at->second.done);
  closing_.erase(at);
  for (Task& task : done) task();
}

}  // namespace nstance::grpc

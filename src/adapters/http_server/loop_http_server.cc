#include "adapters/http_server/loop_http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "adapters/http_server/http_head.h"
#include "adapters/http_server/http_tls.h"
#include "base/check.h"

namespace nstance {
namespace {

using http_server::BodyWanted;
using http_server::HttpTlsIdentity;
using http_server::HttpTlsStream;
using http_server::HttpTransfer;

constexpr std::size_t kLingerBytes = std::size_t{64} * 1024;
constexpr int kBacklog = 64;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Result<Address> ParseAddress(const std::string& host, std::uint16_t port) {
  Address address;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  if (host.empty() || inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.size = sizeof(sockaddr_in6);
    return address;
  }
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.size = sizeof(sockaddr_in);
    return address;
  }
  return Fail(InvalidArgument(fmt::format("{} is no literal address", host)));
}

// Where IPv6 is switched off, "all addresses" are those of IPv4.
Address AllIpv4(std::uint16_t port) {
  Address address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  address.size = sizeof(sockaddr_in);
  return address;
}

std::uint16_t PortOf(int descriptor) {
  Address bound;
  bound.size = sizeof(bound.storage);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound.storage), &bound.size) != 0) {
    return 0;
  }
  return ntohs(bound.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(bound.storage).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(bound.storage).sin_port);
}

// A listening socket, or -1 with errno.
int ListenOn(const Address& address) {
  const int socket =
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const int on = 1;
  const int off = 0;
  (void)setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.storage.ss_family == AF_INET6) {
    (void)setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0 &&
      listen(socket, kBacklog) == 0) {
    return socket;
  }
  const int error_number = errno;
  (void)close(socket);
  errno = error_number;
  return -1;
}

HttpTransfer PlainOutcome(ssize_t count, HttpTransfer::State again) {
  if (count > 0) {
    return {.state = HttpTransfer::State::kMoved, .bytes = static_cast<std::size_t>(count)};
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return {.state = again};
  return {};
}

}  // namespace

class LoopHttpServer::State final : public std::enable_shared_from_this<State> {
 public:
  State(RealLoop& loop, const Options& options) : loop_(loop), options_(options) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    connections_.clear();
    watch_.reset();
    if (listener_ >= 0) (void)close(listener_);
  }

  Result<std::uint16_t> Listen(const std::string& host, std::uint16_t port, HttpPage page);
  Status UseTls(const RpcTlsMaterial& material);
  void Reply(std::uint64_t id, const HttpAnswer& answer);
  // Its reply was dropped unanswered.
  void Unanswered(std::uint64_t id);
  [[nodiscard]] std::size_t connections() const { return connections_.size(); }

 private:
  enum class Phase : std::uint8_t { kReading, kAsking, kWriting, kLingering };
  struct Connection {
    explicit Connection(int number) : descriptor(number) {}
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() {
      watch.reset();
      tls.reset();
      (void)close(descriptor);
    }
    [[nodiscard]] HttpTransfer Receive(std::span<char> into) const {
      if (tls != nullptr) return tls->Receive(into);
      return PlainOutcome(recv(descriptor, into.data(), into.size(), 0),
                          HttpTransfer::State::kWantsRead);
    }
    [[nodiscard]] HttpTransfer Send(std::span<const char> from) const {
      if (tls != nullptr) return tls->Send(from);
      return PlainOutcome(send(descriptor, from.data(), from.size(), MSG_NOSIGNAL),
                          HttpTransfer::State::kWantsWrite);
    }
    // Waits for what the transfer could not go on without.
    void WaitFor(HttpTransfer::State wanted) const {
      watch->SetInterest({.readable = wanted == HttpTransfer::State::kWantsRead,
                          .writable = wanted == HttpTransfer::State::kWantsWrite});
    }

    int descriptor;
    std::unique_ptr<HttpTlsStream> tls = nullptr;  // Null: plain.
    std::unique_ptr<DescriptorWatch> watch = nullptr;
    Pending limit = {};
    Phase phase = Phase::kReading;
    BodyWanted body = BodyWanted::kYes;
    std::string in = {};
    std::string out = {};
    std::size_t written = 0;
    std::size_t lingered = 0;
  };

  void Accept();
  void Add(int descriptor);
  void MakeRoom();
  void OnReady(std::uint64_t id, Readiness ready);
  void Read(std::uint64_t id, Connection& connection);
  void Ask(std::uint64_t id, Connection& connection, std::size_t head_bytes);
  void Refuse(std::uint64_t id, const http_server::Refusal& refusal);
  void Write(std::uint64_t id, Connection& connection);
  void Linger(std::uint64_t id, Connection& connection);
  void Drop(std::uint64_t id, Connection& connection);
  void Limit(std::uint64_t id, Duration length, void (State::*then)(std::uint64_t));
  void TooSlow(std::uint64_t id);
  void Close(std::uint64_t id) { connections_.erase(id); }

  RealLoop& loop_;
  Options options_;
  HttpPage page_;
  std::shared_ptr<const HttpTlsIdentity> identity_;
  int listener_ = -1;
  std::unique_ptr<DescriptorWatch> watch_;
  std::map<std::uint64_t, Connection> connections_;  // By age.
  std::uint64_t next_ = 1;
};

namespace {

// Closes the connection if the reply goes without having been given.
template <class State>
class OpenReply final {
 public:
  OpenReply(std::weak_ptr<State> server, std::uint64_t id) : server_(std::move(server)), id_(id) {}
  OpenReply(OpenReply&& other) noexcept
      : server_(std::exchange(other.server_, {})), id_(other.id_) {}
  OpenReply& operator=(OpenReply&&) = delete;
  OpenReply(const OpenReply&) = delete;
  OpenReply& operator=(const OpenReply&) = delete;
  ~OpenReply() {
    if (const auto server = server_.lock()) server->Unanswered(id_);
  }
  void operator()(const HttpAnswer& answer) {
    if (const auto server = std::exchange(server_, {}).lock()) server->Reply(id_, answer);
  }

 private:
  std::weak_ptr<State> server_;
  std::uint64_t id_;
};

}  // namespace

Result<std::uint16_t> LoopHttpServer::State::Listen(const std::string& host, std::uint16_t port,
                                                    HttpPage page) {
  CHECK(listener_ < 0, "listens already");
  ASSIGN_OR_RETURN(const Address address, ParseAddress(host, port));
  listener_ = ListenOn(address);
  if (listener_ < 0 && host.empty() && errno == EAFNOSUPPORT) listener_ = ListenOn(AllIpv4(port));
  if (listener_ < 0) {
    const std::error_code error(errno, std::generic_category());
    return Fail(
        Unavailable(fmt::format("cannot listen on {}:{}: {}", host, port, error.message())));
  }
  page_ = std::move(page);
  watch_ = loop_.Watch(listener_, {.readable = true}, [this](Readiness) { Accept(); });
  return PortOf(listener_);
}

void LoopHttpServer::State::Accept() {
  // A bounded number per turn; the rest is told again.
  for (int i = 0; i < 16; ++i) {
    const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) return;
    Add(descriptor);
  }
}

Status LoopHttpServer::State::UseTls(const RpcTlsMaterial& material) {
  ASSIGN_OR_RETURN(identity_, HttpTlsIdentity::Make(material));
  return {};
}

void LoopHttpServer::State::Add(int descriptor) {
  if (options_.tls && identity_ == nullptr) {
    (void)close(descriptor);  // Nothing is said in the clear.
    return;
  }
  if (connections_.size() >= options_.limits.connections) MakeRoom();
  if (connections_.size() >= options_.limits.connections) {
    (void)close(descriptor);
    return;
  }
  const std::uint64_t id = next_++;
  Connection& connection = connections_.try_emplace(id, descriptor).first->second;
  if (options_.tls) connection.tls = std::make_unique<HttpTlsStream>(identity_, descriptor);
  connection.watch = loop_.Watch(descriptor, {.readable = true},
                                 [this, id](Readiness ready) { OnReady(id, ready); });
  Limit(id, options_.limits.head, &State::TooSlow);
}

void LoopHttpServer::State::MakeRoom() {
  options_.source.Limit("http_connections");
  const auto oldest = std::ranges::find_if(
      connections_, [](const auto& entry) { return entry.second.phase == Phase::kReading; });
  if (oldest != connections_.end()) connections_.erase(oldest);
}

void LoopHttpServer::State::Limit(std::uint64_t id, Duration length,
                                  void (State::*then)(std::uint64_t)) {
  connections_.at(id).limit = loop_.CallAfter(length, [this, id, then] { (this->*then)(id); });
}

void LoopHttpServer::State::TooSlow(std::uint64_t id) {
  Refuse(id, {.status = 408, .why = "the request took too long"});
}

void LoopHttpServer::State::OnReady(std::uint64_t id, Readiness ready) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  Connection& connection = at->second;
  switch (connection.phase) {
    case Phase::kReading: return Read(id, connection);
    case Phase::kAsking:
      // Nothing is read now; only a peer that is wholly gone is told.
      if (ready.closed) Close(id);
      return;
    case Phase::kWriting: return Write(id, connection);
    case Phase::kLingering: return Drop(id, connection);
  }
}

void LoopHttpServer::State::Read(std::uint64_t id, Connection& connection) {
  std::array<char, 4'096> buffer{};
  // What TLS has deciphered is not told by the descriptor again, so it is all taken.
  for (;;) {
    const HttpTransfer got = connection.Receive(buffer);
    if (got.state == HttpTransfer::State::kEnded) return Close(id);
    if (got.state != HttpTransfer::State::kMoved) return connection.WaitFor(got.state);
    connection.in.append(buffer.data(), got.bytes);
    const std::size_t head = http_server::FindHeadEnd(connection.in);
    if (head <= http_server::kMaxHeadBytes) return Ask(id, connection, head);
    if (connection.in.size() > http_server::kMaxHeadBytes) {
      return Refuse(id, {.status = 431, .why = "the request is too long"});
    }
  }
}

void LoopHttpServer::State::Ask(std::uint64_t id, Connection& connection, std::size_t head_bytes) {
  const auto head = http_server::ParseHead(std::string_view(connection.in).substr(0, head_bytes));
  connection.in.clear();
  if (!head) return Refuse(id, head.error());
  connection.phase = Phase::kAsking;
  connection.body = head->body;
  connection.watch->SetInterest({});
  Limit(id, options_.limits.handler, &State::Close);
  // The handler may do anything, also destroy the server.
  const std::shared_ptr<State> alive = shared_from_this();
  page_(head->question, OpenReply<State>(weak_from_this(), id));
}

void LoopHttpServer::State::Refuse(std::uint64_t id, const http_server::Refusal& refusal) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  options_.source.Bad("request");
  at->second.phase = Phase::kAsking;
  Reply(id, {.status = refusal.status, .body = fmt::format("{}\n", refusal.why)});
}

void LoopHttpServer::State::Unanswered(std::uint64_t id) {
  const auto at = connections_.find(id);
  if (at != connections_.end() && at->second.phase == Phase::kAsking) Close(id);
}

void LoopHttpServer::State::Reply(std::uint64_t id, const HttpAnswer& answer) {
  const auto at = connections_.find(id);
  if (at == connections_.end() || at->second.phase != Phase::kAsking) return;
  Connection& connection = at->second;
  connection.out = http_server::FormatAnswer(answer, connection.body);
  connection.phase = Phase::kWriting;
  Limit(id, options_.limits.answer, &State::Close);
  Write(id, connection);
}

void LoopHttpServer::State::Write(std::uint64_t id, Connection& connection) {
  while (connection.written < connection.out.size()) {
    const HttpTransfer sent =
        connection.Send(std::span(connection.out).subspan(connection.written));
    if (sent.state == HttpTransfer::State::kEnded) return Close(id);
    if (sent.state != HttpTransfer::State::kMoved) return connection.WaitFor(sent.state);
    connection.written += sent.bytes;
  }
  Linger(id, connection);
}

void LoopHttpServer::State::Linger(std::uint64_t id, Connection& connection) {
  if (connection.tls != nullptr) connection.tls->EndSending();
  (void)shutdown(connection.descriptor, SHUT_WR);
  connection.phase = Phase::kLingering;
  connection.out.clear();
  connection.watch->SetInterest({.readable = true});
  Limit(id, options_.limits.linger, &State::Close);
}

// Bytes of the descriptor, whatever they would have meant.
void LoopHttpServer::State::Drop(std::uint64_t id, Connection& connection) {
  std::array<char, 4'096> buffer{};
  const ssize_t count = recv(connection.descriptor, buffer.data(), buffer.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return Close(id);
  connection.lingered += static_cast<std::size_t>(count);
  if (connection.lingered > kLingerBytes) Close(id);
}

LoopHttpServer::LoopHttpServer(RealLoop& loop, Options options)
    : state_(std::make_shared<State>(loop, options)) {}

LoopHttpServer::~LoopHttpServer() = default;

Result<std::uint16_t> LoopHttpServer::Listen(const std::string& host, std::uint16_t port,
                                             HttpPage page) {
  return state_->Listen(host, port, std::move(page));
}

Status LoopHttpServer::UseTls(const RpcTlsMaterial& material) { return state_->UseTls(material); }

std::size_t LoopHttpServer::connections() const { return state_->connections(); }

}  // namespace nstance

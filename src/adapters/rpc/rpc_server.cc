#include "adapters/rpc/rpc_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "adapters/rpc/io_thread.h"
#include "adapters/rpc/server_call.h"
#include "base/check.h"
#include "ports/rpc_offer.h"

namespace nstance::grpc {
namespace {

constexpr int kBacklog = 1024;
// Events of the registration thread that one turn of the loop handles.
// Accepted connections on their way to another thread.
constexpr std::size_t kMaxDealt = 256;
constexpr std::size_t kRegistrationShare = 64;
constexpr std::size_t kOtherShare = 1024;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Result<SocketAddress> ToSocketAddress(const RpcAddress& address) {
  SocketAddress out;
  auto& v4 = reinterpret_cast<sockaddr_in&>(out.storage);
  if (inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    out.size = sizeof(sockaddr_in);
    return out;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out.storage);
  if (inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    out.size = sizeof(sockaddr_in6);
    return out;
  }
  return nstance::Fail(InvalidArgument(
      fmt::format("bind address {} is no IPv4 or IPv6 address", Quote(address.host))));
}

std::uint16_t PortOf(int descriptor) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  CHECK(getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size) == 0, "errno {}",
        errno);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

Result<Descriptor> Bind(const RpcAddress& address) {
  ASSIGN_OR_RETURN(const SocketAddress where, ToSocketAddress(address));
  Descriptor socket(
      ::socket(where.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int one = 1;
  if (!socket.valid() ||
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&where.storage), where.size) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return nstance::Fail(
        Unavailable(fmt::format("cannot listen on {} port {}: {}", address.host, address.port,
                                std::generic_category().message(errno))));
  }
  return socket;
}

// Each thread holds its part of what a port may have waiting.
RulesOfListeners Shared(RulesOfListeners rules, std::size_t threads) {
  for (ListenerRules* port : {&rules.agent, &rules.operators}) {
    for (std::size_t* limit :
         {&port->max_waiting_client, &port->max_waiting_per_address, &port->max_waiting_us}) {
      *limit = std::max<std::size_t>(*limit / threads, 1);
    }
  }
  return rules;
}

// Runs `done` on the loop unless the Pending went first.
struct Answer {
  Task done;
};

Pending PendingOf(const std::shared_ptr<Answer>& answer) {
  return Pending([answer] { answer->done = nullptr; });
}

void Run(const std::shared_ptr<Answer>& answer) {
  if (Task done = std::exchange(answer->done, nullptr)) done();
}

std::shared_ptr<ServerShared> MakeShared(const RpcServerSetup& setup) {
  auto admission = std::make_unique<Admission>(setup.limits);
  return std::make_shared<ServerShared>(
      ServerShared{.methods = setup.methods,
                   .policy = setup.policy,
                   .logger = setup.logger,
                   .admission = std::move(admission),
                   .rules = Shared(setup.rules, std::max(setup.io_threads, 1U))});
}

}  // namespace

class SocketRpcServer::Core final : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(const RpcServerSetup& setup)
      : loop_(setup.loop), io_threads_(std::max(setup.io_threads, 1U)), shared_(MakeShared(setup)) {
    for (const RpcPolicyRow& row : setup.policy) {
      const RpcMethod* method = FindRpcMethod(setup.methods, row.path);
      CHECK(row.offer == RpcOffer::kNotOffered || (method != nullptr && method->kind == row.kind),
            "policy row without a method: {}", row.path);
    }
  }

  [[nodiscard]] Status SetTls(const RpcTls& material) {
    ASSIGN_OR_RETURN(auto anonymous, TlsContext::ForServer(material, ClientCertificates::kNone));
    ASSIGN_OR_RETURN(auto mutual, TlsContext::ForServer(material, ClientCertificates::kRequired));
    tls_ = ServerTls{.anonymous = std::move(anonymous), .mutual = std::move(mutual)};
    for (const auto& thread : threads_) {
      if (thread != nullptr) {
        thread->Post([thread = thread.get(), tls = *tls_] { thread->SetTls(tls); });
      }
    }
    return {};
  }

  [[nodiscard]] Pending Open(RpcListen listen, Opened done) {
    Result<RpcAddress> opened = TryOpen(std::move(listen));
    auto answer = std::make_shared<Answer>(
        Answer{[done = std::move(done), opened = std::move(opened)]() mutable {
          done(std::move(opened));
        }});
    loop_.Post([answer] { Run(answer); });
    return PendingOf(answer);
  }

  [[nodiscard]] Pending Close(RpcPort port, Instant deadline, Task done) {
    auto answer = std::make_shared<Answer>(Answer{std::move(done)});
    StartClose(port, deadline, [answer] { Run(answer); });
    return PendingOf(answer);
  }

  void CloseConnections(const RpcConnectionsOf& whose, const Error& why) {
    for (const auto& thread : threads_) {
      if (thread == nullptr) continue;
      thread->Post([thread = thread.get(), whose, why] { thread->CloseConnections(whose, why); });
    }
  }

  [[nodiscard]] Pending Stop(Instant deadline, Task done) {
    stopped_ = true;
    auto answer = std::make_shared<Answer>(Answer{std::move(done)});
    auto left = std::make_shared<int>(3);
    for (const RpcPort port : {RpcPort::kRegistration, RpcPort::kAgent, RpcPort::kOperator}) {
      StartClose(port, deadline, [self = shared_from_this(), answer, left] {
        if (--*left > 0) return;
        self->JoinThreads();
        Run(answer);
      });
    }
    return PendingOf(answer);
  }

  [[nodiscard]] Pending TakeMetrics(Counted done) {
    auto sum = std::make_shared<metrics::Snapshot>();
    auto answer = std::make_shared<Answer>(
        Answer{[done = std::move(done), sum]() mutable { done(std::move(*sum)); }});
    auto left = std::make_shared<std::size_t>(1);
    const auto one_less = [answer, left] {
      if (--*left == 0) Run(answer);
    };
    for (const auto& thread : threads_) {
      if (thread == nullptr) continue;
      ++*left;
      thread->Post([thread = thread.get(), &loop = loop_, sum, one_less] {
        loop.Post([snapshot = thread->TakeMetrics(), sum, one_less] {
          metrics::Merge(*sum, snapshot);
          one_less();
        });
      });
    }
    loop_.Post(one_less);
    return PendingOf(answer);
  }

  [[nodiscard]] Admission::Usage usage() const { return shared_->admission->usage(); }

  void Destroy() {
    destroyed_ = true;
    acceptors_.clear();
    JoinThreads();
  }

 private:
  // Slot 0 is the registration thread.
  [[nodiscard]] IoThread& Thread(std::size_t slot) {
    if (threads_.size() <= slot) threads_.resize(slot + 1);
    if (threads_[slot] == nullptr) {
      threads_[slot] = std::make_shared<IoThread>(
          shared_, static_cast<unsigned>(slot),
          IoThread::Hooks{
              .deal = [this, slot](Accepted accepted) { Deal(slot, std::move(accepted)); },
              .behind = [this] { return dealt_.load() >= kMaxDealt; },
              .make_room = [this](ConnectionId id) { MakeRoom(id); },
              .wake_loop =
                  [weak = weak_from_this(), &loop = loop_, slot] {
                    loop.Post([weak, slot] {
                      if (const auto self = weak.lock()) self->DrainEvents(slot);
                    });
                  }});
      threads_[slot]->Post([thread = threads_[slot].get(), tls = *tls_] { thread->SetTls(tls); });
    }
    return *threads_[slot];
  }

  // On the thread that accepted. `threads_` is complete before the first listener of slot 1 opens
  // and does not change until all threads are joined.
  void Deal(std::size_t slot, Accepted accepted) {
    const std::size_t target = slot == 0 ? 0 : 1 + next_++ % io_threads_;
    if (target == slot) return threads_[slot]->Adopt(std::move(accepted));
    IoThread* thread = threads_[target].get();
    auto moved = std::make_shared<Accepted>(std::move(accepted));
    dealt_.fetch_add(1);
    thread->Post([this, thread, moved] {
      dealt_.fetch_sub(1);
      thread->Adopt(std::move(*moved));
    });
  }

  void MakeRoom(ConnectionId id) {
    IoThread* thread = threads_[IoThread::NumberOf(id)].get();
    thread->Post([thread, id] {
      thread->CloseConnection(id, Unavailable("a newer connection of the same client replaced it"));
    });
  }

  [[nodiscard]] Result<RpcAddress> TryOpen(RpcListen listen) {
    if (stopped_) return nstance::Fail(FailedPrecondition("the server has been stopped"));
    if (!tls_) return nstance::Fail(FailedPrecondition("there is no TLS material yet"));
    CHECK(!acceptors_.contains(listen.port), "port {} is open", RpcPortName(listen.port));
    RpcAddress address = listen.bind;
    if (address.port == 0) address.port = chosen_[listen.port];
    ASSIGN_OR_RETURN(Descriptor socket, Bind(address));
    address.port = PortOf(socket.get());
    chosen_[listen.port] = address.port;
    acceptors_[listen.port] = std::make_shared<RpcAcceptor>(
        OfferedOnly(std::move(listen.accept), std::move(listen.gate)));
    const bool registration = listen.port == RpcPort::kRegistration;
    // All slots exist before a thread can see any: they are read without a lock afterwards.
    if (threads_.empty()) threads_.resize(io_threads_ + 1);
    for (std::size_t slot = registration ? 0 : 1; slot <= (registration ? 0 : io_threads_);
         ++slot) {
      IoThread& with = Thread(slot);
      with.Post([&with, port = listen.port] { with.OpenPort(port); });
    }
    IoThread* thread = threads_[registration ? 0 : 1].get();
    auto moved = std::make_shared<Descriptor>(std::move(socket));
    thread->Post([thread, port = listen.port, moved] { thread->Listen(port, std::move(*moved)); });
    return address;
  }

  void StartClose(RpcPort port, Instant deadline, std::function<void()> done) {
    acceptors_.erase(port);
    auto left = std::make_shared<std::size_t>(1);
    const auto one_less = [left, done = std::move(done)] {
      if (--*left == 0) done();
    };
    for (const auto& thread : threads_) {
      if (thread == nullptr) continue;
      ++*left;
      thread->Post([thread = thread.get(), &loop = loop_, port, deadline, one_less] {
        thread->ClosePort(port, deadline, [&loop, one_less] { loop.Post(one_less); });
      });
    }
    loop_.Post(one_less);
  }

  void JoinThreads() {
    for (const auto& thread : threads_) {
      if (thread != nullptr) thread->Join();
    }
    threads_.clear();
  }

  // Events wait in `backlog_` when a turn has had its share.
  void DrainEvents(std::size_t slot) {
    if (slot >= threads_.size() || threads_[slot] == nullptr) return;
    const auto self = shared_from_this();
    const std::shared_ptr<IoThread> thread = threads_[slot];
    std::deque<Event>& backlog = backlog_[slot];
    for (Event& event : thread->link()->TakeEvents()) backlog.push_back(std::move(event));
    const std::size_t share = slot == 0 ? kRegistrationShare : kOtherShare;
    std::size_t handled = 0;
    thread->link()->HoldWake();
    while (handled < share && !backlog.empty() && !destroyed_) {
      Event event = std::move(backlog.front());
      backlog.pop_front();
      ++handled;
      Dispatch(std::move(event));
    }
    thread->link()->ReleaseWake();
    if (destroyed_) return;
    if (thread->link()->Handled(handled)) {
      thread->Post([thread = thread.get()] { thread->EventsHandled(); });
    }
    if (!backlog.empty()) {
      loop_.Post([weak = weak_from_this(), slot] {
        if (const auto again = weak.lock()) again->DrainEvents(slot);
      });
    }
  }

  void Dispatch(Event event) {
    const std::shared_ptr<CallShared> shared = event.call;
    event.untaken.reset();
    if (event.kind != CallEvent::kOpened) return ServerCall::Deliver(shared, std::move(event));
    const auto at = acceptors_.find(shared->info.port);
    if (at == acceptors_.end()) {
      return shared->link->Push(Command{.verb = CallVerb::kRefuse,
                                        .call = shared,
                                        .message = nullptr,
                                        .status = {},
                                        .metadata = {}});
    }
    const std::shared_ptr<RpcAcceptor> accept = at->second;
    (*accept)(std::make_unique<ServerCall>(loop_, shared));
  }

  Loop& loop_;
  unsigned io_threads_;
  std::shared_ptr<ServerShared> shared_;
  std::optional<ServerTls> tls_;
  std::map<RpcPort, std::shared_ptr<RpcAcceptor>> acceptors_;
  std::map<RpcPort, std::uint16_t> chosen_;
  std::map<std::size_t, std::deque<Event>> backlog_;
  bool stopped_ = false;
  bool destroyed_ = false;
  std::atomic<std::size_t> dealt_ = 0;  // On their way to another thread.
  std::size_t next_ = 0;                // Of the thread in slot 1, which accepts for all.
  std::vector<std::shared_ptr<IoThread>> threads_;
};

SocketRpcServer::SocketRpcServer(const RpcServerSetup& setup)
    : core_(std::make_shared<Core>(setup)) {}
SocketRpcServer::~SocketRpcServer() { core_->Destroy(); }

Status SocketRpcServer::SetTls(RpcTls material) { return core_->SetTls(material); }
Pending SocketRpcServer::Open(RpcListen listen, Opened done) {
  return core_->Open(std::move(listen), std::move(done));
}
Pending SocketRpcServer::Close(RpcPort port, Instant deadline, Task done) {
  return core_->Close(port, deadline, std::move(done));
}
void SocketRpcServer::CloseConnections(const RpcConnectionsOf& whose, const Error& why) {
  core_->CloseConnections(whose, why);
}
Pending SocketRpcServer::Stop(Instant deadline, Task done) {
  return core_->Stop(deadline, std::move(done));
}
Admission::Usage SocketRpcServer::usage() const { return core_->usage(); }
Pending SocketRpcServer::TakeMetrics(Counted done) { return core_->TakeMetrics(std::move(done)); }

}  // namespace nstance::grpc

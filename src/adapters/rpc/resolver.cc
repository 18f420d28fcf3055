#include "adapters/rpc/resolver.h"

#include <ares.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/time.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance::grpc {
namespace {

constexpr int kTryMilliseconds = 2'000;
constexpr int kTries = 3;
// How long until c-ares is looked at when it names no time itself.
constexpr Duration kIdleLook = Duration::Seconds(1);

std::optional<ResolvedAddress> Literal(const RpcAddress& address) {
  ResolvedAddress out;
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
  return std::nullopt;
}

}  // namespace

struct Resolver::Query {
  Query(RealLoop& on, const RpcAddress& address, Done answer)
      : loop(on), host(address.host), done(std::move(answer)) {
    ares_options options{};
    options.timeout = kTryMilliseconds;
    options.tries = kTries;
    options.sock_state_cb = OnSocket;
    options.sock_state_cb_data = this;
    const int made = ares_init_options(
        &channel, &options, ARES_OPT_SOCK_STATE_CB | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES);
    if (made != ARES_SUCCESS) {
      channel = nullptr;
      Answer(nstance::Fail(Unavailable(fmt::format("resolver: {}", ares_strerror(made)))));
      return;
    }
    ares_addrinfo_hints hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = ARES_AI_NUMERICSERV;
    ares_getaddrinfo(channel, host.c_str(), fmt::format("{}", address.port).c_str(), &hints,
                     OnAddresses, this);
    Look();
  }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;
  ~Query() {
    destroyed = true;
    if (channel != nullptr) ares_destroy(channel);
  }

  static void OnSocket(void* self, ares_socket_t socket, int readable, int writable) {
    auto& query = *static_cast<Query*>(self);
    if (readable == 0 && writable == 0) {
      query.watches.erase(socket);
      return;
    }
    const Interest interest = {.readable = readable != 0, .writable = writable != 0};
    auto& watch = query.watches[socket];
    if (watch != nullptr) return watch->SetInterest(interest);
    watch = query.loop.Watch(socket, interest, [&query, socket](Readiness ready) {
      query.Process(ready.readable ? socket : ARES_SOCKET_BAD,
                    ready.writable ? socket : ARES_SOCKET_BAD);
    });
  }

  static void OnAddresses(void* self, int status, int /*timeouts*/, ares_addrinfo* found) {
    auto& query = *static_cast<Query*>(self);
    if (query.destroyed) return;
    std::vector<ResolvedAddress> addresses;
    if (status == ARES_SUCCESS) {
      for (const ares_addrinfo_node* node = found->nodes; node != nullptr; node = node->ai_next) {
        ResolvedAddress address;
        address.size = std::min<socklen_t>(node->ai_addrlen, sizeof(address.storage));
        std::memcpy(&address.storage, node->ai_addr, address.size);
        addresses.push_back(address);
      }
    }
    if (found != nullptr) ares_freeaddrinfo(found);
    if (addresses.empty()) {
      query.Answer(nstance::Fail(Unavailable(
          fmt::format("cannot resolve {}: {}", Quote(query.host), ares_strerror(status)))));
    } else {
      query.Answer(std::move(addresses));
    }
  }

  // Out of c-ares' hands first: the answer may destroy us.
  void Answer(Result<std::vector<ResolvedAddress>> answer) {
    answered = true;
    posted = loop.CallAfter({}, [this, result = std::move(answer)]() mutable {
      Done told = std::move(done);
      told(std::move(result));
    });
  }

  void Process(ares_socket_t readable, ares_socket_t writable) {
    ares_process_fd(channel, readable, writable);
    Look();
  }

  // c-ares keeps its time-outs itself and is told that time has passed.
  void Look() {
    if (answered) return;
    timeval longest{.tv_sec = kIdleLook.seconds(), .tv_usec = 0};
    timeval wait{};
    const timeval* next = ares_timeout(channel, &longest, &wait);
    timer = loop.CallAfter(Duration::Seconds(next->tv_sec) + Duration::Microseconds(next->tv_usec),
                           [this] { Process(ARES_SOCKET_BAD, ARES_SOCKET_BAD); });
  }

  RealLoop& loop;
  std::string host;
  Done done;
  ares_channel channel = nullptr;
  bool answered = false;
  bool destroyed = false;
  Pending timer;
  Pending posted;
  std::map<ares_socket_t, std::unique_ptr<DescriptorWatch>> watches;
};

Resolver::Resolver(RealLoop& loop, const RpcAddress& address, Done done) {
  if (const auto literal = Literal(address)) {
    literal_ = loop.CallAfter({}, [done = std::move(done), literal]() mutable {
      Done told = std::move(done);
      told(std::vector<ResolvedAddress>{*literal});
    });
    return;
  }
  query_ = std::make_unique<Query>(loop, address, std::move(done));
}

Resolver::~Resolver() = default;

}  // namespace nstance::grpc

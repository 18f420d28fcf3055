// The suite of rpc_contract.h against the real transport on loopback. A relay stands between client
// and server, so that connections can be lost at once.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_dialer.h"
#include "adapters/rpc/rpc_server.h"
#include "adapters/rpc/tls_connection.h"
#include "test/contract/rpc_contract.h"
#include "test/support/loop_runner.h"

namespace nstance::test {
namespace {

using grpc::Descriptor;

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Carries bytes between pairs of sockets on a loop. What one side does not take at once is waited
// for with blocking writes: both ends are on loopback and read all the time or are cut.
class Relay {
 public:
  Relay(RealLoop& loop, std::uint16_t target) : loop_(loop), target_(target) {
    listener_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 64), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    watch_ = loop_.Watch(listener_.get(), {.readable = true}, [this](Readiness) { Accept(); });
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  void Lose() { pairs_.clear(); }

 private:
  struct Side {
    Descriptor socket;
    std::unique_ptr<DescriptorWatch> watch;
    Bytes waiting;  // For this side.
    bool reads = true;
  };
  struct Pair {
    std::array<Side, 2> sides;
    Pair() = default;
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
    ~Pair() {
      for (Side& side : sides) {
        side.watch.reset();
        // The kernel gives up on both ends at once.
        const linger hard{.l_onoff = 1, .l_linger = 0};
        setsockopt(side.socket.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
      }
    }
  };
  using Pairs = std::list<std::unique_ptr<Pair>>;

  void Accept() {
    Descriptor near(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!near.valid()) return;
    Descriptor far(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = Loopback(target_);
    if (connect(far.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      return;
    }
    pairs_.push_back(std::make_unique<Pair>());
    Pair& pair = *pairs_.back();
    pair.sides[0].socket = std::move(near);
    pair.sides[1].socket = std::move(far);
    for (std::size_t i = 0; i < 2; ++i) {
      pair.sides.at(i).watch =
          loop_.Watch(pair.sides.at(i).socket.get(), {.readable = true},
                      [this, &pair, i](Readiness ready) { OnReady(pair, i, ready); });
    }
  }

  void OnReady(Pair& pair, std::size_t i, Readiness ready) {
    Side& side = pair.sides.at(i);
    Side& other = pair.sides.at(1 - i);
    if (ready.writable && !side.waiting.empty() && !Push(side)) return Drop(pair);
    if (ready.readable && side.reads && other.waiting.empty()) {
      Bytes room(65'536);
      const ssize_t got = recv(side.socket.get(), room.data(), room.size(), MSG_DONTWAIT);
      if (got < 0 && errno != EAGAIN) return Drop(pair);
      if (got == 0) {
        side.reads = false;
        shutdown(other.socket.get(), SHUT_WR);
        if (!other.reads) return Drop(pair);
      } else if (got > 0) {
        room.resize(static_cast<std::size_t>(got));
        other.waiting = std::move(room);
        if (!Push(other)) return Drop(pair);
      }
    }
    for (std::size_t k = 0; k < 2; ++k) {
      Side& one = pair.sides.at(k);
      one.watch->SetInterest({.readable = one.reads && pair.sides.at(1 - k).waiting.empty(),
                              .writable = !one.waiting.empty()});
    }
  }

  static bool Push(Side& side) {
    const ssize_t sent = send(side.socket.get(), side.waiting.data(), side.waiting.size(),
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN;
    side.waiting.erase(side.waiting.begin(), side.waiting.begin() + sent);
    return true;
  }

  void Drop(const Pair& pair) {
    pairs_.remove_if([&](const auto& held) { return held.get() == &pair; });
  }

  RealLoop& loop_;
  std::uint16_t target_;
  std::uint16_t port_ = 0;
  Descriptor listener_;
  std::unique_ptr<DescriptorWatch> watch_;
  Pairs pairs_;
};

class QuietSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level /*level*/) const override { return false; }
  void Write(const log::Record& /*record*/) override {}
};

class SocketRpcUnderTest final : public RpcUnderTest {
 public:
  explicit SocketRpcUnderTest(unsigned io_threads)
      : server_(std::make_unique<grpc::SocketRpcServer>(
            grpc::RpcServerSetup{.loop = loop_,
                                 .methods = ContractMethods(),
                                 .policy = ContractPolicy(),
                                 .logger = log::Logger(sink_, "rpc"),
                                 .limits = {.loopback = grpc::AdmissionLimits::Loopback::kExempt},
                                 .io_threads = io_threads})),
        dialer_({.loop = loop_, .methods = ContractMethods()}) {}

  Loop& loop() override { return loop_; }
  RpcServer& server() override { return *server_; }
  RpcDialer& dialer() override { return dialer_; }
  void DestroyServer() override { server_.reset(); }
  [[nodiscard]] std::string host() const override { return "127.0.0.1"; }
  bool RunUntil(const std::function<bool()>& done) override { return test::RunUntil(loop_, done); }
  RpcAddress Reach(const RpcAddress& listener) override {
    auto& relay = relays_[listener.port];
    if (relay == nullptr) relay = std::make_unique<Relay>(loop_, listener.port);
    return {.host = listener.host, .port = relay->port()};
  }
  void LoseConnections() override {
    for (const auto& [port, relay] : relays_) relay->Lose();
  }

 private:
  RealLoop loop_;
  QuietSink sink_;
  std::map<std::uint16_t, std::unique_ptr<Relay>> relays_;
  std::unique_ptr<grpc::SocketRpcServer> server_;
  grpc::SocketRpcDialer dialer_;
};

INSTANTIATE_TEST_SUITE_P(
    Sockets, RpcContractTest,
    testing::Values(RpcMaker{.name = "OneThread",
                             .make = [] { return std::make_unique<SocketRpcUnderTest>(1U); }},
                    RpcMaker{.name = "ThreeThreads",
                             .make = [] { return std::make_unique<SocketRpcUnderTest>(3U); }}),
    RpcMakerName);

}  // namespace
}  // namespace nstance::test

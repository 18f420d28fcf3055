// Churn: several threads of clients that connect, fail in TLS, call, cancel, pause, reset and die
// at random, while the server's owner exchanges TLS material, closes identities and ports and opens
// them again. At the end nothing is left: no connection, call, thread or descriptor. The seed is in
// the output; NSTANCE_CHURN_SECONDS makes it longer, NSTANCE_CHURN_SEED repeats one.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "test/adapters/rpc/raw_client.h"
#include "test/adapters/rpc/rpc_fixture.h"

namespace nstance::grpc {
namespace {

using test::FrameType;
using test::RawFrame;
using test::TestCall;
using test::Who;

constexpr std::size_t kClientThreads = 3;

std::uint64_t Variable(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::size_t CountOf(const char* folder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

// Where the listeners are at this moment.
struct Addresses {
  std::atomic<std::uint16_t> agent = 0;
  std::atomic<std::uint16_t> operators = 0;
  std::atomic<std::uint16_t> registration = 0;
};

// What one thread has seen.
struct Tally {
  std::size_t connected = 0;
  std::size_t refused = 0;
  std::size_t good = 0;
  std::size_t bad = 0;
};

// One thread of clients with a loop, a dialer and a few channels of its own.
class ChurnClients {
 public:
  ChurnClients(const Addresses& addresses, std::uint64_t seed)
      : addresses_(addresses), prng_(seed) {
    for (const char mark : std::string_view("0123456789abcdef")) {
      agents_.push_back(test::AgentMaterial(mark));
    }
  }

  void Run(Duration how_long) {
    const Instant end = loop_.Now() + how_long;
    std::function<void()> step = [&] {
      if (loop_.Now() >= end) return loop_.Stop();
      Step();
      timer_ = loop_.CallAfter(
          Duration::Microseconds(static_cast<std::int64_t>(prng_.Below(2'000))), step);
    };
    timer_ = loop_.CallAfter({}, step);
    loop_.Run();
    calls_.clear();
    clients_.clear();
  }

  Tally tally;

 private:
  struct Client {
    std::unique_ptr<RpcChannel> channel;
    RpcPort port = RpcPort::kAgent;
    bool counted = false;
  };
  struct Call {
    std::unique_ptr<RpcCall> call;
    bool ended = false;
    bool paused = false;
  };

  [[nodiscard]] RpcAddress AddressOf(RpcPort port) const {
    const auto& number = port == RpcPort::kAgent      ? addresses_.agent
                         : port == RpcPort::kOperator ? addresses_.operators
                                                      : addresses_.registration;
    return {.host = "127.0.0.1", .port = number.load()};
  }

  void Step() {
    switch (prng_.Below(60)) {
      case 0:
      case 1:
      case 2: return Dial();
      case 3: return Drop();
      case 4: return Rude();
      case 5:
      case 6: return Cancel();
      case 7:
      case 8:
      case 9: return PauseOrResume();
      case 10:
        if (!clients_.empty()) clients_[prng_.Below(clients_.size())]->channel->Close();
        return;
      default: return StartOrSend();
    }
  }

  void Dial() {
    if (clients_.size() >= 6) return Drop();
    auto client = std::make_unique<Client>();
    client->port = prng_.Chance(1, 4)   ? RpcPort::kRegistration
                   : prng_.Chance(1, 3) ? RpcPort::kOperator
                                        : RpcPort::kAgent;
    RpcTls tls = nobody_;
    if (client->port == RpcPort::kAgent) tls = agents_[prng_.Below(agents_.size())];
    if (client->port == RpcPort::kOperator) tls = operator_;
    if (prng_.Chance(1, 10)) tls = stranger_;
    client->channel =
        dialer_.Dial({.address = AddressOf(client->port), .tls = tls},
                     {.state = [this, raw = client.get()](RpcChannelState state, const Status&) {
                       if (state == RpcChannelState::kReady) {
                         ++tally.connected;
                         raw->counted = true;
                       }
                       if (state == RpcChannelState::kGone && !raw->counted) ++tally.refused;
                     }});
    client->channel->Connect();
    clients_.push_back(std::move(client));
  }

  // Without a word to anybody.
  void Drop() {
    if (clients_.empty()) return;
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(prng_.Below(clients_.size())));
  }

  void StartOrSend() {
    std::erase_if(calls_, [](const auto& call) { return call->ended; });
    if (!calls_.empty() && prng_.Chance(1, 2)) {
      Call& call = *calls_[prng_.Below(calls_.size())];
      const RpcSend sent = call.call->Send(test::Text(std::string(prng_.Below(40'000), 'x')));
      if (sent == RpcSend::kTaken && prng_.Chance(1, 4)) call.call->HalfClose();
      return;
    }
    if (clients_.empty() || calls_.size() >= 32) return;
    const Client& client = *clients_[prng_.Below(clients_.size())];
    const bool unary = client.port != RpcPort::kAgent || prng_.Chance(1, 2);
    const std::string_view path = client.port == RpcPort::kRegistration ? test::kJoin
                                  : client.port == RpcPort::kOperator   ? test::kWatch
                                  : unary                               ? test::kUnary
                                                                        : test::kEcho;
    auto call = std::make_unique<Call>();
    call->call = client.channel->Start(
        path,
        {.timeout = prng_.Chance(1, 3) ? std::optional(Duration::Milliseconds(
                                             static_cast<std::int64_t>(prng_.Below(20))))
                                       : std::nullopt},
        {.metadata = {},
         .message = [](RpcMessage) {},
         .drained = {},
         .end =
             [this, raw = call.get()](const RpcEnd& end) {
               raw->ended = true;
               ++(end.status.has_value() ? tally.good : tally.bad);
             }});
    if (unary) call->call->Send(test::Text(prng_.Chance(1, 3) ? "hang" : "x"));
    calls_.push_back(std::move(call));
  }

  void Cancel() {
    if (calls_.empty()) return;
    calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(prng_.Below(calls_.size())));
  }

  void PauseOrResume() {
    if (calls_.empty()) return;
    Call& call = *calls_[prng_.Below(calls_.size())];
    if (std::exchange(call.paused, !call.paused)) {
      call.call->Resume();
    } else {
      call.call->Pause();
    }
  }

  // A client that is none: it hangs up in some phase.
  void Rude() {
    const RpcAddress address = AddressOf(RpcPort::kAgent);
    const std::uint64_t how = prng_.Below(4);
    if (how == 0) {
      test::RawClient cut(address);
      const Bytes hello = test::RawTlsClient::Hello();
      cut.Write(std::span(hello).first(prng_.Below(100)));
      return;
    }
    test::RawTlsClient client(address, {.identity = test::IdentityOf(Who::kAgent)});
    if (!client.open() || how == 1) return;
    client.Write(test::ClientOpening());
    for (std::uint32_t i = 0; i < prng_.Below(20); ++i) {
      client.Request(2 * i + 1, test::kEcho);
      if (how == 2) {
        client.Write(RawFrame{
            .type = FrameType::kReset, .stream = 2 * i + 1, .payload = std::string(4, '\0')});
      } else {
        client.Message(2 * i + 1, "hello", 0);
      }
    }
  }

  const Addresses& addresses_;
  Prng prng_;
  std::vector<RpcTls> agents_;
  RpcTls nobody_ = test::ClientMaterial(Who::kNobody);
  RpcTls operator_ = test::ClientMaterial(Who::kOperator);
  RpcTls stranger_ = test::ClientMaterial(Who::kStranger);
  RealLoop loop_;
  SocketRpcDialer dialer_{{.loop = loop_, .methods = test::Methods()}};
  Pending timer_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<Call>> calls_;
};

class RpcChurnTest : public test::RpcFixture {
 public:
  void OpenAll() {
    addresses_.agent = Open(RpcPort::kAgent).port;
    addresses_.operators = Open(RpcPort::kOperator).port;
    addresses_.registration = Open(RpcPort::kRegistration).port;
  }

  // What the owner of a server may do at any time.
  void OwnerStep(Prng& prng) {
    Forget(prng);
    switch (prng.Below(300)) {
      case 0: {
        const bool both = prng.Chance(3, 4);
        std::vector<crypto::Certificate> roots = {test::Root()};
        if (both) roots.push_back(test::OtherRoot());
        if (!both && prng.Chance(1, 2)) roots = {test::OtherRoot()};
        EXPECT_TRUE(server_->SetTls(test::WithRoots(*test::ServerMaterial(), std::move(roots)))
                        .has_value());
        return;
      }
      case 1:
        return server_->CloseConnections(
            RpcIdentity{.role = crypto::Role::kAgent, .id = std::string(crypto::test::kInstance)},
            Unauthenticated("denied"));
      case 2:
        return server_->CloseConnections(crypto::test::Tenant("prod"), Unauthenticated("denied"));
      case 3: return Reopen(prng);
      default: return;
    }
  }

  // Handlers finish, pause, send or are dropped.
  void Forget(Prng& prng) {
    if (handlers_.empty()) return;
    const std::size_t at = prng.Below(handlers_.size());
    test::TestHandler& handler = *handlers_[at];
    if (handler.call != nullptr) {
      switch (prng.Below(6)) {
        case 0: handler.call->Pause(); return;
        case 1: handler.call->Resume(); return;
        case 2:
          if (handler.call->info().policy->path == test::kEcho) {
            handler.call->Send(test::Text(std::string(prng.Below(100'000), 'y')));
          }
          return;
        default: handler.call.reset();
      }
    }
    handlers_.erase(handlers_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void Reopen(Prng& prng) {
    if (!open_) return;
    open_ = false;
    closing_ = server_->Close(
        RpcPort::kAgent,
        loop_.Now() + Duration::Milliseconds(static_cast<std::int64_t>(prng.Below(50))), [this] {
          opening_ = server_->Open(
              {.port = RpcPort::kAgent,
               .bind = {.host = "127.0.0.1", .port = 0},
               .accept = [this](std::unique_ptr<RpcServerCall> call) { Accept(std::move(call)); }},
              [this](const Result<RpcAddress>& address) {
                EXPECT_TRUE(address.has_value());
                open_ = true;
              });
        });
  }

  Addresses addresses_;
  bool open_ = true;
  Pending closing_;
  Pending opening_;
};

TEST_F(RpcChurnTest, NothingIsLeftBehind) {
  const auto seconds = static_cast<std::int64_t>(Variable("NSTANCE_CHURN_SECONDS", 5));
  const std::uint64_t seed = Variable(
      "NSTANCE_CHURN_SEED", static_cast<std::uint64_t>(loop_.Now().since_zero().nanoseconds()));
  RecordProperty("seed", std::to_string(seed));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  server_.reset();
  std::thread([] {}).join();  // A sanitizer brings a thread of its own with the first one.
  const std::size_t threads = CountOf("/proc/self/task");
  const std::size_t descriptors = CountOf("/proc/self/fd");
  Remake();
  OpenAll();

  std::vector<std::unique_ptr<ChurnClients>> clients(kClientThreads);
  std::vector<std::thread> running;
  std::atomic<std::size_t> left = kClientThreads;
  for (std::size_t i = 0; i < kClientThreads; ++i) {
    running.emplace_back([&, i] {
      clients[i] = std::make_unique<ChurnClients>(addresses_, seed + i);
      clients[i]->Run(Duration::Seconds(seconds));
      --left;
    });
  }
  Prng prng(seed + kClientThreads);
  EXPECT_TRUE(nstance::test::RunUntil(
      loop_,
      [&] {
        OwnerStep(prng);
        return left == 0;
      },
      Duration::Seconds(seconds + 60)));
  for (std::thread& thread : running) thread.join();
  Tally sum;
  for (auto& client : clients) {
    sum.connected += client->tally.connected;
    sum.refused += client->tally.refused;
    sum.good += client->tally.good;
    sum.bad += client->tally.bad;
    client.reset();
  }
  std::printf("connections %zu, refused %zu; calls ended well %zu, badly %zu\n", sum.connected,
              sum.refused, sum.good, sum.bad);
  EXPECT_GT(sum.connected, 0U);
  EXPECT_GT(sum.good + sum.bad, 0U);

  // Calls that their handlers still hold are ended by their clients' death.
  EXPECT_TRUE(Until([&] { return server_->usage() == Admission::Usage{}; }))
      << "connections " << server_->usage().connections << ", calls " << server_->usage().calls
      << ", identities " << server_->usage().identities;
  for (const auto& handler : handlers_) {
    if (handler->call == nullptr) continue;
    handler->call->Resume();
  }
  EXPECT_TRUE(Until([&] { return open_; }));
  bool stopped = false;
  const Pending stopping =
      server_->Stop(loop_.Now() + Duration::Seconds(5), [&] { stopped = true; });
  EXPECT_TRUE(Until([&] { return stopped; }));
  EXPECT_EQ(server_->usage(), Admission::Usage{});
  EXPECT_EQ(CountOf("/proc/self/task"), threads);
  server_.reset();
  EXPECT_EQ(CountOf("/proc/self/fd"), descriptors);
}

}  // namespace
}  // namespace nstance::grpc

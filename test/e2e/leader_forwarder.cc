#include "test/e2e/leader_forwarder.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "adapters/real_loop/real_loop.h"
#include "base/check.h"
#include "base/json.h"
#include "test/e2e/tcp_socket.h"

namespace nstance::test {
namespace {

constexpr std::size_t kBuffer = 65'536;
constexpr std::array<std::string_view, LeaderForwarder::kServices> kNames = {"registration",
                                                                             "operator", "agent"};
constexpr auto kLookEvery = std::chrono::milliseconds(50);

std::string TextMember(const json::Value& object, std::string_view key) {
  const json::Value* member = object.Find(key);
  const std::string* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string() : *text;
}

// What a server's file says; nothing when it says nothing sensible.
std::optional<LeaderForwarder::Leader> ReadAddresses(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  const Result<json::Value> value = json::Parse(text);
  if (!value.has_value()) return std::nullopt;
  LeaderForwarder::Leader read{.file = file, .health = TextMember(*value, "health")};
  const json::Value* epoch = value->Find("epoch");
  if (epoch == nullptr || epoch->if_integer() == nullptr || read.health.empty()) {
    return std::nullopt;
  }
  read.epoch = *epoch->if_integer();
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    read.ports.at(i) = PortOf(TextMember(*value, kNames.at(i)));
    if (read.ports.at(i) == 0) return std::nullopt;
  }
  return read;
}

// One direction of a connection.
struct Flow {
  std::string buffer;
  bool ended = false;     // Nothing more to read.
  bool told_end = false;  // The other side has been told.
};

// Two sockets, joined. `over` runs in a task of its own when nothing is left to do.
class Joint final {
 public:
  Joint(RealLoop& loop, TcpSocket client, TcpSocket server, std::function<void()> over)
      : loop_(loop),
        client_(std::move(client)),
        server_(std::move(server)),
        over_(std::move(over)) {
    client_watch_ = loop.Watch(client_.number(), {.readable = true}, [this](Readiness) { Turn(); });
    server_watch_ = loop.Watch(server_.number(), {.readable = true, .writable = true},
                               [this](Readiness) { Turn(); });
  }

 private:
  void Turn() {
    const bool good = Move(client_, server_, up_) && Move(server_, client_, down_);
    if (!good || (up_.told_end && down_.told_end)) {
      client_watch_.reset();
      server_watch_.reset();
      loop_.Post(std::exchange(over_, [] {}));
      return;
    }
    client_watch_->SetInterest(
        {.readable = !up_.ended && up_.buffer.size() < kBuffer, .writable = !down_.buffer.empty()});
    server_watch_->SetInterest({.readable = !down_.ended && down_.buffer.size() < kBuffer,
                                .writable = !up_.buffer.empty()});
  }

  // False when a side has failed.
  static bool Move(const TcpSocket& from, const TcpSocket& to, Flow& flow) {
    if (!flow.ended && flow.buffer.size() < kBuffer) {
      std::array<char, kBuffer> bytes{};
      const ssize_t got = ::recv(from.number(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) flow.buffer.append(bytes.data(), static_cast<std::size_t>(got));
      if (got == 0) flow.ended = true;
      if (got < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN) return false;
    }
    if (!flow.buffer.empty()) {
      const ssize_t sent =
          ::send(to.number(), flow.buffer.data(), flow.buffer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) flow.buffer.erase(0, static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN) return false;
    }
    if (flow.ended && flow.buffer.empty() && !flow.told_end) {
      ::shutdown(to.number(), SHUT_WR);
      flow.told_end = true;
    }
    return true;
  }

  RealLoop& loop_;
  TcpSocket client_;
  TcpSocket server_;
  std::function<void()> over_;
  Flow up_;
  Flow down_;
  std::unique_ptr<DescriptorWatch> client_watch_;
  std::unique_ptr<DescriptorWatch> server_watch_;
};

}  // namespace

// The forwarding itself, on a thread with a loop of its own.
class LeaderForwarder::Pump final {
 public:
  Pump() {
    for (TcpSocket& listener : listeners_) {
      Result<TcpSocket> made = TcpSocket::Listen(0);
      CHECK(made.has_value(), "{}", made.error().message);
      listener = *std::move(made);
    }
    thread_ = std::thread([this] { Run(); });
  }
  ~Pump() {
    loop_.Stop();
    thread_.join();
  }

  [[nodiscard]] std::uint16_t Port(Service service) const { return listeners_.at(service).port(); }
  [[nodiscard]] std::size_t connections() const { return connections_; }
  void SetShut(Service service, bool shut) { shut_.at(service) = shut; }

  // From another thread; in force when it returns.
  void SetLeader(const std::optional<Leader>& leader) {
    std::promise<void> applied;
    loop_.Post([&] {
      if (leader != leader_) {
        leader_ = leader;
        joints_.clear();
        connections_ = 0;
      }
      applied.set_value();
    });
    applied.get_future().wait();
  }

 private:
  void Run() {
    std::vector<std::unique_ptr<DescriptorWatch>> watches;
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      watches.push_back(loop_.Watch(listeners_.at(i).number(), {.readable = true},
                                    [this, i](Readiness) { Accept(i); }));
    }
    loop_.Run();
    watches.clear();
    joints_.clear();
  }
  void Accept(std::size_t service) {
    TcpSocket client(::accept4(listeners_.at(service).number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.open() || !leader_.has_value() || shut_.at(service)) return;
    Result<TcpSocket> server = TcpSocket::BeginConnect(leader_->ports.at(service));
    if (!server.has_value()) return;
    const std::uint64_t number = next_++;
    joints_[number] =
        std::make_unique<Joint>(loop_, std::move(client), *std::move(server), [this, number] {
          joints_.erase(number);
          connections_ = joints_.size();
        });
    connections_ = joints_.size();
  }

  RealLoop loop_;
  std::array<TcpSocket, kServices> listeners_;
  std::optional<Leader> leader_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Joint>> joints_;
  std::atomic<std::size_t> connections_ = 0;
  std::array<std::atomic<bool>, kServices> shut_ = {};
  std::thread thread_;
};

LeaderForwarder::LeaderForwarder(std::vector<std::string> addresses_files)
    : files_(std::move(addresses_files)), pump_(std::make_unique<Pump>()) {
  prober_ = std::thread([this] { Look(); });
}

void LeaderForwarder::Shut(Service service) { pump_->SetShut(service, true); }
void LeaderForwarder::Open(Service service) { pump_->SetShut(service, false); }

LeaderForwarder::~LeaderForwarder() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  prober_.join();
}

std::string LeaderForwarder::Address(Service service) const {
  return fmt::format("127.0.0.1:{}", pump_->Port(service));
}

std::optional<LeaderForwarder::Leader> LeaderForwarder::leader() const {
  const std::lock_guard lock(mutex_);
  return leader_;
}

std::size_t LeaderForwarder::connections() const { return pump_->connections(); }

std::optional<LeaderForwarder::Leader> LeaderForwarder::WaitForLeader(Duration limit,
                                                                      std::int64_t after) const {
  std::unique_lock lock(mutex_);
  const bool found = changed_.wait_for(lock, std::chrono::nanoseconds(limit.nanoseconds()), [&] {
    return leader_.has_value() && leader_->epoch > after;
  });
  return found ? leader_ : std::nullopt;
}

std::optional<LeaderForwarder::Leader> LeaderForwarder::FindLeader() const {
  std::optional<Leader> best;
  for (const std::string& file : files_) {
    std::optional<Leader> read = ReadAddresses(file);
    if (!read.has_value() || HttpGet(read->health, "/leader/health").status != 200) continue;
    // It may have become leader again between the two looks; the next look sees that.
    if (!best.has_value() || read->epoch > best->epoch) best = std::move(read);
  }
  return best;
}

void LeaderForwarder::Look() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    std::optional<Leader> found = FindLeader();
    pump_->SetLeader(found);
    lock.lock();
    leader_ = std::move(found);
    changed_.notify_all();
    changed_.wait_for(lock, kLookEvery, [this] { return stopping_; });
  }
}

}  // namespace nstance::test

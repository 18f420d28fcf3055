// The load of the transport benchmark: many agents on our own client, one thread. It drives every
// side in the same way.
//
// usage: transport_load certificates FOLDER
//        transport_load run FOLDER PORT AGENTS
//        transport_load handshakes FOLDER PORT COUNT
//
// `run` connects all agents with three streams each, prints `READY`, and obeys lines of its input
// until that ends; each is answered by one line:
//   reports SECONDS RATE   RATE reports per second and agent, evenly spaced, by a fixed schedule
//                          that does not wait for the server. REPORTS <sent> <ms late, at most>
//   unary SECONDS          kUnaryAtOnce agents, each with one call under way. UNARY <calls>
// `handshakes` makes full mutual handshakes one after the other, each closed once the server has
// taken it, and prints `HANDSHAKES <count>`.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_dialer.h"
#include "adapters/rpc_codec/method_table.h"
#include "bench/transport/agent.h"
#include "bench/transport/handshakes.h"
#include "bench/transport/materials.h"
#include "core/rpc_policy.h"

namespace nstance::bench {
namespace {

constexpr std::size_t kUnaryAtOnce = 64;
constexpr std::size_t kConnectsAtOnce = 32;

void Say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

std::uint32_t ToNumber(std::string_view text) {
  std::uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

class Load final {
 public:
  Load(RealLoop& loop, RpcDialer& dialer)
      : loop_(loop), dialer_(dialer), report_(RpcMessage::Of(SampleReport())) {
    api::PublicKeysRequest keys{.instance_id = "knc06bgm7733st2576nx5jht4ecjw", .keys = {}};
    keys.keys.push_back({.filename = "kubelet",
                         .public_key_pem = "MCowBQYDK2VwAyEA11qYAYKxCrfVS/"
                                           "7TyWQHOg7hcvPapiMlrwIaaPcHURo="});
    keys_ = RpcMessage::Of(std::move(keys));
  }

  void Start(const std::filesystem::path& folder, std::uint16_t port, std::uint32_t count) {
    const AgentIssuer issuer(folder, loop_.WallNow() - Duration::Minutes(1));
    for (std::uint32_t i = 0; i < count; ++i) {
      agents_.push_back(std::make_unique<BenchAgent>(
          dialer_, RpcAddress{.host = "127.0.0.1", .port = port}, issuer.Issue(i + 1)));
    }
    for (std::size_t i = 0; i < kConnectsAtOnce; ++i) ConnectNext();
  }

  void Obey(std::string_view line) {
    const std::string_view numbers = line.substr(std::min(line.find(' ') + 1, line.size()));
    const Duration window = Duration::Seconds(ToNumber(numbers));
    if (line.starts_with("reports ")) {
      rate_ =
          std::max(1U, ToNumber(numbers.substr(std::min(numbers.find(' ') + 1, numbers.size()))));
      return StartReports(window);
    }
    if (line.starts_with("unary ")) return StartUnary(window);
    Say("? unknown command");
  }

 private:
  void ConnectNext() {
    if (connecting_ == agents_.size()) return;
    agents_[connecting_++]->Connect([this] {
      if (++connected_ == agents_.size()) Say("READY");
      ConnectNext();
    });
  }

  // Report number n is due at start + n / (agents * rate) seconds.
  void StartReports(Duration window) {
    start_ = loop_.Now();
    sent_ = 0;
    latest_ = Duration();
    total_ =
        static_cast<std::uint64_t>(window.nanoseconds() / 1'000'000'000) * agents_.size() * rate_;
    SendDue();
  }
  [[nodiscard]] Instant Due(std::uint64_t number) const {
    return start_ + Duration::Nanoseconds(
                        static_cast<std::int64_t>(number * (1'000'000'000 / agents_.size())));
  }
  void SendDue() {
    const Instant now = loop_.Now();
    while (sent_ < total_ && Due(sent_) <= now) {
      latest_ = std::max(latest_, now - Due(sent_));
      if (!agents_[sent_ % agents_.size()]->Report(report_)) {
        Say("? the server does not keep up");
        _exit(1);
      }
      ++sent_;
    }
    if (sent_ == total_) {
      return Say(fmt::format("REPORTS {} {}", sent_, latest_.nanoseconds() / 1'000'000));
    }
    timer_ = loop_.CallAt(Due(sent_), [this] { SendDue(); });
  }

  void StartUnary(Duration window) {
    sent_ = 0;
    until_ = loop_.Now() + window;
    calling_ = std::min(kUnaryAtOnce, agents_.size());
    for (std::size_t i = 0; i < calling_; ++i) CallNext(*agents_[i]);
  }
  void CallNext(BenchAgent& agent) {
    agent.CallUnary(keys_, [this, &agent] {
      ++sent_;
      if (loop_.Now() < until_) return CallNext(agent);
      if (--calling_ == 0) Say(fmt::format("UNARY {}", sent_));
    });
  }

  RealLoop& loop_;
  RpcDialer& dialer_;
  RpcMessage report_;
  RpcMessage keys_ = RpcMessage::Of(0);
  std::vector<std::unique_ptr<BenchAgent>> agents_;
  std::size_t connecting_ = 0;
  std::size_t connected_ = 0;
  Instant start_;
  Instant until_;
  Duration latest_;
  std::uint64_t sent_ = 0;
  std::uint64_t total_ = 0;
  std::size_t calling_ = 0;
  std::uint32_t rate_ = 1;
  Pending timer_;
};

int RunLoad(const std::filesystem::path& folder, std::uint16_t port, std::uint32_t agents) {
  RealLoop loop;
  const std::vector<RpcMethod> methods = Must(rpc_codec::MakeMethodTable(RpcPolicy()));
  grpc::SocketRpcDialer dialer({.loop = loop, .methods = methods});
  Load load(loop, dialer);
  load.Start(folder, port, agents);
  std::string input;
  const auto watch = loop.Watch(STDIN_FILENO, {.readable = true}, [&](Readiness) {
    std::array<char, 256> room{};
    const ssize_t got = read(STDIN_FILENO, room.data(), room.size());
    if (got <= 0) return loop.Stop();
    input.append(room.data(), static_cast<std::size_t>(got));
    for (std::size_t end = input.find('\n'); end != std::string::npos; end = input.find('\n')) {
      load.Obey(std::string_view(input).substr(0, end));
      input.erase(0, end + 1);
    }
  });
  loop.Run();
  _exit(0);  // The server sees all connections go at once.
}

int Main(const std::vector<std::string_view>& words) {
  if (words.size() == 2 && words[0] == "certificates") {
    WriteMaterials(words[1], RealLoop().WallNow());
    return 0;
  }
  if (words.size() == 4) {
    const auto port = static_cast<std::uint16_t>(ToNumber(words[2]));
    const std::uint32_t count = ToNumber(words[3]);
    if (words[0] == "run" && port > 0 && count > 0) return RunLoad(words[1], port, count);
    if (words[0] == "handshakes" && port > 0) {
      MakeHandshakes(words[1], port, count);
      Say(fmt::format("HANDSHAKES {}", count));
      return 0;
    }
  }
  fmt::print(stderr,
             "usage: transport_load certificates FOLDER | run FOLDER PORT AGENTS |"
             " handshakes FOLDER PORT COUNT\n");
  return 2;
}

}  // namespace
}  // namespace nstance::bench

int main(int argc, char** argv) { return nstance::bench::Main({argv + 1, argv + argc}); }

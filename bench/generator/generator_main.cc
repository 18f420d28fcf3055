// The load of the benchmarks as a process. Commands come as lines on standard input, answers go as
// JSON lines to standard output (bench/generator/generator.h); it ends when its input does.
//
// usage: nstance_generator --ca FILE --registration HOST:PORT [--agent HOST:PORT]
//          [--operator HOST:PORT] [--tokens FILE] [--operator-tokens FILE] [--cluster NAME]
//          [--sources N] [--seed N]
// `--sources N` spreads the connections over 127.0.0.2 to 127.0.0.(N+1); without it the kernel
// chooses.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_dialer.h"
#include "adapters/rpc_codec/method_table.h"
#include "adapters/secure_random/system_random.h"
#include "bench/generator/generator.h"
#include "core/rpc_policy.h"

namespace nstance::bench {
namespace {

[[noreturn]] void Die(const std::string& why) {
  fmt::print(stderr, "nstance_generator: {}\n", why);
  std::exit(2);
}

template <class T>
T Must(Result<T> result) {
  if (!result.has_value()) Die(result.error().message);
  return *std::move(result);
}

using Flags = std::map<std::string, std::string, std::less<>>;

Flags ReadFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (!name.starts_with("--") || i + 1 == argc) Die(fmt::format("{}: not --name value", name));
    flags[std::string(name.substr(2))] = argv[i + 1];
  }
  return flags;
}

std::string Text(const Flags& flags, std::string_view name) {
  const auto found = flags.find(name);
  return found == flags.end() ? std::string() : found->second;
}

std::uint64_t Number(const Flags& flags, std::string_view name, std::uint64_t otherwise) {
  const std::string text = Text(flags, name);
  if (text.empty()) return otherwise;
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    Die(fmt::format("--{}: not a number", name));
  }
  return number;
}

RpcAddress Address(const Flags& flags, std::string_view name) {
  const std::string text = Text(flags, name);
  if (text.empty()) return {};
  const std::size_t colon = text.rfind(':');
  RpcAddress address;
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    std::from_chars(text.data() + colon + 1, text.data() + text.size(), address.port);
  }
  if (address.port == 0) Die(fmt::format("--{}: not HOST:PORT", name));
  return address;
}

std::vector<TokenLine> Tokens(const Flags& flags, std::string_view name) {
  const std::string path = Text(flags, name);
  if (path.empty()) return {};
  return Must(ParseTokenLines(Must(ReadWholeFile(path))));
}

// As many descriptors as the system allows: one per agent.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Lines of standard input, each handed on when the one before has been answered.
class Input final {
 public:
  Input(RealLoop& loop, std::function<void(std::string_view)> obey)
      : loop_(loop), obey_(std::move(obey)) {
    struct stat about{};
    if (::fstat(STDIN_FILENO, &about) == 0 && S_ISREG(about.st_mode)) {
      // A file is always ready, and cannot be watched.
      loop.Post([this] {
        while (!ended_) Read();
        HandOn();
      });
      return;
    }
    watch_ = loop.Watch(STDIN_FILENO, {.readable = true}, [this](Readiness) {
      Read();
      HandOn();
    });
  }
  void Next() {
    busy_ = false;
    loop_.Post([this] { HandOn(); });
  }

 private:
  void Read() {
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got > 0) text_.append(buffer.data(), static_cast<std::size_t>(got));
    if (got > 0) return;
    ended_ = true;
    watch_.reset();
  }
  void HandOn() {
    if (busy_) return;
    const std::size_t end = text_.find('\n');
    if (end == std::string::npos) {
      if (ended_) loop_.Stop();
      return;
    }
    const std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    busy_ = true;
    obey_(line);
  }

  RealLoop& loop_;
  std::function<void(std::string_view)> obey_;
  std::unique_ptr<DescriptorWatch> watch_;
  std::string text_;
  bool busy_ = false;
  bool ended_ = false;
};

int Main(int argc, char** argv) {
  const Flags flags = ReadFlags(argc, argv);
  RaiseDescriptorLimit();
  RealLoop loop;
  SystemRandom random;
  const std::vector<RpcMethod> methods = Must(rpc_codec::MakeMethodTable(RpcPolicy()));
  std::vector<std::unique_ptr<RpcDialer>> dialers;
  const std::uint64_t sources = std::min<std::uint64_t>(Number(flags, "sources", 0), 250);
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(sources, 1); ++i) {
    const std::string from = sources == 0 ? "" : fmt::format("127.0.0.{}", i + 2);
    dialers.push_back(std::make_unique<grpc::SocketRpcDialer>(
        grpc::RpcDialerSetup{.loop = loop, .methods = methods, .call_from = from}));
  }
  const std::string cluster = Text(flags, "cluster");
  const std::string roots = Must(ReadWholeFile(Text(flags, "ca")));
  std::unique_ptr<Input> input;
  Generator generator(
      {.loop = loop,
       .dialers = std::move(dialers),
       .join = {.random = random,
                .registration = Address(flags, "registration"),
                .cluster = Must(ClusterId::Parse(cluster.empty() ? "bench" : cluster)),
                .roots = Must(crypto::TrustBundleFromPem(roots))},
       .agent = Address(flags, "agent"),
       .operators = Address(flags, "operator"),
       .agent_tokens = Tokens(flags, "tokens"),
       .operator_tokens = Tokens(flags, "operator-tokens"),
       .seed = Number(flags, "seed", 1)},
      [&input](const json::Value& line) {
        fmt::print("{}\n", json::Write(line));
        std::fflush(stdout);
        input->Next();
      });
  input = std::make_unique<Input>(loop, [&](std::string_view line) { generator.Obey(line); });
  loop.Run();
  return 0;
}

}  // namespace
}  // namespace nstance::bench

int main(int argc, char** argv) { return nstance::bench::Main(argc, argv); }

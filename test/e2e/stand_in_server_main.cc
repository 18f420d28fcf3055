// A stand-in for nstance-server: enough of its command line, files and endpoints to try what tests
// build around servers. Whoever holds a lock in the bucket acts; the kernel frees it with the
// process. Each RPC port answers a line with "<id> <epoch> <port's name> <line>".
//
// --instance makes it leave a process behind in its own session, as the local provider does.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "test/e2e/tcp_socket.h"

namespace nstance::test {
namespace {

struct State {
  std::string id;
  std::string shard;
  std::mutex mutex;
  int epoch = 0;  // 0: standby.
};

int EpochOf(State& state) {
  const std::lock_guard lock(state.mutex);
  return state.epoch;
}

void AnswerHealth(State& state, const TcpSocket& socket) {
  const std::string request = socket.ReadLine();
  const int epoch = EpochOf(state);
  const bool good = !request.starts_with("GET /leader/health ") || epoch > 0;
  const std::string body = fmt::format(R"({{"shard":"{}","leader":{},"id":"{}","epoch":{}}})",
                                       state.shard, epoch > 0, state.id, epoch);
  // Read the rest: closing with unread bytes would reset the connection.
  while (socket.ReadLine().size() > 1) continue;
  static_cast<void>(
      socket.Write(fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                               good ? "200 OK" : "503 Service Unavailable", body.size(), body)));
}

void AnswerLines(State& state, const std::string& name, const TcpSocket& socket) {
  for (std::string line = socket.ReadLine(); !line.empty(); line = socket.ReadLine()) {
    if (!socket.Write(fmt::format("{} {} {} {}\n", state.id, EpochOf(state), name, line))) return;
  }
  static_cast<void>(socket.Write("bye\n"));  // The other direction is still open.
}

// Accepts for ever, a thread per connection.
template <class Serve>
std::string ServeOn(std::uint16_t port, Serve serve) {
  Result<TcpSocket> listener = TcpSocket::Listen(port);
  if (!listener.has_value()) {
    fmt::print(stderr, "{}\n", listener.error().message);
    std::_Exit(1);
  }
  const std::string address = fmt::format("127.0.0.1:{}", listener->port());
  std::thread([serve, listener = *std::move(listener)] {
    while (true) {
      TcpSocket socket(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
      if (socket.open()) {
        std::thread([serve, socket = std::move(socket)] { serve(socket); }).detach();
      }
    }
  }).detach();
  return address;
}

int NextEpoch(const std::string& bucket) {
  int epoch = 0;
  std::ifstream(bucket + "/epoch") >> epoch;
  std::ofstream(bucket + "/epoch") << ++epoch;
  return epoch;
}

// What the local provider leaves behind: a process that outlives this one.
void LeaveInstance(const std::string& folder) {
  std::filesystem::create_directories(folder);
  if (::fork() != 0) return;
  ::setsid();
  if (::chdir(folder.c_str()) != 0) ::_exit(1);
  ::setenv("NSTANCE_LOCAL_ID", "wrk", 1);
  ::execl("/bin/sleep", "/bin/sleep", "600", static_cast<char*>(nullptr));
  ::_exit(1);
}

using Flags = std::multimap<std::string, std::string, std::less<>>;

std::string Text(const Flags& flags, std::string_view name) {
  const auto found = flags.find(name);
  return found == flags.end() ? std::string() : found->second;
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i + 1 < argc; i += 2) flags.emplace(argv[i], argv[i + 1]);
  if (Text(flags, "--id").empty()) return 2;
  ::signal(SIGTERM, [](int) { ::_exit(0); });
  State state{.id = Text(flags, "--id"), .shard = Text(flags, "--shard"), .mutex = {}};
  const std::string bucket = Text(flags, "--bucket");
  std::map<std::string, std::string> addresses;
  addresses["health"] = ServeOn(PortOf(Text(flags, "--bind")),
                                [&state](const TcpSocket& socket) { AnswerHealth(state, socket); });
  fmt::print("{{\"event\":\"started\",\"health\":\"{}\"}}\n", addresses["health"]);
  std::fflush(stdout);
  const int lock = ::open((bucket + "/lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (lock < 0 || ::flock(lock, LOCK_EX) != 0) return 1;
  for (const char* name : {"registration", "operator", "agent"}) {
    addresses[name] =
        ServeOn(0, [&state, name](const TcpSocket& socket) { AnswerLines(state, name, socket); });
  }
  {
    const std::lock_guard guard(state.mutex);
    state.epoch = NextEpoch(bucket);
  }
  std::string text = fmt::format("{{\"epoch\":{}", state.epoch);
  for (const auto& [name, address] : addresses)
    text += fmt::format(",\"{}\":\"{}\"", name, address);
  const std::string file = Text(flags, "--addresses-file");
  std::ofstream(file + ".new") << text << "}";
  if (std::rename((file + ".new").c_str(), file.c_str()) != 0) return 1;
  if (const std::string folder = Text(flags, "--instance"); !folder.empty()) LeaveInstance(folder);
  while (true) ::pause();
}

}  // namespace
}  // namespace nstance::test

int main(int argc, char** argv) { return nstance::test::Main(argc, argv); }

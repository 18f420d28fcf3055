// One idle agent on our transport: a connection and three streams. Its file size and memory are
// what is measured.
//
// usage: transport_client FOLDER PORT
//
// Prints `READY`, and ends when its input does.
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include <fmt/core.h>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_dialer.h"
#include "adapters/rpc_codec/method_table.h"
#include "bench/transport/agent.h"
#include "bench/transport/materials.h"
#include "core/rpc_policy.h"

namespace nstance::bench {
namespace {

int Idle(const std::filesystem::path& folder, std::uint16_t port) {
  RealLoop loop;
  const std::vector<RpcMethod> methods = Must(rpc_codec::MakeMethodTable(RpcPolicy()));
  grpc::SocketRpcDialer dialer({.loop = loop, .methods = methods});
  BenchAgent agent(dialer, {.host = "127.0.0.1", .port = port}, ReadMaterial(folder, "agent"));
  agent.Connect([] {
    fmt::print("READY\n");
    std::fflush(stdout);
  });
  const auto input = loop.Watch(STDIN_FILENO, {.readable = true}, [&](Readiness) {
    std::array<char, 64> ignored{};
    if (read(STDIN_FILENO, ignored.data(), ignored.size()) <= 0) loop.Stop();
  });
  loop.Run();
  _exit(0);
}

}  // namespace
}  // namespace nstance::bench

int main(int argc, char** argv) {
  std::uint16_t port = 0;
  if (argc == 3) {
    const std::string_view text = argv[2];
    std::from_chars(text.data(), text.data() + text.size(), port);
  }
  if (port == 0) {
    fmt::print(stderr, "usage: {} FOLDER PORT\n", argv[0]);
    return 2;
  }
  return nstance::bench::Idle(argv[1], port);
}

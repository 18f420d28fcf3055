// The server under test of the transport benchmark: the real SocketRpcServer on a real loop, whose
// handlers take what the transport has decoded and do nothing else.
//
// usage: transport_server FOLDER        (of transport_load certificates)
//
// Prints `PORT <n>` when it listens, and `COUNTS <reports> <unary calls>` when its input ends.
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_server.h"
#include "adapters/rpc_codec/method_table.h"
#include "bench/transport/materials.h"
#include "core/rpc_policy.h"
#include "ports/api/common.h"
#include "ports/api/methods.h"

namespace nstance::bench {
namespace {

class ErrorSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level level) const override { return level >= log::Level::kInfo; }
  void Write(const log::Record& record) override {
    fmt::print(stderr, "{}\n", log::FormatText(record, Timestamp::FromUnix(0, 0)));
  }
};

// Holds the open calls and counts what came.
class Handlers final {
 public:
  void Take(std::unique_ptr<RpcServerCall> call) {
    RpcServerCall* const raw = call.get();
    const bool unary = raw->info().policy->path == api::kSubmitPublicKeys.path;
    calls_.insert(std::move(call));
    RpcServerEvents events;
    events.cancelled = [this, raw](const Error&) { Drop(raw); };
    if (unary) {
      events.message = [this, raw](const RpcMessage&) {
        ++unary_;
        static_cast<void>(raw->Send(RpcMessage::Of(api::Empty{})));
        raw->Finish({});
        Drop(raw);
      };
    } else if (raw->info().policy->path == api::kSubmitHealthReport.path) {
      events.message = [this](const RpcMessage&) { ++reports_; };
    }
    raw->Listen(std::move(events));
  }

  [[nodiscard]] std::uint64_t reports() const { return reports_; }
  [[nodiscard]] std::uint64_t unary() const { return unary_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const RpcServerCall* call) const {
      return std::hash<const void*>()(call);
    }
    std::size_t operator()(const std::unique_ptr<RpcServerCall>& call) const {
      return (*this)(call.get());
    }
  };
  struct Equal {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return &*a == &*b;
    }
  };

  void Drop(const RpcServerCall* call) {
    if (const auto at = calls_.find(call); at != calls_.end()) calls_.erase(at);
  }

  std::unordered_set<std::unique_ptr<RpcServerCall>, Hash, Equal> calls_;
  std::uint64_t reports_ = 0;
  std::uint64_t unary_ = 0;
};

int Serve(const std::filesystem::path& folder) {
  RealLoop loop;
  ErrorSink sink;
  const std::vector<RpcMethod> methods = Must(rpc_codec::MakeMethodTable(RpcPolicy()));
  Handlers handlers;
  grpc::SocketRpcServer server({.loop = loop,
                                .methods = methods,
                                .policy = RpcPolicy(),
                                .logger = log::Logger(sink, "rpc"),
                                .limits = {.connections = grpc::ConnectionsOfProcess(),
                                           .loopback = grpc::AdmissionLimits::Loopback::kExempt}});
  Must(server.SetTls(ReadMaterial(folder, "server")));
  const Pending opening = server.Open(
      {.port = RpcPort::kAgent,
       .bind = {.host = "127.0.0.1"},
       .accept = [&](std::unique_ptr<RpcServerCall> call) { handlers.Take(std::move(call)); }},
      [](const Result<RpcAddress>& address) {
        fmt::print("PORT {}\n", Must(address).port);
        std::fflush(stdout);
      });
  const auto input = loop.Watch(STDIN_FILENO, {.readable = true}, [&](Readiness) {
    std::array<char, 64> ignored{};
    if (read(STDIN_FILENO, ignored.data(), ignored.size()) <= 0) loop.Stop();
  });
  loop.Run();
  fmt::print("COUNTS {} {}\n", handlers.reports(), handlers.unary());
  std::fflush(stdout);
  _exit(0);  // What is open goes with the process.
}

}  // namespace
}  // namespace nstance::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FOLDER\n", argv[0]);
    return 2;
  }
  return nstance::bench::Serve(argv[1]);
}

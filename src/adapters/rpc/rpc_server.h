// SocketRpcServer: ports/rpc.h's RpcServer on TCP, TLS and HTTP/2.
//
// The registration listener has an I/O thread of its own; the agent and operator listeners share
// `io_threads` further ones, their sockets dealt in turn. Threads start with the first listener
// that needs them. Events of calls cross to `loop` in batches; those of the registration thread get
// a bounded share of each turn, so that a flood of strangers does not slow the agents.
//
//   SocketRpcServer server({.loop = loop, .methods = methods, .policy = RpcPolicy(), ...});
//   RETURN_IF_ERROR(server.SetTls(material));
//   opening_ = server.Open({.port = RpcPort::kAgent, .bind = {.host = "::", .port = 8994},
//                           .accept = [this](auto call) { OnCall(std::move(call)); }}, opened);
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "adapters/rpc/admission.h"
#include "adapters/rpc/listener_rules.h"
#include "base/log.h"
#include "base/metrics.h"
#include "ports/loop.h"
#include "ports/rpc.h"
#include "ports/rpc_codec.h"

namespace nstance::grpc {

struct RpcServerSetup {
  Loop& loop;  // Outlives the server and the calls.
  // Both outlive the server. Every offered row has a method of its kind (a CHECK).
  std::span<const RpcMethod> methods;
  std::span<const RpcPolicyRow> policy;
  log::Logger logger;
  AdmissionLimits limits = {};
  unsigned io_threads = 1;
  RulesOfListeners rules = {};
};

class SocketRpcServer final : public RpcServer {
 public:
  explicit SocketRpcServer(const RpcServerSetup& setup);
  ~SocketRpcServer() override;

  [[nodiscard]] Status SetTls(RpcTls material) override;
  [[nodiscard]] Pending Open(RpcListen listen, Opened done) override;
  [[nodiscard]] Pending Close(RpcPort port, Instant deadline, Task done) override;
  void CloseConnections(const RpcConnectionsOf& whose, const Error& why) override;
  [[nodiscard]] Pending Stop(Instant deadline, Task done) override;

  // What the I/O threads have counted. `done` runs on the loop.
  using Counted = std::move_only_function<void(metrics::Snapshot)>;
  [[nodiscard]] Pending TakeMetrics(Counted done);
  // What is open at this moment, over all threads.
  [[nodiscard]] Admission::Usage usage() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace nstance::grpc

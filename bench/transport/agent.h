// BenchAgent: one agent as a server sees it: a connection with three streams (health reports, key
// requests, files), and unary calls on demand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ports/api/agent.h"
#include "ports/rpc.h"

namespace nstance::bench {

// A report of 834 bytes, as an agent on a machine with four cores and six files sends it.
[[nodiscard]] api::HealthReportRequest SampleReport();

class BenchAgent final {
 public:
  // Ends the process with a message when the connection or a stream is lost.
  BenchAgent(RpcDialer& dialer, RpcAddress server, RpcTls tls);

  // `ready` runs when the connection stands and the streams have been started.
  void Connect(std::function<void()> ready);
  // False when the send queue is full: the server does not keep up.
  [[nodiscard]] bool Report(const RpcMessage& report);
  // One unary call; `done` runs at its end.
  void CallUnary(const RpcMessage& request, std::function<void()> done);

 private:
  void OnState(RpcChannelState state, const Status& why);
  void StartStreams();

  std::function<void()> ready_;
  std::function<void()> unary_done_;
  std::unique_ptr<RpcChannel> channel_;
  std::unique_ptr<RpcCall> reports_;
  std::unique_ptr<RpcCall> keys_;
  std::unique_ptr<RpcCall> files_;
  std::unique_ptr<RpcCall> unary_;
};

}  // namespace nstance::bench

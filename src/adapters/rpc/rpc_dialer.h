// SocketRpcDialer: ports/rpc.h's RpcDialer on TCP, TLS and HTTP/2, on the caller's own RealLoop.
//
// There is no thread here: a whole agent runs on one. Names are resolved by c-ares; the addresses
// found are tried one after the other until one answers or the time is up. What the calls of one
// turn send goes out in one write at its end.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "adapters/real_loop/real_loop.h"
#include "base/input_probe.h"
#include "ports/rpc.h"
#include "ports/rpc_codec.h"

namespace nstance::grpc {

struct RpcDialerSetup {
  RealLoop& loop;
  std::span<const RpcMethod> methods;  // Outlives the channels.
  InputSource source = {};
  // A literal IPv4 address of this machine to call from; empty: the kernel's choice. Load that
  // stands for many machines spreads over 127.0.0.0/8.
  std::string call_from = {};
};

class SocketRpcDialer final : public RpcDialer {
 public:
  explicit SocketRpcDialer(RpcDialerSetup setup) : setup_(std::move(setup)) {}
  [[nodiscard]] std::unique_ptr<RpcChannel> Dial(RpcTarget target,
                                                 RpcChannelEvents events) override;

 private:
  RpcDialerSetup setup_;
};

}  // namespace nstance::grpc

// The product's own services on all three ports of a real server, as a process with --debug has
// them or without, and nobody behind them but reflection.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_server.h"
#include "adapters/rpc_codec/method_table.h"
#include "adapters/rpc_reflection/reflection_service.h"
#include "test/adapters/rpc/rpc_fixture.h"
#include "test/adapters/rpc/rpc_materials.h"
#include "test/support/loop_runner.h"

namespace nstance::rpc_reflection::test {

enum class Debug : std::uint8_t { kOff, kOn };

class ReflectingServer final {
 public:
  ReflectingServer(RealLoop& loop, Debug debug) : loop_(loop) {
    Result<std::vector<RpcMethod>> table = rpc_codec::MakeMethodTable(RpcPolicy());
    EXPECT_TRUE(table.has_value());
    methods_ = *std::move(table);
    policy_.assign(RpcPolicy().begin(), RpcPolicy().end());
    if (debug == Debug::kOn) {
      AddReflection(methods_, policy_);
      reflection_ = std::make_unique<ReflectionService>(policy_);
    }
    server_ = std::make_unique<grpc::SocketRpcServer>(
        grpc::RpcServerSetup{.loop = loop_,
                             .methods = methods_,
                             .policy = policy_,
                             .logger = log::Logger(sink_, "rpc"),
                             .limits = {.loopback = grpc::AdmissionLimits::Loopback::kExempt}});
    EXPECT_TRUE(server_->SetTls(grpc::test::ServerMaterial()).has_value());
  }

  RpcAddress Open(RpcPort port) {
    std::optional<Result<RpcAddress>> opened;
    const Pending pending =
        server_->Open({.port = port,
                       .bind = {.host = "127.0.0.1", .port = 0},
                       .accept =
                           [this](std::unique_ptr<RpcServerCall> call) {
                             if (reflection_ != nullptr && ReflectionService::Owns(*call)) {
                               reflection_->Accept(std::move(call));
                             }
                           }},
                      [&](Result<RpcAddress> address) { opened = std::move(address); });
    EXPECT_TRUE(nstance::test::RunUntil(loop_, [&] { return opened.has_value(); }));
    return opened->value_or(RpcAddress{});
  }

  [[nodiscard]] const std::vector<RpcMethod>& methods() const { return methods_; }
  [[nodiscard]] ReflectionService* reflection() { return reflection_.get(); }

 private:
  RealLoop& loop_;
  grpc::test::QuietSink sink_;
  std::vector<RpcMethod> methods_;
  std::vector<RpcPolicyRow> policy_;
  std::unique_ptr<ReflectionService> reflection_;
  std::unique_ptr<grpc::SocketRpcServer> server_;
};

}  // namespace nstance::rpc_reflection::test

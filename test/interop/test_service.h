// The interoperability test service on our transport: its methods, who may call them, and a server
// that behaves as the public description of the tests asks.
//
// Messages are the generated ones (testing.proto), carried as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ports/loop.h"
#include "ports/rpc.h"
#include "ports/rpc_codec.h"

namespace nstance::interop {

inline constexpr std::string_view kEmptyCall = "/grpc.testing.TestService/EmptyCall";
inline constexpr std::string_view kUnaryCall = "/grpc.testing.TestService/UnaryCall";
inline constexpr std::string_view kOutputCall = "/grpc.testing.TestService/StreamingOutputCall";
inline constexpr std::string_view kInputCall = "/grpc.testing.TestService/StreamingInputCall";
inline constexpr std::string_view kFullDuplexCall = "/grpc.testing.TestService/FullDuplexCall";
inline constexpr std::string_view kHalfDuplexCall = "/grpc.testing.TestService/HalfDuplexCall";
inline constexpr std::string_view kUnimplementedCall =
    "/grpc.testing.TestService/UnimplementedCall";
inline constexpr std::string_view kUnimplementedService =
    "/grpc.testing.UnimplementedService/UnimplementedCall";

// Echoed by the server: the first in front of the messages, the second behind them.
inline constexpr std::string_view kEchoInitial = "x-grpc-test-echo-initial";
inline constexpr std::string_view kEchoTrailing = "x-grpc-test-echo-trailing-bin";

// All of the above.
[[nodiscard]] std::span<const RpcMethod> Methods();
// On every port for the role that it admits; UnimplementedCall is not offered, and
// UnimplementedService has no row.
[[nodiscard]] std::span<const RpcPolicyRow> Policy();

class TestService final {
 public:
  explicit TestService(Loop& loop);
  ~TestService();

  void Accept(std::unique_ptr<RpcServerCall> call);

  [[nodiscard]] std::size_t open() const { return active_.size(); }
  // How many calls of the method have come.
  [[nodiscard]] int calls(std::string_view path) const;
  // Why calls ended before the server finished them, in that order.
  [[nodiscard]] const std::vector<Error>& cancelled() const { return cancelled_; }

 private:
  class Active;

  Loop& loop_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Active>> active_;
  std::map<std::string, int, std::less<>> calls_;
  std::vector<Error> cancelled_;
};

}  // namespace nstance::interop

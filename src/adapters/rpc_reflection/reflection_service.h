// Server reflection for people with grpcurl: which services a port offers, and what they look like.
//
// A process that runs with --debug adds it to the tables that its server is made of, and hands its
// calls over behind the gate that every call passes:
//
//   if (flags.debug) {
//     AddReflection(methods, policy);                 // Before the server is made with both.
//     reflection_ = std::make_unique<ReflectionService>(policy);
//   }
//   ...
//   if (reflection_ != nullptr && ReflectionService::Owns(*call)) {
//     return reflection_->Accept(std::move(call));
//   }
//
// Without that the path has no policy row, and the transport answers UNIMPLEMENTED.
//
// Guarantees, each held by a test:
//   - a port tells of its own services and of what these import, and of nothing else
//   - a name that is not there is an answer (NOT_FOUND) in the stream, which goes on
//   - a caller that asks without reading is paused: what waits for it stays bounded
//   - a call lasts a minute at most and counts with the port's unary calls
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "adapters/rpc_reflection/descriptor_index.h"
#include "core/rpc_policy.h"
#include "ports/rpc.h"
#include "ports/rpc_codec.h"

namespace nstance::rpc_reflection {

inline constexpr std::string_view kReflectionPath =
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
// A request is a name; a longer one is refused before it is decoded.
inline constexpr std::size_t kMaxReflectionRequestBytes = 4096;

// The method, and its rows: one for each port, for the role that the port admits.
void AddReflection(std::vector<RpcMethod>& methods, std::vector<RpcPolicyRow>& policy);

// Lives on the loop of its calls.
class ReflectionService final {
 public:
  // `policy`: all rows of the server. A port's services are those with an offered row there.
  explicit ReflectionService(std::span<const RpcPolicyRow> policy);
  // Its calls end with UNAVAILABLE.
  ~ReflectionService();
  ReflectionService(const ReflectionService&) = delete;
  ReflectionService& operator=(const ReflectionService&) = delete;

  [[nodiscard]] static bool Owns(const RpcServerCall& call) {
    return call.info().policy->path == kReflectionPath;
  }
  // REQUIRES: Owns(*call).
  void Accept(std::unique_ptr<RpcServerCall> call);

  [[nodiscard]] std::size_t open_calls() const { return calls_.size(); }

 private:
  void OnMessage(std::uint64_t id, const RpcMessage& message);
  void OnHalfClose(std::uint64_t id);
  void OnDrained(std::uint64_t id);

  std::map<RpcPort, DescriptorIndex> ports_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::unique_ptr<RpcServerCall>> calls_;
};

}  // namespace nstance::rpc_reflection

// RpcMethod: one method as the transport sees it: its path, its kind and how its messages become
// bytes. A transport is made with a table of these and a policy table (core/rpc_policy.h).
//
// adapters/rpc_codec makes the table of the product's methods from the protobuf descriptors. The
// transport's own tests bring others, for example one whose messages are plain std::string bytes.
// The simulated transport needs none: it passes the structs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/input_probe.h"
#include "base/result.h"
#include "core/rpc_policy.h"
#include "ports/rpc_message.h"

namespace nstance {

// Both functions may be called on any thread and keep nothing but scratch memory of that thread.
struct RpcMessageCodec {
  // The bytes of one message, without the gRPC prefix. Total: any bytes give a message or an error,
  // in time and memory bounded by their length:
  // kInvalidArgument: not this message (malformed, cut, bad UTF-8), nested deeper than 64, or more
  // elements in a repeated or map field than wire.md 1.1 allows, which is found before anything is
  // built from them.
  // The error's message is safe to send to the peer; the source counts.
  Result<RpcMessage> (*decode)(std::string_view bytes, const InputSource& source) = nullptr;

  // REQUIRES: the message is of the codec's type (a CHECK: it is our own mistake).
  std::string (*encode)(const RpcMessage& message) = nullptr;
};

struct RpcMethod {
  std::string path = {};  // "/nstance.v1.AgentService/ReceiveFiles".
  RpcKind kind = RpcKind::kUnary;
  RpcMessageCodec request = {};
  RpcMessageCodec response = {};
};

// Largest message that any of our programs sends; the receiver's own limit may be lower.
inline constexpr std::size_t kMaxRpcMessageBytes = std::size_t{4} * 1024 * 1024;

// The message's bytes, encoded now or by an earlier call for the same value.
[[nodiscard]] inline RpcMessage::Encoded EncodeShared(const RpcMessageCodec& codec,
                                                      const RpcMessage& message) {
  if (message.encoded() == nullptr) {
    message.KeepEncoded(std::make_shared<const std::string>(codec.encode(message)));
  }
  return message.encoded();
}

// The method of that exact path, or null.
[[nodiscard]] inline const RpcMethod* FindRpcMethod(std::span<const RpcMethod> methods,
                                                    std::string_view path) {
  for (const RpcMethod& method : methods) {
    if (method.path == path) return &method;
  }
  return nullptr;
}

}  // namespace nstance

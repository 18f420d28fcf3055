// The methods of nstance.v1 for a transport: paths and kinds from the proto's descriptors, codecs
// from convert.h.
//
//   ASSIGN_OR_RETURN(const std::vector<RpcMethod> methods, MakeMethodTable(RpcPolicy()));
//
// Decoding (ports/rpc_codec.h): the bytes are checked by wire_shape.h, parsed into an arena of the
// calling thread with a recursion limit of 64, and copied into the struct. Encoding writes one
// value in one way: fields by number, map entries by key.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/rpc_policy.h"
#include "ports/rpc_codec.h"

namespace nstance::rpc_codec {

// Every method of every service. kFailedPrecondition when the policy table does not fit the
// methods, method for method (CheckPolicyCovers): then the process does not start.
[[nodiscard]] Result<std::vector<RpcMethod>> MakeMethodTable(std::span<const RpcPolicyRow> policy);

// Those that an agent calls: registration and agent service, the same as in the table above. A
// program that uses this one alone has nothing of the operator's messages in it.
[[nodiscard]] std::vector<RpcMethod> MakeAgentMethodTable();

// Every message that a method takes or answers, by its full name ("nstance.v1.GroupStatus"),
// sorted. Static storage.
struct NamedCodec {
  std::string_view name;
  RpcMessageCodec codec;
};
[[nodiscard]] std::span<const NamedCodec> MessageCodecs();

}  // namespace nstance::rpc_codec

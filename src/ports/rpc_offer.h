// What a transport puts in front of a listener's acceptor: it answers calls of methods that are
// written and not offered yet. The gate is asked about them as about any other call, so that only
// whom it would let in learns that the method is not offered.
#pragma once

#include <memory>
#include <utility>

#include "base/result.h"
#include "core/rpc_policy.h"
#include "ports/rpc.h"

namespace nstance {

[[nodiscard]] inline RpcAcceptor OfferedOnly(RpcAcceptor accept, RpcGate gate) {
  return [accept = std::move(accept),
          gate = std::move(gate)](std::unique_ptr<RpcServerCall> call) mutable {
    if (call->info().policy->offer == RpcOffer::kOffered) return accept(std::move(call));
    Status admitted = gate ? gate(call->info()) : Status();
    if (!admitted.has_value()) return call->Finish(std::move(admitted));
    call->Finish(Fail(Error{.code = Code::kUnimplemented, .message = "the method is not offered"}));
  };
}

}  // namespace nstance

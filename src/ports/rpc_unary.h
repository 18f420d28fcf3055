// CallUnary: one request, one answer, with types; what most callers want.
//
//   pending_ = CallUnary(*channel_, api::kSubmitPublicKeys,
//                        {.message = std::move(request), .timeout = Duration::Seconds(10)},
//                        [this](Result<api::Empty> answer) { ... });
//
// Dropping the Pending resets the call (ports/pending.h). An answer of another type than the
// method's, which only a wrong method table can give, is kInternal, kMaybeDone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/api/methods.h"
#include "ports/pending.h"
#include "ports/rpc.h"

namespace nstance {

namespace rpc_internal {

template <class Response>
struct UnaryCall {
  std::unique_ptr<RpcCall> call = nullptr;
  std::optional<RpcMessage> response = std::nullopt;
  std::move_only_function<void(Result<Response>)> done = nullptr;

  [[nodiscard]] Result<Response> Answer(const Status& status) {
    if (!status) return Fail(status.error());
    if (!response || response->template As<Response>() == nullptr) {
      return Fail(Internal("the answer is of another type").MaybeDone());
    }
    return std::move(*response).template Take<Response>();
  }
};

}  // namespace rpc_internal

template <class Request>
struct UnaryRequest {
  Request message = {};
  std::optional<Duration> timeout = std::nullopt;
  RpcMetadata metadata = {};
};

// REQUIRES: the method is unary.
template <class Request, class Response>
[[nodiscard]] Pending CallUnary(
    RpcChannel& channel, const api::Method<Request, Response>& method,
    UnaryRequest<std::type_identity_t<Request>> request,
    std::move_only_function<void(Result<std::type_identity_t<Response>>)> done) {
  CHECK(method.kind == RpcKind::kUnary, "{}", method.path);
  auto state = std::make_shared<rpc_internal::UnaryCall<Response>>();
  state->done = std::move(done);
  auto* at = state.get();  // The call is the state's own: its events do not outlive it.
  state->call = channel.Start(
      method.path, {.timeout = request.timeout, .metadata = std::move(request.metadata)},
      {.message = [at](RpcMessage message) { at->response = std::move(message); },
       .end =
           [at](const RpcEnd& end) {
             // The caller may drop everything from inside.
             auto tell = std::exchange(at->done, nullptr);
             tell(at->Answer(end.status));
           }});
  state->call->Send(RpcMessage::Of(std::move(request.message)));
  return Pending([state = std::move(state)] { state->call.reset(); });
}

}  // namespace nstance

// UnaryCalls: the open unary calls of a service, and the way back to their callers.
//
//   calls_.Serve(api::kListGroups, std::move(call),
//       [this](api::Empty, const RpcCallInfo& info, Reply<api::ListGroupsResponse> reply) {
//         reply(List(info.peer.identity->tenant));
//       });
//
// A Reply may be kept and used later, once; it does nothing when the caller has gone. All calls end
// with the object.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "ports/api/methods.h"
#include "ports/rpc.h"

namespace nstance {

class UnaryCalls;

template <class Response>
class Reply {
 public:
  Reply(UnaryCalls& calls, std::uint64_t number) : calls_(&calls), number_(number) {}
  void operator()(Result<Response> answer) const;

 private:
  UnaryCalls* calls_ = nullptr;
  std::uint64_t number_ = 0;
};

class UnaryCalls final {
 public:
  UnaryCalls() = default;
  UnaryCalls(const UnaryCalls&) = delete;
  UnaryCalls& operator=(const UnaryCalls&) = delete;

  template <class Request, class Response, class Handler>
  void Serve(const api::Method<Request, Response>& /*method*/, std::unique_ptr<RpcServerCall> call,
             Handler handle) {
    const std::uint64_t number = next_++;
    RpcServerCall& held = *(calls_[number] = std::move(call));
    held.Listen(
        {.message =
             [this, number, &held, handle = std::move(handle)](const RpcMessage& message) mutable {
               const auto* request = message.template As<Request>();
               const Reply<Response> reply(*this, number);
               if (request == nullptr) {
                 return reply(Fail(Internal("the request is of another type")));
               }
               handle(*request, held.info(), reply);
             },
         .cancelled = [this, number](const Error&) { calls_.erase(number); }});
  }

  [[nodiscard]] std::size_t size() const { return calls_.size(); }

 private:
  template <class Response>
  friend class Reply;

  template <class Response>
  void Answer(std::uint64_t number, Result<Response> answer) {
    const auto at = calls_.find(number);
    if (at == calls_.end()) return;
    const std::unique_ptr<RpcServerCall> call = std::move(at->second);
    calls_.erase(at);
    if (!answer.has_value()) return call->Finish(Fail(std::move(answer).error()));
    if (call->Send(RpcMessage::Of(std::move(answer).value())) == RpcSend::kTooLarge) {
      return call->Finish(Fail(ResourceExhausted("the answer is above 4 MiB")));
    }
    call->Finish({});
  }

  std::map<std::uint64_t, std::unique_ptr<RpcServerCall>> calls_;
  std::uint64_t next_ = 1;
};

template <class Response>
void Reply<Response>::operator()(Result<Response> answer) const {
  calls_->Answer<Response>(number_, std::move(answer));
}

}  // namespace nstance

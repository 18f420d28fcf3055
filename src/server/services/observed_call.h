// ObservedCall: an RPC that is counted when it ends, however it ends.
//
//   grpc_requests_total{method,code}     every call that a listener handed over, by its status
//   grpc_request_seconds{method,code}    of streams: how long they were open
//   registrations_total{kind,code}       RegisterAgent, RegisterOperator
//
// Calls that the transport itself refuses are in `limit_hits_total` and `bad_input_total`.
#pragma once

#include <memory>
#include <utility>

#include "base/metrics.h"
#include "ports/loop.h"
#include "ports/rpc.h"

namespace nstance {

class ObservedCall final : public RpcServerCall {
 public:
  // Loop and registry outlive it.
  ObservedCall(std::unique_ptr<RpcServerCall> call, Loop& loop, metrics::Registry& metrics);
  // Not finished: the transport answers UNAVAILABLE.
  ~ObservedCall() override;

  static void Declare(metrics::Snapshot& page);

  [[nodiscard]] const RpcCallInfo& info() const override { return call_->info(); }
  void Listen(RpcServerEvents events) override;
  void SetResponseMetadata(RpcMetadata metadata) override {
    call_->SetResponseMetadata(std::move(metadata));
  }
  RpcSend Send(RpcMessage message) override { return call_->Send(std::move(message)); }
  void Finish(Status status, RpcMetadata trailing) override;
  using RpcServerCall::Finish;
  void Pause() override { call_->Pause(); }
  void Resume() override { call_->Resume(); }

 private:
  void Count(const Error* error);

  std::unique_ptr<RpcServerCall> call_;
  Loop& loop_;
  metrics::Registry& metrics_;
  Instant began_at_;
  bool counted_ = false;
};

}  // namespace nstance

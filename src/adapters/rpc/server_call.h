// ServerCall: a call as its handler on the loop holds it. Everything here runs on the loop.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "adapters/rpc/server_link.h"
#include "ports/loop.h"
#include "ports/rpc.h"

namespace nstance::grpc {

class ServerCall final : public RpcServerCall {
 public:
  // `loop` outlives the call.
  ServerCall(Loop& loop, std::shared_ptr<CallShared> shared);
  ~ServerCall() override;

  [[nodiscard]] const RpcCallInfo& info() const override { return shared_->info; }
  void Listen(RpcServerEvents events) override;
  void SetResponseMetadata(RpcMetadata metadata) override;
  RpcSend Send(RpcMessage message) override;
  void Finish(Status status, RpcMetadata trailing) override;
  void Pause() override;
  void Resume() override;

  // An event from the thread; it may destroy the call.
  static void Deliver(const std::shared_ptr<CallShared>& shared, Event event);

 private:
  void PostPending();
  static void DeliverPending(const std::shared_ptr<CallShared>& shared);
  static void Tell(const std::shared_ptr<CallShared>& shared, Event event);
  template <class Function, class... Args>
  static void Invoke(const std::shared_ptr<CallShared>& shared, Function RpcServerEvents::* which,
                     Args&&... args);
  void Command(CallVerb verb);

  Loop& loop_;
  std::shared_ptr<CallShared> shared_;
  RpcServerEvents events_;
  std::uint64_t listened_ = 0;  // How often Listen() was called.
  std::list<Event> pending_;    // Empty it holds nothing. Before Listen(), or while paused.
  std::uint64_t sent_ = 0;
  bool paused_ = false;
  bool full_ = false;  // Until drained.
  bool over_ = false;  // Finished, or cancelled.
};

[[nodiscard]] Metadata ToMetadata(RpcMetadata metadata);
[[nodiscard]] RpcMetadata FromMetadata(Metadata metadata);

}  // namespace nstance::grpc

#include "adapters/rpc/server_call.h"

#include <utility>

#include "adapters/rpc/grpc_frame.h"
#include "base/check.h"

namespace nstance::grpc {

Metadata ToMetadata(RpcMetadata metadata) {
  Metadata out;
  out.reserve(metadata.size());
  for (RpcMetadataEntry& entry : metadata) {
    out.push_back({.name = std::move(entry.name), .value = std::move(entry.value)});
  }
  return out;
}

RpcMetadata FromMetadata(Metadata metadata) {
  RpcMetadata out;
  out.reserve(metadata.size());
  for (MetadataEntry& entry : metadata) {
    out.push_back({.name = std::move(entry.name), .value = std::move(entry.value)});
  }
  return out;
}

ServerCall::ServerCall(Loop& loop, std::shared_ptr<CallShared> shared)
    : loop_(loop), shared_(std::move(shared)) {
  shared_->holder = this;
}

ServerCall::~ServerCall() {
  shared_->holder = nullptr;
  if (over_) return;
  shared_->link->Push({.verb = CallVerb::kFinish,
                       .call = shared_,
                       .message = nullptr,
                       .status = nstance::Fail(Unavailable("the server is stepping down")),
                       .metadata = {}});
}

void ServerCall::Command(CallVerb verb) {
  shared_->link->Push(grpc::Command{
      .verb = verb, .call = shared_, .message = nullptr, .status = {}, .metadata = {}});
}

// --- Verbs --------------------------------------------------------------------------------------

void ServerCall::Listen(RpcServerEvents events) {
  events_ = std::move(events);
  ++listened_;
  PostPending();
}

void ServerCall::SetResponseMetadata(RpcMetadata metadata) {
  if (over_) return;
  CHECK(sent_ == 0, "metadata goes out with the first message");
  shared_->link->Push({.verb = CallVerb::kMetadata,
                       .call = shared_,
                       .message = nullptr,
                       .status = {},
                       .metadata = ToMetadata(std::move(metadata))});
}

RpcSend ServerCall::Send(RpcMessage message) {
  if (over_ || full_ || shared_->link->closed()) return RpcSend::kRefused;
  const std::uint64_t waiting = sent_ - shared_->written.load();
  RpcMessage::Encoded bytes = EncodeShared(shared_->method->response, message);
  if (bytes->size() > kMaxRpcMessageBytes) return RpcSend::kTooLarge;
  const std::size_t size = kFramePrefixBytes + bytes->size();
  sent_ += size;
  full_ = waiting + size >= shared_->queue_full;
  shared_->link->Push({.verb = full_ ? CallVerb::kSendNowFull : CallVerb::kSend,
                       .call = shared_,
                       .message = std::move(bytes),
                       .status = {},
                       .metadata = {}});
  return full_ ? RpcSend::kTakenNowFull : RpcSend::kTaken;
}

void ServerCall::Finish(Status status, RpcMetadata trailing) {
  if (over_) return;
  over_ = true;
  pending_.clear();
  shared_->link->Push({.verb = CallVerb::kFinish,
                       .call = shared_,
                       .message = nullptr,
                       .status = std::move(status),
                       .metadata = ToMetadata(std::move(trailing))});
}

void ServerCall::Pause() {
  if (over_ || paused_) return;
  paused_ = true;
  Command(CallVerb::kPause);
}

void ServerCall::Resume() {
  if (over_ || !paused_) return;
  paused_ = false;
  Command(CallVerb::kResume);
  PostPending();
}

// --- Events -------------------------------------------------------------------------------------

void ServerCall::PostPending() {
  if (pending_.empty()) return;
  loop_.Post([shared = shared_] { DeliverPending(shared); });
}

void ServerCall::DeliverPending(const std::shared_ptr<CallShared>& shared) {
  while (shared->holder != nullptr) {
    ServerCall& self = *shared->holder;
    if (self.over_ || self.paused_ || self.listened_ == 0 || self.pending_.empty()) return;
    Event event = std::move(self.pending_.front());
    self.pending_.pop_front();
    Tell(shared, std::move(event));
  }
}

void ServerCall::Deliver(const std::shared_ptr<CallShared>& shared, Event event) {
  if (shared->holder == nullptr) return;
  ServerCall& self = *shared->holder;
  if (self.over_) return;
  // The end overtakes what waits; so does "drained", which is about the other direction.
  const bool in_order = event.kind == CallEvent::kMessage || event.kind == CallEvent::kHalfClose;
  const bool waits = in_order && (self.paused_ || !self.pending_.empty());
  if (self.listened_ == 0 || waits) {
    if (event.kind == CallEvent::kCancelled) self.pending_.clear();
    self.pending_.push_back(std::move(event));
    return;
  }
  Tell(shared, std::move(event));
}

// The function is taken out while it runs: it may destroy the call, or listen anew.
template <class Function, class... Args>
void ServerCall::Invoke(const std::shared_ptr<CallShared>& shared,
                        Function RpcServerEvents::* which, Args&&... args) {
  Function function = std::exchange(shared->holder->events_.*which, nullptr);
  if (!function) return;
  const std::uint64_t listened = shared->holder->listened_;
  function(std::forward<Args>(args)...);
  if (shared->holder != nullptr && shared->holder->listened_ == listened) {
    shared->holder->events_.*which = std::move(function);
  }
}

void ServerCall::Tell(const std::shared_ptr<CallShared>& shared, Event event) {
  switch (event.kind) {
    case CallEvent::kOpened: break;
    case CallEvent::kMessage:
      return Invoke(shared, &RpcServerEvents::message, std::move(*event.message));
    case CallEvent::kHalfClose: return Invoke(shared, &RpcServerEvents::half_close);
    case CallEvent::kDrained:
      shared->holder->full_ = false;
      return Invoke(shared, &RpcServerEvents::drained);
    case CallEvent::kCancelled:
      shared->holder->over_ = true;
      shared->holder->pending_.clear();
      return Invoke(shared, &RpcServerEvents::cancelled, *event.error);
  }
}

}  // namespace nstance::grpc

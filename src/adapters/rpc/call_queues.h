// The two queues of a call: encoded messages that wait for the other side's window, and bytes that
// wait for the handler. Pure values; both are empty and hold no memory while a call is idle.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "adapters/rpc/grpc_frame.h"
#include "base/result.h"
#include "base/text.h"
#include "ports/rpc_message.h"

namespace nstance::grpc {

// Messages are shared, so that one encoded message goes to many watchers without a copy.
class SendQueue final {
 public:
  void Push(RpcMessage::Encoded message) {
    bytes_ += kFramePrefixBytes + message->size();
    messages_.push_back(std::move(message));
  }
  // Fills `room` with prefixes and messages; the number of bytes written.
  std::size_t Read(std::span<std::uint8_t> room);
  // What has not been read yet, prefixes included.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_ == 0; }
  void Clear();

 private:
  std::vector<RpcMessage::Encoded> messages_;
  std::size_t first_ = 0;   // Those before were read; dropped together when the queue is empty.
  std::size_t offset_ = 0;  // Into the first message, its prefix included.
  std::size_t bytes_ = 0;
};

// Bytes in, whole messages out, unless the handler pauses or its connection is held up: then bytes
// are kept as they are, which is bounded by the stream's window, since no credit is given for them.
class Inbox final {
 public:
  // `held_up` is the connection's, looked at before each message; null: never.
  explicit Inbox(const FrameRules& rules, const bool* held_up = nullptr)
      : reader_(rules), held_up_(held_up) {}

  // Calls `deliver` with each message (a span); it returns a Status, and may call Pause(). The
  // value is the number of bytes whose credit is due.
  template <class Deliver>
  [[nodiscard]] Result<std::size_t> Feed(std::span<const std::uint8_t> bytes, Deliver&& deliver) {
    if (stopped() || !held_.empty()) {
      held_.insert(held_.end(), bytes.begin(), bytes.end());
      return 0;
    }
    return Take(bytes, deliver);
  }

  void Pause() { paused_ = true; }
  // Delivers what was kept.
  template <class Deliver>
  [[nodiscard]] Result<std::size_t> Resume(Deliver&& deliver) {
    paused_ = false;
    return GoOn(deliver);
  }
  // The same when the connection is no longer held up; nothing while the handler pauses.
  template <class Deliver>
  [[nodiscard]] Result<std::size_t> GoOn(Deliver&& deliver) {
    if (stopped()) return 0;
    const Bytes held = std::exchange(held_, {});
    return Take(held, deliver);
  }

  [[nodiscard]] bool paused() const { return paused_; }
  // Everything received was delivered or belongs to an unfinished message.
  [[nodiscard]] bool empty() const { return held_.empty(); }
  // The stream may end here without cutting a message. REQUIRES: empty().
  [[nodiscard]] bool AtBoundary() const { return reader_.AtBoundary(); }
  [[nodiscard]] std::size_t unfinished() const { return reader_.buffered(); }

 private:
  template <class Deliver>
  [[nodiscard]] Result<std::size_t> Take(std::span<const std::uint8_t> bytes, Deliver& deliver) {
    const std::size_t size = bytes.size();
    while (!bytes.empty() && !stopped()) {
      ASSIGN_OR_RETURN(const MessageReader::Step step, reader_.Read(bytes));
      bytes = bytes.subspan(step.consumed);
      if (step.message) RETURN_IF_ERROR(deliver(*step.message));
    }
    held_.assign(bytes.begin(), bytes.end());
    return size - bytes.size();
  }

  [[nodiscard]] bool stopped() const { return paused_ || (held_up_ != nullptr && *held_up_); }

  MessageReader reader_;
  const bool* held_up_;
  Bytes held_;
  bool paused_ = false;
};

}  // namespace nstance::grpc

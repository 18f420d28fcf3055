#include "adapters/rpc/call_queues.h"

namespace nstance::grpc {

std::size_t SendQueue::Read(std::span<std::uint8_t> room) {
  std::size_t written = 0;
  const auto put = [&](std::span<const std::uint8_t> bytes) {
    const std::size_t n = std::min(bytes.size(), room.size() - written);
    std::copy_n(bytes.begin(), n, room.begin() + static_cast<std::ptrdiff_t>(written));
    written += n;
    offset_ += n;
  };
  while (written < room.size() && first_ < messages_.size()) {
    const std::string& message = *messages_[first_];
    if (offset_ < kFramePrefixBytes) {
      const FramePrefix prefix = MakeFramePrefix(message.size());
      put(std::span(prefix).subspan(offset_));
      if (offset_ < kFramePrefixBytes) break;
    }
    put(AsBytes(message).subspan(offset_ - kFramePrefixBytes));
    if (offset_ < kFramePrefixBytes + message.size()) break;
    offset_ = 0;
    messages_[first_++].reset();
  }
  bytes_ -= written;
  if (first_ == messages_.size()) {
    messages_ = {};
    first_ = 0;
  } else if (first_ >= 64 && first_ * 2 >= messages_.size()) {
    messages_.erase(messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  return written;
}

void SendQueue::Clear() { *this = SendQueue(); }

}  // namespace nstance::grpc

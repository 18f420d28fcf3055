#include "adapters/rpc/grpc_frame.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace nstance::grpc {
namespace {

// What a buffer may keep from one message to the next; streams are idle most of the time.
constexpr std::size_t kKeptCapacity = 4096;

}  // namespace

std::size_t MessageReader::missing() const {
  return prefix_bytes_ < kFramePrefixBytes ? 0 : length_ - message_.size();
}

Status MessageReader::ReadPrefix() {
  const std::uint8_t flags = prefix_[0];
  length_ = (std::size_t{prefix_[1]} << 24U) | (std::size_t{prefix_[2]} << 16U) |
            (std::size_t{prefix_[3]} << 8U) | std::size_t{prefix_[4]};
  if (flags > 1) {
    return Fail(Internal(fmt::format("message with unknown flags 0x{:02x}", flags)));
  }
  if (flags == 1 && rules_.encoding == Encoding::kIdentity) {
    return Fail(Internal("compressed message without grpc-encoding"));
  }
  if (flags == 1) {
    return Fail({.code = Code::kUnimplemented, .message = "compressed messages are not supported"});
  }
  if (length_ > rules_.max_message) {
    return Fail(ResourceExhausted(
        fmt::format("message of {} bytes; at most {} are allowed", length_, rules_.max_message)));
  }
  return {};
}

// Grows by doubling, but never beyond the message's own length.
void MessageReader::Grow(std::size_t more) {
  const std::size_t need = message_.size() + more;
  if (need <= message_.capacity()) return;
  message_.reserve(std::max(need, std::min(length_, 2 * message_.size())));
}

Result<MessageReader::Step> MessageReader::Read(std::span<const std::uint8_t> piece) {
  if (whole_) {
    whole_ = false;
    if (message_.capacity() > kKeptCapacity) {
      message_ = Bytes();
    } else {
      message_.clear();
    }
  }
  std::size_t at = 0;
  if (prefix_bytes_ < kFramePrefixBytes) {
    at = std::min(piece.size(), kFramePrefixBytes - prefix_bytes_);
    std::copy_n(piece.begin(), at, prefix_.begin() + static_cast<std::ptrdiff_t>(prefix_bytes_));
    prefix_bytes_ += at;
    if (prefix_bytes_ < kFramePrefixBytes) return Step{.consumed = at, .message = std::nullopt};
    RETURN_IF_ERROR(ReadPrefix());
  }
  const std::span<const std::uint8_t> rest = piece.subspan(at);
  const std::size_t need = length_ - message_.size();
  if (rest.size() < need) {
    Grow(rest.size());
    message_.insert(message_.end(), rest.begin(), rest.end());
    return Step{.consumed = piece.size(), .message = std::nullopt};
  }
  prefix_bytes_ = 0;
  if (message_.empty()) return Step{.consumed = at + need, .message = rest.first(need)};
  Grow(need);
  message_.insert(message_.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(need));
  whole_ = true;
  return Step{.consumed = at + need, .message = std::span<const std::uint8_t>(message_)};
}

FramePrefix MakeFramePrefix(std::size_t size) {
  CHECK(size <= std::numeric_limits<std::uint32_t>::max(), "size {}", size);
  return {0, static_cast<std::uint8_t>(size >> 24U), static_cast<std::uint8_t>(size >> 16U),
          static_cast<std::uint8_t>(size >> 8U), static_cast<std::uint8_t>(size)};
}

}  // namespace nstance::grpc

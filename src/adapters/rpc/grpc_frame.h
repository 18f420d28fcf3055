// gRPC's message framing: one byte of flags, four bytes of length (big endian), then the message.
//
// MessageReader takes the bytes of one stream in pieces of any size and gives whole messages back.
// It is a pure value: no I/O, no clock. Guarantees, each held by a test:
//   - how the bytes are cut into pieces makes no difference to the messages or the error
//   - a length above the limit is refused when its prefix is complete, before anything is allocated
//     for the message; nothing is ever allocated by the claimed length, only by what has arrived,
//     and never more than twice that
//   - a message that lies whole inside one piece is not copied
//
//   MessageReader reader({.max_message = 65536});
//   while (!piece.empty()) {
//     ASSIGN_OR_RETURN(const MessageReader::Step step, reader.Read(piece));
//     piece = piece.subspan(step.consumed);
//     if (step.message) Handle(*step.message);
//   }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/text.h"

namespace nstance::grpc {

inline constexpr std::size_t kFramePrefixBytes = 5;
using FramePrefix = std::array<std::uint8_t, kFramePrefixBytes>;

// Whether the peer announced a compression with `grpc-encoding`; it only changes the error for a
// message that is marked as compressed.
enum class Encoding : std::uint8_t { kIdentity, kOther };

struct FrameRules {
  std::size_t max_message = 0;
  Encoding encoding = Encoding::kIdentity;
};

class MessageReader final {
 public:
  struct Step {
    std::size_t consumed = 0;  // At least 1 unless the piece was empty.
    // Set when a message ended at `consumed`. Valid until the next call, and as long as the piece.
    std::optional<std::span<const std::uint8_t>> message;
  };

  explicit MessageReader(const FrameRules& rules) : rules_(rules) {}

  // Reads up to the end of one message. Errors are final:
  //   kResourceExhausted  the message is longer than the limit
  //   kUnimplemented      compressed, and the peer said how
  //   kInternal           compressed although the peer named no compression; unknown flags
  [[nodiscard]] Result<Step> Read(std::span<const std::uint8_t> piece);

  // Bytes of an unfinished message that are held, without its prefix.
  [[nodiscard]] std::size_t buffered() const { return whole_ ? 0 : message_.size(); }
  // What is still missing of the message under way; 0 between messages and inside a prefix.
  [[nodiscard]] std::size_t missing() const;
  // True when a stream that ends here was not cut.
  [[nodiscard]] bool AtBoundary() const { return prefix_bytes_ == 0; }

 private:
  [[nodiscard]] Status ReadPrefix();
  void Grow(std::size_t more);

  FrameRules rules_;
  FramePrefix prefix_{};
  std::size_t prefix_bytes_ = 0;
  std::size_t length_ = 0;
  Bytes message_;
  bool whole_ = false;  // message_ holds the message given out by the last call.
};

// The prefix of an uncompressed message. REQUIRES: size < 2^32.
[[nodiscard]] FramePrefix MakeFramePrefix(std::size_t size);

}  // namespace nstance::grpc

// HTTP/2 frames by hand, for what a well-behaved library does not send.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace nstance::grpc::test {

enum class FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kReset = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoaway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
  kUnknown = 0xfa,
};

inline constexpr std::uint8_t kEndStream = 1;
inline constexpr std::uint8_t kAck = 1;
inline constexpr std::uint8_t kEndHeaders = 4;

struct RawFrame {
  FrameType type = FrameType::kData;
  std::uint8_t flags = 0;
  std::uint32_t stream = 0;
  std::string payload = {};
};

inline void AppendFrame(Bytes& out, const RawFrame& frame) {
  const std::size_t size = frame.payload.size();
  const std::uint32_t id = frame.stream;
  for (const std::size_t byte :
       {size >> 16U, size >> 8U, size, static_cast<std::size_t>(frame.type),
        static_cast<std::size_t>(frame.flags), static_cast<std::size_t>(id >> 24U),
        static_cast<std::size_t>(id >> 16U), static_cast<std::size_t>(id >> 8U),
        static_cast<std::size_t>(id)}) {
    out.push_back(static_cast<std::uint8_t>(byte));
  }
  out.insert(out.end(), frame.payload.begin(), frame.payload.end());
}

// Whole frames only.
inline std::vector<RawFrame> ParseFrames(std::span<const std::uint8_t> bytes) {
  std::vector<RawFrame> frames;
  while (bytes.size() >= 9) {
    const std::size_t size =
        (std::size_t{bytes[0]} << 16U) | (std::size_t{bytes[1]} << 8U) | std::size_t{bytes[2]};
    if (bytes.size() < 9 + size) break;
    frames.push_back({.type = static_cast<FrameType>(bytes[3]),
                      .flags = bytes[4],
                      .stream = (static_cast<std::uint32_t>(bytes[5]) << 24U) |
                                (static_cast<std::uint32_t>(bytes[6]) << 16U) |
                                (static_cast<std::uint32_t>(bytes[7]) << 8U) | bytes[8],
                      .payload = std::string(AsText(bytes.subspan(9, size)))});
    bytes = bytes.subspan(9 + size);
  }
  return frames;
}

// A header field that goes into no table, without Huffman coding. Both parts below 127 bytes, or
// the value up to 16,000.
inline std::string LiteralField(std::string_view name, std::string_view value) {
  std::string out(1, '\x10');  // Never indexed, new name.
  out.push_back(static_cast<char>(name.size()));
  out.append(name);
  if (value.size() < 127) {
    out.push_back(static_cast<char>(value.size()));
  } else {
    const std::size_t rest = value.size() - 127;
    out.push_back('\x7f');
    out.push_back(static_cast<char>((rest & 0x7fU) | 0x80U));
    out.push_back(static_cast<char>(rest >> 7U));
  }
  out.append(value);
  return out;
}

inline std::string RequestFields(std::string_view path) {
  return LiteralField(":method", "POST") + LiteralField(":scheme", "https") +
         LiteralField(":path", path) + LiteralField(":authority", "test") +
         LiteralField("content-type", "application/grpc");
}

inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline Bytes ClientOpening() {
  Bytes bytes(kPreface.begin(), kPreface.end());
  AppendFrame(bytes, {.type = FrameType::kSettings});
  AppendFrame(bytes, {.type = FrameType::kSettings, .flags = kAck});
  return bytes;
}

}  // namespace nstance::grpc::test

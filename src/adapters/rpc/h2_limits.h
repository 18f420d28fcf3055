// What one connection may do, as numbers and as counters. Pure values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace nstance::grpc {

inline constexpr std::size_t kMaxHeaderListBytes = std::size_t{16} * 1024;
inline constexpr std::size_t kMaxContinuations = 8;
inline constexpr std::size_t kMaxFrameBytes = std::size_t{16} * 1024;
// Frames of a server that wait for a client that does not read; without data, which is bounded by
// the send queues.
inline constexpr std::size_t kMaxQueuedFrames = 1'000;
inline constexpr std::uint32_t kEncoderTableBytes = 1024;
inline constexpr Duration kRateWindow = Duration::Seconds(10);
// PINGs that come closer than this are strikes; more than kMaxPingStrikes end the connection.
inline constexpr Duration kPingSpacing = Duration::Seconds(10);
inline constexpr int kMaxPingStrikes = 2;

// What is counted per connection and kRateWindow.
enum class Rate : std::uint8_t { kReset, kPing, kSettings, kKeyUpdate, kIdleFrame, kWindowUpdate };
inline constexpr std::size_t kRates = 6;

// The word under which limit_hits_total counts it.
[[nodiscard]] constexpr std::string_view RateName(Rate rate) {
  constexpr std::array<std::string_view, kRates> kNames = {"h2_resets",      "h2_pings",
                                                           "h2_settings",    "tls_key_updates",
                                                           "h2_idle_frames", "h2_window_updates"};
  return kNames.at(static_cast<std::size_t>(rate));
}

// Counts in windows of fixed length that begin with the first event after the last one ended.
class RateCounters final {
 public:
  // Counts `n` events; false when the limit is exceeded.
  [[nodiscard]] bool Count(Rate rate, Instant now, std::uint32_t n = 1) {
    Turn(now);
    auto& count = counts_.at(static_cast<std::size_t>(rate));
    count += n;
    return count <= Limit(rate);
  }
  // DATA frames sent allow for WINDOW_UPDATEs in return.
  void DataSent(Instant now) {
    Turn(now);
    ++data_sent_;
  }

 private:
  void Turn(Instant now) {
    if (now - start_ < kRateWindow) return;
    start_ = now;
    counts_ = {};
    data_sent_ = 0;
  }
  [[nodiscard]] std::uint32_t Limit(Rate rate) const {
    constexpr std::array<std::uint32_t, kRates> kLimits = {200, 100, 10, 10, 100, 100};
    const std::uint32_t limit = kLimits.at(static_cast<std::size_t>(rate));
    return rate == Rate::kWindowUpdate ? limit + 4 * data_sent_ : limit;
  }

  Instant start_ = Instant::FromClock(Duration::Min());
  std::array<std::uint32_t, kRates> counts_{};
  std::uint32_t data_sent_ = 0;
};

// The columns of the table of limits.
struct SessionLimits {
  std::uint32_t max_streams = 0;  // That the other side may open at once.
  std::uint32_t stream_window = 0;
  std::uint32_t connection_window = 0;
  std::size_t max_message = 0;     // Received.
  std::size_t max_unfinished = 0;  // Bytes of unfinished messages, over all streams.
  std::size_t queue_full = 0;      // Send queue per stream.
  std::size_t queue_drained = 0;
};

inline constexpr std::size_t kKiB = 1024;
inline constexpr SessionLimits kRegistrationLimits = {.max_streams = 4,
                                                      .stream_window = 64 * kKiB,
                                                      .connection_window = 128 * kKiB,
                                                      .max_message = 64 * kKiB,
                                                      .max_unfinished = 128 * kKiB,
                                                      .queue_full = 64 * kKiB,
                                                      .queue_drained = 16 * kKiB};
inline constexpr SessionLimits kAgentLimits = {.max_streams = 16,
                                               .stream_window = 64 * kKiB,
                                               .connection_window = 256 * kKiB,
                                               .max_message = 256 * kKiB,
                                               .max_unfinished = 512 * kKiB,
                                               .queue_full = 256 * kKiB,
                                               .queue_drained = 64 * kKiB};
inline constexpr SessionLimits kOperatorLimits = {.max_streams = 128,
                                                  .stream_window = 256 * kKiB,
                                                  .connection_window = 4096 * kKiB,
                                                  .max_message = 4096 * kKiB,
                                                  .max_unfinished = 8192 * kKiB,
                                                  .queue_full = 1024 * kKiB,
                                                  .queue_drained = 256 * kKiB};
inline constexpr SessionLimits kClientLimits = {.max_streams = 0,
                                                .stream_window = 256 * kKiB,
                                                .connection_window = 4096 * kKiB,
                                                .max_message = 4096 * kKiB,
                                                .max_unfinished = 8192 * kKiB,
                                                .queue_full = 256 * kKiB,
                                                .queue_drained = 64 * kKiB};

// Calls of a client on one connection, those included that wait for the server's limit of streams.
inline constexpr std::size_t kMaxClientCalls = 1'024;

// A non-empty send queue without progress for so long resets its stream.
inline constexpr Duration kSendStall = Duration::Seconds(60);

}  // namespace nstance::grpc

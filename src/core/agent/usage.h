// Usage: how busy a host is, from counters read every few seconds.
//
// UsageHistory keeps the last 180 intervals (15 minutes at 5 s) and gives the latest one and means
// over the newest n. Guarantees, each held by a test:
//   - processor use is the share of time that was neither idle nor waiting for I/O, by differences
//     of counters; a counter that goes back counts as no time at all
//   - a mean exists only once its window has been filled; it holds the cores of the latest interval
//     and no others, each over the intervals that had it
//   - traffic of a window is the sum of the differences; counters that start again lose what was
//     counted in between and nothing else
//   - a source that failed is left out of that interval, the rest of it is kept
// Integers only: shares are millionths (Ppm).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/result.h"

namespace nstance::agent {

using Ppm = std::int64_t;
inline constexpr Ppm kWhole = 1'000'000;

// Time since boot of one core, or of all of them, in the kernel's ticks.
struct CpuTime {
  int core = -1;  // -1: all.
  std::uint64_t busy = 0;
  std::uint64_t total = 0;
  friend bool operator==(const CpuTime&, const CpuTime&) = default;
};

struct CpuTimes {
  CpuTime all = {};
  std::vector<CpuTime> cores = {};  // By rising number.
  friend bool operator==(const CpuTimes&, const CpuTimes&) = default;
};

struct MemorySizes {
  std::uint64_t total = 0;  // Both in the same unit; total is above zero.
  std::uint64_t available = 0;
  friend bool operator==(const MemorySizes&, const MemorySizes&) = default;
};

struct TrafficCounters {
  std::uint64_t rx_bytes = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_packets = 0;
  std::uint64_t tx_packets = 0;
  std::uint64_t rx_drops = 0;
  std::uint64_t tx_drops = 0;
  friend bool operator==(const TrafficCounters&, const TrafficCounters&) = default;
};

// What was read at one moment; empty: not read, or not readable.
struct UsageReading {
  std::optional<CpuTimes> cpu = std::nullopt;
  std::optional<MemorySizes> memory = std::nullopt;
  std::optional<TrafficCounters> traffic = std::nullopt;
};

struct CoreUsage {
  int core = 0;
  Ppm share = 0;
  friend bool operator==(const CoreUsage&, const CoreUsage&) = default;
};

// Of one interval, or the mean of several; traffic is their sum.
struct Usage {
  std::optional<Ppm> cpu = std::nullopt;
  std::vector<CoreUsage> cores = {};
  std::optional<Ppm> memory = std::nullopt;
  std::optional<TrafficCounters> traffic = std::nullopt;
  friend bool operator==(const Usage&, const Usage&) = default;
};

class UsageHistory final {
 public:
  static constexpr std::size_t kIntervals = 180;
  static constexpr std::size_t kOneMinute = 12;
  static constexpr std::size_t kFiveMinutes = 60;
  static constexpr std::size_t kFifteenMinutes = 180;

  // The first reading only begins an interval.
  void Add(const UsageReading& reading);

  // Empty before the second reading.
  [[nodiscard]] const Usage* latest() const { return ring_.empty() ? nullptr : &ring_.back(); }
  // Empty until `intervals` of them have been. REQUIRES: 0 < intervals <= kIntervals.
  [[nodiscard]] std::optional<Usage> Mean(std::size_t intervals) const;

 private:
  std::optional<UsageReading> last_;
  std::deque<Usage> ring_;
};

}  // namespace nstance::agent

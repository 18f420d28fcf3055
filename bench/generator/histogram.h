// Histogram: latencies to three digits, in bounded memory, whatever their number.
//
// Whole microseconds. Values below 2,048 are exact; above, each power of two has 1,024 steps, so
// that a value is told at most 0.1 % too high. Latencies beyond 2^36 us (19 hours) count as that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/time.h"

namespace nstance::bench {

class Histogram final {
 public:
  // A negative latency, which only a clock that jumped could give, counts as zero.
  void Record(Duration latency);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::int64_t max_microseconds() const { return max_; }
  // The smallest value that `permille` of all values do not exceed; 0 without values.
  [[nodiscard]] std::int64_t Percentile(std::uint64_t permille) const;

  // {"count","p50_us","p90_us","p99_us","p999_us","max_us"}.
  [[nodiscard]] json::Value ToJson() const;

 private:
  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace nstance::bench

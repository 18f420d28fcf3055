#include "bench/generator/histogram.h"

#include <algorithm>
#include <bit>

namespace nstance::bench {
namespace {

constexpr std::uint64_t kSteps = 1'024;
constexpr std::int64_t kMost = std::int64_t{1} << 36;

std::size_t BucketOf(std::uint64_t value) {
  if (value < 2 * kSteps) return value;
  const auto shift = static_cast<std::uint64_t>(std::bit_width(value)) - 11;
  return 2 * kSteps + (shift - 1) * kSteps + ((value >> shift) - kSteps);
}

// The largest value of a bucket.
std::int64_t TopOf(std::size_t bucket) {
  if (bucket < 2 * kSteps) return static_cast<std::int64_t>(bucket);
  const std::uint64_t shift = (bucket - 2 * kSteps) / kSteps + 1;
  const std::uint64_t step = (bucket - 2 * kSteps) % kSteps + kSteps;
  return static_cast<std::int64_t>(((step + 1) << shift) - 1);
}

}  // namespace

void Histogram::Record(Duration latency) {
  const std::int64_t value = std::clamp<std::int64_t>(latency.nanoseconds() / 1'000, 0, kMost);
  const std::size_t bucket = BucketOf(static_cast<std::uint64_t>(value));
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  ++count_;
  max_ = std::max(max_, value);
}

std::int64_t Histogram::Percentile(std::uint64_t permille) const {
  const std::uint64_t wanted = (count_ * permille + 999) / 1'000;
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= wanted && seen > 0) return std::min(TopOf(bucket), max_);
  }
  return 0;
}

json::Value Histogram::ToJson() const {
  const auto member = [](std::string key, std::int64_t value) {
    return json::Member{
        .key = std::move(key), .key_position = {}, .value = json::Value::Integer(value)};
  };
  return json::Value::Map({member("count", static_cast<std::int64_t>(count_)),
                           member("p50_us", Percentile(500)), member("p90_us", Percentile(900)),
                           member("p99_us", Percentile(990)), member("p999_us", Percentile(999)),
                           member("max_us", max_)});
}

}  // namespace nstance::bench

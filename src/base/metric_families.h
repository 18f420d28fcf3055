// What the parts of a program that count things share.
#pragma once

#include <concepts>
#include <string>

#include "base/metrics.h"
#include "base/time.h"

namespace nstance {

// Gauges and histograms hold these. Decisions do not: outside of metrics numbers are exact.
using MetricValue = double;

template <std::integral T>
[[nodiscard]] constexpr MetricValue AsMetric(T number) {
  return static_cast<MetricValue>(number);
}
[[nodiscard]] constexpr MetricValue InSeconds(Duration duration) {
  return static_cast<double>(duration.nanoseconds()) / 1e9;
}

// The page shows the family also before its first series.
inline void Declare(metrics::Snapshot& page, const metrics::Family& family, metrics::Kind kind) {
  page.try_emplace(std::string(family.name),
                   metrics::FamilySnapshot{.kind = kind,
                                           .help = std::string(family.help),
                                           .labels = {family.labels.begin(), family.labels.end()},
                                           .bounds = family.buckets,
                                           .series = {}});
}

}  // namespace nstance

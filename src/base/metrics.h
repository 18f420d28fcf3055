// Metrics as plain values: counters, gauges and histograms with labels.
//
// A Registry belongs to one thread and takes no lock. A component on another thread has a registry
// of its own and hands a Snapshot over as a value; snapshots of several threads are merged for the
// `/metrics` page. Series are made on first use and live as long as the registry, so the references
// that Counter(), Gauge() and Histogram() return may be kept.
//
// Bounded: a family holds at most kMaxSeries label sets. Beyond that, values go to one series whose
// labels all say "other", and `metric_series_dropped_total` counts how often that happened.
//
// Names follow Prometheus: [a-z_][a-z0-9_]*, label values are any UTF-8. The page prefixes
// `nstance_`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nstance::metrics {

enum class Kind : std::uint8_t { kCounter, kGauge, kHistogram };

// What a family is. Declare one as a constant and pass it at each use.
struct Family {
  std::string_view name;
  std::string_view help;
  std::vector<std::string_view> labels;
  // Upper bounds of a histogram's buckets, rising, without infinity. Empty otherwise.
  std::vector<double> buckets;
};

class Counter {
 public:
  void Add(std::uint64_t n = 1) { value_ += n; }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

class Gauge {
 public:
  void Set(double value) { value_ = value; }
  void Add(double delta) { value_ += delta; }
  [[nodiscard]] double value() const { return value_; }

 private:
  double value_ = 0;
};

class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds);
  void Observe(double value);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double sum() const { return sum_; }
  // Observations at or below each bound, not cumulative; one more for those above all bounds.
  [[nodiscard]] std::span<const std::uint64_t> buckets() const { return counts_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

struct Series {
  std::vector<std::string> labels;  // Values, in the order of the family's labels.
  double value = 0;                 // Counter or gauge.
  std::vector<std::uint64_t> buckets;
  double sum = 0;
};

struct FamilySnapshot {
  Kind kind = Kind::kCounter;
  std::string help;
  std::vector<std::string> labels;
  std::vector<double> bounds;
  std::vector<Series> series;  // Sorted by label values.
};

// Family name to values; sorted, so that two pages of the same state are the same bytes.
using Snapshot = std::map<std::string, FamilySnapshot>;

// Counters and histograms add up; of gauges with the same labels the sum is taken as well.
// REQUIRES: families of one name agree in kind, labels and buckets.
void Merge(Snapshot& into, const Snapshot& from);

class Registry {
 public:
  static constexpr std::size_t kMaxSeries = 10'000;

  Registry();
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // REQUIRES: as many label values as the family has labels; one name is always the same family.
  metrics::Counter& Counter(const Family& family, std::span<const std::string_view> labels);
  metrics::Gauge& Gauge(const Family& family, std::span<const std::string_view> labels);
  metrics::Histogram& Histogram(const Family& family, std::span<const std::string_view> labels);

  [[nodiscard]] Snapshot Take() const;

 private:
  struct FamilyState;
  FamilyState& StateOf(const Family& family, Kind kind, std::span<const std::string_view> labels);
  std::map<std::string, std::unique_ptr<FamilyState>, std::less<>> families_;
  std::uint64_t dropped_series_ = 0;
};

}  // namespace nstance::metrics

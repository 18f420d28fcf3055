#include "base/metrics.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"

namespace nstance::metrics {
namespace {

using LabelValues = std::vector<std::string>;

constexpr std::string_view kOther = "other";

void AddSeries(Series& into, const Series& from) {
  into.value += from.value;
  into.sum += from.sum;
  CHECK(into.buckets.size() == from.buckets.size());
  for (std::size_t i = 0; i < into.buckets.size(); ++i) into.buckets[i] += from.buckets[i];
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {
  CHECK(std::ranges::is_sorted(bounds_));
}

void Histogram::Observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  ++count_;
  sum_ += value;
}

void Merge(Snapshot& into, const Snapshot& from) {
  for (const auto& [name, family] : from) {
    const auto [at, added] = into.try_emplace(name, family);
    if (added) continue;
    CHECK(at->second.kind == family.kind && at->second.labels == family.labels &&
              at->second.bounds == family.bounds,
          "metric {} is declared in two ways", name);
    std::vector<Series>& merged = at->second.series;
    for (const Series& series : family.series) {
      const auto place = std::ranges::lower_bound(merged, series.labels, {}, &Series::labels);
      if (place != merged.end() && place->labels == series.labels) {
        AddSeries(*place, series);
      } else {
        merged.insert(place, series);
      }
    }
  }
}

struct Registry::FamilyState {
  Kind kind = Kind::kCounter;
  std::string help;
  LabelValues labels;
  std::vector<double> bounds;
  std::map<LabelValues, metrics::Counter> counters;
  std::map<LabelValues, metrics::Gauge> gauges;
  std::map<LabelValues, metrics::Histogram> histograms;
};

Registry::Registry() = default;
Registry::~Registry() = default;

Registry::FamilyState& Registry::StateOf(const Family& family, Kind kind,
                                         std::span<const std::string_view> labels) {
  CHECK(labels.size() == family.labels.size(), "metric {} has {} labels, not {}", family.name,
        family.labels.size(), labels.size());
  auto at = families_.find(family.name);
  if (at == families_.end()) {
    auto state = std::make_unique<FamilyState>();
    state->kind = kind;
    state->help = family.help;
    state->labels.assign(family.labels.begin(), family.labels.end());
    state->bounds = family.buckets;
    at = families_.emplace(std::string(family.name), std::move(state)).first;
  }
  CHECK(at->second->kind == kind, "metric {} is used as two kinds", family.name);
  return *at->second;
}

namespace {

// The series for these labels; the "other" series when the family is full.
template <class T, class Make>
T& SeriesOf(std::map<LabelValues, T>& series, std::span<const std::string_view> labels,
            std::uint64_t& dropped, Make make) {
  LabelValues values(labels.begin(), labels.end());
  if (const auto at = series.find(values); at != series.end()) return at->second;
  if (series.size() >= Registry::kMaxSeries) {
    ++dropped;
    values.assign(labels.size(), std::string(kOther));
    if (const auto at = series.find(values); at != series.end()) return at->second;
  }
  return series.emplace(std::move(values), make()).first->second;
}

}  // namespace

metrics::Counter& Registry::Counter(const Family& family,
                                    std::span<const std::string_view> labels) {
  FamilyState& state = StateOf(family, Kind::kCounter, labels);
  return SeriesOf(state.counters, labels, dropped_series_, [] { return metrics::Counter(); });
}

metrics::Gauge& Registry::Gauge(const Family& family, std::span<const std::string_view> labels) {
  FamilyState& state = StateOf(family, Kind::kGauge, labels);
  return SeriesOf(state.gauges, labels, dropped_series_, [] { return metrics::Gauge(); });
}

metrics::Histogram& Registry::Histogram(const Family& family,
                                        std::span<const std::string_view> labels) {
  FamilyState& state = StateOf(family, Kind::kHistogram, labels);
  return SeriesOf(state.histograms, labels, dropped_series_,
                  [&] { return metrics::Histogram(state.bounds); });
}

Snapshot Registry::Take() const {
  Snapshot snapshot;
  for (const auto& [name, state] : families_) {
    FamilySnapshot family{.kind = state->kind,
                          .help = state->help,
                          .labels = state->labels,
                          .bounds = state->bounds,
                          .series = {}};
    for (const auto& [labels, counter] : state->counters) {
      family.series.push_back(
          {.labels = labels, .value = static_cast<double>(counter.value()), .buckets = {}});
    }
    for (const auto& [labels, gauge] : state->gauges) {
      family.series.push_back({.labels = labels, .value = gauge.value(), .buckets = {}});
    }
    for (const auto& [labels, histogram] : state->histograms) {
      family.series.push_back({.labels = labels,
                               .value = static_cast<double>(histogram.count()),
                               .buckets = {histogram.buckets().begin(), histogram.buckets().end()},
                               .sum = histogram.sum()});
    }
    snapshot.emplace(name, std::move(family));
  }
  if (dropped_series_ > 0) {
    snapshot["metric_series_dropped_total"] = {
        .kind = Kind::kCounter,
        .help = "Uses of a metric whose label set was folded into \"other\".",
        .labels = {},
        .bounds = {},
        .series = {{.labels = {}, .value = static_cast<double>(dropped_series_), .buckets = {}}}};
  }
  return snapshot;
}

}  // namespace nstance::metrics

// Metrics as values: series, histograms, merging snapshots of several threads, the bound on series.
#include "base/metrics.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "base/input_probe.h"

namespace nstance::metrics {
namespace {

const Family kRequests = {
    .name = "requests_total", .help = "Requests.", .labels = {"method"}, .buckets = {}};
const Family kLeader = {.name = "leader", .help = "1 when leading.", .labels = {}, .buckets = {}};
const Family kLatency = {
    .name = "latency_seconds", .help = "Latency.", .labels = {}, .buckets = {0.1, 1}};

TEST(MetricsTest, CountersCountPerLabelSet) {
  Registry registry;
  registry.Counter(kRequests, std::array<std::string_view, 1>{"get"}).Add();
  registry.Counter(kRequests, std::array<std::string_view, 1>{"get"}).Add(2);
  registry.Counter(kRequests, std::array<std::string_view, 1>{"put"}).Add();
  const Snapshot snapshot = registry.Take();
  const FamilySnapshot& family = snapshot.at("requests_total");
  EXPECT_EQ(family.kind, Kind::kCounter);
  EXPECT_EQ(family.help, "Requests.");
  ASSERT_EQ(family.series.size(), 2U);
  EXPECT_EQ(family.series[0].labels[0], "get");
  EXPECT_EQ(family.series[0].value, 3);
  EXPECT_EQ(family.series[1].value, 1);
}

TEST(MetricsTest, GaugesHoldTheLastValue) {
  Registry registry;
  Gauge& gauge = registry.Gauge(kLeader, {});
  gauge.Set(1);
  gauge.Add(-0.5);
  EXPECT_EQ(registry.Take().at("leader").series[0].value, 0.5);
}

TEST(MetricsTest, HistogramsPutABoundIntoItsOwnBucket) {
  Registry registry;
  Histogram& histogram = registry.Histogram(kLatency, {});
  for (const double value : {0.05, 0.1, 0.5, 1.0, 7.0}) histogram.Observe(value);
  const Series series = registry.Take().at("latency_seconds").series[0];
  EXPECT_EQ(series.buckets, (std::vector<std::uint64_t>{2, 2, 1}));
  EXPECT_EQ(series.value, 5);
  EXPECT_DOUBLE_EQ(series.sum, 8.65);
}

TEST(MetricsTest, SnapshotsOfSeveralThreadsAddUp) {
  Registry a;
  Registry b;
  a.Counter(kRequests, std::array<std::string_view, 1>{"get"}).Add(1);
  b.Counter(kRequests, std::array<std::string_view, 1>{"get"}).Add(10);
  b.Counter(kRequests, std::array<std::string_view, 1>{"del"}).Add(100);
  b.Histogram(kLatency, {}).Observe(0.5);
  a.Histogram(kLatency, {}).Observe(5);
  Snapshot merged = a.Take();
  Merge(merged, b.Take());
  const FamilySnapshot& family = merged.at("requests_total");
  ASSERT_EQ(family.series.size(), 2U);
  EXPECT_EQ(family.series[0].labels[0], "del");
  EXPECT_EQ(family.series[0].value, 100);
  EXPECT_EQ(family.series[1].value, 11);
  EXPECT_EQ(merged.at("latency_seconds").series[0].buckets, (std::vector<std::uint64_t>{0, 1, 1}));
}

TEST(MetricsTest, ReferencesStayValidWhileOtherSeriesAppear) {
  Registry registry;
  Counter& first = registry.Counter(kRequests, std::array<std::string_view, 1>{"first"});
  for (int i = 0; i < 1'000; ++i) {
    const std::string label = std::to_string(i);
    registry.Counter(kRequests, std::array<std::string_view, 1>{label}).Add();
  }
  first.Add(5);
  EXPECT_EQ(registry.Counter(kRequests, std::array<std::string_view, 1>{"first"}).value(), 5U);
}

TEST(MetricsTest, TooManyLabelSetsAreFoldedIntoOne) {
  Registry registry;
  for (std::size_t i = 0; i < Registry::kMaxSeries + 7; ++i) {
    const std::string label = std::to_string(i);
    registry.Counter(kRequests, std::array<std::string_view, 1>{label}).Add();
  }
  const Snapshot snapshot = registry.Take();
  EXPECT_EQ(snapshot.at("requests_total").series.size(), Registry::kMaxSeries + 1);
  EXPECT_EQ(registry.Counter(kRequests, std::array<std::string_view, 1>{"other"}).value(), 7U);
  EXPECT_EQ(snapshot.at("metric_series_dropped_total").series[0].value, 7);
}

TEST(MetricsDeathTest, OneNameIsOneFamily) {
  Registry registry;
  registry.Counter(kRequests, std::array<std::string_view, 1>{"x"});
  EXPECT_DEATH(registry.Gauge(kRequests, std::array<std::string_view, 1>{"x"}), "two kinds");
  EXPECT_DEATH(registry.Counter(kRequests, {}), "has 1 labels, not 0");
}

TEST(InputProbeTest, CountsBadInputAndLimits) {
  Registry registry;
  InputProbe probe(registry);
  const InputSource source{.interface = "config", .probe = &probe};
  source.Bad("syntax");
  source.Limit("json-depth");
  const Snapshot snapshot = registry.Take();
  EXPECT_EQ(snapshot.at("bad_input_total").series.size(), 2U);
  EXPECT_EQ(snapshot.at("bad_input_total").series[1].labels,
            (std::vector<std::string>{"config", "syntax"}));
  EXPECT_EQ(snapshot.at("limit_hits_total").series[0].labels[0], "json-depth");
  InputSource().Bad("counted nowhere");
}

}  // namespace
}  // namespace nstance::metrics

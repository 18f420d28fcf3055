// The store probe against real stores: those that honour conditional writes are accepted, the one
// that ignores them is refused and the broken rule is named. docs/stores.md tells the same.
#include <optional>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/secure_random/system_random.h"
#include "base/prng.h"
#include "storage/store_probe.h"
#include "test/contract/cloud_stores.h"
#include "test/support/store_peers.h"

namespace nstance::test {
namespace {

struct Expected {
  std::string name;
  StorePeer peer;
  ProbeVerdict verdict;
  bool conditional_delete;
  int broken_rule;  // 0: none.
};

std::string Table(const StoreProbeReport& report) {
  std::string table = report.message + "\n";
  for (const ProbeCheck& check : report.checks) {
    table += fmt::format("{} {}: {} {}\n", check.number, check.name, ProbeStatusName(check.status),
                         check.detail);
  }
  return table;
}

class CloudStoreProbeTest : public testing::TestWithParam<Expected> {
 public:
  void SetUp() override {
    auto made = CloudStoresUnderTest::Make(GetParam().peer);
    if (!made && made.error().code == Code::kNotFound) GTEST_SKIP() << made.error().message;
    ASSERT_TRUE(made) << made.error().ToString();
    world = *std::move(made);
  }

  std::unique_ptr<StoreUnderTest> world;
};

TEST_P(CloudStoreProbeTest, TellsWhetherTheStoreCanBeTrusted) {
  SystemRandom random;
  Prng jitter(1);
  std::vector<std::reference_wrapper<ObjectStore>> endpoints;
  for (ObjectStore* store : world->stores()) endpoints.emplace_back(*store);
  std::optional<StoreProbeReport> report;
  StoreProbeRunner probe({.loop = world->loop(),
                          .endpoints = std::move(endpoints),
                          .random = random,
                          .jitter = jitter},
                         "s1", [&](StoreProbeReport said) { report = std::move(said); });
  probe.Start();
  ASSERT_TRUE(world->RunUntil([&] { return report.has_value(); }));
  const Expected& expected = GetParam();
  EXPECT_EQ(report->verdict, expected.verdict) << Table(*report);
  EXPECT_EQ(report->conditional_delete, expected.conditional_delete) << Table(*report);
  for (const ProbeCheck& check : report->checks) {
    if (check.number == expected.broken_rule) {
      EXPECT_EQ(check.status, ProbeStatus::kFailed) << Table(*report);
      EXPECT_TRUE(report->message.contains(check.name)) << report->message;
    }
  }
  RecordProperty("report", Table(*report));
}

INSTANTIATE_TEST_SUITE_P(
    Peers, CloudStoreProbeTest,
    testing::Values(
        Expected{"S3Minio", StorePeer::kMinio, ProbeVerdict::kAccepted, false, 0},
        Expected{"S3Versitygw", StorePeer::kVersitygw, ProbeVerdict::kAccepted, true, 0},
        Expected{"S3Ministack", StorePeer::kMinistack, ProbeVerdict::kAccepted, true, 0},
        Expected{"GcsFakeServer", StorePeer::kFakeGcs, ProbeVerdict::kAccepted, false, 0},
        Expected{"GcsStorageEmulator", StorePeer::kGcpStorageEmulator, ProbeVerdict::kRefused,
                 false, 1}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace nstance::test

// The `/metrics` page of a whole server: every row of server.md 15 that belongs to what is built,
// in the text format that Prometheus reads, before the first leadership and after.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/server/process/process_world.h"

namespace nstance::test {
namespace {

using testing::IsEmpty;

// A page as a strict reader sees it: names, types, series.
struct ParsedPage {
  std::map<std::string, std::string> types;
  std::map<std::string, double> series;
  std::vector<std::string> bad;  // Lines that do not read.
};

std::string FamilyOf(const ParsedPage& page, const std::string& name) {
  if (page.types.contains(name)) return name;
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string family = name.substr(0, name.size() - suffix.size());
    const auto at = page.types.find(family);
    if (at != page.types.end() && at->second == "histogram") return family;
  }
  return {};
}

void ParseSample(ParsedPage& page, const std::string& line) {
  const std::size_t name_end = line.find_first_of("{ ");
  const std::size_t space = line.rfind(' ');
  if (name_end == std::string::npos || space == std::string::npos) {
    page.bad.push_back(line);
    return;
  }
  const std::string labels = line.substr(name_end, space - name_end);
  const bool sound = labels.empty() || (labels.starts_with('{') && labels.ends_with("\"}"));
  char* end = nullptr;
  const double value = std::strtod(line.c_str() + space + 1, &end);
  const bool fresh = page.series.emplace(line.substr(0, space), value).second;
  if (!sound || !fresh || end == nullptr || *end != '\0' ||
      FamilyOf(page, line.substr(0, name_end)).empty()) {
    page.bad.push_back(line);
  }
}

ParsedPage Parse(const std::string& body) {
  ParsedPage page;
  std::size_t at = 0;
  while (at < body.size()) {
    const std::size_t end = body.find('\n', at);
    if (end == std::string::npos) {
      page.bad.push_back(body.substr(at));
      break;
    }
    const std::string line = body.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# TYPE ")) {
      const std::size_t space = line.rfind(' ');
      page.types[line.substr(7, space - 7)] = line.substr(space + 1);
    } else if (!line.starts_with("# HELP ")) {
      ParseSample(page, line);
    }
  }
  return page;
}

// Name and type of every row, but for files, image ids and pools, which are not built.
const std::map<std::string, std::string>& Rows() {
  static const std::map<std::string, std::string> kRows = {
      {"leader", "gauge"},
      {"leader_epoch", "gauge"},
      {"lease_remaining_seconds", "gauge"},
      {"leader_changes_total", "counter"},
      {"takeover_seconds", "histogram"},
      {"group_size", "gauge"},
      {"group_ready", "gauge"},
      {"group_creating", "gauge"},
      {"group_draining", "gauge"},
      {"instances", "gauge"},
      {"instances_created_total", "counter"},
      {"instance_create_failures_total", "counter"},
      {"instances_deleted_total", "counter"},
      {"instance_provision_seconds", "histogram"},
      {"instance_ready_seconds", "histogram"},
      {"replacement_start_seconds", "histogram"},
      {"drains_total", "counter"},
      {"holds", "gauge"},
      {"history_bytes", "gauge"},
      {"brake_active", "gauge"},
      {"brake_used", "gauge"},
      {"alarms_total", "counter"},
      {"limit_hits_total", "counter"},
      {"bad_input_total", "counter"},
      {"secrets_legacy_reads_total", "counter"},
      {"plan_seconds", "histogram"},
      {"plans_total", "counter"},
      {"journal_commits_total", "counter"},
      {"journal_commit_seconds", "histogram"},
      {"journal_bytes", "gauge"},
      {"journal_intents", "gauge"},
      {"store_requests_total", "counter"},
      {"store_request_seconds", "histogram"},
      {"store_probe_ok", "gauge"},
      {"provider_requests_total", "counter"},
      {"provider_request_seconds", "histogram"},
      {"sweep_seconds", "histogram"},
      {"sweep_orphans", "gauge"},
      {"sweep_age_seconds", "gauge"},
      {"registrations_total", "counter"},
      {"agents_connected", "gauge"},
      {"operators_connected", "gauge"},
      {"health_reports_total", "counter"},
      {"certificates_issued_total", "counter"},
      {"certificate_expiry_seconds", "gauge"},
      {"grpc_requests_total", "counter"},
      {"grpc_request_seconds", "histogram"},
      {"watch_streams", "gauge"},
      {"watch_overflows_total", "counter"},
      {"loop_lag_seconds", "histogram"},
      {"loop_turn_seconds", "histogram"},
      {"config_info", "gauge"},
      {"config_pending", "gauge"},
      {"build_info", "gauge"}};
  return kRows;
}

TEST(MetricsPageTest, HasEveryRowAndReads) {
  ProcessWorld world;
  world.Configure({.size = 2});
  ServerNode node(world, "s1");
  ASSERT_TRUE(world.Until([&] { return node.acting(); }));
  const ParsedPage page = Parse(node.Page("/metrics").body);
  EXPECT_THAT(page.bad, IsEmpty());
  for (const auto& [name, type] : Rows()) {
    const auto at = page.types.find("nstance_" + name);
    ASSERT_NE(at, page.types.end()) << name;
    EXPECT_EQ(at->second, type) << name;
  }
}

TEST(MetricsPageTest, ReadsBeforeAnythingIsLoaded) {
  ProcessWorld world;
  ServerNode node(world, "s1");
  const ParsedPage page = Parse(node.Page("/metrics").body);
  EXPECT_THAT(page.bad, IsEmpty());
  EXPECT_EQ(page.series.at("nstance_leader{scope=\"shard\"}"), 0);
}

TEST(MetricsPageTest, FollowsTheFleet) {
  ProcessWorld world;
  world.Configure({.size = 2});
  ServerNode node(world, "s1");
  ASSERT_TRUE(world.Until([&] { return world.cloud.Vms().size() == 2; }));
  world.For(Duration::Seconds(10));
  EXPECT_EQ(node.Metric(R"(instances{tenant="default",phase="provisioned"})"), 2);
  EXPECT_EQ(node.Metric(R"(leader{scope="shard"})"), 1);
  EXPECT_EQ(node.Metric(R"(leader{scope="cluster"})"), 1);
  EXPECT_EQ(node.Metric("leader_epoch"), static_cast<double>(node.epoch));
  EXPECT_GT(node.Metric("lease_remaining_seconds"), 0);
  EXPECT_EQ(node.Metric("leader_changes_total"), 1);
  EXPECT_EQ(node.Metric("takeover_seconds_count"), 1);
  EXPECT_EQ(node.Metric("store_probe_ok"), 1);
  EXPECT_EQ(node.Metric(R"(group_size{tenant="default",group="workers"})"), 2);
  EXPECT_EQ(node.Metric(R"(group_creating{tenant="default",group="workers"})"), 2);
  EXPECT_EQ(node.Metric(R"(instances_created_total{tenant="default",group="workers"})"), 2);
  EXPECT_EQ(node.Metric(R"(instance_provision_seconds_count{tenant="default"})"), 2);
  EXPECT_EQ(node.Metric(R"(provider_requests_total{op="create",code="OK"})"), 2);
  EXPECT_GT(node.Metric("plans_total"), 0);
  EXPECT_GT(node.Metric("journal_commits_total"), 0);
  EXPECT_GT(node.Metric("journal_bytes"), 0);
  EXPECT_GT(node.Metric(R"(certificate_expiry_seconds{kind="ca"})"), 0);
  EXPECT_GT(node.Metric(R"(certificate_expiry_seconds{kind="server"})"), 0);
  // Nobody registers: they go, and others come.
  ASSERT_TRUE(world.Until([&] { return world.cloud.Count(sim::SimProviderMethod::kDelete) >= 2; },
                          Duration::Minutes(20)));
  world.For(Duration::Seconds(30));
  EXPECT_EQ(
      node.Metric(R"(instances_deleted_total{tenant="default",reason="registration-timeout"})"), 2);
  EXPECT_GT(
      node.Metric(
          R"(instance_create_failures_total{tenant="default",group="workers",class="no-registration"})"),
      0);
  EXPECT_GT(node.Metric(R"(holds{code="create-backoff"})"), 0);
}

TEST(MetricsPageTest, AGroupThatIsGoneLeavesThePage) {
  ProcessWorld world;
  world.Configure({.size = 1, .whole = R"(, "defaults": {})"});
  {
    ServerNode node(world, "s1");
    ASSERT_TRUE(world.Until([&] { return node.acting(); }));
    EXPECT_EQ(node.Metric(R"(group_size{tenant="default",group="workers"})"), 1);
    node.process.Stop();
    ASSERT_TRUE(world.Until([&] { return node.exit_code.has_value(); }));
    EXPECT_EQ(node.Metric(R"(group_size{tenant="default",group="workers"})"), -1);
    EXPECT_EQ(node.Metric(R"(leader{scope="shard"})"), 0);
  }
}

}  // namespace
}  // namespace nstance::test

#include "sim/world/setting.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace nstance::sim {

const ClusterId& SimCluster() {
  static const ClusterId kCluster = ClusterId::Parse("c1").value();
  return kCluster;
}
const ShardId& ShardA() {
  static const ShardId kShard = ShardId::Parse("a").value();
  return kShard;
}
const ShardId& ShardB() {
  static const ShardId kShard = ShardId::Parse("b").value();
  return kShard;
}
const TenantId& Prod() {
  static const TenantId kTenant = TenantId::Parse("prod").value();
  return kTenant;
}
Timestamp WorldStart() { return Timestamp::FromUnix(1'700'000'000); }

std::string LeaderAddress(const ShardId& shard) {
  return shard == ShardA() ? "10.9.0.1" : "10.9.0.2";
}

Duration Setting::Quiet() const {
  const fleet::FleetTimes now = fleet::ForProvider(times, consistency_window);
  const Duration longest = std::max(
      {now.t_intent + now.registration_timeout, (interval * 3) + drain_timeout, orphan_grace});
  return (lease * 3) + (sweep * 2) + now.t_settle + (now.t_vis * 2) + longest;
}

ConfigEdits FirstEdits(const Setting& setting, const ShardId& shard) {
  if (shard == ShardA()) {
    return {.sizes = {{{"default", "workers"}, setting.workers}, {{"prod", "api"}, setting.api}}};
  }
  return {.sizes = {{{"prod", "edge"}, setting.edge}}};
}

namespace {

std::string Groups(const ConfigEdits& edits) {
  std::map<std::string, std::string> by_tenant;
  for (const auto& [name, size] : edits.sizes) {
    std::string& groups = by_tenant[name.first];
    groups += fmt::format(R"({}"{}": {{"template": "t", "size": {}}})", groups.empty() ? "" : ", ",
                          name.second, size);
  }
  std::string text;
  for (const auto& [tenant, groups] : by_tenant) {
    text += fmt::format(R"({}"{}": {{{}}})", text.empty() ? "" : ", ", tenant, groups);
  }
  return text;
}

std::string Ms(Duration length) { return fmt::format("{}ms", length.nanoseconds() / 1'000'000); }

}  // namespace

std::string ConfigText(const Setting& setting, const ShardId& shard, const ConfigEdits& edits) {
  const std::string address = LeaderAddress(shard);
  const std::string expiry =
      setting.eligible_age > Duration()
          ? fmt::format(R"("expiry": {{"eligible_age": "{}"}},)", Ms(setting.eligible_age))
          : "";
  std::string text = fmt::format(
      R"({{"server": {{"cluster_id": "c1", "shard": "{0}",
  "provider": {{"kind": "aws", "region": "r", "zone": "z"}},
  "leader_network": {{"ip": "{1}", "interface_id": "eni-{0}"}},
  "advertise": {{"registration_addr": "{1}:{2}", "operator_addr": "{1}:{3}", "agent_addr": "{1}:{4}"}},
  "subnet_pools": {{"p": ["{0}1", "{0}2"]}},
  "secrets": {{"provider": "object-storage",
    "encryption_key": {{"provider": "env", "source": "KEY"}}}},
  "leader_election": {{"renew_interval": "{5}", "lease_timeout": "{6}",
    "cluster": {{"renew_interval": "{5}", "lease_timeout": "{6}"}}}},
  "store_timeout": "{7}", "request_timeout": "{8}", "health_check_interval": "{9}",
  "default_drain_timeout": "{10}", {11}
  "error_exit_jitter": {{"min_delay": "1s", "max_delay": "3s"}},
)",
      shard.text(), address, kRegistrationPort, kOperatorPort, kAgentPort, Ms(setting.renew),
      Ms(setting.lease), Ms(setting.store_timeout), Ms(setting.request_timeout),
      Ms(setting.interval), Ms(setting.drain_timeout), expiry);
  text += fmt::format(
      R"(  "garbage_collection": {{"interval": "{}", "registration_timeout": "{}",
    "orphan_grace": "{}"}},
  "deletion_brake": {{"unordered": {{"window": "{}", "count": 5, "percent": 10}},
    "ordered": {{"window": "{}", "count": 10, "percent": 25}}}}
 }},
 "tenants": {{"prod": {{}}}},
 "certificates": {{"agent": {{"ttl": "{}"}}}},
 "templates": {{"t": {{"kind": "wrk", "arch": "amd64", "instance_type": "small", "subnet_pool": "p",
   "args": {{"KeyName": "generation-{}"}},
   "userdata": {{"content": "{{{{ .Nonce }}}}\n{{{{ .Cluster.CACert }}}}"}}}}}},
 "groups": {{{}}}{}}}
)",
      Ms(setting.sweep), Ms(setting.times.registration_timeout), Ms(setting.orphan_grace),
      Ms(setting.brake_window), Ms(setting.brake_window), Ms(setting.agent_life), edits.generation,
      Groups(edits), edits.broken ? R"(, "grups": {})" : "");
  return text;
}

}  // namespace nstance::sim

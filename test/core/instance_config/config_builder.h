// Configurations for tests, built by hand: small ones, and the complete example of the reference.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/name.h"
#include "base/puidv7.h"
#include "core/config/config.h"

namespace nstance::test {

template <class T>
T Must(Result<T> result) {
  CHECK(result.has_value(), "{}", result.error().ToString());
  return *std::move(result);
}

inline SubnetPoolName PoolName(std::string_view name) { return Must(SubnetPoolName::Parse(name)); }
inline GroupKey Group(std::string_view name) { return Must(GroupKey::Parse(name)); }
inline TenantId TenantNamed(std::string_view name) { return Must(TenantId::Parse(name)); }
inline config::LoadBalancerKey Balancer(std::string_view name) {
  return Must(config::LoadBalancerKey::Parse(name));
}

// An object written as JSON text.
inline json::Object Object(std::string_view text) { return *Must(json::Parse(text)).if_object(); }

inline InstanceId SomeId(std::uint8_t number) {
  UuidBytes uuid{0x01, 0x97, 0x0a, 0x1c, 0xe3, 0x1e, 0x74, 0x22,
                 0x9c, 0xd5, 0xe9, 0x65, 0x1d, 0x11, 0xcc, number};
  return {"wrk", uuid};
}

inline config::Config EmptyConfig() {
  return {.server = {.cluster_id = Must(ClusterId::Parse("example-cluster")),
                     .shard = Must(ShardId::Parse("local-a")),
                     .provider = {.word = "local", .region = "local", .zone = "local"},
                     .subnet_pools = {{PoolName("default"), {"loopback"}}}}};
}

// Templates `worker` (type and pool given, types a, b and c allowed) and `bare` (neither given),
// pools default, open and closed, of which dynamic groups may use default and open.
inline config::Config SmallConfig() {
  config::Config config = EmptyConfig();
  config.server.subnet_pools = {
      {PoolName("default"), {"one"}}, {PoolName("open"), {"two"}}, {PoolName("closed"), {"three"}}};
  config.server.dynamic_subnet_pools = {PoolName("default"), PoolName("open")};
  config.load_balancers = {{Balancer("web"), {.targets_file = "targets.json"}}};
  config.templates = {{"worker",
                       {.kind = "wrk",
                        .files = {{"node.env", {.kind = config::FileKind::kEnv}},
                                  {"secret.key", {.kind = config::FileKind::kSecret}}},
                        .instance_type = "a",
                        .subnet_pool = PoolName("default"),
                        .allowed_instance_types = {"a", "b", "c"}}},
                      {"bare", {.kind = "bar"}}};
  return config;
}

// config.md section 8, as far as instances are rendered from it.
inline config::Config ExampleConfig() {
  config::Config config = EmptyConfig();
  config.certificates.named = {{"node",
                                {.kind = config::CertificateKind::kServer,
                                 .cn = "{{ .Instance.ID }}",
                                 .dns = {"{{ .Instance.Hostname }}"},
                                 .ip = {"{{ .Instance.IP4 }}"},
                                 .ttl = Duration::Hours(168)}}};
  config.defaults.vars = {{"LOG_LEVEL", "info"}};
  config.defaults.userdata = config::UserData{
      .source = "inline",
      .encoding = "plain",
      .content =
          "#!/bin/bash\n"
          "set -eu; umask 077; mkdir -p identity keys recv\n"
          "printf '%s' '{{ .Nonce }}' > identity/nonce.jwt\n"
          "printf '%s' '{{ .Cluster.CACert }}' > identity/ca.crt\n"
          "export NSTANCE_INSTANCE_ID='{{ .Instance.ID }}' NSTANCE_REPORT_INTERVAL=5s\n"
          "export NSTANCE_SERVER_REGISTRATION_ADDR='{{ .Server.RegistrationAddr }}'\n"
          "export NSTANCE_SERVER_AGENT_ADDR='{{ .Server.AgentAddr }}'\n"
          "export NSTANCE_IDENTITY_DIR=$PWD/identity NSTANCE_KEYS_DIR=$PWD/keys "
          "NSTANCE_RECV_DIR=$PWD/recv\n"
          "exec nstance-agent\n"};
  config.templates["worker"] = {
      .kind = "wrk",
      .files = {{"node.env",
                 {.kind = config::FileKind::kEnv,
                  .content = json::Value::Map(Object(
                      R"({"NODE":"{{ .Instance.ID }}","LOG_LEVEL":"{{ .Vars.LOG_LEVEL }}"})"))}},
                {"node.crt",
                 {.kind = config::FileKind::kCertificate,
                  .content = json::Value::String("node"),
                  .key = config::FileKey{.source = "agent", .name = "node.pub"}}}},
      .instance_type = "local.small",
      .subnet_pool = PoolName("default")};
  config.groups[DefaultTenant()] = {
      {Group("workers"), {.template_name = "worker", .size = 3, .vars = {{"ROLE", "worker"}}}}};
  return config;
}

}  // namespace nstance::test

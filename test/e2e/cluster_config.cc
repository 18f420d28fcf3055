#include "test/e2e/cluster_config.h"

#include <utility>

namespace nstance::test {
namespace {

using json::Value;

json::Member Of(std::string key, Value value) {
  return {.key = std::move(key), .key_position = {}, .value = std::move(value)};
}
json::Member Of(std::string key, const char* value) {
  return Of(std::move(key), Value::String(value));
}
json::Member Of(std::string key, const std::string& value) {
  return Of(std::move(key), Value::String(value));
}

// One word of a POSIX shell.
std::string ShellQuote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += R"('\'')";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

Value UserData(const std::vector<std::string>& agent_command) {
  std::string command = "exec";
  for (const std::string& word : agent_command) command += " " + ShellQuote(word);
  json::Array lines;
  for (const std::string& line : std::vector<std::string>{
           "#!/bin/bash", "set -eu", "umask 077", "mkdir -p identity keys recv",
           "printf '%s' '{{ .Nonce }}' > identity/nonce.jwt",
           "printf '%s' '{{ .Cluster.CACert }}' > identity/ca.crt",
           "export NSTANCE_INSTANCE_ID='{{ .Instance.ID }}'",
           "export NSTANCE_INSTANCE_KIND='{{ .Instance.Kind }}'",
           "export NSTANCE_SERVER_REGISTRATION_ADDR='{{ .Server.RegistrationAddr }}'",
           "export NSTANCE_SERVER_AGENT_ADDR='{{ .Server.AgentAddr }}'",
           "export NSTANCE_IDENTITY_DIR=$PWD/identity NSTANCE_KEYS_DIR=$PWD/keys",
           "export NSTANCE_RECV_DIR=$PWD/recv",
           "export NSTANCE_PROVIDER=local NSTANCE_SPOT_POLL_INTERVAL=0",
           "export NSTANCE_INSTANCE_IPV4=127.0.0.1 NSTANCE_REPORT_INTERVAL=1s", command}) {
    lines.push_back(Value::String(line));
  }
  return Value::Map({Of("source", "inline"), Of("encoding", "plain"),
                     Of("content", Value::List(std::move(lines)))});
}

Value Server(const ClusterConfig& config) {
  const auto brake = [] { return Value::Map({Of("window", "0s")}); };
  const auto addresses = [](const std::string& registration, const std::string& operators,
                            const std::string& agent) {
    return Value::Map({Of("registration_addr", registration), Of("operator_addr", operators),
                       Of("agent_addr", agent)});
  };
  constexpr const char* kAnyPort = "127.0.0.1:0";
  Value bind = addresses(kAnyPort, kAnyPort, kAnyPort);
  bind.Set("health_addr", Value::String(kAnyPort));
  bind.Set("election_addr", Value::String(kAnyPort));
  Value server = Value::Map(
      {Of("cluster_id", config.cluster), Of("shard", config.shard),
       Of("provider", Value::Map({Of("kind", "local"),
                                  Of("options", Value::Map({Of("root", config.instances_root),
                                                            Of("kill_grace", "1s")}))})),
       Of("bind", std::move(bind)),
       Of("subnet_pools", Value::Map({Of("default", Value::List({Value::String("loopback")}))})),
       Of("secrets", Value::Map({Of("provider", "object-storage"),
                                 Of("encryption_key",
                                    Value::Map({Of("provider", "env"),
                                                Of("source", ClusterConfig::kKeyVariable)}))})),
       Of("leader_election", Value::Map({Of("renew_interval", "1s"), Of("lease_timeout", "4s"),
                                         Of("cluster", Value::Map({Of("renew_interval", "1s"),
                                                                   Of("lease_timeout", "4s")}))})),
       Of("health_check_interval", "2s"), Of("default_drain_timeout", "5s"),
       Of("garbage_collection",
          Value::Map({Of("interval", "10s"), Of("registration_timeout", "30s")})),
       Of("deletion_brake", Value::Map({Of("unordered", brake()), Of("ordered", brake())})),
       Of("error_exit_jitter", Value::Map({Of("min_delay", "0s"), Of("max_delay", "0s")}))});
  if (!config.agent_address.empty()) {
    server.Set("advertise", addresses(config.registration_address, config.operator_address,
                                      config.agent_address));
  }
  for (const json::Member& member : config.server) server.Set(member.key, member.value);
  return server;
}

Value Template() {
  return Value::Map(
      {Of("kind", "wrk"), Of("arch", "amd64"), Of("instance_type", "local.small"),
       Of("subnet_pool", "default"),
       Of("files",
          Value::Map(
              {Of("node.env",
                  Value::Map({Of("kind", "env"),
                              Of("template", Value::Map({Of("NODE", "{{ .Instance.ID }}"),
                                                         Of("ROLE", "{{ .Vars.ROLE }}")}))})),
               Of("node.crt", Value::Map({Of("kind", "certificate"), Of("template", "node"),
                                          Of("key", Value::Map({Of("source", "agent"),
                                                                Of("name", "node.pub")}))}))}))});
}

}  // namespace

Value ClusterConfig::ToJson() const {
  Value tenant_map = Value::Map({});
  for (const std::string& tenant : tenants) tenant_map.Set(tenant, Value::Map({}));
  Value group_map = Value::Map({});
  for (const GroupSpec& group : groups) {
    Value one = Value::Map({Of("template", "worker"), Of("size", Value::Integer(group.size))});
    for (const json::Member& member : group.more) one.Set(member.key, member.value);
    if (group_map.Find(group.tenant) == nullptr) group_map.Set(group.tenant, Value::Map({}));
    group_map.Find(group.tenant)->Set(group.name, std::move(one));
  }
  return Value::Map(
      {Of("server", Server(*this)), Of("tenants", std::move(tenant_map)),
       Of("certificates",
          Value::Map({Of("node", Value::Map({Of("kind", "server"), Of("cn", "{{ .Instance.ID }}"),
                                             Of("ttl", Value::Integer(24))}))})),
       Of("defaults", Value::Map({Of("vars", Value::Map({Of("ROLE", "worker")})),
                                  Of("userdata", UserData(agent_command))})),
       Of("templates", Value::Map({Of("worker", Template())})),
       Of("groups", std::move(group_map))});
}

std::string ClusterConfig::ToText() const { return json::Write(ToJson(), {.indent = 2}); }

}  // namespace nstance::test

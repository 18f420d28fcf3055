#include "admin/storage/initial_config.h"

#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "core/config/problem.h"
#include "core/instance_config/template_check.h"

namespace nstance::admin {
namespace {

// Each {name} stands for a JSON value; braces of the text itself are doubled.
constexpr std::string_view kText =
    R"(// Shard {plain_shard} of cluster {plain_cluster}, made by `nstance-admin cluster init`.
//
// Change it here, in the store; then `nstance-admin config refresh`, or a restart of the servers.
// Check a change first: nstance-admin config validate FILE. Every key: docs/configuration.md.
{{
  "server": {{
    "cluster_id": {cluster},
    "shard": {shard},

    // Instances are processes of this machine, each in a folder of its own below `root`.
    "provider": {{ "kind": "local", "options": {{ "root": {root} }} }},

    // Leader and standby share the three RPC addresses: whoever leads opens them.
    "bind": {{
      "health_addr": "127.0.0.1:0",
      "election_addr": "127.0.0.1:0",
      "registration_addr": "127.0.0.1:{registration_port}",
      "operator_addr": "127.0.0.1:{operator_port}",
      "agent_addr": "127.0.0.1:{agent_port}"
    }},
    "subnet_pools": {{ "default": ["loopback"] }},

    // What opens the cluster's secrets. Without it they are lost: keep a copy elsewhere.
    "secrets": {{
      "provider": "object-storage",{secrets_prefix}
      "encryption_key": {{ "provider": {key_provider}, "source": {key_source} }}
    }},

    // An agent that is silent for some of these is looked at, and replaced.
    "health_check_interval": "5s",
    // How long an instance may take to hand over its work before it is deleted.
    "default_drain_timeout": "5s"
  }},

  "defaults": {{
    // The program that every instance runs.
    "vars": {{ "AGENT": {agent} }},
    "userdata": {{
      "source": "inline",
      "encoding": "plain",
      "content": [
        "#!/bin/bash",
        "set -eu; umask 077; mkdir -p identity keys recv",
        "printf '%s' '{{{{ .Nonce }}}}' > identity/nonce.jwt",
        "printf '%s' '{{{{ .Cluster.CACert }}}}' > identity/ca.crt",
        "export NSTANCE_INSTANCE_ID='{{{{ .Instance.ID }}}}' NSTANCE_REPORT_INTERVAL=5s NSTANCE_PROVIDER=local",
        "export NSTANCE_SERVER_REGISTRATION_ADDR='{{{{ .Server.RegistrationAddr }}}}'",
        "export NSTANCE_SERVER_AGENT_ADDR='{{{{ .Server.AgentAddr }}}}'",
        "export NSTANCE_IDENTITY_DIR=$PWD/identity NSTANCE_KEYS_DIR=$PWD/keys NSTANCE_RECV_DIR=$PWD/recv",
        "exec {{{{ shellquote .Vars.AGENT }}}}"
      ]
    }}
  }},

  "templates": {{
    "worker": {{ "kind": "wrk", "arch": {arch}, "instance_type": "local.small", "subnet_pool": "default" }}
  }},

  // Groups can also be made at run time: nstance-admin group create NAME --template worker --size 2
  "groups": {groups}
}}
)";

std::string Quoted(std::string_view text) {
  std::string out;
  json::AppendString(out, text);
  return out;
}

std::string Groups(const std::vector<GroupSize>& groups) {
  if (groups.empty()) return "{}";
  std::string out = "{\n    \"default\": {";
  for (const GroupSize& group : groups) {
    if (&group != &groups.front()) out += ',';
    out += fmt::format("\n      {}: {{ \"template\": \"worker\", \"size\": {} }}",
                       Quoted(group.name.text()), group.size);
  }
  return out + "\n    }\n  }";
}

}  // namespace

Result<std::string> InitialConfig(const InitialSettings& settings) {
  using fmt::arg;
  const std::string prefix =
      settings.secrets_prefix == "secret/"
          ? std::string()
          : fmt::format("\n      \"prefix\": {},", Quoted(settings.secrets_prefix));
  std::string text = fmt::format(
      kText, arg("plain_shard", settings.shard.text()),
      arg("plain_cluster", settings.cluster.text()),
      arg("cluster", Quoted(settings.cluster.text())), arg("shard", Quoted(settings.shard.text())),
      arg("root", Quoted(settings.instances_root)),
      arg("registration_port", settings.registration_port),
      arg("operator_port", settings.operator_port), arg("agent_port", settings.agent_port),
      arg("secrets_prefix", prefix),
      arg("key_provider", Quoted(config::Word(settings.key.provider))),
      arg("key_source", Quoted(settings.key.source)), arg("agent", Quoted(settings.agent)),
      arg("arch", Quoted(settings.arch)), arg("groups", Groups(settings.groups)));
  const config::LoadResult loaded = LoadChecked(text);
  if (loaded.config) return text;
  return Fail(InvalidArgument(config::Format(
      loaded.errors.front(), fmt::format("config/{}.jsonc", settings.shard.text()))));
}

std::string ShellWord(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
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

}  // namespace nstance::admin

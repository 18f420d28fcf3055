// The complete example of the configuration reference, as text.
#pragma once

#include <string_view>

namespace nstance::test {

inline constexpr std::string_view kExampleText = R"JSONC({
  "server": {
    "cluster_id": "example-cluster",
    "shard": "local-a",
    "provider": { "kind": "local", "options": { "root": "./instances" } },
    "bind": {
      "health_addr": "127.0.0.1:8990",
      "election_addr": "127.0.0.1:8991",
      "registration_addr": "127.0.0.1:8992",
      "operator_addr": "127.0.0.1:8993",
      "agent_addr": "127.0.0.1:8994"
    },
    "subnet_pools": { "default": ["loopback"] },
    "secrets": {
      "provider": "object-storage",
      "encryption_key": { "provider": "env", "source": "NSTANCE_ENCRYPTION_KEY" } // 32 bytes
    },
    "health_check_interval": "5s",
    "default_drain_timeout": "30s",
    "garbage_collection": { "interval": "30s", "registration_timeout": "1m" },
    "expiry": { "eligible_age": "1d", "forced_age": "2d" }
  },

  "tenants": { "dev": {} }, // "default" is implicit

  "certificates": {
    "node": { "kind": "server", "cn": "{{ .Instance.ID }}", "dns": ["{{ .Instance.Hostname }}"], "ip": ["{{ .Instance.IP4 }}"], "ttl": 168 }
  },

  "defaults": {
    "vars": { "LOG_LEVEL": "info" },
    "userdata": {
      "source": "inline",
      "encoding": "plain",
      "content": [
        "#!/bin/bash",
        "set -eu; umask 077; mkdir -p identity keys recv",
        "printf '%s' '{{ .Nonce }}' > identity/nonce.jwt",
        "printf '%s' '{{ .Cluster.CACert }}' > identity/ca.crt",
        "export NSTANCE_INSTANCE_ID='{{ .Instance.ID }}' NSTANCE_REPORT_INTERVAL=5s",
        "export NSTANCE_SERVER_REGISTRATION_ADDR='{{ .Server.RegistrationAddr }}'",
        "export NSTANCE_SERVER_AGENT_ADDR='{{ .Server.AgentAddr }}'",
        "export NSTANCE_IDENTITY_DIR=$PWD/identity NSTANCE_KEYS_DIR=$PWD/keys NSTANCE_RECV_DIR=$PWD/recv",
        "exec nstance-agent"
      ]
    }
  },

  "templates": {
    "worker": {
      "kind": "wrk",
      "arch": "amd64",
      "instance_type": "local.small",
      "subnet_pool": "default",
      "files": {
        "node.env": { "kind": "env", "template": { "NODE": "{{ .Instance.ID }}", "LOG_LEVEL": "{{ .Vars.LOG_LEVEL }}" } },
        "node.crt": { "kind": "certificate", "template": "node", "key": { "source": "agent", "name": "node.pub" } }
      }
    }
  },

  "groups": {
    "default": {
      "workers": { "template": "worker", "size": 3, "vars": { "ROLE": "worker" } },
      "warm": { "template": "worker", "size": 2, "pool": { "max_claimed": 10, "reclaim": "delete" } }
    },
    "dev": {
      "workers": { "template": "worker", "size": 1, "drain_timeout": "0s" }
    }
  }
}
)JSONC";

}  // namespace nstance::test

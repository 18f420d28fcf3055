// Every rule of the schema and of the cross-checks, row by row: an edit of a small valid file, and
// the whole list of errors that it gives. An empty one means that the file loads.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/config/load.h"
#include "test/core/config/config_text.h"

namespace nstance::config {
namespace {

struct Row {
  std::vector<Edit> edits;
  std::string_view errors;
};

void CheckRows(std::string_view base, const std::vector<Row>& rows) {
  ASSERT_EQ(ErrorLines(Load(Edited(base, {}))), "");
  for (const Row& row : rows) {
    const LoadResult result = Load(Edited(base, row.edits));
    std::string what;
    for (const Edit& edit : row.edits) {
      what += std::string(edit.first) + " = " + std::string(edit.second) + "; ";
    }
    EXPECT_EQ(ErrorLines(result), row.errors) << what;
    EXPECT_EQ(result.config.has_value(), row.errors.empty()) << what;
  }
}

TEST(RulesTest, Identity) {
  CheckRows(
      kSmall,
      {
          {{{"server", ""}}, "server: missing; an object"},
          {{{"server/shard", ""}}, "server.shard: missing; a name"},
          {{{"server/cluster_id", "\"a--b\""}},
           "server.cluster_id: \"a--b\" is not a cluster name: a hyphen must stand between letters "
           "or digits; 1 to 32 lower-case letters and digits, with single hyphens between them"},
          {{{"server/cluster_id", "null"}}, "server.cluster_id: is null; a name"},
          {{{"server/files", "{}"}}, "server.files: not supported by this server; remove it"},
      });
}

TEST(RulesTest, Provider) {
  constexpr std::string_view kKinds = "one of: local, qemu, aws, gcp, google, proxmox";
  const std::string unknown =
      "server.provider.kind: \"azure\" is not allowed; " + std::string(kKinds);
  CheckRows(
      kSmall,
      {
          {{{"server/provider", ""}}, "server.provider: missing; an object"},
          {{{"server/provider/kind", "\"azure\""}}, unknown},
          {{{"server/provider/kind", "\"mock\""}},
           "server.provider.kind: \"mock\" is not supported; use `local`"},
          {{{"server/provider/kind", "\"aws\""}, {"server/secrets", "{}"}},
           "server.provider.region: missing; required for provider aws\n"
           "server.provider.zone: missing; required for provider aws"},
          {{{"server/provider/region", "\"\""}},
           "server.provider.region: is empty; a string of 1 to 64 bytes"},
          {{{"server/provider/options", R"({"rot": "/x"})"}},
           "server.provider.options.rot: unknown key; allowed here: env, keep_logs, kill_grace, "
           "max_instances, root, shell. Did you mean \"root\"?"},
          {{{"server/provider/options", R"({"kill_grace": "5s", "env": {"A": "b"}})"}}, ""},
          {{{"server/provider", R"({"kind": "qemu", "options": {"accel": "fast"}})"},
            {"defaults/args", R"({"Kernel": "k"})"}},
           "server.provider.options.accel: \"fast\" is not allowed; one of: auto, kvm, tcg"},
          {{{"server/provider", R"({"kind": "google", "region": "r", "zone": "z"})"},
            {"server/secrets", R"({"project_id": "p"})"}},
           "server.provider.options.project_id: missing; required for provider gcp"},
          {{{"server/provider",
             R"({"kind": "google", "region": "r", "zone": "z", "options": {"project_id": "p"}})"},
            {"server/secrets", R"({"project_id": "p"})"}},
           ""},
      });
}

TEST(RulesTest, LeaderNetwork) {
  CheckRows(kSmall, {{{{"server/leader_network", R"({"ip": "10.0.0.1"})"}},
                      "server.leader_network: not allowed: only with the providers aws and gcp; "
                      "remove it"}});
  CheckRows(kAws,
            {
                {{{"server/leader_network", R"({"ip": "10.0.0.1", "interface_id": "eni-1"})"}}, ""},
                {{{"server/leader_network", R"({"ip": "10.0.0.1"})"}},
                 "server.leader_network.interface_id: missing; required for provider aws"},
                {{{"server/leader_network", R"({"interface_id": "eni-1"})"}},
                 "server.leader_network.ip: missing; an IP address"},
                {{{"server/leader_network", R"({"ip": "10.0.0", "interface_id": "eni-1"})"}},
                 "server.leader_network.ip: \"10.0.0\" is not allowed; an IP address"},
            });
}

TEST(RulesTest, SubnetPools) {
  CheckRows(
      kSmall,
      {
          {{{"server/subnet_pools", "{}"}, {"templates", "{}"}, {"groups", "{}"}},
           "server.subnet_pools: is empty; at least one pool"},
          {{{"server/subnet_pools/other", "[]"}},
           "server.subnet_pools.other: is empty; a list of subnets, at least one"},
          {{{"server/subnet_pools/other", R"(["s2", "s1"])"}},
           "server.subnet_pools.other[1]: \"s1\" is in pool `main` already; a subnet in one pool, "
           "once"},
          {{{"server/dynamic_subnet_pools", R"(["other"])"}}, ""},
          {{{"server/dynamic_subnet_pools", R"(["othe"])"}},
           "server.dynamic_subnet_pools[0]: \"othe\" is not defined; one of: main, other. Did you "
           "mean \"other\"?"},
      });
}

TEST(RulesTest, Secrets) {
  CheckRows(
      kSmall,
      {
          {{{"server/secrets", ""}},
           "server.secrets.encryption_key: missing; required for provider object-storage"},
          {{{"server/secrets", R"({"provider": "memory"})"}}, ""},
          {{{"server/secrets/provider", "\"memory\""}},
           "server.secrets.encryption_key: not allowed: only with provider object-storage; remove "
           "it"},
          {{{"server/secrets/provider", "\"vault\""}},
           "server.secrets.provider: the value is not allowed; one of: object-storage, "
           "aws-parameter-store, aws-secrets-manager, gcp-secret-manager, google-secret-manager, "
           "memory"},
          {{{"server/secrets", R"({"provider": "gcp-secret-manager"})"}},
           "server.secrets.project_id: missing; required for provider gcp-secret-manager"},
          {{{"server/secrets/project_id", "\"p\""}},
           "server.secrets.project_id: not allowed: only with provider gcp-secret-manager; remove "
           "it"},
          {{{"server/secrets/encryption_key", R"({"provider": "gcp-secret-manager",
             "source": "s"})"}},
           "server.secrets.encryption_key.project_id: missing; required for provider "
           "gcp-secret-manager"},
          {{{"server/secrets/encryption_key/project_id", "\"p\""}},
           "server.secrets.encryption_key.project_id: not allowed: only with provider "
           "gcp-secret-manager; remove it"},
          {{{"server/secrets/old_encryption_keys", R"([{"provider": "file", "source": "/k"}])"}},
           ""},
          {{{"server/secrets/old_encryption_keys", R"([{"provider": "file"}])"}},
           "server.secrets.old_encryption_keys[0].source: missing; a string that is not empty"},
          {{{"server/secrets", R"({"provider": "memory",
             "old_encryption_keys": [{"provider": "file", "source": "/k"}]})"}},
           "server.secrets.old_encryption_keys: not allowed: only with provider object-storage; "
           "remove it"},
          {{{"server/secrets/cache_ttl", "\"25h\""}},
           "server.secrets.cache_ttl: the value is above the maximum; a duration of at most 24h"},
      });
}

TEST(RulesTest, Storage) {
  CheckRows(kSmall,
            {
                {{{"server/storage", R"({"provider": "s3", "bucket": "b"})"}}, ""},
                {{{"server/storage", R"({"provider": "s4", "bucket": "b"})"}},
                 "server.storage.provider: \"s4\" is not allowed; one of: s3, gcs, file. Did you "
                 "mean \"s3\"?"},
                {{{"server/storage", R"({"provider": "s3"})"}},
                 "server.storage.bucket: missing; a string that is not empty"},
            });
}

TEST(RulesTest, LeaderElection) {
  CheckRows(
      kSmall,
      {
          {{{"server/leader_election/renew_interval", "\"499ms\""}},
           "server.leader_election.renew_interval: \"499ms\" is below the minimum; a duration from "
           "500ms to 1m"},
          {{{"server/leader_election/renew_interval", "\"61s\""}},
           "server.leader_election.renew_interval: \"61s\" is above the maximum; a duration from "
           "500ms to 1m"},
          {{{"server/leader_election/lease_timeout", "\"6s\""}}, ""},
          {{{"server/leader_election/lease_timeout", "\"5s\""}},
           "server.leader_election.lease_timeout: a lease of 5s is too short for a renewal every "
           "2s; a lease of at least three renewals, here 6s"},
          {{{"server/leader_election/renew_interval", "\"3s\""}},
           "server.leader_election.renew_interval: a lease of 8s is too short for a renewal every "
           "3s; a lease of at least three renewals, here 9s"},
          {{{"server/leader_election/cluster", R"({"lease_timeout": "3s", "enabled": false})"}},
           "server.leader_election.cluster.lease_timeout: a lease of 3s is too short for a renewal "
           "every 2s; a lease of at least three renewals, here 6s"},
          {{{"server/leader_election/infrequent_interval", "\"30s\""}}, ""},
          {{{"server/leader_election/infrequent_interval", "7"}},
           "server.leader_election.infrequent_interval: is a number; a duration such as \"90s\" or "
           "\"1h30m\""},
          {{{"server/store_timeout", "\"3999ms\""}}, ""},
          {{{"server/store_timeout", "\"4s\""}},
           "server.store_timeout: \"4s\" is too long for the lease; below 3/4 of `lease_timeout` "
           "minus `renew_interval`, here 4s"},
          {{{"server/leader_election/cluster",
             R"({"renew_interval": "1s", "lease_timeout": "4s"})"},
            {"server/store_timeout", "\"2s\""}},
           "server.store_timeout: \"2s\" is too long for the cluster's lease; below 3/4 of "
           "`lease_timeout` minus `renew_interval`, here 2s"},
      });
}

TEST(RulesTest, TheStoreTimeoutFollowsTheLease) {
  const LoadResult result = Load(Edited(
      kSmall,
      {{"server/leader_election", R"({"renew_interval": "500ms", "lease_timeout": "4s"})"}}));
  ASSERT_TRUE(result.config.has_value()) << ErrorLines(result);
  EXPECT_EQ(result.config->server.store_timeout, Duration::Milliseconds(1'500));
}

TEST(RulesTest, TimesAndCounts) {
  CheckRows(
      kSmall,
      {
          {{{"server/create_concurrency", "0"}},
           "server.create_concurrency: 0 is below the minimum; a whole number from 1 to 100"},
          {{{"server/create_concurrency", "101"}},
           "server.create_concurrency: 101 is above the maximum; a whole number from 1 to 100"},
          {{{"server/health_check_interval", "\"500ms\""}},
           "server.health_check_interval: \"500ms\" is below the minimum; a duration from 1s to "
           "1h"},
          {{{"server/default_drain_timeout", "\"25h\""}},
           "server.default_drain_timeout: \"25h\" is above the maximum; a duration of at most 24h"},
          {{{"server/image_refresh_interval", "\"30s\""}},
           "server.image_refresh_interval: \"30s\" is below the minimum; a duration of at least "
           "1m, or 0s"},
          {{{"server/image_refresh_interval", "\"0s\""}}, ""},
          {{{"server/shutdown_timeout", "\"11m\""}},
           "server.shutdown_timeout: \"11m\" is above the maximum; a duration of at most 10m"},
          {{{"server/garbage_collection/interval", "\"9s\""}},
           "server.garbage_collection.interval: \"9s\" is below the minimum; a duration of at "
           "least 10s, or 0s"},
          {{{"server/garbage_collection/interval", "0"}}, ""},
          {{{"server/garbage_collection/registration_timeout", "\"29s\""}},
           "server.garbage_collection.registration_timeout: \"29s\" is below the minimum; a "
           "duration of at least 30s"},
          {{{"server/garbage_collection/orphan_grace", "\"59s\""}},
           "server.garbage_collection.orphan_grace: \"59s\" is below the minimum; a duration of at "
           "least 1m"},
          {{{"server/garbage_collection/deleted_record_retention", "\"24h\""}},
           "server.garbage_collection.deleted_record_retention: tombstones are kept for 24h, but "
           "agents' certificates live 24h; `server.garbage_collection.deleted_record_retention` "
           "must be longer than `certificates.agent.ttl`"},
          {{{"certificates/agent/ttl", "25"}},
           "certificates.agent.ttl: tombstones are kept for 25h, but agents' certificates live "
           "25h; `server.garbage_collection.deleted_record_retention` must be longer than "
           "`certificates.agent.ttl`"},
          {{{"server/registration/require_proof", "1"}},
           "server.registration.require_proof: is a number; true or false"},
      });
}

TEST(RulesTest, ExpiryBrakesAndJitter) {
  CheckRows(
      kSmall,
      {
          {{{"server/expiry", R"({"eligible_age": "2d", "forced_age": "2d"})"}},
           "server.expiry.eligible_age: \"2d\" is not below `forced_age` 2d; below it when both "
           "are set"},
          {{{"server/expiry", R"({"eligible_age": "1d", "forced_age": "0s"})"}}, ""},
          {{{"server/expiry", R"({"eligible_age": "1d", "forced_age": "25h"})"}}, ""},
          {{{"server/deletion_brake/ordered", R"({"percent": 101})"}},
           "server.deletion_brake.ordered.percent: 101 is above the maximum; a whole number from 0 "
           "to 100"},
          {{{"server/deletion_brake/unordered", R"({"window": "61m"})"}},
           "server.deletion_brake.unordered.window: \"61m\" is above the maximum; a duration of at "
           "most 1h"},
          {{{"server/deletion_brake/unordered", R"({"window": "0s", "count": 0})"}}, ""},
          {{{"server/error_exit_jitter", R"({"min_delay": "41s"})"}},
           "server.error_exit_jitter.min_delay: `min_delay` 41s is above `max_delay` 40s; at most "
           "`max_delay`"},
          {{{"server/error_exit_jitter", R"({"min_delay": "40s"})"}}, ""},
      });
}

TEST(RulesTest, LoadBalancers) {
  constexpr std::string_view kArns = R"({"provider": "aws", "target_group_arns": ["arn:1"]})";
  CheckRows(
      kAws,
      {
          {{{"load_balancers/web", kArns}}, ""},
          {{{"load_balancers/web", R"({"provider": "aws", "target_groups":
             [{"arn": "x", "listener_port": 80, "target_port": 8080, "proxy_port": 1}]})"}},
           ""},
          {{{"load_balancers/web", R"({"target_group_arns": ["arn:1"]})"}},
           "load_balancers.web.provider: missing; one of: local, qemu, aws, gcp, google, proxmox"},
          {{{"load_balancers/web", R"({"provider": "tunnel"})"}},
           "load_balancers.web.provider: \"tunnel\" is not supported by this server; remove it"},
          {{{"load_balancers/web", R"({"provider": "gcp", "instance_group_name": "x"})"}},
           "load_balancers.web.provider: \"gcp\" is not the provider of the infrastructure; aws"},
          {{{"load_balancers/web", R"({"provider": "aws"})"}},
           "load_balancers.web: has no `target_groups`; it or `target_group_arns` is required"},
          {{{"load_balancers/web", R"({"provider": "aws", "target_group_arns": []})"}},
           "load_balancers.web.target_group_arns: is empty; at least one"},
          {{{"load_balancers/web", R"({"provider": "aws", "target_groups": [{"arn": "x"}],
             "target_group_arns": ["x"]})"}},
           "load_balancers.web.target_group_arns: is given beside `target_groups`; one of the two"},
          {{{"load_balancers/web", R"({"provider": "aws", "target_group_arns": ["x"],
             "targets_file": "f"})"}},
           "load_balancers.web.targets_file: not with provider aws; allowed here: "
           "target_group_arns, target_groups"},
          {{{"load_balancers/web", R"({"provider": "aws", "target_groups":
             [{"arn": "x", "target_port": 0}]})"}},
           "load_balancers.web.target_groups[0].target_port: 0 is below the minimum; a whole "
           "number from 1 to 65535"},
          {{{"load_balancers/web", kArns},
            {"groups/default/workers/load_balancers", R"(["web", "web"])"}},
           "groups.default.workers.load_balancers[1]: \"web\" is named twice; each balancer once"},
          {{{"load_balancers/web", kArns}, {"groups/default/workers/load_balancers", R"(["wb"])"}},
           "groups.default.workers.load_balancers[0]: \"wb\" is not defined; one of: web. Did you "
           "mean \"web\"?"},
          {{{"load_balancers/web", kArns},
            {"groups/default/workers/load_balancers", R"(["web"])"},
            {"groups/prod/w", R"({"template": "knd", "load_balancers": ["web"]})"}},
           "groups.prod.w.load_balancers[0]: \"web\" is used by groups of tenant `default`; a "
           "balancer serves groups of one tenant"},
      });
  CheckRows(kSmall,
            {
                {{{"load_balancers/web", R"({"provider": "local", "targets_file": "f"})"}}, ""},
                {{{"load_balancers/web", R"({"provider": "local"})"}},
                 "load_balancers.web.targets_file: missing; a string that is not empty"},
            });
}

TEST(RulesTest, LoadBalancersOfGcpAndOfNobody) {
  const std::vector<Edit> gcp = {
      {"server/provider",
       R"({"kind": "gcp", "region": "r", "zone": "z", "options": {"project_id": "p"}})"},
      {"server/secrets", R"({"project_id": "p"})"}};
  const auto errors = [&](std::string_view balancer) {
    std::vector<Edit> edits = gcp;
    edits.emplace_back("load_balancers/web", balancer);
    return ErrorLines(Load(Edited(kAws, edits)));
  };
  EXPECT_EQ(errors(R"({"provider": "google", "network_endpoint_groups": ["n"],
                       "frontends": [{"ip": "1.2.3.4", "port": 80}]})"),
            "");
  EXPECT_EQ(errors(R"({"provider": "gcp", "instance_group_name": "n",
                       "frontends": [{"ip": "1.2.3.4", "port": 80}]})"),
            "load_balancers.web.frontends: not allowed: only with `network_endpoint_groups`; "
            "remove it");
  CheckRows(kSmall, {{{{"server/provider/kind", "\"qemu\""},
                       {"defaults/args", R"({"Image": "i"})"},
                       {"load_balancers/web", R"({"provider": "qemu"})"}},
                      "load_balancers.web: provider qemu offers no load balancers; remove it"}});
}

TEST(RulesTest, Images) {
  CheckRows(
      kAws,
      {
          {{{"images/debian_13", R"({"provider": "aws", "sort": "name", "owners": ["1"],
             "filters": [{"name": "n", "values": ["v"]}]})"}},
           ""},
          {{{"images/a-b", R"({"provider": "aws"})"}},
           "images.a-b: \"a-b\" is not allowed as a name; letters, digits and underscores, not "
           "starting with a digit"},
          {{{"images/x", R"({"provider": "aws"})"}},
           "images.x.sort: missing; one of: creation-date, name\n"
           "images.x.filters: missing; at least one filter"},
          {{{"images/x", R"({"provider": "aws", "sort": "name", "filters": []})"}},
           "images.x.filters: is empty; at least one filter"},
          {{{"images/x", R"({"provider": "aws", "sort": "name", "order": "up", "path": "p",
             "filters": [{"name": "n", "values": []}]})"}},
           "images.x.order: \"up\" is not allowed; one of: asc, desc\n"
           "images.x.path: not with provider aws; allowed here: fallback, filters, order, owners, "
           "sort\n"
           "images.x.filters[0].values: is empty; a list of strings, at least one"},
      });
  CheckRows(kSmall, {
                        {{{"images/x", R"({"provider": "local", "fallback": "f"})"}}, ""},
                        {{{"images/x", R"({"provider": "local"})"}},
                         "images.x.fallback: missing; a string that is not empty"},
                        {{{"server/provider/kind", "\"qemu\""},
                          {"defaults/args", R"({"Image": "{{ .Image.x }}"})"},
                          {"images/x", R"({"provider": "qemu"})"}},
                         "images.x.path: missing; a string that is not empty"},
                    });
}

TEST(RulesTest, Certificates) {
  CheckRows(
      kSmall,
      {
          {{{"certificates/kubelet.client", R"({"kind": "client", "ttl": "30d",
             "ip": ["{{ .Instance.IP4 }}", "10.0.0.1"], "uri": ["spiffe://x/y"]})"}},
           ""},
          {{{"certificates/x", "{}"}}, "certificates.x.kind: missing; one of: client, server"},
          {{{"certificates/x", R"({"kind": "peer"})"}},
           "certificates.x.kind: \"peer\" is not allowed; one of: client, server"},
          {{{"certificates/a b", R"({"kind": "client"})"}},
           "certificates[\"a b\"]: \"a b\" is not allowed as a name; 1 to 63 letters, digits, "
           "dots, underscores and hyphens, starting with a letter or digit"},
          {{{"certificates/x", R"({"kind": "client", "ttl": 0})"}},
           "certificates.x.ttl: 0 is below the minimum; a whole number of hours from 1 to 876000, "
           "or a duration from 1m to 876000h"},
          {{{"certificates/x", R"({"kind": "client", "ttl": 1.5})"}},
           "certificates.x.ttl: 1.5 is not a whole number; a whole number of hours from 1 to "
           "876000, or a duration from 1m to 876000h"},
          {{{"certificates/x", R"({"kind": "client", "ip": ["10.0"], "uri": ["nowhere"]})"}},
           "certificates.x.ip[0]: \"10.0\" is not allowed; an IP address, or a template\n"
           "certificates.x.uri[0]: \"nowhere\" is not allowed; a URI with a scheme, or a template"},
          {{{"certificates/operator/ttl", "8761"}},
           "certificates.operator.ttl: 8761 is above the maximum; a whole number of hours from 1 "
           "to 8760, or a duration from 1m to 8760h"},
          {{{"certificates/ca", R"({"cn": "x", "organization": ["y"], "ttl": 876000})"}}, ""},
          {{{"certificates/agent", R"({"kind": "client"})"}},
           "certificates.agent.kind: unknown key; allowed here: legacy_ttl, ttl"},
      });
}

TEST(RulesTest, Templates) {
  CheckRows(
      kSmall,
      {
          {{{"templates/knd/kind", "\"opr\""}},
           "templates.knd.kind: \"opr\" is not allowed; three lower-case letters, not `opr`"},
          {{{"templates/knd/kind", "\"knds\""}},
           "templates.knd.kind: \"knds\" is not allowed; three lower-case letters, not `opr`"},
          {{{"templates/knd/arch", "\"x86\""}},
           "templates.knd.arch: \"x86\" is not allowed; one of: amd64, arm64"},
          {{{"templates/knd/arch", ""}}, "templates.knd.arch: missing; one of: amd64, arm64"},
          {{{"templates/knd/subnet_pool", "\"mian\""}},
           "templates.knd.subnet_pool: \"mian\" is not defined; one of: main, other"},
          {{{"templates/knd/allowed_instance_types", R"(["big"])"}},
           "templates.knd.instance_type: \"small\" is not in `allowed_instance_types`; one of: "
           "big"},
          {{{"templates/knd/allowed_instance_types", R"(["big", "small"])"},
            {"groups/default/workers/instance_type", "\"large\""}},
           "groups.default.workers.instance_type: \"large\" is not in the template's "
           "`allowed_instance_types`; one of: big, small"},
          {{{"templates/knd/size", "3"}}, ""},
          {{{"templates/knd/vars", R"({"9x": "y"})"}},
           "templates.knd.vars.9x: \"9x\" is not allowed as a name; letters, digits and "
           "underscores, not starting with a digit"},
          {{{"templates/knd/vars", R"({"X": 1})"}}, "templates.knd.vars.X: is a number; a string"},
      });
}

TEST(RulesTest, Files) {
  const auto errors = [](std::string_view file) {
    return ErrorLines(Load(Edited(kSmall, {{"templates/knd/files/a.env", file},
                                           {"certificates/node", R"({"kind": "server"})"}})));
  };
  constexpr std::string_view kPath = "templates.knd.files[\"a.env\"]";
  const auto at = [&](std::string_view rest) { return std::string(kPath) + std::string(rest); };
  EXPECT_EQ(errors(R"({"kind": "secret", "source": "s"})"), "");
  EXPECT_EQ(errors(R"({"kind": "secret"})"), at(".source: missing; a string"));
  EXPECT_EQ(errors(R"({"kind": "storage", "source": "s", "template": "x"})"),
            at(".template: not allowed: a file of kind storage has none; remove it"));
  EXPECT_EQ(errors(R"({"kind": "env", "template": {"A": "b"}})"), "");
  EXPECT_EQ(errors(R"({"kind": "env", "template": {"A": 1}})"),
            at(".template.A: is a number; a string"));
  EXPECT_EQ(errors(R"({"kind": "env", "template": {"A=": "x"}})"),
            at(".template[\"A=\"]: \"A=\" is not allowed as a name; no blanks, `=` or `#`"));
  EXPECT_EQ(errors(R"({"kind": "env", "template": "A=1"})"),
            at(".template: is a string; an object of strings"));
  EXPECT_EQ(errors(R"({"kind": "json", "template": {"a": [1, null]}})"), "");
  EXPECT_EQ(errors(R"({"kind": "json", "template": []})"), at(".template: is a list; an object"));
  EXPECT_EQ(errors(R"({"kind": "string", "template": ""})"), "");
  EXPECT_EQ(errors(R"({"kind": "string"})"), at(".template: missing; a string"));
  EXPECT_EQ(errors(R"({"kind": "certificate", "template": "node",
                       "key": {"source": "agent", "name": "a.pub"}})"),
            "");
  EXPECT_EQ(errors(R"({"kind": "certificate", "template": "node"})"),
            at(".key: missing; an object with `source` and `name`"));
  EXPECT_EQ(errors(R"({"kind": "certificate", "template": "nod",
                       "key": {"source": "agent", "name": "a.pub"}})"),
            at(".template: \"nod\" is not defined; one of: node. Did you mean \"node\"?"));
  EXPECT_EQ(errors(R"({"kind": "certificate", "template": "node",
                       "key": {"source": "server", "name": "a.key"}})"),
            at(".key.source: \"server\" is not allowed; `agent`\n") +
                at(".key.name: \"a.key\" is not allowed; a file name that ends in .pub"));
}

TEST(RulesTest, FileNames) {
  for (const std::string_view name : {".x", "write-files.last", "errors", "a\\b"}) {
    json::Value root = *json::Parse(kSmall);
    json::Value files = json::Value::Map({});
    files.Set(name, *json::Parse(R"({"kind": "secret", "source": "s"})"));
    root.Find("templates")->Find("knd")->Set("files", files);
    EXPECT_NE(ErrorLines(Load(json::Write(root))).find("is not allowed as a file name"),
              std::string::npos)
        << name;
  }
}

TEST(RulesTest, UserData) {
  const auto errors = [](std::string_view userdata) {
    return ErrorLines(Load(Edited(kSmall, {{"defaults/userdata", userdata}})));
  };
  EXPECT_EQ(errors(R"({"content": "x"})"), "");
  EXPECT_EQ(errors("{}"), "defaults.userdata.content: missing; a string or a list of strings");
  EXPECT_EQ(errors(R"({"content": ["a", 1]})"),
            "defaults.userdata.content[1]: is a number; a string");
  EXPECT_EQ(errors(R"({"content": "x", "encoding": "gzip"})"),
            "defaults.userdata.encoding: gzip is only for source url; plain, base64 or "
            "base64+gzip");
  EXPECT_EQ(errors(R"({"content": "aGk=\n", "encoding": "base64"})"), "");
  EXPECT_EQ(errors(R"({"content": "aGk", "encoding": "base64"})"),
            "defaults.userdata.content: is not base64; the standard alphabet, padded, white space "
            "allowed");
  EXPECT_EQ(errors(R"({"content": "x", "sha256": ")" + std::string(64, 'a') + "\"}"),
            "defaults.userdata.sha256: not allowed: only with source url; remove it");
  EXPECT_EQ(errors(R"({"content": "https://h/u", "source": "url", "encoding": "gzip"})"), "");
  EXPECT_EQ(errors(R"({"content": "ftp://h/u", "source": "url"})"),
            "defaults.userdata.content: the URL has another scheme; https://host/..., or "
            "http://host/... with sha256");
  EXPECT_EQ(errors(R"({"content": "https://169.254.169.254/u", "source": "url"})"),
            "defaults.userdata.content: the URL is link-local; https://host/..., or "
            "http://host/... with sha256");
  EXPECT_EQ(errors(R"({"content": "http://h/u", "source": "url"})"),
            "defaults.userdata.content: the URL is plain http without sha256; https://host/..., or "
            "http://host/... with sha256");
  EXPECT_EQ(errors(R"({"content": "http://h/u", "source": "url", "sha256": ")" +
                   std::string(64, 'A') + "\"}"),
            "");
  EXPECT_EQ(errors(R"({"content": "http://h/u", "source": "url", "sha256": "ab"})"),
            "defaults.userdata.sha256: the value is not allowed; 64 hex digits");
  EXPECT_EQ(errors(R"({"content": ["https://h/u"], "source": "url"})"),
            "defaults.userdata.content: is a list; the URL, a string");
}

TEST(RulesTest, Groups) {
  CheckRows(
      kSmall,
      {
          {{{"groups/default/workers/template", ""}},
           "groups.default.workers.template: missing; the name of a template"},
          {{{"groups/default/Workers", R"({"template": "knd"})"}},
           "groups.default.Workers: \"Workers\" is not a group name: it contains \"W\"; 1 to 32 "
           "lower-case letters and digits, with single hyphens between them"},
          {{{"groups/default/workers/subnet_pool", "\"none\""}},
           "groups.default.workers.subnet_pool: \"none\" is not defined; one of: main, other"},
          {{{"templates/knd/subnet_pool", ""}},
           "groups.default.workers.subnet_pool: missing; one of `server.subnet_pools`, here or in "
           "the template"},
          {{{"templates/knd/instance_type", ""}}, ""},
          {{{"groups/default/workers/surge", "101"}},
           "groups.default.workers.surge: 101 is above the maximum; a whole number from 1 to 100"},
          {{{"server/expiry/forced_age", "\"2d\""},
            {"groups/default/workers/expiry", R"({"eligible_age": "3d"})"}},
           "groups.default.workers.expiry.eligible_age: with the server's values `eligible_age` is "
           "3d and `forced_age` 2d; eligible below forced when both are set"},
          {{{"server/expiry/forced_age", "\"2d\""},
            {"groups/default/workers/expiry", R"({"eligible_age": "3d", "forced_age": "0s"})"}},
           ""},
          {{{"groups/default/workers/drain_timeout", "\"0s\""}}, ""},
      });
  CheckRows(kAws, {{{{"templates/knd/instance_type", ""}},
                    "groups.default.workers.instance_type: missing; provider aws needs a type here "
                    "or in the template"}});
}

TEST(RulesTest, Pools) {
  constexpr std::string_view kFiles = R"({"a.env": {"kind": "env", "template": {}},
      "s.key": {"kind": "secret", "source": "s"}})";
  CheckRows(
      kSmall,
      {
          {{{"templates/knd/files", kFiles},
            {"groups/default/workers/pool", R"({"warm_files": ["a.env"]})"}},
           ""},
          {{{"templates/knd/files", kFiles},
            {"groups/default/workers/pool", R"({"warm_files": ["b.env", "s.key"]})"}},
           "groups.default.workers.pool.warm_files[0]: \"b.env\" is not defined; one of: a.env, "
           "s.key. Did you mean \"a.env\"?\n"
           "groups.default.workers.pool.warm_files[1]: \"s.key\" is of kind secret, which an "
           "unclaimed member must not have; kinds env, json, string, storage"},
          {{{"groups/default/workers/pool", R"({"state": "stopped"})"}},
           "groups.default.workers.pool.state: \"stopped\" needs a provider with power control; "
           "`running` with provider local"},
          {{{"groups/default/workers/pool", R"({"state": "suspended"})"}},
           "groups.default.workers.pool.state: \"suspended\" is not allowed; one of: running, "
           "stopped"},
          {{{"groups/default/workers/pool", R"({"refill_per_minute": 601})"}},
           "groups.default.workers.pool.refill_per_minute: 601 is above the maximum; a whole "
           "number from 1 to 600"},
          {{{"groups/default/workers/pool", R"({"reclaim": "keep", "on_empty": "wait"})"}},
           "groups.default.workers.pool.reclaim: \"keep\" is not allowed; one of: delete, return\n"
           "groups.default.workers.pool.on_empty: \"wait\" is not allowed; one of: fail, create"},
      });
}

TEST(RulesTest, Draws) {
  constexpr std::string_view kPool = R"({"template": "knd", "pool": {}})";
  constexpr std::string_view kFits =
      "; members of a pool fit groups with the same kind, arch, instance_type, subnet_pool, args "
      "and userdata";
  const auto differs = [&](std::string_view field) {
    return "groups.default.workers.draw_from: `" + std::string(field) +
           "` differs from that of the pool `spare`" + std::string(kFits);
  };
  const auto errors = [&](std::vector<Edit> edits) {
    edits.insert(edits.begin(), {{"groups/default/spare", kPool},
                                 {"groups/default/workers/draw_from", "\"spare\""}});
    return ErrorLines(Load(Edited(kSmall, edits)));
  };
  EXPECT_EQ(errors({}), "");
  EXPECT_EQ(errors({{"groups/default/workers/vars", R"({"A": "b"})"}}), "");
  EXPECT_EQ(errors({{"groups/default/workers/instance_type", "\"big\""}}),
            differs("instance_type"));
  EXPECT_EQ(errors({{"groups/default/workers/subnet_pool", "\"other\""}}), differs("subnet_pool"));
  EXPECT_EQ(errors({{"groups/default/workers/args", R"({"Timeout": "1h"})"}}), differs("args"));
  EXPECT_EQ(errors({{"groups/default/workers/args", R"({"Timeout": "1h"})"},
                    {"defaults/args", R"({"Timeout": "1h"})"}}),
            "");
  EXPECT_EQ(errors({{"templates/b", R"({"kind": "abc", "arch": "amd64", "instance_type": "small",
                                        "subnet_pool": "main"})"},
                    {"groups/default/workers/template", "\"b\""}}),
            differs("kind"));
  EXPECT_EQ(errors({{"groups/default/workers/pool", "{}"}}),
            "groups.default.workers.draw_from: not allowed: a pool group does not draw; remove it");
  EXPECT_EQ(errors({{"groups/default/spare/pool", ""}}),
            "groups.default.workers.draw_from: \"spare\" is not a pool; a group with `pool`");
  EXPECT_EQ(errors({{"groups/default/workers/draw_from", "\"spar\""}}),
            "groups.default.workers.draw_from: \"spar\" is not defined; one of: spare. Did you "
            "mean \"spare\"?");
}

TEST(RulesTest, Args) {
  CheckRows(
      kSmall,
      {
          {{{"defaults/args", R"({"Env": {"A": "b"}, "Timeout": "{{ .Vars.T }}", "_x": 1})"}}, ""},
          {{{"templates/knd/args", R"({"env": {}})"}}, ""},
          {{{"groups/default/workers/args", R"({"Timeout": "soon"})"}},
           "groups.default.workers.args.Timeout: is a string that does not fit; a duration, or a "
           "template"},
      });
  CheckRows(
      kAws,
      {
          {{{"defaults/args", R"({"TagSpecifications": [{"Tags": [{"Key": "nstance:x"}]}]})"}},
           "defaults.args.TagSpecifications[0].Tags[0].Key: the name is reserved for the "
           "server; one that does not start with `nstance:`"},
          {{{"defaults/args", R"({"SecurityGroupIds": ["a", 1]})"}},
           "defaults.args.SecurityGroupIds: is a list that does not fit; a list of strings"},
          {{{"defaults/args", R"({"KeyNam": "k"})"}},
           "defaults.args.KeyNam: unknown argument of provider aws; allowed here: "
           "BlockDeviceMappings, CapacityReservationSpecification, CreditSpecification, "
           "IamInstanceProfile, ImageId, InstanceMarketOptions, Ipv6AddressCount, KeyName, "
           "MetadataOptions, PrivateDnsNameOptions, SecurityGroupIds, TagSpecifications. Did you "
           "mean \"KeyName\"?"},
      });
  const LoadResult local = Load(Edited(kSmall, {{"templates/knd/args", R"({"env": {}})"}}));
  ASSERT_EQ(local.warnings.size(), 1);
  EXPECT_EQ(local.warnings[0].path, "templates.knd.args.env");
  EXPECT_EQ(local.warnings[0].message,
            "unknown argument of provider local; allowed here: Env, Timeout. Did you mean "
            "\"Env\"?");
}

// `count` tags, the first with this value.
std::string TagArgs(int count, std::string_view value) {
  std::string tags = fmt::format(R"({{"Key": "Name", "Value": "{}"}})", value);
  for (int i = 0; i < count; ++i) tags += fmt::format(R"(, {{"Key": "k{}", "Value": "v"}})", i);
  return R"({"TagSpecifications": [{"Tags": [)" + tags + "]}]}";
}

TEST(RulesTest, BI81_TagsThatACloudWouldRefuseAreErrors) {
  const std::string place = "defaults.args.TagSpecifications[0].Tags";
  const std::string at_limit(256, 'v');
  std::string accents;
  for (int i = 0; i < 256; ++i) accents += "\xC3\xA9";
  CheckRows(
      kAws,
      {
          {{{"defaults/args", TagArgs(40, at_limit)}}, ""},
          {{{"defaults/args", TagArgs(1, accents)}}, ""},
          {{{"defaults/args", TagArgs(1, "{{ .Vars.x }}" + at_limit)}}, ""},
          {{{"defaults/args", TagArgs(51, "n")}},
           place + ": too many: 51; at most 40 beside the server's own"},
          {{{"defaults/args", TagArgs(41, "n")}},
           place + ": too many: 41; at most 40 beside the server's own"},
          {{{"defaults/args", TagArgs(1, std::string(300, 'v'))}},
           place + "[0].Value: is too long: 300 characters; at most 256"},
          {{{"defaults/args", R"({"TagSpecifications": [{"Tags": [{"Key": ")" +
                                  std::string(129, 'k') + R"("}]}]})"}},
           place + "[0].Key: is too long: 129 characters; at most 128"},
          {{{"defaults/args", R"({"TagSpecifications": [{"Tags": [{"Key": "nstance:x"}]}]})"}},
           place + "[0].Key: the name is reserved for the server; one that does not start "
                   "with `nstance:`"},
      });
}

TEST(RulesTest, BI81_LabelsThatACloudWouldRefuseAreErrors) {
  const auto errors = [](const std::string& labels) {
    return ErrorLines(Load(Edited(
        kSmall, {{"server/provider",
                  R"({"kind": "gcp", "region": "r", "zone": "z", "options": {"project_id": "p"}})"},
                 {"server/secrets", R"({"project_id": "p"})"},
                 {"defaults/args", R"({"labels": {)" + labels + "}}"}})));
  };
  std::string many = R"("l": "v")";
  for (int i = 0; i < 54; ++i) many += fmt::format(R"(, "l{}": "v")", i);
  EXPECT_EQ(errors(many), "");
  EXPECT_EQ(errors(many + R"(, "one": "more")"),
            "defaults.args.labels: too many: 56; at most 55 beside the server's own");
  EXPECT_EQ(errors(R"("l": ")" + std::string(300, 'v') + "\""),
            "defaults.args.labels.l: is too long: 300 characters; at most 63");
  EXPECT_EQ(errors(R"("nstance-l": "v")"),
            "defaults.args.labels.nstance-l: the name is reserved for the server; one that does "
            "not start with `nstance-`");
}

TEST(RulesTest, ArgsThatAProviderNeeds) {
  const auto proxmox = [](std::string_view args) {
    return ErrorLines(Load(
        Edited(kSmall, {{"server/provider", R"({"kind": "proxmox", "region": "r", "zone": "z"})"},
                        {"defaults/args", args}})));
  };
  EXPECT_EQ(proxmox(R"({"StoragePool": "p", "TemplateName": "t"})"), "");
  EXPECT_EQ(proxmox(R"({"StoragePool": "p", "TemplateName": "t", "TemplateVMID": 1})"),
            "groups.default.workers.args: with the template's and the defaults' there are "
            "`TemplateVMID` and `TemplateName`; exactly one of the two");
  EXPECT_EQ(proxmox(R"({"TemplateVMID": 1})"),
            "groups.default.workers.args.StoragePool: missing; required here, in the template or "
            "in the defaults");
  EXPECT_EQ(ErrorLines(Load(Edited(kSmall, {{"server/provider", R"({"kind": "qemu"})"}}))),
            "groups.default.workers.args: with the template's and the defaults' there is neither "
            "`Image` nor `Kernel`; exactly one of the two");
}

}  // namespace
}  // namespace nstance::config

#include "bench/server/bench_config.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "base/json.h"

namespace nstance::bench {
namespace {

constexpr std::int64_t kGroupSize = 100;

Result<std::int64_t> Number(const std::string& name, const std::string& text) {
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || number < 0) {
    return Fail(InvalidArgument(fmt::format("{}: {} is not a number from 0 on", name, text)));
  }
  return number;
}

void AddTenants(std::set<std::string>& tenants, const std::string& text) {
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) tenants.insert(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

json::Member Of(std::string key, json::Value value) {
  return {.key = std::move(key), .key_position = {}, .value = std::move(value)};
}
json::Member Of(std::string key, const char* value) {
  return Of(std::move(key), json::Value::String(value));
}

json::Value Server() {
  constexpr const char* kAnyPort = "127.0.0.1:0";
  const auto off = [] { return json::Value::Map({Of("window", "0s")}); };
  return json::Value::Map(
      {Of("cluster_id", kBenchCluster), Of("shard", kBenchShard),
       // Never opened: the provider of this program is another.
       Of("provider",
          json::Value::Map(
              {Of("kind", "local"), Of("options", json::Value::Map({Of("root", "/nowhere")}))})),
       Of("bind", json::Value::Map({Of("registration_addr", kAnyPort),
                                    Of("operator_addr", kAnyPort), Of("agent_addr", kAnyPort),
                                    Of("health_addr", kAnyPort), Of("election_addr", kAnyPort)})),
       Of("subnet_pools",
          json::Value::Map({Of("default", json::Value::List({json::Value::String("any")}))})),
       Of("secrets",
          json::Value::Map({Of("provider", "object-storage"),
                            Of("encryption_key",
                               json::Value::Map({Of("provider", "env"), Of("source", "KEY")}))})),
       Of("leader_election",
          json::Value::Map({Of("cluster", json::Value::Map({Of("renew_interval", "1s"),
                                                            Of("lease_timeout", "8s")}))})),
       // Agents of the generator report when they are told to: silence is not to be judged.
       Of("health_check_interval", "1h"), Of("create_concurrency", json::Value::Integer(100)),
       Of("garbage_collection",
          json::Value::Map({Of("interval", "0s"), Of("registration_timeout", "12h")})),
       Of("deletion_brake", json::Value::Map({Of("unordered", off()), Of("ordered", off())})),
       Of("error_exit_jitter", json::Value::Map({Of("min_delay", "0s"), Of("max_delay", "0s")}))});
}

json::Value Groups(const BenchFlags& flags) {
  std::map<std::string, std::vector<std::int64_t>> sizes;  // Of each tenant's groups.
  for (std::int64_t made = 0; made < flags.instances;) {
    const std::int64_t tenant = flags.per_tenant == 0 ? 0 : made / flags.per_tenant;
    const std::int64_t left =
        flags.per_tenant == 0 ? flags.instances - made : (tenant + 1) * flags.per_tenant - made;
    const std::int64_t size = std::min({left, kGroupSize, flags.instances - made});
    sizes[flags.per_tenant == 0 ? "default" : fmt::format("t{}", tenant)].push_back(size);
    made += size;
  }
  json::Value out = json::Value::Map({});
  for (const auto& [tenant, groups] : sizes) {
    json::Value of_tenant = json::Value::Map({});
    for (std::size_t i = 0; i < groups.size(); ++i) {
      of_tenant.Set(fmt::format("g{}", i),
                    json::Value::Map({Of("template", kBenchTemplate),
                                      Of("size", json::Value::Integer(groups[i]))}));
    }
    out.Set(tenant, std::move(of_tenant));
  }
  return out;
}

}  // namespace

Result<BenchFlags> ReadBenchFlags(std::span<const std::string> words) {
  BenchFlags flags;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const std::string& name = words[i];
    if (i + 1 == words.size()) return Fail(InvalidArgument(name + ": a value is missing"));
    const std::string& value = words[i + 1];
    if (name == "-dir") {
      flags.dir = value;
    } else if (name == "-addresses-file") {
      flags.addresses_file = value;
    } else if (name == "-store") {
      flags.store = value;
    } else if (name == "-tenants") {
      AddTenants(flags.tenants, value);
    } else if (name == "-instances") {
      ASSIGN_OR_RETURN(flags.instances, Number(name, value));
    } else if (name == "-per-tenant") {
      ASSIGN_OR_RETURN(flags.per_tenant, Number(name, value));
    } else if (name == "-create-ms") {
      ASSIGN_OR_RETURN(const std::int64_t milliseconds, Number(name, value));
      flags.create_time = Duration::Milliseconds(milliseconds);
    } else if (name != "-interval") {  // Reports are not judged (Server()).
      return Fail(InvalidArgument(name + ": no such flag"));
    }
  }
  if (flags.dir.empty()) return Fail(InvalidArgument("-dir is required"));
  for (std::int64_t i = 0; flags.per_tenant > 0 && i * flags.per_tenant < flags.instances; ++i) {
    flags.tenants.insert(fmt::format("t{}", i));
  }
  return flags;
}

std::string BenchConfig(const BenchFlags& flags) {
  json::Value tenants = json::Value::Map({});
  for (const std::string& tenant : flags.tenants) {
    if (tenant != "default") tenants.Set(tenant, json::Value::Map({}));
  }
  const json::Value config = json::Value::Map(
      {Of("server", Server()), Of("tenants", std::move(tenants)),
       Of("defaults",
          json::Value::Map({Of(
              "userdata", json::Value::Map({Of("source", "inline"), Of("encoding", "plain"),
                                            Of("content", json::Value::List({json::Value::String(
                                                              "{{ .Nonce }}")}))}))})),
       Of("templates", json::Value::Map({Of(
                           kBenchTemplate, json::Value::Map({Of("kind", "bch"), Of("arch", "amd64"),
                                                             Of("instance_type", "bench.small"),
                                                             Of("subnet_pool", "default")}))})),
       Of("groups", Groups(flags))});
  return json::Write(config, {.indent = 2});
}

}  // namespace nstance::bench

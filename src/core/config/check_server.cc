#include <algorithm>
#include <array>
#include <map>
#include <string>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"
#include "core/config/check.h"
#include "core/config/rule.h"
#include "core/config/schema.h"

namespace nstance::config {
namespace {

// The key of an address and the member that holds it.
struct AddressKey {
  std::string_view key;
  Address Addresses::* member;
};

constexpr std::array kAddressKeys = {
    AddressKey{"health_addr", &Addresses::health_addr},
    AddressKey{"election_addr", &Addresses::election_addr},
    AddressKey{"registration_addr", &Addresses::registration_addr},
    AddressKey{"operator_addr", &Addresses::operator_addr},
    AddressKey{"agent_addr", &Addresses::agent_addr},
};

std::string_view DefaultPrefix(SecretsProvider provider) {
  switch (provider) {
    case SecretsProvider::kObjectStorage: return "secret/";
    case SecretsProvider::kAwsParameterStore: return "/nstance/";
    case SecretsProvider::kAwsSecretsManager: return "nstance/";
    case SecretsProvider::kGcpSecretManager: return "nstance-";
    case SecretsProvider::kMemory: return "";
  }
  CHECK(false, "provider {}", static_cast<int>(provider));
}

SecretsProvider DefaultSecrets(ProviderKind kind) {
  if (kind == ProviderKind::kAws) return SecretsProvider::kAwsParameterStore;
  if (kind == ProviderKind::kGcp) return SecretsProvider::kGcpSecretManager;
  return SecretsProvider::kObjectStorage;
}

ProviderOptions DefaultOptions(ProviderKind kind) {
  switch (kind) {
    case ProviderKind::kLocal: return LocalOptions{};
    case ProviderKind::kQemu: return QemuOptions{};
    case ProviderKind::kAws: return AwsOptions{};
    case ProviderKind::kGcp: return GcpOptions{};
    case ProviderKind::kProxmox: return ProxmoxOptions{};
  }
  CHECK(false, "kind {}", static_cast<int>(kind));
}

void FillProvider(Provider& provider, const Place& place) {
  const Place kind = place.Child("kind");
  if (const std::string* word = TextAt(kind)) provider.word = *word;
  if (!Present(place.Child("options"))) provider.options = DefaultOptions(provider.kind);
  if (provider.kind != ProviderKind::kLocal && provider.kind != ProviderKind::kQemu) return;
  if (!Present(place.Child("region"))) provider.region = "local";
  if (!Present(place.Child("zone"))) provider.zone = "local";
}

// Reports a key that its provider needs, or does not take.
void RequireExactlyWith(Problems& problems, const Place& place, bool wanted,
                        std::string_view provider) {
  if (wanted && !Present(place)) {
    problems.Error(place, fmt::format("missing; required for {}", provider));
  } else if (!wanted && Present(place)) {
    RefuseKey(problems, place, fmt::format("only with {}", provider));
  }
}

class ServerCheck {
 public:
  explicit ServerCheck(const Checking& checking)
      : problems_(checking.problems),
        server_(checking.config.server),
        provider_known_(checking.provider_known),
        root_(checking.root),
        place_(root_.Child("server")),
        agent_ttl_(checking.config.certificates.agent.ttl) {}

  void Run() const {
    if (provider_known_) {
      CheckProvider();
      CheckLeaderNetwork();
    }
    CheckPorts();
    CheckPools();
    CheckSecrets();
    CheckElection();
    CheckTimes();
  }

 private:
  void CheckProvider() const {
    const Place provider = place_.Child("provider");
    const ProviderKind kind = server_.provider.kind;
    for (const std::string_view key : {"region", "zone"}) {
      const bool by_default = kind == ProviderKind::kLocal || kind == ProviderKind::kQemu;
      if (by_default || Present(provider.Child(key))) continue;
      problems_.Error(provider.Child(key),
                      fmt::format("missing; required for provider {}", Word(kind)));
    }
    const Place options = provider.Child("options");
    if (kind == ProviderKind::kGcp && !Present(options)) {
      problems_.Error(options.Child("project_id"), "missing; required for provider gcp");
    }
  }

  void CheckLeaderNetwork() const {
    const Place network = place_.Child("leader_network");
    if (!Present(network)) return;
    const ProviderKind kind = server_.provider.kind;
    if (kind != ProviderKind::kAws && kind != ProviderKind::kGcp) {
      RefuseKey(problems_, network, "only with the providers aws and gcp");
      return;
    }
    if (network.value()->if_object() == nullptr) return;
    RequireExactlyWith(problems_, network.Child("interface_id"), kind == ProviderKind::kAws,
                       "provider aws");
  }

  void CheckPorts() const {
    const Place bind = place_.Child("bind");
    std::map<std::uint16_t, std::string_view> seen;
    for (const AddressKey& entry : kAddressKeys) {
      const Address& address = server_.bind.*entry.member;
      if (address.port == 0 || problems_.HasErrorAt(bind.Child(entry.key))) continue;
      const auto [at, fresh] = seen.emplace(address.port, entry.key);
      if (fresh) continue;
      // Told at the one that is written, if only one is.
      const bool here = Present(bind.Child(entry.key));
      const std::string_view key = here ? entry.key : at->second;
      const std::string_view other = here ? at->second : entry.key;
      problems_.Error(bind.Child(key), fmt::format("port {} is that of `{}` too; a port of its own",
                                                   address.port, other));
    }
  }

  void CheckPools() const {
    const Place pools = place_.Child("subnet_pools");
    if (Present(pools) && pools.value()->if_object() != nullptr && MembersAt(pools).empty()) {
      problems_.Error(pools, "is empty; at least one pool");
    }
    std::map<std::string_view, std::string_view> seen;
    for (const json::Member& member : MembersAt(pools)) {
      const Place pool = pools.Child(member);
      const json::Array* subnets = member.value.if_array();
      if (subnets == nullptr) continue;
      for (std::size_t i = 0; i < subnets->size(); ++i) {
        const std::string* subnet = (*subnets)[i].if_string();
        if (subnet == nullptr) continue;
        const auto [at, fresh] = seen.emplace(*subnet, member.key);
        if (fresh) continue;
        problems_.Error(pool.Item(i), fmt::format("{} is in pool `{}` already; a subnet in one "
                                                  "pool, once",
                                                  Quote(*subnet), at->second));
      }
    }
    CheckDynamicPools(KeysAt(pools));
  }

  void CheckDynamicPools(const std::vector<std::string_view>& pools) const {
    const Place dynamic = place_.Child("dynamic_subnet_pools");
    const json::Array* names = Present(dynamic) ? dynamic.value()->if_array() : nullptr;
    if (names == nullptr) return;
    for (std::size_t i = 0; i < names->size(); ++i) {
      const Place item = dynamic.Item(i);
      const std::string* name = TextAt(item);
      if (name == nullptr || Contains(pools, *name) || problems_.HasErrorAt(item)) continue;
      problems_.Error(item, NotDefined(problems_, item, "one of `server.subnet_pools`", pools));
    }
  }

  void CheckKey(const Place& key, KeyProvider provider) const {
    if (key.value()->if_object() == nullptr) return;
    const Place kind = key.Child("provider");
    if (!Present(kind) || problems_.HasErrorAt(kind)) return;
    RequireExactlyWith(problems_, key.Child("project_id"),
                       provider == KeyProvider::kGcpSecretManager, "provider gcp-secret-manager");
  }

  void CheckSecrets() const {
    const Place secrets = place_.Child("secrets");
    const Place provider = secrets.Child("provider");
    if (problems_.HasErrorAt(secrets) || problems_.HasErrorAt(provider)) return;
    if (!Present(provider) && !provider_known_) return;
    const Secrets& values = server_.secrets;
    const bool object_storage = values.provider == SecretsProvider::kObjectStorage;
    RequireExactlyWith(problems_, secrets.Child("project_id"),
                       values.provider == SecretsProvider::kGcpSecretManager,
                       "provider gcp-secret-manager");
    const Place key = secrets.Child("encryption_key");
    const Place old = secrets.Child("old_encryption_keys");
    RequireExactlyWith(problems_, key, object_storage, "provider object-storage");
    if (!object_storage && !values.old_encryption_keys.empty()) {
      RefuseKey(problems_, old, "only with provider object-storage");
    }
    if (values.encryption_key && Present(key)) CheckKey(key, values.encryption_key->provider);
    const json::Array* items = Present(old) ? old.value()->if_array() : nullptr;
    if (items == nullptr || items->size() != values.old_encryption_keys.size()) return;
    for (std::size_t i = 0; i < items->size(); ++i) {
      CheckKey(old.Item(i), values.old_encryption_keys[i].provider);
    }
  }

  [[nodiscard]] bool Comparable(const Place& a, const Place& b) const {
    return !problems_.HasErrorAt(a) && !problems_.HasErrorAt(b);
  }

  // Lease against renewals; true when they fit.
  [[nodiscard]] bool CheckLease(const Place& place, Duration renew, Duration lease) const {
    const Place renewed = place.Child("renew_interval");
    const Place leased = place.Child("lease_timeout");
    if (!Comparable(renewed, leased)) return false;
    if (lease >= renew * 3) return true;
    const Place& at = Present(leased) ? leased : renewed;
    problems_.Error(
        at, fmt::format("a lease of {} is too short for a renewal every {}; a lease of "
                        "at least three renewals, here {}",
                        ShortDuration(lease), ShortDuration(renew), ShortDuration(renew * 3)));
    return false;
  }

  void CheckElection() const {
    const LeaderElection& election = server_.leader_election;
    const Place place = place_.Child("leader_election");
    CheckStoreTimeout(
        place,
        {.renew = election.renew_interval, .lease = election.lease_timeout, .name = "lease"});
    CheckStoreTimeout(place.Child("cluster"), {.renew = election.cluster.renew_interval,
                                               .lease = election.cluster.lease_timeout,
                                               .name = "cluster's lease"});
  }

  struct LeaseTimes {
    Duration renew;
    Duration lease;
    std::string_view name;
  };
  // A renewal that times out must leave time for another one.
  void CheckStoreTimeout(const Place& place, LeaseTimes times) const {
    if (!CheckLease(place, times.renew, times.lease)) return;
    const Place timeout = place_.Child("store_timeout");
    const Duration below = (times.lease * 3) / 4 - times.renew;
    if (problems_.HasErrorAt(timeout) || server_.store_timeout < below) return;
    problems_.Error(timeout,
                    fmt::format("{} is too long for the {}; below 3/4 of `lease_timeout` minus "
                                "`renew_interval`, here {}",
                                Shown(timeout), times.name, ShortDuration(below)));
  }

  void CheckTimes() const {
    const Place gc = place_.Child("garbage_collection");
    const Place retention = gc.Child("deleted_record_retention");
    const Place certificates = root_.Child("certificates");
    const Place agent = certificates.Child("agent");
    const Place ttl = agent.Child("ttl");
    if (Comparable(retention, ttl) &&
        server_.garbage_collection.deleted_record_retention <= agent_ttl_) {
      problems_.Error(
          Present(retention) ? retention : ttl,
          fmt::format("tombstones are kept for {}, but agents' certificates live {}; "
                      "`server.garbage_collection.deleted_record_retention` must be "
                      "longer than `certificates.agent.ttl`",
                      ShortDuration(server_.garbage_collection.deleted_record_retention),
                      ShortDuration(agent_ttl_)));
    }
    CheckExpiry();
    const Place jitter = place_.Child("error_exit_jitter");
    const Place least = jitter.Child("min_delay");
    const Place most = jitter.Child("max_delay");
    const ErrorExitJitter& delays = server_.error_exit_jitter;
    if (Comparable(least, most) && delays.min_delay > delays.max_delay) {
      problems_.Error(
          Present(least) ? least : most,
          fmt::format("`min_delay` {} is above `max_delay` {}; at most `max_delay`",
                      ShortDuration(delays.min_delay), ShortDuration(delays.max_delay)));
    }
  }

  void CheckExpiry() const {
    const Place expiry = place_.Child("expiry");
    const Place eligible = expiry.Child("eligible_age");
    const Place forced = expiry.Child("forced_age");
    const Expiry& ages = server_.expiry;
    if (!Comparable(eligible, forced) || ages.eligible_age == Duration() ||
        ages.forced_age == Duration() || ages.eligible_age < ages.forced_age) {
      return;
    }
    problems_.Error(eligible,
                    fmt::format("{} is not below `forced_age` {}; below it when both are set",
                                Shown(eligible), ShortDuration(ages.forced_age)));
  }

  Problems& problems_;
  const Server& server_;
  bool provider_known_;
  const Place& root_;
  Place place_;
  Duration agent_ttl_;
};

}  // namespace

const std::string* TextAt(const Place& place) {
  return Present(place) ? place.value()->if_string() : nullptr;
}

const json::Object& MembersAt(const Place& place) {
  static const json::Object none;
  const json::Object* members = Present(place) ? place.value()->if_object() : nullptr;
  return members == nullptr ? none : *members;
}

std::vector<std::string_view> KeysAt(const Place& place) {
  std::vector<std::string_view> keys;
  for (const json::Member& member : MembersAt(place)) {
    if (!IsForTools(member.key)) keys.push_back(member.key);
  }
  std::ranges::sort(keys);
  return keys;
}

bool Contains(const std::vector<std::string_view>& sorted, std::string_view key) {
  return std::ranges::binary_search(sorted, key);
}

void RefuseKey(Problems& problems, const Place& place, std::string_view why) {
  problems.ErrorAtKey(place, fmt::format("not allowed: {}; remove it", why));
}

bool IsProviderKnown(const Place& root) {
  const Place server = root.Child("server");
  const Place provider = server.Child("provider");
  const std::string* word = TextAt(provider.Child("kind"));
  return word != nullptr && FromWord<ProviderKind>(*word).has_value();
}

void FillDefaults(Config& config, const Place& root, Layout layout) {
  Server& server = config.server;
  const Place place = root.Child("server");
  FillProvider(server.provider, place.Child("provider"));
  const Place secrets = place.Child("secrets");
  if (!Present(secrets.Child("provider"))) {
    server.secrets.provider = DefaultSecrets(server.provider.kind);
  }
  if (!Present(secrets.Child("prefix"))) {
    server.secrets.prefix = DefaultPrefix(server.secrets.provider);
  }
  if (!Present(secrets.Child("envelope")) && layout == Layout::kNstanceV2) {
    server.secrets.envelope = Envelope::kLegacy;
  }
  if (!Present(place.Child("store_timeout"))) {
    const Duration by_lease = (server.leader_election.lease_timeout * 3) / 8;
    server.store_timeout = std::min(server.store_timeout, by_lease);
  }
}

void CheckServer(const Checking& checking) { ServerCheck(checking).Run(); }

}  // namespace nstance::config

#include "admin/storage/cluster_view.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "core/config/load.h"
#include "core/config/words.h"
#include "core/nstance_v2.h"

namespace nstance::admin {
namespace {

constexpr std::string_view kConfigPrefix = "config/";
constexpr std::string_view kConfigSuffix = ".jsonc";
constexpr std::size_t kMaxConfigs = 1'000;

template <class Items>
std::string Joined(const Items& items) {
  return fmt::format("{}", fmt::join(items, ", "));
}

std::set<std::string> ClustersOf(const std::vector<StoredConfig>& configs) {
  std::set<std::string> names;
  for (const StoredConfig& stored : configs) names.insert(stored.config.server.cluster_id.text());
  return names;
}

Error NoCluster(const StoredConfigs& configs) {
  if (!configs.invalid.empty()) {
    return FailedPrecondition(
        fmt::format("no valid configuration in the store ({} cannot be read); name the cluster "
                    "with --cluster-id, and see what is wrong with nstance-admin config validate",
                    Joined(configs.invalid)));
  }
  if (configs.layout == config::Layout::kNstanceV2) {
    return FailedPrecondition(
        "the store has no configuration (shard/<shard>/config.jsonc, layout nstance-v2): check "
        "--storage-bucket, or name the cluster with --cluster-id");
  }
  return FailedPrecondition(
      "the store has no configuration (config/<shard>.jsonc): check --storage-bucket and "
      "--storage-prefix, name the cluster with --cluster-id, or make one with nstance-admin "
      "cluster init");
}

// Objects of the cluster may be kept elsewhere than those of a shard.
Status CheckPlace(const StoredConfig& stored, const StorageFlags& flags, config::Layout layout) {
  const std::optional<config::Storage>& storage = stored.config.server.storage;
  if (!storage) return {};
  const auto bare = [](std::string text) {
    while (text.ends_with('/')) text.pop_back();
    return text;
  };
  const bool v2 = layout == config::Layout::kNstanceV2;
  const std::string prefix =
      v2 && flags.prefix.empty() ? std::string(kNstanceV2ClusterScope) : flags.prefix;
  if (config::Word(storage->provider) == flags.provider && storage->bucket == flags.bucket &&
      bare(storage->prefix) == bare(prefix)) {
    return {};
  }
  return Fail(FailedPrecondition(
      fmt::format("{} keeps the objects of the cluster in another store: use --storage-provider {} "
                  "--storage-bucket {}{}{} --cluster-id {}",
                  stored.name, config::Word(storage->provider), storage->bucket,
                  storage->prefix.empty() ? "" : " --storage-prefix " + storage->prefix,
                  v2 ? " --layout nstance-v2" : "", stored.config.server.cluster_id.text())));
}

std::string SecretsPrefix(const std::vector<StoredConfig>& configs, const ClusterFlags& flags) {
  if (!flags.secrets_prefix.empty()) return flags.secrets_prefix;
  for (const StoredConfig& stored : configs) {
    const config::Secrets& secrets = stored.config.server.secrets;
    if (secrets.provider == config::SecretsProvider::kObjectStorage && !secrets.prefix.empty()) {
      return secrets.prefix;
    }
  }
  return "secret/";
}

}  // namespace

std::set<TenantId> ClusterView::Tenants() const {
  std::set<TenantId> tenants = {DefaultTenant()};
  for (const StoredConfig& stored : configs) {
    for (const auto& [tenant, settings] : stored.config.tenants) tenants.insert(tenant);
  }
  return tenants;
}

std::optional<config::EncryptionKey> ClusterView::EncryptionKey() const {
  std::optional<config::EncryptionKey> found;
  for (const StoredConfig& stored : configs) {
    const auto& key = stored.config.server.secrets.encryption_key;
    if (!key || (found && *found != *key)) return std::nullopt;
    found = key;
  }
  return found;
}

Result<StoredConfigs> ReadConfigs(StoreSession& store) {
  ASSIGN_OR_RETURN(std::vector<ObjectKey> keys, store.List(std::string(kConfigPrefix)));
  std::erase_if(keys, [](const ObjectKey& key) { return !key.text().ends_with(kConfigSuffix); });
  if (keys.size() > kMaxConfigs) {
    return Fail(ResourceExhausted(
        fmt::format("{} configurations; at most {} are read", keys.size(), kMaxConfigs)));
  }
  StoredConfigs found{.layout = store.layout()};
  RETURN_IF_ERROR(store.GetAll(keys, [&](const ObjectKey& key, const Object& object) {
    config::LoadResult loaded = config::Load(object.bytes, {.layout = found.layout});
    if (loaded.config) {
      found.valid.push_back({.name = key.text(), .config = *std::move(loaded.config)});
    } else {
      found.invalid.push_back(key.text());
    }
  }));
  std::ranges::sort(found.valid, {}, &StoredConfig::name);
  std::ranges::sort(found.invalid);
  return found;
}

Result<ClusterView> ChooseCluster(StoredConfigs configs, const ClusterFlags& flags) {
  const std::set<std::string> clusters = ClustersOf(configs.valid);
  if (!flags.cluster_id) {
    if (clusters.empty()) return Fail(NoCluster(configs));
    if (clusters.size() > 1) {
      return Fail(FailedPrecondition(
          fmt::format("the configurations are of several clusters ({}); choose with --cluster-id",
                      Joined(clusters))));
    }
  } else if (!clusters.empty() && !clusters.contains(flags.cluster_id->text())) {
    return Fail(
        FailedPrecondition(fmt::format("no configuration in this store is of cluster {}; found: {}",
                                       flags.cluster_id->text(), Joined(clusters))));
  }
  ClusterView view{.cluster = flags.cluster_id ? *flags.cluster_id
                                               : configs.valid.front().config.server.cluster_id,
                   .invalid = std::move(configs.invalid)};
  for (StoredConfig& stored : configs.valid) {
    if (stored.config.server.cluster_id != view.cluster) continue;
    RETURN_IF_ERROR(CheckPlace(stored, flags.storage, configs.layout));
    view.configs.push_back(std::move(stored));
  }
  view.secrets_prefix = SecretsPrefix(view.configs, flags);
  return view;
}

Result<ClusterView> ReadCluster(StoreSession& store, const ClusterFlags& flags) {
  ASSIGN_OR_RETURN(StoredConfigs configs, ReadConfigs(store));
  return ChooseCluster(std::move(configs), flags);
}

Result<std::string> CheckTenant(const ClusterView& view, const TenantId& tenant,
                                UnknownTenant unknown) {
  const std::set<TenantId> tenants = view.Tenants();
  if (tenants.contains(tenant)) return std::string();
  if (unknown == UnknownTenant::kWarning) {
    return fmt::format("no configuration defines the tenant {}: servers refuse it until one does",
                       tenant.text());
  }
  std::vector<std::string> names;
  names.reserve(tenants.size());
  for (const TenantId& known : tenants) names.push_back(known.text());
  return Fail(FailedPrecondition(
      fmt::format("no configuration defines the tenant {}; defined: {}. Add it to `tenants` in "
                  "config/<shard>.jsonc, or use --force",
                  tenant.text(), Joined(names))));
}

std::string Describe(const config::EncryptionKey& key) {
  if (key.provider == config::KeyProvider::kEnv) return "environment variable " + key.source;
  if (key.provider == config::KeyProvider::kFile) return "file " + key.source;
  return fmt::format("{} {}", config::Word(key.provider), key.source);
}

Result<config::EncryptionKey> ChooseKey(const ClusterView& view, const ClusterFlags& flags) {
  if (flags.key) return *flags.key;
  if (auto key = view.EncryptionKey()) return *key;
  return Fail(FailedPrecondition(
      "the cluster's encryption key is missing: set NSTANCE_ENCRYPTION_KEY, or name where it is "
      "with --key-provider env|file and --key-source"));
}

Result<crypto::EncryptionKey> LoadKey(const StorageDeps& deps, const config::EncryptionKey& key) {
  ASSIGN_OR_RETURN(const std::unique_ptr<KeySource> source, deps.key_source(key));
  Result<crypto::EncryptionKey> loaded = Await<crypto::EncryptionKey>(
      deps.turns, [&](KeySource::Done done) { return source->Load(std::move(done)); });
  if (loaded.has_value()) return loaded;
  Error error = std::move(loaded).error();
  error.message +=
      key.provider == config::KeyProvider::kEnv
          ? fmt::format(
                ": set {} to the cluster's key, or name another place with --key-provider "
                "and --key-source",
                key.source)
          : ": --key-provider and --key-source name where the cluster's key is";
  return Fail(std::move(error));
}

Result<crypto::KeyRing> LoadKeys(const StorageDeps& deps, const ClusterView& view,
                                 const config::EncryptionKey& present) {
  ASSIGN_OR_RETURN(crypto::EncryptionKey current, LoadKey(deps, present));
  crypto::KeyRing ring = {.current = std::move(current), .old = {}};
  std::vector<config::EncryptionKey> sources;
  for (const StoredConfig& stored : view.configs) {
    const config::Secrets& secrets = stored.config.server.secrets;
    sources.insert(sources.end(), secrets.old_encryption_keys.begin(),
                   secrets.old_encryption_keys.end());
    if (secrets.encryption_key) sources.push_back(*secrets.encryption_key);
  }
  std::vector<config::EncryptionKey> seen = {present};
  for (const config::EncryptionKey& source : sources) {
    if (std::ranges::find(seen, source) != seen.end()) continue;
    seen.push_back(source);
    // One that is not on this machine matters only to what is sealed with it.
    if (Result<crypto::EncryptionKey> old = LoadKey(deps, source)) {
      ring.old.push_back(*std::move(old));
    } else {
      deps.log.Debug("an old key is not used", {{"error", old.error()}});
    }
  }
  return ring;
}

Secrets::Secrets(const StorageDeps& deps, StoreSession& store, ObjectSecretStore::Options options,
                 config::EncryptionKey key)
    : deps_(deps),
      key_(std::move(key)),
      key_id_(HexEncode(options.keys.current.id())),
      store_({.loop = deps.loop,
              .store = deps.store,
              .random = deps.random,
              .jitter = store.jitter(),
              .metrics = metrics_},
             std::move(options)) {}

Result<std::unique_ptr<Secrets>> Secrets::Open(const StorageDeps& deps, StoreSession& store,
                                               const ClusterView& view, const ClusterFlags& flags) {
  ASSIGN_OR_RETURN(config::EncryptionKey key, ChooseKey(view, flags));
  ASSIGN_OR_RETURN(crypto::KeyRing ring, LoadKeys(deps, view, key));
  return std::unique_ptr<Secrets>(new Secrets(deps, store,
                                              {.cluster = view.cluster,
                                               .prefix = view.secrets_prefix,
                                               .keys = std::move(ring),
                                               .settle_limit = StoreSession::kSettleLimit},
                                              std::move(key)));
}

Result<crypto::Secret> Secrets::Get(const ObjectKey& name) {
  Result<crypto::Secret> value = Await<crypto::Secret>(
      deps_.turns,
      [&](SecretStore::Done<crypto::Secret> done) { return store_.Get(name, std::move(done)); });
  if (value.has_value()) return value;
  return Fail(Explain(std::move(value).error()));
}

Error Secrets::Explain(Error error) const {
  // Of the envelope (crypto/envelope.h), not of what was in it.
  if (!error.message.contains("sealed secret")) return error;
  error.message += fmt::format(
      "; the key given ({}) has the id {}. Name the cluster's own with --key-provider and "
      "--key-source, and check --cluster-id",
      Describe(key_), key_id_);
  return error;
}

}  // namespace nstance::admin

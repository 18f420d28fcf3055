// What the store tells of a cluster before anything is done to it: its configurations, its name,
// its tenants; and the key that opens its secrets.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "admin/storage/store_session.h"
#include "admin/storage_command.h"
#include "base/metrics.h"
#include "base/name.h"
#include "base/result.h"
#include "core/config/config.h"
#include "crypto/envelope.h"
#include "storage/object_secret_store.h"

namespace nstance::admin {

struct StoredConfig {
  std::string name = {};  // "config/a.jsonc".
  config::Config config;
};

struct ClusterView {
  ClusterId cluster;
  std::vector<StoredConfig> configs = {};  // Of this cluster, those that are valid, by name.
  std::vector<std::string> invalid = {};   // Names of the others.
  std::string secrets_prefix = {};         // What the names of secrets begin with.

  // With `default`, which is everywhere.
  [[nodiscard]] std::set<TenantId> Tenants() const;
  // What all configurations agree on; empty when they do not, or there is none.
  [[nodiscard]] std::optional<config::EncryptionKey> EncryptionKey() const;
};

// Everything below config/ that is valid, or not.
struct StoredConfigs {
  std::vector<StoredConfig> valid = {};
  std::vector<std::string> invalid = {};
  config::Layout layout = config::Layout::kNstance;
};
[[nodiscard]] Result<StoredConfigs> ReadConfigs(StoreSession& store);

// The cluster that is meant. kFailedPrecondition says which flag is needed: no configuration, or
// configurations that disagree; a cluster that no configuration is of; objects that are kept in
// another store than this one.
[[nodiscard]] Result<ClusterView> ChooseCluster(StoredConfigs configs, const ClusterFlags& flags);
[[nodiscard]] Result<ClusterView> ReadCluster(StoreSession& store, const ClusterFlags& flags);

// Empty, or a warning, when the tenant is one that certificates may be made for.
[[nodiscard]] Result<std::string> CheckTenant(const ClusterView& view, const TenantId& tenant,
                                              UnknownTenant unknown);

// The key that flags, or else the configurations, name.
[[nodiscard]] Result<config::EncryptionKey> ChooseKey(const ClusterView& view,
                                                      const ClusterFlags& flags);
[[nodiscard]] Result<crypto::EncryptionKey> LoadKey(const StorageDeps& deps,
                                                    const config::EncryptionKey& key);

// The present key, and the old ones that the configurations name and this machine has.
[[nodiscard]] Result<crypto::KeyRing> LoadKeys(const StorageDeps& deps, const ClusterView& view,
                                               const config::EncryptionKey& present);

// "environment variable NAME", "file /path".
[[nodiscard]] std::string Describe(const config::EncryptionKey& key);

// The cluster's secrets, and what an error of theirs means to a person.
class Secrets final {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Secrets>> Open(const StorageDeps& deps,
                                                             StoreSession& store,
                                                             const ClusterView& view,
                                                             const ClusterFlags& flags);

  [[nodiscard]] SecretStore& store() { return store_; }
  [[nodiscard]] Result<crypto::Secret> Get(const ObjectKey& name);
  // Adds what to do when the key does not fit.
  [[nodiscard]] Error Explain(Error error) const;

 private:
  Secrets(const StorageDeps& deps, StoreSession& store, ObjectSecretStore::Options options,
          config::EncryptionKey key);

  const StorageDeps& deps_;
  config::EncryptionKey key_;
  std::string key_id_;
  metrics::Registry metrics_;
  ObjectSecretStore store_;
};

}  // namespace nstance::admin

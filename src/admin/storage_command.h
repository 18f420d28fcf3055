// What a command that works on the object store was asked to do: `cluster`, `store`, `cert`,
// `secrets`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"
#include "core/config/config.h"
#include "core/object_key.h"

namespace nstance::admin {

// The names that objects have in a bucket.
enum class LayoutFlag : std::uint8_t {
  kAuto,       // What is there tells (admin/storage/bucket_layout.h).
  kSeed,       // Those of this program.
  kNstanceV2,  // Those of the Go implementation (core/nstance_v2.h).
};

struct StorageFlags {
  std::string provider = "s3";  // "file", "s3", "gcs".
  std::string bucket = {};
  std::string prefix = {};  // Of layout nstance-v2: the scope of the cluster; empty: `cluster/`.
  LayoutFlag layout = LayoutFlag::kAuto;
  friend bool operator==(const StorageFlags&, const StorageFlags&) = default;
};

// The cluster, and how its secrets are opened.
struct ClusterFlags {
  StorageFlags storage = {};
  std::optional<ClusterId> cluster_id = std::nullopt;  // Empty: what the configurations say.
  std::string secrets_prefix = {};  // Empty: what the configurations say, else `secret/`.
  // Empty: no flag, and NSTANCE_ENCRYPTION_KEY is not set: what the configurations say.
  std::optional<config::EncryptionKey> key = std::nullopt;
  friend bool operator==(const ClusterFlags&, const ClusterFlags&) = default;
};

struct GroupSize {
  GroupKey name;
  int size = 0;
  friend bool operator==(const GroupSize&, const GroupSize&) = default;
};

struct ClusterInit {
  ClusterFlags cluster = {};
  std::optional<ShardId> shard = std::nullopt;
  std::string agent = {};  // Path of nstance-agent; empty: beside this program.
  std::vector<GroupSize> groups = {};
  friend bool operator==(const ClusterInit&, const ClusterInit&) = default;
};

// What to do about a tenant that no configuration defines.
enum class UnknownTenant : std::uint8_t { kRefused, kWarning };

struct ClusterNonce {
  ClusterFlags cluster = {};
  TenantId tenant = DefaultTenant();
  UnknownTenant unknown_tenant = UnknownTenant::kRefused;
  Duration expiry = Duration::Hours(3);
  std::string output = {};  // A path; "-": standard output.
  friend bool operator==(const ClusterNonce&, const ClusterNonce&) = default;
};

struct ClusterRegisterOperator {
  ClusterFlags cluster = {};
  TenantId tenant = DefaultTenant();
  UnknownTenant unknown_tenant = UnknownTenant::kRefused;
  std::optional<Puidv7> operator_id = std::nullopt;  // Empty: a new one.
  std::string public_key_file = {};                  // Empty: a key is made.
  std::string output_dir = {};
  Duration certificate_life = Duration::Hours(720);
  friend bool operator==(const ClusterRegisterOperator&, const ClusterRegisterOperator&) = default;
};

struct StoreProbeOrder {
  StorageFlags storage = {};
  ShardId shard;  // Scratch objects are made below probe/<shard>/.
  friend bool operator==(const StoreProbeOrder&, const StoreProbeOrder&) = default;
};

struct StoreShow {
  ClusterFlags cluster = {};
  ObjectKey key;
  friend bool operator==(const StoreShow&, const StoreShow&) = default;
};

struct StoreResetJournal {
  ClusterFlags cluster = {};
  ShardId shard;
  friend bool operator==(const StoreResetJournal&, const StoreResetJournal&) = default;
};

// Needs no store.
struct StoreCost {
  std::int64_t shards = 1;
  std::int64_t standbys = 1;  // Per shard.
  Duration renew = Duration::Seconds(2);
  friend bool operator==(const StoreCost&, const StoreCost&) = default;
};

struct CertDeny {
  StorageFlags storage = {};
  std::string serial = {};  // Decimal; or:
  std::optional<TenantId> tenant = std::nullopt;
  std::string identity = {};
  std::string reason = {};
  friend bool operator==(const CertDeny&, const CertDeny&) = default;
};

struct CertDenied {
  StorageFlags storage = {};
  friend bool operator==(const CertDenied&, const CertDenied&) = default;
};

enum class Rehearsal : std::uint8_t { kNo, kDryRun };

struct SecretsReseal {
  ClusterFlags cluster = {};
  Rehearsal rehearsal = Rehearsal::kNo;
  friend bool operator==(const SecretsReseal&, const SecretsReseal&) = default;
};

using StorageCommand =
    std::variant<ClusterInit, ClusterNonce, ClusterRegisterOperator, StoreProbeOrder, StoreShow,
                 StoreResetJournal, StoreCost, CertDeny, CertDenied, SecretsReseal>;

// The store that a command works on; null pointer: it needs none.
[[nodiscard]] const StorageFlags* StorageOf(const StorageCommand& command);

}  // namespace nstance::admin

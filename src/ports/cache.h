// Cache: what this server remembers on its own disk (`db/nstance.db`), to be quick after a restart.
//
// Nothing in it is ever the truth: it may be missing, old, or lack rows, and no decision depends on
// it. Hence its manners: writing never fails and never waits; reading gives what is there.
//
//   cache.Write({cache::InstanceRow{...}, cache::EraseHealth{id}});
//   pending_ = cache.Load([this](cache::Contents rows) { ... });          // Once, at start.
//   pending_ = cache.Flush([this] { Exit(); });                           // Once, at the end.
//
// Guarantees, held by the contract suite for the SQLite one and the simulated one:
//   - Load() gives rows that were written, each as some Write() left it, and no row that was
//     erased before the last Flush(); what was written after the last Flush() may be missing
//   - changes of one row take effect in the order of the calls
//   - erasing an instance erases its health, public keys and balancer rows; rows of an instance
//     that is not there are dropped
//   - a cache that is damaged, of another schema, or whose disk fails is an empty one
//   - one that began anew while it was open, so that rows are missing which were written before,
//     says so to who watches for it, when it can be written again; never from inside a call
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"
#include "ports/loop.h"
#include "ports/pending.h"

namespace nstance {

namespace cache {

// One struct per table of formats.md 10; the columns of its key come first. Times have microseconds
// at most. Texts are UTF-8 without NUL; an empty one is stored as such.
struct GroupRow {
  TenantId tenant;
  GroupKey group;
  std::string runtime_config_hash = {};
  std::string infra_config_hash = {};
  std::int64_t size = 0;
  bool is_static = false;
  Timestamp updated_at = {};
  friend bool operator==(const GroupRow&, const GroupRow&) = default;
};

struct InstanceRow {
  InstanceId id;
  TenantId tenant;
  GroupKey group;
  bool on_demand = false;
  std::string phase = {};
  std::string provider_id = {};
  std::string provider_state = {};  // JSON.
  std::optional<Timestamp> provider_at = std::nullopt;
  std::string subnet_id = {};
  std::string hostname = {};
  std::string fqdn = {};
  std::string ip4 = {};
  std::string ip6 = {};
  std::string nonce_sha256 = {};  // Of one instance only; empty: none.
  std::string infra_config_hash = {};
  std::optional<Timestamp> registered_at = std::nullopt;
  std::string cert_serial = {};
  std::optional<Timestamp> cert_expires_at = std::nullopt;
  std::optional<Timestamp> drain_started_at = std::nullopt;
  std::optional<Timestamp> drain_delete_at = std::nullopt;
  std::optional<Timestamp> drain_acked_at = std::nullopt;
  std::string claim_request_id = {};
  std::string record_etag = {};
  Timestamp created_at = {};
  Timestamp updated_at = {};
  std::optional<Timestamp> deleted_at = std::nullopt;
  friend bool operator==(const InstanceRow&, const InstanceRow&) = default;
};

struct HealthRow {
  InstanceId instance;
  Timestamp health_at = {};
  std::string report = {};  // JSON.
  std::string config_hash = {};
  std::optional<Timestamp> terminating_at = std::nullopt;
  std::optional<Timestamp> booted_at = std::nullopt;
  friend bool operator==(const HealthRow&, const HealthRow&) = default;
};

struct PublicKeyRow {
  InstanceId instance;
  std::string filename = {};
  std::string public_key_pem = {};
  Timestamp submitted_at = {};
  friend bool operator==(const PublicKeyRow&, const PublicKeyRow&) = default;
};

struct ImageRow {
  std::string name = {};
  std::string image_id = {};
  Timestamp resolved_at = {};
  friend bool operator==(const ImageRow&, const ImageRow&) = default;
};

enum class BalancerStatus : std::uint8_t { kPending, kRegistered, kFailed, kDeregistered };

struct BalancerRow {
  std::string balancer = {};
  InstanceId instance;
  BalancerStatus status = BalancerStatus::kPending;
  Timestamp updated_at = {};
  friend bool operator==(const BalancerRow&, const BalancerRow&) = default;
};

struct OperatorRow {
  TenantId tenant;
  std::string storage_key = {};
  std::string public_key_sha256 = {};
  Timestamp registered_at = {};
  Timestamp expires_at = {};
  friend bool operator==(const OperatorRow&, const OperatorRow&) = default;
};

// A row that is not there is erased all the same.
struct EraseGroup {
  TenantId tenant;
  GroupKey group;
};
struct EraseInstance {
  InstanceId id;
};
struct EraseHealth {
  InstanceId instance;
};
struct ErasePublicKey {
  InstanceId instance;
  std::string filename;
};
struct EraseImage {
  std::string name;
};
struct EraseBalancer {
  std::string balancer;
  InstanceId instance;
};
struct EraseOperator {
  TenantId tenant;
  std::string storage_key;
};

using Change = std::variant<GroupRow, InstanceRow, HealthRow, PublicKeyRow, ImageRow, BalancerRow,
                            OperatorRow, EraseGroup, EraseInstance, EraseHealth, ErasePublicKey,
                            EraseImage, EraseBalancer, EraseOperator>;

// All rows, in the order of their keys.
struct Contents {
  std::vector<GroupRow> groups = {};
  std::vector<InstanceRow> instances = {};
  std::vector<HealthRow> health = {};
  std::vector<PublicKeyRow> public_keys = {};
  std::vector<ImageRow> images = {};
  std::vector<BalancerRow> balancers = {};
  std::vector<OperatorRow> operators = {};
  friend bool operator==(const Contents&, const Contents&) = default;
};

}  // namespace cache

class Cache {
 public:
  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  // What was not flushed may be lost.
  virtual ~Cache() = default;

  virtual void Write(std::vector<cache::Change> changes) = 0;

  using Loaded = std::move_only_function<void(cache::Contents)>;
  [[nodiscard]] virtual Pending Load(Loaded done) = 0;

  // `done` runs when everything written before is on disk or has been given up.
  [[nodiscard]] virtual Pending Flush(Task done) = 0;

  // `begun_anew` runs whenever the cache has begun anew, for as long as the Pending is there: who
  // has the rows writes them again.
  using BegunAnew = std::function<void()>;
  [[nodiscard]] virtual Pending Watch(BegunAnew begun_anew) = 0;
};

}  // namespace nstance

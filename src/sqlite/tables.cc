#include "sqlite/tables.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "base/overloaded.h"

namespace nstance::sqlite {
namespace {

constexpr const char* kSchema = R"(
CREATE TABLE instances (
  id TEXT PRIMARY KEY NOT NULL, tenant TEXT NOT NULL, group_key TEXT NOT NULL,
  on_demand INTEGER NOT NULL, phase TEXT NOT NULL, provider_id TEXT NOT NULL,
  provider_state TEXT NOT NULL, provider_at INTEGER, subnet_id TEXT NOT NULL,
  hostname TEXT NOT NULL, fqdn TEXT NOT NULL, ip4 TEXT NOT NULL, ip6 TEXT NOT NULL,
  nonce_sha256 TEXT UNIQUE, infra_config_hash TEXT NOT NULL, registered_at INTEGER,
  cert_serial TEXT NOT NULL, cert_expires_at INTEGER, drain_started_at INTEGER,
  drain_delete_at INTEGER, drain_acked_at INTEGER, claim_request_id TEXT NOT NULL,
  record_etag TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  deleted_at INTEGER) WITHOUT ROWID;
CREATE INDEX idx_instances_tenant ON instances (tenant);
CREATE INDEX idx_instances_tenant_group ON instances (tenant, group_key);
CREATE INDEX idx_instances_deleted_at ON instances (deleted_at);
CREATE TABLE groups (
  tenant TEXT NOT NULL, group_key TEXT NOT NULL, runtime_config_hash TEXT NOT NULL,
  infra_config_hash TEXT NOT NULL, size INTEGER NOT NULL, is_static INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, PRIMARY KEY (tenant, group_key)) WITHOUT ROWID;
CREATE TABLE health (
  instance_id TEXT PRIMARY KEY NOT NULL REFERENCES instances (id) ON DELETE CASCADE,
  health_at INTEGER NOT NULL, report TEXT NOT NULL, config_hash TEXT NOT NULL,
  terminating_at INTEGER, booted_at INTEGER) WITHOUT ROWID;
CREATE TABLE public_keys (
  instance_id TEXT NOT NULL REFERENCES instances (id) ON DELETE CASCADE,
  filename TEXT NOT NULL, public_key_pem TEXT NOT NULL, submitted_at INTEGER NOT NULL,
  PRIMARY KEY (instance_id, filename)) WITHOUT ROWID;
CREATE TABLE images (
  name TEXT PRIMARY KEY NOT NULL, image_id TEXT NOT NULL, resolved_at INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE lb_instances (
  lb_key TEXT NOT NULL,
  instance_id TEXT NOT NULL REFERENCES instances (id) ON DELETE CASCADE,
  status TEXT NOT NULL, updated_at INTEGER NOT NULL,
  PRIMARY KEY (lb_key, instance_id)) WITHOUT ROWID;
CREATE INDEX idx_lb_instances_instance ON lb_instances (instance_id);
CREATE TABLE operators (
  tenant TEXT NOT NULL, storage_key TEXT NOT NULL, public_key_sha256 TEXT NOT NULL,
  registered_at INTEGER NOT NULL, expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, storage_key)) WITHOUT ROWID;
)";

constexpr std::array<std::string_view, 4> kBalancerWords = {"pending", "registered", "failed",
                                                            "deregistered"};

// ---- what a row consists of ---------------------------------------------------------------------
// `f` is called with the column's name and the member, in the order of the statements.

template <class Row, class F>
  requires std::same_as<std::remove_const_t<Row>, cache::InstanceRow>
void Columns(Row& row, F& f) {
  f("id", row.id);
  f("tenant", row.tenant);
  f("group_key", row.group);
  f("on_demand", row.on_demand);
  f("phase", row.phase);
  f("provider_id", row.provider_id);
  f("provider_state", row.provider_state);
  f("provider_at", row.provider_at);
  f("subnet_id", row.subnet_id);
  f("hostname", row.hostname);
  f("fqdn", row.fqdn);
  f("ip4", row.ip4);
  f("ip6", row.ip6);
  f.Unique("nonce_sha256", row.nonce_sha256);
  f("infra_config_hash", row.infra_config_hash);
  f("registered_at", row.registered_at);
  f("cert_serial", row.cert_serial);
  f("cert_expires_at", row.cert_expires_at);
  f("drain_started_at", row.drain_started_at);
  f("drain_delete_at", row.drain_delete_at);
  f("drain_acked_at", row.drain_acked_at);
  f("claim_request_id", row.claim_request_id);
  f("record_etag", row.record_etag);
  f("created_at", row.created_at);
  f("updated_at", row.updated_at);
  f("deleted_at", row.deleted_at);
}

template <class Row, class F>
  requires std::same_as<std::remove_const_t<Row>, cache::GroupRow>
void Columns(Row& row, F& f) {
  f("tenant", row.tenant);
  f("group_key", row.group);
  f("runtime_config_hash", row.runtime_config_hash);
  f("infra_config_hash", row.infra_config_hash);
  f("size", row.size);
  f("is_static", row.is_static);
  f("updated_at", row.updated_at);
}

template <class Row, class F>
  requires std::same_as<std::remove_const_t<Row>, cache::HealthRow>
void Columns(Row& row, F& f) {
  f("instance_id", row.instance);
  f("health_at", row.health_at);
  f("report", row.report);
  f("config_hash", row.config_hash);
  f("terminating_at", row.terminating_at);
  f("booted_at", row.booted_at);
}

template <class Row, class F>
  requires std::same_as<std::remove_const_t<Row>, cache::PublicKeyRow>
void Columns(Row& row, F& f) {
  f("instance_id", row.instance);
  f("filename", row.filename);
  f("public_key_pem", row.public_key_pem);
  f("submitted_at", row.submitted_at);
}

template <class Row, class F>
  requires std::same_as<std::remove_const_t<Row>, cache::ImageRow>
void Columns(Row& row, F& f) {
  f("name", row.name);
  f("image_id", row.image_id);
  f("resolved_at", row.resolved_at);
}

template <class Row, class F>
  requires std::same_as<std::remove_const_t<Row>, cache::BalancerRow>
void Columns(Row& row, F& f) {
  f("lb_key", row.balancer);
  f("instance_id", row.instance);
  f("status", row.status);
  f("updated_at", row.updated_at);
}

template <class Row, class F>
  requires std::same_as<std::remove_const_t<Row>, cache::OperatorRow>
void Columns(Row& row, F& f) {
  f("tenant", row.tenant);
  f("storage_key", row.storage_key);
  f("public_key_sha256", row.public_key_sha256);
  f("registered_at", row.registered_at);
  f("expires_at", row.expires_at);
}

// ---- values -------------------------------------------------------------------------------------

std::int64_t Micros(Timestamp at) {
  return (at.unix_seconds() * 1'000'000) + (at.nanoseconds() / 1'000);
}
Timestamp FromMicros(std::int64_t micros) {
  std::int64_t seconds = micros / 1'000'000;
  std::int64_t rest = micros % 1'000'000;
  if (rest < 0) {
    rest += 1'000'000;
    --seconds;
  }
  return Timestamp::FromUnix(seconds, static_cast<std::int32_t>(rest * 1'000));
}

class ColumnNames {
 public:
  template <class T>
  void operator()(std::string_view name, const T& /*value*/) {
    names.emplace_back(name);
  }
  void Unique(std::string_view name, const std::string& /*value*/) { names.emplace_back(name); }
  std::vector<std::string> names;
};

class Binder {
 public:
  explicit Binder(Statement& statement) : statement_(statement) {}
  void operator()(std::string_view /*name*/, const std::string& value) { Text(value); }
  template <class Kind>
  void operator()(std::string_view /*name*/, const Name<Kind>& value) {
    Text(value.text());
  }
  void operator()(std::string_view /*name*/, const InstanceId& value) { Text(value.text()); }
  void operator()(std::string_view /*name*/, bool value) { Number(value ? 1 : 0); }
  void operator()(std::string_view /*name*/, std::int64_t value) { Number(value); }
  void operator()(std::string_view /*name*/, Timestamp value) { Number(Micros(value)); }
  void operator()(std::string_view /*name*/, cache::BalancerStatus value) {
    Text(kBalancerWords.at(static_cast<std::size_t>(value)));
  }
  void operator()(std::string_view /*name*/, const std::optional<Timestamp>& value) {
    if (value) {
      Number(Micros(*value));
    } else {
      statement_.BindNull(++column_);
    }
  }
  void Unique(std::string_view /*name*/, const std::string& value) {
    if (value.empty()) {
      statement_.BindNull(++column_);
    } else {
      Text(value);
    }
  }

 private:
  void Text(std::string_view text) { statement_.Bind(++column_, text); }
  void Number(std::int64_t number) { statement_.Bind(++column_, number); }

  Statement& statement_;
  int column_ = 0;
};

class Reader {
 public:
  explicit Reader(const Statement& statement) : statement_(statement) {}
  [[nodiscard]] bool sound() const { return sound_; }

  void operator()(std::string_view /*name*/, std::string& value) { value = Next(); }
  template <class Kind>
  void operator()(std::string_view /*name*/, Name<Kind>& value) {
    Take(Name<Kind>::Parse(Next()), value);
  }
  void operator()(std::string_view /*name*/, InstanceId& value) { Take(ReadPuidv7(Next()), value); }
  void operator()(std::string_view /*name*/, bool& value) { value = Number() != 0; }
  void operator()(std::string_view /*name*/, std::int64_t& value) { value = Number(); }
  void operator()(std::string_view /*name*/, Timestamp& value) { value = FromMicros(Number()); }
  void operator()(std::string_view /*name*/, std::optional<Timestamp>& value) {
    if (statement_.IsNull(column_)) {
      ++column_;
    } else {
      value = FromMicros(Number());
    }
  }
  void operator()(std::string_view /*name*/, cache::BalancerStatus& value) {
    const std::string word = Next();
    for (std::size_t i = 0; i < kBalancerWords.size(); ++i) {
      if (kBalancerWords.at(i) != word) continue;
      value = static_cast<cache::BalancerStatus>(i);
      return;
    }
    sound_ = false;
  }
  void Unique(std::string_view /*name*/, std::string& value) { value = Next(); }

 private:
  [[nodiscard]] std::string Next() { return statement_.Text(column_++); }
  [[nodiscard]] std::int64_t Number() { return statement_.Number(column_++); }
  template <class T>
  void Take(Result<T> parsed, T& value) {
    if (parsed) {
      value = *std::move(parsed);
    } else {
      sound_ = false;
    }
  }

  const Statement& statement_;
  int column_ = 0;
  bool sound_ = true;
};

// ---- one table ----------------------------------------------------------------------------------

// Rows have no default: their ids are checked values. These are overwritten.
InstanceId AnyInstance() { return {"xxx", UuidBytes{}}; }
GroupKey AnyGroup() { return *GroupKey::Parse("x"); }

cache::InstanceRow Blank(const cache::InstanceRow* /*type*/) {
  return {.id = AnyInstance(), .tenant = DefaultTenant(), .group = AnyGroup()};
}
cache::GroupRow Blank(const cache::GroupRow* /*type*/) {
  return {.tenant = DefaultTenant(), .group = AnyGroup()};
}
cache::HealthRow Blank(const cache::HealthRow* /*type*/) { return {.instance = AnyInstance()}; }
cache::PublicKeyRow Blank(const cache::PublicKeyRow* /*type*/) {
  return {.instance = AnyInstance()};
}
cache::ImageRow Blank(const cache::ImageRow* /*type*/) { return {}; }
cache::BalancerRow Blank(const cache::BalancerRow* /*type*/) { return {.instance = AnyInstance()}; }
cache::OperatorRow Blank(const cache::OperatorRow* /*type*/) { return {.tenant = DefaultTenant()}; }

template <class Row>
struct Table {
  Statement put;
  Statement erase;
  Statement read;

  [[nodiscard]] Outcome Prepare(Database& database, std::string_view name, std::size_t keys) {
    Row blank = Blank(static_cast<const Row*>(nullptr));
    ColumnNames columns;
    Columns(blank, columns);
    std::string all;
    std::string marks;
    std::string key;
    std::string where;
    std::string updates;
    for (std::size_t i = 0; i < columns.names.size(); ++i) {
      const std::string& column = columns.names[i];
      all += (i > 0 ? "," : "") + column;
      marks += i > 0 ? ",?" : "?";
      if (i < keys) {
        key += (i > 0 ? "," : "") + column;
        where += fmt::format("{}{}=?", i > 0 ? " AND " : "", column);
      } else {
        updates += fmt::format("{}{}=excluded.{}", i > keys ? "," : "", column, column);
      }
    }
    if (Outcome done = database.Prepare(
            fmt::format("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {}", name,
                        all, marks, key, updates),
            put);
        !done.ok()) {
      return done;
    }
    if (Outcome done = database.Prepare(fmt::format("DELETE FROM {} WHERE {}", name, where), erase);
        !done.ok()) {
      return done;
    }
    return database.Prepare(fmt::format("SELECT {} FROM {} ORDER BY {}", all, name, key), read);
  }

  [[nodiscard]] Outcome Put(const Row& row) {
    Binder binder(put);
    Columns(row, binder);
    return put.Run();
  }

  [[nodiscard]] Outcome Erase(std::string_view first, std::optional<std::string_view> second) {
    erase.Bind(1, first);
    if (second) erase.Bind(2, *second);
    return erase.Run();
  }

  [[nodiscard]] Outcome ReadAll(std::vector<Row>& rows) {
    Outcome outcome;
    while (read.Step(outcome)) {
      Row row = Blank(static_cast<const Row*>(nullptr));
      Reader reader(read);
      Columns(row, reader);
      if (reader.sound()) rows.push_back(std::move(row));
    }
    read.Reset();
    return outcome;
  }
};

constexpr int kGroups = 1;
constexpr int kHealth = 2;
constexpr int kPublicKeys = 3;
constexpr int kImages = 4;
constexpr int kBalancers = 5;
constexpr int kOperators = 6;

}  // namespace

Outcome CreateSchema(Database& database, int version) {
  const std::string sql = fmt::format("BEGIN;{}PRAGMA user_version={};COMMIT;", kSchema, version);
  return database.Execute(sql.c_str());
}

RowKey KeyOf(const cache::Change& change) {
  return std::visit(
      Overloaded{
          [](const cache::InstanceRow& r) { return RowKey{kInstancesTable, r.id.text(), {}}; },
          [](const cache::EraseInstance& e) { return RowKey{kInstancesTable, e.id.text(), {}}; },
          [](const cache::GroupRow& r) { return RowKey{kGroups, r.tenant.text(), r.group.text()}; },
          [](const cache::EraseGroup& e) {
            return RowKey{kGroups, e.tenant.text(), e.group.text()};
          },
          [](const cache::HealthRow& r) { return RowKey{kHealth, r.instance.text(), {}}; },
          [](const cache::EraseHealth& e) { return RowKey{kHealth, e.instance.text(), {}}; },
          [](const cache::PublicKeyRow& r) {
            return RowKey{kPublicKeys, r.instance.text(), r.filename};
          },
          [](const cache::ErasePublicKey& e) {
            return RowKey{kPublicKeys, e.instance.text(), e.filename};
          },
          [](const cache::ImageRow& r) { return RowKey{kImages, r.name, {}}; },
          [](const cache::EraseImage& e) { return RowKey{kImages, e.name, {}}; },
          [](const cache::BalancerRow& r) {
            return RowKey{kBalancers, r.balancer, r.instance.text()};
          },
          [](const cache::EraseBalancer& e) {
            return RowKey{kBalancers, e.balancer, e.instance.text()};
          },
          [](const cache::OperatorRow& r) {
            return RowKey{kOperators, r.tenant.text(), r.storage_key};
          },
          [](const cache::EraseOperator& e) {
            return RowKey{kOperators, e.tenant.text(), e.storage_key};
          },
      },
      change);
}

std::string OwnerOf(const RowKey& key) {
  if (key.table == kHealth || key.table == kPublicKeys) return key.first;
  if (key.table == kBalancers) return key.second;
  return {};
}

struct Tables::Statements {
  Table<cache::InstanceRow> instances;
  Table<cache::GroupRow> groups;
  Table<cache::HealthRow> health;
  Table<cache::PublicKeyRow> public_keys;
  Table<cache::ImageRow> images;
  Table<cache::BalancerRow> balancers;
  Table<cache::OperatorRow> operators;
};

Tables::Tables() : statements_(std::make_unique<Statements>()) {}
Tables::~Tables() = default;
Tables::Tables(Tables&&) noexcept = default;
Tables& Tables::operator=(Tables&&) noexcept = default;

Outcome Tables::Prepare(Database& database) {
  Statements& s = *statements_;
  Outcome outcome = s.instances.Prepare(database, "instances", 1);
  if (outcome.ok()) outcome = s.groups.Prepare(database, "groups", 2);
  if (outcome.ok()) outcome = s.health.Prepare(database, "health", 1);
  if (outcome.ok()) outcome = s.public_keys.Prepare(database, "public_keys", 2);
  if (outcome.ok()) outcome = s.images.Prepare(database, "images", 1);
  if (outcome.ok()) outcome = s.balancers.Prepare(database, "lb_instances", 2);
  if (outcome.ok()) outcome = s.operators.Prepare(database, "operators", 2);
  return outcome;
}

Outcome Tables::Apply(const cache::Change& change) {
  Statements& s = *statements_;
  return std::visit(Overloaded{
                        [&](const cache::InstanceRow& row) { return s.instances.Put(row); },
                        [&](const cache::GroupRow& row) { return s.groups.Put(row); },
                        [&](const cache::HealthRow& row) { return s.health.Put(row); },
                        [&](const cache::PublicKeyRow& row) { return s.public_keys.Put(row); },
                        [&](const cache::ImageRow& row) { return s.images.Put(row); },
                        [&](const cache::BalancerRow& row) { return s.balancers.Put(row); },
                        [&](const cache::OperatorRow& row) { return s.operators.Put(row); },
                        [&](const auto& /*erasure*/) { return Erase(KeyOf(change)); },
                    },
                    change);
}

Outcome Tables::Erase(const RowKey& key) {
  Statements& s = *statements_;
  switch (key.table) {
    case kInstancesTable: return s.instances.Erase(key.first, std::nullopt);
    case kGroups: return s.groups.Erase(key.first, key.second);
    case kHealth: return s.health.Erase(key.first, std::nullopt);
    case kPublicKeys: return s.public_keys.Erase(key.first, key.second);
    case kImages: return s.images.Erase(key.first, std::nullopt);
    case kBalancers: return s.balancers.Erase(key.first, key.second);
    default: return s.operators.Erase(key.first, key.second);
  }
}

Outcome Tables::ReadAll(cache::Contents& contents) {
  Statements& s = *statements_;
  Outcome outcome = s.instances.ReadAll(contents.instances);
  if (outcome.ok()) outcome = s.groups.ReadAll(contents.groups);
  if (outcome.ok()) outcome = s.health.ReadAll(contents.health);
  if (outcome.ok()) outcome = s.public_keys.ReadAll(contents.public_keys);
  if (outcome.ok()) outcome = s.images.ReadAll(contents.images);
  if (outcome.ok()) outcome = s.balancers.ReadAll(contents.balancers);
  if (outcome.ok()) outcome = s.operators.ReadAll(contents.operators);
  return outcome;
}

}  // namespace nstance::sqlite

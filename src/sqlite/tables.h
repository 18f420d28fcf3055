// The schema of the cache (formats.md 10), and its rows to and from statements.
//
// What is read is held to the types of ports/cache.h: a row with an id, name or word that is none
// is left out.
#pragma once

#include <compare>
#include <memory>
#include <string>

#include "ports/cache.h"
#include "sqlite/database.h"

namespace nstance::sqlite {

// Creates the tables in an empty file, and their version.
[[nodiscard]] Outcome CreateSchema(Database& database, int version);

// Names one row. Instances sort first, so that rows that depend on one are written after it.
struct RowKey {
  int table = 0;
  std::string first = {};
  std::string second = {};
  friend std::strong_ordering operator<=>(const RowKey&, const RowKey&) = default;
};
[[nodiscard]] RowKey KeyOf(const cache::Change& change);

// The instance that the row of this key belongs to; empty for rows of no instance and for the
// instance's own.
[[nodiscard]] std::string OwnerOf(const RowKey& key);
inline constexpr int kInstancesTable = 0;

// Prepared statements for all tables; they go before the database is closed.
class Tables final {
 public:
  Tables();
  ~Tables();
  Tables(Tables&&) noexcept;
  Tables& operator=(Tables&&) noexcept;

  [[nodiscard]] Outcome Prepare(Database& database);
  [[nodiscard]] Outcome Apply(const cache::Change& change);
  [[nodiscard]] Outcome Erase(const RowKey& key);
  [[nodiscard]] Outcome ReadAll(cache::Contents& contents);

 private:
  struct Statements;
  std::unique_ptr<Statements> statements_;
};

}  // namespace nstance::sqlite

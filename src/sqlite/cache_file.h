// CacheFile: the rows of ports/cache.h in one SQLite file, without a thread.
//
// Changes are gathered in a Batch (the last one per row counts, so what waits is bounded by the
// number of rows) and written in one transaction. WAL, `synchronous=NORMAL`: a crash of the machine
// loses at most the last transactions, never the file.
//
// A file that is damaged, was written by another schema version, or is no database is removed with
// its journals and made anew; so is one that turns out damaged later, and one that missed a batch:
// it would tell of rows that are gone. A disk that cannot be written costs the changes of that
// moment: the next call tries again, and a log line tells once. Rows that were written before are
// missing then: TakeBegunAnew() tells.
//
// Calls block as long as the disk does. Used by one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "ports/cache.h"
#include "sqlite/database.h"
#include "sqlite/tables.h"

namespace nstance::sqlite {

// What is to become of one row. Erased first: it may have been another one with the same key, whose
// dependants must go.
struct RowChange {
  cache::Change change;
  bool erase_first = false;
};
using Batch = std::map<RowKey, RowChange>;

// Adds a change to those that wait.
void Gather(Batch& batch, cache::Change change);

// Where a file is: what SQLite cannot do about it.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;

  [[nodiscard]] virtual FileName Name() const = 0;
  // Makes way for the file to be opened: its folder is there, and nothing else in its stead.
  [[nodiscard]] virtual Outcome MakeReady() = 0;
  // The file is gone, and its journals. REQUIRES: it is not open.
  [[nodiscard]] virtual Outcome Remove() = 0;
};

class CacheFile final {
 public:
  static constexpr int kSchemaVersion = 1;

  // `place` and the logger's sink outlive it.
  CacheFile(Place& place, log::Logger log) : place_(place), log_(std::move(log)) {}

  // All of the batch, or nothing of it and a file that is made anew at the next call.
  void Write(const Batch& batch);
  // Empty when it cannot be read.
  [[nodiscard]] cache::Contents Read();
  void Close();
  // Whether the file was made anew since the last question, in the place of another one.
  [[nodiscard]] bool TakeBegunAnew() { return std::exchange(begun_anew_, false); }

 private:
  void GiveUp(const Outcome& outcome);
  void Complain(const Outcome& outcome);
  [[nodiscard]] bool EnsureOpen();
  [[nodiscard]] bool Remove();
  [[nodiscard]] Outcome Open();
  [[nodiscard]] Outcome CheckSoundness();
  [[nodiscard]] Outcome Transact(const Batch& batch);

  Place& place_;
  const log::Logger log_;
  Database database_;
  Tables tables_;  // After the database: its statements go first.
  bool distrusted_ = false;
  bool begun_anew_ = false;
  bool complained_ = false;
};

}  // namespace nstance::sqlite

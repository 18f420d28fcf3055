// SqliteCache: the cache of ports/cache.h in one SQLite file, with a thread of its own.
//
// Changes are gathered (the last one per row counts, so what waits is bounded by the number of
// rows) and written in one transaction at most every `flush_interval`. WAL, `synchronous=NORMAL`:
// a crash of the machine loses at most the last transactions, never the file.
//
// A file that is damaged, was written by another schema version, or is no database is removed with
// its journals and made anew; so is one that turns out damaged later. A disk that cannot be written
// costs the changes of that moment: the next flush tries again, and a log line tells once.
//
// Opening happens on the thread; nothing blocks the loop. The path `:memory:` keeps everything in
// memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "ports/cache.h"
#include "ports/loop.h"
#include "ports/pending.h"

namespace nstance {

class SqliteCache final : public Cache {
 public:
  static constexpr int kSchemaVersion = 1;

  struct Options {
    std::string path;  // The folder is made when it is missing.
    Duration flush_interval = Duration::Milliseconds(200);
  };

  // `loop` and the logger's sink must outlive the cache.
  SqliteCache(Loop& loop, log::Logger log, const Options& options);
  // Writes what waits, and waits for it.
  ~SqliteCache() override;

  void Write(std::vector<cache::Change> changes) override;
  [[nodiscard]] Pending Load(Loaded done) override;
  [[nodiscard]] Pending Flush(Task done) override;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace nstance

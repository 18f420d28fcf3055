// SqliteCache: the cache of ports/cache.h in one SQLite file, with a thread of its own.
//
// What becomes of the file, and of one that is damaged, is told in sqlite/cache_file.h. Changes are
// gathered and written in one transaction at most every `flush_interval`.
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
  [[nodiscard]] Pending Watch(BegunAnew begun_anew) override;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace nstance

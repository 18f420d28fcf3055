// SimSqliteCache: the code of the real cache (sqlite/cache_file.h) in simulated time on a simulated
// disk: what a server's rows go through in production, but for the thread and the kernel.
//
// It is written behind every 200 ms, as SimCache is. Destroying it is kill -9: what was written
// stays, what waits is lost, and no journal is tidied away.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/log.h"
#include "ports/cache.h"
#include "ports/loop.h"
#include "sim/sim_cache.h"
#include "sim/sim_files.h"
#include "sqlite/cache_file.h"

namespace nstance::sim {

class SimSqliteCache final : public Cache {
 public:
  struct Deps {
    Loop& loop;
    SimCacheDisk& disk;  // Its `database`; `broken` fails every call.
    const SimFileFaults& faults;
    log::Logger log;
    std::uint64_t seed = 0;
  };
  // All of `deps` outlives the cache.
  explicit SimSqliteCache(const Deps& deps);
  ~SimSqliteCache() override;

  void Write(std::vector<cache::Change> changes) override;
  [[nodiscard]] Pending Load(Loaded done) override;
  [[nodiscard]] Pending Flush(Task done) override;
  [[nodiscard]] Pending Watch(BegunAnew begun_anew) override {
    return watchers_.Add(std::move(begun_anew));
  }

  // The process has died in the middle of a write: nothing is answered any more.
  [[nodiscard]] bool dead() const { return place_.system.dead(); }

 private:
  struct SimPlace final : public sqlite::Place {
    explicit SimPlace(const SimFileSystem::Deps& deps) : system(deps) {}
    [[nodiscard]] sqlite::FileName Name() const override;
    [[nodiscard]] sqlite::Outcome MakeReady() override { return {}; }
    [[nodiscard]] sqlite::Outcome Remove() override;
    SimFileSystem system;
  };
  void FlushNow();
  void TellWatchers();

  Loop& loop_;
  SimCacheWatchers watchers_;
  SimPlace place_;
  sqlite::CacheFile file_;
  sqlite::Batch waiting_;
  bool armed_ = false;
  Pending timer_;
};

}  // namespace nstance::sim

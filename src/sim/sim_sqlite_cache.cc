#include "sim/sim_sqlite_cache.h"

#include <string>
#include <utility>

namespace nstance::sim {
namespace {

constexpr Duration kFlushInterval = Duration::Milliseconds(200);
constexpr const char* kFile = "nstance.db";

}  // namespace

sqlite::FileName SimSqliteCache::SimPlace::Name() const {
  return {.path = kFile, .file_system = system.name()};
}

sqlite::Outcome SimSqliteCache::SimPlace::Remove() {
  for (const char* suffix : {"", "-wal", "-journal"}) {
    if (!system.Remove(std::string(kFile) + suffix)) {
      return {.trouble = sqlite::Trouble::kDisk, .message = "not removed"};
    }
  }
  return {};
}

SimSqliteCache::SimSqliteCache(const Deps& deps)
    : loop_(deps.loop),
      watchers_(deps.loop),
      place_({.files = deps.disk.database,
              .faults = deps.faults,
              .broken = deps.disk.broken,
              .seed = deps.seed}),
      file_(place_, deps.log) {}

SimSqliteCache::~SimSqliteCache() {
  place_.system.Die();
  file_.Close();
}

void SimSqliteCache::Write(std::vector<cache::Change> changes) {
  for (cache::Change& change : changes) sqlite::Gather(waiting_, std::move(change));
  if (std::exchange(armed_, true)) return;
  timer_ = loop_.CallAfter(kFlushInterval, [this] { FlushNow(); });
}

void SimSqliteCache::FlushNow() {
  armed_ = false;
  timer_.Cancel();  // A flush on request has done its work: nothing is left at the end.
  const sqlite::Batch batch = std::exchange(waiting_, {});
  if (!batch.empty()) file_.Write(batch);
  TellWatchers();
}

void SimSqliteCache::TellWatchers() {
  if (file_.TakeBegunAnew() && !dead()) watchers_.Tell();
}

Pending SimSqliteCache::Load(Loaded done) {
  return loop_.CallAfter(Duration::Milliseconds(1), [this, done = std::move(done)]() mutable {
    FlushNow();
    cache::Contents contents = file_.Read();
    TellWatchers();
    if (!dead()) done(std::move(contents));
  });
}

Pending SimSqliteCache::Flush(Task done) {
  return loop_.CallAfter(Duration::Milliseconds(1), [this, done = std::move(done)]() mutable {
    FlushNow();
    if (!dead()) done();
  });
}

}  // namespace nstance::sim

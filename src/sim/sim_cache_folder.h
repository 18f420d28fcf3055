// SimCacheFolder: ports/cache_folder.h in simulated time. The disk outlives the process.
//
// A write happens at once and as a whole, and is answered for a moment later; faults make single
// calls fail or a disk read-only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/prng.h"
#include "base/time.h"
#include "ports/cache_folder.h"
#include "ports/loop.h"

namespace nstance::sim {

struct SimDisk {
  std::map<std::string, std::string, std::less<>> files = {};
  bool broken = false;  // Every call fails.
  // In ten thousand.
  std::uint32_t error = 0;
};

class SimCacheFolder final : public CacheFolder {
 public:
  // `disk` outlives the folder, `loop` too.
  SimCacheFolder(Loop& loop, SimDisk& disk, std::uint64_t seed)
      : loop_(loop), disk_(disk), prng_(seed) {}

  [[nodiscard]] Pending Read(std::string_view name, ReadDone done) override {
    return Later([this, name = std::string(name), done = std::move(done)]() mutable {
      if (Status sound = CheckCacheFileName(name); !sound) return done(Fail(sound.error()));
      if (Fails()) return done(Fail(Unavailable("the disk failed")));
      const auto file = disk_.files.find(name);
      if (file == disk_.files.end()) return done(Fail(NotFound("no file " + name)));
      done(file->second);
    });
  }

  // Takes effect at once: order is kept, and a crash cannot come in between.
  [[nodiscard]] Pending Write(std::string_view name, std::string bytes, WriteDone done) override {
    Status result = CheckCacheFileName(name);
    if (result && Fails()) result = Fail(Unavailable("the disk failed"));
    if (result && !dead_) disk_.files.insert_or_assign(std::string(name), std::move(bytes));
    return Later([result = std::move(result), done = std::move(done)]() mutable {
      done(std::move(result));
    });
  }

  // From now on nothing reaches the disk: the process is about to be destroyed.
  void Die() { dead_ = true; }

 private:
  [[nodiscard]] bool Fails() { return disk_.broken || prng_.Chance(disk_.error, 10'000); }
  [[nodiscard]] Pending Later(Task task) {
    return loop_.CallAfter(prng_.UpTo(Duration::Milliseconds(5)), std::move(task));
  }

  Loop& loop_;
  SimDisk& disk_;
  Prng prng_;
  bool dead_ = false;
};

}  // namespace nstance::sim

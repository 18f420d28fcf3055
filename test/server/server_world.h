// One simulated process with what the parts of a server need: a way to the bucket, a disk, chance.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/prng.h"
#include "core/config/load.h"
#include "sim/seeded_random.h"
#include "sim/sim_cache_folder.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "test/core/config/complete_example.h"

namespace nstance::test {

class QuietSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level /*level*/) const override { return true; }
  void Write(const log::Record& record) override { last = std::string(record.message); }
  std::string last;
};

inline Timestamp WorldStart() { return *ParseTimestamp("2026-01-01T00:00:00Z"); }

struct World {
  explicit World(std::uint64_t seed = 1)
      : scheduler(seed), bucket(scheduler, {.wall_start = WorldStart()}) {}

  [[nodiscard]] bool Run(const std::function<bool()>& done,
                         Duration limit = Duration::Seconds(30)) {
    return scheduler.RunUntilTrue(done, limit);
  }

  sim::SimScheduler scheduler;
  sim::SimBucket bucket;
  sim::SimDisk disk;
};

struct Process {
  explicit Process(World& world, std::string name = "p", sim::SimStoreFaults faults = {})
      : loop(world.scheduler, WorldStart()),
        store(world.bucket, loop, {.process = std::move(name), .faults = faults}),
        folder(loop, world.disk, world.scheduler.prng().Next()),
        random(world.scheduler.prng().Next()),
        jitter(world.scheduler.prng().Next()),
        log(sink, "test") {}

  sim::SimLoop loop;
  sim::SimObjectStore store;
  sim::SimCacheFolder folder;
  sim::SeededRandom random;
  Prng jitter;
  QuietSink sink;
  log::Logger log;
};

// The complete example with one text replaced.
inline std::string ExampleWith(std::string_view from, std::string_view to) {
  std::string text(config::kCompleteExample);
  const std::size_t at = text.find(from);
  CHECK(at != std::string::npos, "{}", from);
  return text.replace(at, from.size(), to);
}

}  // namespace nstance::test

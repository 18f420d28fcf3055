// The real cache code on a simulated disk: single faults by hand, then all kinds over seeds. Every
// batch writes all rows with one number, so what is read tells of which batch it is, and whether it
// is of one only.
#include "sim/sim_sqlite_cache.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_cache_folder.h"
#include "sim/sim_loop.h"
#include "sim/sim_scheduler.h"

namespace nstance::sim {
namespace {

using testing::IsEmpty;

constexpr int kRows = 40;

class CountingSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level /*level*/) const override { return true; }
  void Write(const log::Record& /*record*/) override { ++lines; }
  int lines = 0;
};

// A machine with a disk, and the process on it.
class Machine {
 public:
  explicit Machine(std::uint64_t seed = 1) : seed_(seed) { Start(); }

  void Start() {
    cache = std::make_unique<SimSqliteCache>(SimSqliteCache::Deps{.loop = loop_,
                                                                  .disk = disk,
                                                                  .faults = faults,
                                                                  .log = log::Logger(sink, "cache"),
                                                                  .seed = seed_ + ++runs_});
  }
  void Kill() { cache.reset(); }
  void Restart() {
    Kill();
    Start();
  }
  // Returns whether the process lives on.
  bool Put(std::int64_t number) {
    std::vector<cache::Change> changes;
    for (int i = 0; i < kRows; ++i) {
      changes.emplace_back(cache::GroupRow{.tenant = DefaultTenant(),
                                           .group = *GroupKey::Parse("g" + std::to_string(i)),
                                           .runtime_config_hash = std::string(1'500, 'r'),
                                           .infra_config_hash = std::string(1'500, 'i'),
                                           .size = number});
    }
    cache->Write(std::move(changes));
    bool flushed = false;
    const Pending pending = cache->Flush([&] { flushed = true; });
    (void)scheduler_.RunUntilTrue([&] { return flushed || cache->dead(); }, Duration::Minutes(1));
    EXPECT_NE(flushed, cache->dead());
    return flushed;
  }
  [[nodiscard]] cache::Contents Load() {
    std::optional<cache::Contents> rows;
    const Pending pending = cache->Load([&](cache::Contents r) { rows = std::move(r); });
    (void)scheduler_.RunUntilTrue([&] { return rows.has_value() || cache->dead(); },
                                  Duration::Minutes(1));
    return rows.value_or(cache::Contents{});
  }
  // The batch that the rows are of; 0: there are none; empty: they are of no batch.
  [[nodiscard]] std::optional<std::int64_t> Batch() {
    const cache::Contents rows = Load();
    if (rows.groups.empty()) return 0;
    if (rows.groups.size() != kRows) return std::nullopt;
    for (const cache::GroupRow& row : rows.groups) {
      if (row.size != rows.groups[0].size) return std::nullopt;
    }
    return rows.groups[0].size;
  }

  // Every row of the batch is there. Damage that nothing notices may have left others beside them.
  [[nodiscard]] bool Holds(std::int64_t number) {
    const cache::Contents rows = Load();
    for (int i = 0; i < kRows; ++i) {
      const auto is_it = [&](const cache::GroupRow& row) {
        return row.group.text() == "g" + std::to_string(i) && row.size == number;
      };
      if (std::ranges::none_of(rows.groups, is_it)) return false;
    }
    return true;
  }

  SimCacheDisk disk;
  SimFileFaults faults;
  CountingSink sink;

 private:
  std::uint64_t seed_;
  std::uint64_t runs_ = 0;
  SimScheduler scheduler_{1};
  SimLoop loop_{scheduler_, Timestamp()};

 public:
  std::unique_ptr<SimSqliteCache> cache;
};

TEST(SimSqliteCacheTest, WhatWasFlushedOutlivesAKillAndNothingIsTidiedAway) {
  Machine machine;
  ASSERT_TRUE(machine.Put(1));
  machine.Kill();
  ASSERT_NE(machine.disk.database.Find("nstance.db-wal"), nullptr);
  EXPECT_FALSE(machine.disk.database.Find("nstance.db-wal")->bytes.empty());
  machine.Start();
  EXPECT_EQ(machine.Batch(), 1);
  EXPECT_EQ(machine.sink.lines, 0);
}

// What is left in a process's loop at its end is held against the process.
template <class MakeCache>
void ExpectThatAFlushLeavesNothing(MakeCache make) {
  SimScheduler scheduler(1);
  SimLoop loop(scheduler, Timestamp());
  SimCacheDisk disk;
  const std::unique_ptr<Cache> cache = make(loop, disk);
  cache->Write({cache::ImageRow{.name = "debian"}});
  bool flushed = false;
  const Pending flush = cache->Flush([&] { flushed = true; });
  ASSERT_TRUE(scheduler.RunUntilTrue([&] { return flushed; }, Duration::Milliseconds(100)));
  EXPECT_EQ(loop.waiting(), 0U);
}

TEST(SimSqliteCacheTest, AFlushLeavesNothingInTheLoop) {
  CountingSink sink;
  SimFileFaults faults;
  ExpectThatAFlushLeavesNothing([&](SimLoop& loop, SimCacheDisk& disk) {
    return std::make_unique<SimSqliteCache>(SimSqliteCache::Deps{.loop = loop,
                                                                 .disk = disk,
                                                                 .faults = faults,
                                                                 .log = log::Logger(sink, "cache"),
                                                                 .seed = 1});
  });
}

TEST(SimCacheTest, AFlushLeavesNothingInTheLoop) {
  ExpectThatAFlushLeavesNothing(
      [](SimLoop& loop, SimCacheDisk& disk) { return std::make_unique<SimCache>(loop, disk); });
}

TEST(SimSqliteCacheTest, WhatWaitsAtAKillIsLost) {
  Machine machine;
  ASSERT_TRUE(machine.Put(1));
  machine.cache->Write({cache::ImageRow{.name = "debian"}});
  machine.Restart();
  EXPECT_THAT(machine.Load().images, IsEmpty());
  EXPECT_EQ(machine.Batch(), 1);
}

TEST(SimSqliteCacheTest, AFullDiskCostsTheRowsAndOneLineAndIsOvercome) {
  Machine machine;
  ASSERT_TRUE(machine.Put(1));
  machine.faults.full = 10'000;
  EXPECT_TRUE(machine.Put(2));
  EXPECT_TRUE(machine.Put(3));
  EXPECT_EQ(machine.sink.lines, 1) << "told once";
  machine.faults = {};
  EXPECT_EQ(machine.Batch(), 0) << "a file that missed a batch is not used again";
  EXPECT_TRUE(machine.Put(4));
  EXPECT_EQ(machine.Batch(), 4);
}

TEST(SimSqliteCacheTest, WhoWatchesIsToldOnceWhenAFullDiskIsOvercome) {
  Machine machine;
  int told = 0;
  const Pending watch = machine.cache->Watch([&] { ++told; });
  ASSERT_TRUE(machine.Put(1));
  ASSERT_TRUE(machine.Put(2));
  EXPECT_EQ(told, 0);
  machine.faults.full = 10'000;
  ASSERT_TRUE(machine.Put(3));
  ASSERT_TRUE(machine.Put(4));
  machine.faults = {};
  ASSERT_TRUE(machine.Put(5));
  ASSERT_TRUE(machine.Put(6));
  EXPECT_EQ(told, 1);
}

TEST(SimSqliteCacheTest, ABatchThatCameBeforeTheFileCouldBeOpenedIsMissedToo) {
  Machine machine;
  ASSERT_TRUE(machine.Put(1));
  machine.Restart();
  int told = 0;
  const Pending watch = machine.cache->Watch([&] { ++told; });
  machine.disk.broken = true;
  ASSERT_TRUE(machine.Put(2));
  machine.disk.broken = false;
  EXPECT_EQ(machine.Batch(), 0) << "not what is older than the batch";
  ASSERT_TRUE(machine.Put(3));
  EXPECT_EQ(told, 1);
}

TEST(SimSqliteCacheTest, ADiskThatCannotBeReadIsAnEmptyCache) {
  Machine machine;
  ASSERT_TRUE(machine.Put(1));
  machine.Restart();
  machine.faults.read_error = 10'000;
  EXPECT_EQ(machine.Batch(), 0);
  machine.faults = {};
  EXPECT_EQ(machine.Batch(), 1) << "the file itself is well";
}

TEST(SimSqliteCacheTest, ABrokenDiskFailsEveryCallUntilItIsWhole) {
  Machine machine;
  ASSERT_TRUE(machine.Put(1));
  machine.disk.broken = true;
  EXPECT_TRUE(machine.Put(2));
  EXPECT_EQ(machine.Batch(), 0);
  machine.disk.broken = false;
  EXPECT_TRUE(machine.Put(3));
  EXPECT_EQ(machine.Batch(), 3);
}

TEST(SimSqliteCacheTest, AnOldDiskHoldsOldRows) {
  Machine machine;
  ASSERT_TRUE(machine.Put(1));
  const SimCacheDisk old = machine.disk;
  ASSERT_TRUE(machine.Put(2));
  machine.Kill();
  machine.disk = old;
  machine.Start();
  EXPECT_EQ(machine.Batch(), 1);
}

TEST(SimSqliteCacheTest, FilesThatAreDeletedUnderAProcessAreGoneForTheNextOne) {
  Machine machine;
  ASSERT_TRUE(machine.Put(1));
  machine.disk = {};
  EXPECT_TRUE(machine.Put(2));
  machine.Restart();
  EXPECT_EQ(machine.Batch(), 0);
  EXPECT_TRUE(machine.Put(3));
  EXPECT_EQ(machine.Batch(), 3);
}

TEST(SimSqliteCacheTest, ADeathAtAWriteAnswersNothingAndChangesNothingMore) {
  Machine machine;
  ASSERT_TRUE(machine.Put(1));
  machine.faults.death = 10'000;
  EXPECT_FALSE(machine.Put(2));
  EXPECT_TRUE(machine.cache->dead());
  const std::string wal = machine.disk.database.Find("nstance.db-wal")->bytes;
  const std::string file = machine.disk.database.Find("nstance.db")->bytes;
  machine.faults = {};
  machine.Kill();
  EXPECT_EQ(machine.disk.database.Find("nstance.db-wal")->bytes, wal);
  EXPECT_EQ(machine.disk.database.Find("nstance.db")->bytes, file);
  machine.Start();
  EXPECT_EQ(machine.Batch(), 1);
  EXPECT_EQ(machine.sink.lines, 1) << "the dead one's; the file was not made anew";
}

TEST(SimSqliteCacheTest, OverSeedsADeathAtAnyWriteLeavesOneBatchOrTheOneBefore) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Machine machine(seed);
    machine.faults.death = 500;
    std::int64_t number = 0;
    while (number < 60 && machine.Put(number + 1)) ++number;
    machine.faults = {};
    machine.Restart();
    const std::optional<std::int64_t> batch = machine.Batch();
    ASSERT_TRUE(batch);
    EXPECT_GE(*batch, number);
    EXPECT_LE(*batch, number + 1);
  }
}

TEST(SimSqliteCacheTest, OverSeedsALossOfPowerCostsTheLastBatchesAndNeverTheFile) {
  int lost = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Machine machine(seed);
    Prng prng(seed);
    const std::int64_t last = prng.Between(1, 40);
    for (std::int64_t i = 1; i <= last; ++i) ASSERT_TRUE(machine.Put(i));
    machine.Kill();
    machine.disk.database.LosePower(prng);
    machine.Start();
    const std::optional<std::int64_t> batch = machine.Batch();
    ASSERT_TRUE(batch);
    EXPECT_LE(*batch, last);
    if (*batch < last) ++lost;
    EXPECT_EQ(machine.sink.lines, 0) << "made anew";
    EXPECT_TRUE(machine.Put(99));
    EXPECT_EQ(machine.Batch(), 99);
  }
  EXPECT_GT(lost, 5) << "nothing is lost by a loss of power";
  EXPECT_LT(lost, 30);
}

TEST(SimSqliteCacheTest, WhatWasSyncedOutlivesALossOfPower) {
  SimFile file;
  file.Write(0, std::string(2'000, 'a'));
  file.Sync();
  file.Write(1'000, std::string(3'000, 'b'));
  file.Truncate(500);
  file.Write(500, std::string(5'000, 'c'));
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SimFile after = file;
    Prng prng(seed);
    after.LosePower(prng);
    EXPECT_EQ(after.bytes.substr(0, 500), std::string(500, 'a'));
    EXPECT_GE(after.bytes.size(), 500U);
    EXPECT_THAT(after.unsynced, IsEmpty());
  }
}

TEST(SimSqliteCacheTest, OverSeedsDamageAnywhereCostsRowsAtMost) {
  int noticed = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Machine machine(seed);
    Prng prng(seed);
    for (std::int64_t i = 1; i <= 5; ++i) ASSERT_TRUE(machine.Put(i));
    const bool runs_on = prng.Chance(1, 3);
    if (!runs_on) machine.Kill();
    machine.disk.database.Damage(prng);
    if (!runs_on) machine.Start();
    if (machine.Batch() != 5) ++noticed;
    for (std::int64_t i = 6; i <= 8; ++i) EXPECT_TRUE(machine.Put(i));
    machine.Restart();
    (void)machine.Load();
    EXPECT_TRUE(machine.Put(9));
    EXPECT_TRUE(machine.Holds(9)) << "it works again";
  }
  EXPECT_GT(noticed, 3);
}

TEST(SimSqliteCacheTest, OverSeedsAllFaultsTogetherAreOvercomeAndRepeatable) {
  const auto run = [](std::uint64_t seed) {
    Machine machine(seed);
    Prng prng(seed);
    machine.faults = {.read_error = 100, .write_error = 100, .full = 100, .rot = 50, .death = 50};
    std::string told;
    for (std::int64_t i = 1; i <= 60; ++i) {
      if (!machine.Put(i) || prng.Chance(1, 20)) {
        machine.Kill();
        if (prng.Chance(1, 2)) machine.disk.database.LosePower(prng);
        if (prng.Chance(1, 10)) machine.disk.database.Damage(prng);
        machine.Start();
      }
      const cache::Contents rows = machine.Load();
      told += std::to_string(rows.groups.size()) + ":" +
              std::to_string(rows.groups.empty() ? 0 : rows.groups[0].size) + " ";
      if (machine.cache->dead()) machine.Restart();
    }
    machine.faults = {};
    (void)machine.Load();
    (void)machine.Put(98);  // A file that turns out damaged now is made anew.
    EXPECT_TRUE(machine.Put(99));
    EXPECT_TRUE(machine.Holds(99));
    return told + std::to_string(machine.sink.lines);
  };
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(run(seed), run(seed));
  }
  EXPECT_NE(run(1), run(2));
}

TEST(SimCacheFolderTest, AWriteOfAProcessThatIsAboutToDieDoesNotReachTheDisk) {
  SimScheduler scheduler(1);
  SimLoop loop(scheduler, Timestamp());
  SimDisk disk;
  SimCacheFolder folder(loop, disk, 1);
  const Pending before = folder.Write("a.jsonc", "one", [](const Status&) {});
  folder.Die();
  const Pending after = folder.Write("a.jsonc", "two", [](const Status&) {});
  EXPECT_EQ(disk.files.at("a.jsonc"), "one");
}

}  // namespace
}  // namespace nstance::sim

// What a real file can suffer: damage of every kind at every place, another schema, a disk that
// cannot be written, a process that is killed while it writes. The cache is then empty or holds
// what was flushed, and works.
#include "adapters/sqlite_cache/sqlite_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"
#include "base/prng.h"
#include "sqlite/database.h"
#include "test/support/loop_runner.h"
#include "test/support/temp_dir.h"

namespace nstance {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class CountingSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level /*level*/) const override { return true; }
  void Write(const log::Record& /*record*/) override { ++lines; }
  std::atomic<int> lines = 0;
};

cache::ImageRow Image(int number) {
  return {.name = "image" + std::to_string(number),
          .image_id = std::string(100, 'x'),
          .resolved_at = Timestamp::FromUnix(number)};
}

class SqliteCacheTest : public testing::Test {
 public:
  [[nodiscard]] std::unique_ptr<SqliteCache> Open(std::string where = {}) {
    return std::make_unique<SqliteCache>(
        loop, log::Logger(sink, "cache"),
        SqliteCache::Options{.path = where.empty() ? path : std::move(where)});
  }
  [[nodiscard]] cache::Contents Load(SqliteCache& cache) {
    std::optional<cache::Contents> rows;
    const Pending pending = cache.Load([&](cache::Contents r) { rows = std::move(r); });
    EXPECT_TRUE(test::RunUntil(loop, [&] { return rows.has_value(); }));
    return rows.value_or(cache::Contents{});
  }
  // Opened, it takes a row and gives it back.
  void ExpectItWorks() {
    auto cache = Open();
    (void)Load(*cache);
    cache->Write({Image(7'777)});
    EXPECT_THAT(Load(*cache).images, testing::Contains(Image(7'777)));
  }
  void Fill(int rows) {
    auto cache = Open();
    for (int i = 0; i < rows; ++i) cache->Write({Image(i)});
  }

  test::TempDir dir;
  std::string path = dir.path() / "nstance.db";
  CountingSink sink;
  RealLoop loop;
};

TEST_F(SqliteCacheTest, WhatWaitsIsWrittenWhenTheCacheGoes) {
  Fill(100);
  EXPECT_THAT(Load(*Open()).images, SizeIs(100));
}

TEST_F(SqliteCacheTest, MemoryNeedsNoFile) {
  auto cache = Open(":memory:");
  cache->Write({Image(1)});
  EXPECT_THAT(Load(*cache).images, SizeIs(1));
}

TEST_F(SqliteCacheTest, ThePragmasOfEveryConnectionAreSet) {
  sqlite::Database database;
  ASSERT_TRUE(database.Open({.path = path}).ok());
  for (const auto& [pragma, expected] :
       {std::pair("PRAGMA journal_mode", "wal"), std::pair("PRAGMA foreign_keys", "1"),
        std::pair("PRAGMA busy_timeout", "5000"), std::pair("PRAGMA synchronous", "1")}) {
    std::string answer;
    EXPECT_TRUE(database.Ask(pragma, answer).ok());
    EXPECT_EQ(answer, expected) << pragma;
  }
}

TEST_F(SqliteCacheTest, AnotherSchemaVersionIsDroppedAndRebuilt) {
  Fill(3);
  {
    sqlite::Database database;
    ASSERT_TRUE(database.Open({.path = path}).ok());
    ASSERT_TRUE(database.Execute("PRAGMA user_version=99").ok());
  }
  EXPECT_THAT(Load(*Open()).images, IsEmpty());
  ExpectItWorks();
}

TEST_F(SqliteCacheTest, AForeignDatabaseIsDroppedAndRebuilt) {
  {
    sqlite::Database database;
    ASSERT_TRUE(database.Open({.path = path}).ok());
    ASSERT_TRUE(database.Execute("CREATE TABLE images (x); PRAGMA user_version=1").ok());
  }
  ExpectItWorks();
}

TEST_F(SqliteCacheTest, AFileThatIsNoDatabaseIsReplaced) {
  (void)dir.Write("nstance.db", std::string(5'000, 'z'));
  ExpectItWorks();
  EXPECT_GE(sink.lines, 1);
}

TEST_F(SqliteCacheTest, AFolderInTheWayIsReplaced) {
  std::filesystem::create_directories(path + "/inside");
  ExpectItWorks();
}

TEST_F(SqliteCacheTest, OverSeedsDamageAnywhereCostsRowsAtMost) {
  Fill(500);
  const std::filesystem::path copy = dir.path() / "copy";
  std::filesystem::copy_file(path, copy);
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(copy));
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
    std::filesystem::copy_file(copy, path);
    if (prng.Chance(1, 3)) {
      std::filesystem::resize_file(path, static_cast<std::uintmax_t>(prng.Between(0, size)));
    } else {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(prng.Between(0, size - 1));
      const std::string junk(static_cast<std::size_t>(prng.Between(1, 5'000)), '\x5a');
      file.write(junk.data(), static_cast<std::streamsize>(junk.size()));
    }
    ExpectItWorks();
  }
}

TEST_F(SqliteCacheTest, AFileDamagedWhileItIsOpenIsMadeAnew) {
  auto cache = Open();
  cache->Write({Image(1)});
  ASSERT_THAT(Load(*cache).images, SizeIs(1));
  for (const char* suffix : {"", "-wal"}) {
    std::ofstream file(path + suffix, std::ios::binary | std::ios::trunc);
    file << std::string(10'000, 'q');
  }
  for (int i = 0; i < 3; ++i) {
    cache->Write({Image(2)});
    (void)Load(*cache);
  }
  cache = nullptr;
  ExpectItWorks();
}

TEST_F(SqliteCacheTest, APlaceThatCannotBeWrittenIsAnEmptyCache) {
  auto cache = Open("/proc/nowhere/nstance.db");
  cache->Write({Image(1)});
  EXPECT_THAT(Load(*cache).images, IsEmpty());
  cache->Write({Image(1)});
  EXPECT_THAT(Load(*cache).images, IsEmpty());
  EXPECT_EQ(sink.lines, 1) << "told once";
}

TEST_F(SqliteCacheTest, WhoWatchesIsToldThatTheFileBeganAnew) {
  const std::string in_the_way = dir.path() / "sub";
  std::ofstream(in_the_way) << "x";
  auto cache = Open(in_the_way + "/nstance.db");
  int told = 0;
  const Pending watch = cache->Watch([&] { ++told; });
  Pending other = cache->Watch([&] { ADD_FAILURE() << "it watches no more"; });
  other.Cancel();
  cache->Write({Image(1)});
  (void)Load(*cache);
  std::filesystem::remove(in_the_way);
  cache->Write({Image(2)});
  EXPECT_TRUE(test::RunUntil(loop, [&] { return told == 1; }));
  EXPECT_THAT(Load(*cache).images, testing::ElementsAre(Image(2)));
  cache->Write({Image(3)});
  (void)Load(*cache);
  EXPECT_EQ(told, 1);
}

TEST_F(SqliteCacheTest, AKilledProcessLeavesAFileThatHoldsWhatWasFlushed) {
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // No thread of the parent's lives here: a loop and a cache of its own.
      RealLoop own;
      SqliteCache cache(own, log::Logger(sink, "cache"),
                        {.path = path, .flush_interval = Duration::Milliseconds(1)});
      bool flushed = false;
      cache.Write({Image(round)});
      const Pending pending = cache.Flush([&] { flushed = true; });
      (void)test::RunUntil(own, [&] { return flushed; });
      for (int i = 100; i < 400; ++i) cache.Write({Image(i)});
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_THAT(Load(*Open()).images, testing::Contains(Image(round)));
    ExpectItWorks();
  }
}

}  // namespace
}  // namespace nstance

// The guarantees of ports/cache.h and ports/cache_folder.h for the real ones, the simulated ones,
// and the real rows on a simulated disk.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/cache_folder/disk_cache_folder.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/sqlite_cache/sqlite_cache.h"
#include "base/log.h"
#include "ports/cache.h"
#include "ports/cache_folder.h"
#include "sim/sim_cache.h"
#include "sim/sim_cache_folder.h"
#include "sim/sim_loop.h"
#include "sim/sim_scheduler.h"
#include "sim/sim_sqlite_cache.h"
#include "test/support/loop_runner.h"
#include "test/support/temp_dir.h"

namespace nstance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class QuietSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level /*level*/) const override { return false; }
  void Write(const log::Record& /*record*/) override {}
};

// A machine whose disk outlives the processes that are started on it.
class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  virtual ~Machine() = default;
  virtual std::unique_ptr<Cache> OpenCache() = 0;
  virtual std::unique_ptr<CacheFolder> OpenFolder() = 0;
  virtual bool RunUntil(const std::function<bool()>& done) = 0;
};

class RealMachine final : public Machine {
 public:
  std::unique_ptr<Cache> OpenCache() override {
    return std::make_unique<SqliteCache>(
        loop_, log::Logger(sink_, "cache"),
        SqliteCache::Options{.path = dir_.path() / "db" / "nstance.db"});
  }
  std::unique_ptr<CacheFolder> OpenFolder() override {
    return std::make_unique<DiskCacheFolder>(loop_, dir_.path() / "made" / "cache");
  }
  bool RunUntil(const std::function<bool()>& done) override { return test::RunUntil(loop_, done); }

 private:
  test::TempDir dir_;
  QuietSink sink_;
  RealLoop loop_;
};

enum class Kind : std::uint8_t { kReal, kSim, kSimSqlite };
void PrintTo(Kind kind, std::ostream* out) {
  switch (kind) {
    case Kind::kReal: *out << "Real"; return;
    case Kind::kSim: *out << "Sim"; return;
    case Kind::kSimSqlite: *out << "SimSqlite"; return;
  }
}

class SimMachine final : public Machine {
 public:
  explicit SimMachine(Kind kind) : kind_(kind) {}
  std::unique_ptr<Cache> OpenCache() override {
    if (kind_ == Kind::kSim) return std::make_unique<sim::SimCache>(loop_, rows_);
    return std::make_unique<sim::SimSqliteCache>(
        sim::SimSqliteCache::Deps{.loop = loop_,
                                  .disk = rows_,
                                  .faults = faults_,
                                  .log = log::Logger(sink_, "cache"),
                                  .seed = 1});
  }
  std::unique_ptr<CacheFolder> OpenFolder() override {
    return std::make_unique<sim::SimCacheFolder>(loop_, disk_, 1);
  }
  bool RunUntil(const std::function<bool()>& done) override {
    return scheduler_.RunUntilTrue(done, Duration::Minutes(1));
  }

 private:
  Kind kind_;
  QuietSink sink_;
  sim::SimFileFaults faults_;
  sim::SimScheduler scheduler_{1};
  sim::SimLoop loop_{scheduler_, Timestamp()};
  sim::SimCacheDisk rows_;
  sim::SimDisk disk_;
};

class CacheContractTest : public testing::TestWithParam<Kind> {
 public:
  CacheContractTest() {
    if (GetParam() == Kind::kReal) {
      machine = std::make_unique<RealMachine>();
    } else {
      machine = std::make_unique<SimMachine>(GetParam());
    }
  }
  [[nodiscard]] cache::Contents Load(Cache& cache) {
    std::optional<cache::Contents> rows;
    const Pending pending = cache.Load([&](cache::Contents r) { rows = std::move(r); });
    EXPECT_FALSE(rows) << "answered from inside the call";
    EXPECT_TRUE(machine->RunUntil([&] { return rows.has_value(); }));
    return rows.value_or(cache::Contents{});
  }
  void Flush(Cache& cache) {
    bool done = false;
    const Pending pending = cache.Flush([&] { done = true; });
    EXPECT_TRUE(machine->RunUntil([&] { return done; }));
  }

  std::unique_ptr<Machine> machine;
};

Timestamp At(std::int64_t seconds) { return Timestamp::FromUnix(seconds, 123'456'000); }
TenantId Tenant(std::string_view name) { return *TenantId::Parse(name); }
GroupKey Group(std::string_view name) { return *GroupKey::Parse(name); }
InstanceId Id(std::uint8_t number) {
  return {"wrk", UuidBytes{1, 2, 3, 4, 5, 6, 0x70, 8, 0x80, 10, 11, 12, 13, 14, 15, number}};
}
cache::InstanceRow Instance(std::uint8_t number) {
  return {.id = Id(number),
          .tenant = Tenant("prod"),
          .group = Group("workers"),
          .on_demand = true,
          .phase = "registered",
          .provider_id = "i-1",
          .provider_state = R"({"a":"ü"})",
          .provider_at = At(5),
          .subnet_id = "s",
          .hostname = "h",
          .fqdn = "h.example",
          .ip4 = "10.0.0.1",
          .ip6 = "::1",
          .nonce_sha256 = "n" + std::to_string(number),
          .infra_config_hash = "sha256:1",
          .registered_at = At(6),
          .cert_serial = "4711",
          .cert_expires_at = At(7),
          .drain_started_at = At(8),
          .drain_delete_at = At(9),
          .drain_acked_at = At(10),
          .claim_request_id = "r",
          .record_etag = "e",
          .created_at = At(-62'135'596'800),
          .updated_at = At(12),
          .deleted_at = At(13)};
}
cache::GroupRow GroupOf(std::string_view name, std::int64_t size) {
  return {.tenant = Tenant("prod"),
          .group = Group(name),
          .runtime_config_hash = "r",
          .infra_config_hash = "i",
          .size = size,
          .is_static = true,
          .updated_at = At(1)};
}
cache::HealthRow Health(std::uint8_t number) {
  return {.instance = Id(number),
          .health_at = At(1),
          .report = "{}",
          .config_hash = "c",
          .terminating_at = std::nullopt,
          .booted_at = At(2)};
}
cache::PublicKeyRow Key(std::uint8_t number, std::string name) {
  return {.instance = Id(number),
          .filename = std::move(name),
          .public_key_pem = "PEM",
          .submitted_at = At(3)};
}
cache::BalancerRow Balancer(std::uint8_t number) {
  return {.balancer = "web",
          .instance = Id(number),
          .status = cache::BalancerStatus::kDeregistered,
          .updated_at = At(4)};
}

TEST_P(CacheContractTest, EveryRowComesBackAsItWasInTheOrderOfKeys) {
  cache::Contents rows{.groups = {GroupOf("a", 1), GroupOf("b", 2)},
                       .instances = {Instance(1), Instance(2)},
                       .health = {Health(1)},
                       .public_keys = {Key(1, "a"), Key(1, "b")},
                       .images = {{.name = "debian", .image_id = "ami-1", .resolved_at = At(1)}},
                       .balancers = {Balancer(1)},
                       .operators = {{.tenant = Tenant("prod"),
                                      .storage_key = "k",
                                      .public_key_sha256 = "p",
                                      .registered_at = At(1),
                                      .expires_at = At(2)}}};
  rows.instances[1].nonce_sha256 = "";
  rows.instances[1].provider_at = std::nullopt;
  auto cache = machine->OpenCache();
  cache->Write({rows.groups[1], rows.groups[0], rows.instances[1], rows.instances[0],
                rows.health[0], rows.public_keys[1], rows.public_keys[0], rows.images[0],
                rows.balancers[0], rows.operators[0]});
  EXPECT_EQ(Load(*cache), rows);
  Flush(*cache);
  cache = nullptr;
  cache = machine->OpenCache();
  EXPECT_EQ(Load(*cache), rows) << "after a restart";
}

TEST_P(CacheContractTest, TheLastChangeOfARowCounts) {
  auto cache = machine->OpenCache();
  cache->Write({GroupOf("a", 1)});
  cache->Write({GroupOf("a", 2), GroupOf("b", 1)});
  cache->Write({cache::EraseGroup{.tenant = Tenant("prod"), .group = Group("b")}});
  EXPECT_THAT(Load(*cache).groups, ElementsAre(GroupOf("a", 2)));
  cache->Write({cache::EraseGroup{.tenant = Tenant("prod"), .group = Group("a")}, GroupOf("a", 5)});
  EXPECT_THAT(Load(*cache).groups, ElementsAre(GroupOf("a", 5)));
}

TEST_P(CacheContractTest, AnInstanceTakesWhatDependsOnItAlong) {
  auto cache = machine->OpenCache();
  cache->Write({Instance(1), Health(1), Key(1, "a"), Balancer(1), Instance(2), Health(2)});
  Flush(*cache);
  cache->Write({Key(1, "b"), cache::EraseInstance{.id = Id(1)}, Key(1, "c")});
  const cache::Contents rows = Load(*cache);
  EXPECT_THAT(rows.instances, ElementsAre(Instance(2)));
  EXPECT_THAT(rows.health, ElementsAre(Health(2)));
  EXPECT_THAT(rows.public_keys, IsEmpty());
  EXPECT_THAT(rows.balancers, IsEmpty());
}

TEST_P(CacheContractTest, AnInstanceErasedAndWrittenAgainHasLostWhatDependedOnIt) {
  auto cache = machine->OpenCache();
  cache->Write({Instance(1), Health(1), Key(1, "a")});
  Flush(*cache);
  cache->Write({cache::EraseInstance{.id = Id(1)}, Instance(1), Key(1, "b")});
  const cache::Contents rows = Load(*cache);
  EXPECT_THAT(rows.instances, ElementsAre(Instance(1)));
  EXPECT_THAT(rows.health, IsEmpty());
  EXPECT_THAT(rows.public_keys, ElementsAre(Key(1, "b")));
}

TEST_P(CacheContractTest, RowsOfNoInstanceAndASecondOwnerOfANonceAreDropped) {
  auto cache = machine->OpenCache();
  cache::InstanceRow thief = Instance(2);
  thief.nonce_sha256 = Instance(1).nonce_sha256;
  cache->Write({Health(9), Instance(1), thief, GroupOf("a", 1)});
  const cache::Contents rows = Load(*cache);
  EXPECT_THAT(rows.health, IsEmpty());
  EXPECT_THAT(rows.instances, ElementsAre(Instance(1)));
  EXPECT_THAT(rows.groups, ElementsAre(GroupOf("a", 1))) << "the others are not harmed";
}

TEST_P(CacheContractTest, ADroppedPendingIsNotAnswered) {
  auto cache = machine->OpenCache();
  bool answered = false;
  {
    const Pending pending = cache->Load([&](const cache::Contents&) { answered = true; });
  }
  Flush(*cache);
  EXPECT_FALSE(answered);
}

TEST_P(CacheContractTest, AFileComesBackWholeAndTheLastWriteCounts) {
  auto folder = machine->OpenFolder();
  std::vector<Pending> pending;
  std::optional<Result<std::string>> read;
  pending.push_back(folder->Read("a.jsonc", [&](Result<std::string> r) { read = std::move(r); }));
  ASSERT_TRUE(machine->RunUntil([&] { return read.has_value(); }));
  EXPECT_EQ(read->error().code, Code::kNotFound);
  int written = 0;
  for (const char* text : {"one", "two", "three"}) {
    pending.push_back(folder->Write("a.jsonc", text, [&](const Status& s) {
      EXPECT_TRUE(s) << s.error().message;
      ++written;
    }));
  }
  ASSERT_TRUE(machine->RunUntil([&] { return written == 3; }));
  folder = nullptr;
  folder = machine->OpenFolder();
  read.reset();
  pending.push_back(folder->Read("a.jsonc", [&](Result<std::string> r) { read = std::move(r); }));
  ASSERT_TRUE(machine->RunUntil([&] { return read.has_value(); }));
  EXPECT_EQ(**read, "three");
  pending.clear();
}

TEST_P(CacheContractTest, NamesOfFilesAreHeldToTheirRule) {
  auto folder = machine->OpenFolder();
  for (const std::string& name : {std::string(""), std::string(".hidden"), std::string("a/b"),
                                  std::string(".."), std::string(101, 'a')}) {
    std::optional<Status> status;
    const Pending pending = folder->Write(name, "x", [&](Status s) { status = std::move(s); });
    ASSERT_TRUE(machine->RunUntil([&] { return status.has_value(); }));
    EXPECT_EQ(status->error().code, Code::kInvalidArgument) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, CacheContractTest,
                         testing::Values(Kind::kReal, Kind::kSim, Kind::kSimSqlite),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace nstance

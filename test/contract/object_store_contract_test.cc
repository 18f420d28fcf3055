// The suite of object_store_contract.h against the stores that need nothing outside: the file
// store, with one and with several stores on one directory, the simulated store with all faults
// off, a part of one, and one with the names of another layout.
#include "test/contract/object_store_contract.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adapters/file_store/file_store.h"
#include "sim/sim_object_store.h"
#include "storage/late_store.h"
#include "storage/nstance_v2_store.h"
#include "storage/prefixed_store.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

class FileStoresUnderTest final : public StoreUnderTest {
 public:
  [[nodiscard]] Status Add() {
    // Slow machines and sanitizers: no test here is about the deadline.
    auto store = FileStore::Open(loop_, {.directory = (folder_.path() / "bucket").string(),
                                         .missing = FileBucket::Missing::kCreate,
                                         .deadline = Duration::Seconds(60)});
    if (!store) return Fail(std::move(store).error());
    stores_.push_back(*std::move(store));
    return {};
  }
  Loop& loop() override { return loop_; }
  std::vector<ObjectStore*> stores() override {
    std::vector<ObjectStore*> all;
    for (const auto& store : stores_) all.push_back(store.get());
    return all;
  }
  bool RunUntil(const std::function<bool()>& done) override { return RunLoopUntil(loop_, done); }

 private:
  TempDir folder_;
  RealLoop loop_;
  std::vector<std::unique_ptr<ObjectStore>> stores_;
};

template <int kStores>
Result<std::unique_ptr<StoreUnderTest>> MakeFileStores() {
  auto world = std::make_unique<FileStoresUnderTest>();
  for (int i = 0; i < kStores; ++i) RETURN_IF_ERROR(world->Add());
  return world;
}

class SimStoresUnderTest final : public StoreUnderTest {
 public:
  explicit SimStoresUnderTest(const sim::SimPersonality& personality)
      : bucket_(scheduler_, {.personality = personality}) {}
  Loop& loop() override { return loop_; }
  std::vector<ObjectStore*> stores() override { return {&first_, &second_}; }
  bool RunUntil(const std::function<bool()>& done) override {
    return scheduler_.RunUntilTrue(done, Duration::Minutes(1));
  }

 private:
  sim::SimScheduler scheduler_{7};
  sim::SimBucket bucket_;
  sim::SimLoop loop_{scheduler_, Timestamp()};
  sim::SimObjectStore first_{bucket_, loop_, {.process = "first"}};
  sim::SimObjectStore second_{bucket_, loop_, {.process = "second"}};
};

Result<std::unique_ptr<StoreUnderTest>> MakeSimStores(const sim::SimPersonality& personality) {
  return std::make_unique<SimStoresUnderTest>(personality);
}

// A part of a simulated bucket, seen through two of its ways, one of which is opened late.
class PartsUnderTest final : public StoreUnderTest {
 public:
  Loop& loop() override { return loop_; }
  std::vector<ObjectStore*> stores() override { return {&first_part_, &second_part_}; }
  bool RunUntil(const std::function<bool()>& done) override {
    return scheduler_.RunUntilTrue(done, Duration::Minutes(1));
  }

 private:
  sim::SimScheduler scheduler_{7};
  sim::SimBucket bucket_{scheduler_, {}};
  sim::SimLoop loop_{scheduler_, Timestamp()};
  sim::SimObjectStore first_{bucket_, loop_, {.process = "first"}};
  LateStore second_{loop_, [this]() -> Result<std::unique_ptr<ObjectStore>> {
                      return std::make_unique<sim::SimObjectStore>(
                          bucket_, loop_, sim::SimObjectStore::Options{.process = "second"});
                    }};
  PrefixedStore first_part_{loop_, first_, "clusters/one/"};
  PrefixedStore second_part_{loop_, second_, "clusters/one/"};
};

Result<std::unique_ptr<StoreUnderTest>> MakeParts() { return std::make_unique<PartsUnderTest>(); }

// A simulated bucket with the names of the Go implementation, seen through two of its ways.
class OtherLayoutUnderTest final : public StoreUnderTest {
 public:
  Loop& loop() override { return loop_; }
  std::vector<ObjectStore*> stores() override { return {&first_named_, &second_named_}; }
  bool RunUntil(const std::function<bool()>& done) override {
    return scheduler_.RunUntilTrue(done, Duration::Minutes(1));
  }

 private:
  NstanceV2Names names_{{.shard = *ShardId::Parse("a")}};
  sim::SimScheduler scheduler_{7};
  sim::SimBucket bucket_{scheduler_, {}};
  sim::SimLoop loop_{scheduler_, Timestamp()};
  sim::SimObjectStore first_{bucket_, loop_, {.process = "first"}};
  sim::SimObjectStore second_{bucket_, loop_, {.process = "second"}};
  NstanceV2Store first_named_{loop_, first_, names_};
  NstanceV2Store second_named_{loop_, second_, names_};
};

Result<std::unique_ptr<StoreUnderTest>> MakeOtherLayout() {
  return std::make_unique<OtherLayoutUnderTest>();
}

INSTANTIATE_TEST_SUITE_P(
    Stores, ObjectStoreContractTest,
    testing::Values(StoreKind{.name = "Part", .make = &MakeParts},
                    StoreKind{.name = "OtherLayout", .make = &MakeOtherLayout},
                    StoreKind{.name = "File", .make = &MakeFileStores<1>},
                    StoreKind{.name = "FileTwice", .make = &MakeFileStores<2>},
                    StoreKind{.name = "Simulated", .make = [] { return MakeSimStores({}); }},
                    StoreKind{.name = "SimulatedErrorForALostRace",
                              .make = [] { return MakeSimStores({.lost_race_gets_error = true}); }},
                    StoreKind{.name = "SimulatedConflictForTheLoser",
                              .make = [] { return MakeSimStores({.rival_gets_conflict = true}); }}),
    StoreKindName);

}  // namespace
}  // namespace nstance::test

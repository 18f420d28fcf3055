// Planted bugs: ways in which the election could be wrong, each made by a wrapper around a port, so that
// the product carries no switch for any of them. The simulation must find every one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/object_key.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "test/sim/election_checkers.h"

namespace nstance::sim {

enum class Plant : std::uint8_t {
  kNone,
  kNoEpochCheck,       // A refused commit is made on top of whatever stands, under the old epoch.
  kDoubtIsDone,        // No read-back: a lost answer counts as success.
  kDoubtIsNotDone,     // No read-back: a lost answer counts as failure, and is sent again.
  kWallClock,          // Leases are timed by the wall clock.
  kNoMargin,           // A leader stops when a follower may start, not before.
  kNoTakeOverRewrite,  // A new leader reads the journal and acts without writing it.
};

[[nodiscard]] std::string_view PlantName(Plant plant);
[[nodiscard]] std::optional<Plant> ParsePlant(std::string_view name);

// Tells the checkers of every call and passes it on; the innermost wrapper of every process.
class WatchedStore final : public ObjectStore {
 public:
  WatchedStore(ObjectStore& store, ElectionCheckers& checkers, std::string process)
      : store_(store), checkers_(checkers), process_(std::move(process)) {}

  Pending Get(const ObjectKey& key, Done<Object> done) override;
  Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  Pending Delete(DeleteRequest request, Done<void> done) override;
  Pending List(ListRequest request, Done<ListPage> done) override;
  Pending PutUnconditionally(ObjectKey key, std::string bytes, Done<ObjectVersion> done) override;

 private:
  ObjectStore& store_;
  ElectionCheckers& checkers_;
  std::string process_;
};

// The bugs that sit between the product and its store.
class PlantedStore final : public ObjectStore {
 public:
  struct Options {
    Plant plant = Plant::kNone;
    ObjectKey journal_key;
    JournalIdentity identity;
  };
  PlantedStore(ObjectStore& store, Loop& loop, Options options)
      : store_(store), loop_(loop), options_(std::move(options)) {}

  // A new leadership begins.
  void NextTerm() { took_over_ = false; }

  Pending Get(const ObjectKey& key, Done<Object> done) override;
  Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  Pending Delete(DeleteRequest request, Done<void> done) override;
  Pending List(ListRequest request, Done<ListPage> done) override;
  Pending PutUnconditionally(ObjectKey key, std::string bytes, Done<ObjectVersion> done) override;

 private:
  // Reads what stands, puts ours on top under our own epoch, and writes that.
  void Rebase(const PutRequest& refused, Done<ObjectVersion> done);
  void WriteOnTop(const PutRequest& refused, const Object& found, Done<ObjectVersion> done);

  ObjectStore& store_;
  Loop& loop_;
  Options options_;
  bool took_over_ = false;
  Pending step_;
};

// Monotonic time that is the wall's.
class WallClockLoop final : public Loop {
 public:
  explicit WallClockLoop(Loop& loop) : loop_(loop) {}
  [[nodiscard]] Instant Now() const override {
    return Instant::FromClock(loop_.WallNow() - Timestamp());
  }
  [[nodiscard]] Timestamp WallNow() const override { return loop_.WallNow(); }
  void Post(Task task) override { loop_.Post(std::move(task)); }
  Pending CallAt(Instant at, Task task) override {
    return loop_.CallAt(loop_.Now() + (at - Now()), std::move(task));
  }

 private:
  Loop& loop_;
};

}  // namespace nstance::sim

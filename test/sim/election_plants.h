// Planted bugs: ways in which the election could be wrong, each made by a wrapper around a port, so
// that the product carries no switch for any of them. The simulation must find every one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
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

inline constexpr std::array kPlants = {
    Plant::kNoEpochCheck, Plant::kDoubtIsDone, Plant::kDoubtIsNotDone,
    Plant::kWallClock,    Plant::kNoMargin,    Plant::kNoTakeOverRewrite,
};

[[nodiscard]] std::string_view PlantName(Plant plant);
[[nodiscard]] std::optional<Plant> ParsePlant(std::string_view name);

// Tells the checkers of what one process asks of the store, and holds I09 and RU4 for it; the
// innermost wrapper of every process, below the planted bugs.
class WatchedStore final : public ObjectStore {
 public:
  // Whether the last write of an object may have landed without our knowing.
  struct Doubts {
    bool lease = false;
    bool journal = false;
  };

  WatchedStore(ObjectStore& store, ElectionCheckers& checkers,
               std::move_only_function<bool()> may_write_journal)
      : store_(store), checkers_(checkers), may_write_journal_(std::move(may_write_journal)) {}

  Pending Get(const ObjectKey& key, Done<Object> done) override;
  Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  Pending Delete(DeleteRequest request, Done<void> done) override;
  Pending List(ListRequest request, Done<ListPage> done) override;
  Pending PutUnconditionally(ObjectKey key, std::string bytes, Done<ObjectVersion> done) override;

  [[nodiscard]] bool journal_in_doubt() const { return journal_.in_doubt; }
  // As a saved memory has it: what was under way then will never be answered.
  [[nodiscard]] Doubts doubts() const {
    return {.lease = lease_.in_doubt || lease_.under_way,
            .journal = journal_.in_doubt || journal_.under_way};
  }
  void set_doubts(const Doubts& doubts) {
    lease_ = {.in_doubt = doubts.lease};
    journal_ = {.in_doubt = doubts.journal};
  }

 private:
  struct State {
    bool in_doubt = false;   // Answered with a doubt, and not read since.
    bool under_way = false;  // Sent, and neither answered nor read since.
  };
  [[nodiscard]] State& StateOf(const ObjectKey& key) {
    return key == checkers_.options().lease_key ? lease_ : journal_;
  }
  void Sent(const PutRequest& request);

  ObjectStore& store_;
  ElectionCheckers& checkers_;
  std::move_only_function<bool()> may_write_journal_;
  State lease_;
  State journal_;
};

// The bugs that sit between the product and its store.
class PlantedStore final : public ObjectStore {
 public:
  struct Options {
    Plant plant = Plant::kNone;
    ObjectKey journal_key;
    JournalIdentity identity;
    std::function<bool()> may_write;  // Whether the lease leaves time for one more write.
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
  // A write that may be followed by more steps; gone when its caller has lost interest.
  struct Rewrite {
    PutRequest request;
    Done<ObjectVersion> done;
    Pending step = {};
  };
  [[nodiscard]] Pending PutOrRebase(PutRequest request, Done<ObjectVersion> done);
  // Reads what stands, puts ours on top under our own epoch, and writes that.
  void Rebase(const std::shared_ptr<Rewrite>& rewrite);
  void WriteOnTop(const std::shared_ptr<Rewrite>& rewrite, const Object& found);

  ObjectStore& store_;
  Loop& loop_;
  Options options_;
  bool took_over_ = false;
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
  Pending WatchClock(Task told) override { return loop_.WatchClock(std::move(told)); }

 private:
  Loop& loop_;
};

}  // namespace nstance::sim

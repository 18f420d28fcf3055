// RecordStore: writes the records of instances, each by compare-and-swap, one write per record at a
// time, in the order asked.
//
//   records.Create(record, {.persist = Persist::kUntilDone}, done);
//   records.Update(id, {.persist = Persist::kOnce},
//                  [=](InstanceRecord& r) -> Status { r.provider_instance_id = vm; return {}; },
//                  done);
//
// An edit is a function of the record as the store holds it. When another write stands (a rival, or
// our own whose answer was lost) the record is read again and the edit runs again on what is there:
// facts are merged, decisions are made anew (RU2). So an edit must be right when it has been
// applied already.
//
//   persist      | the store does not answer, or the lease leaves no time
//   -------------+------------------------------------------------------------------------------
//   kOnce        | the error, with its outcome. The next edit of the record reads it first
//   kUntilDone   | tried again, 1 s x 2^n up to 30 s, until it succeeds or the store goes
//
// Guarantees, each held by a test:
//   - every write is stamped with epoch, seq, a fresh write_id and the time
//   - no write begins unless the leadership may start one
//   - a phase that may not follow the stored one is never written (kFailedPrecondition)
//   - a record of a higher epoch ends the leadership, and nothing is written
//   - at most 32 writes are under way; what waits goes in the order asked
//   - destroying it leaves no timer and no callback
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/fault_point.h"
#include "base/prng.h"
#include "base/result.h"
#include "core/back_off.h"
#include "core/instance_record.h"
#include "core/object_layout.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/secure_random.h"
#include "server/fleet/instance.h"
#include "storage/leader_scope.h"
#include "storage/settled_put.h"

namespace nstance {

class RecordStore final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;
    SecureRandom& random;
    Prng& jitter;
    LeaderScope& leader;
  };
  struct Options {
    ShardId shard;
    Duration settle_limit = Duration::Seconds(6);
  };
  enum class Persist : std::uint8_t { kOnce, kUntilDone };
  struct Manner {
    Persist persist = Persist::kOnce;
    Step step = Step::kNone;  // What the simulator knows the write as.
  };
  using Edit = std::move_only_function<Status(InstanceRecord&)>;
  using Done = std::move_only_function<void(Result<StoredRecord>)>;
  // Every record that was written or read again, before the one who asked is answered.
  using Changed = std::move_only_function<void(const StoredRecord&)>;

  RecordStore(Deps deps, Options options, Changed changed);
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;
  ~RecordStore();

  // A record that was read from the store. REQUIRES: unknown so far.
  void Adopt(StoredRecord stored);
  // The tombstone was removed: nothing is known under this id any more.
  void Forget(const InstanceId& id);

  // Create-only. kAlreadyExists: there is one, and it is not this one.
  void Create(InstanceRecord record, Manner manner, Done done);
  // kNotFound: no such record.
  void Update(const InstanceId& id, Manner manner, Edit edit, Done done);

 private:
  struct Job {
    std::optional<InstanceRecord> create;
    Edit edit;
    Manner manner = {};
    Done done;
    int conflicts = 0;
    std::string write_id;  // Of the last try, to know it again.
  };
  struct Lane {
    RecordKey key;
    std::optional<StoredRecord> stored = std::nullopt;
    bool unsure = false;  // The last write may have landed: read first.
    std::deque<Job> jobs = {};
    bool busy = false;
    BackOff back_off = {};
    std::unique_ptr<SettledPut> put = nullptr;
    std::optional<StoredRecord> writing = std::nullopt;
    Pending call = {};
  };

  [[nodiscard]] Lane& LaneOf(const RecordKey& key);
  void Push(Lane& lane, Job job);
  void Next(Lane& lane);
  void Run(Lane& lane);
  void Read(Lane& lane);
  void OnRead(Lane& lane, Result<Object> object);
  void Write(Lane& lane, InstanceRecord record);
  void OnWritten(Lane& lane, Result<ObjectVersion> version);
  void Again(Lane& lane, const Error& error);
  void Finish(Lane& lane, Result<StoredRecord> result);
  void Take(Lane& lane, StoredRecord stored);

  static constexpr std::size_t kMaxUnderWay = 32;

  Deps deps_;
  Options options_;
  Changed changed_;
  std::map<InstanceId, std::unique_ptr<Lane>> lanes_;
  std::deque<InstanceId> waiting_;
  std::size_t under_way_ = 0;
};

}  // namespace nstance

// RecordReader: reads all instance records of a shard, 32 at a time.
//
// Records that do not read are part of the result: a corrupt record is never treated as absent. A
// record that vanishes between listing and reading was removed by retention and is left out. Any
// other error of the store ends the reading.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/instance_record.h"
#include "core/object_key.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "server/fleet/instance.h"

namespace nstance {

struct ReadRecord {
  RecordKey key;
  // What was read, or why it does not read.
  Result<StoredRecord> stored;
};

class RecordReader final {
 public:
  using Done = std::move_only_function<void(Result<std::vector<ReadRecord>>)>;

  // `done` is called once, never from inside Start(), and may destroy this object.
  RecordReader(Loop& loop, ObjectStore& store, ShardId shard, Done done)
      : loop_(loop), store_(store), shard_(std::move(shard)), done_(std::move(done)) {}

  void Start();
  // Names below the prefix that are no record's.
  [[nodiscard]] const std::vector<std::string>& strangers() const { return strangers_; }

 private:
  struct Job {
    ObjectKey key;
    RecordKey record;
  };

  void NextPage(std::string token);
  void OnPage(Result<ListPage> page);
  void Fill();
  void OnObject(Job job, Result<Object> object);
  void Finish(Result<std::vector<ReadRecord>> result);

  static constexpr std::size_t kParallel = 32;
  static constexpr int kTries = 4;

  Loop& loop_;
  ObjectStore& store_;
  ShardId shard_;
  Done done_;
  std::deque<Job> jobs_;
  std::map<ObjectKey, Pending> calls_;
  std::map<ObjectKey, int> tries_;
  std::vector<ReadRecord> read_;
  std::vector<std::string> strangers_;
  bool listed_ = false;
  Pending page_;
};

}  // namespace nstance

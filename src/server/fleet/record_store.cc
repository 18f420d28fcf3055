#include "server/fleet/record_store.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/text.h"

namespace nstance {
namespace {

// Another write won this often in a row: the caller decides anew.
constexpr int kMaxConflicts = 4;
constexpr std::size_t kWriteIdBytes = 16;

}  // namespace

RecordStore::RecordStore(Deps deps, Options options, Changed changed)
    : deps_(deps), options_(std::move(options)), changed_(std::move(changed)) {}

RecordStore::~RecordStore() = default;

void RecordStore::Adopt(StoredRecord stored) {
  Lane& lane = LaneOf({.tenant = stored.record.tenant, .instance_id = stored.record.instance_id});
  CHECK(!lane.stored && !lane.busy, "{}", stored.record.instance_id.text());
  lane.stored = std::move(stored);
}

void RecordStore::Forget(const InstanceId& id) {
  const auto at = lanes_.find(id);
  if (at == lanes_.end()) return;
  CHECK(!at->second->busy && at->second->jobs.empty(), "{}", id.text());
  lanes_.erase(at);
}

void RecordStore::Create(InstanceRecord record, Manner manner, Done done) {
  Lane& lane = LaneOf({.tenant = record.tenant, .instance_id = record.instance_id});
  Push(lane, {.create = std::move(record),
              .edit = {},
              .manner = manner,
              .done = std::move(done),
              .write_id = {}});
}

void RecordStore::Update(const InstanceId& id, Manner manner, Edit edit, Done done) {
  const auto at = lanes_.find(id);
  if (at == lanes_.end()) {
    // Told in a later turn, as every answer.
    auto tell = std::make_shared<Done>(std::move(done));
    deps_.loop.Post([tell] { (*tell)(Fail(NotFound("the instance has no record"))); });
    return;
  }
  Push(*at->second, {.create = {},
                     .edit = std::move(edit),
                     .manner = manner,
                     .done = std::move(done),
                     .write_id = {}});
}

RecordStore::Lane& RecordStore::LaneOf(const RecordKey& key) {
  std::unique_ptr<Lane>& lane = lanes_[key.instance_id];
  if (lane == nullptr) lane = std::make_unique<Lane>(Lane{.key = key});
  return *lane;
}

void RecordStore::Push(Lane& lane, Job job) {
  lane.jobs.push_back(std::move(job));
  if (!lane.busy) Next(lane);
}

// Begins the lane's next job as soon as there is room for one more write.
void RecordStore::Next(Lane& lane) {
  if (lane.jobs.empty()) {
    lane.busy = false;
    return;
  }
  lane.busy = true;
  if (under_way_ >= kMaxUnderWay) {
    waiting_.push_back(lane.key.instance_id);
    return;
  }
  ++under_way_;
  lane.call = deps_.loop.CallAfter({}, [this, &lane] { Run(lane); });
}

void RecordStore::Run(Lane& lane) {
  Job& job = lane.jobs.front();
  if (lane.unsure) return Read(lane);
  if (job.create) {
    if (!lane.stored) return Write(lane, *job.create);
    if (lane.stored->record.write_id == job.write_id && !job.write_id.empty()) {
      return Finish(lane, *lane.stored);
    }
    return Finish(lane, Fail(AlreadyExists("the instance has a record already")));
  }
  if (!lane.stored) return Finish(lane, Fail(NotFound("the instance has no record")));
  if (lane.stored->record.write_id == job.write_id && !job.write_id.empty()) {
    return Finish(lane, *lane.stored);  // Our own write, whose answer was lost.
  }
  InstanceRecord next = lane.stored->record;
  const InstancePhase before = next.phase;
  if (const Status edited = job.edit(next); !edited.has_value()) {
    return Finish(lane, Fail(edited.error()));
  }
  if (!MayFollow(before, next.phase)) {
    return Finish(lane,
                  Fail(FailedPrecondition(fmt::format("an instance that is {} cannot become {}",
                                                      PhaseName(before), PhaseName(next.phase)))));
  }
  if (next == lane.stored->record) return Finish(lane, *lane.stored);
  Write(lane, std::move(next));
}

void RecordStore::Write(Lane& lane, InstanceRecord record) {
  if (!deps_.leader.may_start(deps_.leader.store_timeout)) {
    return Again(lane, Unavailable("the lease is about to end"));
  }
  Job& job = lane.jobs.front();
  std::array<std::uint8_t, kWriteIdBytes> random{};
  deps_.random.Fill(random);
  job.write_id = Base64UrlEncode(random);
  record.epoch = deps_.leader.epoch;
  record.seq = deps_.leader.seq();
  record.write_id = job.write_id;
  record.last_updated = deps_.loop.WallNow();
  PutCondition condition = IfAbsent{};
  if (lane.stored) condition = IfVersion{lane.stored->version};
  PutRequest put = {.key = InstanceRecordKey(options_.shard, lane.key),
                    .bytes = EncodeInstanceRecord(record),
                    .condition = std::move(condition)};
  lane.writing = StoredRecord{.record = std::move(record), .version = {}};
  lane.put = std::make_unique<SettledPut>(
      SettledPut::Deps{deps_.loop, deps_.store, deps_.jitter},
      SettledPut::Request{.put = std::move(put),
                          .deadline = deps_.loop.Now() + options_.settle_limit},
      [this, &lane](Result<ObjectVersion> version) { OnWritten(lane, std::move(version)); });
  AtStep(job.manner.step);
  lane.put->Start();
}

void RecordStore::OnWritten(Lane& lane, Result<ObjectVersion> version) {
  if (version.has_value()) {
    StoredRecord written = std::move(*lane.writing);
    written.version = std::move(version).value();
    lane.writing.reset();
    Take(lane, written);
    return Finish(lane, std::move(written));
  }
  lane.writing.reset();
  if (version.error().code != Code::kAborted) {
    lane.unsure = lane.unsure || version.error().outcome == Outcome::kMaybeDone;
    return Again(lane, version.error());
  }
  lane.unsure = true;
  if (++lane.jobs.front().conflicts > kMaxConflicts) {
    return Finish(lane, Fail(version.error()));
  }
  Read(lane);
}

void RecordStore::Read(Lane& lane) {
  lane.call =
      deps_.store.Get(InstanceRecordKey(options_.shard, lane.key),
                      [this, &lane](Result<Object> object) { OnRead(lane, std::move(object)); });
}

void RecordStore::OnRead(Lane& lane, Result<Object> object) {
  if (!object.has_value() && object.error().code != Code::kNotFound) {
    return Again(lane, object.error());
  }
  lane.unsure = false;
  if (!object.has_value()) {
    lane.stored.reset();
    return Run(lane);
  }
  Result<InstanceRecord> record = DecodeInstanceRecord(object->bytes, lane.key);
  if (!record.has_value()) return Finish(lane, Fail(std::move(record).error()));
  if (record->epoch > deps_.leader.epoch && !Planted(Plant::kDropsEpochCheck)) {
    Error why =
        Aborted(fmt::format("the record of {} carries epoch {}, ours is {}",
                            lane.key.instance_id.text(), record->epoch, deps_.leader.epoch));
    deps_.leader.step_down(why);
    return Finish(lane, Fail(Unavailable("this server no longer leads")));
  }
  if (lane.stored && Planted(Plant::kForcesRecord)) {
    lane.stored->version = std::move(object->version);
    return Run(lane);
  }
  Take(lane, {.record = std::move(record).value(), .version = std::move(object->version)});
  Run(lane);
}

void RecordStore::Take(Lane& lane, StoredRecord stored) {
  lane.stored = std::move(stored);
  changed_(*lane.stored);
}

void RecordStore::Again(Lane& lane, const Error& error) {
  if (lane.jobs.front().manner.persist == Persist::kOnce) return Finish(lane, Fail(error));
  lane.call = deps_.loop.CallAfter(lane.back_off.Next(deps_.jitter), [this, &lane] { Run(lane); });
}

// The one who asked may ask for more from inside; lanes stay where they are.
void RecordStore::Finish(Lane& lane, Result<StoredRecord> result) {
  Done done = std::move(lane.jobs.front().done);
  lane.jobs.pop_front();
  lane.back_off.Reset();
  --under_way_;
  Next(lane);
  if (!waiting_.empty() && under_way_ < kMaxUnderWay) {
    const InstanceId next = waiting_.front();
    waiting_.pop_front();
    Next(*lanes_.at(next));
  }
  done(std::move(result));
}

}  // namespace nstance

#include "server/fleet/record_reader.h"

#include "base/fault_point.h"
#include "core/object_layout.h"

namespace nstance {

void RecordReader::Start() { NextPage({}); }

void RecordReader::NextPage(std::string token) {
  AtStep(Step::kL5);
  page_ = store_.List({.prefix = InstanceRecordPrefix(shard_), .page_token = std::move(token)},
                      [this](Result<ListPage> page) { OnPage(std::move(page)); });
}

void RecordReader::OnPage(Result<ListPage> page) {
  if (!page.has_value()) return Finish(Fail(std::move(page).error().Under("listing records")));
  for (const ListedObject& object : page->objects) {
    Result<RecordKey> record = ParseInstanceRecordKey(shard_, object.key);
    if (!record.has_value()) {
      strangers_.push_back(object.key.text());
      continue;
    }
    jobs_.push_back({.key = object.key, .record = std::move(record).value()});
  }
  listed_ = page->next_page_token.empty();
  if (!listed_) NextPage(std::move(page->next_page_token));
  Fill();
}

void RecordReader::Fill() {
  while (calls_.size() < kParallel && !jobs_.empty()) {
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    const ObjectKey key = job.key;
    AtStep(Step::kL5);
    calls_[key] = store_.Get(key, [this, job = std::move(job)](Result<Object> object) mutable {
      OnObject(std::move(job), std::move(object));
    });
  }
  if (listed_ && calls_.empty() && jobs_.empty()) Finish(std::move(read_));
}

void RecordReader::OnObject(Job job, Result<Object> object) {
  calls_.erase(job.key);
  if (object.has_value()) {
    Result<InstanceRecord> decoded = DecodeInstanceRecord(object->bytes, job.record);
    Result<StoredRecord> stored =
        decoded.has_value() ? Result<StoredRecord>(StoredRecord{
                                  .record = std::move(decoded).value(), .version = object->version})
                            : Fail(std::move(decoded).error());
    read_.push_back({.key = std::move(job.record), .stored = std::move(stored)});
  } else if (object.error().code != Code::kNotFound) {
    if (++tries_[job.key] >= kTries) {
      return Finish(Fail(std::move(object).error().Under(job.key.text())));
    }
    jobs_.push_back(std::move(job));
  }
  Fill();
}

void RecordReader::Finish(Result<std::vector<ReadRecord>> result) {
  if (!done_) return;
  calls_.clear();
  jobs_.clear();
  Done done = std::exchange(done_, nullptr);
  done(std::move(result));
}

}  // namespace nstance

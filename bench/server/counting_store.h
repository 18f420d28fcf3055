// CountingStore: counts the records of instances that another store has written.
#pragma once

#include <cstdint>
#include <utility>

#include "ports/object_store.h"

namespace nstance::bench {

class CountingStore final : public ObjectStore {
 public:
  explicit CountingStore(ObjectStore& store) : store_(store) {}

  // Writes of records that the store has answered with success.
  [[nodiscard]] std::int64_t record_writes() const { return record_writes_; }

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override {
    return store_.Get(key, std::move(done));
  }
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override {
    return store_.Head(key, std::move(done));
  }
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override {
    if (!request.key.text().starts_with("instance/")) {
      return store_.Put(std::move(request), std::move(done));
    }
    return store_.Put(std::move(request), [this, done = std::move(done)](auto version) mutable {
      if (version.has_value()) ++record_writes_;
      done(std::move(version));
    });
  }
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override {
    return store_.Delete(std::move(request), std::move(done));
  }
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override {
    return store_.List(std::move(request), std::move(done));
  }
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override {
    return store_.PutUnconditionally(std::move(key), std::move(bytes), std::move(done));
  }

 private:
  ObjectStore& store_;
  std::int64_t record_writes_ = 0;
};

}  // namespace nstance::bench

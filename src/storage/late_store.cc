#include "storage/late_store.h"

namespace nstance {
namespace {

constexpr Duration kGap = Duration::Seconds(1);

}  // namespace

ObjectStore* LateStore::Try() {
  if (store_ != nullptr) return store_.get();
  const Instant now = loop_.Now();
  if (tried_at_ && now - *tried_at_ < kGap) return nullptr;
  tried_at_ = now;
  Result<std::unique_ptr<ObjectStore>> opened = open_();
  if (!opened.has_value()) {
    why_ = Unavailable(opened.error().message);
    return nullptr;
  }
  store_ = std::move(opened).value();
  return store_.get();
}

template <class T>
Pending LateStore::Refuse(Done<T> done) {
  return loop_.CallAfter({}, [why = why_, done = std::move(done)]() mutable { done(Fail(why)); });
}

Pending LateStore::Get(const ObjectKey& key, Done<Object> done) {
  ObjectStore* store = Try();
  return store == nullptr ? Refuse(std::move(done)) : store->Get(key, std::move(done));
}

Pending LateStore::Head(const ObjectKey& key, Done<ObjectHead> done) {
  ObjectStore* store = Try();
  return store == nullptr ? Refuse(std::move(done)) : store->Head(key, std::move(done));
}

Pending LateStore::Put(PutRequest request, Done<ObjectVersion> done) {
  ObjectStore* store = Try();
  return store == nullptr ? Refuse(std::move(done))
                          : store->Put(std::move(request), std::move(done));
}

Pending LateStore::Delete(DeleteRequest request, Done<void> done) {
  ObjectStore* store = Try();
  return store == nullptr ? Refuse(std::move(done))
                          : store->Delete(std::move(request), std::move(done));
}

Pending LateStore::List(ListRequest request, Done<ListPage> done) {
  ObjectStore* store = Try();
  return store == nullptr ? Refuse(std::move(done))
                          : store->List(std::move(request), std::move(done));
}

Pending LateStore::PutUnconditionally(ObjectKey key, std::string bytes, Done<ObjectVersion> done) {
  ObjectStore* store = Try();
  return store == nullptr
             ? Refuse(std::move(done))
             : store->PutUnconditionally(std::move(key), std::move(bytes), std::move(done));
}

}  // namespace nstance

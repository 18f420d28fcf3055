// PrefixedStore: the part of another store whose keys begin with a prefix, as a store of its own.
//
//   PrefixedStore shard(store, "clusters/c1/");
//   shard.Get(*ObjectKey::Parse("ca.crt"), done);      // clusters/c1/ca.crt
//
// Listings show keys without the prefix. A key that becomes too long with it is refused with
// kInvalidArgument.
#pragma once

#include <string>

#include "base/result.h"
#include "ports/loop.h"
#include "ports/object_store.h"

namespace nstance {

// Ends with `/`, unless empty: what --prefix and `server.storage.prefix` mean. kInvalidArgument
// when no key can begin with it.
[[nodiscard]] Result<std::string> CheckStorePrefix(std::string prefix);

class PrefixedStore final : public ObjectStore {
 public:
  // All outlive it. REQUIRES: CheckStorePrefix() gave the prefix.
  PrefixedStore(Loop& loop, ObjectStore& store, std::string prefix)
      : loop_(loop), store_(store), prefix_(std::move(prefix)) {}

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override;
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override;
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override;
  [[nodiscard]] Pending WatchTime(TimeTold told) override {
    return store_.WatchTime(std::move(told));
  }
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override;

 private:
  [[nodiscard]] Result<ObjectKey> Whole(const ObjectKey& key) const;
  template <class T>
  [[nodiscard]] Pending Refuse(Error error, Done<T> done);

  Loop& loop_;
  ObjectStore& store_;
  std::string prefix_;
};

}  // namespace nstance

// NstanceV2Store: a bucket of layout `nstance-v2` (core/nstance_v2.h), as a store with our names.
//
//   NstanceV2Store store(loop, bucket, NstanceV2Names({.shard = shard}));
//   store.Get(*ObjectKey::Parse("journal/a.json"), done);      // shard/a/journal.json
//
// Whoever uses it need not know that there is another layout. Versions, conditions and errors are
// the bucket's own. A key that means something else over there is refused with kInvalidArgument.
//
// Listings come in the order of our names, as every store's do. Where the other names sort
// differently (instance records) or lie in several places, everything that begins so is read with
// the first page, sorted and handed out page by page; so a listing shows one moment, and costs as
// many requests as there are pages below. Rests of the last few listings are kept; one that was
// dropped is read again and goes on behind the last key.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/nstance_v2.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"

namespace nstance {

class NstanceV2Store final : public ObjectStore {
 public:
  // Loop and store outlive it.
  NstanceV2Store(Loop& loop, ObjectStore& bucket, NstanceV2Names names);
  ~NstanceV2Store() override;

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override;
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override;
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override;
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override;

 private:
  // A listing that reads everything first.
  struct Gathering;
  struct Rest {
    std::string prefix;
    std::string token;
    std::vector<ListedObject> objects;  // Sorted.
  };

  template <class T>
  [[nodiscard]] Pending Refuse(Error error, Done<T> done);
  [[nodiscard]] Pending ListInOrder(ListRequest request, std::string region, Done<ListPage> done);
  [[nodiscard]] Pending Gather(ListRequest request, std::vector<std::string> regions,
                               Done<ListPage> done);
  void GatherNext(std::uint64_t number, std::string page_token);
  void OnPage(std::uint64_t number, const Result<ListPage>& page);
  void Finish(std::uint64_t number, Result<ListPage> page);
  // The first page of what is there; the rest is kept.
  [[nodiscard]] ListPage Cut(std::vector<ListedObject> objects, const ListRequest& request);

  Loop& loop_;
  ObjectStore& bucket_;
  NstanceV2Names names_;
  std::map<std::uint64_t, std::unique_ptr<Gathering>> gatherings_;
  std::uint64_t next_ = 1;
  std::deque<Rest> rests_;  // The oldest first.
};

}  // namespace nstance

// ObjectStore: where everything durable lives.
//
// Writes are conditional; the only exception is a method of its own, for repair by an
// administrator. Adapters translate whatever their store answers into four results (nobody above
// sees an HTTP status):
//
//   applied      the new version     durable; empty when the store did not tell it
//   conflict     kAborted, kNotDone  another write stands: read and decide again
//   not done     kUnavailable, kNotDone    surely without effect; may be sent again
//   maybe done   kUnavailable or kDeadlineExceeded, kMaybeDone   the only legal next step is a read
//
// An adapter never repeats a write by itself and never guesses: a refused condition (412, 404 on an
// update, 409, an existing file) is `conflict`, also when it may be our own earlier write; a 5xx or
// a lost answer is `maybe done`. storage/settled_put.h settles both by reading back, in one place,
// and learns a version that was not told.
//
// Reads: kNotFound is the store's positive word that there is no such object. Every other error
// says nothing about it. Reads may be repeated inside the deadline by the adapter.
//
// Versions and conditions: core/object_version.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/object_key.h"
#include "core/object_version.h"
#include "ports/pending.h"

namespace nstance {

struct Object {
  std::string bytes;
  ObjectVersion version;
  // The store's clock when it answered (the `Date` of HTTP); empty where there is none.
  std::optional<Timestamp> store_time = std::nullopt;
  // When these bytes were written, by the store's clock; empty where it does not tell. For people.
  std::optional<Timestamp> modified_at = std::nullopt;
};

struct ObjectHead {
  ObjectVersion version;
  std::uint64_t size = 0;
};

struct PutRequest {
  ObjectKey key;
  std::string bytes;
  PutCondition condition;
};

struct DeleteRequest {
  ObjectKey key;
  // Empty: whatever is there goes. Deleting what is not there is success.
  std::optional<ObjectVersion> version;
};

struct ListRequest {
  // Text that keys start with; need not end at a `/`. Empty lists everything.
  std::string prefix;
  // From the page before; empty for the first.
  std::string page_token = {};
  // At most this many keys; the adapter may return fewer.
  std::size_t page_size = 1'000;
};

struct ListedObject {
  ObjectKey key;
  ObjectVersion version;  // Empty where a listing does not tell.
  std::uint64_t size = 0;
};

struct ListPage {
  std::vector<ListedObject> objects;  // In ascending order of keys, also across pages.
  std::string next_page_token;        // Empty: this was the last page.
};

class ObjectStore {
 public:
  // An object above this is refused, on write with kInvalidArgument, on read with
  // kResourceExhausted.
  static constexpr std::size_t kMaxObjectBytes = std::size_t{8} * 1024 * 1024;

  ObjectStore() = default;
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;
  virtual ~ObjectStore() = default;

  template <class T>
  using Done = std::move_only_function<void(Result<T>)>;

  // All answers come on the loop that the store was made for (ports/pending.h), each within the
  // deadline that the store was made with (`server.store_timeout`).
  [[nodiscard]] virtual Pending Get(const ObjectKey& key, Done<Object> done) = 0;
  [[nodiscard]] virtual Pending Head(const ObjectKey& key, Done<ObjectHead> done) = 0;
  [[nodiscard]] virtual Pending Put(PutRequest request, Done<ObjectVersion> done) = 0;
  [[nodiscard]] virtual Pending Delete(DeleteRequest request, Done<void> done) = 0;
  [[nodiscard]] virtual Pending List(ListRequest request, Done<ListPage> done) = 0;

  // `told` runs on the loop with the store's clock (the `Date` of HTTP) whenever an answer tells
  // it, whatever the answer, and before it; for as long as the Pending is there. A later watcher
  // takes the place of the one before. A store without a clock of its own tells nothing.
  using TimeTold = std::function<void(Timestamp)>;
  [[nodiscard]] virtual Pending WatchTime(TimeTold /*told*/) { return {}; }  // NOLINT(*value-param)

  // Overwrites whatever is there. Only for repair commands that an administrator has asked for.
  [[nodiscard]] virtual Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                                   Done<ObjectVersion> done) = 0;
};

}  // namespace nstance

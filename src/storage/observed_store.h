// ObservedStore: an object store that counts what is asked of another one, and remembers when that
// one last answered.
//
//   store_requests_total{op,outcome}   get, head, put, delete, list; ok, not_found, conflict, error
//   store_request_seconds{op,outcome}
//
// "Answered" is any answer that the store itself gave: also that something is not there, or that a
// condition did not hold. It is what `/readyz` asks for.
//
// StoreNow() is the store's clock carried on by our monotonic one, so that a wall clock of ours
// that is wrong, or is moved, does not matter to it. Every answer tells it anew, the renewals of a
// leader among them: so no monotonic clock that ran at a wrong rate carries an old one far away.
#pragma once

#include <optional>
#include <string_view>

#include "base/metrics.h"
#include "ports/loop.h"
#include "ports/object_store.h"

namespace nstance {

class ObservedStore final : public ObjectStore {
 public:
  // All outlive the store.
  ObservedStore(Loop& loop, ObjectStore& store, metrics::Registry& metrics)
      : loop_(loop),
        store_(store),
        metrics_(metrics),
        time_watch_(store.WatchTime(
            [this](Timestamp time) { store_time_ = {.time = time, .at = loop_.Now()}; })) {}

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override;
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override;
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override;
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override;

  [[nodiscard]] std::optional<Instant> answered_at() const { return answered_at_; }
  // Empty: no answer has told the store's time yet.
  [[nodiscard]] std::optional<Timestamp> StoreNow() const;

 private:
  template <class T>
  [[nodiscard]] Done<T> Observe(std::string_view op, Done<T> done);
  void Count(std::string_view op, const Error* error, Instant begun);

  Loop& loop_;
  ObjectStore& store_;
  metrics::Registry& metrics_;
  std::optional<Instant> answered_at_ = std::nullopt;
  struct StoreTime {
    Timestamp time = {};
    Instant at = {};  // When we heard it.
  };
  std::optional<StoreTime> store_time_ = std::nullopt;
  Pending time_watch_;
};

}  // namespace nstance

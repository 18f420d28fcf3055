#include "storage/observed_store.h"

#include <array>
#include <utility>

namespace nstance {
namespace {

const metrics::Family& Requests() {
  static const metrics::Family kFamily = {.name = "store_requests_total",
                                          .help = "Requests to the object store.",
                                          .labels = {"op", "outcome"},
                                          .buckets = {}};
  return kFamily;
}

const metrics::Family& Seconds() {
  static const metrics::Family kFamily = {
      .name = "store_request_seconds",
      .help = "Time until the object store answered.",
      .labels = {"op", "outcome"},
      .buckets = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}};
  return kFamily;
}

std::string_view OutcomeOf(const Error* error) {
  if (error == nullptr) return "ok";
  if (error->code == Code::kNotFound) return "not_found";
  if (error->code == Code::kAborted) return "conflict";
  return "error";
}

}  // namespace

void ObservedStore::Count(std::string_view op, const Error* error, Instant begun) {
  const std::string_view outcome = OutcomeOf(error);
  const Instant now = loop_.Now();
  if (outcome != "error") answered_at_ = now;
  const std::array labels = {op, outcome};
  metrics_.Counter(Requests(), labels).Add();
  metrics_.Histogram(Seconds(), labels)
      .Observe(static_cast<double>((now - begun).nanoseconds()) / 1e9);
}

template <class T>
ObjectStore::Done<T> ObservedStore::Observe(std::string_view op, Done<T> done) {
  return [this, op, begun = loop_.Now(), done = std::move(done)](Result<T> answer) mutable {
    Count(op, answer.has_value() ? nullptr : &answer.error(), begun);
    done(std::move(answer));
  };
}

std::optional<Timestamp> ObservedStore::StoreNow() const {
  if (!store_time_) return std::nullopt;
  return store_time_->time + (loop_.Now() - store_time_->at);
}

Pending ObservedStore::Get(const ObjectKey& key, Done<Object> done) {
  return store_.Get(key, Observe<Object>("get", std::move(done)));
}
Pending ObservedStore::Head(const ObjectKey& key, Done<ObjectHead> done) {
  return store_.Head(key, Observe<ObjectHead>("head", std::move(done)));
}
Pending ObservedStore::Put(PutRequest request, Done<ObjectVersion> done) {
  return store_.Put(std::move(request), Observe<ObjectVersion>("put", std::move(done)));
}
Pending ObservedStore::Delete(DeleteRequest request, Done<void> done) {
  return store_.Delete(std::move(request), Observe<void>("delete", std::move(done)));
}
Pending ObservedStore::List(ListRequest request, Done<ListPage> done) {
  return store_.List(std::move(request), Observe<ListPage>("list", std::move(done)));
}
Pending ObservedStore::PutUnconditionally(ObjectKey key, std::string bytes,
                                          Done<ObjectVersion> done) {
  return store_.PutUnconditionally(std::move(key), std::move(bytes),
                                   Observe<ObjectVersion>("put", std::move(done)));
}

}  // namespace nstance

#include "admin/shard/lease_news.h"

#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "admin/shard/words.h"
#include "base/check.h"
#include "core/lease.h"
#include "core/nstance_v2.h"
#include "core/object_key.h"

namespace nstance::admin {
namespace {

std::optional<Duration> AgeOf(const Object& object, const LeaseRecord& record, Timestamp now) {
  if (object.modified_at) return object.store_time.value_or(now) - *object.modified_at;
  if (record.last_updated.unix_seconds() > 0) return now - record.last_updated;
  return std::nullopt;
}

ObjectKey KeyOf(const std::string& text) {
  Result<ObjectKey> key = ObjectKey::Parse(text);
  CHECK(key.has_value(), "{}", text);
  return *std::move(key);
}

// "3s ago"; where nothing tells when, "at a time that is not known".
std::string AgoText(const std::optional<Duration>& age) {
  return age ? Age(*age) + " ago" : "at a time that is not known";
}

}  // namespace

std::string LeaseClause(const Result<Object>& object, Timestamp now) {
  if (!object && object.error().code == Code::kNotFound) {
    return "the bucket has no lease of it: no server has led it yet, or --storage-bucket and "
           "--storage-prefix are another cluster's";
  }
  if (!object) {
    return fmt::format("its lease cannot be read: {}; check --storage-provider, --storage-bucket",
                       object.error().message);
  }
  const DecodedLease lease = DecodeLease(object->bytes);
  const std::optional<Duration> age = AgeOf(*object, lease.record, now);
  if (lease.form != LeaseForm::kValid) {
    return fmt::format("its lease, written {}, does not read: {}", AgoText(age), lease.flaw);
  }
  const LeaseRecord& record = lease.record;
  const std::string holder = fmt::format("{} ({})", record.leader_id, record.leader_addr);
  if (record.released) {
    return fmt::format("its lease was given back by {} {}: start a server of it", holder,
                       AgoText(age));
  }
  if (age && *age > record.lease) {
    return fmt::format(
        "its lease ran out: {} held it, last renewed {}: start a server of it, or see why none "
        "reaches the bucket",
        holder, AgoText(age));
  }
  return fmt::format(
      "its lease is held by {}, renewed {}: correct --servers, or see why that server's operator "
      "port is not reached",
      holder, AgoText(age));
}

Pending ReadLease(const LeaseBucket& bucket, const ShardId& shard, LeaseTold told) {
  struct Reading {
    ObjectStore& store;
    LeaseTold told;
    Pending first = {};
    Pending second = {};
  };
  const auto reading = std::make_shared<Reading>(Reading{*bucket.store, std::move(told)});
  const ObjectKey theirs = KeyOf(NstanceV2ShardScope(shard) + "leader.json");
  if (bucket.layout == LayoutFlag::kNstanceV2) {
    reading->first = reading->store.Get(
        theirs, [at = reading.get()](const Result<Object>& object) { at->told(object); });
  } else {
    const bool both = bucket.layout == LayoutFlag::kAuto;
    reading->first =
        reading->store.Get(KeyOf(fmt::format("{}leader/{}.json", bucket.prefix, shard.text())),
                           [at = reading.get(), theirs, both](const Result<Object>& object) {
                             const bool absent = !object && object.error().code == Code::kNotFound;
                             if (!both || !absent) return at->told(object);
                             at->second = at->store.Get(
                                 theirs, [at](const Result<Object>& other) { at->told(other); });
                           });
  }
  return Pending([reading] {
    reading->first = {};
    reading->second = {};
  });
}

}  // namespace nstance::admin

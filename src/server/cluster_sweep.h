// ClusterSweep: removes what the cluster's objects keep past their time (formats.md 5): operator
// nonces, operator records and certificate log entries. Run by the holder of the cluster lease.
//
//   object                     | removed
//   ---------------------------+-------------------------------------------------------------------
//   operator-nonce/{sha}.pem   | 2 d after it was written (no token lives longer than a day)
//   operator/{tenant}.{k}.json | 30 d after `expires_at`
//   certlog/{shard}/...json    | `certlog_retention` after the last `expires_at` in it
//
// A sweep looks at the kinds one after the other, page by page, at most 1,000 objects of each, and
// remembers where it was: a large bucket is worked through in several sweeps. It reads before it
// removes (a listing does not tell when something was written) and removes the version that it has
// read, at most 100 objects per sweep. What is not due is not read again: the sweep remembers until
// when a version stays (of 20,000 objects), and a log entry's name tells when it was written. What
// does not read is left alone and logged. A nonce whose store does not tell when it was written is
// timed from when it was first seen here.
//
// Guarantees, each held by a test:
//   - nothing is removed before its time, and nothing while the lease is not ours
//   - a record that was renewed meanwhile stays
//   - what has been read and has not changed is not read again before its time
//   - an error ends the sweep; the next one begins where this one was
//   - destroying it leaves no timer and no callback
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "base/log.h"
#include "base/name.h"
#include "base/result.h"
#include "base/time.h"
#include "core/object_key.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"

namespace nstance {

class ClusterSweep final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;          // Of the shard: certificate logs of all shards beside ours.
    ObjectStore& cluster_store;  // Of the cluster's objects.
    log::Logger log;
  };
  struct Terms {
    Duration interval = Duration::Minutes(2);  // Zero: the sweep of providers is off; hourly here.
    Duration certlog_retention = Duration::Days(30);
  };
  struct Owner {
    // Whether the cluster lease is ours, asked in the turn that removes something.
    std::function<bool()> leads;
    std::function<Terms()> terms;
    // An operator's record is gone.
    std::function<void(const TenantId&, const std::string& storage_key)> operator_removed =
        [](const TenantId&, const std::string&) {};
  };

  ClusterSweep(Deps deps, Owner owner) : deps_(std::move(deps)), owner_(std::move(owner)) {}
  ClusterSweep(const ClusterSweep&) = delete;
  ClusterSweep& operator=(const ClusterSweep&) = delete;

  void Start() { Later(); }

  // Since the start.
  [[nodiscard]] std::uint64_t removed() const { return removed_; }

  static constexpr std::size_t kRemovals = 100;
  static constexpr std::size_t kLooks = 1'000;
  static constexpr Duration kNonceLife = Duration::Days(2);
  static constexpr Duration kOperatorRetention = Duration::Days(30);

 private:
  enum class Kind : std::uint8_t { kNonces, kOperators, kLogs };
  struct Known {
    ObjectVersion version;
    Timestamp due;
  };
  struct Place {
    std::string page = {};   // Where the next listing goes on.
    std::size_t looked = 0;  // In this sweep.
  };

  void Later();
  void Begin();
  void NextKind();
  void List();
  void OnPage(Result<ListPage> page);
  void NextObject();
  void OnObject(const Result<Object>& object);
  void Remove(const ObjectVersion& version);
  void OnRemoved(const Status& removed);
  void End();
  // Whether it is known without reading that the object stays for now.
  [[nodiscard]] bool Stays(const ListedObject& object) const;
  // When the object's time is over. An error: it does not read.
  [[nodiscard]] Result<Timestamp> DueOf(const Object& object) const;
  void Remember(const ObjectVersion& version, Timestamp due);
  [[nodiscard]] ObjectStore& store() const {
    return kind_ == Kind::kLogs ? deps_.store : deps_.cluster_store;
  }

  Deps deps_;
  Owner owner_;
  Kind kind_ = Kind::kNonces;
  std::map<Kind, Place> places_;
  std::deque<ObjectKey> keys_;
  std::string next_page_;
  std::map<ObjectKey, Known> known_;
  std::size_t removals_ = 0;
  std::uint64_t removed_ = 0;
  Pending timer_;
  Pending call_;
};

}  // namespace nstance

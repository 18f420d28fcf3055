// FleetCache: keeps the cache on disk (ports/cache.h) in step with the table of one leadership.
//
// The cache is written and never asked: a record's row lacks what only the record has (its
// configuration, claims, marks), so the table is built from records, journal and listing alone, and
// a cache that is deleted, damaged or old at any moment changes nothing but what is written again.
// What an earlier leadership left is read once, to take out the rows of instances and groups that
// are no more. A cache that begins anew in the middle of a leadership is filled again at once.
//
//   FleetCache rows(loop, cache);
//   rows.Begin(table);                   // The table is built.
//   rows.Write(instance);                // Its record or its VM has changed.
//   rows.Report(instance);               // Health: on a change of substance, else once a minute.
//
// A steady report allocates nothing (LB11): what is due for its row of the minute is gathered and
// written every few seconds, all in one batch.
//
// Without a cache (null) it does nothing.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ports/cache.h"
#include "ports/loop.h"
#include "ports/pending.h"
#include "server/fleet/instance.h"
#include "server/groups_snapshot.h"

namespace nstance {

class FleetCache final {
 public:
  // The loop outlives it.
  FleetCache(Loop& loop, Cache* cache) : loop_(loop), cache_(cache) {}

  struct Table {
    std::function<bool(const InstanceId&)> lives;  // Whether the id is in it.
    // Calls the given function for each instance.
    std::function<void(const std::function<void(Instance&)>&)> each;
  };
  // The table is there: all of it is written, and what else the disk holds goes.
  void Begin(Table table);

  // Nothing for what is only intended, or whose record does not read.
  void Write(const Instance& instance);
  // It is about to go.
  void Erase(const Instance& instance);
  // Rows of groups that changed, and of those that are gone.
  void WriteGroups(const GroupsRef& groups, Timestamp now);
  // REQUIRES: the instance has a report, and stays where it is until Erase().
  void Report(Instance& instance, Instant now);

 private:
  using GroupName = std::pair<TenantId, GroupKey>;

  void OnLoaded(const cache::Contents& rows);
  void OnBegunAnew();
  void WriteTable();
  void FlushLater();
  void Flush();

  Loop& loop_;
  Cache* cache_;
  Table table_;
  std::map<GroupName, MergedGroupRef> groups_;  // As written.
  std::vector<Instance*> due_;                  // Each once: Instance::row_due.
  Pending load_;
  Pending watch_;
  bool refills_ = false;  // The table is about to be written again.
  Pending refill_;
  Pending flush_;
};

// The row of an instance with a record. REQUIRES: it has one.
[[nodiscard]] cache::InstanceRow InstanceRowOf(const Instance& instance);

}  // namespace nstance

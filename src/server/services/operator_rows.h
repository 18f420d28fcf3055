// OperatorRows: keeps the operators of the cache on disk (ports/cache.h) in step with the records.
//
// A row is written with each record that this leader writes. Leaders of other shards write records
// too, and the cluster's leader removes them: so all records are read at the beginning of a
// leadership, and again when the cache has begun anew, one after the other and in nobody's way.
//
// Guarantees, each held by a test:
//   - after reading, rows and records are the same ones; a record that does not read has no row
//   - what is written meanwhile is newer than what was read
//   - a store that does not answer is asked again
//
// Without a cache (null) it does nothing.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <utility>

#include "base/name.h"
#include "base/result.h"
#include "base/time.h"
#include "core/object_key.h"
#include "core/object_layout.h"
#include "core/operator_record.h"
#include "ports/cache.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"

namespace nstance {

class OperatorRows final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;  // Of the cluster's objects.
    Cache* cache = nullptr;
  };
  explicit OperatorRows(Deps deps) : deps_(deps) {}
  OperatorRows(const OperatorRows&) = delete;
  OperatorRows& operator=(const OperatorRows&) = delete;

  void Start();
  // The record of that name is in the store.
  void Write(const OperatorName& name, const OperatorRecord& record);

 private:
  using Key = std::pair<TenantId, std::string>;  // Of a row.

  void ReadLater(Duration delay);
  void Read();
  void OnLoaded(const cache::Contents& rows);
  void List(std::string page_token);
  void OnPage(const Result<ListPage>& page);
  void EraseStale();
  void NextRecord();
  void OnRecord(const Result<Object>& object);
  void Put(const OperatorName& name, const OperatorRecord& record);

  Deps deps_;
  std::set<Key> stale_;         // Rows whose records have not been listed.
  std::deque<ObjectKey> keys_;  // Of records that are still to be read.
  bool reading_ = false;
  std::set<Key> written_;  // Since reading began.
  Pending watch_;
  Pending timer_;
  Pending call_;
};

}  // namespace nstance

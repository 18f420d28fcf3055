// SimCache: ports/cache.h in simulated time. The disk outlives the process; what was not flushed
// when the process dies is lost.
//
// It is written behind every 200 ms. Faults: `broken` loses everything that is written from then on
// and reads as empty, and the first write afterwards begins anew; a test may also clear or keep an
// old copy of the disk at any moment, which must change no decision.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "ports/cache.h"
#include "ports/loop.h"
#include "sim/sim_files.h"

namespace nstance::sim {

// The tables by their keys. Copyable: an old disk is a copy.
struct SimCacheDisk {
  using ByInstance = std::pair<InstanceId, std::string>;

  std::map<std::pair<TenantId, GroupKey>, cache::GroupRow> groups = {};
  std::map<InstanceId, cache::InstanceRow> instances = {};
  std::map<InstanceId, cache::HealthRow> health = {};
  std::map<ByInstance, cache::PublicKeyRow> public_keys = {};
  std::map<std::string, cache::ImageRow> images = {};
  std::map<std::pair<std::string, InstanceId>, cache::BalancerRow> balancers = {};
  std::map<std::pair<TenantId, std::string>, cache::OperatorRow> operators = {};
  bool broken = false;
  // The same by SimSqliteCache, which leaves the above alone.
  SimFiles database = {};

  void Apply(const cache::Change& change);
  void ClearRows();
  [[nodiscard]] cache::Contents Read() const;
};

// Who is told that a cache has begun anew, in a turn of its own.
class SimCacheWatchers {
 public:
  explicit SimCacheWatchers(Loop& loop) : loop_(loop) {}
  [[nodiscard]] Pending Add(Cache::BegunAnew begun_anew);
  void Tell();

 private:
  Loop& loop_;
  std::shared_ptr<std::map<std::uint64_t, Cache::BegunAnew>> watchers_ =
      std::make_shared<std::map<std::uint64_t, Cache::BegunAnew>>();
  std::uint64_t next_ = 0;
  Pending telling_;
};

class SimCache final : public Cache {
 public:
  // Both outlive the cache.
  SimCache(Loop& loop, SimCacheDisk& disk) : loop_(loop), disk_(disk), watchers_(loop) {}

  void Write(std::vector<cache::Change> changes) override;
  [[nodiscard]] Pending Load(Loaded done) override;
  [[nodiscard]] Pending Flush(Task done) override;
  [[nodiscard]] Pending Watch(BegunAnew begun_anew) override {
    return watchers_.Add(std::move(begun_anew));
  }

 private:
  void FlushNow();

  Loop& loop_;
  SimCacheDisk& disk_;
  SimCacheWatchers watchers_;
  bool missed_ = false;  // Changes that did not reach the disk.
  std::vector<cache::Change> waiting_;
  bool armed_ = false;
  Pending timer_;
};

}  // namespace nstance::sim

#include "sim/sim_cache.h"

#include <variant>

#include "base/overloaded.h"

namespace nstance::sim {
namespace {

constexpr Duration kFlushInterval = Duration::Milliseconds(200);

template <class Map>
auto Values(const Map& map) {
  std::vector<typename Map::mapped_type> values;
  values.reserve(map.size());
  for (const auto& [key, value] : map) values.push_back(value);
  return values;
}

// As the unique column has it.
bool NonceIsTaken(const SimCacheDisk& disk, const cache::InstanceRow& row) {
  if (row.nonce_sha256.empty()) return false;
  for (const auto& [id, other] : disk.instances) {
    if (id != row.id && other.nonce_sha256 == row.nonce_sha256) return true;
  }
  return false;
}

void EraseInstance(SimCacheDisk& disk, const InstanceId& id) {
  disk.instances.erase(id);
  disk.health.erase(id);
  std::erase_if(disk.public_keys, [&](const auto& row) { return row.first.first == id; });
  std::erase_if(disk.balancers, [&](const auto& row) { return row.first.second == id; });
}

}  // namespace

void SimCacheDisk::Apply(const cache::Change& change) {
  const auto there = [this](const InstanceId& id) { return instances.contains(id); };
  std::visit(
      Overloaded{
          [&](const cache::GroupRow& r) { groups.insert_or_assign({r.tenant, r.group}, r); },
          [&](const cache::InstanceRow& r) {
            if (!NonceIsTaken(*this, r)) instances.insert_or_assign(r.id, r);
          },
          [&](const cache::HealthRow& r) {
            if (there(r.instance)) health.insert_or_assign(r.instance, r);
          },
          [&](const cache::PublicKeyRow& r) {
            if (there(r.instance)) public_keys.insert_or_assign({r.instance, r.filename}, r);
          },
          [&](const cache::ImageRow& r) { images.insert_or_assign(r.name, r); },
          [&](const cache::BalancerRow& r) {
            if (there(r.instance)) balancers.insert_or_assign({r.balancer, r.instance}, r);
          },
          [&](const cache::OperatorRow& r) {
            operators.insert_or_assign({r.tenant, r.storage_key}, r);
          },
          [&](const cache::EraseGroup& e) { groups.erase({e.tenant, e.group}); },
          [&](const cache::EraseInstance& e) { EraseInstance(*this, e.id); },
          [&](const cache::EraseHealth& e) { health.erase(e.instance); },
          [&](const cache::ErasePublicKey& e) { public_keys.erase({e.instance, e.filename}); },
          [&](const cache::EraseImage& e) { images.erase(e.name); },
          [&](const cache::EraseBalancer& e) { balancers.erase({e.balancer, e.instance}); },
          [&](const cache::EraseOperator& e) { operators.erase({e.tenant, e.storage_key}); },
      },
      change);
}

void SimCacheDisk::ClearRows() {
  groups.clear();
  instances.clear();
  health.clear();
  public_keys.clear();
  images.clear();
  balancers.clear();
  operators.clear();
}

cache::Contents SimCacheDisk::Read() const {
  return {.groups = Values(groups),
          .instances = Values(instances),
          .health = Values(health),
          .public_keys = Values(public_keys),
          .images = Values(images),
          .balancers = Values(balancers),
          .operators = Values(operators)};
}

void SimCache::Write(std::vector<cache::Change> changes) {
  for (cache::Change& change : changes) waiting_.push_back(std::move(change));
  if (std::exchange(armed_, true)) return;
  timer_ = loop_.CallAfter(kFlushInterval, [this] { FlushNow(); });
}

void SimCache::FlushNow() {
  armed_ = false;
  timer_.Cancel();  // A flush on request has done its work: nothing is left at the end.
  const std::vector<cache::Change> changes = std::exchange(waiting_, {});
  if (changes.empty()) return;
  if (disk_.broken) {
    missed_ = true;
    return;
  }
  if (std::exchange(missed_, false)) {
    disk_.ClearRows();
    watchers_.Tell();
  }
  for (const cache::Change& change : changes) disk_.Apply(change);
}

Pending SimCacheWatchers::Add(Cache::BegunAnew begun_anew) {
  const std::uint64_t id = next_++;
  watchers_->emplace(id, std::move(begun_anew));
  return Pending([watchers = watchers_, id] { watchers->erase(id); });
}

void SimCacheWatchers::Tell() {
  telling_ = loop_.CallAfter({}, [watchers = watchers_] {
    for (const auto& [id, begun_anew] : std::map(*watchers)) {
      if (watchers->contains(id)) begun_anew();
    }
  });
}

Pending SimCache::Load(Loaded done) {
  return loop_.CallAfter(Duration::Milliseconds(1), [this, done = std::move(done)]() mutable {
    FlushNow();
    done(disk_.broken ? cache::Contents{} : disk_.Read());
  });
}

Pending SimCache::Flush(Task done) {
  return loop_.CallAfter(Duration::Milliseconds(1), [this, done = std::move(done)]() mutable {
    FlushNow();
    done();
  });
}

}  // namespace nstance::sim

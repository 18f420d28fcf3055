#include "server/fleet/census.h"

#include <iterator>

namespace nstance {
namespace {

// Counts that are zero are not kept: two censuses of one table are equal.
template <class Map, class Key>
void Add(Map& counts, const Key& key, int by) {
  const auto at = counts.try_emplace(key, 0).first;
  at->second += by;
  if (at->second == 0) counts.erase(at);
}

template <class Map, class Key>
int Find(const Map& counts, const Key& key) {
  const auto at = counts.find(key);
  return at == counts.end() ? 0 : at->second;
}

}  // namespace

void Census::Count(const InstanceId& id, const Facts& facts, int by) {
  if (facts.live) {
    Add(population_, facts.group.first, by);
    if (!facts.subnet.empty()) {
      const auto at = subnets_.try_emplace(facts.subnet).first;
      if (by > 0) {
        at->second.emplace(facts.vm_since, id);
      } else {
        at->second.erase({facts.vm_since, id});
      }
      if (at->second.empty()) subnets_.erase(at);
    }
  }
  if (facts.creating) {
    creating_ += by;
    Add(creating_in_, facts.group, by);
  }
}

void Census::Set(const Instance& instance) {
  Facts now = {.group = {instance.tenant, instance.group},
               .subnet = instance.subnet,
               .live = instance.live(),
               .creating = instance.create.has_value(),
               .vm_since = instance.vm_since.value_or(Instant::Never())};
  const auto at = facts_.find(instance.id);
  if (at != facts_.end()) {
    if (at->second == now) return;
    Count(instance.id, at->second, -1);
  }
  Count(instance.id, now, 1);
  facts_.insert_or_assign(instance.id, std::move(now));
}

void Census::Remove(const InstanceId& id) {
  const auto at = facts_.find(id);
  if (at == facts_.end()) return;
  Count(id, at->second, -1);
  facts_.erase(at);
}

int Census::Population(const TenantId& tenant) const { return Find(population_, tenant); }

int Census::OpenCreations(const GroupName& group) const { return Find(creating_in_, group); }

std::size_t Census::LiveIn(std::string_view subnet) const {
  const auto at = subnets_.find(subnet);
  return at == subnets_.end() ? 0 : at->second.size();
}

std::size_t Census::NewIn(std::string_view subnet, Instant moment) const {
  const auto at = subnets_.find(subnet);
  if (at == subnets_.end()) return 0;
  std::size_t count = 0;
  for (auto one = at->second.rbegin(); one != at->second.rend() && one->first >= moment; ++one) {
    ++count;
  }
  return count;
}

}  // namespace nstance

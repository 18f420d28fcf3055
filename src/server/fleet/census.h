// Census: the counts over the whole table that every plan needs, kept as the table changes, so that
// a plan costs what its group has and not what the shard has.
//
//   census.Set(instance);                      // After every change of an instance; cheap without.
//   census.Population(tenant);
//   census.LiveIn("subnet-a") - census.NewIn("subnet-a", asked_at);
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"
#include "server/fleet/instance.h"

namespace nstance {

class Census final {
 public:
  using GroupName = std::pair<TenantId, GroupKey>;

  void Set(const Instance& instance);
  void Remove(const InstanceId& id);

  // Live instances of the tenant.
  [[nodiscard]] int Population(const TenantId& tenant) const;
  // Create intents that are open, in the shard or in one group.
  [[nodiscard]] int OpenCreations() const { return creating_; }
  [[nodiscard]] int OpenCreations(const GroupName& group) const;
  // Live instances there, those that are only intended among them.
  [[nodiscard]] std::size_t LiveIn(std::string_view subnet) const;
  // Of these: without a VM so far, or with one since `moment` or later.
  [[nodiscard]] std::size_t NewIn(std::string_view subnet, Instant moment) const;

  friend bool operator==(const Census&, const Census&) = default;

 private:
  struct Facts {
    GroupName group;
    std::string subnet;
    bool live = false;
    bool creating = false;
    Instant vm_since;  // Never() without a VM.
    friend bool operator==(const Facts&, const Facts&) = default;
  };
  using BySince = std::set<std::pair<Instant, InstanceId>>;

  void Count(const InstanceId& id, const Facts& facts, int by);

  std::map<InstanceId, Facts> facts_;
  std::map<TenantId, int> population_;
  std::map<GroupName, int> creating_in_;
  int creating_ = 0;
  std::map<std::string, BySince, std::less<>> subnets_;
};

}  // namespace nstance

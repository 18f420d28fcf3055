// Leaders: which process acts for each shard, and since when it is the same one. For checkers that
// ask what a leader had time for.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "sim/world/checker.h"

namespace nstance::sim {

struct ActingLeader {
  std::string process;
  Instant since;  // As far as it was looked at.
};

class Leaders {
 public:
  // To be called every second, as long as it is of interest.
  void Look(const CheckerWorld& world) {
    std::map<ShardId, ActingLeader> now;
    for (const ServerStanding& server : world.Servers()) {
      if (!server.acting || !server.leads) continue;
      const ActingLeader* before = Of(server.shard);
      const bool same = before != nullptr && before->process == server.name;
      now.insert_or_assign(server.shard, ActingLeader{.process = server.name,
                                                      .since = same ? before->since : world.now()});
    }
    leaders_ = std::move(now);
  }
  // Null: nobody.
  [[nodiscard]] const ActingLeader* Of(const ShardId& shard) const {
    const auto at = leaders_.find(shard);
    return at == leaders_.end() ? nullptr : &at->second;
  }

 private:
  std::map<ShardId, ActingLeader> leaders_;
};

}  // namespace nstance::sim

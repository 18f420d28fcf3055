// I-5, at quiescence: exactly one leader acts per shard that has a healthy server, even if others
// are cut off for ever.
#include <fmt/format.h>

#include "sim/checkers/checkers.h"

namespace nstance::sim {
namespace {

class I05OneLeaderInTheEnd final : public Checker {
 public:
  explicit I05OneLeaderInTheEnd(CheckerWorld& world) : Checker("I-5", world) {}

  void AtQuiet() override {
    for (const ShardId& shard : {ShardA(), ShardB()}) {
      if (!world().InCore(shard)) continue;
      std::vector<std::string> leaders;
      for (const ServerStanding& server : world().Servers()) {
        if (server.shard == shard && server.leads && server.acting) leaders.push_back(server.name);
      }
      if (leaders.size() == 1) continue;
      Violated(fmt::format("shard {} has {} leaders: {}", shard.text(), leaders.size(),
                           fmt::join(leaders, ", ")));
    }
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI05(CheckerWorld& world) {
  return std::make_unique<I05OneLeaderInTheEnd>(world);
}

}  // namespace nstance::sim

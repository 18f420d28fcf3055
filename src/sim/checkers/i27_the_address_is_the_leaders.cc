// I-27, at quiescence: the leader's address is on the machine of the process that acts.
#include <fmt/format.h>

#include "sim/checkers/checkers.h"

namespace nstance::sim {
namespace {

class I27TheAddressIsTheLeaders final : public Checker {
 public:
  explicit I27TheAddressIsTheLeaders(CheckerWorld& world) : Checker("I-27", world) {}

  void AtQuiet() override {
    for (const ServerStanding& server : world().Servers()) {
      if (!server.acting || !server.leads || !world().InCore(server.shard)) continue;
      const std::string holder = world().cloud().LeaderHolder(LeaderAddress(server.shard));
      // Of the machine: a process that starts again finds what the one before it had.
      if (holder.substr(0, holder.find('#')) == server.name.substr(0, server.name.find('#'))) {
        continue;
      }
      Violated(fmt::format("{} acts for shard {}, the address is held by {}", server.name,
                           server.shard.text(), holder.empty() ? "nobody" : holder));
    }
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI27(CheckerWorld& world) {
  return std::make_unique<I27TheAddressIsTheLeaders>(world);
}

}  // namespace nstance::sim

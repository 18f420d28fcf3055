// I-4: when a leader has died, another server leads within lease + 1.5 x renew + 3 x store_timeout,
// whatever the wall clocks show.
//
// Counted from the last change of the lease, which is no later than the death of its holder. Asked
// of a server that was there and could have watched the lease all the time: it had asked for the
// lease before that change, which who finds no valid configuration does not come to; it has been
// sound (CheckerWorld::SoundSince) since then, and no leadership of its own has just failed
// (whoever cannot lead gives others a turn, and waits longer each time).
#include <map>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

// What a process needs before it knows the lease: configuration, probe, keys.
constexpr Duration kStart = Duration::Seconds(15);
constexpr Duration kBetweenLooks = Duration::Seconds(1);

class I04TakeoverIsQuick final : public Checker {
 public:
  explicit I04TakeoverIsQuick(CheckerWorld& world) : Checker("I-4", world) {}

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind == TruthChange::Kind::kLease) changed_[*last.shard] = change.at;
  }

  void OnCall(const SimCall& call) override {
    if (call.key.starts_with("leader/") && call.key != "leader/cluster.json") {
      watches_.try_emplace(call.process, world().now());
    }
  }

  void EverySecond() override {
    const std::vector<ServerStanding> servers = world().Servers();
    for (const ServerStanding& server : servers) {
      if (server.leads) {
        changed_.erase(server.shard);
        led_.insert_or_assign(server.name, world().now());
      }
    }
    for (const ServerStanding& server : servers) {
      const auto changed = changed_.find(server.shard);
      if (changed == changed_.end() || led_.contains(server.name)) continue;
      const Instant sound = world().SoundSince(server.name);
      if (sound == Instant::Never() || sound + kStart > changed->second) continue;
      const auto watches = watches_.find(server.name);
      if (watches == watches_.end() || watches->second > changed->second) continue;
      const Duration passed = world().now() - changed->second;
      if (passed <= Longest() + kBetweenLooks) continue;
      Violated(fmt::format("shard {} has had no leader for {}, and {} has only looked on",
                           server.shard.text(), FormatDuration(passed), server.name));
    }
  }

  void OnServerEnd(const ServerStanding& server) override {
    led_.erase(server.name);
    watches_.erase(server.name);
  }

 private:
  Duration Longest() const {
    const Setting& setting = world().setting();
    return setting.lease + setting.renew * 3 / 2 + setting.store_timeout * 3;
  }

  std::map<ShardId, Instant> changed_;      // The lease, of shards that nobody leads.
  std::map<std::string, Instant> led_;      // Processes that have led.
  std::map<std::string, Instant> watches_;  // Since when they know the lease.
};

}  // namespace

std::unique_ptr<Checker> MakeI04(CheckerWorld& world) {
  return std::make_unique<I04TakeoverIsQuick>(world);
}

}  // namespace nstance::sim

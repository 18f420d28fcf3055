// I-3: the store holds the lease of whoever says that it leads; so it is alone with that.
//
// This is the promise of timing. It is not asked when clocks did not run at one rate (faults.md 4.7
// F11: beyond that the journal fences), nor for a lease after somebody changed the record by hand.
#include <map>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I03TheLeaderHoldsTheLease final : public Checker {
 public:
  explicit I03TheLeaderHoldsTheLease(CheckerWorld& world) : Checker("I-3", world) {}

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind != TruthChange::Kind::kLease || !IsByHand(change)) return;
    if (world().truth().Of(*last.shard).lease != last.lease) by_hand_[*last.shard] = change.at;
  }

  void AfterTask(const ServerStanding& server) override {
    if (!server.leads || server.incarnation.empty()) return;
    const auto& lease = world().truth().Of(server.shard).lease;
    if (lease && lease->incarnation == server.incarnation) return;
    const Duration memory = world().setting().lease * 2;
    if (world().RatesTrueSince() + memory > world().now()) return;
    const auto hand = by_hand_.find(server.shard);
    if (hand != by_hand_.end() && hand->second + memory > world().now()) return;
    Violated(fmt::format("{} ({}) says that it leads; the lease is {}", server.name,
                         server.incarnation,
                         lease ? lease->leader_id + "/" + lease->incarnation : "not there"));
  }

 private:
  std::map<ShardId, Instant> by_hand_;
};

}  // namespace

std::unique_ptr<Checker> MakeI03(CheckerWorld& world) {
  return std::make_unique<I03TheLeaderHoldsTheLease>(world);
}

}  // namespace nstance::sim

// I-17, at quiescence: in every group the counted managed instances are as many as desired. A
// rotation that is under way fills one slot with two instances.
//
// On-demand instances are outside of that: they do not count, and none is ever scaled down.
#include <set>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I17GroupsHaveTheirSize final : public Checker {
 public:
  explicit I17GroupsHaveTheirSize(CheckerWorld& world) : Checker("I-17", world) {}

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind != TruthChange::Kind::kJournal || IsByHand(change)) return;
    for (const Intent* intent : NewIntents(world().truth())) {
      if (intent->reason != "scale-down") continue;
      const InstanceRecord* record = world().truth().Find(intent->instance_id);
      if (record == nullptr || !record->on_demand) continue;
      Violated(fmt::format("{} scales down {}, which is on-demand", change.process,
                           intent->instance_id.text()));
    }
  }

  void AtQuiet() override {
    for (const ShardId& shard : {ShardA(), ShardB()}) {
      if (!world().InCore(shard)) continue;
      std::map<GroupName, int> desired = world().DesiredSizes(shard);
      const ShardTruth& truth = world().truth().Of(shard);
      for (const auto& [id, record] : truth.records) {
        if (IsMember(record)) desired.try_emplace({record.tenant, record.group}, 0);
      }
      for (const auto& [group, size] : desired) {
        const int members = CountMembers(truth, group, {IntentKind::kDrain, IntentKind::kDelete});
        // A pair is one slot while it rotates, and two when the old one has come back for good.
        const int pairs = Pairs(truth, group);
        if (members - pairs <= size && size <= members) continue;
        Violated(fmt::format("shard {}, group {}: {} instances count ({} pairs), {} are desired",
                             shard.text(), NameOf(group), members, pairs, size));
      }
    }
  }

 private:
  static bool IsMember(const InstanceRecord& record) {
    return !record.on_demand && !record.claim && CountsTowardSize(record.phase);
  }

  static int Pairs(const ShardTruth& truth, const GroupName& group) {
    std::set<InstanceId> replaced;
    const auto note = [&](const std::optional<InstanceId>& replaces) {
      const auto old = replaces ? truth.records.find(*replaces) : truth.records.end();
      if (old != truth.records.end() && IsMember(old->second)) replaced.insert(old->first);
    };
    for (const auto& [id, record] : truth.records) {
      if (record.tenant != group.first || record.group != group.second) continue;
      if (IsMember(record)) note(record.replaces);
    }
    // The new one counts from its intent on.
    if (truth.journal) {
      for (const Intent& intent : truth.journal->intents) {
        const bool ours = intent.tenant == group.first && intent.group == group.second;
        if (ours && !truth.records.contains(intent.instance_id)) note(intent.replaces);
      }
    }
    return static_cast<int>(replaced.size());
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI17(CheckerWorld& world) {
  return std::make_unique<I17GroupsHaveTheirSize>(world);
}

}  // namespace nstance::sim

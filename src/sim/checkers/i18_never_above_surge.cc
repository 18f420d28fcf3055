// I-18: counted instances <= desired + surge, unless the size was just lowered; then the count only
// falls.
//
// Judged where the count rises: when a create intent becomes durable, and when a drain is revoked.
// An instance with an open drain or delete intent is no member any more (one whose deletion the
// brake holds still is; that cannot be seen here, and makes the check milder). Which sizes the
// leader may go by: size_history.h.
#include <set>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"
#include "sim/checkers/size_history.h"

namespace nstance::sim {
namespace {

constexpr int kSurge = 1;  // The default; the configuration of the world has no other.

class I18NeverAboveSurge final : public Checker {
 public:
  explicit I18NeverAboveSurge(CheckerWorld& world) : Checker("I-18", world) {}

  void OnChange(const SimChange& change) override {
    const Truth& truth = world().truth();
    sizes_.OnChange(change, truth);
    const TruthChange& last = truth.last();
    if (IsByHand(change)) return;
    if (last.kind == TruthChange::Kind::kJournal) {
      std::set<GroupName> groups;
      for (const Intent* intent : NewIntents(truth)) {
        if (intent->kind != IntentKind::kCreate || intent->reason == "on-demand") continue;
        groups.emplace(intent->tenant, intent->group);
      }
      for (const GroupName& group : groups) Judge(change, *last.shard, group);
    } else if (last.kind == TruthChange::Kind::kRecord && last.record &&
               last.record->phase == InstancePhase::kDraining) {
      const InstanceRecord* after = truth.Find(*last.id);
      if (after == nullptr || after->phase != InstancePhase::kRegistered) return;
      if (!after->on_demand) Judge(change, *last.shard, {after->tenant, after->group});
    }
  }

 private:
  void Judge(const SimChange& change, const ShardId& shard, const GroupName& group) {
    const int most = sizes_.Of(shard, group, change.at).most;
    const int members =
        CountMembers(world().truth().Of(shard), group, {IntentKind::kDrain, IntentKind::kDelete});
    if (members <= most + kSurge) return;
    Violated(
        fmt::format("shard {}, group {}: {} instances count after a commit of {}; the size is "
                    "at most {}",
                    shard.text(), NameOf(group), members, change.process, most));
  }

  SizeHistory sizes_;
};

}  // namespace

std::unique_ptr<Checker> MakeI18(CheckerWorld& world) {
  return std::make_unique<I18NeverAboveSurge>(world);
}

}  // namespace nstance::sim

// I-22: when a running, registered, managed VM begins to leave by our own decision, the counted
// instances without it are as many as desired.
//
// Our own decisions are drains for health, drift and age; a forced expiry goes without a
// replacement when none can be made, which cannot be seen here, and is left out, as are termination
// notices and whatever was asked for. A drain lands later than it was decided: an instance that
// left the count (its creation failed, say) in the last moments still counts; so does one whose
// deletion is accepted and not begun. Which sizes the leader may go by: size_history.h.
#include <map>
#include <set>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"
#include "sim/checkers/size_history.h"

namespace nstance::sim {
namespace {

constexpr Duration kMoment = Duration::Seconds(20);

bool IsOurDecision(const Intent& intent) {
  return intent.kind == IntentKind::kDrain && !intent.ordered &&
         (intent.reason == "unhealthy" || intent.reason == "config-drift" ||
          intent.reason == "eligible-expiry" || intent.reason == "pool-age");
}

class I22ReplacedBeforeItLeaves final : public Checker {
 public:
  explicit I22ReplacedBeforeItLeaves(CheckerWorld& world) : Checker("I-22", world) {}

  void OnChange(const SimChange& change) override {
    const Truth& truth = world().truth();
    sizes_.OnChange(change, truth);
    const TruthChange& last = truth.last();
    if (last.kind == TruthChange::Kind::kRecord) return OnRecord(change, last);
    if (last.kind != TruthChange::Kind::kJournal) return;
    for (const Intent* intent : NewIntents(truth)) {
      if (!IsOurDecision(*intent)) continue;
      if (!seen_.emplace(intent->instance_id, intent->opened_at).second) continue;
      Judge(change, *last.shard, *intent);
    }
  }

 private:
  void OnRecord(const SimChange& change, const TruthChange& last) {
    const InstanceRecord* after = world().truth().Find(*last.id);
    if (after == nullptr || after->on_demand || CountsTowardSize(after->phase)) return;
    if (after->phase == InstancePhase::kDraining || after->phase == InstancePhase::kDeleting)
      return;
    if (last.record && !CountsTowardSize(last.record->phase)) return;
    left_[{*last.shard, {after->tenant, after->group}}][*last.id] = change.at;
  }

  // Members that ended in the last moments; older ones are forgotten.
  int JustEnded(const ShardId& shard, const GroupName& group) {
    const auto at = left_.find({shard, group});
    if (at == left_.end()) return 0;
    std::erase_if(at->second,
                  [&](const auto& one) { return one.second + kMoment < world().now(); });
    return static_cast<int>(at->second.size());
  }

  void Judge(const SimChange& change, const ShardId& shard, const Intent& intent) {
    const InstanceRecord* record = world().truth().Find(intent.instance_id);
    if (record == nullptr || record->on_demand || record->claim) return;
    const GroupName group = {intent.tenant, intent.group};
    const int members = CountMembers(world().truth().Of(shard), group, {IntentKind::kDrain}) +
                        JustEnded(shard, group);
    const int least = sizes_.Of(shard, group, change.at).least;
    if (members >= least) return;
    Violated(fmt::format(
        "{} begins to drain {} ({}): without it {} instances of {} count, at "
        "least {} are desired",
        change.process, intent.instance_id.text(), intent.reason, members, NameOf(group), least));
  }

  SizeHistory sizes_;
  std::set<std::pair<InstanceId, Timestamp>> seen_;
  std::map<std::pair<ShardId, GroupName>, std::map<InstanceId, Instant>> left_;
};

}  // namespace

std::unique_ptr<Checker> MakeI22(CheckerWorld& world) {
  return std::make_unique<I22ReplacedBeforeItLeaves>(world);
}

}  // namespace nstance::sim

// I-23: a drain ends at its ack or at its original deadline, across any number of leaders.
//
//   - deadline and length never change, in the journal or in the record
//   - a drain that ends for its own reason ends no sooner than its deadline, unless it was acked,
//     or its VM has died. Not judged while clocks were wrong since it began, nor when the provider
//     has said that VMs were not there.
// That it ends at all is I-24's.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I23DrainsKeepTheirDeadline final : public Checker {
 public:
  explicit I23DrainsKeepTheirDeadline(CheckerWorld& world) : Checker("I-23", world) {}

  void OnChange(const SimChange& change) override {
    const Truth& truth = world().truth();
    const TruthChange& last = truth.last();
    if (last.kind == TruthChange::Kind::kRecord) return OnRecord(change, *last.id);
    if (last.kind != TruthChange::Kind::kJournal || !truth.Of(*last.shard).journal) return;
    for (const Intent& intent : truth.Of(*last.shard).journal->intents) {
      if (intent.kind == IntentKind::kDrain) OnDrain(change, intent);
    }
    for (const Intent* intent : NewIntents(truth)) {
      if (intent->kind == IntentKind::kDelete) OnDelete(change, *intent);
    }
    if (!last.journal) return;
    for (const Intent& intent : last.journal->intents) {
      // Revoked, or over: the next drain of this instance is another.
      if (intent.kind == IntentKind::kDrain &&
          truth.IntentOf(*last.shard, intent.instance_id) == nullptr) {
        drains_.erase(intent.instance_id);
      }
    }
  }

  void EverySecond() override {
    const SimCloudLies& lies = world().cloud().lies();
    if (lies.finds_nothing || lies.unmarked_for > Duration()) lied_at_ = world().now();
  }

 private:
  struct Drain {
    std::string reason;
    Timestamp deadline;
    Duration length;
    Instant since;
    bool acked = false;
  };

  void OnDrain(const SimChange& change, const Intent& intent) {
    const auto [at, fresh] =
        drains_.try_emplace(intent.instance_id, Drain{.reason = intent.reason,
                                                      .deadline = intent.deadline,
                                                      .length = intent.length,
                                                      .since = change.at});
    at->second.acked = at->second.acked || intent.acked_at.has_value();
    if (!fresh) Compare(change, intent.instance_id, intent.deadline, intent.length);
  }

  void OnRecord(const SimChange& change, const InstanceId& id) {
    const InstanceRecord* record = world().truth().Find(id);
    if (record == nullptr || record->phase != InstancePhase::kDraining || !record->drain) return;
    if (drains_.contains(id)) Compare(change, id, record->drain->delete_at, record->drain->length);
  }

  void Compare(const SimChange& change, const InstanceId& id, Timestamp deadline, Duration length) {
    const Drain& drain = drains_.at(id);
    if (drain.deadline == deadline && drain.length == length) return;
    Violated(fmt::format("{} by {}: the drain of {} ends at {} ({}), not at {} ({})",
                         change.key.text(), change.process, id.text(), FormatTimestamp(deadline),
                         FormatDuration(length), FormatTimestamp(drain.deadline),
                         FormatDuration(drain.length)));
  }

  void OnDelete(const SimChange& change, const Intent& intent) {
    const auto at = drains_.find(intent.instance_id);
    if (at == drains_.end()) return;
    const Drain drain = std::move(at->second);
    drains_.erase(at);
    if (drain.acked || intent.ordered || intent.reason != drain.reason) return;
    const Instant right = std::max(world().RatesTrueSince(), world().WallsTrueSince());
    // Wall and monotonic time may part by what a leader's clock was off when it read the deadline.
    if (right + world().setting().lease > drain.since && right > Instant()) return;
    if (lied_at_ && *lied_at_ + Duration::Seconds(1) >= drain.since) return;
    if (world().wall() + Duration::Seconds(1) >= drain.deadline || HasDied(intent)) return;
    Violated(fmt::format("{} ended the drain of {} ({}) without an ack, {} before its deadline",
                         change.process, intent.instance_id.text(), drain.reason,
                         FormatDuration(drain.deadline - world().wall())));
  }

  bool HasDied(const Intent& intent) const {
    const InstanceRecord* record = world().truth().Find(intent.instance_id);
    if (record == nullptr) return true;
    const SimVm* vm = world().cloud().Find(record->provider_instance_id);
    return vm == nullptr || !IsAlive(vm->shown.status);
  }

  std::map<InstanceId, Drain> drains_;  // Those that are open.
  std::optional<Instant> lied_at_;
};

}  // namespace

std::unique_ptr<Checker> MakeI23(CheckerWorld& world) {
  return std::make_unique<I23DrainsKeepTheirDeadline>(world);
}

}  // namespace nstance::sim

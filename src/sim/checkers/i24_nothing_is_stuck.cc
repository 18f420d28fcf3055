// I-24, at quiescence: nothing stays in creating, provisioned, draining or deleting beyond its
// deadline, and no intent stays open.
//
// How long something has been so is counted from when it landed in the store, by the world's time.
// A deletion whose record is not deleting yet may wait for the brake, for however long that takes:
// whether it is done is I-17's question.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/fleet/times.h"
#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

// Writes, calls and turns around every deadline.
constexpr Duration kSlack = Duration::Seconds(30);

class I24NothingIsStuck final : public Checker {
 public:
  explicit I24NothingIsStuck(CheckerWorld& world) : Checker("I-24", world) {}

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind == TruthChange::Kind::kRecord) {
      const InstanceRecord* after = world().truth().Find(*last.id);
      if (after == nullptr) {
        phases_.erase(*last.id);
      } else if (!last.record || last.record->phase != after->phase) {
        phases_[*last.id] = change.at;
      }
    } else if (last.kind == TruthChange::Kind::kJournal) {
      for (const Intent* intent : NewIntents(world().truth())) {
        intents_.try_emplace({*last.shard, intent->id}, change.at);
      }
    }
  }

  void AtQuiet() override {
    for (const ShardId& shard : {ShardA(), ShardB()}) {
      if (!world().InCore(shard)) continue;
      const ShardTruth& truth = world().truth().Of(shard);
      for (const auto& [id, record] : truth.records) Judge(record);
      if (!truth.journal) continue;
      for (const Intent& intent : truth.journal->intents) JudgeIntent(shard, intent);
    }
  }

 private:
  [[nodiscard]] fleet::FleetTimes Times() const {
    const Setting& setting = world().setting();
    return fleet::ForProvider(setting.times, setting.consistency_window);
  }
  [[nodiscard]] Duration Creating() const {
    const fleet::FleetTimes times = Times();
    return times.t_intent + times.t_vis * 2 + world().setting().request_timeout + kSlack;
  }
  [[nodiscard]] Duration Provisioned() const {
    const fleet::FleetTimes times = Times();
    return times.registration_timeout + times.t_grace + times.t_vis + kSlack;
  }
  // The VM's end, two looks after it, and one more try.
  [[nodiscard]] Duration Deleting() const {
    const fleet::FleetTimes times = Times();
    return times.t_settle + times.t_vis * 2 + Duration::Minutes(2) + kSlack;
  }

  static bool IsHeld(const InstanceRecord& record) {
    using enum InstancePhase;
    return record.phase != kDeleting && record.phase != kGone && record.phase != kFailed;
  }

  void Judge(const InstanceRecord& record) {
    Duration longest;
    switch (record.phase) {
      case InstancePhase::kCreating: longest = Creating(); break;
      case InstancePhase::kProvisioned: longest = Provisioned(); break;
      case InstancePhase::kDeleting: longest = Deleting(); break;
      case InstancePhase::kDraining:
        longest = (record.drain ? record.drain->length : Duration()) + kSlack;
        break;
      default: return;
    }
    const auto at = phases_.find(record.instance_id);
    const Instant since = at == phases_.end() ? Instant() : at->second;
    // What began in bad times has its full time in good ones.
    const Duration age = world().now() - std::max(since, world().calm_since());
    if (age <= longest) return;
    Violated(fmt::format("{} has been {} for {}, {} of it in calm", record.instance_id.text(),
                         PhaseName(record.phase), FormatDuration(world().now() - since),
                         FormatDuration(age)));
  }

  void JudgeIntent(const ShardId& shard, const Intent& intent) {
    Duration longest = Deleting();
    if (intent.kind == IntentKind::kCreate) longest = Creating();
    if (intent.kind == IntentKind::kDrain) longest = intent.length + kSlack;
    const auto at = intents_.find({shard, intent.id});
    Instant since = at == intents_.end() ? Instant() : at->second;
    if (intent.kind == IntentKind::kDelete) {
      const InstanceRecord* record = world().truth().Find(intent.instance_id);
      if (record != nullptr && IsHeld(*record)) return;
      const auto phase = phases_.find(intent.instance_id);
      if (phase != phases_.end()) since = std::max(since, phase->second);
    }
    const Duration age = world().now() - std::max(since, world().calm_since());
    if (age <= longest) return;
    Violated(fmt::format("the intent {} ({} of {}) has been open for {}", intent.id,
                         IntentKindName(intent.kind), intent.instance_id.text(),
                         FormatDuration(world().now() - since)));
  }

  std::map<InstanceId, Instant> phases_;  // Since when it is in its phase.
  std::map<std::pair<ShardId, std::string>, Instant> intents_;
};

}  // namespace

std::unique_ptr<Checker> MakeI24(CheckerWorld& world) {
  return std::make_unique<I24NothingIsStuck>(world);
}

}  // namespace nstance::sim

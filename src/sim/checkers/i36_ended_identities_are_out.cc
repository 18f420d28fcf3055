// I-36: a deleted or denied identity is refused within T_revoke, and its streams are closed.
//
// Judged in calm; and in bad times of an agent that nothing was done to, while its leader is the
// same and sound all the time: others may be paused, cut off or unable to read the list. An
// identity has ended when its record is deleting, over or blocked, or when the deny list names it
// or its present serial; how long ago is counted in such times. Served is who has a stream at both
// ends, with a leader that runs: one who is refused goes on asking, and believes each time that its
// stream is open until the refusal has arrived; and a server that was paused has old ones.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/deny_list.h"
#include "sim/checkers/checkers.h"
#include "sim/checkers/leaders.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

constexpr Duration kRevoke = Duration::Seconds(10);
// A look at the list that was on its way, the closing, and the second between two looks here.
constexpr Duration kClosing = Duration::Seconds(5);

class I36EndedIdentitiesAreOut final : public Checker {
 public:
  explicit I36EndedIdentitiesAreOut(CheckerWorld& world) : Checker("I-36", world) {}

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind == TruthChange::Kind::kRecord) {
      Note(*last.id, change.at);
    } else if (change.key.text() == "deny/cluster.json" && change.after != nullptr) {
      const Result<DenyList> list = DecodeDenyList(change.after->bytes);
      if (!list.has_value()) return;
      denied_ = DenySet(*list);
      for (const ShardId& shard : {ShardA(), ShardB()}) {
        for (const auto& [id, record] : world().truth().Of(shard).records) Note(id, change.at);
      }
    }
  }

  void EverySecond() override {
    const bool calm = world().calm() && world().Healed();
    if (!calm) leaders_.Look(world());
    for (const auto& [id, since] : ended_) {
      const Instant from = calm ? world().calm_since() + Found() : GoodSince(id);
      if (from == Instant::Never()) continue;
      if (std::max(since, from) + kRevoke + kClosing > world().now()) continue;
      if (!world().AgentServing(id) || !world().AgentServed(id)) continue;
      Violated(fmt::format("{} has ended {} ago and is still served", id.text(),
                           FormatDuration(world().now() - since)));
    }
  }

 private:
  // Time for a leader to be found, and to have read everything.
  Duration Found() const { return world().setting().lease * 4; }

  // Since when the agent and the leader of its shard have been as in calm; Never(): they are not.
  Instant GoodSince(const InstanceId& id) const {
    const InstanceRecord* record = world().truth().Find(id);
    if (record == nullptr || !world().AgentUnharmed(id)) return Instant::Never();
    const ShardId& shard = world().truth().Of(ShardA()).records.contains(id) ? ShardA() : ShardB();
    const ActingLeader* leader = leaders_.Of(shard);
    if (leader == nullptr) return Instant::Never();
    const Instant sound = world().SoundSince(leader->process);
    if (sound == Instant::Never()) return sound;
    return std::max(sound, leader->since + Found());
  }

  bool HasEnded(const InstanceRecord& record) const {
    using enum InstancePhase;
    return record.phase == kDeleting || record.phase == kGone || record.phase == kFailed ||
           record.blocked || denied_.DeniesSerial(record.cert_serial) ||
           denied_.DeniesIdentity(record.tenant, record.instance_id.text());
  }

  void Note(const InstanceId& id, Instant at) {
    const InstanceRecord* record = world().truth().Find(id);
    // What is over and has no machine any more need not be looked at for ever.
    const bool buried = record == nullptr || (record->phase == InstancePhase::kGone &&
                                              world().cloud().VmsOf(id).empty());
    if (!buried && HasEnded(*record)) {
      ended_.try_emplace(id, at);
    } else {
      ended_.erase(id);
    }
  }

  DenySet denied_;
  Leaders leaders_;
  std::map<InstanceId, Instant> ended_;  // Since when.
};

}  // namespace

std::unique_ptr<Checker> MakeI36(CheckerWorld& world) {
  return std::make_unique<I36EndedIdentitiesAreOut>(world);
}

}  // namespace nstance::sim

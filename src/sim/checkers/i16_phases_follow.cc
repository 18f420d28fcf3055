// I-16: phases move only along DESIGN section 5 (core/instance_phase.h); `gone` is final; ids are
// never used again, and what an instance is for never changes.
//
// A record begins as creating, or as the tombstone of a cancelled creation or an orphan. A process
// removes only tombstones and failures. Changes by hand are an administrator's business.
#include <set>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I16PhasesFollow final : public Checker {
 public:
  explicit I16PhasesFollow(CheckerWorld& world) : Checker("I-16", world) {}

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind != TruthChange::Kind::kRecord || IsByHand(change)) return;
    const auto& records = world().truth().Of(*last.shard).records;
    const auto at = records.find(*last.id);
    const auto complain = [&](std::string_view what) {
      Violated(fmt::format("{} by {}: {}", last.id->text(), change.process, what));
    };
    if (change.after == nullptr) return OnRemoved(change, last, complain);
    if (at == records.end()) return complain("a record was written that does not read");
    const InstanceRecord& after = at->second;
    if (change.before == nullptr) {
      if (removed_.contains(*last.id)) return complain("the id is used again");
      if (after.phase == InstancePhase::kCreating || after.phase == InstancePhase::kGone) return;
      return complain(fmt::format("begins as {}", PhaseName(after.phase)));
    }
    if (!last.record) return complain("a record that does not read was overwritten");
    const InstanceRecord& before = *last.record;
    if (!MayFollow(before.phase, after.phase)) {
      return complain(fmt::format("{} -> {}", PhaseName(before.phase), PhaseName(after.phase)));
    }
    if (before.group != after.group || before.on_demand != after.on_demand) {
      complain("it belongs to another group, or has become (or ceased to be) on-demand");
    }
  }

 private:
  template <class Complain>
  void OnRemoved(const SimChange& change, const TruthChange& last, Complain complain) {
    removed_.insert(*last.id);
    if (change.before == nullptr) return;
    if (!last.record) return complain("a record that does not read was removed");
    if (last.record->phase != InstancePhase::kGone &&
        last.record->phase != InstancePhase::kFailed) {
      complain(fmt::format("its record was removed while {}", PhaseName(last.record->phase)));
    }
  }

  std::set<InstanceId> removed_;
};

}  // namespace

std::unique_ptr<Checker> MakeI16(CheckerWorld& world) {
  return std::make_unique<I16PhasesFollow>(world);
}

}  // namespace nstance::sim

// I-13: every VM with our marks has an intent, a record or a tombstone.
//
// Judged when a VM comes to be, however late the request arrives, and when a record goes. A
// tombstone is there for VMs that come late: it is kept for its time, counted from when it came to
// be, whatever the clocks of servers show: the store tells them the time (RU8).
// Machines that were put there by hand are orphans, which I-14 wants gone in the end.
#include <map>

#include <fmt/format.h>

#include "core/config/config.h"
#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

// What clocks may differ by before one of them is suspected, twice.
constexpr Duration kSkew = Duration::Minutes(2);

class I13EveryVmIsKnown final : public Checker {
 public:
  explicit I13EveryVmIsKnown(CheckerWorld& world) : Checker("I-13", world) {}

  void OnVm(const SimVmChange& change) override {
    if (change.before || change.method != SimProviderMethod::kCreate) return;
    const ProviderInstance& vm = change.vm->shown;
    const auto name = [&] {
      return fmt::format("{} ({}), made by {} under epoch {}", vm.shown_id, change.vm->provider_id,
                         change.process, change.epoch);
    };
    if (!IsOurs(vm)) return Violated(name() + ": it does not carry our marks");
    const ShardId& shard = vm.shard == ShardA().text() ? ShardA() : ShardB();
    const ShardTruth& truth = world().truth().Of(shard);
    const auto record = truth.records.find(*vm.instance_id);
    if (record != truth.records.end()) {
      if (record->second.tenant.text() != vm.tenant || record->second.group.text() != vm.group) {
        Violated(name() + ": its marks name another tenant or group than its record");
      }
      return;
    }
    if (world().truth().IntentOf(shard, *vm.instance_id) == nullptr) {
      Violated(name() + ": there is neither record nor intent");
    }
  }

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind != TruthChange::Kind::kRecord) return;
    if (change.after != nullptr) return NoteTombstone(*last.id);
    const auto tombstone = tombstones_.extract(*last.id);
    if (IsByHand(change)) return;
    if (tombstone && change.at - tombstone.mapped() + kSkew <
                         config::GarbageCollection().deleted_record_retention) {
      Violated(fmt::format("{} removed the tombstone of {} after {}", change.process,
                           last.id->text(), FormatDuration(change.at - tombstone.mapped())));
    }
    if (!world().cloud().VmsOf(*last.id).empty()) {
      Violated(fmt::format("{} removed the record of {} although its VM is still there",
                           change.process, last.id->text()));
    }
  }

 private:
  void NoteTombstone(const InstanceId& id) {
    const InstanceRecord* record = world().truth().Find(id);
    if (record == nullptr || record->phase != InstancePhase::kGone) return;
    tombstones_.try_emplace(id, world().now());
  }

  std::map<InstanceId, Instant> tombstones_;  // Since when.
};

}  // namespace

std::unique_ptr<Checker> MakeI13(CheckerWorld& world) {
  return std::make_unique<I13EveryVmIsKnown>(world);
}

}  // namespace nstance::sim

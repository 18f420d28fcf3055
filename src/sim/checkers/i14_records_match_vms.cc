// I-14, at quiescence: live records and live VMs match one to one. Nothing is leaked, nothing is a
// phantom.
//
// What is on its way (creating, deleting) is judged by I-24; a machine with our marks but without
// an id that parses is only reported by servers, and is left alone here too. The record of a
// blocked identity stays, whatever became of its VM, until a person decides (security.md N3).
#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I14RecordsMatchVms final : public Checker {
 public:
  explicit I14RecordsMatchVms(CheckerWorld& world) : Checker("I-14", world) {}

  void AtQuiet() override {
    std::map<InstanceId, std::vector<const SimVm*>> vms;
    for (const SimVm* vm : world().cloud().Vms()) {
      if (IsOurs(vm->shown)) vms[*vm->shown.instance_id].push_back(vm);
    }
    for (const ShardId& shard : {ShardA(), ShardB()}) {
      if (!world().InCore(shard)) continue;
      for (const auto& [id, record] : world().truth().Of(shard).records)
        JudgeRecord(record, vms[id]);
    }
    for (const auto& [id, of_id] : vms) {
      for (const SimVm* vm : of_id) JudgeVm(*vm);
    }
  }

 private:
  static bool IsLive(InstancePhase phase) {
    using enum InstancePhase;
    return phase == kProvisioned || phase == kRegistered || phase == kDraining;
  }

  void JudgeRecord(const InstanceRecord& record, const std::vector<const SimVm*>& vms) {
    if (!IsLive(record.phase) || record.blocked) return;
    const auto complain = [&](std::string_view what) {
      Violated(fmt::format("{} is {}, provider id \"{}\": {}", record.instance_id.text(),
                           PhaseName(record.phase), record.provider_instance_id, what));
    };
    if (vms.empty()) return complain("a phantom, there is no such VM");
    if (record.provider_instance_id.empty()) return complain("its VM was never written down");
    for (const SimVm* vm : vms) {
      if (vm->provider_id == record.provider_instance_id) return;
    }
    complain(fmt::format("its VM is {}", vms.front()->provider_id));
  }

  void JudgeVm(const SimVm& vm) {
    const ShardId& shard = vm.shown.shard == ShardA().text() ? ShardA() : ShardB();
    if (!world().InCore(shard) || vm.shown.status == ProviderStatus::kDeleting) return;
    const InstanceRecord* record = world().truth().Find(*vm.shown.instance_id);
    const auto complain = [&](std::string_view what) {
      Violated(fmt::format("VM {} of {} is {}: {}", vm.provider_id, vm.shown.shown_id,
                           ProviderStatusName(vm.shown.status), what));
    };
    if (record == nullptr) {
      if (world().truth().IntentOf(shard, *vm.shown.instance_id) != nullptr) return;
      return complain("leaked, there is no record");
    }
    if (record->phase == InstancePhase::kGone || record->phase == InstancePhase::kFailed) {
      complain(fmt::format("leaked, its record is {}", PhaseName(record->phase)));
    }
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI14(CheckerWorld& world) {
  return std::make_unique<I14RecordsMatchVms>(world);
}

}  // namespace nstance::sim

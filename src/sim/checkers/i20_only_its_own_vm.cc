// I-20: a VM is deleted only if its instance-id tag equals the record's at the moment of the call.
//
// So what is deleted carries our marks, an id, and the shard of whoever deletes it; and when its
// record names this very VM, the record is already deleting, or over. Another VM of the same id is
// a duplicate or a late creation, and goes.
#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I20OnlyItsOwnVm final : public Checker {
 public:
  explicit I20OnlyItsOwnVm(CheckerWorld& world) : Checker("I-20", world) {}

  void OnVm(const SimVmChange& change) override {
    if (change.method != SimProviderMethod::kDelete) return;
    const ProviderInstance& vm = change.vm->shown;
    const auto complain = [&](std::string_view what) {
      Violated(fmt::format("{} deleted {} ({}): {}", change.process, vm.shown_id,
                           change.vm->provider_id, what));
    };
    if (!IsOurs(vm)) return complain("it is none of ours, or has no id");
    const InstanceRecord* record = world().truth().Find(*vm.instance_id);
    if (record == nullptr) return;  // An orphan: I-19 asks for its intent.
    const ShardId& shard = vm.shard == ShardA().text() ? ShardA() : ShardB();
    if (!world().truth().Of(shard).records.contains(*vm.instance_id)) {
      return complain("its record is another shard's");
    }
    if (record->provider_instance_id != change.vm->provider_id) return;
    using enum InstancePhase;
    if (record->phase == kDeleting || record->phase == kGone || record->phase == kFailed) return;
    complain(fmt::format("its record is {}", PhaseName(record->phase)));
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI20(CheckerWorld& world) {
  return std::make_unique<I20OnlyItsOwnVm>(world);
}

}  // namespace nstance::sim

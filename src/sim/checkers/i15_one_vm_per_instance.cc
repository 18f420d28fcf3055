// I-15: at most one VM per instance id, except a provider's duplicate; at quiescence not even that.
//
// A provider that forgets its token, or makes two at once (SimCloudLies), is the only excuse for a
// second one. Machines put there by hand are nobody's request.
#include <map>
#include <set>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I15OneVmPerInstance final : public Checker {
 public:
  explicit I15OneVmPerInstance(CheckerWorld& world) : Checker("I-15", world) {}

  void OnVm(const SimVmChange& change) override {
    if (!IsOurs(change.vm->shown)) return;
    const InstanceId& id = *change.vm->shown.instance_id;
    std::set<std::string>& vms = vms_[id];
    if (!IsThere(change.after)) {
      vms.erase(change.vm->provider_id);
      if (vms.empty()) vms_.erase(id);
      return;
    }
    vms.insert(change.vm->provider_id);
    const bool made = !change.before && change.method == SimProviderMethod::kCreate;
    const SimCloudLies& lies = world().cloud().lies();
    if (made && vms.size() > 1 && lies.forgets_token == 0 && lies.makes_two == 0) {
      Violated(fmt::format("{} has {} VMs; {} made {}", id.text(), vms.size(), change.process,
                           change.vm->provider_id));
    }
  }

  void AtQuiet() override {
    for (const auto& [id, vms] : vms_) {
      if (vms.size() <= 1) continue;
      const SimVm* vm = world().cloud().Find(*vms.begin());
      const bool in_a = vm == nullptr || vm->shown.shard == ShardA().text();
      if (!world().InCore(in_a ? ShardA() : ShardB())) continue;
      Violated(fmt::format("{} still has {} VMs: {}", id.text(), vms.size(), fmt::join(vms, ", ")));
    }
  }

 private:
  std::map<InstanceId, std::set<std::string>> vms_;  // Provider ids of those that are there.
};

}  // namespace

std::unique_ptr<Checker> MakeI15(CheckerWorld& world) {
  return std::make_unique<I15OneVmPerInstance>(world);
}

}  // namespace nstance::sim

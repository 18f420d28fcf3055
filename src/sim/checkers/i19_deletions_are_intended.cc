// I-19: no VM is deleted without a durable delete intent, of this or an earlier epoch, written
// before the call.
//
// A call may arrive long after its intent was closed, so every intent counts that ever stood in the
// journal. When a call was sent cannot be seen; that it arrived before its intent can. A duplicate
// is another VM than its instance's durable record names: that record is the intent.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I19DeletionsAreIntended final : public Checker {
 public:
  explicit I19DeletionsAreIntended(CheckerWorld& world) : Checker("I-19", world) {}

  void OnChange(const SimChange& /*change*/) override {
    if (world().truth().last().kind != TruthChange::Kind::kJournal) return;
    for (const Intent* intent : NewIntents(world().truth())) {
      if (intent->kind != IntentKind::kDelete) continue;
      const auto [at, fresh] = epochs_.try_emplace(intent->instance_id, intent->epoch);
      if (!fresh) at->second = std::min(at->second, intent->epoch);
    }
  }

  void OnVm(const SimVmChange& change) override {
    if (change.method != SimProviderMethod::kDelete || !change.vm->shown.instance_id) return;
    const InstanceId& id = *change.vm->shown.instance_id;
    const auto at = epochs_.find(id);
    if (at != epochs_.end() && at->second <= change.epoch) return;
    const InstanceRecord* record = world().truth().Find(id);
    if (record != nullptr && !record->provider_instance_id.empty() &&
        record->provider_instance_id != change.vm->provider_id) {
      return;
    }
    Violated(fmt::format("{} deleted {} ({}) under epoch {}: {}", change.process, id.text(),
                         change.vm->provider_id, change.epoch,
                         at == epochs_.end()
                             ? "no delete intent was ever durable"
                             : fmt::format("the intent is of epoch {}", at->second)));
  }

 private:
  std::map<InstanceId, std::int64_t> epochs_;  // The lowest of all its delete intents.
};

}  // namespace

std::unique_ptr<Checker> MakeI19(CheckerWorld& world) {
  return std::make_unique<I19DeletionsAreIntended>(world);
}

}  // namespace nstance::sim

// I-9: no write in doubt is taken for done or for not done without a read-back.
//
// After an answer that leaves open whether a write was applied (a deadline that passed, a 5xx), the
// next request of that process about the same object is a read. A process that ends, or a
// leadership that is over, leaves its doubt to whoever comes next, who reads before writing anyhow.
// The store probe means to write without looking.
//
// A creation is a write too. After an answer that leaves open whether there is a VM, its record
// does not tell that it failed, or is over, before that process has looked for the VM.
#include <map>
#include <set>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"

namespace nstance::sim {
namespace {

class I09DoubtIsSettled final : public Checker {
 public:
  explicit I09DoubtIsSettled(CheckerWorld& world) : Checker("I-9", world) {}

  void OnCall(const SimCall& call) override {
    if (call.key.starts_with("probe/")) return;
    if (call.moment == SimCall::Moment::kAnswered) {
      const bool put = call.method == SimMethod::kPut;
      if (put && call.maybe_done) in_doubt_[call.process].insert(call.key);
      return;
    }
    const auto of_process = in_doubt_.find(call.process);
    if (of_process == in_doubt_.end()) return;
    const auto doubt = of_process->second.find(call.key);
    if (doubt == of_process->second.end()) return;
    of_process->second.erase(doubt);
    if (call.method == SimMethod::kGet || call.method == SimMethod::kHead) return;
    Violated(fmt::format("{} writes {} again although it cannot know what became of its last write",
                         call.process, call.key));
  }

  void OnProviderCall(const SimProviderCall& call) override {
    std::set<InstanceId>& doubts = creations_[call.process];
    if (call.method == SimProviderMethod::kCreate && call.maybe_done) {
      doubts.insert(call.instance_id);
    } else {
      doubts.erase(call.instance_id);
    }
  }

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind != TruthChange::Kind::kRecord || !last.record) return;
    if (last.record->phase != InstancePhase::kCreating) return;
    const InstanceRecord* after = world().truth().Find(*last.id);
    if (after == nullptr) return;
    if (after->phase != InstancePhase::kFailed && after->phase != InstancePhase::kGone) return;
    const auto doubts = creations_.find(change.process);
    if (doubts == creations_.end() || !doubts->second.contains(*last.id)) return;
    Violated(fmt::format("{} lets {} be {} although it cannot know whether it has a VM",
                         change.process, last.id->text(), PhaseName(after->phase)));
  }

  void OnServerEnd(const ServerStanding& server) override {
    in_doubt_.erase(server.name);
    creations_.erase(server.name);
  }

 private:
  std::map<std::string, std::set<InstanceId>> creations_;               // By process.
  std::map<std::string, std::set<std::string, std::less<>>> in_doubt_;  // By process: keys.
};

}  // namespace

std::unique_ptr<Checker> MakeI09(CheckerWorld& world) {
  return std::make_unique<I09DoubtIsSettled>(world);
}

}  // namespace nstance::sim

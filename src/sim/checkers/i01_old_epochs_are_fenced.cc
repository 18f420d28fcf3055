// I-1: what an older leader sends takes no effect once a newer one has begun.
//
//   - the epoch of the journal, and that of the groups object, never fall
//   - a provider request of epoch e belongs to an intent that was durable in a journal of epoch e
//     or before: so whoever took over has read it, however late the request arrives. The deletion
//     of a provider's duplicate (faults.md 4.1 F10) has no intent, which would be one to delete the
//     instance: what stands for it is the record that names the VM that is kept, if it did so in
//     epoch e or before
//   - nobody asks the provider for something or signs when its lease is over by its own clock: RU4
//     is asked in the turn that begins the effect
//   - nobody signs under an epoch that is over. That rests on time alone, and is not asked of
//     clocks that do not run at one rate (faults.md 4.7 F11)
#include <map>
#include <string>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I01OldEpochsAreFenced final : public Checker {
 public:
  explicit I01OldEpochsAreFenced(CheckerWorld& world) : Checker("I-1", world) {}

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind == TruthChange::Kind::kJournal) return OnJournal(change, last);
    if (last.kind == TruthChange::Kind::kRecord) return OnRecord(last);
    if (last.kind != TruthChange::Kind::kGroups || IsByHand(change)) return;
    const auto& stamp = world().truth().Of(*last.shard).groups_stamp;
    if (!stamp) return;  // I-7.
    Judge(groups_[*last.shard], stamp->epoch, change);
  }

  void OnVm(const SimVmChange& change) override {
    const bool creates = change.method == SimProviderMethod::kCreate;
    if (!creates && change.method != SimProviderMethod::kDelete) return;
    if (!change.vm->shown.instance_id) return;
    const auto& firsts = creates ? creations_ : deletions_;
    const auto at = firsts.find(*change.vm->shown.instance_id);
    if (at != firsts.end() && at->second <= change.epoch) return;
    if (!creates && IsDuplicate(*change.vm, change.epoch)) return;
    Violated(fmt::format("{} of {} by {} under epoch {}: {}", creates ? "creation" : "deletion",
                         change.vm->shown.shown_id, change.process, change.epoch,
                         at == firsts.end()
                             ? "its intent was never durable"
                             : fmt::format("its intent first stood in epoch {}", at->second)));
  }

  void OnStep(const ServerStanding& server, Step step) override {
    const bool signs = step == Step::kR6 || step == Step::kW5;
    if (!signs && step != Step::kC4 && step != Step::kX3) return;
    if (!server.leads) {
      return Violated(fmt::format("{} begins {} under epoch {}, and does not lead any more",
                                  server.name, StepName(step), server.epoch));
    }
    if (!signs) return;
    if (world().RatesTrueSince() + world().setting().lease * 2 > world().now()) return;
    const auto& journal = world().truth().Of(server.shard).journal;
    if (!journal || journal->epoch <= server.epoch) return;
    Violated(fmt::format("{} signs under epoch {}, the journal is of epoch {}", server.name,
                         server.epoch, journal->epoch));
  }

 private:
  void OnJournal(const SimChange& change, const TruthChange& last) {
    const auto& journal = world().truth().Of(*last.shard).journal;
    if (!journal) return;
    if (!IsByHand(change)) Judge(journals_[*last.shard], journal->epoch, change);
    for (const Intent* intent : NewIntents(world().truth())) {
      if (intent->kind == IntentKind::kCreate) {
        creations_.try_emplace(intent->instance_id, journal->epoch);
      } else if (intent->kind == IntentKind::kDelete) {
        deletions_.try_emplace(intent->instance_id, journal->epoch);
      }
    }
  }

  void OnRecord(const TruthChange& last) {
    const InstanceRecord* record = world().truth().Find(*last.id);
    if (record == nullptr || record->provider_instance_id.empty()) return;
    const auto& journal = world().truth().Of(*last.shard).journal;
    if (!journal) return;
    const auto [at, fresh] = kept_.try_emplace(*last.id);
    if (!fresh && at->second.provider_id == record->provider_instance_id) return;
    at->second = {.provider_id = record->provider_instance_id, .epoch = journal->epoch};
  }

  [[nodiscard]] bool IsDuplicate(const SimVm& vm, std::int64_t epoch) const {
    const auto at = kept_.find(*vm.shown.instance_id);
    return at != kept_.end() && at->second.epoch <= epoch &&
           at->second.provider_id != vm.provider_id;
  }

  void Judge(std::int64_t& highest, std::int64_t epoch, const SimChange& change) {
    if (epoch < highest) {
      Violated(fmt::format("{} by {} under epoch {}, after a write of epoch {}", change.key.text(),
                           change.process, epoch, highest));
    }
    highest = std::max(highest, epoch);
  }

  std::map<ShardId, std::int64_t> journals_;  // The highest epoch so far.
  std::map<ShardId, std::int64_t> groups_;
  // By instance: the epoch of the journal that first held such an intent.
  std::map<InstanceId, std::int64_t> creations_;
  std::map<InstanceId, std::int64_t> deletions_;
  // By instance: the VM that its record names, and the epoch of the journal when it first did.
  struct Kept {
    std::string provider_id = {};
    std::int64_t epoch = 0;
  };
  std::map<InstanceId, Kept> kept_;
};

}  // namespace

std::unique_ptr<Checker> MakeI01(CheckerWorld& world) {
  return std::make_unique<I01OldEpochsAreFenced>(world);
}

}  // namespace nstance::sim

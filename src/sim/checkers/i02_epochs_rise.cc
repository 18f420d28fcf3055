// I-2: epochs rise by one, and no two incarnations hold the same; so does the lease's term with
// every change of its holder.
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I02EpochsRise final : public Checker {
 public:
  explicit I02EpochsRise(CheckerWorld& world) : Checker("I-2", world) {}

  void OnChange(const SimChange& change) override {
    if (IsByHand(change)) return;
    const TruthChange& last = world().truth().last();
    if (last.kind == TruthChange::Kind::kJournal) OnJournal(change, last);
    if (last.kind == TruthChange::Kind::kLease) OnLease(change, last);
  }

 private:
  void OnJournal(const SimChange& change, const TruthChange& last) {
    const auto& after = world().truth().Of(*last.shard).journal;
    if (!after) return;
    const auto [at, first] = holders_.try_emplace({*last.shard, after->epoch}, after->holder);
    if (!first && at->second != after->holder) {
      Violated(fmt::format("epoch {} of shard {} is held by {} and by {}", after->epoch,
                           last.shard->text(), at->second, after->holder));
    }
    if (!last.journal || after->epoch == last.journal->epoch) return;
    if (after->epoch != last.journal->epoch + 1) {
      Violated(fmt::format("{} took the journal of shard {} from epoch {} to {}", change.process,
                           last.shard->text(), last.journal->epoch, after->epoch));
    }
  }

  void OnLease(const SimChange& change, const TruthChange& last) {
    const auto& after = world().truth().Of(*last.shard).lease;
    if (!after || !last.lease) return;
    const bool other = after->incarnation != last.lease->incarnation;
    if (after->term > last.lease->term || (!other && after->term == last.lease->term)) return;
    Violated(fmt::format("{} wrote term {} over term {} of the lease of shard {}", change.process,
                         after->term, last.lease->term, last.shard->text()));
  }

  std::map<std::pair<ShardId, std::int64_t>, std::string> holders_;
};

}  // namespace

std::unique_ptr<Checker> MakeI02(CheckerWorld& world) {
  return std::make_unique<I02EpochsRise>(world);
}

}  // namespace nstance::sim

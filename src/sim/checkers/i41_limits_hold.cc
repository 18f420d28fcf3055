// I-41: what is stored stays within its limits (formats.md 6.2): the journal's places and bytes,
// and the size of a record; and no turn of a server's loop plans more than its budget (load.md
// LB16), unless it is one group, which is decided in one piece.
//
// Of memory, descriptors, threads and the queues inside a process nothing can be seen from here:
// their limits are held by the tests of whoever owns them.
#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "core/instance_record.h"
#include "core/journal_table.h"
#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I41LimitsHold final : public Checker {
 public:
  explicit I41LimitsHold(CheckerWorld& world) : Checker("I-41", world) {}

  void OnChange(const SimChange& change) override {
    if (change.after == nullptr || IsByHand(change)) return;
    const TruthChange& last = world().truth().last();
    if (last.kind == TruthChange::Kind::kRecord) {
      Compare(change, "bytes", change.after->bytes.size(), kMaxRecordBytes);
    } else if (last.kind == TruthChange::Kind::kJournal) {
      const auto& journal = world().truth().Of(*last.shard).journal;
      if (!journal) return;
      Compare(change, "bytes", change.after->bytes.size(), limits_.bytes);
      Compare(change, "intents", journal->intents.size(), limits_.intents);
      const auto creations = static_cast<std::size_t>(std::ranges::count(
          journal->intents, IntentKind::kCreate, [](const Intent& intent) { return intent.kind; }));
      Compare(change, "creations", creations, limits_.creations);
    }
  }

  void AfterTask(const ServerStanding& server) override {
    PlannerWork& before = planned_[server.name];
    if (server.planned == before) return;
    // Counted anew in each leadership.
    if (server.planned.pieces < before.pieces) before = {};
    const std::uint64_t pieces = server.planned.pieces - before.pieces;
    const std::uint64_t steps = server.planned.steps - before.steps;
    before = server.planned;
    if (pieces <= 1 || steps <= world().setting().steps_per_turn) return;
    Violated(fmt::format("{} has planned {} steps, of {} groups, in one turn; {} are allowed",
                         server.name, steps, pieces, world().setting().steps_per_turn));
  }

 private:
  void Compare(const SimChange& change, std::string_view what, std::size_t there,
               std::size_t allowed) {
    if (there <= allowed) return;
    Violated(fmt::format("{} by {} has {} {}; {} are allowed", change.key.text(), change.process,
                         there, what, allowed));
  }

  JournalLimits limits_;
  std::map<std::string, PlannerWork> planned_;  // By process, after its last turn.
};

}  // namespace

std::unique_ptr<Checker> MakeI41(CheckerWorld& world) {
  return std::make_unique<I41LimitsHold>(world);
}

}  // namespace nstance::sim

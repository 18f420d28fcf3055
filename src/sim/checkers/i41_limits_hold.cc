// I-41: what is stored stays within its limits (formats.md 6.2): the journal's places and bytes,
// and the size of a record.
//
// Of memory, descriptors, threads and the queues inside a process nothing can be seen from here:
// their limits are held by the tests of whoever owns them.
#include <algorithm>

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

 private:
  void Compare(const SimChange& change, std::string_view what, std::size_t there,
               std::size_t allowed) {
    if (there <= allowed) return;
    Violated(fmt::format("{} by {} has {} {}; {} are allowed", change.key.text(), change.process,
                         there, what, allowed));
  }

  JournalLimits limits_;
};

}  // namespace

std::unique_ptr<Checker> MakeI41(CheckerWorld& world) {
  return std::make_unique<I41LimitsHold>(world);
}

}  // namespace nstance::sim

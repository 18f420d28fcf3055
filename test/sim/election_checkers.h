// The invariants of leadership and storage, held against the truth of a simulated bucket.
//
// The checkers see what no process sees: every change of the bucket as it happens, what each
// process says about itself, and what it tells its callers. The first violation is kept; it names
// the invariant as `I01_...`.
//
//   I01  no journal write of an older epoch takes effect after one of a newer; no provider request
//        without an intent that was durable before a newer epoch began
//   I02  epochs rise by one, and no two incarnations hold one
//   I03  the store holds the lease of whoever says that it leads, so that it is alone with that
//   I04  a dead leader is replaced in time
//   I05  in calm there is exactly one leader
//   I06  nothing is overwritten unconditionally
//   I07  seq rises by one with every journal write; no write loses what another set
//   I08  what was answered as durable is in the store
//   I09  an ambiguous write is read back before anything else is done or said
//
// I01, I02 and I06 to I09 know no excuse. I03 is the promise of timing, and the design names what
// timing cannot promise; each excuse belongs to one leader and one cause, and all but the first two
// end when that leader's lease, counted from the moment of the accident, is over:
//   - its clock runs slower than another's by lease / (lease - margin) or more (faults.md 4.7 F11)
//   - its memory was restored from a saved state, and nobody has told it yet (RU9)
//   - its record was destroyed by hand. Until its next renewal it cannot know; but as long as it
//     leads nobody else may take the lease, except
//       - over a record that lived so briefly that a follower, who saw nothing before and nothing
//         after, never saw it: nothing carries no history
//       - by such a restored memory, which believes to have watched nothing or rubbish without gap
//     and a creation that was sent before the destruction may land after it; but whoever sent it
//     must not lead by that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/time.h"
#include "core/journal.h"
#include "core/lease.h"
#include "sim/sim_object_store.h"

namespace nstance::sim {

class ElectionCheckers {
 public:
  struct Options {
    JournalIdentity identity;
    ObjectKey lease_key;
    ObjectKey journal_key;
    // Those of the design, also when a planted bug has others.
    LeaseTimings timings = {};
    // The slowest rate of a clock that counts as near the others, in thousandths.
    std::int64_t slowest_near = SimLoop::kTrueRate;
    Duration stale_by = {};  // How old reads may be.
    // Violations of what begins so ("I09") are not seen: what else finds a planted bug?
    std::string blind_to = {};
  };
  // Somebody who says that it leads.
  struct Leader {
    const std::string* incarnation = nullptr;
    std::int64_t slowest = SimLoop::kTrueRate;  // Rate of its clock since it started.
    bool restored = false;                      // From a saved state, and does not know yet.
  };

  // `scheduler` must outlive the checkers.
  ElectionCheckers(const SimScheduler& scheduler, Options options);

  // Of the bucket.
  void OnChange(const SimChange& change);

  // After every task: who says that it leads now.
  void Lead(std::span<const Leader> leaders);
  // The rate of somebody's clock.
  void SawRate(std::int64_t rate) { fastest_ = std::max(fastest_, rate); }
  // All clocks have run at one rate for a lease.
  void RatesAreOne() { fastest_ = SimLoop::kTrueRate; }

  void TookOver(std::int64_t epoch, const std::string& holder);
  void AsksToClose(const std::string& process, const std::string& intent_id) {
    closing_[process].insert(intent_id);
  }
  void ToldDurable(const std::string& intent_id);
  void ProviderRequest(std::int64_t epoch, const std::string& intent_id);
  void CreationSent(const PutRequest& request);
  // `process` goes on with the memory of `earlier`, and does not know that time has passed.
  void Restored(const std::string& earlier, const std::string& process);
  void Detected(const std::string& process) { unaware_.erase(process); }

  void Violated(std::string_view invariant, std::string_view detail);
  [[nodiscard]] const std::optional<std::string>& violation() const { return violation_; }

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] std::uint64_t commits() const { return commits_; }
  [[nodiscard]] std::uint64_t excuses() const { return excuses_; }

 private:
  // How the record that stands came to be, as far as it matters to whoever held one before.
  enum class Standing : std::uint8_t {
    kTaken,    // By its rules.
    kByHand,   // Also when there is none.
    kBlindly,  // By somebody who could not know of the record before.
    kLate,     // By a creation that was sent before the destruction.
  };

  void OnLease(const SimChange& change);
  [[nodiscard]] Standing JudgeCreation(const SimChange& change, const LeaseRecord& record) const;
  void OnJournal(const SimChange& change);
  void CompareJournals(const SimChange& change, const Journal& before, const Journal& after);
  void CompareIntents(const SimChange& change, const Journal& before, const Journal& after);
  [[nodiscard]] bool MayLeadWithoutLease(const Leader& leader, bool holder_leads) const;

  const SimScheduler& scheduler_;
  Options options_;
  std::optional<std::string> violation_;
  std::uint64_t excuses_ = 0;

  std::optional<std::string> lease_holder_;  // Incarnation, as it stands in the bucket.
  Standing standing_ = Standing::kByHand;
  Instant created_at_;                       // When there was none before.
  Duration last_life_ = Duration::Hours(1);  // Of the record that was deleted last.
  std::optional<Instant> destroyed_at_;
  std::map<std::string, Instant> creations_;  // Sent when, by write id.
  std::map<std::string, Instant> destroyed_;  // Whose record, by incarnation, and when.
  std::set<std::string> unaware_;             // Restored processes that do not know yet.
  std::int64_t fastest_ = SimLoop::kTrueRate;

  std::optional<Journal> journal_;
  std::uint64_t commits_ = 0;
  std::map<std::int64_t, std::string> epoch_holders_;
  std::map<std::string, std::int64_t> intent_epochs_;     // Of the journal that first had it.
  std::map<std::string, std::set<std::string>> closing_;  // By process.
};

}  // namespace nstance::sim

// The invariants of leadership and storage, held against the truth of a simulated bucket.
//
// The checkers see what no process sees: every change of the bucket as it happens, what each process
// says about itself, and what it tells its callers. The first violation is kept; it names the invariant
// as `I01_...`.
//
//   I01  no journal write of an older epoch takes effect after one of a newer; no provider request
//        without an intent that was durable before a newer epoch began
//   I02  epochs rise strictly, and no two incarnations hold one
//   I03  who says that it leads is alone with that, and the store holds its lease
//   I04  a dead leader is replaced in time
//   I05  in calm there is exactly one leader
//   I06  nothing is overwritten unconditionally
//   I07  seq rises by one with every journal write; no write loses what another set
//   I08  what was answered as durable is in the store
//   I09  an ambiguous write is read back before anything else is done or said
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
  struct Keys {
    ObjectKey lease;
    ObjectKey journal;
  };
  // `scheduler` must outlive the checkers.
  ElectionCheckers(const SimScheduler& scheduler, JournalIdentity identity, Keys keys);

  // Of the bucket.
  void OnChange(const SimChange& change);

  enum class Clocks : std::uint8_t {
    kNear,  // Rates differ by less than lease / (lease - margin): leaderships never overlap.
    kFar,   // They may; the journal alone fences.
  };
  // After every task: who says that it leads now, by incarnation.
  void Lead(std::span<const std::string* const> leaders, Clocks clocks);
  void TookOver(std::int64_t epoch, const std::string& holder);
  void AsksToClose(const std::string& intent_id) { closing_.insert(intent_id); }
  void ToldDurable(const std::string& process, const std::string& intent_id);
  void ProviderRequest(std::int64_t epoch, const std::string& intent_id);

  // Calls of one process on one key, for I09.
  void PutSent(const std::string& process, const PutRequest& request);
  void PutAnswered(const std::string& process, const std::string& key, const Error* error);
  void GetAnswered(const std::string& process, const std::string& key);
  void Died(const std::string& process);

  void Violated(std::string_view invariant, std::string detail);
  [[nodiscard]] const std::optional<std::string>& violation() const { return violation_; }

  // The lease as it stands in the bucket: the incarnation that holds it, if somebody does.
  [[nodiscard]] const std::optional<std::string>& lease_holder() const { return lease_holder_; }
  [[nodiscard]] std::uint64_t commits() const { return commits_; }
  [[nodiscard]] std::int64_t epoch() const { return journal_ ? journal_->epoch : 0; }

 private:
  void OnLease(const SimChange& change);
  void OnJournal(const SimChange& change);
  void CompareJournals(const Journal& before, const Journal& after);

  JournalIdentity identity_;
  const SimScheduler& scheduler_;
  Keys keys_;
  std::optional<std::string> violation_;

  std::optional<std::string> lease_holder_;
  bool lease_is_ours_ = true;  // The last change was made by a process, not by hand.
  // Two accidents that no timing can prevent, since nothing and rubbish carry no history; for one lease
  // only the journal fences: the lease is destroyed so soon after its creation that a follower may never
  // have seen it; and a creation that was sent before the destruction lands after it.
  Instant created_at_;
  std::optional<Instant> destroyed_at_;
  std::map<std::string, Instant> creations_;  // By write id.
  Instant excused_until_;

  std::optional<Journal> journal_;
  std::uint64_t commits_ = 0;
  std::map<std::int64_t, std::string> epoch_holders_;
  std::map<std::string, std::int64_t> intent_epochs_;  // Epoch of the journal that first had it.
  std::set<std::string> closing_;
  std::set<std::string> in_doubt_;  // "process key".
};

}  // namespace nstance::sim

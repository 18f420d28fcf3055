#include "test/sim/election_checkers.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace nstance::sim {

ElectionCheckers::ElectionCheckers(const SimScheduler& scheduler, Options options)
    : scheduler_(scheduler), options_(std::move(options)) {}

void ElectionCheckers::Violated(std::string_view invariant, std::string_view detail) {
  if (!options_.blind_to.empty() && invariant.starts_with(options_.blind_to)) return;
  if (!violation_) violation_ = fmt::format("{}: {}", invariant, detail);
}

void ElectionCheckers::OnChange(const SimChange& change) {
  if (!change.process.empty() && change.method != SimMethod::kPut) {
    Violated("I06_NothingIsOverwrittenUnconditionally", change.process);
  }
  if (change.key == options_.lease_key) OnLease(change);
  if (change.key == options_.journal_key) OnJournal(change);
}

void ElectionCheckers::OnLease(const SimChange& change) {
  const bool over_rubbish = standing_ == Standing::kByHand;
  if (change.before == nullptr) created_at_ = change.at;
  if (change.after == nullptr) last_life_ = change.at - created_at_;
  if (change.process.empty()) {
    if (lease_holder_) destroyed_.insert_or_assign(*lease_holder_, change.at);
    destroyed_at_ = change.at;
    standing_ = Standing::kByHand;
    lease_holder_.reset();
    return;
  }
  lease_holder_.reset();
  if (change.after == nullptr) return;
  const DecodedLease lease = DecodeLease(change.after->bytes);
  if (lease.form != LeaseForm::kValid) return Violated("I07_WhatIsWrittenCanBeRead", lease.flaw);
  if (over_rubbish) standing_ = JudgeCreation(change, lease.record);
  if (lease.record.released) return;
  lease_holder_ = lease.record.incarnation;
  destroyed_.erase(lease.record.incarnation);
}

ElectionCheckers::Standing ElectionCheckers::JudgeCreation(const SimChange& change,
                                                           const LeaseRecord& record) const {
  if (unaware_.contains(change.process)) return Standing::kBlindly;
  if (change.before != nullptr) return Standing::kTaken;
  // A follower takes what it has seen missing in looks that are at most half a lease apart; a
  // creation counts until its deadline, a quarter of a lease before the lease's end. So what lived
  // for longer than the latter was seen, or what follows it is too late to lead by.
  const LeaseTimings& timings = options_.timings;
  const Duration brief =
      ((timings.lease - timings.margin) * SimLoop::kTrueRate / options_.slowest_near) +
      Duration::Milliseconds(500) + options_.stale_by;
  if (last_life_ < brief) return Standing::kBlindly;
  const auto sent = creations_.find(record.write_id);
  if (sent == creations_.end() || !destroyed_at_ || sent->second > *destroyed_at_) {
    return Standing::kTaken;
  }
  // A late word that the lease is free invites others at once.
  return record.released ? Standing::kBlindly : Standing::kLate;
}

void ElectionCheckers::Lead(std::span<const Leader> leaders) {
  if (leaders.empty()) return;
  const bool holder_leads = std::ranges::any_of(
      leaders, [this](const Leader& leader) { return *leader.incarnation == lease_holder_; });
  for (const Leader& leader : leaders) {
    if (*leader.incarnation == lease_holder_) continue;
    if (MayLeadWithoutLease(leader, holder_leads)) {
      ++excuses_;
      continue;
    }
    Violated("I03_TheStoreHoldsTheLeaseOfWhoeverLeads",
             fmt::format("{} leads, the store has {}", *leader.incarnation,
                         lease_holder_.value_or("nobody")));
  }
}

bool ElectionCheckers::MayLeadWithoutLease(const Leader& leader, bool holder_leads) const {
  const LeaseTimings& timings = options_.timings;
  const Duration deadline = timings.lease - timings.margin;
  if (leader.slowest * timings.lease.milliseconds() <= fastest_ * deadline.milliseconds()) {
    return true;
  }
  if (leader.restored) return true;
  const auto destroyed = destroyed_.find(*leader.incarnation);
  if (destroyed == destroyed_.end()) return false;
  const Duration left = deadline * SimLoop::kTrueRate / options_.slowest_near;
  if (scheduler_.now() >= destroyed->second + left) return false;
  switch (standing_) {
    case Standing::kTaken: return false;
    case Standing::kByHand:
    case Standing::kBlindly: return true;
    case Standing::kLate: return !holder_leads;
  }
  return false;
}

void ElectionCheckers::OnJournal(const SimChange& change) {
  // Damage by hand says nothing about the servers; what is put back is what was there.
  if (change.process.empty() && journal_) return;
  if (change.after == nullptr) return;
  Result<Journal> after = DecodeJournal(change.after->bytes, options_.identity);
  if (!after) return Violated("I07_WhatIsWrittenCanBeRead", after.error().message);
  ++commits_;
  if (journal_) CompareJournals(change, *journal_, *after);
  const auto [at, added] = epoch_holders_.emplace(after->epoch, after->holder);
  if (at->second != after->holder) {
    Violated("I02_NoTwoIncarnationsHoldOneEpoch",
             fmt::format("epoch {} of {} and {}", after->epoch, at->second, after->holder));
  }
  for (const Intent& intent : after->intents) intent_epochs_.emplace(intent.id, after->epoch);
  journal_ = *std::move(after);
}

void ElectionCheckers::CompareJournals(const SimChange& change, const Journal& before,
                                       const Journal& after) {
  if (after.epoch < before.epoch) {
    Violated("I01_NoWriteOfAnOlderEpochAfterANewer",
             fmt::format("{} of {} after {} of {}", after.epoch, after.holder, before.epoch,
                         before.holder));
  }
  if (after.epoch > before.epoch + 1) {
    Violated("I02_EpochsRiseByOne", fmt::format("{} after {}", after.epoch, before.epoch));
  }
  if (after.seq != before.seq + 1) {
    Violated("I07_SeqRisesByOne", fmt::format("{} after {}", after.seq, before.seq));
  }
  if (after.unknown != before.unknown || after.audit_head != before.audit_head) {
    Violated("I07_NoWriteLosesWhatAnotherSet", "a member of the journal");
  }
  CompareIntents(change, before, after);
}

// Servers of this simulation open and close intents and never change one.
void ElectionCheckers::CompareIntents(const SimChange& change, const Journal& before,
                                      const Journal& after) {
  for (const Intent& intent : before.intents) {
    const auto kept = std::ranges::find(after.intents, intent.id, &Intent::id);
    if (kept != after.intents.end()) {
      if (*kept == intent) continue;
      Violated("I07_NoWriteLosesWhatAnotherSet", fmt::format("intent {} changed", intent.id));
    } else if (!closing_[change.process].contains(intent.id)) {
      // Only who asked for it itself may close; a take-over closes nothing.
      Violated("I07_NoWriteLosesWhatAnotherSet",
               fmt::format("intent {} lost by {}", intent.id, after.holder));
    }
  }
}

void ElectionCheckers::TookOver(std::int64_t epoch, const std::string& holder) {
  const auto at = epoch_holders_.find(epoch);
  if (at == epoch_holders_.end() || at->second != holder) {
    Violated("I02_AnEpochIsInTheStoreBeforeItActs",
             fmt::format("{} acts under epoch {} of {}", holder, epoch,
                         at == epoch_holders_.end() ? "nobody" : at->second));
  }
}

// It was in the journal, and leaves it only by somebody's wish (I07).
void ElectionCheckers::ToldDurable(const std::string& intent_id) {
  if (!intent_epochs_.contains(intent_id)) {
    Violated("I08_WhatWasAnsweredIsInTheStore", fmt::format("intent {}", intent_id));
  }
}

void ElectionCheckers::ProviderRequest(std::int64_t epoch, const std::string& intent_id) {
  const auto at = intent_epochs_.find(intent_id);
  if (at == intent_epochs_.end() || at->second > epoch) {
    Violated("I01_AProviderRequestHasAnIntentThatNewerLeadersHaveRead",
             fmt::format("intent {} of epoch {}", intent_id, epoch));
  }
}

void ElectionCheckers::CreationSent(const PutRequest& request) {
  creations_.emplace(DecodeLease(request.bytes).record.write_id, scheduler_.now());
}

void ElectionCheckers::Restored(const std::string& earlier, const std::string& process) {
  const auto closes = closing_.find(earlier);
  if (closes != closing_.end()) closing_.insert_or_assign(process, closes->second);
  unaware_.insert(process);
}

}  // namespace nstance::sim

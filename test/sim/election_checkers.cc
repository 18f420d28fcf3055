#include "test/sim/election_checkers.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace nstance::sim {

ElectionCheckers::ElectionCheckers(const SimScheduler& scheduler, JournalIdentity identity,
                                   Keys keys)
    : identity_(std::move(identity)), scheduler_(scheduler), keys_(std::move(keys)) {}

void ElectionCheckers::Violated(std::string_view invariant, std::string detail) {
  if (!violation_) violation_ = fmt::format("{}: {}", invariant, detail);
}

void ElectionCheckers::OnChange(const SimChange& change) {
  if (!change.process.empty() && change.method != SimMethod::kPut) {
    Violated("I06_NothingIsOverwrittenUnconditionally", change.process);
  }
  if (change.key == keys_.lease) OnLease(change);
  if (change.key == keys_.journal) OnJournal(change);
}

void ElectionCheckers::OnLease(const SimChange& change) {
  lease_is_ours_ = !change.process.empty();
  lease_holder_.reset();
  if (change.before == nullptr) created_at_ = change.at;
  if (!lease_is_ours_) {
    destroyed_at_ = change.at;
    if (change.at - created_at_ < Duration::Seconds(6)) {
      excused_until_ = change.at + Duration::Seconds(16);
    }
  }
  if (change.after == nullptr) return;
  const DecodedLease lease = DecodeLease(change.after->bytes);
  if (lease.form != LeaseForm::kValid) {
    if (lease_is_ours_) Violated("I07_WhatIsWrittenCanBeRead", lease.flaw);
    return;
  }
  if (!lease.record.released) lease_holder_ = lease.record.incarnation;
  const auto sent = creations_.find(lease.record.write_id);
  if (sent != creations_.end() && destroyed_at_ && sent->second <= *destroyed_at_) {
    excused_until_ = change.at + (lease.record.lease * 2);
  }
}

void ElectionCheckers::OnJournal(const SimChange& change) {
  if (change.after == nullptr) return;
  Result<Journal> after = DecodeJournal(change.after->bytes, identity_);
  if (!after) return Violated("I07_WhatIsWrittenCanBeRead", after.error().message);
  ++commits_;
  if (journal_) CompareJournals(*journal_, *after);
  const auto [at, added] = epoch_holders_.emplace(after->epoch, after->holder);
  if (at->second != after->holder) {
    Violated("I02_NoTwoIncarnationsHoldOneEpoch",
             fmt::format("epoch {} of {} and {}", after->epoch, at->second, after->holder));
  }
  for (const Intent& intent : after->intents) intent_epochs_.emplace(intent.id, after->epoch);
  journal_ = *std::move(after);
}

void ElectionCheckers::CompareJournals(const Journal& before, const Journal& after) {
  if (after.epoch < before.epoch) {
    Violated("I01_NoWriteOfAnOlderEpochAfterANewer",
             fmt::format("{} of {} after {} of {}", after.epoch, after.holder, before.epoch,
                         before.holder));
  }
  if (after.seq != before.seq + 1) {
    Violated("I07_SeqRisesByOne", fmt::format("{} after {}", after.seq, before.seq));
  }
  for (const Intent& intent : before.intents) {
    const bool kept =
        std::ranges::find(after.intents, intent.id, &Intent::id) != after.intents.end();
    if (!kept && !closing_.contains(intent.id)) {
      Violated("I07_NoWriteLosesWhatAnotherSet",
               fmt::format("intent {} lost by {}", intent.id, after.holder));
    }
  }
  if (after.unknown != before.unknown || after.audit_head != before.audit_head) {
    Violated("I07_NoWriteLosesWhatAnotherSet", "a member of the journal");
  }
}

void ElectionCheckers::Lead(std::span<const std::string* const> leaders, Clocks clocks) {
  if (clocks == Clocks::kFar || leaders.empty() || scheduler_.now() < excused_until_) return;
  if (leaders.size() > 1) {
    return Violated("I03_OneLeadsAtATime", fmt::format("{} and {}", *leaders[0], *leaders[1]));
  }
  if (lease_holder_ == *leaders[0]) return;
  // A record destroyed by hand is noticed with the next renewal.
  if (!lease_holder_ && !lease_is_ours_) return;
  Violated(
      "I03_TheStoreHoldsTheLeaseOfWhoeverLeads",
      fmt::format("{} leads, the store has {}", *leaders[0], lease_holder_.value_or("nobody")));
}

void ElectionCheckers::TookOver(std::int64_t epoch, const std::string& holder) {
  const auto at = epoch_holders_.find(epoch);
  if (at == epoch_holders_.end() || at->second != holder) {
    Violated("I02_AnEpochIsInTheStoreBeforeItActs",
             fmt::format("{} acts under epoch {} of {}", holder, epoch,
                         at == epoch_holders_.end() ? "nobody" : at->second));
  }
}

void ElectionCheckers::ToldDurable(const std::string& process, const std::string& intent_id) {
  if (!intent_epochs_.contains(intent_id)) {
    Violated("I08_WhatWasAnsweredIsInTheStore", fmt::format("intent {}", intent_id));
  }
  if (in_doubt_.contains(process + " " + keys_.journal.text())) {
    Violated("I09_NothingIsSaidInDoubt", fmt::format("intent {} by {}", intent_id, process));
  }
}

void ElectionCheckers::ProviderRequest(std::int64_t epoch, const std::string& intent_id) {
  const auto at = intent_epochs_.find(intent_id);
  if (at == intent_epochs_.end() || at->second > epoch) {
    Violated("I01_AProviderRequestHasAnIntentThatNewerLeadersHaveRead",
             fmt::format("intent {} of epoch {}", intent_id, epoch));
  }
}

void ElectionCheckers::PutSent(const std::string& process, const PutRequest& request) {
  const std::string& key = request.key.text();
  if (request.key == keys_.lease && std::holds_alternative<IfAbsent>(request.condition)) {
    creations_.emplace(DecodeLease(request.bytes).record.write_id, scheduler_.now());
  }
  if (in_doubt_.contains(process + " " + key)) {
    Violated("I09_AnAmbiguousWriteIsReadBackFirst", fmt::format("{} {}", process, key));
  }
}

void ElectionCheckers::PutAnswered(const std::string& process, const std::string& key,
                                   const Error* error) {
  const bool doubt =
      error != nullptr && (error->outcome == Outcome::kMaybeDone || error->code == Code::kAborted);
  if (doubt) in_doubt_.insert(process + " " + key);
}

void ElectionCheckers::GetAnswered(const std::string& process, const std::string& key) {
  in_doubt_.erase(process + " " + key);
}

void ElectionCheckers::Died(const std::string& process) {
  const auto from = in_doubt_.lower_bound(process + " ");
  const auto to = in_doubt_.lower_bound(process + "!");
  in_doubt_.erase(from, to);
}

}  // namespace nstance::sim

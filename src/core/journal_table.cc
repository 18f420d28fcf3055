#include "core/journal_table.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace nstance {
namespace {

// Of everything but the intents: numbers may still grow, and the stamp of the next write may be
// longer.
std::size_t EnvelopeBytes(const Journal& journal) {
  constexpr std::size_t kMayGrow = 512;
  Journal empty = journal;
  empty.intents.clear();
  return EncodeJournal(empty).size() + kMayGrow;
}

// A closed intent is marked by an empty id until the plan is complete.
bool IsClosed(const Intent& intent) { return intent.id.empty(); }

}  // namespace

JournalTable::JournalTable(Journal journal, const JournalLimits& limits)
    : journal_(std::move(journal)), limits_(limits), bytes_(EnvelopeBytes(journal_)) {
  for (const Intent& intent : journal_.intents) {
    notes_.push_back({.brake = Brake::kFree, .bytes = EncodeIntent(intent).size() + 1});
    Count(intent, notes_.back());
  }
}

void JournalTable::Count(const Intent& intent, const Note& note) {
  const bool creates = intent.kind == IntentKind::kCreate;
  bytes_ += note.bytes;
  for (Share* share : {&total_, &tenants_[intent.tenant]}) {
    ++share->all;
    if (creates) ++share->creations;
    if (note.brake == Brake::kHeld) ++share->held;
  }
}

void JournalTable::Discount(const Intent& intent, const Note& note) {
  const bool creates = intent.kind == IntentKind::kCreate;
  bytes_ -= note.bytes;
  const auto tenant = tenants_.find(intent.tenant);
  CHECK(tenant != tenants_.end(), "tenant {}", intent.tenant.text());
  for (Share* share : {&total_, &tenant->second}) {
    --share->all;
    if (creates) --share->creations;
    if (note.brake == Brake::kHeld) --share->held;
  }
  if (tenant->second.all == 0) tenants_.erase(tenant);
}

std::size_t JournalTable::free_places() const {
  return total_.all >= limits_.intents ? 0 : limits_.intents - total_.all;
}

bool JournalTable::HasPlace(IntentKind kind, const TenantId& tenant, Brake brake) const {
  const auto found = tenants_.find(tenant);
  const Share share = found == tenants_.end() ? Share{} : found->second;
  if (total_.all >= limits_.intents || share.all >= limits_.tenant) return false;
  if (kind == IntentKind::kCreate) {
    if (total_.creations >= limits_.creations) return false;
    if (share.creations >= limits_.tenant_creations) return false;
  }
  return brake == Brake::kFree || share.held < limits_.tenant_held;
}

void JournalTable::SetBrake(std::string_view id, Brake brake) {
  for (std::size_t i = 0; i < notes_.size(); ++i) {
    if (journal_.intents[i].id != id) continue;
    Discount(journal_.intents[i], notes_[i]);
    notes_[i].brake = brake;
    Count(journal_.intents[i], notes_[i]);
  }
}

ChangeResult JournalTable::Open(Intent intent, const Note& note) {
  const bool fits = HasPlace(intent.kind, intent.tenant, note.brake) &&
                    bytes_ + note.bytes + limits_.intent_bytes <= limits_.bytes;
  if (!fits) return {.fate = ChangeResult::Fate::kWaits};
  Count(intent, note);
  notes_.push_back(note);
  std::string id = intent.id;
  journal_.intents.push_back(std::move(intent));
  return {.fate = ChangeResult::Fate::kMade, .id = std::move(id)};
}

ChangeResult JournalTable::Replace(std::size_t at, Intent intent, const Note& note) {
  Intent& old = journal_.intents[at];
  if (bytes_ - notes_[at].bytes + note.bytes > limits_.bytes) {
    return {.fate = ChangeResult::Fate::kWaits};
  }
  Discount(old, notes_[at]);
  Count(intent, note);
  notes_[at] = note;
  old = std::move(intent);
  return {.fate = ChangeResult::Fate::kMade, .id = old.id};
}

ChangeResult JournalTable::Make(const JournalChange& change, Index& index, const std::string& id) {
  CHECK(!change.id.empty() || change.intent, "an empty change");
  auto at = index.end();
  if (!change.id.empty()) {
    at = index.find(change.id);
    if (at == index.end()) return {.fate = ChangeResult::Fate::kUnknown};
  }
  if (!change.intent) {
    Intent& closed = journal_.intents[at->second];
    Discount(closed, notes_[at->second]);
    closed.id.clear();
    index.erase(at);
    return {.fate = ChangeResult::Fate::kMade, .id = change.id};
  }
  Intent intent = *change.intent;
  const bool same = change.identity == JournalChange::Identity::kSame;
  intent.id = same ? change.id : id;
  if (!same) intent.epoch = journal_.epoch;
  const Note note{.brake = change.brake, .bytes = EncodeIntent(intent).size() + 1};
  if (note.bytes > limits_.intent_bytes) return {.fate = ChangeResult::Fate::kTooLarge};
  if (at == index.end()) return Open(std::move(intent), note);
  const std::size_t place = at->second;
  ChangeResult result = Replace(place, std::move(intent), note);
  if (result.fate == ChangeResult::Fate::kMade) {
    index.erase(at);
    index.emplace(result.id, place);
  }
  return result;
}

void JournalTable::DropClosed() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < notes_.size(); ++i) {
    if (IsClosed(journal_.intents[i])) continue;
    if (kept != i) {
      journal_.intents[kept] = std::move(journal_.intents[i]);
      notes_[kept] = notes_[i];
    }
    ++kept;
  }
  journal_.intents.erase(journal_.intents.begin() + static_cast<std::ptrdiff_t>(kept),
                         journal_.intents.end());
  notes_.resize(kept);
}

JournalDraft JournalTable::Plan(std::span<const JournalChange> changes,
                                const JournalStamp& stamp) const {
  JournalDraft draft{.table = *this, .results = {}};
  Journal& next = draft.table.journal_;
  ++next.seq;
  next.write_id = stamp.write_id;
  next.holder = stamp.holder;
  next.updated_at = stamp.at;
  Index index;
  for (std::size_t i = 0; i < next.intents.size(); ++i) index.emplace(next.intents[i].id, i);
  std::size_t number = 0;
  for (const JournalChange& change : changes) {
    const std::string id = fmt::format("{}-{}-{}", next.epoch, next.seq, number + 1);
    draft.results.push_back(draft.table.Make(change, index, id));
    const bool named = change.intent && change.identity == JournalChange::Identity::kNew &&
                       draft.results.back().fate == ChangeResult::Fate::kMade;
    if (named) ++number;
  }
  draft.table.DropClosed();
  return draft;
}

}  // namespace nstance

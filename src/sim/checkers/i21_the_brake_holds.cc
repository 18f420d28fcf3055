// I-21: the deletion brake, per tenant and shard.
//
// Counted is what the stored evidence says: a drain intent that becomes durable, and a record that
// becomes deleting without a drain, at the time that they give for the start. Of starts that nobody
// ordered at most max(5, 10 %) fall into a window, at most half of them (and one) for expiry, drift
// and pool age; of ordered ones at most max(10, 25 %). And nothing is left out: a registered
// instance whose VM runs is counted, unless it has a termination notice.
//
// A deletion starts later than it was decided, by up to half a window when the store is bad, so
// windows of half the length are judged here. A new leader reads its window from wall times (RU8):
// while clocks were wrong nothing is judged. The share is taken of the most instances that the
// tenant ever had in the shard.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/fleet/words.h"
#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

constexpr int kUnorderedCount = 5;
constexpr int kUnorderedPercent = 10;
constexpr int kOrderedCount = 10;
constexpr int kOrderedPercent = 25;

struct Start {
  Timestamp at = {};
  bool ordered = false;
  bool counted = false;
  std::string reason;
};

class I21TheBrakeHolds final : public Checker {
 public:
  explicit I21TheBrakeHolds(CheckerWorld& world) : Checker("I-21", world) {}

  void OnChange(const SimChange& change) override {
    const Truth& truth = world().truth();
    const TruthChange& last = truth.last();
    if (last.kind == TruthChange::Kind::kJournal) {
      for (const Intent* intent : NewIntents(truth)) {
        if (intent->kind == IntentKind::kDelete) {
          intended_.try_emplace(intent->instance_id,
                                Decision{.durable_at = change.at, .epoch = intent->epoch});
        }
        if (intent->kind != IntentKind::kDrain) continue;
        // One that is written again after its record is the same start.
        const auto [at, fresh] = drained_.try_emplace(intent->instance_id, intent->opened_at);
        if (!fresh && at->second == intent->opened_at) continue;
        at->second = intent->opened_at;
        Judge(*last.shard, intent->instance_id,
              {.at = intent->opened_at,
               .ordered = intent->ordered,
               .counted = intent->counted,
               .reason = intent->reason});
      }
    } else if (last.kind == TruthChange::Kind::kRecord) {
      OnRecord(change, last);
    }
  }

  void OnCertificate(const IssuedCertificate& issued) override {
    given_.insert(issued.certificate.facts().serial.decimal());
  }

 private:
  using Place = std::pair<ShardId, TenantId>;
  struct Window {
    std::vector<Timestamp> unordered;  // Starts, oldest first.
    std::vector<Timestamp> opportunistic;
    std::vector<Timestamp> ordered;
    int population = 0;
    int most = 0;
  };

  struct Decision {
    Instant durable_at;
    std::int64_t epoch = 0;
  };
  struct Registration {
    Instant at;
    std::optional<std::int64_t> unseen_by = std::nullopt;  // The epoch that led when it was stored.
  };

  static bool IsCounted(const std::optional<InstanceRecord>& record) {
    return record && record->phase != InstancePhase::kGone &&
           record->phase != InstancePhase::kFailed;
  }

  void OnRecord(const SimChange& change, const TruthChange& last) {
    const InstanceRecord* after = world().truth().Find(*last.id);
    const std::optional<InstanceRecord>& before = last.record;
    if (after == nullptr) return;
    Window& window = windows_[{*last.shard, after->tenant}];
    const bool is_live =
        after->phase != InstancePhase::kGone && after->phase != InstancePhase::kFailed;
    window.population += static_cast<int>(is_live) - static_cast<int>(IsCounted(before));
    window.most = std::max(window.most, window.population);
    const std::optional<Journal>& journal = world().truth().Of(*last.shard).journal;
    if (after->registered_at && !(before && before->registered_at)) {
      Registration& registration = registered_[*last.id];
      registration = {.at = change.at};
      if (journal && after->epoch < journal->epoch) registration.unseen_by = journal->epoch;
    }
    const bool revoked = before && before->phase == InstancePhase::kDraining &&
                         after->phase == InstancePhase::kRegistered;
    if (revoked) drained_.erase(*last.id);
    const bool begins = after->phase == InstancePhase::kDeleting &&
                        !(before && before->phase == InstancePhase::kDeleting);
    // What was drained was counted when that began, also if its record never came to show it.
    if (!begins || after->drain || drained_.contains(*last.id)) return;
    if (!after->deletion || IsByHand(change)) return;
    // Sent by a leader that was replaced meanwhile: its successor could not know.
    if (journal && after->epoch < journal->epoch) return;
    Judge(*last.shard, *last.id,
          {.at = after->deletion->started_at,
           .ordered = after->deletion->ordered,
           .counted = after->deletion->counted,
           .reason = after->deletion->reason});
  }

  void Judge(const ShardId& shard, const InstanceId& id, const Start& start) {
    const InstanceRecord* record = world().truth().Find(id);
    if (record == nullptr) return;
    if (!start.counted) return JudgeUncounted(*record, start);
    Window& window = windows_[{shard, record->tenant}];
    const Result<fleet::Reason> reason = fleet::ParseReason(start.reason);
    const bool opportunistic =
        !start.ordered && reason.has_value() && fleet::IsOpportunistic(*reason);
    const int unordered = std::max(kUnorderedCount, window.most * kUnorderedPercent / 100);
    if (start.ordered) {
      const int ordered = std::max(kOrderedCount, window.most * kOrderedPercent / 100);
      return Note(shard, *record, start.at, {window.ordered, ordered, "ordered"});
    }
    Note(shard, *record, start.at, {window.unordered, unordered, "unordered"});
    if (opportunistic) {
      const int half = std::max(unordered / 2, 1);
      Note(shard, *record, start.at, {window.opportunistic, half, "opportunistic"});
    }
  }

  struct Budget {
    std::vector<Timestamp>& starts;
    int limit = 0;
    std::string_view kind;
  };

  void Note(const ShardId& shard, const InstanceRecord& record, Timestamp at,
            const Budget& budget) {
    // It may have been decided before others that landed first.
    std::vector<Timestamp>& starts = budget.starts;
    const auto place = starts.insert(std::ranges::upper_bound(starts, at), at);
    const Duration memory = world().setting().brake_window * 2;
    const Instant right = std::max(world().RatesTrueSince(), world().WallsTrueSince());
    if (right > Instant() && right + memory > world().now()) return;
    const Duration length = world().setting().brake_window / 2;
    for (auto first = std::ranges::upper_bound(starts, at - length); first <= place; ++first) {
      const auto many = std::ranges::lower_bound(first, starts.end(), *first + length) - first;
      if (many <= budget.limit) continue;
      Violated(
          fmt::format("shard {}, tenant {}: {} {} starts within {}, one of them {}; {} are "
                      "allowed in twice the time",
                      shard.text(), record.tenant.text(), many, budget.kind, FormatDuration(length),
                      record.instance_id.text(), budget.limit));
      return;
    }
  }

  // It registered after its deletion was decided, which was right then. The decision became durable
  // a while after it was made. And a registration that a replaced leader's late write brought is
  // not known to the one who has read the records before.
  bool DecidedBefore(const InstanceId& id) const {
    const auto intended = intended_.find(id);
    const auto registered = registered_.find(id);
    if (intended == intended_.end() || registered == registered_.end()) return false;
    return intended->second.durable_at <= registered->second.at + Duration::Seconds(15) ||
           intended->second.epoch == registered->second.unseen_by;
  }

  void JudgeUncounted(const InstanceRecord& record, const Start& start) {
    if (!record.registered_at || start.reason == "spot-terminating") return;
    if (DecidedBefore(record.instance_id)) return;
    // Nobody was ever told that it has joined: the write of that was in doubt to the end.
    if (start.reason == "registration-timeout" && !given_.contains(record.cert_serial)) return;
    const SimVm* vm = world().cloud().Find(record.provider_instance_id);
    if (vm == nullptr || !IsAlive(vm->shown.status)) return;
    if (vm->shown.instance_id != record.instance_id) return;  // F10: another has its id by now.
    Violated(fmt::format("{} is registered and its VM is {}, but its leaving ({}) is not counted",
                         record.instance_id.text(), ProviderStatusName(vm->shown.status),
                         start.reason));
  }

  std::map<Place, Window> windows_;
  std::map<InstanceId, Timestamp> drained_;  // When its drain was opened.
  std::map<InstanceId, Decision> intended_;  // Its first delete intent.
  std::map<InstanceId, Registration> registered_;
  std::set<std::string> given_;  // Serials of certificates that somebody has got.
};

}  // namespace

std::unique_ptr<Checker> MakeI21(CheckerWorld& world) {
  return std::make_unique<I21TheBrakeHolds>(world);
}

}  // namespace nstance::sim

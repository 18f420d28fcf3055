// I-8: a success that an operator was told is in storage.
//
// Judged when the answer arrives: the store must have held what was asked for at some moment since
// the call was sent; of a repeated request (one with a request id) at any moment before. Later
// changes by others are no concern of the answer.
//
// Changes of groups that wait for a write share the next one (faults.md 4.6), which holds what the
// last of them made of a group: what another asked for was never in storage by itself. So an answer
// about a group may also be overtaken: by a call about the same group that was under way at the
// same time, asked for something else, and has got that. It may be answered a little later.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"
#include "sim/checkers/size_history.h"

namespace nstance::sim {
namespace {

class I08AnsweredIsStored final : public Checker {
 public:
  explicit I08AnsweredIsStored(CheckerWorld& world) : Checker("I-8", world) {}

  void OnChange(const SimChange& change) override {
    const Truth& truth = world().truth();
    sizes_.OnChange(change, truth);
    const TruthChange& last = truth.last();
    if (last.kind == TruthChange::Kind::kGroups) {
      groups_[*last.shard].push_back({.at = change.at, .groups = truth.Of(*last.shard).dynamic});
    } else if (last.kind == TruthChange::Kind::kJournal && truth.Of(*last.shard).journal) {
      for (const Intent& intent : truth.Of(*last.shard).journal->intents) {
        if (intent.kind == IntentKind::kDelete || intent.acked_at)
          ended_.insert(intent.instance_id);
        if (intent.kind == IntentKind::kDrain) drained_.insert(intent.instance_id);
      }
    }
  }

  void OnAnswer(const OperatorAnswer& answer) override {
    const std::optional<GroupCall> call = GroupCallOf(answer);
    if (call && MayBeDone(answer.status) && HasGot(answer, *call)) Overtake(*call);
    if (!answer.status.has_value()) return;
    const std::string missing =
        std::visit([&](const auto& request) { return Missing(answer, request); }, answer.request);
    if (missing.empty()) return;
    std::string what =
        fmt::format("tenant {}, shard {}, asked at {}: {}", answer.tenant.text(),
                    answer.shard.text(), FormatDuration(answer.sent.since_zero()), missing);
    if (!call) return Violated(std::move(what));
    const bool overtaken = std::ranges::any_of(
        overtakers_, [&](const GroupCall& other) { return Overtakes(other, *call); });
    if (!overtaken) doubts_.push_back({.call = *call, .what = std::move(what)});
  }

  void EverySecond() override {
    const Instant now = world().now();
    std::erase_if(overtakers_,
                  [&](const GroupCall& call) { return now - call.answered > kLongestCall; });
    const auto late = std::ranges::stable_partition(
        doubts_, [&](const Doubt& doubt) { return now - doubt.call.answered <= kLongestCall; });
    const std::vector<Doubt> certain(late.begin(), late.end());
    doubts_.erase(late.begin(), late.end());
    for (const Doubt& doubt : certain) Violated(doubt.what);
  }

  void AtEnd() override {
    for (const Doubt& doubt : std::exchange(doubts_, {})) Violated(doubt.what);
  }

 private:
  struct Version {
    Instant at;
    config::DynamicGroups groups;
  };

  // A call that sets the size of a group or deletes it.
  struct GroupCall {
    TenantId tenant;
    ShardId shard;
    std::string key;
    std::optional<int> size;  // Empty: it deletes the group.
    Instant sent;
    Instant answered;
  };
  struct Doubt {
    GroupCall call;
    std::string what;
  };

  // Longer than operators wait for an answer.
  static constexpr Duration kLongestCall = Duration::Seconds(12);

  [[nodiscard]] std::optional<GroupCall> GroupCallOf(const OperatorAnswer& answer) const {
    GroupCall call = {.tenant = answer.tenant,
                      .shard = answer.shard,
                      .key = {},
                      .size = std::nullopt,
                      .sent = answer.sent,
                      .answered = world().now()};
    if (const auto* upsert = std::get_if<api::UpsertGroupRequest>(&answer.request)) {
      if (upsert->size_unset || !upsert->config) return std::nullopt;
      call.key = upsert->key;
      call.size = upsert->config->size;
      return call;
    }
    const auto* deletes = std::get_if<api::DeleteGroupRequest>(&answer.request);
    if (deletes == nullptr) return std::nullopt;
    call.key = deletes->key;
    return call;
  }

  // Also of one whose answer was lost.
  static bool MayBeDone(const Status& status) {
    return status.has_value() || status.error().code == Code::kUnavailable ||
           status.error().code == Code::kDeadlineExceeded;
  }

  // Since it was sent, whatever its request id.
  [[nodiscard]] bool HasGot(const OperatorAnswer& answer, const GroupCall& call) const {
    return Ever(answer, call.key, call.sent, [&](const config::DynamicGroup* group) {
      if (!call.size) return group == nullptr;
      return group != nullptr && group->layer.size == call.size;
    });
  }

  static bool Overtakes(const GroupCall& by, const GroupCall& call) {
    return by.tenant == call.tenant && by.shard == call.shard && by.key == call.key &&
           by.size != call.size && by.sent <= call.answered && by.answered >= call.sent;
  }

  void Overtake(const GroupCall& by) {
    std::erase_if(doubts_, [&](const Doubt& doubt) { return Overtakes(by, doubt.call); });
    overtakers_.push_back(by);
  }

  // Whether `holds` of the group (null: no layer) at some moment since `since`.
  template <class Holds>
  bool Ever(const OperatorAnswer& answer, std::string_view key, Instant since, Holds holds) const {
    const Result<GroupKey> name = GroupKey::Parse(key);
    if (!name.has_value()) return false;
    const auto in = [&](const config::DynamicGroups& groups) -> const config::DynamicGroup* {
      const auto tenant = groups.find(answer.tenant);
      if (tenant == groups.end()) return nullptr;
      const auto group = tenant->second.find(*name);
      return group == tenant->second.end() ? nullptr : &group->second;
    };
    const auto versions = groups_.find(answer.shard);
    if (versions == groups_.end()) return holds(nullptr);
    for (auto at = versions->second.rbegin(); at != versions->second.rend(); ++at) {
      if (holds(in(at->groups))) return true;
      if (at->at < since) return false;
    }
    return holds(nullptr);
  }

  std::string Missing(const OperatorAnswer& answer, const api::UpsertGroupRequest& request) const {
    if (request.size_unset || !request.config) return {};
    const Result<GroupKey> key = GroupKey::Parse(request.key);
    if (!key.has_value()) return "a group without a name was accepted";
    const Instant since = request.request_id.empty() ? answer.sent : Instant();
    const int size = request.config->size;
    const bool held = Ever(answer, request.key, since, [&](const config::DynamicGroup* group) {
      if (group != nullptr && group->layer.size) return *group->layer.size == size;
      return sizes_.WasStored(answer.shard, {answer.tenant, *key}, size);
    });
    return held ? "" : fmt::format("group {} never had size {}", request.key, size);
  }

  std::string Missing(const OperatorAnswer& answer, const api::DeleteGroupRequest& request) const {
    const bool held = Ever(answer, request.key, answer.sent,
                           [](const config::DynamicGroup* group) { return group == nullptr; });
    return held ? "" : fmt::format("group {} was never deleted", request.key);
  }

  std::string Missing(const OperatorAnswer& answer,
                      const api::CreateInstanceRequest& request) const {
    const Result<InstanceId> id = ParsePuidv7(answer.instance_id);
    if (!id.has_value()) return fmt::format("{} was answered, which is no id", answer.instance_id);
    const auto& records = world().truth().Of(answer.shard).records;
    const auto at = records.find(*id);
    if (at == records.end()) return fmt::format("{} has no record", answer.instance_id);
    const InstanceRecord& record = at->second;
    if (record.tenant == answer.tenant && record.on_demand &&
        record.request_id == request.request_id) {
      return {};
    }
    return fmt::format("{} is not what was asked for", answer.instance_id);
  }

  std::string Missing(const OperatorAnswer& answer,
                      const api::DeleteInstanceRequest& request) const {
    const InstanceRecord* record = RecordOf(answer, request.instance_id);
    if (record == nullptr) return {};  // "unknown" is a success too.
    if (IsLeaving(*record) || ended_.contains(record->instance_id)) return {};
    if (record->phase == InstancePhase::kDraining || drained_.contains(record->instance_id)) {
      return {};
    }
    return fmt::format("{} is {} and has no intent", request.instance_id, PhaseName(record->phase));
  }

  std::string Missing(const OperatorAnswer& answer, const api::DrainAckRequest& request) const {
    const InstanceRecord* record = RecordOf(answer, request.instance_id);
    if (record == nullptr) return {};
    if (IsLeaving(*record) || ended_.contains(record->instance_id)) return {};
    if (record->drain && record->drain->acked_at) return {};
    return fmt::format("{} is {}, and its drain has no ack", request.instance_id,
                       PhaseName(record->phase));
  }

  static bool IsLeaving(const InstanceRecord& record) {
    using enum InstancePhase;
    return record.phase == kDeleting || record.phase == kGone || record.phase == kFailed;
  }

  // Null: there is none that the operator could have meant.
  const InstanceRecord* RecordOf(const OperatorAnswer& answer, std::string_view text) const {
    const Result<InstanceId> id = ParsePuidv7(text);
    if (!id.has_value()) return nullptr;
    const auto& records = world().truth().Of(answer.shard).records;
    const auto at = records.find(*id);
    return at == records.end() || at->second.tenant != answer.tenant ? nullptr : &at->second;
  }

  SizeHistory sizes_;
  std::map<ShardId, std::vector<Version>> groups_;
  std::vector<GroupCall> overtakers_;  // Of late.
  std::vector<Doubt> doubts_;          // Nothing has overtaken them yet.
  std::set<InstanceId> ended_;         // Had a delete intent, or an acknowledged drain.
  std::set<InstanceId> drained_;       // Had a drain intent.
};

}  // namespace

std::unique_ptr<Checker> MakeI08(CheckerWorld& world) {
  return std::make_unique<I08AnsweredIsStored>(world);
}

}  // namespace nstance::sim

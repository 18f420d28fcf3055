// I-8: a success that an operator was told is in storage.
//
// Judged when the answer arrives: the store must have held what was asked for at some moment since
// the call was sent; of a repeated request (one with a request id) at any moment before. Later
// changes by others are no concern of the answer.
#include <map>
#include <set>
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
    if (!answer.status.has_value()) return;
    const std::string missing =
        std::visit([&](const auto& request) { return Missing(answer, request); }, answer.request);
    if (missing.empty()) return;
    Violated(fmt::format("tenant {}, shard {}, asked at {}: {}", answer.tenant.text(),
                         answer.shard.text(), FormatDuration(answer.sent.since_zero()), missing));
  }

 private:
  struct Version {
    Instant at;
    config::DynamicGroups groups;
  };

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
  std::set<InstanceId> ended_;    // Had a delete intent, or an acknowledged drain.
  std::set<InstanceId> drained_;  // Had a drain intent.
};

}  // namespace

std::unique_ptr<Checker> MakeI08(CheckerWorld& world) {
  return std::make_unique<I08AnsweredIsStored>(world);
}

}  // namespace nstance::sim

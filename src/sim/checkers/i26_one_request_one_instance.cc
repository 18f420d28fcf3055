// I-26: one request id, one instance, per tenant and shard.
//
// A creation that was cancelled before anybody was answered is made anew under another id; then its
// tombstone says so by the time the next one is intended.
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I26OneRequestOneInstance final : public Checker {
 public:
  explicit I26OneRequestOneInstance(CheckerWorld& world) : Checker("I-26", world) {}

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind == TruthChange::Kind::kJournal) {
      for (const Intent* intent : NewIntents(world().truth())) {
        if (intent->kind != IntentKind::kCreate) continue;
        Judge(change, {*last.shard, intent->tenant, intent->request_id}, intent->instance_id);
      }
    } else if (last.kind == TruthChange::Kind::kRecord && !last.record) {
      const InstanceRecord* after = world().truth().Find(*last.id);
      if (after == nullptr || after->phase == InstancePhase::kGone) return;
      Judge(change, {*last.shard, after->tenant, after->request_id}, *last.id);
    }
  }

  void OnAnswer(const OperatorAnswer& answer) override {
    const auto* request = std::get_if<api::CreateInstanceRequest>(&answer.request);
    if (request == nullptr || request->request_id.empty() || !answer.status.has_value()) return;
    const auto [at, first] = answered_.try_emplace(
        {answer.shard, answer.tenant, request->request_id}, answer.instance_id);
    if (first || at->second == answer.instance_id) return;
    Violated(fmt::format("request {} was answered with {} and with {}", request->request_id,
                         at->second, answer.instance_id));
  }

 private:
  using Request = std::tuple<ShardId, TenantId, std::string>;

  void Judge(const SimChange& change, const Request& request, const InstanceId& id) {
    if (std::get<2>(request).empty()) return;
    const auto [at, first] = made_.try_emplace(request, id);
    if (first || at->second == id) return;
    const InstanceId before = std::exchange(at->second, id);
    const InstanceRecord* record = world().truth().Find(before);
    const bool cancelled = record != nullptr && record->phase == InstancePhase::kGone &&
                           record->failure && record->failure->code == "cancelled";
    if (cancelled) return;
    Violated(fmt::format("{} makes {} for request {}, which has {} already", change.process,
                         id.text(), std::get<2>(request), before.text()));
  }

  std::map<Request, InstanceId> made_;
  std::map<Request, std::string> answered_;
};

}  // namespace

std::unique_ptr<Checker> MakeI26(CheckerWorld& world) {
  return std::make_unique<I26OneRequestOneInstance>(world);
}

}  // namespace nstance::sim

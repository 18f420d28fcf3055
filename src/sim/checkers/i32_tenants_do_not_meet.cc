// I-32: what a tenant's clients see does not depend on what other tenants have.
//
//   - an event is told to the tenant whose instance it is about, by its own word and by the record
//   - a request id is somebody's own: "used before with other content" is answered only to who has
//     used it before
//   - a creation is answered with an instance of the tenant's own
//
// Two runs of one seed with and without another tenant are not compared here: the order of
// everything is drawn from the seed, and would differ for that alone. In worlds without faults
// `WorldTest.I32_*` does.
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"

namespace nstance::sim {
namespace {

class I32TenantsDoNotMeet final : public Checker {
 public:
  explicit I32TenantsDoNotMeet(CheckerWorld& world) : Checker("I-32", world) {}

  void OnInstanceEvent(const TenantId& operator_of, const ShardId& shard,
                       const api::InstanceEvent& event) override {
    const auto complain = [&](std::string_view whose) {
      Violated(fmt::format("the operator of {} was told of {} (shard {}, {}), which is {}'s",
                           operator_of.text(), event.instance_id, shard.text(), event.status,
                           whose));
    };
    if (event.tenant != operator_of.text()) return complain(event.tenant);
    const InstanceRecord* record = RecordOf(event.instance_id);
    if (record != nullptr && record->tenant != operator_of) complain(record->tenant.text());
  }

  void OnAnswer(const OperatorAnswer& answer) override {
    if (const auto* upsert = std::get_if<api::UpsertGroupRequest>(&answer.request)) {
      return Judge(answer, upsert->key, upsert->request_id);
    }
    const auto* create = std::get_if<api::CreateInstanceRequest>(&answer.request);
    if (create == nullptr) return;
    Judge(answer, "", create->request_id);
    if (!answer.status.has_value()) return;
    const InstanceRecord* record = RecordOf(answer.instance_id);
    if (record == nullptr || record->tenant == answer.tenant) return;
    Violated(fmt::format("tenant {} was answered with {}, which is {}'s", answer.tenant.text(),
                         answer.instance_id, record->tenant.text()));
  }

 private:
  // Shard, tenant, group (empty: a creation), id.
  using Used = std::tuple<ShardId, TenantId, std::string, std::string>;

  void Judge(const OperatorAnswer& answer, const std::string& group, const std::string& id) {
    if (id.empty()) return;
    const bool first = used_.insert({answer.shard, answer.tenant, group, id}).second;
    const bool refused =
        !answer.status.has_value() && answer.status.error().code == Code::kAlreadyExists;
    if (!first || !refused) return;
    Violated(fmt::format("tenant {} has not used request id {} before, and was answered: {}",
                         answer.tenant.text(), id, answer.status.error().message));
  }

  const InstanceRecord* RecordOf(std::string_view text) const {
    const Result<InstanceId> id = ParsePuidv7(text);
    return id.has_value() ? world().truth().Find(*id) : nullptr;
  }

  std::set<Used> used_;
};

}  // namespace

std::unique_ptr<Checker> MakeI32(CheckerWorld& world) {
  return std::make_unique<I32TenantsDoNotMeet>(world);
}

}  // namespace nstance::sim

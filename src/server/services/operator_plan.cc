#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "core/fleet/explain.h"
#include "server/fleet/step_budget.h"
#include "server/services/group_status.h"
#include "server/services/operator_service.h"
#include "server/services/plan_answer.h"

namespace nstance {
namespace {

// Of an answer, which may have 4 MiB.
constexpr std::size_t kMaxPlanBytes = std::size_t{3} * 1024 * 1024;
// Actions and holds that Explain lists; the summary counts all.
constexpr std::size_t kMaxExplained = 1'000;

Error NoSuchGroup(const GroupKey& key) {
  return NotFound(fmt::format("there is no group {}", Quote(key.text())));
}

Result<GroupKey> ParseGroup(std::string_view text) {
  Result<GroupKey> key = GroupKey::Parse(text);
  if (!key.has_value()) return Fail(InvalidArgument("group: " + key.error().message));
  return key;
}

fleet::ClockReading ClockOf(Loop& loop) { return {.mono = loop.Now(), .wall = loop.WallNow()}; }

// A group that nothing defines any more, but whose instances are still there.
api::GroupStatus RemainsOf(const Fleet& fleet, const TenantId& tenant, const GroupKey& key) {
  GroupFigures figures = fleet.Figures(tenant, key);
  return {.key = key.text(),
          .tenant = tenant.text(),
          .actual_size = figures.actual_size,
          .provider_ids = std::move(figures.provider_ids),
          .draining = figures.draining,
          .creating = figures.creating,
          .ready = figures.ready,
          .instance_ids = std::move(figures.instance_ids)};
}

// With what is true of every group while storage has another configuration than the one in force. A
// fact of the process: nothing is decided by it, so the planner's view does not have it.
fleet::Plan WithConfig(fleet::Plan plan, const ConfigSource& config) {
  if (!config.status().pending) return plan;
  const auto later = [](const fleet::Hold& hold) {
    return hold.instance.has_value() || hold.code > fleet::HoldCode::kConfigPending;
  };
  plan.holds.insert(std::ranges::find_if(plan.holds, later),
                    fleet::Hold{.code = fleet::HoldCode::kConfigPending});
  return plan;
}

void FillPlan(api::ExplainResponse& answer, const fleet::Plan& plan, const GroupKey& group,
              const fleet::ClockReading& clock) {
  for (const fleet::Action& action : plan.actions) {
    if (answer.actions.size() == kMaxExplained) break;
    answer.actions.push_back(ActionAnswer(action, group));
  }
  for (const fleet::Hold& hold : plan.holds) {
    if (answer.holds.size() == kMaxExplained) break;
    answer.holds.push_back(HoldAnswer(hold, group, clock));
  }
  if (plan.replan_at) answer.replan_at = fleet::WallTimeOf(*plan.replan_at, clock);
}

}  // namespace

// --- Plan ----------------------------------------------------------------------------------------

// Which groups are planned, and under which definitions. A what-if is judged by the code that
// judges UpsertGroup.
Result<OperatorService::PlanScope> OperatorService::ScopeOf(const TenantId& tenant,
                                                            const api::PlanRequest& request) const {
  if (request.what_if && request.remove) {
    return Fail(InvalidArgument("what_if, remove: only one of them"));
  }
  PlanScope scope;
  if (request.what_if) {
    ASSIGN_OR_RETURN(GroupUpsert upsert, ToUpsert(tenant, *request.what_if));
    if (!request.group.empty() && request.group != upsert.key.text()) {
      return Fail(InvalidArgument("group: must be empty or equal to what_if.key"));
    }
    scope.groups = {upsert.key};
    ASSIGN_OR_RETURN(scope.snapshot, context_.groups.Preview(std::move(upsert)));
    return scope;
  }
  if (request.group.empty()) {
    if (request.remove) return Fail(InvalidArgument("group: is required with remove"));
    scope.groups = context_.fleet.GroupsOf(tenant);
    return scope;
  }
  ASSIGN_OR_RETURN(GroupKey key, ParseGroup(request.group));
  const bool known = request.remove ? context_.fleet.groups()->Find(tenant, key) != nullptr
                                    : context_.fleet.Knows(tenant, key);
  if (!known) return Fail(NoSuchGroup(key));
  if (request.remove) {
    ASSIGN_OR_RETURN(scope.snapshot,
                     context_.groups.Preview(GroupDelete{.tenant = tenant, .key = key}));
  }
  scope.groups = {std::move(key)};
  return scope;
}

void OperatorService::Plan(Call call) {
  calls_.Serve(api::kPlan, std::move(call),
               [this](const api::PlanRequest& request, const RpcCallInfo& info,
                      const Reply<api::PlanResponse>& reply) {
                 const TenantId& tenant = info.peer.identity->tenant;
                 TypeArchs::Types types;
                 if (request.what_if) {
                   const Result<GroupUpsert> upsert = ToUpsert(tenant, *request.what_if);
                   if (upsert.has_value()) types = TypesOf(*context_.groups.groups(), *upsert);
                 }
                 WhenKnown(types,
                           [this, tenant, request, reply] { RunPlan(tenant, request, reply); });
               });
}

void OperatorService::RunPlan(const TenantId& tenant, const api::PlanRequest& request,
                              const Reply<api::PlanResponse>& reply) {
  Result<PlanScope> scope = ScopeOf(tenant, request);
  if (!scope.has_value()) {
    return reply(Fail(Refused(context_, "plan", std::move(scope).error())));
  }
  plans_.push_back({.tenant = tenant, .scope = std::move(scope).value(), .reply = reply});
  if (plans_.size() == 1) RunPlans();
}

// A large tenant takes several turns; calls take turns with each other.
void OperatorService::RunPlans() {
  StepBudget budget(context_.fleet.steps_per_turn());
  while (!plans_.empty() && budget.Take(1 + context_.fleet.size())) {
    PlanRun run = std::move(plans_.front());
    plans_.pop_front();
    if (PlanNext(run)) plans_.push_back(std::move(run));
  }
  if (plans_.empty()) return;
  plan_turn_ = context_.loop.CallAfter({}, [this] { RunPlans(); });
}

// One more group of the call; whether there is a next one.
bool OperatorService::PlanNext(PlanRun& run) {
  if (run.next < run.scope.groups.size()) {
    const GroupKey& group = run.scope.groups[run.next++];
    fleet::Plan plan = run.scope.snapshot == nullptr
                           ? context_.fleet.Preview(run.tenant, group)
                           : context_.fleet.Preview(run.tenant, group, *run.scope.snapshot);
    plan = WithConfig(std::move(plan), context_.config);
    run.bytes += AppendPlan(run.answer, plan, group, ClockOf(context_.loop));
  }
  if (run.bytes > kMaxPlanBytes) {
    run.reply(Fail(ResourceExhausted("the plan is above 3 MiB; ask for one group")));
    return false;
  }
  if (run.next < run.scope.groups.size()) return true;
  run.reply(std::move(run.answer));
  return false;
}

// --- Explain -------------------------------------------------------------------------------------

Result<api::ExplainResponse> OperatorService::ExplainInstance(const TenantId& tenant,
                                                              std::string_view text) const {
  ASSIGN_OR_RETURN(const InstanceId id, ParseInstanceId(text));
  const Instance* instance = context_.fleet.Find(tenant, id);
  if (instance == nullptr) return Fail(NoSuchInstance());
  const fleet::Plan plan = fleet::NarrowTo(
      WithConfig(context_.fleet.Preview(tenant, instance->group), context_.config), instance->id);
  api::ExplainResponse answer;
  answer.summary = context_.fleet.Summary(*instance, plan);
  answer.instance = Detail(*instance);
  FillPlan(answer, plan, instance->group, ClockOf(context_.loop));
  answer.history = HistoryAnswer(context_.fleet.History(id));
  return answer;
}

Result<api::ExplainResponse> OperatorService::ExplainGroup(const TenantId& tenant,
                                                           std::string_view text) const {
  ASSIGN_OR_RETURN(const GroupKey key, ParseGroup(text));
  if (!context_.fleet.Knows(tenant, key)) return Fail(NoSuchGroup(key));
  const fleet::Plan plan = WithConfig(context_.fleet.Preview(tenant, key), context_.config);
  const MergedGroup* group = context_.fleet.groups()->Find(tenant, key);
  api::ExplainResponse answer;
  answer.summary = context_.fleet.Summary(tenant, key, plan);
  answer.status = group != nullptr ? GroupStatusOf(context_.fleet, tenant, key, *group)
                                   : RemainsOf(context_.fleet, tenant, key);
  FillPlan(answer, plan, key, ClockOf(context_.loop));
  answer.history = HistoryAnswer(context_.fleet.History(tenant, key));
  return answer;
}

void OperatorService::Explain(Call call) {
  calls_.Serve(
      api::kExplain, std::move(call),
      [this](const api::ExplainRequest& request, const RpcCallInfo& info,
             const Reply<api::ExplainResponse>& reply) {
        const TenantId& tenant = info.peer.identity->tenant;
        Result<api::ExplainResponse> answer =
            Fail(InvalidArgument("subject: group or instance_id is required"));
        if (const auto* group = std::get_if<api::ExplainRequest::Group>(&request.subject)) {
          answer = ExplainGroup(tenant, group->key);
        } else if (const auto* id =
                       std::get_if<api::ExplainRequest::InstanceId>(&request.subject)) {
          answer = ExplainInstance(tenant, id->text);
        }
        if (!answer.has_value()) {
          answer = Fail(Refused(context_, "explain", std::move(answer).error()));
        }
        reply(std::move(answer));
      });
}

}  // namespace nstance

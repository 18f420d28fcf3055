// OperatorService: what operators and nstance-admin ask of a shard (wire.md 5), but for watches and
// renewal. The tenant of every call is the one of its certificate; what belongs to another tenant
// is answered exactly like what does not exist.
//
//   operator_config.cc      GetConfigStatus, RefreshConfig
//   operator_groups.cc      ListGroups, UpsertGroup, DeleteGroup
//   operator_instances.cc   CreateInstance, DeleteInstance, GetInstanceStatus, ListInstances,
//                           AcknowledgeDrained
//   operator_plan.cc        Plan, Explain: they change nothing
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ports/api/plan.h"
#include "server/services/service_context.h"
#include "server/services/unary_calls.h"

namespace nstance {

class OperatorService final {
 public:
  explicit OperatorService(ServiceContext& context) : context_(context) {}
  OperatorService(const OperatorService&) = delete;
  OperatorService& operator=(const OperatorService&) = delete;

  using Call = std::unique_ptr<RpcServerCall>;
  void GetConfigStatus(Call call);
  void RefreshConfig(Call call);
  void ListGroups(Call call);
  void UpsertGroup(Call call);
  void DeleteGroup(Call call);
  void CreateInstance(Call call);
  void DeleteInstance(Call call);
  void GetInstanceStatus(Call call);
  void ListInstances(Call call);
  void AcknowledgeDrained(Call call);
  void Plan(Call call);
  void Explain(Call call);

 private:
  [[nodiscard]] api::Instance Detail(const Instance& instance) const;
  [[nodiscard]] Result<api::ListInstancesResponse> List(const TenantId& tenant,
                                                        const api::ListInstancesRequest& request);

  // The groups that a Plan is about, and the definitions it assumes.
  struct PlanScope {
    std::vector<GroupKey> groups = {};
    GroupsRef snapshot = {};  // Null: those in force.
  };
  // A Plan under way.
  struct PlanRun {
    TenantId tenant;
    PlanScope scope;
    Reply<api::PlanResponse> reply;
    std::size_t next = 0;  // Of its groups.
    api::PlanResponse answer = {};
    std::size_t bytes = 0;
  };
  [[nodiscard]] Result<PlanScope> ScopeOf(const TenantId& tenant,
                                          const api::PlanRequest& request) const;
  void RunPlans();
  [[nodiscard]] bool PlanNext(PlanRun& run);
  [[nodiscard]] Result<api::ExplainResponse> ExplainInstance(const TenantId& tenant,
                                                             std::string_view text) const;
  [[nodiscard]] Result<api::ExplainResponse> ExplainGroup(const TenantId& tenant,
                                                          std::string_view text) const;

  // Runs `then` when the architecture of the types is known, as far as it can be; from inside, when
  // it is so already.
  void WhenKnown(const TypeArchs::Types& types, Task then);
  void Submit(GroupUpsert upsert, const Reply<api::GroupStatus>& reply);
  void RunPlan(const TenantId& tenant, const api::PlanRequest& request,
               const Reply<api::PlanResponse>& reply);

  void OnReload(const Result<ConfigSource::Reload>& reload,
                const Reply<api::RefreshConfigResponse>& reply);

  ServiceContext& context_;
  UnaryCalls calls_;
  std::deque<Pending> refreshes_;
  std::deque<PlanRun> plans_;  // At most one per call in flight.
  Pending plan_turn_;
  std::map<std::uint64_t, Pending> learning_;  // At most one per call in flight.
  std::uint64_t next_learning_ = 1;
};

// The instance types that a request for a group, or for one instance of it, may come to, as far as
// the template allows them: what the provider is asked about before the request is judged. `group`
// may be null.
struct NamedType {
  std::string_view template_name = {};
  std::string_view instance_type = {};
};
[[nodiscard]] TypeArchs::Types TypesToLearn(const config::Config& config, const MergedGroup* group,
                                            const NamedType& named);
// Of an UpsertGroup: none, when it names neither a type nor a template.
[[nodiscard]] TypeArchs::Types TypesOf(const GroupsSnapshot& groups, const GroupUpsert& upsert);

// --- Rules for what callers send (wire.md 1.1), each kInvalidArgument with the field and the rule.

// What the fleet or the groups have answered; counted as BadInput() where the request is to blame.
[[nodiscard]] Error Refused(const ServiceContext& context, std::string_view reason, Error error);

[[nodiscard]] Status CheckRequestId(std::string_view request_id);
// `vars` or `args`: 128 entries, names of 128 bytes, values of 4 KiB.
[[nodiscard]] Status CheckStringMap(std::string_view field,
                                    const std::map<std::string, std::string>& map);
// The same, and each value is one line: what templates put into scripts and env files.
[[nodiscard]] Status CheckVars(std::string_view field,
                               const std::map<std::string, std::string>& vars);
// The change that an UpsertGroup asks for, for the call itself and for its preview.
[[nodiscard]] Result<GroupUpsert> ToUpsert(const TenantId& tenant,
                                           const api::UpsertGroupRequest& request);
[[nodiscard]] Result<GroupKey> ParseGroupKey(std::string_view text);

}  // namespace nstance

#include "server/services/services.h"

#include <utility>

#include "base/fault_point.h"
#include "server/services/observed_call.h"

namespace nstance {

Error BadInput(const ServiceContext& context, std::string_view reason, Error error) {
  context.source.Bad(reason);
  context.log.Info("refused", {{"reason", reason}, {"error", error}});
  return error;
}

Error Refused(const ServiceContext& context, std::string_view reason, Error error) {
  const bool by_its_content = error.code == Code::kInvalidArgument ||
                              error.code == Code::kAlreadyExists ||
                              error.code == Code::kFailedPrecondition;
  if (!by_its_content) return error;
  return BadInput(context, reason, std::move(error));
}

Services::Services(ServiceContext& context)
    : context_(context),
      keys_(context.loop, context.cluster_store),
      operator_rows_({.loop = context.loop, .store = context.cluster_store, .cache = context.rows}),
      registration_(context, keys_, operator_rows_),
      renewal_(context, keys_, operator_rows_),
      streams_(context),
      operator_(context),
      watches_(context) {
  operator_rows_.Start();
  using Call = std::unique_ptr<RpcServerCall>;
  On(api::kRegisterAgent, [this](Call call) { registration_.RegisterAgent(std::move(call)); });
  On(api::kRegisterOperator,
     [this](Call call) { registration_.RegisterOperator(std::move(call)); });
  // The gate has shown that the CN is an instance id.
  On(api::kSubmitHealthReport, [this](Call call) {
    const InstanceId id = *ParsePuidv7(call->info().peer.identity->id);
    streams_.OpenHealth(id, std::move(call));
  });
  On(api::kReceiveKeyRequests, [this](Call call) {
    const InstanceId id = *ParsePuidv7(call->info().peer.identity->id);
    streams_.OpenKeys(id, std::move(call));
  });
  On(api::kReceiveFiles, [this](Call call) {
    const InstanceId id = *ParsePuidv7(call->info().peer.identity->id);
    streams_.OpenFiles(id, std::move(call));
  });
  On(api::kAgentRenewCertificate, [this](Call call) { renewal_.RenewAgent(std::move(call)); });
  On(api::kOperatorRenewCertificate,
     [this](Call call) { renewal_.RenewOperator(std::move(call)); });
  On(api::kGetConfigStatus, [this](Call call) { operator_.GetConfigStatus(std::move(call)); });
  On(api::kRefreshConfig, [this](Call call) { operator_.RefreshConfig(std::move(call)); });
  On(api::kListGroups, [this](Call call) { operator_.ListGroups(std::move(call)); });
  On(api::kUpsertGroup, [this](Call call) { operator_.UpsertGroup(std::move(call)); });
  On(api::kDeleteGroup, [this](Call call) { operator_.DeleteGroup(std::move(call)); });
  On(api::kCreateInstance, [this](Call call) { operator_.CreateInstance(std::move(call)); });
  On(api::kDeleteInstance, [this](Call call) { operator_.DeleteInstance(std::move(call)); });
  On(api::kGetInstanceStatus, [this](Call call) { operator_.GetInstanceStatus(std::move(call)); });
  On(api::kListInstances, [this](Call call) { operator_.ListInstances(std::move(call)); });
  On(api::kAcknowledgeDrained,
     [this](Call call) { operator_.AcknowledgeDrained(std::move(call)); });
  On(api::kPlan, [this](Call call) { operator_.Plan(std::move(call)); });
  On(api::kExplain, [this](Call call) { operator_.Explain(std::move(call)); });
  On(api::kWatchGroups, [this](Call call) { watches_.WatchGroups(std::move(call)); });
  On(api::kWatchInstances, [this](Call call) { watches_.WatchInstances(std::move(call)); });
  On(api::kWatchErrors, [this](Call call) { watches_.WatchErrors(std::move(call)); });
  On(api::kWatchEvents, [this](Call call) { watches_.WatchEvents(std::move(call)); });
}

void Services::Accept(std::unique_ptr<RpcServerCall> call) {
  if (context_.metrics != nullptr) {
    call = std::make_unique<ObservedCall>(std::move(call), context_.loop, *context_.metrics);
  }
  if (const Status admitted = Admit(call->info()); !admitted.has_value()) {
    return call->Finish(Fail(admitted.error()));
  }
  const auto at = handlers_.find(call->info().policy->path);
  if (at == handlers_.end() && context_.other_calls) {
    call = context_.other_calls(std::move(call));
    if (call == nullptr) return;
  }
  if (at == handlers_.end()) {
    return call->Finish(
        Fail(Error{.code = Code::kUnimplemented, .message = "the method is not offered"}));
  }
  at->second(std::move(call));
}

void Services::Measure(metrics::Registry& gauges) const {
  streams_.Measure(gauges);
  watches_.Measure(gauges);
}

Status Services::Admit(const RpcCallInfo& info) const {
  if (info.policy->tenant_rule == RpcTenantRule::kAnonymous) return {};
  const crypto::PeerIdentity& identity = *info.peer.identity;
  const config::Config& config = context_.config.current()->config;
  if (identity.tenant != DefaultTenant() && !config.tenants.contains(identity.tenant)) {
    return Fail(PermissionDenied("the tenant is not defined"));
  }
  if (identity.role == crypto::Role::kAgent) RETURN_IF_ERROR(AdmitAgent(identity));
  if (Planted(Plant::kDenyListForgotten)) return {};
  if (context_.denied.Denies(identity)) return Fail(Unauthenticated("the identity is denied"));
  return {};
}

Status Services::AdmitAgent(const crypto::PeerIdentity& identity) const {
  const Result<InstanceId> id = ParsePuidv7(identity.id);
  const Instance* instance = id.has_value() ? context_.fleet.Find(identity.tenant, *id) : nullptr;
  if (instance == nullptr || instance->record() == nullptr || !instance->live() ||
      instance->phase() == InstancePhase::kDeleting) {
    return Fail(PermissionDenied("the instance does not exist or is being deleted"));
  }
  if (instance->record()->blocked) return Fail(Unauthenticated("the identity is blocked"));
  return {};
}

}  // namespace nstance

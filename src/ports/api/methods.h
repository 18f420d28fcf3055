// The methods of the contract with the types of their messages, for typed calls and handlers.
//
//   channel.Start(api::kSubmitPublicKeys.path, ...)
//
// The table of the codec comes from the proto's descriptors; a test holds the two to each other.
#pragma once

#include <string_view>

#include "core/rpc_policy.h"
#include "ports/api/agent.h"
#include "ports/api/claims.h"
#include "ports/api/common.h"
#include "ports/api/events.h"
#include "ports/api/groups.h"
#include "ports/api/instances.h"
#include "ports/api/plan.h"
#include "ports/api/registration.h"

namespace nstance::api {

template <class RequestType, class ResponseType>
struct Method {
  using Request = RequestType;
  using Response = ResponseType;
  std::string_view path = {};
  RpcKind kind = RpcKind::kUnary;
};

// RegistrationService.
inline constexpr Method<RegisterClientRequest, RegisterClientResponse> kRegisterAgent{
    .path = "/nstance.v1.RegistrationService/RegisterAgent", .kind = RpcKind::kUnary};
inline constexpr Method<RegisterClientRequest, RegisterClientResponse> kRegisterOperator{
    .path = "/nstance.v1.RegistrationService/RegisterOperator", .kind = RpcKind::kUnary};
// AgentService.
inline constexpr Method<Empty, KeyGenerationRequest> kReceiveKeyRequests{
    .path = "/nstance.v1.AgentService/ReceiveKeyRequests", .kind = RpcKind::kServerStream};
inline constexpr Method<PublicKeysRequest, Empty> kSubmitPublicKeys{
    .path = "/nstance.v1.AgentService/SubmitPublicKeys", .kind = RpcKind::kUnary};
inline constexpr Method<HealthReportRequest, Empty> kSubmitHealthReport{
    .path = "/nstance.v1.AgentService/SubmitHealthReport", .kind = RpcKind::kClientStream};
inline constexpr Method<Empty, FileTransfer> kReceiveFiles{
    .path = "/nstance.v1.AgentService/ReceiveFiles", .kind = RpcKind::kServerStream};
inline constexpr Method<RenewCertificateRequest, RenewCertificateResponse> kAgentRenewCertificate{
    .path = "/nstance.v1.AgentService/RenewCertificate", .kind = RpcKind::kUnary};
// OperatorService.
inline constexpr Method<RenewCertificateRequest, RenewCertificateResponse>
    kOperatorRenewCertificate{.path = "/nstance.v1.OperatorService/RenewCertificate",
                              .kind = RpcKind::kUnary};
inline constexpr Method<Empty, ConfigStatusResponse> kGetConfigStatus{
    .path = "/nstance.v1.OperatorService/GetConfigStatus", .kind = RpcKind::kUnary};
inline constexpr Method<Empty, RefreshConfigResponse> kRefreshConfig{
    .path = "/nstance.v1.OperatorService/RefreshConfig", .kind = RpcKind::kUnary};
inline constexpr Method<Empty, ListGroupsResponse> kListGroups{
    .path = "/nstance.v1.OperatorService/ListGroups", .kind = RpcKind::kUnary};
inline constexpr Method<UpsertGroupRequest, GroupStatus> kUpsertGroup{
    .path = "/nstance.v1.OperatorService/UpsertGroup", .kind = RpcKind::kUnary};
inline constexpr Method<DeleteGroupRequest, Empty> kDeleteGroup{
    .path = "/nstance.v1.OperatorService/DeleteGroup", .kind = RpcKind::kUnary};
inline constexpr Method<CreateInstanceRequest, CreateInstanceResponse> kCreateInstance{
    .path = "/nstance.v1.OperatorService/CreateInstance", .kind = RpcKind::kUnary};
inline constexpr Method<DeleteInstanceRequest, DeleteInstanceResponse> kDeleteInstance{
    .path = "/nstance.v1.OperatorService/DeleteInstance", .kind = RpcKind::kUnary};
inline constexpr Method<GetInstanceStatusRequest, InstanceStatusResponse> kGetInstanceStatus{
    .path = "/nstance.v1.OperatorService/GetInstanceStatus", .kind = RpcKind::kUnary};
inline constexpr Method<DrainAckRequest, Empty> kAcknowledgeDrained{
    .path = "/nstance.v1.OperatorService/AcknowledgeDrained", .kind = RpcKind::kUnary};
inline constexpr Method<Empty, GroupEvent> kWatchGroups{
    .path = "/nstance.v1.OperatorService/WatchGroups", .kind = RpcKind::kServerStream};
inline constexpr Method<Empty, InstanceEvent> kWatchInstances{
    .path = "/nstance.v1.OperatorService/WatchInstances", .kind = RpcKind::kServerStream};
inline constexpr Method<Empty, ErrorEvent> kWatchErrors{
    .path = "/nstance.v1.OperatorService/WatchErrors", .kind = RpcKind::kServerStream};
inline constexpr Method<ListInstancesRequest, ListInstancesResponse> kListInstances{
    .path = "/nstance.v1.OperatorService/ListInstances", .kind = RpcKind::kUnary};
inline constexpr Method<PlanRequest, PlanResponse> kPlan{.path = "/nstance.v1.OperatorService/Plan",
                                                         .kind = RpcKind::kUnary};
inline constexpr Method<ExplainRequest, ExplainResponse> kExplain{
    .path = "/nstance.v1.OperatorService/Explain", .kind = RpcKind::kUnary};
inline constexpr Method<ClaimInstanceRequest, ClaimInstanceResponse> kClaimInstance{
    .path = "/nstance.v1.OperatorService/ClaimInstance", .kind = RpcKind::kUnary};
inline constexpr Method<ReleaseInstanceRequest, ReleaseInstanceResponse> kReleaseInstance{
    .path = "/nstance.v1.OperatorService/ReleaseInstance", .kind = RpcKind::kUnary};
inline constexpr Method<WatchEventsRequest, Event> kWatchEvents{
    .path = "/nstance.v1.OperatorService/WatchEvents", .kind = RpcKind::kServerStream};

// Calls `visit` with every method.
template <class Visitor>
void ForEachMethod(Visitor&& visit) {
  visit(kRegisterAgent);
  visit(kRegisterOperator);
  visit(kReceiveKeyRequests);
  visit(kSubmitPublicKeys);
  visit(kSubmitHealthReport);
  visit(kReceiveFiles);
  visit(kAgentRenewCertificate);
  visit(kOperatorRenewCertificate);
  visit(kGetConfigStatus);
  visit(kRefreshConfig);
  visit(kListGroups);
  visit(kUpsertGroup);
  visit(kDeleteGroup);
  visit(kCreateInstance);
  visit(kDeleteInstance);
  visit(kGetInstanceStatus);
  visit(kAcknowledgeDrained);
  visit(kWatchGroups);
  visit(kWatchInstances);
  visit(kWatchErrors);
  visit(kListInstances);
  visit(kPlan);
  visit(kExplain);
  visit(kClaimInstance);
  visit(kReleaseInstance);
  visit(kWatchEvents);
}

}  // namespace nstance::api

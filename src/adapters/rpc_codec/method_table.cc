#include "adapters/rpc_codec/method_table.h"

#include <array>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/empty.pb.h>

#include "adapters/rpc_codec/codec_of.h"
#include "nstance/v1/agent.pb.h"
#include "nstance/v1/common.pb.h"
#include "nstance/v1/operator.pb.h"
#include "nstance/v1/registration.pb.h"

namespace nstance::rpc_codec {
namespace {

constexpr std::array kCodecs = {
    CodecOf<api::Empty, google::protobuf::Empty>("google.protobuf.Empty"),
    CodecOf<api::ClaimInstanceRequest, v1::ClaimInstanceRequest>("nstance.v1.ClaimInstanceRequest"),
    CodecOf<api::ClaimInstanceResponse, v1::ClaimInstanceResponse>(
        "nstance.v1.ClaimInstanceResponse"),
    CodecOf<api::ConfigStatusResponse, v1::ConfigStatusResponse>("nstance.v1.ConfigStatusResponse"),
    CodecOf<api::CreateInstanceRequest, v1::CreateInstanceRequest>(
        "nstance.v1.CreateInstanceRequest"),
    CodecOf<api::CreateInstanceResponse, v1::CreateInstanceResponse>(
        "nstance.v1.CreateInstanceResponse"),
    CodecOf<api::DeleteGroupRequest, v1::DeleteGroupRequest>("nstance.v1.DeleteGroupRequest"),
    CodecOf<api::DeleteInstanceRequest, v1::DeleteInstanceRequest>(
        "nstance.v1.DeleteInstanceRequest"),
    CodecOf<api::DeleteInstanceResponse, v1::DeleteInstanceResponse>(
        "nstance.v1.DeleteInstanceResponse"),
    CodecOf<api::DrainAckRequest, v1::DrainAckRequest>("nstance.v1.DrainAckRequest"),
    CodecOf<api::ErrorEvent, v1::ErrorEvent>("nstance.v1.ErrorEvent"),
    CodecOf<api::Event, v1::Event>("nstance.v1.Event"),
    CodecOf<api::ExplainRequest, v1::ExplainRequest>("nstance.v1.ExplainRequest"),
    CodecOf<api::ExplainResponse, v1::ExplainResponse>("nstance.v1.ExplainResponse"),
    CodecOf<api::FileTransfer, v1::FileTransfer>("nstance.v1.FileTransfer"),
    CodecOf<api::GetInstanceStatusRequest, v1::GetInstanceStatusRequest>(
        "nstance.v1.GetInstanceStatusRequest"),
    CodecOf<api::GroupEvent, v1::GroupEvent>("nstance.v1.GroupEvent"),
    CodecOf<api::GroupStatus, v1::GroupStatus>("nstance.v1.GroupStatus"),
    CodecOf<api::HealthReportRequest, v1::HealthReportRequest>("nstance.v1.HealthReportRequest"),
    CodecOf<api::InstanceEvent, v1::InstanceEvent>("nstance.v1.InstanceEvent"),
    CodecOf<api::InstanceStatusResponse, v1::InstanceStatusResponse>(
        "nstance.v1.InstanceStatusResponse"),
    CodecOf<api::KeyGenerationRequest, v1::KeyGenerationRequest>("nstance.v1.KeyGenerationRequest"),
    CodecOf<api::ListGroupsResponse, v1::ListGroupsResponse>("nstance.v1.ListGroupsResponse"),
    CodecOf<api::ListInstancesRequest, v1::ListInstancesRequest>("nstance.v1.ListInstancesRequest"),
    CodecOf<api::ListInstancesResponse, v1::ListInstancesResponse>(
        "nstance.v1.ListInstancesResponse"),
    CodecOf<api::PlanRequest, v1::PlanRequest>("nstance.v1.PlanRequest"),
    CodecOf<api::PlanResponse, v1::PlanResponse>("nstance.v1.PlanResponse"),
    CodecOf<api::PublicKeysRequest, v1::PublicKeysRequest>("nstance.v1.PublicKeysRequest"),
    CodecOf<api::RefreshConfigResponse, v1::RefreshConfigResponse>(
        "nstance.v1.RefreshConfigResponse"),
    CodecOf<api::RegisterClientRequest, v1::RegisterClientRequest>(
        "nstance.v1.RegisterClientRequest"),
    CodecOf<api::RegisterClientResponse, v1::RegisterClientResponse>(
        "nstance.v1.RegisterClientResponse"),
    CodecOf<api::ReleaseInstanceRequest, v1::ReleaseInstanceRequest>(
        "nstance.v1.ReleaseInstanceRequest"),
    CodecOf<api::ReleaseInstanceResponse, v1::ReleaseInstanceResponse>(
        "nstance.v1.ReleaseInstanceResponse"),
    CodecOf<api::RenewCertificateRequest, v1::RenewCertificateRequest>(
        "nstance.v1.RenewCertificateRequest"),
    CodecOf<api::RenewCertificateResponse, v1::RenewCertificateResponse>(
        "nstance.v1.RenewCertificateResponse"),
    CodecOf<api::UpsertGroupRequest, v1::UpsertGroupRequest>("nstance.v1.UpsertGroupRequest"),
    CodecOf<api::WatchEventsRequest, v1::WatchEventsRequest>("nstance.v1.WatchEventsRequest"),
};

}  // namespace

std::span<const NamedCodec> MessageCodecs() { return kCodecs; }

Result<std::vector<RpcMethod>> MakeMethodTable(std::span<const RpcPolicyRow> policy) {
  std::vector<RpcMethod> methods;
  AppendMethods(*v1::RegisterClientRequest::descriptor()->file(), kCodecs, methods);
  AppendMethods(*v1::HealthReportRequest::descriptor()->file(), kCodecs, methods);
  AppendMethods(*v1::GroupStatus::descriptor()->file(), kCodecs, methods);
  std::vector<RpcMethodFact> facts;
  facts.reserve(methods.size());
  for (const RpcMethod& method : methods) {
    facts.push_back({.path = method.path, .kind = method.kind});
  }
  RETURN_IF_ERROR(Under(CheckPolicyCovers(policy, facts), "RPC policy"));
  return methods;
}

}  // namespace nstance::rpc_codec

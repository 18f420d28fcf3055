#include <array>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/empty.pb.h>

#include "adapters/rpc_codec/codec_of.h"
#include "adapters/rpc_codec/method_table.h"
#include "nstance/v1/agent.pb.h"
#include "nstance/v1/common.pb.h"
#include "nstance/v1/registration.pb.h"

namespace nstance::rpc_codec {
namespace {

constexpr std::array kAgentCodecs = {
    CodecOf<api::Empty, google::protobuf::Empty>("google.protobuf.Empty"),
    CodecOf<api::FileTransfer, v1::FileTransfer>("nstance.v1.FileTransfer"),
    CodecOf<api::HealthReportRequest, v1::HealthReportRequest>("nstance.v1.HealthReportRequest"),
    CodecOf<api::KeyGenerationRequest, v1::KeyGenerationRequest>("nstance.v1.KeyGenerationRequest"),
    CodecOf<api::PublicKeysRequest, v1::PublicKeysRequest>("nstance.v1.PublicKeysRequest"),
    CodecOf<api::RegisterClientRequest, v1::RegisterClientRequest>(
        "nstance.v1.RegisterClientRequest"),
    CodecOf<api::RegisterClientResponse, v1::RegisterClientResponse>(
        "nstance.v1.RegisterClientResponse"),
    CodecOf<api::RenewCertificateRequest, v1::RenewCertificateRequest>(
        "nstance.v1.RenewCertificateRequest"),
    CodecOf<api::RenewCertificateResponse, v1::RenewCertificateResponse>(
        "nstance.v1.RenewCertificateResponse"),
};

}  // namespace

std::vector<RpcMethod> MakeAgentMethodTable() {
  std::vector<RpcMethod> methods;
  AppendMethods(*v1::RegisterClientRequest::descriptor()->file(), kAgentCodecs, methods);
  AppendMethods(*v1::HealthReportRequest::descriptor()->file(), kAgentCodecs, methods);
  return methods;
}

}  // namespace nstance::rpc_codec

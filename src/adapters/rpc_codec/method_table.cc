#include "adapters/rpc_codec/method_table.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/core.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include "adapters/rpc_codec/convert.h"
#include "adapters/rpc_codec/wire_shape.h"
#include "base/check.h"
#include "nstance/v1/agent.pb.h"
#include "nstance/v1/common.pb.h"
#include "nstance/v1/operator.pb.h"
#include "nstance/v1/registration.pb.h"

namespace nstance::rpc_codec {
namespace {

namespace pb = google::protobuf;

// Most messages fit into the first block, which the thread keeps.
constexpr std::size_t kFirstBlockBytes = std::size_t{32} * 1024;

pb::ArenaOptions WithFirstBlock() {
  thread_local const auto block = std::make_unique<std::array<char, kFirstBlockBytes>>();
  pb::ArenaOptions options;
  options.initial_block = block->data();
  options.initial_block_size = block->size();
  return options;
}

// The parts of decoding and encoding that are the same for all types.
Status ParseInto(std::string_view bytes, pb::Message& message, const InputSource& source) {
  pb::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                              static_cast<int>(bytes.size()));
  in.SetRecursionLimit(kMaxMessageDepth);
  if (message.ParseFromCodedStream(&in) && in.ConsumedEntireMessage()) return {};
  source.Bad("message");
  return Fail(InvalidArgument(fmt::format("bytes are no {}", message.GetDescriptor()->name())));
}

Error Unsound(const std::string& problem, const InputSource& source) {
  source.Bad("message");
  return InvalidArgument(problem);
}

std::string Serialize(const pb::Message& message) {
  std::string bytes;
  {
    pb::io::StringOutputStream stream(&bytes);
    pb::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    CHECK(message.SerializeToCodedStream(&out), "{}", message.GetDescriptor()->full_name());
  }
  return bytes;
}

template <class Struct, class Proto>
Result<RpcMessage> Decode(std::string_view bytes, const InputSource& source) {
  static const WireShape shape(*Proto::descriptor());
  RETURN_IF_ERROR(shape.Check(bytes, source));
  pb::Arena arena(WithFirstBlock());
  auto& in = *pb::Arena::CreateMessage<Proto>(&arena);
  RETURN_IF_ERROR(ParseInto(bytes, in, source));
  Struct out;
  ReadContext context;
  Read(in, out, context);
  if (!context.problem().empty()) return Fail(Unsound(context.problem(), source));
  RpcMessage message = RpcMessage::Of(std::move(out));
  // The struct is about as large as the message that it was made from; texts are counted apart.
  message.SetWeight(bytes.size() + arena.SpaceUsed());
  return message;
}

template <class Struct, class Proto>
std::string Encode(const RpcMessage& message) {
  const Struct* in = message.As<Struct>();
  CHECK(in != nullptr, "message is no {}", Proto::descriptor()->full_name());
  pb::Arena arena(WithFirstBlock());
  auto& out = *pb::Arena::CreateMessage<Proto>(&arena);
  WriteContext context;
  Write(*in, out, context);
  return Serialize(out);
}

template <class Struct, class Proto>
constexpr NamedCodec CodecOf(std::string_view name) {
  return {.name = name,
          .codec = {.decode = &Decode<Struct, Proto>, .encode = &Encode<Struct, Proto>}};
}

constexpr std::array kCodecs = {
    CodecOf<api::Empty, pb::Empty>("google.protobuf.Empty"),
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

RpcKind KindOf(const pb::MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? RpcKind::kBidirectional : RpcKind::kClientStream;
  }
  return method.server_streaming() ? RpcKind::kServerStream : RpcKind::kUnary;
}

const RpcMessageCodec& CodecNamed(const pb::Descriptor& type) {
  const auto* found = std::ranges::find(kCodecs, type.full_name(), &NamedCodec::name);
  CHECK(found != kCodecs.end(), "no codec for {}", type.full_name());
  return found->codec;
}

void AppendMethods(const pb::FileDescriptor& file, std::vector<RpcMethod>& methods) {
  for (int s = 0; s < file.service_count(); ++s) {
    const pb::ServiceDescriptor& service = *file.service(s);
    for (int m = 0; m < service.method_count(); ++m) {
      const pb::MethodDescriptor& method = *service.method(m);
      methods.push_back({.path = fmt::format("/{}/{}", service.full_name(), method.name()),
                         .kind = KindOf(method),
                         .request = CodecNamed(*method.input_type()),
                         .response = CodecNamed(*method.output_type())});
    }
  }
}

}  // namespace

std::span<const NamedCodec> MessageCodecs() { return kCodecs; }

Result<std::vector<RpcMethod>> MakeMethodTable(std::span<const RpcPolicyRow> policy) {
  std::vector<RpcMethod> methods;
  AppendMethods(*v1::RegisterClientRequest::descriptor()->file(), methods);
  AppendMethods(*v1::HealthReportRequest::descriptor()->file(), methods);
  AppendMethods(*v1::GroupStatus::descriptor()->file(), methods);
  std::vector<RpcMethodFact> facts;
  facts.reserve(methods.size());
  for (const RpcMethod& method : methods) {
    facts.push_back({.path = method.path, .kind = method.kind});
  }
  RETURN_IF_ERROR(Under(CheckPolicyCovers(policy, facts), "RPC policy"));
  return methods;
}

}  // namespace nstance::rpc_codec

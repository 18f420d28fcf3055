#include "adapters/rpc_reflection/reflection_service.h"

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "adapters/rpc_codec/wire_shape.h"
#include "base/check.h"
#include "base/text.h"
#include "grpc/reflection/v1/reflection.pb.h"

namespace nstance::rpc_reflection {
namespace {

namespace pb = ::grpc::reflection::v1;

constexpr Duration kLongestCall = Duration::Seconds(60);

constexpr RpcPolicyRow Row(RpcPort port, RpcCaller caller, RpcLimitsClass limits) {
  return {.path = kReflectionPath,
          .port = port,
          .kind = RpcKind::kBidirectional,
          .caller = caller,
          .tenant_rule =
              port == RpcPort::kRegistration ? RpcTenantRule::kAnonymous : RpcTenantRule::kOwn,
          .subject_rule = RpcSubjectRule::kNone,
          .leader_rule = RpcLeaderRule::kOfAnyShard,
          .limits = limits,
          .time_limit = kLongestCall};
}

constexpr std::array kRows = {
    Row(RpcPort::kRegistration, RpcCaller::kAnybody, RpcLimitsClass::kRegistration),
    Row(RpcPort::kAgent, RpcCaller::kAgent, RpcLimitsClass::kAgentUnary),
    Row(RpcPort::kOperator, RpcCaller::kOperator, RpcLimitsClass::kOperatorUnary),
};

template <class Proto>
Result<RpcMessage> Parse(std::string_view bytes, const InputSource& source) {
  Proto message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    source.Bad("message");
    return Fail(InvalidArgument(fmt::format("bytes are no {}", Proto::descriptor()->name())));
  }
  return RpcMessage::Of(std::move(message));
}

Result<RpcMessage> DecodeRequest(std::string_view bytes, const InputSource& source) {
  if (bytes.size() > kMaxReflectionRequestBytes) {
    source.Limit("reflection_request");
    return Fail(InvalidArgument(fmt::format("a reflection request has at most {} bytes, not {}",
                                            kMaxReflectionRequestBytes, bytes.size())));
  }
  static const rpc_codec::WireShape shape(*pb::ServerReflectionRequest::descriptor());
  RETURN_IF_ERROR(shape.Check(bytes, source));
  return Parse<pb::ServerReflectionRequest>(bytes, source);
}

template <class Proto>
std::string Encode(const RpcMessage& message) {
  const Proto* value = message.As<Proto>();
  CHECK(value != nullptr, "message is no {}", Proto::descriptor()->full_name());
  return value->SerializeAsString();
}

// "/package.Service/Method" -> "package.Service".
std::string ServiceOf(std::string_view path) {
  return std::string(path.substr(1, path.rfind('/') - 1));
}

void SetNotFound(pb::ServerReflectionResponse& response, std::string_view what,
                 std::string_view name) {
  pb::ErrorResponse& error = *response.mutable_error_response();
  error.set_error_code(static_cast<int>(Code::kNotFound));
  error.set_error_message(fmt::format("there is no {} {} here", what, Quote(name)));
}

struct Wanted {
  const google::protobuf::FileDescriptor* file = nullptr;
  std::string_view what;
  std::string_view name;
};

void SetFile(pb::ServerReflectionResponse& response, const Wanted& wanted) {
  if (wanted.file == nullptr) return SetNotFound(response, wanted.what, wanted.name);
  for (std::string& file : DescriptorIndex::WithImports(*wanted.file)) {
    response.mutable_file_descriptor_response()->add_file_descriptor_proto(std::move(file));
  }
}

// Nothing of ours has extensions.
void SetExtensions(pb::ServerReflectionResponse& response, const DescriptorIndex& index,
                   const std::string& type) {
  if (!index.HasMessage(type)) return SetNotFound(response, "message", type);
  response.mutable_all_extension_numbers_response()->set_base_type_name(type);
}

pb::ServerReflectionResponse Answer(const DescriptorIndex& index,
                                    const pb::ServerReflectionRequest& request) {
  pb::ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  using Asked = pb::ServerReflectionRequest::MessageRequestCase;
  switch (request.message_request_case()) {
    case Asked::kFileByFilename: {
      const std::string& name = request.file_by_filename();
      SetFile(response, {.file = index.FindFile(name), .what = "file", .name = name});
      break;
    }
    case Asked::kFileContainingSymbol: {
      const std::string& name = request.file_containing_symbol();
      SetFile(response, {.file = index.FindSymbol(name), .what = "symbol", .name = name});
      break;
    }
    case Asked::kFileContainingExtension:
      SetNotFound(response, "extension of", request.file_containing_extension().containing_type());
      break;
    case Asked::kAllExtensionNumbersOfType:
      SetExtensions(response, index, request.all_extension_numbers_of_type());
      break;
    case Asked::kListServices:
      response.mutable_list_services_response();  // Also when there is none.
      for (const std::string& name : index.services()) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case Asked::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(static_cast<int>(Code::kInvalidArgument));
      response.mutable_error_response()->set_error_message("the request asks for nothing known");
      break;
  }
  return response;
}

}  // namespace

void AddReflection(std::vector<RpcMethod>& methods, std::vector<RpcPolicyRow>& policy) {
  methods.push_back(
      {.path = std::string(kReflectionPath),
       .kind = RpcKind::kBidirectional,
       .request = {.decode = &DecodeRequest, .encode = &Encode<pb::ServerReflectionRequest>},
       .response = {.decode = &Parse<pb::ServerReflectionResponse>,
                    .encode = &Encode<pb::ServerReflectionResponse>}});
  policy.insert(policy.end(), kRows.begin(), kRows.end());
}

ReflectionService::ReflectionService(std::span<const RpcPolicyRow> policy) {
  for (const RpcPort port : {RpcPort::kRegistration, RpcPort::kAgent, RpcPort::kOperator}) {
    std::vector<std::string> services;
    for (const RpcPolicyRow& row : policy) {
      if (row.port == port && row.offer == RpcOffer::kOffered) {
        services.push_back(ServiceOf(row.path));
      }
    }
    ports_.emplace(port, DescriptorIndex(services));
  }
}

ReflectionService::~ReflectionService() = default;

void ReflectionService::Accept(std::unique_ptr<RpcServerCall> call) {
  CHECK(Owns(*call), "{}", call->info().policy->path);
  const std::uint64_t id = next_++;
  RpcServerCall& taken = *calls_.emplace(id, std::move(call)).first->second;
  taken.Listen({.message = [this, id](const RpcMessage& message) { OnMessage(id, message); },
                .half_close = [this, id] { OnHalfClose(id); },
                .cancelled = [this, id](const Error& /*why*/) { calls_.erase(id); },
                .drained = [this, id] { OnDrained(id); }});
}

void ReflectionService::OnMessage(std::uint64_t id, const RpcMessage& message) {
  RpcServerCall& call = *calls_.at(id);
  const auto* request = message.As<pb::ServerReflectionRequest>();
  CHECK(request != nullptr);
  pb::ServerReflectionResponse answer = Answer(ports_.at(call.info().port), *request);
  if (call.Send(RpcMessage::Of(std::move(answer))) == RpcSend::kTakenNowFull) call.Pause();
}

void ReflectionService::OnHalfClose(std::uint64_t id) {
  calls_.at(id)->Finish({});
  calls_.erase(id);
}

void ReflectionService::OnDrained(std::uint64_t id) { calls_.at(id)->Resume(); }

}  // namespace nstance::rpc_reflection

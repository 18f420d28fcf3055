// Reflection asked by our own client over a real connection; what the answers hold is compared with
// the descriptors that the program was built with. grpcurl asks in test/interop.
#include "adapters/rpc_reflection/reflection_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include "adapters/rpc/rpc_dialer.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "test/adapters/rpc_reflection/reflection_fixture.h"

namespace nstance::rpc_reflection {
namespace {

namespace pb = ::grpc::reflection::v1;
using grpc::test::Who;
using test::Debug;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Asking {
  std::unique_ptr<RpcChannel> channel;
  std::unique_ptr<RpcCall> call;
  std::vector<pb::ServerReflectionResponse> answers;
  std::optional<RpcEnd> end;

  [[nodiscard]] Code code() const {
    return !end || end->status ? Code::kUnknown : end->status.error().code;
  }
};

pb::ServerReflectionRequest ListServices() {
  pb::ServerReflectionRequest request;
  request.set_list_services("*");
  return request;
}

pb::ServerReflectionRequest Symbol(const std::string& name) {
  pb::ServerReflectionRequest request;
  request.set_file_containing_symbol(name);
  return request;
}

std::vector<std::string> Services(const pb::ServerReflectionResponse& answer) {
  std::vector<std::string> names;
  for (const pb::ServiceResponse& one : answer.list_services_response().service()) {
    names.push_back(one.name());
  }
  return names;
}

std::vector<std::string> Files(const pb::ServerReflectionResponse& answer) {
  std::vector<std::string> names;
  for (const std::string& bytes : answer.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
  }
  return names;
}

class ReflectionTest : public testing::Test {
 public:
  // A server with reflection (or none), a stream to it on that port by that caller.
  Asking& Start(RpcPort port, Who who, Debug debug = Debug::kOn) {
    server_ = std::make_unique<test::ReflectingServer>(loop_, debug);
    // The client knows the method in any case.
    std::vector<RpcPolicyRow> rows;
    AddReflection(methods_, rows);
    dialer_ = std::make_unique<grpc::SocketRpcDialer>(
        grpc::RpcDialerSetup{.loop = loop_, .methods = methods_});
    asking_ = std::make_unique<Asking>();
    asking_->channel =
        dialer_->Dial({.address = server_->Open(port), .tls = grpc::test::ClientMaterial(who)}, {});
    asking_->channel->Connect();
    EXPECT_TRUE(Until([&] { return asking_->channel->state() == RpcChannelState::kReady; }));
    asking_->call = asking_->channel->Start(
        kReflectionPath, {},
        {.metadata = {},
         .message =
             [this](const RpcMessage& message) {
               asking_->answers.push_back(*message.As<pb::ServerReflectionResponse>());
             },
         .drained = {},
         .end = [this](const RpcEnd& end) { asking_->end = end; }});
    return *asking_;
  }

  pb::ServerReflectionResponse Ask(pb::ServerReflectionRequest request) {
    const std::size_t before = asking_->answers.size();
    asking_->call->Send(RpcMessage::Of(std::move(request)));
    EXPECT_TRUE(Until([&] { return asking_->answers.size() > before || asking_->end; }));
    if (asking_->answers.size() <= before) return {};
    return asking_->answers.back();
  }

  [[nodiscard]] bool Until(const std::function<bool()>& condition) {
    return nstance::test::RunUntil(loop_, condition);
  }

  RealLoop loop_;
  std::vector<RpcMethod> methods_;
  std::unique_ptr<test::ReflectingServer> server_;
  std::unique_ptr<grpc::SocketRpcDialer> dialer_;
  std::unique_ptr<Asking> asking_;
};

TEST_F(ReflectionTest, EachPortTellsOfItsOwnServices) {
  const std::string reflection = "grpc.reflection.v1.ServerReflection";
  Start(RpcPort::kRegistration, Who::kNobody);
  EXPECT_THAT(Services(Ask(ListServices())),
              ElementsAre(reflection, "nstance.v1.RegistrationService"));
  EXPECT_EQ(Ask(Symbol("nstance.v1.OperatorService")).error_response().error_code(), 5);
  Start(RpcPort::kAgent, Who::kAgent);
  EXPECT_THAT(Services(Ask(ListServices())), ElementsAre(reflection, "nstance.v1.AgentService"));
  Start(RpcPort::kOperator, Who::kOperator);
  EXPECT_THAT(Services(Ask(ListServices())), ElementsAre(reflection, "nstance.v1.OperatorService"));
}

TEST_F(ReflectionTest, AFileComesWithAllThatItImportsAndTheQuestion) {
  Start(RpcPort::kOperator, Who::kOperator);
  pb::ServerReflectionRequest request = Symbol("nstance.v1.OperatorService");
  request.set_host("somewhere");
  const pb::ServerReflectionResponse answer = Ask(request);
  const std::vector<std::string> files = Files(answer);
  ASSERT_FALSE(files.empty());
  EXPECT_EQ(files.front(), "nstance/v1/operator.proto");
  EXPECT_THAT(files, Contains("nstance/v1/common.proto"));
  EXPECT_THAT(files, Contains("google/protobuf/timestamp.proto"));
  EXPECT_EQ(answer.valid_host(), "somewhere");
  EXPECT_EQ(answer.original_request().SerializeAsString(), request.SerializeAsString());
  for (const std::string_view symbol :
       {"nstance.v1.OperatorService.ListGroups", "nstance.v1.GroupStatus",
        "google.protobuf.Timestamp.seconds", "google.protobuf.Empty"}) {
    EXPECT_FALSE(Files(Ask(Symbol(std::string(symbol)))).empty()) << symbol;
  }
  pb::ServerReflectionRequest by_name;
  by_name.set_file_by_filename("nstance/v1/common.proto");
  EXPECT_EQ(Files(Ask(by_name)).front(), "nstance/v1/common.proto");
}

TEST_F(ReflectionTest, WhatIsNotThereIsAnAnswerAndTheStreamGoesOn) {
  Asking& asking = Start(RpcPort::kAgent, Who::kAgent);
  for (const std::string_view name :
       {"", "nstance.v1", "nstance.v1.RegistrationService", "nstance.v1.agentservice",
        "google.protobuf.FileDescriptor"}) {
    const pb::ErrorResponse error = Ask(Symbol(std::string(name))).error_response();
    EXPECT_EQ(error.error_code(), 5) << name;
    EXPECT_THAT(error.error_message(), HasSubstr("there is no symbol")) << name;
  }
  pb::ServerReflectionRequest request;
  request.set_file_by_filename("/etc/passwd");
  EXPECT_EQ(Ask(request).error_response().error_code(), 5);
  request.mutable_file_containing_extension()->set_containing_type("nstance.v1.Metrics");
  EXPECT_EQ(Ask(request).error_response().error_code(), 5);
  request.set_all_extension_numbers_of_type("nstance.v1.Nothing");
  EXPECT_EQ(Ask(request).error_response().error_code(), 5);
  request.set_all_extension_numbers_of_type("nstance.v1.Metrics");
  const pb::ServerReflectionResponse none = Ask(request);
  EXPECT_EQ(none.all_extension_numbers_response().base_type_name(), "nstance.v1.Metrics");
  EXPECT_THAT(none.all_extension_numbers_response().extension_number(), IsEmpty());
  EXPECT_EQ(Ask({}).error_response().error_code(), 3);
  asking.call->HalfClose();
  ASSERT_TRUE(Until([&] { return asking.end.has_value(); }));
  EXPECT_TRUE(asking.end->status.has_value());
  EXPECT_EQ(server_->reflection()->open_calls(), 0);
}

TEST_F(ReflectionTest, IsNotThereWithoutDebug) {
  for (const auto& [port, who] :
       {std::pair(RpcPort::kRegistration, Who::kNobody), std::pair(RpcPort::kAgent, Who::kAgent),
        std::pair(RpcPort::kOperator, Who::kOperator)}) {
    Asking& asking = Start(port, who, Debug::kOff);
    Ask(ListServices());
    EXPECT_EQ(asking.code(), Code::kUnimplemented) << RpcPortName(port);
  }
}

TEST_F(ReflectionTest, AdmitsTheRoleOfThePortOnly) {
  Asking& agent = Start(RpcPort::kOperator, Who::kAgent);
  Ask(ListServices());
  EXPECT_EQ(agent.code(), Code::kPermissionDenied);
  Asking& op = Start(RpcPort::kAgent, Who::kOperator);
  Ask(ListServices());
  EXPECT_EQ(op.code(), Code::kPermissionDenied);
}

TEST_F(ReflectionTest, RefusesALongNameBeforeItIsDecoded) {
  Asking& asking = Start(RpcPort::kOperator, Who::kOperator);
  EXPECT_EQ(Ask(Symbol(std::string(4000, 'x'))).error_response().error_code(), 5);
  Ask(Symbol(std::string(kMaxReflectionRequestBytes, 'x')));
  EXPECT_EQ(asking.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Until([&] { return server_->reflection()->open_calls() == 0; }));
}

// 2,000 answers of some ten kilobytes each: far above the send queue. They wait at the caller's
// side, as requests.
TEST_F(ReflectionTest, ACallerThatDoesNotReadIsPausedAndLosesNothing) {
  constexpr std::size_t kQuestions = 2'000;
  Asking& asking = Start(RpcPort::kRegistration, Who::kNobody);
  asking.call->Pause();
  for (std::size_t i = 0; i < kQuestions; ++i) {
    ASSERT_NE(asking.call->Send(RpcMessage::Of(Symbol("nstance.v1.RegistrationService"))),
              RpcSend::kRefused);
  }
  asking.call->HalfClose();
  asking.call->Resume();
  ASSERT_TRUE(nstance::test::RunUntil(
      loop_, [&] { return asking.end.has_value(); }, Duration::Seconds(120)));
  EXPECT_TRUE(asking.end->status.has_value());
  EXPECT_EQ(asking.answers.size(), kQuestions);
}

TEST_F(ReflectionTest, ForgetsACallThatIsCancelled) {
  Asking& asking = Start(RpcPort::kAgent, Who::kAgent);
  Ask(ListServices());
  EXPECT_EQ(server_->reflection()->open_calls(), 1);
  asking.call.reset();
  EXPECT_TRUE(Until([&] { return server_->reflection()->open_calls() == 0; }));
}

}  // namespace
}  // namespace nstance::rpc_reflection

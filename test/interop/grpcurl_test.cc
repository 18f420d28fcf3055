// A person's first try: grpcurl against a server with --debug and one without. Its own rules apply:
// it takes reflection v1 and falls back to v1alpha by itself, so v1 alone must do.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/adapters/rpc_reflection/reflection_fixture.h"
#include "test/interop/interop_fixture.h"
#include "test/support/run_beside.h"
#include "test/support/store_peers.h"

namespace nstance::interop {
namespace {

using rpc_reflection::test::Debug;
using rpc_reflection::test::ReflectingServer;
using test::ProcessOutput;
using testing::HasSubstr;
using testing::Not;

class GrpcurlTest : public testing::Test {
 public:
  void SetUp() override {
    const Result<std::string> found = test::FindPeer("grpcurl");
    if (!found) GTEST_SKIP() << found.error().message;
    program_ = *found;
  }

  // `words` follow the address: `list`, `describe NAME`, a method.
  ProcessOutput Grpcurl(const RpcAddress& address, Who who, std::vector<std::string> words) {
    std::vector<std::string> argv = {program_, "-cacert", ca_file_, "-max-time", "30"};
    if (who != Who::kNobody) {
      const Files files = WriteFiles(folder_, grpc::test::ClientMaterial(who));
      argv.insert(argv.end(), {"-cert", files.certificate, "-key", files.key});
    }
    argv.push_back("127.0.0.1:" + std::to_string(address.port));
    argv.insert(argv.end(), words.begin(), words.end());
    Result<ProcessOutput> ran = test::RunBeside(loop_, {.argv = argv});
    EXPECT_TRUE(ran.has_value()) << ran.error().ToString();
    return ran.value_or(ProcessOutput{.exit_code = -1, .out = {}, .err = {}});
  }

  std::string program_;
  RealLoop loop_;
  test::TempDir folder_;
  std::string ca_file_ = folder_.Write("ca.crt", grpc::test::Root().ToPem());
};

TEST_F(GrpcurlTest, ListsAndDescribesOnEveryPortWithDebug) {
  ReflectingServer server(loop_, Debug::kOn);
  struct Port {
    RpcPort port;
    Who who;
    std::string service;
    std::string method;
  };
  for (const Port& one :
       {Port{RpcPort::kRegistration, Who::kNobody, "nstance.v1.RegistrationService",
             "rpc RegisterAgent ( .nstance.v1.RegisterClientRequest )"},
        Port{RpcPort::kAgent, Who::kAgent, "nstance.v1.AgentService",
             "rpc ReceiveFiles ( .google.protobuf.Empty ) returns ( stream "},
        Port{RpcPort::kOperator, Who::kOperator, "nstance.v1.OperatorService",
             "rpc ClaimInstance ( .nstance.v1.ClaimInstanceRequest )"}}) {
    const RpcAddress address = server.Open(one.port);
    const ProcessOutput list = Grpcurl(address, one.who, {"list"});
    EXPECT_EQ(list.out, "grpc.reflection.v1.ServerReflection\n" + one.service + "\n")
        << list.ToString();
    const ProcessOutput methods = Grpcurl(address, one.who, {"list", one.service});
    EXPECT_THAT(methods.out, HasSubstr(one.service + ".")) << methods.ToString();
    const ProcessOutput service = Grpcurl(address, one.who, {"describe", one.service});
    EXPECT_THAT(service.out, HasSubstr(one.method)) << service.ToString();
  }
}

TEST_F(GrpcurlTest, DescribesAMessageWithTheTypesOfItsFields) {
  ReflectingServer server(loop_, Debug::kOn);
  const ProcessOutput message = Grpcurl(server.Open(RpcPort::kRegistration), Who::kNobody,
                                        {"describe", "nstance.v1.RegisterClientResponse"});
  EXPECT_THAT(message.out, HasSubstr("bytes client_certificate_pem = 1;")) << message.ToString();
  EXPECT_THAT(message.out, HasSubstr(".google.protobuf.Timestamp expires_at = 2;"));
}

TEST_F(GrpcurlTest, SaysSoWhenThereIsNoSuchSymbol) {
  ReflectingServer server(loop_, Debug::kOn);
  const ProcessOutput output =
      Grpcurl(server.Open(RpcPort::kRegistration), Who::kNobody, {"describe", "nstance.v1.Other"});
  EXPECT_NE(output.exit_code, 0);
  EXPECT_THAT(output.err, HasSubstr("not found")) << output.ToString();
}

TEST_F(GrpcurlTest, FindsNothingWithoutDebug) {
  ReflectingServer server(loop_, Debug::kOff);
  const ProcessOutput output = Grpcurl(server.Open(RpcPort::kRegistration), Who::kNobody, {"list"});
  EXPECT_NE(output.exit_code, 0);
  EXPECT_THAT(output.err, HasSubstr("server does not support the reflection API"))
      << output.ToString();
  EXPECT_THAT(output.out, Not(HasSubstr("nstance")));
}

}  // namespace
}  // namespace nstance::interop

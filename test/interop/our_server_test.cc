// Clients of other makers against our server: grpc-go's own test program case by case, Debian's
// gRPC for C++ and Python by small programs of this folder, with and without client certificates.
// The programs judge what they get; here the server's side of it is looked at.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/interop/client_cases.h"
#include "test/interop/interop_fixture.h"
#include "test/support/store_peers.h"

namespace nstance::interop {
namespace {

using test::ProcessOutput;
using test::ProcessRequest;
using testing::AnyOf;
using testing::HasSubstr;

std::vector<std::string> Arguments(Maker maker, const std::string& name, const std::string& ca,
                                   const RpcAddress& address) {
  const std::string port = std::to_string(address.port);
  if (maker != Maker::kGo) {
    return {"--target", address.host + ":" + port, "--ca", ca, "--case", name};
  }
  return {"--use_tls",
          "--use_test_ca",
          "--ca_file=" + ca,
          "--server_host_override=nstance-server",
          "--server_host=" + address.host,
          "--server_port=" + port,
          "--test_case=" + name};
}

class OurServerTest : public InteropFixture, public testing::WithParamInterface<PeerCase> {};

TEST_P(OurServerTest, Passes) {
  Result<ProcessRequest> command = CommandOf(GetParam().maker, Side::kClient);
  if (!command) GTEST_SKIP() << command.error().message;
  const RpcAddress address = Open(RpcPort::kRegistration);
  for (std::string& argument : Arguments(GetParam().maker, GetParam().name, ca_file_, address)) {
    command->argv.push_back(std::move(argument));
  }
  const ProcessOutput output = Run(*std::move(command));
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
  // Each says that the case came to its end.
  EXPECT_THAT(output.out + output.err, AnyOf(HasSubstr("done"), HasSubstr("Done")));
  EXPECT_TRUE(Until([&] { return service_.open() == 0; })) << "a call was left behind";
}

INSTANTIATE_TEST_SUITE_P(Interop, OurServerTest, testing::ValuesIn(PeerCases()),
                         testing::PrintToStringParamName());

// With client certificates.
class OurMutualServerTest : public InteropFixture, public testing::WithParamInterface<Maker> {
 public:
  // The case by that maker's client with those certificates, on a port of our server.
  ProcessOutput RunAs(Who who, RpcPort port, const std::string& name) {
    Result<ProcessRequest> command = CommandOf(GetParam(), Side::kClient);
    EXPECT_TRUE(command.has_value());
    std::vector<std::string> more = Arguments(GetParam(), name, ca_file_, Open(port));
    if (who != Who::kNobody) {
      const Files files = WriteFiles(folder_, grpc::test::ClientMaterial(who));
      more.insert(more.end(), {"--cert", files.certificate, "--key", files.key});
    }
    command->argv.insert(command->argv.end(), more.begin(), more.end());
    return Run(*std::move(command));
  }

  void SetUp() override {
    if (const auto command = CommandOf(GetParam(), Side::kClient); !command) {
      GTEST_SKIP() << command.error().message;
    }
  }
};

TEST_P(OurMutualServerTest, AcceptsTheRightCertificate) {
  const ProcessOutput agent = RunAs(Who::kAgent, RpcPort::kAgent, "ping_pong");
  EXPECT_EQ(agent.exit_code, 0) << agent.out << agent.err;
  const ProcessOutput op = RunAs(Who::kOperator, RpcPort::kOperator, "large_unary");
  EXPECT_EQ(op.exit_code, 0) << op.out << op.err;
  EXPECT_EQ(service_.calls(kFullDuplexCall), 1);
  EXPECT_EQ(service_.calls(kUnaryCall), 1);
}

TEST_P(OurMutualServerTest, RefusesAClientWithoutACertificate) {
  const ProcessOutput output = RunAs(Who::kNobody, RpcPort::kOperator, "refused");
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
  EXPECT_EQ(service_.calls(kEmptyCall), 0);
}

TEST_P(OurMutualServerTest, RefusesACertificateOfAnotherAuthority) {
  const ProcessOutput output = RunAs(Who::kStranger, RpcPort::kAgent, "refused");
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
  EXPECT_EQ(service_.calls(kEmptyCall), 0);
}

TEST_P(OurMutualServerTest, RefusesAServersCertificate) {
  const ProcessOutput output = RunAs(Who::kServer, RpcPort::kOperator, "refused");
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
  EXPECT_EQ(service_.calls(kEmptyCall), 0);
}

TEST_P(OurMutualServerTest, TellsAnotherRoleThatItMayNot) {
  const ProcessOutput output = RunAs(Who::kAgent, RpcPort::kOperator, "forbidden");
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
  EXPECT_EQ(service_.calls(kEmptyCall), 0);
}

INSTANTIATE_TEST_SUITE_P(Interop, OurMutualServerTest, testing::Values(Maker::kCpp, Maker::kPython),
                         testing::PrintToStringParamName());

// The BoringSSL that the wheel from PyPI brings offers no Ed25519 in its ClientHello.
class WheelTest : public InteropFixture {};

TEST_F(WheelTest, OfPythonIsRefusedAtOnceAndTheServerGoesOn) {
  const Result<std::string> wheel = test::FindPeer("grpcio-wheel");
  if (!wheel) GTEST_SKIP() << wheel.error().message;
  const RpcAddress address = Open(RpcPort::kRegistration);
  const ProcessOutput output =
      Run({.argv = {*wheel, std::string(NSTANCE_SOURCE_DIR) + "/test/interop/grpc_peer.py",
                    "client", "--target", "127.0.0.1:" + std::to_string(address.port), "--ca",
                    ca_file_, "--case", "refused"},
           .environment = {"PYTHONDONTWRITEBYTECODE=1"}});
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
  EXPECT_EQ(service_.calls(kEmptyCall), 0);
  // An answer to the handshake, not a timeout or a connection that just goes.
  EXPECT_THAT(output.out, HasSubstr("handshake")) << output.err;
  grpc::test::TestClient& ours = Connect(address, Who::kNobody);
  ASSERT_TRUE(ours.ready());
  RunClientCase("empty_unary", {.loop = loop_, .channel = *ours.channel});
}

}  // namespace
}  // namespace nstance::interop

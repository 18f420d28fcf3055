// Our client against servers of other makers: grpc-go's own test server, and small servers of this
// folder on Debian's gRPC for C++ and Python. Every case of the interoperability tests against
// each; client certificates where the server can ask for them.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/interop/client_cases.h"
#include "test/interop/interop_fixture.h"

namespace nstance::interop {
namespace {

using testing::HasSubstr;

class OurClientTest : public InteropFixture, public testing::WithParamInterface<PeerCase> {};

TEST_P(OurClientTest, Passes) {
  const Result<PeerServer*> server = PeerServer::Shared(GetParam().maker, AsksFor::kNothing);
  if (!server && server.error().code == Code::kNotFound) GTEST_SKIP() << server.error().message;
  ASSERT_TRUE(server.has_value()) << server.error().ToString();
  grpc::test::TestClient& client = Connect((*server)->address(), Who::kNobody);
  ASSERT_TRUE(client.ready()) << client.gone.error().ToString();
  RunClientCase(GetParam().name, {.loop = loop_, .channel = *client.channel});
  EXPECT_TRUE(client.ready()) << "one call's fate is not the connection's";
}

INSTANTIATE_TEST_SUITE_P(Interop, OurClientTest, testing::ValuesIn(PeerCases()),
                         testing::PrintToStringParamName());

// The cases mean the same between our own two sides.
class OurOwnTest : public InteropFixture {};

TEST_F(OurOwnTest, ClientPassesEveryCaseAgainstOurServer) {
  const RpcAddress address = Open(RpcPort::kRegistration);
  grpc::test::TestClient& client = Connect(address, Who::kNobody);
  ASSERT_TRUE(client.ready());
  for (const ClientCase& one : ClientCases()) {
    SCOPED_TRACE(one.name);
    CaseClient case_client = {.loop = loop_, .channel = *client.channel};
    one.run(case_client);
  }
  EXPECT_TRUE(Until([&] { return service_.open() == 0; }));
  ASSERT_GE(service_.cancelled().size(), 2) << "two cases cancel";
  EXPECT_EQ(service_.cancelled().back().code, Code::kCancelled);
}

class OurClientMutualTest : public InteropFixture, public testing::WithParamInterface<Maker> {
 public:
  void SetUp() override {
    const Result<PeerServer*> server = PeerServer::Shared(GetParam(), AsksFor::kClientCertificate);
    if (!server && server.error().code == Code::kNotFound) GTEST_SKIP() << server.error().message;
    ASSERT_TRUE(server.has_value()) << server.error().ToString();
    server_of_others_ = *server;
  }

  PeerServer* server_of_others_ = nullptr;
};

TEST_P(OurClientMutualTest, IsAcceptedWithTheRightCertificate) {
  grpc::test::TestClient& client = Connect(server_of_others_->address(), Who::kAgent);
  ASSERT_TRUE(client.ready()) << client.gone.error().ToString();
  RunClientCase("large_unary", {.loop = loop_, .channel = *client.channel});
  RunClientCase("ping_pong", {.loop = loop_, .channel = *client.channel});
}

// gRPC's core sends no alert when it refuses a certificate, it closes: so the reason cannot be told
// from a lost connection, but that nothing was done can.
TEST_P(OurClientMutualTest, LearnsThatItIsRefused) {
  for (const Who who : {Who::kNobody, Who::kStranger}) {
    grpc::test::TestClient& client = Connect(server_of_others_->address(), who);
    // In TLS 1.3 our side of the handshake is done before the server has judged.
    ASSERT_TRUE(Until([&] { return client.is_gone(); }));
    ASSERT_FALSE(client.gone.has_value());
    EXPECT_EQ(client.gone.error().code, Code::kUnavailable) << client.gone.error().ToString();
    EXPECT_EQ(client.gone.error().outcome, Outcome::kNotDone);
  }
}

// The other side learns of a cancelled call from the reset.
TEST_P(OurClientMutualTest, CancelsWhatTheServerIsBusyWith) {
  grpc::test::TestClient& client = Connect(server_of_others_->address(), Who::kOperator);
  ASSERT_TRUE(client.ready()) << client.gone.error().ToString();
  RunClientCase("cancel_after_first_response", {.loop = loop_, .channel = *client.channel});
  EXPECT_TRUE(Until([&] { return server_of_others_->Output().contains("cancelled FullDuplex"); }))
      << server_of_others_->Output();
}

INSTANTIATE_TEST_SUITE_P(Interop, OurClientMutualTest, testing::Values(Maker::kCpp, Maker::kPython),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace nstance::interop

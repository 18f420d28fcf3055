// Two TLS sessions against each other in memory: what is shown, what is trusted, what is refused.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "adapters/rpc/tls_context.h"
#include "test/adapters/rpc/rpc_materials.h"

namespace nstance::grpc {
namespace {

using test::ClientMaterial;
using test::Materials;
using test::ServerMaterial;

struct Outcomes {
  Result<bool> server = false;
  Result<bool> client = false;
};

// Carries bytes until both sides are done, one fails, or neither has more to say.
Outcomes Shake(TlsSession& client, TlsSession& server, Timestamp now) {
  Outcomes out;
  out.client = client.Handshake(now);
  for (int round = 0; round < 10; ++round) {
    const Bytes up = std::exchange(client.output(), {});
    server.Feed(up);
    if (out.server.has_value() && !*out.server) out.server = server.Handshake(now);
    const Bytes down = std::exchange(server.output(), {});
    client.Feed(down);
    if (out.client.has_value() && !*out.client) {
      out.client = client.Handshake(now);
    } else if (out.client.has_value()) {
      Bytes room(100);
      const Result<std::size_t> read = client.Read(room);
      if (!read.has_value()) out.client = Fail(read.error());
    }
    if (up.empty() && down.empty()) break;
  }
  return out;
}

class TlsTest : public testing::Test {
 public:
  Outcomes Run(RpcTls client, const std::string& host = "127.0.0.1") {
    client_ = std::make_unique<TlsSession>(*TlsContext::ForClient(std::move(client)),
                                           TlsSession::Target{.host = host});
    server_ = std::make_unique<TlsSession>(
        *TlsContext::ForServer(ServerMaterial(), client_certificates_), TlsSession::Target{});
    return Shake(*client_, *server_, now_);
  }

  ClientCertificates client_certificates_ = ClientCertificates::kRequired;
  Timestamp now_ = Materials().now;
  std::unique_ptr<TlsSession> client_;
  std::unique_ptr<TlsSession> server_;
};

TEST_F(TlsTest, BothSidesOpenAndTheServerKnowsWhoCalls) {
  const Outcomes outcomes = Run(ClientMaterial(test::Who::kAgent));
  ASSERT_TRUE(outcomes.client.has_value()) << outcomes.client.error().ToString();
  ASSERT_TRUE(outcomes.server.has_value()) << outcomes.server.error().ToString();
  EXPECT_TRUE(*outcomes.client && *outcomes.server);
  ASSERT_TRUE(server_->verdict().has_value());
  EXPECT_EQ(server_->verdict()->identity->id, crypto::test::kInstance);
  const std::string text = "through the tunnel";
  client_->Write(AsBytes(text));
  server_->Feed(client_->output());
  Bytes room(100);
  const Result<std::size_t> read = server_->Read(room);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(AsText(std::span(room).first(*read)), text);
}

TEST_F(TlsTest, ServersAreKnownByTheNameThatWasDialledAndByNothingElse) {
  EXPECT_TRUE(Run(ClientMaterial(test::Who::kAgent), "localhost").client.has_value());
  EXPECT_TRUE(Run(ClientMaterial(test::Who::kAgent), "::1").client.has_value());
  for (const char* host : {"192.0.2.1", "example.com", "nstance-serve"}) {
    const Outcomes outcomes = Run(ClientMaterial(test::Who::kAgent), host);
    ASSERT_FALSE(outcomes.client.has_value()) << host;
    EXPECT_EQ(outcomes.client.error().code, Code::kPermissionDenied);
  }
}

TEST_F(TlsTest, AClientWithoutACertificateIsRefusedWhereOneIsRequired) {
  const Outcomes outcomes = Run(ClientMaterial(test::Who::kNobody));
  EXPECT_FALSE(outcomes.server.has_value());
  ASSERT_FALSE(outcomes.client.has_value()) << "the alert arrives after the client's handshake";
  EXPECT_EQ(outcomes.client.error().code, Code::kUnauthenticated);
  client_certificates_ = ClientCertificates::kNone;
  EXPECT_TRUE(Run(ClientMaterial(test::Who::kNobody)).server.value_or(false));
  EXPECT_FALSE(server_->verdict().has_value());
}

TEST_F(TlsTest, CertificatesOfOthersAreRefused) {
  for (const test::Who who : {test::Who::kStranger, test::Who::kServer}) {
    const Outcomes outcomes = Run(ClientMaterial(who));
    ASSERT_FALSE(outcomes.server.has_value());
    EXPECT_EQ(outcomes.server.error().code, Code::kUnauthenticated);
    ASSERT_FALSE(outcomes.client.has_value());
    EXPECT_EQ(outcomes.client.error().code, Code::kUnauthenticated);
  }
}

TEST_F(TlsTest, AnExpiredCertificateIsRefusedByTheClockOfTheCaller) {
  now_ = now_ + Duration::Hours(48);
  const Outcomes outcomes = Run(ClientMaterial(test::Who::kAgent));
  ASSERT_FALSE(outcomes.client.has_value());
  EXPECT_EQ(outcomes.client.error().code, Code::kPermissionDenied) << "the server's, seen first";
}

TEST_F(TlsTest, AnyRootOfTheBundleCounts) {
  const RpcTls both = test::WithRoots(*ServerMaterial(), {test::OtherRoot(), test::Root()});
  auto server = std::make_unique<TlsSession>(
      *TlsContext::ForServer(both, ClientCertificates::kRequired), TlsSession::Target{});
  auto client =
      std::make_unique<TlsSession>(*TlsContext::ForClient(ClientMaterial(test::Who::kAgent)),
                                   TlsSession::Target{.host = "127.0.0.1"});
  const Outcomes outcomes = Shake(*client, *server, now_);
  ASSERT_TRUE(outcomes.server.value_or(false));
  const auto left = *TlsContext::ForServer(test::WithRoots(*ServerMaterial(), {test::OtherRoot()}),
                                           ClientCertificates::kRequired);
  EXPECT_FALSE(server->LeadsTo(*left, now_));
  const auto kept = *TlsContext::ForServer(ServerMaterial(), ClientCertificates::kRequired);
  EXPECT_TRUE(server->LeadsTo(*kept, now_));
}

TEST_F(TlsTest, MaterialThatDoesNotFitIsRefused) {
  RpcTlsMaterial wrong_key = *ServerMaterial();
  wrong_key.key = ClientMaterial(test::Who::kAgent)->key;
  const auto context = TlsContext::ForServer(std::make_shared<const RpcTlsMaterial>(wrong_key),
                                             ClientCertificates::kNone);
  ASSERT_FALSE(context.has_value());
  EXPECT_EQ(context.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(TlsContext::ForServer(nullptr, ClientCertificates::kNone).has_value());
  EXPECT_FALSE(TlsContext::ForClient(test::WithRoots({}, {})).has_value());
  EXPECT_FALSE(
      TlsContext::ForServer(test::WithRoots(*ServerMaterial(), {}), ClientCertificates::kRequired)
          .has_value());
}

}  // namespace
}  // namespace nstance::grpc

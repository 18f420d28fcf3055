// Bad input at the TLS handshake, rows BI-39 to BI-50: clients with forged certificates, old
// versions or none against a real server, beside a neighbour that must not notice.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "test/adapters/rpc/abuse_fixture.h"

namespace nstance::grpc {
namespace {

using crypto::test::Forge;
using crypto::test::ForgedPart;
using crypto::test::ForgedRole;
using crypto::test::ForgeKey;
using crypto::test::ForgeSpec;
using test::FrameType;
using test::IdentityOf;
using test::RawClient;
using test::RawIdentity;
using test::RawTlsClient;
using test::Who;

constexpr int kUnauthenticated = 16;
constexpr int kPermissionDenied = 7;
constexpr int kT61String = 20;
constexpr int kBmpString = 30;

Bytes RoleValue(std::string_view word) {
  Bytes value = {0x13, static_cast<std::uint8_t>(word.size())};
  value.insert(value.end(), word.begin(), word.end());
  return value;
}

class TlsAbuseTest : public test::AbuseFixture {
 public:
  [[nodiscard]] static ForgeSpec GoodAgent() {
    ForgeSpec spec;
    spec.subject = {{.field = "O", .value = "prod"},
                    {.field = "CN", .value = std::string(crypto::test::kInstance)}};
    spec.not_before = test::Materials().now - Duration::Minutes(5);
    spec.not_after = test::Materials().now + Duration::Hours(24);
    spec.roles = {{.value = RoleValue("agent")}};
    return spec;
  }
  // Signed by the cluster's own authority.
  [[nodiscard]] RawIdentity Forged(const ForgeSpec& spec) const {
    return {.chain = {Forge(spec, key_, {.certificate = &root_, .key = root_key_})}, .key = key_};
  }

  void ExpectRefused(const RawIdentity& identity, const RpcAddress& address,
                     const std::string& what) {
    const std::uint64_t before = BadInput("tls_handshake");
    Attack([&] {
      RawTlsClient client(address, {.identity = identity});
      EXPECT_TRUE(client.Refused()) << what;
    });
    EXPECT_EQ(BadInput("tls_handshake"), before + 1) << what;
    EXPECT_TRUE(handlers_.empty()) << what;
  }

  // The handshake is let through; the first call is answered with `status`.
  void ExpectAnswer(const RawIdentity& identity, int status, const std::string& what) {
    ExpectAnswerAt(agents_, identity, status, what);
  }
  void ExpectAnswerAt(const RpcAddress& address, const RawIdentity& identity, int status,
                      const std::string& what) {
    const std::string reason = status == kUnauthenticated ? "rpc_identity" : "rpc_role";
    const std::uint64_t before = BadInput(reason);
    Attack([&] {
      RawTlsClient client(address, {.identity = identity});
      ASSERT_TRUE(client.open()) << what;
      client.Write(test::ClientOpening());
      client.Request(1, address == agents_ ? test::kUnary : test::kWatch);
      client.Message(1, "x");
      EXPECT_EQ(client.StatusOf(1), status) << what;
    });
    EXPECT_EQ(BadInput(reason), before + 1) << what;
    EXPECT_TRUE(handlers_.empty()) << what;
  }

  Bytes root_ = test::Root().der();
  ForgeKey root_key_{crypto::test::KeyOf(1).native_handle()};
  ForgeKey key_;
};

TEST_F(TlsAbuseTest, BI00_TheForgedGoodOneIsServed) {
  Attack([&] {
    RawTlsClient client(agents_, {.identity = Forged(GoodAgent())});
    ASSERT_TRUE(client.open());
    client.Write(test::ClientOpening());
    client.Request(1, test::kUnary);
    client.Message(1, "x");
    EXPECT_EQ(client.StatusOf(1), 0);
  });
  EXPECT_EQ(handlers_.size(), 1U);
}

TEST_F(TlsAbuseTest, BI39_OldTlsPlainHttpAndNoiseAreRefused) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(test::kPreface),
        std::string("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10", 11) +  // SSLv2
            std::string(37, '\x01'),
        std::string(70'000, 'x')}) {
    const std::uint64_t before = BadInput("tls_handshake");
    Attack([&] {
      RawClient client(agents_);
      ASSERT_TRUE(client.connected());
      client.Write(AsBytes(bytes));
      Bytes answer;
      EXPECT_TRUE(client.ReadToEnd(answer));
      EXPECT_LT(answer.size(), 64U) << "an alert at most";
    });
    EXPECT_EQ(BadInput("tls_handshake"), before + 1);
  }
  const std::uint64_t before = BadInput("tls_handshake");
  Attack([&] {
    RawTlsClient old(agents_, {.identity = IdentityOf(Who::kAgent), .old_version = true});
    EXPECT_FALSE(old.open());
    RawTlsClient silent(agents_, {.identity = IdentityOf(Who::kAgent), .alpn = ""});
    EXPECT_TRUE(silent.Refused()) << "no ALPN at all";
    RawTlsClient other(agents_, {.identity = IdentityOf(Who::kAgent), .alpn = "\x08http/1.1"});
    EXPECT_TRUE(other.Refused());
  });
  EXPECT_EQ(BadInput("tls_handshake"), before + 3);
}

TEST_F(TlsAbuseTest, BI40_NoClientCertificateIsRefusedOnBothPorts) {
  const RpcAddress operators = Open(RpcPort::kOperator);
  ExpectRefused({}, agents_, "agent port");
  ExpectRefused({}, operators, "operator port");
}

TEST_F(TlsAbuseTest, BI41_OtherAuthoritiesAreRefused) {
  ExpectRefused(IdentityOf(Who::kStranger), agents_, "same names, other key");
  const ForgeKey other;
  RawIdentity forged;
  forged.key = key_;
  forged.chain = {Forge(GoodAgent(), key_, {.certificate = &root_, .key = other})};
  ExpectRefused(forged, agents_, "our authority's name, another's signature");
  forged.chain = {Forge(GoodAgent(), key_, {.certificate = nullptr, .key = key_})};
  ExpectRefused(forged, agents_, "self-signed with our role");
}

TEST_F(TlsAbuseTest, BI42_TimesAndSerialsOutOfBoundsAreRefused) {
  const Timestamp now = test::Materials().now;
  ForgeSpec expired = GoodAgent();
  expired.not_before = now - Duration::Hours(2);
  expired.not_after = now - Duration::Minutes(10);
  ExpectRefused(Forged(expired), agents_, "expired");
  ForgeSpec early = GoodAgent();
  early.not_before = now + Duration::Minutes(10);
  ExpectRefused(Forged(early), agents_, "not yet valid");
  ForgeSpec forever = GoodAgent();
  forever.not_after = crypto::test::At("9999-12-31T23:59:59Z");
  ExpectRefused(Forged(forever), agents_, "year 9999");
  for (const char* serial : {"-1234", "0"}) {
    ForgeSpec spec = GoodAgent();
    spec.serial_hex = serial;
    ExpectRefused(Forged(spec), agents_, serial);
  }
  ForgeSpec long_serial = GoodAgent();
  long_serial.serial_hex = std::string(42, '7');
  ExpectRefused(Forged(long_serial), agents_, "serial of 21 bytes");
}

TEST_F(TlsAbuseTest, BI43_ARoleAtAnotherPortIsDeniedAndAServerRefused) {
  const RpcAddress operators = Open(RpcPort::kOperator);
  ExpectAnswerAt(operators, IdentityOf(Who::kAgent), kPermissionDenied, "agent");
  ExpectAnswerAt(agents_, IdentityOf(Who::kOperator), kPermissionDenied, "operator");
  ExpectRefused(IdentityOf(Who::kServer), agents_, "server");
  ExpectRefused(IdentityOf(Who::kServer), operators, "server");
}

TEST_F(TlsAbuseTest, BI43_AgentsAtTheOperatorPortDoNotTakeTheOperatorsPlaces) {
  limits_.operator_connections = 2;
  server_.reset();
  Remake();
  agents_ = Open(RpcPort::kAgent);
  const RpcAddress operators = Open(RpcPort::kOperator);
  std::vector<std::unique_ptr<RawTlsClient>> knocking;
  Attack([&] {
    for (int i = 0; i < 4; ++i) {
      knocking.push_back(std::make_unique<RawTlsClient>(
          operators, test::RawTlsSetup{.identity = IdentityOf(Who::kAgent)}));
      knocking.back()->Write(test::ClientOpening());
      EXPECT_TRUE(knocking.back()->ReadUntil([&] { return !knocking.back()->frames().empty(); }));
    }
  });
  EXPECT_TRUE(Ready(operators, Who::kOperator).ready());
}

TEST_F(TlsAbuseTest, BI44_ATenantThatIsNotOnePlainTextIsUnauthenticated) {
  const auto with = [&](std::vector<ForgedPart> parts, const std::string& what) {
    ForgeSpec spec = GoodAgent();
    spec.subject = {{.field = "CN", .value = std::string(crypto::test::kInstance)}};
    spec.subject.insert(spec.subject.end(), parts.begin(), parts.end());
    ExpectAnswer(Forged(spec), kUnauthenticated, what);
  };
  with({}, "no O");
  with({{.field = "O", .value = "prod"}, {.field = "O", .value = "dev"}}, "two O");
  with({{.field = "O", .value = "prod"},
        {.field = "O", .value = "dev", .set = ForgedPart::Set::kShared}},
       "two O in one set");
  with({{.field = "O", .value = std::string("prod\0dev", 8)}}, "NUL");
  with({{.field = "O", .value = std::string("\0p\0r\0o\0d", 8), .string_type = kBmpString}},
       "BMPString");
  with({{.field = "O", .value = "prod", .string_type = kT61String}}, "T61String");
}

TEST_F(TlsAbuseTest, BI45_ARoleThatIsNotOneKnownWordIsUnauthenticated) {
  const auto with = [&](std::vector<ForgedRole> roles, const std::string& what) {
    ForgeSpec spec = GoodAgent();
    spec.roles = std::move(roles);
    ExpectAnswer(Forged(spec), kUnauthenticated, what);
  };
  with({}, "missing");
  with({{.value = RoleValue("agent")}, {.value = RoleValue("agent")}}, "twice");
  with({{.value = RoleValue("agent")}, {.value = RoleValue("operator")}}, "two");
  with({{.value = RoleValue("root")}}, "unknown");
  with({{.value = Bytes{'a', 'g', 'e', 'n', 't'}}}, "no DER");
}

TEST_F(TlsAbuseTest, BI46_ALeafSignsNothing) {
  const ForgeKey child;
  const Bytes leaf = Forged(GoodAgent()).chain[0];
  RawIdentity identity;
  identity.chain = {Forge(GoodAgent(), child, {.certificate = &leaf, .key = key_}), leaf};
  identity.key = child;
  ExpectRefused(identity, agents_, "below a leaf");
}

TEST_F(TlsAbuseTest, BI47_TheUsageMustNameClients) {
  for (const char* usage : {"serverAuth", ""}) {
    ForgeSpec spec = GoodAgent();
    spec.extended_key_usage = usage;
    ExpectRefused(Forged(spec), agents_, usage);
  }
}

TEST_F(TlsAbuseTest, BI48_ADeniedSerialOrIdentityLosesItsStreams) {
  for (const bool by_serial : {true, false}) {
    for (const auto& handler : handlers_) handler->call.reset();  // Its events hold the handler.
    handlers_.clear();
    Attack([&] {
      RawTlsClient client(agents_, {.identity = Forged(GoodAgent())});
      ASSERT_TRUE(client.open());
      client.Write(test::ClientOpening());
      client.Request(1, test::kEcho);
      client.Message(1, "hello", 0);
      ASSERT_TRUE(client.ReadUntil([&] {
        return std::ranges::any_of(client.frames(), [](const test::RawFrame& frame) {
          return frame.type == FrameType::kData && !frame.payload.empty();
        });
      }));
      loop_.Post([&] {
        const RpcConnectionsOf serial = RpcSerial{.decimal = "4660"};  // 0x1234
        const RpcConnectionsOf identity =
            RpcIdentity{.role = crypto::Role::kAgent, .id = std::string(crypto::test::kInstance)};
        server_->CloseConnections(by_serial ? serial : identity, Unauthenticated("denied"));
      });
      EXPECT_EQ(client.StatusOf(1), kUnauthenticated);
      EXPECT_TRUE(client.ReadToEnd());
      EXPECT_EQ(client.goaway_text(), "denied");
    });
    ASSERT_TRUE(Until([&] { return handlers_.at(0)->cancelled.has_value(); }));
    EXPECT_EQ(handlers_[0]->cancelled->code, Code::kUnauthenticated);
  }
}

TEST_F(TlsAbuseTest, BI49_LongChainsAreRefusedWithoutBeingHeld) {
  RawIdentity hundred = Forged(GoodAgent());
  ForgeSpec ca;
  ca.subject = {{.field = "CN", .value = "intermediate"}};
  ca.not_before = test::Materials().now - Duration::Hours(1);
  ca.not_after = test::Materials().now + Duration::Hours(100);
  ca.basic_constraints = "critical,CA:TRUE";
  ca.key_usage = "critical,keyCertSign";
  ca.extended_key_usage = "";
  const Bytes middle = Forge(ca, key_, {.certificate = &root_, .key = root_key_});
  hundred.chain.resize(100, middle);
  ExpectRefused(hundred, agents_, "chain of 100");
  RawIdentity huge = Forged(GoodAgent());
  huge.chain.resize((std::size_t{1} << 20U) / middle.size() + 1, middle);
  ExpectRefused(huge, agents_, "1 MiB of certificates");
  EXPECT_LT(peak_, std::size_t{16} << 20U) << "most of it is the attacker's own";
}

TEST_F(TlsAbuseTest, BI50_ThereAreNoTicketsAndNoEarlyData) {
  const RpcAddress operators = Open(RpcPort::kOperator);
  Attack([&] {
    RawTlsClient first(agents_, {.identity = IdentityOf(Who::kAgent)});
    ASSERT_TRUE(first.open());
    first.Write(test::ClientOpening());
    ASSERT_TRUE(first.ReadUntil([&] { return !first.frames().empty(); }));
    SSL_SESSION* session = SSL_get1_session(first.native_handle());
    EXPECT_EQ(SSL_SESSION_is_resumable(session), 0) << "no ticket was given";
    EXPECT_EQ(SSL_SESSION_get_max_early_data(session), 0U);
    for (const RpcAddress& address : {agents_, operators}) {
      RawTlsClient second(address, {.identity = IdentityOf(Who::kAgent), .resume = session});
      EXPECT_TRUE(second.open());
      EXPECT_EQ(SSL_session_reused(second.native_handle()), 0);
      EXPECT_EQ(SSL_get_early_data_status(second.native_handle()), SSL_EARLY_DATA_NOT_SENT);
    }
    SSL_SESSION_free(session);
  });
}

}  // namespace
}  // namespace nstance::grpc

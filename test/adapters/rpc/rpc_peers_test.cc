// Other people's programs against our server: openssl s_client for TLS, curl for plain HTTP/2
// requests, h2spec for conformance.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/adapters/rpc/rpc_fixture.h"
#include "test/support/process.h"
#include "test/support/run_beside.h"
#include "test/support/store_peers.h"
#include "test/support/temp_dir.h"

namespace nstance::grpc {
namespace {

using nstance::test::ProcessOutput;
using testing::HasSubstr;
using testing::Not;

class RpcPeersTest : public test::RpcFixture {
 public:
  ProcessOutput Run(const std::vector<std::string>& argv) {
    const Result<ProcessOutput> ran = nstance::test::RunBeside(
        loop_, {.argv = argv, .input = "Q\n", .deadline = Duration::Seconds(300)});
    if (ran.has_value()) return *ran;
    ProcessOutput output;
    output.exit_code = -1;
    output.err = ran.error().ToString();
    return output;
  }
  std::string Target() { return "127.0.0.1:" + std::to_string(address_.port); }

  RpcAddress address_ = Open(RpcPort::kRegistration);
};

TEST_F(RpcPeersTest, SClientGetsTls13WithH2AndNothingOlder) {
  const ProcessOutput good =
      Run({"openssl", "s_client", "-connect", Target(), "-alpn", "h2", "-tls1_3"});
  EXPECT_THAT(good.out, HasSubstr("ALPN protocol: h2"));
  EXPECT_THAT(good.out, HasSubstr("TLSv1.3"));
  EXPECT_THAT(good.out, HasSubstr("Peer signature type: ed25519"));
  EXPECT_THAT(good.out, Not(HasSubstr("New Session Ticket"))) << "no tickets";
  const ProcessOutput old =
      Run({"openssl", "s_client", "-connect", Target(), "-alpn", "h2", "-tls1_2"});
  EXPECT_THAT(old.err + old.out, HasSubstr("alert protocol version"));
  const ProcessOutput other =
      Run({"openssl", "s_client", "-connect", Target(), "-alpn", "http/1.1"});
  EXPECT_THAT(other.err + other.out, HasSubstr("no application protocol"));
}

// OpenSSL lets a client through that offers no protocol at all; the server looks again after the
// handshake and hangs up.
TEST_F(RpcPeersTest, SClientWithoutAlpnIsRefused) {
  const ProcessOutput none =
      Run({"openssl", "s_client", "-connect", Target(), "-tls1_3", "-ign_eof"});
  EXPECT_THAT(none.out, HasSubstr("No ALPN negotiated"));
  EXPECT_NE(none.exit_code, 0);
  EXPECT_THAT(none.err, HasSubstr("unexpected eof while reading")) << none.ToString();
}

TEST_F(RpcPeersTest, SClientIsAskedForACertificateOnTheOtherPorts) {
  for (const RpcPort port : {RpcPort::kAgent, RpcPort::kOperator}) {
    const RpcAddress address = Open(port);
    const ProcessOutput none =
        Run({"openssl", "s_client", "-connect", "127.0.0.1:" + std::to_string(address.port),
             "-alpn", "h2", "-tls1_3", "-ign_eof"});
    EXPECT_THAT(none.err + none.out, HasSubstr("certificate required")) << RpcPortName(port);
    EXPECT_THAT(none.out, HasSubstr("Requested Signature Algorithms: ed25519"))
        << "what we would verify, and nothing else";
  }
}

TEST_F(RpcPeersTest, CurlGetsAnAnswerInHttp2) {
  const std::string url = "https://" + Target() + "/";
  const ProcessOutput get =
      Run({"curl", "-sk", "--http2", "-w", " %{http_code} %{http_version}", url});
  EXPECT_EQ(get.out, "gRPC calls are POST requests\n 405 2") << get.ToString();
  const ProcessOutput post = Run({"curl", "-sk", "--http2", "-d", "x", "-w",
                                  " %{http_code} %{http_version} %{content_type}", url});
  EXPECT_EQ(post.out, "the content type of gRPC is application/grpc\n 415 2 text/plain");
  const ProcessOutput json = Run({"curl", "-sk", "--http2", "-H", "content-type: application/json",
                                  "-d", "{}", "-o", "/dev/null", "-w", "%{http_code}", url});
  EXPECT_EQ(json.out, "415");
}

// The server has answered before curl has sent its body, or while it does: a race that must not be
// seen.
TEST_F(RpcPeersTest, CurlGetsTheAnswerWhateverTheSizeOfItsRequest) {
  const nstance::test::TempDir folder;
  for (const std::size_t size : {1U, 2U, 3U, 100U, 10'000U, 60'000U, 1'000'000U}) {
    const std::string body = folder.Write("body", std::string(size, 'x'));
    const ProcessOutput post =
        Run({"curl", "-sk", "--http2", "--max-time", "60", "--data-binary", "@" + body, "-w",
             " %{http_code}", "https://" + Target() + "/"});
    EXPECT_EQ(post.out, "the content type of gRPC is application/grpc\n 415")
        << size << " " << post.ToString();
  }
}

TEST_F(RpcPeersTest, CurlIsRefusedWithOlderVersionsOfTlsAndHttp) {
  const std::string url = "https://" + Target() + "/";
  const ProcessOutput tls = Run({"curl", "-skS", "--http2", "--tls-max", "1.2", url});
  EXPECT_EQ(tls.exit_code, 35) << tls.ToString();
  const ProcessOutput http = Run({"curl", "-skS", "--http1.1", url});
  EXPECT_EQ(http.exit_code, 35) << http.ToString();
}

// gRPC by hand, for a method that is not there.
TEST_F(RpcPeersTest, CurlSeesAStatusInTheHeaders) {
  const ProcessOutput call =
      Run({"curl", "-sk", "--http2", "-D", "-", "-H", "content-type: application/grpc",
           "--data-binary", "", "https://" + Target() + "/t.Agent/Missing"});
  EXPECT_THAT(call.out, HasSubstr("HTTP/2 200"));
  EXPECT_THAT(call.out, HasSubstr("grpc-status: 12"));
}

TEST_F(RpcPeersTest, H2specFindsNothing) {
  const Result<std::string> h2spec = nstance::test::FindPeer("h2spec");
  if (!h2spec.has_value()) GTEST_SKIP() << h2spec.error().message;
  const ProcessOutput output =
      Run({*h2spec, "-t", "-k", "-h", "127.0.0.1", "-p", std::to_string(address_.port), "-o", "4"});
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
  // All sections, without an exception.
  EXPECT_THAT(output.out, HasSubstr("145 tests, 145 passed, 0 skipped, 0 failed"));
}

}  // namespace
}  // namespace nstance::grpc

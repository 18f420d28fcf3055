// Other people's programs against our server: openssl s_client for TLS, curl for plain HTTP/2
// requests, h2spec for conformance.
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/adapters/rpc/rpc_fixture.h"
#include "test/support/process.h"
#include "test/support/store_peers.h"
#include "test/support/temp_dir.h"

namespace nstance::grpc {
namespace {

using nstance::test::ProcessOutput;
using nstance::test::ProcessRequest;
using testing::HasSubstr;
using testing::Not;

class RpcPeersTest : public test::RpcFixture {
 public:
  ProcessOutput Run(const std::vector<std::string>& argv) {
    std::atomic<bool> done = false;
    ProcessOutput output;
    std::thread runner([&] {
      const Result<ProcessOutput> ran = nstance::test::RunProcess(
          {.argv = argv, .input = "Q\n", .deadline = Duration::Seconds(300)});
      if (ran.has_value()) {
        output = *ran;
      } else {
        output.exit_code = -1;
        output.err = ran.error().ToString();
      }
      done = true;
    });
    EXPECT_TRUE(
        nstance::test::RunUntil(loop_, [&] { return done.load(); }, Duration::Seconds(320)));
    runner.join();
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

TEST_F(RpcPeersTest, CurlGetsAnAnswerInHttp2) {
  const std::string url = "https://" + Target() + "/";
  const ProcessOutput get =
      Run({"curl", "-sk", "--http2", "-w", " %{http_code} %{http_version}", url});
  EXPECT_EQ(get.out, "gRPC calls are POST requests\n 405 2") << get.ToString();
  const ProcessOutput post =
      Run({"curl", "-sk", "--http2", "-d", "x", "-o", "/dev/null", "-w", "%{http_code}", url});
  EXPECT_EQ(post.out, "415");
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

// Tokens over real sockets, from servers that behave as the vendor's documents say.
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "adapters/gcp_credentials/gcp_credentials.h"
#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "test/adapters/gcp_credentials/service_account_file.h"
#include "test/support/loop_runner.h"
#include "test/support/raw_http_server.h"
#include "test/support/temp_dir.h"

namespace nstance::gcp {
namespace {

using test::Answer;
using test::RawConnection;
using test::RawHttpServer;

// The token, or the error's message.
std::string Fetch(const GcpSettings& settings) {
  RealLoop loop;
  CurlHttpClient http({.io = loop, .home = loop});
  GcpCredentials credentials(
      {.loop = loop, .http = http, .environment = cloud::Environment::OfProcess()}, settings);
  std::optional<std::string> answer;
  const Pending pending = credentials.Get([&](const auto& token) {
    answer = token ? std::string(AsText((*token)->bearer.Reveal())) : token.error().message;
  });
  (void)test::RunUntil(loop, [&] { return answer.has_value(); });
  return answer.value_or("no answer");
}

TEST(GcpEndpointsTest, TheMetadataServerAnswersOnlyThoseWhoKnowItsHeader) {
  RawHttpServer server([](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      const bool right = request->Value("metadata-flavor") == "Google" &&
                         request->Target().starts_with(
                             "/computeMetadata/v1/instance/service-accounts/default/token");
      connection.Write(right ? Answer(200, R"({"access_token":"t","expires_in":3600})",
                                      "Metadata-Flavor: Google\r\n")
                             : Answer(403, ""));
    }
  });
  EXPECT_EQ(Fetch({.metadata_host = "127.0.0.1:" + std::to_string(server.port())}), "t");
}

TEST(GcpEndpointsTest, AKeyFileIsExchanged) {
  const TestAccount account;
  const test::TempDir folder;
  RawHttpServer server([&](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      const std::size_t at = request->body.find("&assertion=");
      const bool right = request->Target() == "/token" && at != std::string::npos &&
                         !account.Verified(request->body.substr(at + 11)).is_null();
      connection.Write(right ? Answer(200, R"({"access_token":"exchanged","expires_in":3600})")
                             : Answer(400, R"({"error":"invalid_grant"})"));
    }
  });
  EXPECT_EQ(Fetch({.key_file = folder.Write("key.json", account.File(server.Url("/token")))}),
            "exchanged");
}

}  // namespace
}  // namespace nstance::gcp

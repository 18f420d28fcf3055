// Keys over real sockets, from servers that behave as the vendor's documents say: instance metadata
// (version 2: without a token it answers 401), a container's endpoint, STS.
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "adapters/aws_credentials/aws_credentials.h"
#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "base/text.h"
#include "test/support/loop_runner.h"
#include "test/support/raw_http_server.h"
#include "test/support/temp_dir.h"

namespace nstance::aws {
namespace {

using test::Answer;
using test::RawConnection;
using test::RawHttpServer;
using test::RawRequest;

constexpr std::string_view kKeys =
    R"({"Code":"Success","AccessKeyId":"AKIA","SecretAccessKey":"the/secret","Token":"session",)"
    R"("Expiration":"2099-01-01T00:00:00Z"})";

// Answers every request of every connection by a function.
RawHttpServer::Script Serve(std::function<std::string(const RawRequest&)> answer) {
  return [answer = std::move(answer)](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      if (!connection.Write(answer(*request))) return;
    }
  };
}

class AwsEndpointsTest : public testing::Test {
 public:
  Result<std::shared_ptr<const AwsKeys>> Fetch(std::map<std::string, std::string> variables) {
    cloud::Environment environment = cloud::Environment::OfProcess();
    environment.variable =
        [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    AwsCredentials credentials({.loop = loop, .http = http, .environment = environment});
    std::optional<Result<std::shared_ptr<const AwsKeys>>> answer;
    const Pending pending = credentials.Get([&](auto keys) { answer = std::move(keys); });
    if (!test::RunUntil(loop, [&] { return answer.has_value(); }))
      return Fail(Internal("no answer"));
    source = credentials.source();
    return *std::move(answer);
  }

  RealLoop loop;
  CurlHttpClient http{{.io = loop, .home = loop}};
  std::optional<AwsSource> source;
};

TEST_F(AwsEndpointsTest, InstanceMetadataVersion2) {
  RawHttpServer server(Serve([](const RawRequest& request) {
    if (request.Method() == "PUT" && request.Target() == "/latest/api/token") {
      return request.Value("x-aws-ec2-metadata-token-ttl-seconds").empty() ? Answer(400, "")
                                                                           : Answer(200, "TOKEN==");
    }
    if (request.Value("x-aws-ec2-metadata-token") != "TOKEN==") return Answer(401, "");
    if (request.Target() == "/latest/meta-data/iam/security-credentials/") {
      return Answer(200, "web-role");
    }
    if (request.Target() == "/latest/meta-data/iam/security-credentials/web-role") {
      return Answer(200, kKeys);
    }
    return Answer(404, "");
  }));
  const auto keys = Fetch({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.Url("/")}});
  ASSERT_TRUE(keys) << keys.error().ToString();
  EXPECT_EQ((*keys)->access_key, "AKIA");
  EXPECT_EQ(AsText((*keys)->secret_key.Reveal()), "the/secret");
  EXPECT_EQ(source, AwsSource::kMetadata);
}

TEST_F(AwsEndpointsTest, AMachineWithoutARoleHasNoKeys) {
  RawHttpServer server(Serve([](const RawRequest& request) {
    return request.Method() == "PUT" ? Answer(200, "TOKEN") : Answer(404, "");
  }));
  const auto keys = Fetch({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.Url("")}});
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(keys.error().message.contains("the request for a role was answered 404"))
      << keys.error().message;
}

TEST_F(AwsEndpointsTest, AContainersEndpointWithATokenFile) {
  const test::TempDir folder;
  RawHttpServer server(Serve([](const RawRequest& request) {
    if (request.Target() != "/v1/credentials?x=1") return Answer(404, "");
    return request.Value("authorization") == "file-token" ? Answer(200, kKeys) : Answer(401, "");
  }));
  const auto keys =
      Fetch({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.Url("/v1/credentials?x=1")},
             {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", folder.Write("token", "file-token\n")}});
  ASSERT_TRUE(keys) << keys.error().ToString();
  EXPECT_EQ(source, AwsSource::kContainer);
}

TEST_F(AwsEndpointsTest, AContainersEndpointDoesNotSendItsTokenElsewhere) {
  RawHttpServer other(test::AnswerAll(Answer(200, kKeys)));
  RawHttpServer server(Serve([&](const RawRequest&) {
    return Answer(307, "", "Location: " + other.Url("/stolen") + "\r\n");
  }));
  const auto keys = Fetch({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.Url("/v1")},
                           {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "CANARY"}});
  ASSERT_FALSE(keys);
  EXPECT_EQ(other.accepted(), 0);
  EXPECT_FALSE(keys.error().message.contains("CANARY"));
}

TEST_F(AwsEndpointsTest, AWebIdentityTokenIsExchangedAtSts) {
  const test::TempDir folder;
  RawHttpServer server(Serve([](const RawRequest& request) {
    const bool right = request.Method() == "POST" && request.Target() == "/" &&
                       request.body.contains("Action=AssumeRoleWithWebIdentity") &&
                       request.body.contains("WebIdentityToken=eyJ.jwt") &&
                       request.Value("authorization").empty();
    if (!right) return Answer(400, "");
    return Answer(200,
                  "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>"
                  "<Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                  "<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"
                  "</Credentials></AssumeRoleWithWebIdentityResult>"
                  "</AssumeRoleWithWebIdentityResponse>");
  }));
  const auto keys = Fetch({{"AWS_WEB_IDENTITY_TOKEN_FILE", folder.Write("jwt", "eyJ.jwt")},
                           {"AWS_ROLE_ARN", "arn:aws:iam::1:role/r"},
                           {"AWS_ENDPOINT_URL_STS", server.Url("")}});
  ASSERT_TRUE(keys) << keys.error().ToString();
  EXPECT_EQ((*keys)->access_key, "ASIA");
  EXPECT_EQ(source, AwsSource::kWebIdentity);
}

}  // namespace
}  // namespace nstance::aws

// The search for keys: the machine row by row, then the cache around it in simulated time.
#include "adapters/aws_credentials/aws_credential_fetch.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/aws_credentials/aws_authorizer.h"
#include "adapters/aws_credentials/aws_credentials.h"
#include "base/text.h"
#include "sim/sim_loop.h"
#include "test/support/scripted_http.h"

namespace nstance::aws {
namespace {

using Fetch = AwsCredentialFetch;
using test::HeaderOf;
using test::Reply;
using test::ScriptedHttp;

constexpr std::string_view kKeys =
    R"({"AccessKeyId":"AKIA","SecretAccessKey":"CANARY-secret","Token":"CANARY-token",)"
    R"("Expiration":"2030-01-01T00:00:00Z"})";

cloud::Environment With(std::map<std::string, std::string> variables,
                        std::map<std::string, std::string> files = {}) {
  return {.variable = [variables = std::move(variables)](
                          const std::string& name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            return found == variables.end() ? std::nullopt : std::optional(found->second);
          },
          .read_file = [files = std::move(files)](const std::string& path) -> Result<std::string> {
            const auto found = files.find(path);
            if (found == files.end()) return Fail(NotFound(path + " does not exist"));
            return found->second;
          }};
}

Fetch Started(std::map<std::string, std::string> variables, Fetch::Command& command,
              Fetch::FallBack fall_back = Fetch::FallBack::kAllowed) {
  Fetch fetch(ReadAwsSettings(With(std::move(variables))), fall_back);
  command = fetch.Start();
  return fetch;
}

const HttpRequest& Sent(const Fetch::Command& command) {
  const auto* send = std::get_if<Fetch::Send>(&command);
  EXPECT_NE(send, nullptr);
  static const HttpRequest none;
  return send == nullptr ? none : send->request;
}

std::string Read(const Fetch::Command& command) {
  const auto* read = std::get_if<Fetch::ReadFile>(&command);
  return read == nullptr ? "nothing" : read->path;
}

// The source of the keys, or the error in words.
std::string Finished(const Fetch::Command& command) {
  const auto* finish = std::get_if<Fetch::Finish>(&command);
  if (finish == nullptr) return "not finished";
  if (!finish->result) {
    EXPECT_FALSE(finish->result.error().message.contains("CANARY"))
        << finish->result.error().message;
    EXPECT_EQ(finish->result.error().outcome, Outcome::kNotDone);
    return finish->result.error().message;
  }
  return std::string(AwsSourceName(finish->result->source));
}

TEST(AwsCredentialFetchTest, KeysInTheEnvironmentComeFirst) {
  Fetch::Command command = Fetch::ReadFile{};
  (void)Started({{"AWS_ACCESS_KEY_ID", "AKIA"},
                 {"AWS_SECRET_ACCESS_KEY", "s"},
                 {"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"},
                 {"AWS_ROLE_ARN", "arn"}},
                command);
  EXPECT_EQ(Finished(command), "environment");
}

TEST(AwsCredentialFetchTest, AWebIdentityIsExchanged) {
  Fetch::Command command = Fetch::ReadFile{};
  Fetch fetch = Started({{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"},
                         {"AWS_ROLE_ARN", "arn:aws:iam::1:role/r"},
                         {"AWS_ROLE_SESSION_NAME", "s p"},
                         {"AWS_REGION", "eu-west-1"},
                         {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2"}},
                        command);
  EXPECT_EQ(Read(command), "/token");
  command = fetch.On(Fetch::File{"CANARY.jwt+/=\n"});
  EXPECT_EQ(Sent(command).method, HttpMethod::kPost);
  EXPECT_EQ(Sent(command).url, "https://sts.eu-west-1.amazonaws.com/");
  EXPECT_EQ(Sent(command).body,
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1"
            "%3Arole%2Fr&RoleSessionName=s%20p&WebIdentityToken=CANARY.jwt%2B%2F%3D");
  EXPECT_EQ(Sent(command).max_redirects, 0);
  command = fetch.On(Fetch::Answer{Reply(
      400, "<ErrorResponse><Error><Code>ExpiredTokenException</Code></Error></ErrorResponse>")});
  EXPECT_EQ(Finished(command),
            "AWS credentials: web identity: STS answered 400 \"ExpiredTokenException\"");
}

TEST(AwsCredentialFetchTest, StsIsAskedWhereTheSettingsSay) {
  const std::map<std::string, std::string> identity = {{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"},
                                                       {"AWS_ROLE_ARN", "arn"}};
  const std::map<std::string, std::pair<std::string, std::string>> rows = {
      {"https://sts.amazonaws.com/", {"", ""}},
      {"https://sts.cn-north-1.amazonaws.com.cn/", {"AWS_REGION", "cn-north-1"}},
      {"http://127.0.0.1:99/", {"AWS_ENDPOINT_URL_STS", "http://127.0.0.1:99"}}};
  for (const auto& [url, setting] : rows) {
    auto variables = identity;
    if (!setting.first.empty()) variables[setting.first] = setting.second;
    Fetch::Command command = Fetch::ReadFile{};
    Fetch fetch = Started(variables, command);
    command = fetch.On(Fetch::File{"jwt"});
    EXPECT_EQ(Sent(command).url, url);
  }
  auto variables = identity;
  variables["AWS_ENDPOINT_URL_STS"] = "http://sts.example";
  Fetch::Command command = Fetch::ReadFile{};
  Fetch fetch = Started(variables, command);
  EXPECT_TRUE(Finished(fetch.On(Fetch::File{"CANARY"})).contains("plain HTTP"));
}

TEST(AwsCredentialFetchTest, WhatIsSetAndFailsIsAnErrorAndNoReasonToBeSomebodyElse) {
  Fetch::Command command = Fetch::ReadFile{};
  Fetch identity =
      Started({{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"}, {"AWS_ROLE_ARN", "arn"}}, command);
  EXPECT_TRUE(Finished(identity.On(Fetch::File{Fail(NotFound("/token does not exist"))}))
                  .contains("web identity token: /token"));
  Fetch empty =
      Started({{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"}, {"AWS_ROLE_ARN", "arn"}}, command);
  EXPECT_TRUE(Finished(empty.On(Fetch::File{"\n"})).contains("holds no token"));
  Fetch container = Started({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2"}}, command);
  EXPECT_TRUE(
      Finished(container.On(Fetch::Answer{Fail(Unavailable("refused"))})).contains("refused"));
  Fetch refused = Started({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2"}}, command);
  EXPECT_TRUE(Finished(refused.On(Fetch::Answer{Reply(500, "CANARY")})).contains("answered 500"));
}

TEST(AwsCredentialFetchTest, AContainerIsAskedWithItsToken) {
  Fetch::Command command = Fetch::ReadFile{};
  Fetch relative = Started({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/keys?id=1"}}, command);
  EXPECT_EQ(Sent(command).url, "http://169.254.170.2/v2/keys?id=1");
  EXPECT_EQ(HeaderOf(Sent(command), "authorization"), std::nullopt);
  EXPECT_EQ(Finished(relative.On(Fetch::Answer{Reply(200, std::string(kKeys))})),
            "container endpoint");
  Fetch full = Started({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1"},
                        {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "not this"},
                        {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token"}},
                       command);
  EXPECT_EQ(Read(command), "/token");
  command = full.On(Fetch::File{"eks-token\n"});
  EXPECT_EQ(HeaderOf(Sent(command), "authorization"), "eks-token");
  (void)Started({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://keys.example/v1"},
                 {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "plain"}},
                command);
  EXPECT_EQ(HeaderOf(Sent(command), "authorization"), "plain");
}

TEST(AwsCredentialFetchTest, NoContainerTokenGoesToAnotherMachineInTheClear) {
  for (const std::string url :
       {"http://keys.example/v1", "http://10.0.0.1/v1", "http://169.254.170.2.example/v1",
        "ftp://127.0.0.1/", "keys", "http://user@127.0.0.1/"}) {
    Fetch::Command command = Fetch::ReadFile{};
    (void)Started({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url},
                   {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "CANARY"}},
                  command);
    EXPECT_TRUE(Finished(command).contains("endpoint")) << url << ": " << Finished(command);
  }
  Fetch::Command command = Fetch::ReadFile{};
  (void)Started({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", ".example/v1"}}, command);
  EXPECT_TRUE(Finished(command).contains("endpoint")) << Finished(command);
}

TEST(AwsCredentialFetchTest, MetadataIsAskedWithATokenOfItsOwn) {
  Fetch::Command command = Fetch::ReadFile{};
  Fetch fetch = Started({}, command);
  EXPECT_EQ(Sent(command).method, HttpMethod::kPut);
  EXPECT_EQ(Sent(command).url, "http://169.254.169.254/latest/api/token");
  EXPECT_EQ(HeaderOf(Sent(command), "x-aws-ec2-metadata-token-ttl-seconds"), "21600");
  EXPECT_LE(Sent(command).deadline, Duration::Seconds(1));
  command = fetch.On(Fetch::Answer{Reply(200, "imds-token")});
  EXPECT_EQ(Sent(command).url, "http://169.254.169.254/latest/meta-data/iam/security-credentials/");
  EXPECT_EQ(HeaderOf(Sent(command), "x-aws-ec2-metadata-token"), "imds-token");
  command = fetch.On(Fetch::Answer{Reply(200, "my+role@x\n")});
  EXPECT_EQ(Sent(command).url,
            "http://169.254.169.254/latest/meta-data/iam/security-credentials/my%2Brole%40x");
  EXPECT_EQ(HeaderOf(Sent(command), "x-aws-ec2-metadata-token"), "imds-token");
  EXPECT_EQ(Finished(fetch.On(Fetch::Answer{Reply(200, std::string(kKeys))})), "instance metadata");
}

TEST(AwsCredentialFetchTest, WithoutATokenMetadataIsNotAskedUnlessSomebodyDecidedSo) {
  AwsSettings settings = ReadAwsSettings(With({{"HOME", "/home/a"}}));
  Fetch strict(settings, Fetch::FallBack::kAllowed);
  (void)strict.Start();
  EXPECT_EQ(Read(strict.On(Fetch::Answer{Reply(403, "")})), "/home/a/.aws/credentials");
  settings.metadata_v1_allowed = true;
  Fetch loose(settings, Fetch::FallBack::kAllowed);
  (void)loose.Start();
  const auto command = loose.On(Fetch::Answer{Reply(403, "")});
  EXPECT_TRUE(Sent(command).url.ends_with("/security-credentials/"));
  EXPECT_EQ(HeaderOf(Sent(command), "x-aws-ec2-metadata-token"), std::nullopt);
}

TEST(AwsCredentialFetchTest, ARoleNameThatLeadsElsewhereIsNotFollowed) {
  const std::vector<std::string> roles = {
      "", "..", ".", "a/../../b", "a b", "a?b", std::string(65, 'a')};
  for (const std::string& role : roles) {
    Fetch::Command command = Fetch::ReadFile{};
    Fetch fetch = Started({{"HOME", "/h"}}, command);
    (void)fetch.On(Fetch::Answer{Reply(200, "imds-token")});
    EXPECT_EQ(Read(fetch.On(Fetch::Answer{Reply(200, role)})), "/h/.aws/credentials") << role;
  }
}

TEST(AwsCredentialFetchTest, WhereNobodyAnswersTheSharedFileIsRead) {
  Fetch::Command command = Fetch::ReadFile{};
  Fetch fetch =
      Started({{"AWS_SHARED_CREDENTIALS_FILE", "/file"}, {"AWS_PROFILE", "work"}}, command);
  command = fetch.On(Fetch::Answer{Fail(DeadlineExceeded("nobody answers"))});
  EXPECT_EQ(Read(command), "/file");
  EXPECT_EQ(Finished(fetch.On(
                Fetch::File{"[work]\naws_access_key_id=A\naws_secret_access_key=CANARY\n"})),
            "shared credentials file");
  Fetch off = Started({{"AWS_EC2_METADATA_DISABLED", "true"}, {"HOME", "/h"}}, command);
  EXPECT_EQ(Read(command), "/h/.aws/credentials");
  EXPECT_EQ(
      Finished(off.On(Fetch::File{Fail(NotFound("/h/.aws/credentials does not exist"))})),
      "AWS credentials: none found: no keys, web identity or container in the environment; "
      "instance metadata: switched off; shared credentials file: /h/.aws/credentials does not "
      "exist");
  (void)Started({{"AWS_EC2_METADATA_DISABLED", "true"}}, command);
  EXPECT_TRUE(Finished(command).contains("no home folder")) << Finished(command);
}

TEST(AwsCredentialFetchTest, WhoHasHadKeysFromMetadataGetsNoOthers) {
  Fetch::Command command = Fetch::ReadFile{};
  Fetch fetch = Started({{"HOME", "/h"}}, command, Fetch::FallBack::kForbidden);
  EXPECT_TRUE(Finished(fetch.On(Fetch::Answer{Fail(DeadlineExceeded("nobody answers"))}))
                  .contains("instance metadata: nobody answers"));
}

TEST(AwsCredentialFetchDeathTest, AnEventThatNobodyExpectsIsOurOwnMistake) {
  Fetch::Command command = Fetch::ReadFile{};
  Fetch fetch = Started({}, command);
  EXPECT_DEATH((void)fetch.On(Fetch::File{"x"}), "in state");
}

// Metadata as a whole, in simulated time.
class AwsCredentialsTest : public testing::Test {
 public:
  static Result<HttpResponse> Metadata(const HttpRequest& request, const std::string& keys) {
    if (request.url.ends_with("/token")) return Reply(200, "imds-token");
    if (request.url.ends_with("/security-credentials/")) return Reply(200, "role");
    return Reply(200, keys);
  }
  std::string KeysLasting(const std::string& access_key, Duration life) {
    return R"({"Code":"Success","AccessKeyId":")" + access_key +
           R"(","SecretAccessKey":"s","Token":"t","Expiration":")" +
           FormatTimestamp(loop.WallNow() + life) + R"("})";
  }

  sim::SimScheduler scheduler{1};
  sim::SimLoop loop{scheduler, Timestamp::FromUnix(1'700'000'000)};
  ScriptedHttp http{loop};
  AwsCredentials credentials{
      {.loop = loop,
       .http = http,
       .environment = With({{"HOME", "/h"}}, {{"/h/.aws/credentials",
                                               "[default]\naws_access_key_id=FILE\n"
                                               "aws_secret_access_key=x\n"}})}};

  std::string AccessKey() {
    std::optional<std::string> answer;
    const Pending pending = credentials.Get(
        [&](const auto& keys) { answer = keys ? (*keys)->access_key : keys.error().message; });
    scheduler.RunUntilTrue([&] { return answer.has_value(); }, Duration::Minutes(1));
    return answer.value_or("no answer");
  }
};

TEST_F(AwsCredentialsTest, KeysAreKeptRefreshedAndNotChangedForThoseOfAFile) {
  http.Answer([&](const HttpRequest& request) {
    return Metadata(request, KeysLasting("FIRST", Duration::Hours(6)));
  });
  EXPECT_EQ(AccessKey(), "FIRST");
  EXPECT_EQ(credentials.source(), AwsSource::kMetadata);
  EXPECT_EQ(http.requests().size(), 3U);
  EXPECT_EQ(AccessKey(), "FIRST");
  EXPECT_EQ(http.requests().size(), 3U);
  scheduler.RunFor(Duration::Minutes(356));
  http.Answer(Fail(Unavailable("metadata is down")));
  EXPECT_EQ(AccessKey(), "FIRST");
  scheduler.RunFor(Duration::Minutes(5));
  const std::string message = AccessKey();
  EXPECT_TRUE(message.contains("metadata is down")) << message;
  http.Answer([&](const HttpRequest& request) {
    return Metadata(request, KeysLasting("SECOND", Duration::Hours(6)));
  });
  EXPECT_EQ(AccessKey(), "SECOND");
}

TEST_F(AwsCredentialsTest, TheFileServesWhereThereIsNoMetadata) {
  http.Answer(Fail(Unavailable("no route")));
  EXPECT_EQ(AccessKey(), "FILE");
  EXPECT_EQ(credentials.source(), AwsSource::kSharedFile);
}

TEST_F(AwsCredentialsTest, RequestsAreSignedWithTheKeys) {
  http.Answer([&](const HttpRequest& request) {
    return Metadata(request, KeysLasting("KEY", Duration::Hours(6)));
  });
  AwsAuthorizer authorizer(credentials, "eu-west-1", "s3");
  std::optional<HttpRequest> authorized;
  HttpRequest request;
  request.url = "https://s3.example/";
  const Pending pending = authorizer.Authorize(request, [&](Result<HttpRequest> result) {
    ASSERT_TRUE(result) << result.error().ToString();
    authorized = *std::move(result);
  });
  scheduler.RunFor(Duration::Seconds(1));
  ASSERT_TRUE(authorized && authorized->aws_signature);
  EXPECT_EQ(authorized->url, "https://s3.example/");
  EXPECT_EQ(authorized->aws_signature->access_key, "KEY");
  EXPECT_EQ(authorized->aws_signature->secret_key, "s");
  EXPECT_EQ(authorized->aws_signature->session_token, "t");
  EXPECT_EQ(authorized->aws_signature->region, "eu-west-1");
  EXPECT_EQ(authorized->aws_signature->service, "s3");
}

}  // namespace
}  // namespace nstance::aws

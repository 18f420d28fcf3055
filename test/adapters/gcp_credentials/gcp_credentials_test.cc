// Tokens: the key file and its signature, the machine row by row, the cache in simulated time.
#include "adapters/gcp_credentials/gcp_credentials.h"

#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "adapters/gcp_credentials/gcp_authorizer.h"
#include "adapters/gcp_credentials/service_account.h"
#include "sim/sim_loop.h"
#include "test/adapters/gcp_credentials/service_account_file.h"
#include "test/support/scripted_http.h"

namespace nstance::gcp {
namespace {

using Fetch = GcpCredentialFetch;
using test::HeaderOf;
using test::Reply;
using test::ScriptedHttp;

const Timestamp kNow = Timestamp::FromUnix(1'700'000'000);
constexpr std::string_view kToken =
    R"({"access_token":"CANARY-token","expires_in":3599,"token_type":"Bearer"})";
const std::vector<HttpHeader> kGoogle = {{.name = "metadata-flavor", .value = "Google"}};

const HttpRequest& Sent(const Fetch::Command& command) {
  const auto* send = std::get_if<Fetch::Send>(&command);
  EXPECT_NE(send, nullptr);
  static const HttpRequest none;
  return send == nullptr ? none : send->request;
}

// "token", or the error in words.
std::string Finished(const Fetch::Command& command) {
  const auto* finish = std::get_if<Fetch::Finish>(&command);
  if (finish == nullptr) return "not finished";
  if (finish->result) return "token";
  EXPECT_FALSE(finish->result.error().message.contains("CANARY")) << finish->result.error().message;
  EXPECT_EQ(finish->result.error().outcome, Outcome::kNotDone);
  return finish->result.error().message;
}

TEST(ServiceAccountTest, SignsAnAssertionThatItsPublicKeyVerifies) {
  const TestAccount made;
  const auto account = ParseServiceAccount(made.File("https://oauth2.googleapis.com/token"));
  ASSERT_TRUE(account) << account.error().ToString();
  const auto assertion = SignAssertion(*account, "scope-a", kNow);
  ASSERT_TRUE(assertion) << assertion.error().ToString();
  EXPECT_TRUE(assertion->starts_with(
      Base64UrlEncode(AsBytes(R"({"alg":"RS256","kid":"key-1","typ":"JWT"})"))));
  const json::Value claims = made.Verified(*assertion);
  EXPECT_EQ(json::Write(claims),
            R"({"iss":"a@project.iam.gserviceaccount.com","scope":"scope-a",)"
            R"("aud":"https://oauth2.googleapis.com/token","iat":1700000000,"exp":1700003600})");
  EXPECT_TRUE(TestAccount().Verified(*assertion).is_null()) << "another key verifies it";
}

TEST(ServiceAccountTest, RefusesOtherFilesAndKeysAndShowsNothingOfThem) {
  for (const std::string text :
       {"", "{}", "[]", R"({"type":"authorized_user","refresh_token":"CANARY"})",
        R"({"type":"service_account","client_email":"a"})",
        R"({"type":"service_account","private_key":"CANARY"})"}) {
    const auto account = ParseServiceAccount(text);
    ASSERT_FALSE(account) << text;
    EXPECT_EQ(account.error().code, Code::kFailedPrecondition);
    EXPECT_FALSE(account.error().message.contains("CANARY"));
  }
  const auto no_key = ParseServiceAccount(
      R"({"type":"service_account","client_email":"a","private_key":"CANARY"})");
  ASSERT_TRUE(no_key);
  const auto assertion = SignAssertion(*no_key, "s", kNow);
  ASSERT_FALSE(assertion);
  EXPECT_FALSE(assertion.error().message.contains("CANARY"));
  const TestAccount weak(1024);
  EXPECT_FALSE(SignAssertion(*ParseServiceAccount(weak.File("https://x/token")), "s", kNow));
}

TEST(GcpCredentialFetchTest, AKeyFileIsExchangedForAToken) {
  const TestAccount account;
  Fetch fetch({.key_file = "/key.json"});
  Fetch::Command command = fetch.Start();
  ASSERT_TRUE(std::holds_alternative<Fetch::ReadFile>(command));
  EXPECT_EQ(std::get<Fetch::ReadFile>(command).path, "/key.json");
  command = fetch.On(Fetch::File{account.File("https://oauth2.googleapis.com/token")}, kNow);
  EXPECT_EQ(Sent(command).method, HttpMethod::kPost);
  EXPECT_EQ(Sent(command).url, "https://oauth2.googleapis.com/token");
  EXPECT_EQ(Sent(command).max_redirects, 0);
  const std::string start =
      "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
  ASSERT_TRUE(Sent(command).body.starts_with(start)) << Sent(command).body;
  EXPECT_FALSE(account.Verified(Sent(command).body.substr(start.size())).is_null());
  command = fetch.On(Fetch::Answer{Reply(200, std::string(kToken))}, kNow);
  ASSERT_EQ(Finished(command), "token");
  const auto& token = std::get<Fetch::Finish>(command).result;
  EXPECT_EQ(AsText(token->bearer.Reveal()), "CANARY-token");
  EXPECT_EQ(token->expires_at, kNow + Duration::Seconds(3599));
}

TEST(GcpCredentialFetchTest, AFileThatCannotBeUsedIsAnErrorAndNoReasonToBeSomebodyElse) {
  Fetch missing({.key_file = "/key.json"});
  (void)missing.Start();
  EXPECT_EQ(Finished(missing.On(Fetch::File{Fail(NotFound("/key.json does not exist"))}, kNow)),
            "GCP credentials: /key.json does not exist");
  const TestAccount account;
  Fetch plain({.key_file = "/key.json"});
  (void)plain.Start();
  EXPECT_TRUE(Finished(plain.On(Fetch::File{account.File("http://token.example/")}, kNow))
                  .contains("plain HTTP"));
  Fetch refused({.key_file = "/key.json"});
  (void)refused.Start();
  (void)refused.On(Fetch::File{account.File("https://x.example/token")}, kNow);
  EXPECT_EQ(Finished(refused.On(Fetch::Answer{Reply(400, R"({"error":"invalid_grant",)"
                                                         R"("error_description":"CANARY"})")},
                                kNow)),
            "GCP credentials: token exchange: it answered 400 \"invalid_grant\"");
}

TEST(GcpCredentialFetchTest, TheMetadataServerIsAskedOtherwise) {
  Fetch fetch({});
  const Fetch::Command command = fetch.Start();
  EXPECT_EQ(Sent(command).url,
            "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token"
            "?scopes=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform");
  EXPECT_EQ(HeaderOf(Sent(command), "metadata-flavor"), "Google");
  EXPECT_EQ(Finished(fetch.On(Fetch::Answer{Reply(200, std::string(kToken), kGoogle)}, kNow)),
            "token");
  for (const std::string host : {"metadata.google.internal", "127.0.0.1:99"}) {
    Fetch other({.metadata_host = host});
    EXPECT_TRUE(Sent(other.Start()).url.starts_with("http://" + host + "/"));
  }
  Fetch far({.metadata_host = "metadata.example"});
  EXPECT_TRUE(Finished(far.Start()).contains("plain HTTP"));
}

TEST(GcpCredentialFetchTest, BadAnswersAreErrors) {
  struct Row {
    Result<HttpResponse> answer;
    std::string message;
  };
  const std::vector<Row> rows = {
      {Reply(200, std::string(kToken)), "not Google's"},
      {Reply(200, "", kGoogle), "malformed JSON"},
      {Reply(200, R"({"access_token":"CANARY"})", kGoogle), "missing"},
      {Reply(200, R"({"access_token":"","expires_in":1})", kGoogle), "missing"},
      {Reply(200, R"({"access_token":"CANARY\n","expires_in":1})", kGoogle), "out of range"},
      {Reply(200, R"({"access_token":"CANARY","expires_in":0})", kGoogle), "out of range"},
      {Reply(200, R"({"access_token":"CANARY","expires_in":99999999})", kGoogle), "out of range"},
      {Reply(404, "CANARY", kGoogle), "answered 404"},
      {Reply(302, "", kGoogle), "answered 302"},
      {Fail(Unavailable("no route")), "no route"}};
  for (const Row& row : rows) {
    Fetch fetch({});
    (void)fetch.Start();
    const std::string message = Finished(fetch.On(Fetch::Answer{row.answer}, kNow));
    EXPECT_TRUE(message.contains(row.message)) << message;
  }
}

TEST(GcpCredentialFetchDeathTest, AnEventThatNobodyExpectsIsOurOwnMistake) {
  Fetch fetch({});
  (void)fetch.Start();
  EXPECT_DEATH((void)fetch.On(Fetch::File{"x"}, kNow), "in state");
}

TEST(GcpCredentialsTest, ATokenIsKeptPutOnRequestsAndRefreshed) {
  sim::SimScheduler scheduler(1);
  sim::SimLoop loop(scheduler, kNow);
  ScriptedHttp http(loop);
  int fetches = 0;
  http.Answer([&](const HttpRequest&) {
    return Reply(200,
                 R"({"access_token":"token-)" + std::to_string(++fetches) +
                     R"(","expires_in":3600,"token_type":"Bearer"})",
                 kGoogle);
  });
  GcpCredentials credentials({.loop = loop, .http = http, .environment = {}}, GcpSettings{});
  GcpAuthorizer authorizer(credentials);
  const auto authorization = [&] {
    std::optional<std::string> value;
    const Pending pending = authorizer.Authorize({}, [&](Result<HttpRequest> request) {
      value = request ? HeaderOf(*request, "authorization") : request.error().message;
    });
    scheduler.RunFor(Duration::Seconds(1));
    return value.value_or("no answer");
  };
  EXPECT_EQ(authorization(), "Bearer token-1");
  EXPECT_EQ(authorization(), "Bearer token-1");
  scheduler.RunFor(Duration::Minutes(56));
  EXPECT_EQ(authorization(), "Bearer token-1") << "the old one is used while the new one comes";
  EXPECT_EQ(authorization(), "Bearer token-2");
  EXPECT_EQ(fetches, 2);
}

TEST(GcpSettingsTest, ComeFromTheEnvironment) {
  std::map<std::string, std::string> variables;
  const cloud::Environment environment{
      .variable = [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      .read_file = {}};
  EXPECT_EQ(ReadGcpSettings(environment).key_file, "");
  EXPECT_EQ(ReadGcpSettings(environment).metadata_host, "169.254.169.254");
  variables = {{"GOOGLE_APPLICATION_CREDENTIALS", "/key"}, {"GCE_METADATA_HOST", "127.0.0.1:1"}};
  EXPECT_EQ(ReadGcpSettings(environment).key_file, "/key");
  EXPECT_EQ(ReadGcpSettings(environment).metadata_host, "127.0.0.1:1");
}

}  // namespace
}  // namespace nstance::gcp

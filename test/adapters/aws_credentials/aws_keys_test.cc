// The readers of keys: documents as the vendor describes them, and what is refused. No error shows
// what was read.
#include "adapters/aws_credentials/aws_keys.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/text.h"

namespace nstance::aws {
namespace {

std::string Revealed(const crypto::Secret& secret) { return std::string(AsText(secret.Reveal())); }

constexpr std::string_view kMetadata = R"({
  "Code" : "Success",
  "LastUpdated" : "2012-04-26T16:39:16Z",
  "Type" : "AWS-HMAC",
  "AccessKeyId" : "ASIAIOSFODNN7EXAMPLE",
  "SecretAccessKey" : "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  "Token" : "token",
  "Expiration" : "2017-05-17T15:09:54Z"
})";

constexpr std::string_view kSts = R"(<AssumeRoleWithWebIdentityResponse
    xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>system:serviceaccount:a:b</SubjectFromWebIdentityToken>
    <Audience>client.5498841531868486423.1548@apps.example.com</Audience>
    <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/r/app1</Arn></AssumedRoleUser>
    <Credentials>
      <SessionToken>AQoDYXdzEE0a8ANXXXXXXXXNO1ewxE5TijQyp+IEXAMPLE</SessionToken>
      <SecretAccessKey>wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY</SecretAccessKey>
      <Expiration>2014-10-24T23:00:23Z</Expiration>
      <AccessKeyId>ASgeIAIOSFODNN7EXAMPLE</AccessKeyId>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
  <ResponseMetadata><RequestId>ad4156e9-bce1-11e2-82e6-6b6efEXAMPLE</RequestId></ResponseMetadata>
</AssumeRoleWithWebIdentityResponse>)";

constexpr std::string_view kShared = R"(# comment
[default]
aws_access_key_id = AKIADEFAULT
aws_secret_access_key=default/secret
; another comment

[ work ]
region = eu-central-1
aws_access_key_id=AKIAWORK
aws_secret_access_key =  work+secret==
aws_session_token = work-token
[empty]
)";

TEST(AwsKeysTest, ReadsTheDocumentOfMetadataAndContainers) {
  const auto keys = ParseMetadataKeys(kMetadata);
  ASSERT_TRUE(keys) << keys.error().ToString();
  EXPECT_EQ(keys->access_key, "ASIAIOSFODNN7EXAMPLE");
  EXPECT_EQ(Revealed(keys->secret_key), "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
  EXPECT_EQ(Revealed(keys->session_token), "token");
  EXPECT_EQ(keys->expires_at, ParseTimestamp("2017-05-17T15:09:54Z").value());
}

TEST(AwsKeysTest, ReadsTheAnswerOfSts) {
  const auto keys = ParseStsKeys(kSts);
  ASSERT_TRUE(keys) << keys.error().ToString();
  EXPECT_EQ(keys->access_key, "ASgeIAIOSFODNN7EXAMPLE");
  EXPECT_EQ(Revealed(keys->session_token), "AQoDYXdzEE0a8ANXXXXXXXXNO1ewxE5TijQyp+IEXAMPLE");
  EXPECT_EQ(keys->expires_at, ParseTimestamp("2014-10-24T23:00:23Z").value());
}

TEST(AwsKeysTest, ReadsProfilesOfSharedFiles) {
  const auto standard = ParseSharedCredentials(kShared, "default");
  ASSERT_TRUE(standard) << standard.error().ToString();
  EXPECT_EQ(standard->access_key, "AKIADEFAULT");
  EXPECT_EQ(Revealed(standard->secret_key), "default/secret");
  EXPECT_TRUE(standard->session_token.empty());
  EXPECT_FALSE(standard->expires_at.has_value());
  const auto work = ParseSharedCredentials(kShared, "work");
  ASSERT_TRUE(work) << work.error().ToString();
  EXPECT_EQ(Revealed(work->secret_key), "work+secret==");
  EXPECT_EQ(Revealed(work->session_token), "work-token");
  EXPECT_EQ(ParseSharedCredentials(kShared, "nobody").error().code, Code::kNotFound);
  EXPECT_EQ(ParseSharedCredentials(kShared, "empty").error().code, Code::kFailedPrecondition);
  EXPECT_EQ(ParseSharedCredentials("[default", "default").error().code, Code::kFailedPrecondition);
}

TEST(AwsKeysTest, RefusesDocumentsWithoutKeysAndShowsNothingOfThem) {
  for (const std::string_view text :
       {"", "{", "[]", "null", "{}", R"({"Code":"AssumeRoleUnauthorizedAccess"})",
        R"({"AccessKeyId":"CANARY"})", R"({"AccessKeyId":"CANARY","SecretAccessKey":""})",
        R"({"AccessKeyId":"CANARY","SecretAccessKey":"CANARY","Expiration":"tomorrow CANARY"})",
        R"({"AccessKeyId":"CANARY","SecretAccessKey":"CANARY\n"})",
        R"({"AccessKeyId":7,"SecretAccessKey":"CANARY"})"}) {
    const auto keys = ParseMetadataKeys(text);
    ASSERT_FALSE(keys) << text;
    EXPECT_EQ(keys.error().code, Code::kUnavailable);
    EXPECT_FALSE(keys.error().message.contains("CANARY")) << keys.error().message;
  }
  for (const std::string_view text :
       {"", "<a/>", "<AssumeRoleWithWebIdentityResponse/>",
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
        "<AccessKeyId>CANARY</AccessKeyId><SecretAccessKey>CANARY</SecretAccessKey></Credentials>"
        "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"}) {
    const auto keys = ParseStsKeys(text);
    ASSERT_FALSE(keys) << text;
    EXPECT_FALSE(keys.error().message.contains("CANARY")) << keys.error().message;
  }
}

TEST(AwsKeysTest, ReadsErrorCodesOfQueryApis) {
  EXPECT_EQ(ParseQueryErrorCode("<ErrorResponse><Error><Type>Sender</Type>"
                                "<Code>ExpiredTokenException</Code></Error></ErrorResponse>"),
            "ExpiredTokenException");
  EXPECT_EQ(ParseQueryErrorCode("<html>"), "");
}

}  // namespace
}  // namespace nstance::aws

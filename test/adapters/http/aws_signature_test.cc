// Signed requests, checked as a service would check them: from the bytes that arrived.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/http/prepared_request.h"
#include "test/adapters/http/http_fixture.h"
#include "test/support/aws_signature_check.h"

namespace nstance::test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

AwsSignature Signature() {
  return {.access_key = "AKIAIOSFODNN7EXAMPLE",
          .secret_key = kSecret,
          .region = "eu-north-1",
          .service = "s3"};
}

HttpRequest Signed(HttpRequest request) {
  request.aws_signature = Signature();
  return request;
}

// The checker itself, with the examples that AWS publishes for S3.
TEST(AwsSignatureCheckTest, AgreesWithPublishedExamples) {
  const std::string empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  const std::string credential =
      "Authorization: AWS4-HMAC-SHA256 "
      "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, ";
  const std::string rest =
      "Host: examplebucket.s3.amazonaws.com\r\nx-amz-content-sha256: " + empty +
      "\r\nx-amz-date: 20130524T000000Z\r\n";
  RawRequest get{.head = "GET /test.txt HTTP/1.1\r\nRange: bytes=0-9\r\n" + rest + credential +
                         "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature="
                         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41\r\n\r\n",
                 .body = {}};
  EXPECT_EQ(CheckAwsSignature(get, kSecret), "");
  RawRequest list{
      .head = "GET /?max-keys=2&prefix=J HTTP/1.1\r\n" + rest + credential +
              "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="
              "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7\r\n\r\n",
      .body = {}};
  EXPECT_EQ(CheckAwsSignature(list, kSecret), "");
  EXPECT_NE(CheckAwsSignature(list, "another"), "");
  get.head.replace(get.head.find("0-9"), 3, "0-8");
  EXPECT_NE(CheckAwsSignature(get, kSecret), "");
}

class AwsSignatureTest : public HttpClientFixture {};
INSTANTIATE_TEST_SUITE_P(Loops, AwsSignatureTest,
                         testing::Values(Arrangement::kOneLoop, Arrangement::kTwoLoops),
                         ArrangementName);

TEST_P(AwsSignatureTest, WhatArrivesIsSignedRight) {
  RawHttpServer server(AnswerAll(Answer(200, "")));
  std::vector<HttpRequest> requests = {
      Get(server.Url("/")),
      Get(server.Url("")),
      Get(server.Url("?list-type=2")),
      Get(server.Url("/bucket?prefix=a%2Fb%20c&list-type=2&delimiter=/&max-keys=1000")),
      Get(server.Url("/bucket?z&a&b=&versioning")),
      Get(server.Url("/bucket?key=b&key=a&key2=c&key-1=d&continuation-token=a%2Bb%3D%3D")),
      Get(server.Url("/bucket?a+b=c+d&utf8=%c3%a4&!*'()=!*'()")),
      Get(server.Url("/bucket/a%20b/%C3%A4%2b~-_.!$&'()*,;=:@")),
      Get(server.Url("/bucket//a/./b/../c/")),
      {.method = HttpMethod::kHead, .url = server.Url("/bucket/key")},
      {.method = HttpMethod::kDelete, .url = server.Url("/bucket/key?versionId=1")},
      Put(server.Url("/bucket/key"), "{\"a\":1}"),
      Put(server.Url("/bucket/key"), ""),
      Put(server.Url("/bucket/large"), std::string(3'000'000, 'x')),
      {.method = HttpMethod::kPut,
       .url = server.Url("/bucket/key"),
       .headers = {{"If-None-Match", "*"},
                   {"Content-Type", "application/json"},
                   {"Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="},
                   {"x-amz-meta-spaced", "a   b \t c"}},
       .body = std::string("\0\xff\r\n", 4)},
      {.method = HttpMethod::kPost,
       .url = server.Url("/bucket?delete"),
       .headers = {{"If-Match", "\"tag\""}},
       .body = "<Delete/>"},
  };
  for (HttpRequest& request : requests) {
    for (const char* token : {"", "FwoGZXIvYXdzE+session/token=="}) {
      request.aws_signature = Signature();
      request.aws_signature->session_token = token;
      SCOPED_TRACE(request.url);
      const auto answer = Fetch(request);
      ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
      const RawRequest seen = server.requests().back();
      EXPECT_EQ(CheckAwsSignature(seen, kSecret), "") << seen.head;
      EXPECT_EQ(seen.Value("x-amz-security-token"), token);
      EXPECT_EQ(seen.Value("host"), "127.0.0.1:" + std::to_string(server.port()));
      EXPECT_TRUE(seen.body == request.body);
    }
  }
}

TEST_P(AwsSignatureTest, AnotherServiceIsSignedOverItsPlainPath) {
  RawHttpServer server(AnswerAll(Answer(200, "")));
  HttpRequest request{.method = HttpMethod::kPost,
                      .url = server.Url("/"),
                      .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
                      .body = "Action=DescribeInstances&Version=2016-11-15"};
  request.aws_signature = Signature();
  request.aws_signature->service = "ec2";
  ASSERT_TRUE(Fetch(request).has_value());
  EXPECT_EQ(CheckAwsSignature(server.requests().back(), kSecret), "");
}

TEST_P(AwsSignatureTest, WhatWouldBeSignedWrongIsRefused) {
  RawHttpServer server(AnswerAll(Answer(200, "")));
  const std::string url = server.Url("/bucket/key");
  std::vector<HttpRequest> requests;
  for (const std::vector<HttpHeader>& headers : std::vector<std::vector<HttpHeader>>{
           {{"X-A", ""}},
           {{"X-A", "1"}, {"x-a", "2"}},
           {{"x-amz-copy-source", "a"}, {"x-amz-copy-source-if-match", "b"}},
           {{"x-amz-date-other", "a"}},
           {{"Authorization", "Bearer a"}},
           {{"Date", "Tue, 27 Mar 2007 19:36:42 +0000"}},
           {{"X-Amz-Date", "20130524T000000Z"}},
           {{"X-Amz-Security-Token", "a"}},
           {{"X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"}}}) {
    requests.push_back(Signed({.url = url, .headers = headers}));
  }
  for (const char* path : {"%2", "%zz", "?a=%", "?%g0"})
    requests.push_back(Signed(Get(url + path)));
  const auto with = [&](const std::function<void(AwsSignature&)>& change, const char* path = "/") {
    requests.push_back(Signed(Get(server.Url(path))));
    change(*requests.back().aws_signature);
  };
  with([](AwsSignature& s) { s.region = ""; });
  with([](AwsSignature& s) { s.region = "a:b"; });
  with([](AwsSignature& s) { s.region = std::string(65, 'a'); });
  with([](AwsSignature& s) { s.service = ""; });
  with([](AwsSignature& s) { s.service = "s 3"; });
  with([](AwsSignature& s) { s.access_key = ""; });
  with([](AwsSignature& s) { s.access_key = "a\r\nX-B: b"; });
  with([](AwsSignature& s) { s.secret_key = ""; });
  with([](AwsSignature& s) { s.secret_key = "a\n"; });
  with([](AwsSignature& s) { s.session_token = "a\r\nX-B: b"; });
  for (const char* path : {"/a%20b", "/a//b", "/a/../b", "/.a"}) {
    with([](AwsSignature& s) { s.service = "ec2"; }, path);
  }
  for (const HttpRequest& request : requests) {
    SCOPED_TRACE(request.url);
    const auto answer = Fetch(request);
    ExpectError(answer, Code::kInvalidArgument, Outcome::kNotDone);
  }
  EXPECT_EQ(server.accepted(), 0);
}

}  // namespace
}  // namespace nstance::test

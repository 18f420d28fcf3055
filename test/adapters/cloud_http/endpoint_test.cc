// Endpoints, text in URLs, dates, and the environment: tables.
#include "adapters/cloud_http/endpoint.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "adapters/cloud_http/answer_check.h"
#include "adapters/cloud_http/environment.h"
#include "adapters/cloud_http/http_date.h"
#include "test/support/temp_dir.h"

namespace nstance::cloud {
namespace {

TEST(EndpointTest, IsTakenApart) {
  const auto endpoint = Endpoint::Parse("https://s3.example:8443/base/", PlainHttp::kLoopback);
  ASSERT_TRUE(endpoint) << endpoint.error().ToString();
  EXPECT_EQ(endpoint->scheme, "https");
  EXPECT_EQ(endpoint->host, "s3.example");
  EXPECT_EQ(endpoint->authority, "s3.example:8443");
  EXPECT_EQ(endpoint->path, "/base");
  EXPECT_EQ(endpoint->Url(), "https://s3.example:8443/base");
  EXPECT_EQ(Endpoint::Parse("http://[::1]:9000", PlainHttp::kLoopback)->host, "::1");
}

TEST(EndpointTest, PlainHttpIsForThisMachineOnly) {
  for (const std::string host :
       {"127.0.0.1", "127.9.9.9:80", "localhost:9000", "[::1]", "[0:0:0:0:0:0:0:1]:1"}) {
    EXPECT_TRUE(Endpoint::Parse("http://" + host, PlainHttp::kLoopback)) << host;
  }
  for (const std::string host : {"169.254.169.254", "[fe80::1]", "[fd00:ec2::254]"}) {
    EXPECT_FALSE(Endpoint::Parse("http://" + host, PlainHttp::kLoopback)) << host;
    EXPECT_TRUE(Endpoint::Parse("http://" + host, PlainHttp::kLoopbackAndLinkLocal)) << host;
  }
  // What looks like this machine and is not surely so.
  for (const std::string host :
       {"10.0.0.1", "128.0.0.1", "0.0.0.0", "127.1", "0x7f.0.0.1", "localhost.example",
        "127.0.0.1.example", "[::]", "[::2]", "[fd00:ec3::1]", "example", "2130706433"}) {
    EXPECT_FALSE(Endpoint::Parse("http://" + host, PlainHttp::kLoopbackAndLinkLocal)) << host;
  }
}

TEST(EndpointTest, RefusesWhatIsNoEndpoint) {
  for (const std::string url :
       {"", "s3.example", "ftp://s3.example", "https:/s3.example", "https://", "https:///path",
        "https://user@s3.example", "https://s3.example?x=1", "https://s3.example#x",
        "https://s3 .example", "https://s3.example:0", "https://s3.example:65536",
        "https://s3.example:port", "https://s3.example:", "https://[::1", "https://[s3]",
        "https://s3.example\\@other", "https://s3.ex\xC3\xA4mple", "https://[::1]9"}) {
    const auto endpoint = Endpoint::Parse(url, PlainHttp::kLoopback);
    ASSERT_FALSE(endpoint) << url;
    EXPECT_EQ(endpoint.error().code, Code::kInvalidArgument);
  }
}

TEST(PercentEncodeTest, EncodesAllButUnreservedCharacters) {
  EXPECT_EQ(PercentEncode("AZaz09-._~"), "AZaz09-._~");
  EXPECT_EQ(PercentEncode("a/b c%+&=\xC3\xA4"), "a%2Fb%20c%25%2B%26%3D%C3%A4");
  EXPECT_EQ(PercentEncodePath("a b/%2F/c"), "a%20b/%252F/c");
}

TEST(HttpDateTest, ReadsTheOneForm) {
  EXPECT_EQ(ParseHttpDate("Sun, 06 Nov 1994 08:49:37 GMT"), Timestamp::FromUnix(784'111'777));
  for (const std::string text :
       {"", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 06 Nox 1994 08:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT "}) {
    EXPECT_EQ(ParseHttpDate(text), std::nullopt) << text;
  }
}

TEST(EnvironmentTest, ReadsVariablesAndFilesOfTheProcess) {
  const Environment environment = Environment::OfProcess();
  EXPECT_NE(environment.Get("PATH"), "");
  EXPECT_EQ(environment.Get("NSTANCE_NO_SUCH_VARIABLE", "otherwise"), "otherwise");
  const test::TempDir folder;
  const auto file = environment.read_file(folder.Write("token", "text\n"));
  ASSERT_TRUE(file) << file.error().ToString();
  EXPECT_EQ(*file, "text\n");
  EXPECT_EQ(environment.read_file(folder.path() / "missing").error().code, Code::kNotFound);
  EXPECT_EQ(environment.read_file(folder.path()).error().code, Code::kFailedPrecondition);
  const auto large = environment.read_file(
      folder.Write("large", std::string(Environment::kMaxFileBytes + 1, 'x')));
  EXPECT_EQ(large.error().code, Code::kResourceExhausted);
}

TEST(EnvironmentTest, ReadsBooleansInTheWaysPeopleWriteThem) {
  std::string value;
  const Environment environment{
      .variable = [&](const std::string&) { return std::optional<std::string>(value); },
      .read_file = {}};
  for (const std::string text : {"true", "True", "TRUE", "1"}) {
    value = text;
    EXPECT_TRUE(environment.IsTrue("X")) << text;
  }
  for (const std::string text : {"", "false", "0", "yes", "truey"}) {
    value = text;
    EXPECT_FALSE(environment.IsTrue("X")) << text;
  }
}

TEST(AnswerCheckTest, DigestsAndContentTypes) {
  EXPECT_EQ(Md5Base64(""), "1B2M2Y8AsgTpgAmY7PhCfg==");
  EXPECT_EQ(Md5Base64("hello"), "XUFAKrxLKna5cZ2REBfFkg==");
  EXPECT_EQ(ContentTypeOf("config/a.jsonc"), "application/json");
  EXPECT_EQ(ContentTypeOf("journal/a.json"), "application/json");
  EXPECT_EQ(ContentTypeOf("ca.crt"), "application/x-pem-file");
  EXPECT_EQ(ContentTypeOf("operator-nonce/a.pem"), "application/x-pem-file");
  EXPECT_EQ(ContentTypeOf("secret/ca.key"), "application/octet-stream");
}

}  // namespace
}  // namespace nstance::cloud

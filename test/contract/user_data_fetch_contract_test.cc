// User data from a real server with the real HTTP client (security.md BI-101): other schemes,
// link-local targets, redirects, endless and slow bodies, wrong digests.
#include <optional>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "base/text.h"
#include "core/instance_config/user_data.h"
#include "crypto/digest.h"
#include "server/user_data_fetch.h"
#include "test/support/loop_runner.h"
#include "test/support/raw_http_server.h"
#include "test/support/test_certificates.h"

namespace nstance::test {
namespace {

using config::UserData;

std::string DigestOf(std::string_view text) { return crypto::Sha256Hex(AsBytes(text)); }

class UserDataFetchContractTest : public testing::Test {
 public:
  // https with a certificate that the client trusts.
  RawHttpServer::Options Tls() const {
    const TestCertificate certificate = authority.Issue("server", {"IP:127.0.0.1"});
    return {.tls = RawHttpServer::TlsOptions{.certificate = certificate.certificate,
                                             .key = certificate.key}};
  }

  Result<std::string> Fetch(std::string url, std::string sha256 = "") {
    std::optional<Result<std::string>> answer;
    UserDataFetch fetch({.loop = loop, .http = client, .cache = cache},
                        {.source = "url", .content = std::move(url), .sha256 = std::move(sha256)},
                        [&](Result<std::string> body) { answer = std::move(body); });
    fetch.Start();
    if (!RunUntil(loop, [&] { return answer.has_value(); })) return Fail(Internal("no answer"));
    return *std::move(answer);
  }

  TestAuthority authority;
  RealLoop loop;
  CurlHttpClient client{{.io = loop,
                         .home = loop,
                         .options = {.ca_bundle = authority.certificate(),
                                     .fixed_addresses = {"metadata.example:80:169.254.169.254"}}}};
  UserDataCache cache;
};

void Refused(const Result<std::string>& body, Code code) {
  ASSERT_FALSE(body) << *body;
  EXPECT_EQ(CodeName(body.error().code), CodeName(code)) << body.error().ToString();
}

TEST_F(UserDataFetchContractTest, HttpsIsFetchedAndThenOnlyAskedFor) {
  RawHttpServer server(
      [](RawConnection& connection) {
        while (const auto request = connection.ReadRequest()) {
          const bool known = request->Value("if-none-match") == "\"tag\"";
          connection.Write(known ? "HTTP/1.1 304 Not Modified\r\nETag: \"tag\"\r\n\r\n"
                                 : Answer(200, "#!/bin/sh\n", "ETag: \"tag\"\r\n"));
        }
      },
      Tls());
  EXPECT_EQ(Fetch(server.Url("/u")), "#!/bin/sh\n");
  EXPECT_EQ(Fetch(server.Url("/u")), "#!/bin/sh\n");
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_EQ(server.requests()[0].Value("if-none-match"), "");
  EXPECT_EQ(server.requests()[1].Value("if-none-match"), "\"tag\"");
}

TEST_F(UserDataFetchContractTest, PlainHttpNeedsTheDigest) {
  RawHttpServer server(AnswerAll(Answer(200, "body")));
  Refused(Fetch(server.Url("/u")), Code::kFailedPrecondition);
  EXPECT_EQ(server.accepted(), 0);
  EXPECT_EQ(Fetch(server.Url("/u"), DigestOf("body")), "body");
}

TEST_F(UserDataFetchContractTest, AWrongDigestIsRefused) {
  RawHttpServer server(AnswerAll(Answer(200, "evil", "ETag: \"tag\"\r\n")));
  Refused(Fetch(server.Url("/u"), DigestOf("body")), Code::kFailedPrecondition);
  EXPECT_EQ(cache.size(), 0U);
}

TEST_F(UserDataFetchContractTest, OtherSchemesAreRefused) {
  for (const char* url : {"file:///etc/passwd", "ftp://127.0.0.1/u", "gopher://127.0.0.1/u"}) {
    Refused(Fetch(url, DigestOf("x")), Code::kFailedPrecondition);
  }
}

TEST_F(UserDataFetchContractTest, LinkLocalTargetsAreRefusedHoweverTheyAreSpelled) {
  for (const char* url :
       {"http://169.254.169.254/latest/user-data", "http://2852039166/latest",
        "http://0xA9FEA9FE/latest", "http://0251.0376.0251.0376/latest", "http://[fe80::1]/x",
        "http://[::ffff:169.254.169.254]/x", "http://metadata.example/computeMetadata/v1/"}) {
    SCOPED_TRACE(url);
    Refused(Fetch(url, DigestOf("x")), Code::kFailedPrecondition);
  }
}

TEST_F(UserDataFetchContractTest, RedirectsStayOnTheHost) {
  RawHttpServer other(AnswerAll(Answer(200, "body")));
  for (const std::string& target : {std::string("http://169.254.169.254/latest/user-data"),
                                    other.Url("/u"), std::string("file:///etc/passwd")}) {
    SCOPED_TRACE(target);
    RawHttpServer server(AnswerAll(Answer(302, "", "Location: " + target + "\r\n")));
    const auto body = Fetch(server.Url("/u"), DigestOf("body"));
    ASSERT_FALSE(body);
    EXPECT_EQ(server.requests().size(), 1U);
  }
  EXPECT_EQ(other.accepted(), 0);
  RawHttpServer server([](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      connection.Write(request->Target() == "/u" ? Answer(302, "", "Location: /v\r\n")
                                                 : Answer(200, "body"));
    }
  });
  EXPECT_EQ(Fetch(server.Url("/u"), DigestOf("body")), "body");
}

TEST_F(UserDataFetchContractTest, AGibibyteIsCutOff) {
  RawHttpServer announced([](RawConnection& connection) {
    (void)connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n");
    while (connection.Write(std::string(65'536, 'x'))) {
    }
  });
  Refused(Fetch(announced.Url("/u"), DigestOf("x")), Code::kResourceExhausted);
  RawHttpServer endless([](RawConnection& connection) {
    (void)connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (connection.Write("10000\r\n" + std::string(65'536, 'x') + "\r\n")) {
    }
  });
  Refused(Fetch(endless.Url("/u"), DigestOf("x")), Code::kResourceExhausted);
  EXPECT_LT(endless.bytes_written(), std::size_t{64} * 1024 * 1024);
}

TEST_F(UserDataFetchContractTest, SilenceEndsAfterTenSeconds) {
  RawHttpServer server([](RawConnection& connection) {
    (void)connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    connection.WaitForClose();
  });
  Refused(Fetch(server.Url("/u"), DigestOf("abcde")), Code::kDeadlineExceeded);
}

TEST_F(UserDataFetchContractTest, AnUntrustedServerIsRefused) {
  const TestAuthority stranger("stranger");
  const TestCertificate certificate = stranger.Issue("server", {"IP:127.0.0.1"});
  RawHttpServer server(AnswerAll(Answer(200, "body")),
                       {.tls = RawHttpServer::TlsOptions{.certificate = certificate.certificate,
                                                         .key = certificate.key}});
  Refused(Fetch(server.Url("/u")), Code::kPermissionDenied);
}

}  // namespace
}  // namespace nstance::test

// TLS: who is believed, who is not, and that nothing is said to the latter.
#include <gtest/gtest.h>

#include "test/adapters/http/http_fixture.h"
#include "test/support/test_certificates.h"

namespace nstance::test {
namespace {

class HttpTlsTest : public HttpClientFixture {
 protected:
  [[nodiscard]] RawHttpServer::Options Serve(const std::vector<std::string>& names,
                                             std::string client_authority = "") const {
    const TestCertificate issued = authority_.Issue("server", names);
    return {.tls = RawHttpServer::TlsOptions{.certificate = issued.certificate,
                                             .key = issued.key,
                                             .client_authority = std::move(client_authority)}};
  }

  TestAuthority authority_;
};

INSTANTIATE_TEST_SUITE_P(Loops, HttpTlsTest,
                         testing::Values(Arrangement::kOneLoop, Arrangement::kTwoLoops),
                         ArrangementName);

TEST_P(HttpTlsTest, AServerOfTheGivenAuthorityIsBelieved) {
  MakeClient({.ca_bundle = authority_.certificate()});
  RawHttpServer server(AnswerAll(Answer(200, "a")), Serve({"IP:127.0.0.1"}));
  for (int i = 0; i < 5; ++i) {
    const auto answer = Fetch(Put(server.Url("/")));
    ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
    EXPECT_EQ(answer->body, "a");
  }
  EXPECT_EQ(server.accepted(), 1);
}

TEST_P(HttpTlsTest, AnUnknownAuthorityIsRefused) {
  RawHttpServer server(AnswerAll(Answer(200, "a")), Serve({"IP:127.0.0.1"}));
  const TestAuthority other("another authority");
  for (const HttpClientOptions& options : std::vector<HttpClientOptions>{
           {},
           {.ca_bundle = other.certificate()},
           {.ca_bundle = other.certificate(), .roots = CertificateRoots::kBundleAndSystem}}) {
    MakeClient(options);
    ExpectError(Fetch(Get(server.Url("/"))), Code::kPermissionDenied, Outcome::kNotDone);
    ExpectError(Fetch(Put(server.Url("/"))), Code::kPermissionDenied, Outcome::kNotDone);
  }
  EXPECT_TRUE(server.requests().empty());
}

TEST_P(HttpTlsTest, AnotherNameIsRefused) {
  MakeClient({.ca_bundle = authority_.certificate()});
  RawHttpServer server(AnswerAll(Answer(200, "a")), Serve({"IP:127.0.0.2", "DNS:localhost"}));
  ExpectError(Fetch(Put(server.Url("/"))), Code::kPermissionDenied, Outcome::kNotDone);
  EXPECT_TRUE(server.requests().empty());
  const auto answer = Fetch(Put("https://localhost:" + std::to_string(server.port()) + "/"));
  EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
}

TEST_P(HttpTlsTest, ABundleThatIsNoPemIsRefused) {
  MakeClient({.ca_bundle = "nonsense"});
  RawHttpServer server(AnswerAll(Answer(200, "a")), Serve({"IP:127.0.0.1"}));
  ExpectError(Fetch(Put(server.Url("/"))), Code::kPermissionDenied, Outcome::kNotDone);
}

TEST_P(HttpTlsTest, TheClientShowsItsCertificateWhenAsked) {
  const TestAuthority clients("clients");
  const TestCertificate own = clients.Issue("client", {});
  RawHttpServer server(AnswerAll(Answer(200, "a")), Serve({"IP:127.0.0.1"}, clients.certificate()));
  MakeClient({.ca_bundle = authority_.certificate()});
  // With TLS 1.3 the server objects only after the client has begun to speak.
  ExpectError(Fetch(Get(server.Url("/"))), Code::kUnavailable, Outcome::kNotDone);
  ExpectError(Fetch(Put(server.Url("/"))), Code::kUnavailable, Outcome::kMaybeDone);
  EXPECT_TRUE(server.requests().empty());

  MakeClient({.ca_bundle = authority_.certificate(),
              .client_certificate = own.certificate,
              .client_key = own.key});
  const auto answer = Fetch(Put(server.Url("/")));
  EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
}

TEST_P(HttpTlsTest, AnUnusableCertificateOfOurOwnIsSaidSo) {
  RawHttpServer server(AnswerAll(Answer(200, "a")), Serve({"IP:127.0.0.1"}));
  MakeClient({.ca_bundle = authority_.certificate(),
              .client_certificate = authority_.Issue("client", {}).certificate,
              .client_key = authority_.Issue("client", {}).key});
  ExpectError(Fetch(Put(server.Url("/"))), Code::kFailedPrecondition, Outcome::kNotDone);
}

TEST_P(HttpTlsTest, AnotherHostIsNotShownTheClientsCertificate) {
  const TestCertificate own = authority_.Issue("client", {});
  RawHttpServer other(AnswerAll(Answer(200, "a")),
                      Serve({"IP:127.0.0.1"}, authority_.certificate()));
  RawHttpServer server(AnswerAll(Answer(302, "", "Location: " + other.Url("/") + "\r\n")),
                       Serve({"IP:127.0.0.1"}, authority_.certificate()));
  MakeClient({.ca_bundle = authority_.certificate(),
              .client_certificate = own.certificate,
              .client_key = own.key});
  HttpRequest request = Get(server.Url("/"));
  request.max_redirects = 1;
  request.redirect_scope = HttpRedirectScope::kAnyHost;
  ExpectError(Fetch(request), Code::kUnavailable, Outcome::kNotDone);
  EXPECT_EQ(server.requests().size(), 1U);
  EXPECT_TRUE(other.requests().empty());
  EXPECT_TRUE(Fetch(Get(other.Url("/"))).has_value());
}

TEST_P(HttpTlsTest, ARedirectToPlainHttpIsRefused) {
  MakeClient({.ca_bundle = authority_.certificate()});
  RawHttpServer plain(AnswerAll(Answer(200, "a")));
  RawHttpServer server(AnswerAll(Answer(301, "", "Location: " + plain.Url("/") + "\r\n")),
                       Serve({"IP:127.0.0.1"}));
  HttpRequest request = Get(server.Url("/"));
  request.max_redirects = 3;
  request.redirect_scope = HttpRedirectScope::kAnyHost;
  ExpectError(Fetch(request), Code::kFailedPrecondition, Outcome::kNotDone);
  EXPECT_EQ(plain.accepted(), 0);
}

TEST_P(HttpTlsTest, AChangeIsSentOnceAlsoWhenAKeptTlsConnectionDies) {
  MakeClient({.ca_bundle = authority_.certificate()});
  RawHttpServer server(
      [](RawConnection& connection) {
        while (const auto request = connection.ReadRequest()) {
          if (request->Method() == "PUT") return;
          connection.Write(Answer(200, "a"));
        }
      },
      Serve({"IP:127.0.0.1"}));
  ASSERT_TRUE(Fetch(Get(server.Url("/"))).has_value());
  ExpectError(Fetch(Put(server.Url("/"))), Code::kUnavailable, Outcome::kMaybeDone);
  EXPECT_EQ(server.requests().size(), 2U);
}

TEST_P(HttpTlsTest, ALargeBodyCrossesBothWays) {
  MakeClient({.ca_bundle = authority_.certificate()});
  const std::string body(5'000'000, 'b');
  RawHttpServer server(AnswerAll(Answer(200, body)), Serve({"IP:127.0.0.1"}));
  HttpRequest request = Put(server.Url("/"), body);
  request.max_response_bytes = body.size();
  const auto answer = Fetch(request);
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_TRUE(answer->body == body);
  EXPECT_TRUE(server.requests().at(0).body == body);
}

}  // namespace
}  // namespace nstance::test

// Tables of heads, good and bad, then random ones: any bytes give a question or a refusal.
#include "adapters/http_server/http_head.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance::http_server {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

int StatusOf(const std::string& head) {
  const auto parsed = ParseHead(head);
  return parsed ? 200 : parsed.error().status;
}

TEST(HttpHeadTest, ReadsPathQueryAndMethod) {
  const auto get = ParseHead("GET /readyz?verbose=1?x HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(get);
  EXPECT_EQ(get->question.path, "/readyz");
  EXPECT_EQ(get->question.query, "verbose=1?x");
  EXPECT_EQ(get->body, BodyWanted::kYes);
  const auto head = ParseHead("HEAD /%2e%2e/ HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->question.path, "/%2e%2e/");  // Never decoded.
  EXPECT_EQ(head->body, BodyWanted::kNo);
}

TEST(HttpHeadTest, BI112_WhatIsMalformedOrUnwantedIsRefused) {
  struct Row {
    std::string head;
    int status;
  };
  const std::string host = "Host: a\r\n";
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += "a: b\r\n";
  for (const Row& row : std::vector<Row>{
           {"\r\n\r\n", 400},
           {"GET\r\n\r\n", 400},
           {"GET /\r\n\r\n", 400},
           {"GET  HTTP/1.1\r\n" + host + "\r\n", 400},
           {"GET / HTTP/2\r\n" + host + "\r\n", 505},
           {"GET / HTTP/1.1x\r\n" + host + "\r\n", 505},
           {"GET / FTP/1.1\r\n" + host + "\r\n", 400},
           {"GET http://a/ HTTP/1.1\r\n" + host + "\r\n", 400},
           {"GET * HTTP/1.1\r\n" + host + "\r\n", 400},
           {"GET /a b HTTP/1.1\r\n" + host + "\r\n", 400},
           {"G\x01T / HTTP/1.1\r\n" + host + "\r\n", 400},
           {"TRACE / HTTP/1.1\r\n" + host + "\r\n", 405},
           {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\n", 405},
           {"CONNECT a:80 HTTP/1.1\r\n" + host + "\r\n", 405},
           {"get / HTTP/1.1\r\n" + host + "\r\n", 405},
           {"GET / HTTP/1.1\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\n" + host + host + "\r\n", 400},
           {"GET / HTTP/1.1\r\n" + host + " folded\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\n: empty\r\n\r\n", 400},
           {std::string("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 30), 400},
           {"GET / HTTP/1.1\r\n" + host + "Content-Length: 1\r\n\r\n", 413},
           {"GET / HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", 200},
           {"GET / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\n" + host + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", 413},
           {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            400},
           {"GET / HTTP/1.1\r\n" + host + many + "\r\n", 431}}) {
    EXPECT_EQ(StatusOf(row.head), row.status) << row.head.substr(0, 80);
  }
}

TEST(HttpHeadTest, AnswersSayTheirLengthAndClose) {
  const std::string answer = FormatAnswer({.status = 503, .body = "why\n"}, BodyWanted::kYes);
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 503 Service Unavailable\r\n"),
                            HasSubstr("Content-Length: 4\r\n"), HasSubstr("Connection: close\r\n"),
                            EndsWith("\r\n\r\nwhy\n")));
  EXPECT_THAT(FormatAnswer({.body = "why"}, BodyWanted::kNo),
              AllOf(HasSubstr("Content-Length: 3\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(FormatAnswer({.status = 405}, BodyWanted::kYes), HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_THAT(FormatAnswer({.status = 200}, BodyWanted::kYes), Not(HasSubstr("Allow")));
}

TEST(HttpHeadTest, AnyBytesGiveAnAnswer) {
  const std::string good = "GET /readyz?a=b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    Prng prng(seed);
    std::string head = good;
    for (std::uint64_t i = 0; i < 1 + prng.Below(4); ++i) {
      head[prng.Below(head.size() - 4)] = static_cast<char>(prng.Below(256));
    }
    const auto parsed = ParseHead(head);
    if (parsed) {
      EXPECT_THAT(parsed->question.path, StartsWith("/"));
    }
  }
}

}  // namespace
}  // namespace nstance::http_server

// The HTTP client against a real TCP server: what is sent, what is reused, what is bounded, what a
// cancelled or forgotten request leaves behind. Everything runs with the sockets on the callers'
// loop and on one of their own.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/http/prepared_request.h"
#include "test/adapters/http/http_fixture.h"

namespace nstance::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class HttpClientTest : public HttpClientFixture {};
INSTANTIATE_TEST_SUITE_P(Loops, HttpClientTest,
                         testing::Values(Arrangement::kOneLoop, Arrangement::kTwoLoops),
                         ArrangementName);

constexpr std::size_t kMebibyte = std::size_t{1024} * 1024;

// --- What is sent and what comes back.

TEST_P(HttpClientTest, AnAnswerComesWithStatusHeadersAndBody) {
  RawHttpServer server(
      AnswerAll(Answer(404, "not here", "ETag:  \"a\" \r\nX-Two: 1\r\nx-two: 2\r\n")));
  const auto answer = Fetch(Get(server.Url("/a?b=c")));
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body, "not here");
  ASSERT_NE(answer->Header("etag"), nullptr);
  EXPECT_EQ(*answer->Header("etag"), "\"a\"");
  EXPECT_EQ(*answer->Header("x-two"), "1");
  EXPECT_THAT(answer->headers, SizeIs(4));
}

TEST_P(HttpClientTest, TheRequestHoldsWhatWasAskedForAndNothingOfTheEnvironment) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  setenv("HOME", "/nonexistent", 1);
  RawHttpServer server(AnswerAll(Answer(200, "")));
  const auto answer = Fetch({.method = HttpMethod::kPost,
                             .url = server.Url("/x/../%7ey//z?q=%20&r"),
                             .headers = {{"X-Empty", ""}, {"Content-Type", " text/plain "}},
                             .body = "body"});
  unsetenv("http_proxy");
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  const RawRequest request = server.requests().at(0);
  EXPECT_EQ(request.Method(), "POST");
  EXPECT_EQ(request.Target(), "/x/../%7ey//z?q=%20&r");
  EXPECT_EQ(request.body, "body");
  EXPECT_EQ(request.Value("content-type"), "text/plain");
  EXPECT_THAT(request.Values("x-empty"), ElementsAre(""));
  EXPECT_EQ(request.Value("user-agent"), "nstance");
  EXPECT_EQ(request.Value("content-length"), "4");
  for (const char* name : {"expect", "cookie", "authorization", "accept-encoding", "te"}) {
    EXPECT_THAT(request.Values(name), IsEmpty()) << name;
  }
}

TEST_P(HttpClientTest, EveryMethodIsSentAsItself) {
  RawHttpServer server([](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      connection.Write(request->Method() == "HEAD" ? "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"
                                                   : Answer(200, request->body));
    }
  });
  for (const auto& [method, name] : {std::pair{HttpMethod::kGet, "GET"},
                                     {HttpMethod::kHead, "HEAD"},
                                     {HttpMethod::kPut, "PUT"},
                                     {HttpMethod::kPost, "POST"},
                                     {HttpMethod::kPatch, "PATCH"},
                                     {HttpMethod::kDelete, "DELETE"}}) {
    const std::string body = ChangesSomething(method) ? "a body" : "";
    const auto answer = Fetch({.method = method, .url = server.Url("/"), .body = body});
    ASSERT_TRUE(answer.has_value()) << name << answer.error().ToString();
    EXPECT_EQ(answer->body, body) << name;
    EXPECT_EQ(server.requests().back().Method(), name);
    EXPECT_EQ(server.requests().back().body, body) << name;
    EXPECT_THAT(server.requests().back().Values("content-type"), IsEmpty()) << name;
  }
}

TEST_P(HttpClientTest, AnEmptyBodyHasALengthWithPutAndNoneWithDelete) {
  RawHttpServer server(AnswerAll(Answer(204, "")));
  ASSERT_TRUE(Fetch(Put(server.Url("/"), "")).has_value());
  ASSERT_TRUE(Fetch({.method = HttpMethod::kDelete, .url = server.Url("/")}).has_value());
  EXPECT_THAT(server.requests().at(0).Values("content-length"), ElementsAre("0"));
  EXPECT_THAT(server.requests().at(1).Values("content-length"), IsEmpty());
}

TEST_P(HttpClientTest, ALargeBodyIsUploadedWholeWithoutAskingFirst) {
  RawHttpServer server(AnswerAll(Answer(200, "")));
  std::string body(20 * kMebibyte, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 31 % 251);
  const auto answer = Fetch(Put(server.Url("/"), body));
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_TRUE(server.requests().at(0).body == body);
  EXPECT_THAT(server.requests().at(0).Values("expect"), IsEmpty());
}

TEST_P(HttpClientTest, AnAnswerBeforeTheEndOfTheUploadCounts) {
  RawHttpServer server([](RawConnection& connection) {
    connection.ReadHead();
    connection.Write(Answer(413, "too large"));
    connection.WaitForClose();
  });
  const auto answer = Fetch(Put(server.Url("/"), std::string(20 * kMebibyte, 'a')));
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->status, 413);
  EXPECT_EQ(answer->body, "too large");
}

TEST_P(HttpClientTest, AnEncodedBodyIsHandedOverAsItCame) {
  RawHttpServer server(AnswerAll(Answer(200, "\x1f\x8b no gzip", "Content-Encoding: gzip\r\n")));
  const auto answer = Fetch(Get(server.Url("/")));
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->body, "\x1f\x8b no gzip");
  EXPECT_EQ(*answer->Header("content-encoding"), "gzip");
}

TEST_P(HttpClientTest, ChunksAreJoinedAndTrailersAreDropped) {
  RawHttpServer server(
      AnswerAll("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                "3\r\nabc\r\n2\r\nde\r\n0\r\nETag: late\r\n\r\n"));
  const auto answer = Fetch(Get(server.Url("/")));
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->body, "abcde");
  EXPECT_EQ(answer->Header("etag"), nullptr);
}

TEST_P(HttpClientTest, InterimAnswersAreSkipped) {
  RawHttpServer server(
      AnswerAll("HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n" + Answer(200, "a")));
  const auto answer = Fetch(Get(server.Url("/")));
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->Header("x-early"), nullptr);
}

TEST_P(HttpClientTest, RefusedCredentialsAreAnAnswerAndNotSentAgain) {
  RawHttpServer server(AnswerAll(Answer(401, "no", "WWW-Authenticate: Basic realm=\"a\"\r\n")));
  HttpRequest request = Put(server.Url("/"));
  request.aws_signature = AwsSignature{
      .access_key = "AK", .secret_key = "SECRET", .region = "eu-north-1", .service = "s3"};
  const auto answer = Fetch(request);
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->status, 401);
  EXPECT_THAT(server.requests(), SizeIs(1));
}

TEST_P(HttpClientTest, AMalformedRequestIsRefusedBeforeAnythingIsSent) {
  RawHttpServer server(AnswerAll(Answer(200, "")));
  const std::string url = server.Url("/");
  const std::string authority = url.substr(7);
  const AwsSignature signature{
      .access_key = "AK", .secret_key = "SECRET", .region = "eu-north-1", .service = "s3"};
  std::vector<HttpRequest> requests;
  for (const std::string& bad : std::vector<std::string>{
           "", "/", "ftp://127.0.0.1/", "file:///etc/passwd", "http://", "http:/127.0.0.1/",
           "http://127.0.0.1:x/", "http://127.0.0.1:99999/", "http://user@" + authority,
           "http://user:word@" + authority, url + "#part", url + "a b", url + "a\nb",
           url + "\xc3\xa4", url + "a\\b", url + std::string("a\0b", 3),
           url + std::string(20'000, 'a')}) {
    requests.push_back(Get(bad));
  }
  for (const HttpHeader& bad : std::vector<HttpHeader>{{"X-A", "a\r\nX-B: b"},
                                                       {"X-A", "a\nb"},
                                                       {"X-A", std::string("a\0b", 3)},
                                                       {"X-A", "\x7f"},
                                                       {"", "a"},
                                                       {"X A", "a"},
                                                       {"X-A:", "a"},
                                                       {"X-\r\nA", "a"},
                                                       {"X-\xc3\xa4", "a"},
                                                       {"Host", "other"},
                                                       {"Content-Length", "5"},
                                                       {"transfer-encoding", "chunked"},
                                                       {"Connection", "close"},
                                                       {"Expect", "100-continue"},
                                                       {"X-A", std::string(70'000, 'a')}}) {
    requests.push_back({.method = HttpMethod::kPut, .url = url, .headers = {bad}});
  }
  requests.push_back({.method = HttpMethod::kGet, .url = url, .body = "a"});
  requests.push_back({.method = HttpMethod::kPut, .url = url, .max_redirects = 1});
  requests.push_back({.url = url, .max_redirects = -1});
  requests.push_back({.url = url, .max_redirects = 1, .aws_signature = signature});
  for (const HttpRequest& request : requests) {
    SCOPED_TRACE(request.url.substr(0, 100));
    ExpectError(Fetch(request), Code::kInvalidArgument, Outcome::kNotDone);
    const StreamLog log = FetchStream(request);
    ASSERT_TRUE(log.end.has_value() && !log.end->has_value());
    EXPECT_EQ(log.end->error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(server.accepted(), 0);
}

TEST_P(HttpClientTest, MessagesNameTheHostAndNoSecrets) {
  RawHttpServer server([](RawConnection& connection) { connection.ReadRequest(); });
  const auto answer = Fetch({.method = HttpMethod::kPut,
                             .url = server.Url("/secret-path?token=secret-query"),
                             .headers = {{"Authorization", "Bearer secret-header"}},
                             .body = "secret-body"});
  ASSERT_FALSE(answer.has_value());
  EXPECT_THAT(answer.error().message,
              HasSubstr("PUT 127.0.0.1:" + std::to_string(server.port()) + ": "));
  EXPECT_THAT(answer.error().message, Not(HasSubstr("secret")));
}

// --- Connections.

TEST_P(HttpClientTest, SequentialRequestsShareOneConnection) {
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Fetch(i % 2 == 0 ? Get(server.Url("/")) : Put(server.Url("/"))).has_value());
  }
  EXPECT_EQ(server.accepted(), 1);
}

TEST_P(HttpClientTest, NeverMoreThanMaxInFlightAtOnce) {
  MakeClient({.max_in_flight = 3});
  RawHttpServer server([](RawConnection& connection) {
    while (connection.ReadRequest()) {
      connection.WaitForGate();
      connection.Write(Answer(200, "a"));
    }
  });
  int answers = 0;
  std::vector<Pending> pending;
  for (int i = 0; i < 20; ++i) {
    pending.push_back(client->Send(Get(server.Url("/")), [&](Result<HttpResponse> answer) {
      EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
      ++answers;
    }));
  }
  ASSERT_TRUE(RunUntil(home, [&] { return server.requests().size() == 3; }));
  EXPECT_EQ(answers, 0);
  server.OpenGate();
  ASSERT_TRUE(RunUntil(home, [&] { return answers == 20; }));
  EXPECT_EQ(server.most_open(), 3);
  EXPECT_EQ(server.accepted(), 3);
}

TEST_P(HttpClientTest, ABusyHostDoesNotHoldUpAnother) {
  MakeClient({.max_in_flight = 8, .max_connections_per_host = 2});
  RawHttpServer busy([](RawConnection& connection) {
    while (connection.ReadRequest()) {
      connection.WaitForGate();
      connection.Write(Answer(200, "a"));
    }
  });
  RawHttpServer other(AnswerAll(Answer(200, "b")));
  int answers = 0;
  std::vector<Pending> pending;
  for (int i = 0; i < 10; ++i) {
    pending.push_back(client->Send(Get(busy.Url("/")), [&](const auto&) { ++answers; }));
  }
  ASSERT_TRUE(Fetch(Get(other.Url("/"))).has_value());
  EXPECT_EQ(answers, 0);
  busy.OpenGate();
  ASSERT_TRUE(RunUntil(home, [&] { return answers == 10; }));
  EXPECT_EQ(busy.most_open(), 2);
}

TEST_P(HttpClientTest, AFullQueueIsAnErrorThatWasSurelyNotDone) {
  MakeClient({.max_in_flight = 1, .max_waiting = 2});
  RawHttpServer server([](RawConnection& connection) {
    while (connection.ReadRequest()) {
      connection.WaitForGate();
      connection.Write(Answer(200, "a"));
    }
  });
  int answers = 0;
  std::vector<Pending> pending;
  for (int i = 0; i < 3; ++i) {
    pending.push_back(client->Send(Put(server.Url("/")), [&](const auto& answer) {
      EXPECT_TRUE(answer.has_value());
      ++answers;
    }));
  }
  ExpectError(Fetch(Put(server.Url("/"))), Code::kResourceExhausted, Outcome::kNotDone);
  server.OpenGate();
  ASSERT_TRUE(RunUntil(home, [&] { return answers == 3; }));
  EXPECT_TRUE(Fetch(Put(server.Url("/"))).has_value());
}

TEST_P(HttpClientTest, StreamsDoNotTakeThePlacesOfRequests) {
  MakeClient({.max_in_flight = 1, .max_streams = 2});
  RawHttpServer server([](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      if (request->Target() == "/stream") {
        connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        return connection.WaitForClose();
      }
      connection.Write(Answer(200, "a"));
    }
  });
  StreamLog one;
  StreamLog two;
  StreamLog three;
  const Pending first = client->Stream(Get(server.Url("/stream")), one.Events());
  Pending second = client->Stream(Get(server.Url("/stream")), two.Events());
  const Pending third = client->Stream(Get(server.Url("/stream")), three.Events());
  ASSERT_TRUE(RunUntil(home, [&] { return one.head.has_value() && two.head.has_value(); }));
  EXPECT_TRUE(Fetch(Get(server.Url("/"))).has_value());
  EXPECT_FALSE(three.head.has_value());
  second.Cancel();
  EXPECT_TRUE(RunUntil(home, [&] { return three.head.has_value(); }));
}

TEST_P(HttpClientTest, BytesThatNobodyAskedForAreNotTakenForTheNextAnswer) {
  RawHttpServer server([](RawConnection& connection) {
    while (connection.ReadRequest()) {
      connection.Write(Answer(200, "right"));
      if (connection.number() > 0) continue;
      connection.WaitForGate();
      connection.Write(Answer(200, "unasked"));
      return connection.WaitForClose();
    }
  });
  ASSERT_TRUE(Fetch(Get(server.Url("/"))).has_value());
  const std::size_t before = server.bytes_written();
  server.OpenGate();
  ASSERT_TRUE(RunUntil(home, [&] { return server.bytes_written() > before; }));
  const auto answer = Fetch(Put(server.Url("/")));
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->body, "right");
  EXPECT_EQ(server.accepted(), 2);
}

TEST_P(HttpClientTest, ABodyBeyondItsLengthIsCutAndItsConnectionNotUsedAgain) {
  RawHttpServer server([](RawConnection& connection) {
    while (connection.ReadRequest()) {
      connection.Write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright and more");
    }
  });
  for (int i = 0; i < 3; ++i) {
    const auto answer = Fetch(Put(server.Url("/")));
    ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
    EXPECT_EQ(answer->body, "right");
  }
  EXPECT_EQ(server.accepted(), 3);
}

TEST_P(HttpClientTest, UnusedConnectionsAreKeptUpToTheLimit) {
  MakeClient({.max_warm_connections = 2});
  RawHttpServer server([](RawConnection& connection) {
    while (connection.ReadRequest()) {
      connection.WaitForGate();
      connection.Write(Answer(200, "a"));
    }
  });
  int answers = 0;
  std::vector<Pending> pending;
  for (int i = 0; i < 6; ++i) {
    pending.push_back(client->Send(Get(server.Url("/")), [&](const auto&) { ++answers; }));
  }
  ASSERT_TRUE(RunUntil(home, [&] { return server.requests().size() == 6; }));
  server.OpenGate();
  ASSERT_TRUE(RunUntil(home, [&] { return answers == 6 && server.open() <= 2; }));
  EXPECT_TRUE(Fetch(Get(server.Url("/"))).has_value());
  EXPECT_EQ(server.accepted(), 6);
}

// --- Sent at most once.

// Answers the first request of the first connection, then reads the next one whole and hangs up.
RawHttpServer::Script DiesOnSecondRequest() {
  return [](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      if (connection.number() == 0 && request->Target() == "/second") return;
      connection.Write(Answer(200, "a"));
    }
  };
}

TEST_P(HttpClientTest, AChangeIsSentOnceEvenWhenItsKeptConnectionDies) {
  for (const HttpMethod method :
       {HttpMethod::kPut, HttpMethod::kPost, HttpMethod::kPatch, HttpMethod::kDelete}) {
    for (const char* body : {"a body", ""}) {
      MakeClient({});
      RawHttpServer server(DiesOnSecondRequest());
      ASSERT_TRUE(Fetch(Get(server.Url("/first"))).has_value());
      ExpectError(Fetch({.method = method, .url = server.Url("/second"), .body = body}),
                  Code::kUnavailable, Outcome::kMaybeDone);
      ASSERT_THAT(server.requests(), SizeIs(2));
      EXPECT_EQ(server.requests().at(1).connection, 0) << "the connection was not reused";
    }
  }
}

TEST_P(HttpClientTest, AReadIsSentAgainWhenItsKeptConnectionDies) {
  RawHttpServer server(DiesOnSecondRequest());
  ASSERT_TRUE(Fetch(Get(server.Url("/first"))).has_value());
  EXPECT_TRUE(Fetch(Get(server.Url("/second"))).has_value());
  EXPECT_THAT(server.requests(), SizeIs(3));
}

TEST_P(HttpClientTest, AChangeThatWasSentMayBeDoneAlsoWhenTheServerIsGoneAfterwards) {
  RawHttpServer* where = nullptr;
  RawHttpServer server([&](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      if (request->Target() == "/second") return where->StopListening();
      connection.Write(Answer(200, "a"));
    }
  });
  where = &server;
  ASSERT_TRUE(Fetch(Get(server.Url("/first"))).has_value());
  ExpectError(Fetch(Put(server.Url("/second"))), Code::kUnavailable, Outcome::kMaybeDone);
  // And without a kept connection it was surely not.
  ExpectError(Fetch(Put(server.Url("/third"))), Code::kUnavailable, Outcome::kNotDone);
}

// --- Time.

TEST_P(HttpClientTest, TheDeadlineCountsInTheQueueToo) {
  MakeClient({.max_in_flight = 1});
  RawHttpServer server([](RawConnection& connection) {
    while (connection.ReadRequest()) connection.WaitForGate();
  });
  const Pending blocker = client->Send(Get(server.Url("/")), [](const auto&) {});
  ASSERT_TRUE(RunUntil(home, [&] { return server.requests().size() == 1; }));
  HttpRequest waiting = Put(server.Url("/"));
  waiting.deadline = Duration::Milliseconds(20);
  ExpectError(Fetch(waiting), Code::kDeadlineExceeded, Outcome::kNotDone);
  waiting.deadline = Duration();
  ExpectError(Fetch(waiting), Code::kDeadlineExceeded, Outcome::kNotDone);
  EXPECT_THAT(server.requests(), SizeIs(1));
}

TEST_P(HttpClientTest, AStreamMayOutliveItsDeadlineOnceItsHeadIsThere) {
  RawHttpServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.WaitForGate();
    connection.Write("1\r\na\r\n0\r\n\r\n");
    connection.WaitForClose();
  });
  HttpRequest request = Get(server.Url("/"));
  request.deadline = Duration::Seconds(1);
  StreamLog log;
  const Pending pending = client->Stream(request, log.Events());
  const Instant begin = home.Now();
  ASSERT_TRUE(RunUntil(home, [&] { return log.head.has_value(); }));
  ASSERT_TRUE(RunUntil(home, [&] { return home.Now() > begin + Duration::Milliseconds(1100); }));
  EXPECT_FALSE(log.end.has_value());
  server.OpenGate();
  ASSERT_TRUE(RunUntil(home, [&] { return log.end.has_value(); }));
  EXPECT_TRUE(log.end->has_value());
  EXPECT_EQ(log.data, "a");
}

TEST_P(HttpClientTest, AStreamWithoutHeadEndsAtItsDeadline) {
  RawHttpServer server([](RawConnection& connection) { connection.WaitForClose(); });
  HttpRequest request = Get(server.Url("/"));
  request.deadline = Duration::Milliseconds(20);
  const StreamLog log = FetchStream(request);
  ASSERT_FALSE(log.end->has_value());
  EXPECT_EQ(log.end->error().code, Code::kDeadlineExceeded);
  EXPECT_FALSE(log.head.has_value());
}

TEST_P(HttpClientTest, ASilentStreamEndsAtItsIdleLimit) {
  RawHttpServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.Write("1\r\na\r\n");
    connection.WaitForClose();
  });
  HttpRequest request = Get(server.Url("/"));
  request.idle_limit = Duration::Milliseconds(50);
  const StreamLog log = FetchStream(request);
  ASSERT_TRUE(log.head.has_value());
  EXPECT_EQ(log.data, "a");
  ASSERT_FALSE(log.end->has_value());
  EXPECT_EQ(log.end->error().code, Code::kDeadlineExceeded);
  EXPECT_TRUE(RunUntil(home, [&] { return server.open() == 0; })) << "the connection stays open";
}

TEST_P(HttpClientTest, AStreamThatTalksOutlivesItsIdleLimit) {
  RawHttpServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 60 && !connection.HeardWithin(20); ++i) connection.Write("1\r\na\r\n");
    connection.Write("0\r\n\r\n");
    connection.WaitForClose();
  });
  HttpRequest request = Get(server.Url("/"));
  request.idle_limit = Duration::Seconds(1);
  const StreamLog log = FetchStream(request);
  EXPECT_TRUE(log.end->has_value()) << log.end->error().ToString();
  EXPECT_EQ(log.bytes, 60U);
}

// --- Streams.

TEST_P(HttpClientTest, AStreamSaysHeadThenDataThenEnd) {
  RawHttpServer server(AnswerAll(Answer(201, "abc", "X-A: b\r\n")));
  std::string order;
  std::optional<Status> end;
  const Pending pending =
      client->Stream(Put(server.Url("/")), {.head =
                                                [&](HttpResponse head) {
                                                  order += "h";
                                                  EXPECT_EQ(head.status, 201);
                                                  EXPECT_EQ(*head.Header("x-a"), "b");
                                                  EXPECT_EQ(head.body, "");
                                                },
                                            .data = [&](std::string data) { order += data; },
                                            .end = [&](Status said) { end = said; }});
  ASSERT_TRUE(RunUntil(home, [&] { return end.has_value(); }));
  EXPECT_TRUE(end->has_value());
  EXPECT_EQ(order, "habc");
}

TEST_P(HttpClientTest, AStreamThatIsCutSaysSo) {
  RawHttpServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  });
  const StreamLog log = FetchStream(Get(server.Url("/")));
  EXPECT_EQ(log.data, "abc");
  ASSERT_FALSE(log.end->has_value());
  EXPECT_EQ(log.end->error().code, Code::kUnavailable);
}

TEST_P(HttpClientTest, AStreamStopsReadingWhileItsReaderIsSlowAndGoesOnAfterwards) {
  constexpr std::size_t kTotal = 50 * kMebibyte;
  RawHttpServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kTotal) + "\r\n\r\n");
    const std::string piece(kMebibyte, 'a');
    for (std::size_t i = 0; i < kTotal / kMebibyte; ++i) connection.Write(piece);
    connection.WaitForClose();
  });
  HttpRequest request = Get(server.Url("/"));
  request.max_response_bytes = 256 * 1024;
  request.idle_limit = Duration::Milliseconds(500);  // Its own reader's slowness does not count.
  std::size_t bytes = 0;
  bool slow = true;
  std::optional<Status> end;
  const Pending pending = client->Stream(
      request, {.head = {},
                .data =
                    [&](std::string data) {
                      bytes += data.size();
                      if (!slow) return;
                      // Home stands still until the server notices.
                      slow = false;
                      RealLoop elsewhere;
                      EXPECT_TRUE(RunUntil(elsewhere, [&] { return server.stalled(); }));
                      const Instant later = elsewhere.Now() + request.idle_limit * 2;
                      EXPECT_TRUE(RunUntil(elsewhere, [&] { return elsewhere.Now() > later; }));
                      EXPECT_LT(server.bytes_written(), kTotal / 2);
                    },
                .end = [&](Status said) { end = said; }});
  ASSERT_TRUE(RunUntil(home, [&] { return end.has_value(); }));
  EXPECT_TRUE(end->has_value()) << end->error().ToString();
  EXPECT_EQ(bytes, kTotal);
}

TEST_P(HttpClientTest, WhatWaitsForASlowReaderIsBounded) {
  RawHttpServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\n\r\n");
    const std::string piece(64 * 1024, 'a');
    while (connection.Write(piece)) {
    }
  });
  HttpRequest request = Get(server.Url("/"));
  request.max_response_bytes = 100'000;
  // After each stall at most the limit has been queued for home, so one turn brings no more.
  std::size_t bytes = 0;
  const Pending pending = client->Stream(
      request, {.head = {}, .data = [&](std::string data) { bytes += data.size(); }, .end = {}});
  ASSERT_TRUE(RunUntil(home, [&] { return bytes > 0; }));
  for (int i = 0; i < 5; ++i) {
    RealLoop elsewhere;
    if (GetParam() == Arrangement::kTwoLoops) {
      ASSERT_TRUE(RunUntil(elsewhere, [&] { return server.stalled(); }));
    }
    const std::size_t before = bytes;
    home.Post([&] { home.Stop(); });
    home.Run();
    EXPECT_LE(bytes - before, 3 * request.max_response_bytes);
  }
}

// --- Redirects.

RawHttpServer::Script RedirectTo(std::function<std::string()> location) {
  return [location = std::move(location)](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      if (request->Target() == "/end") {
        connection.Write(Answer(200, "end"));
      } else {
        connection.Write(Answer(302, "elsewhere", "Location: " + location() + "\r\n"));
      }
    }
  };
}

TEST_P(HttpClientTest, ARedirectIsTheCallersUnlessAskedFor) {
  RawHttpServer server(RedirectTo([] { return "/end"; }));
  const auto answer = Fetch(Get(server.Url("/")));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 302);
  EXPECT_EQ(answer->body, "elsewhere");
  EXPECT_EQ(Fetch(Put(server.Url("/")))->status, 302);
}

TEST_P(HttpClientTest, ARedirectOnTheSameHostIsFollowedWithItsHeaders) {
  RawHttpServer server(RedirectTo([] { return "/a/../end#part"; }));
  HttpRequest request = Get(server.Url("/b/c"));
  request.headers = {{"Authorization", "Bearer token"}};
  request.max_redirects = 1;
  const auto answer = Fetch(request);
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->body, "end");
  EXPECT_EQ(server.requests().at(1).Value("authorization"), "Bearer token");
  const StreamLog log = FetchStream(request);
  EXPECT_TRUE(log.end->has_value());
  EXPECT_EQ(log.head->status, 200);
  EXPECT_EQ(log.data, "end");
}

TEST_P(HttpClientTest, ARedirectToAnotherHostNeedsLeaveAndCarriesNoCredentials) {
  RawHttpServer other(AnswerAll(Answer(200, "other")));
  RawHttpServer server(RedirectTo([&] { return other.Url("/end"); }));
  HttpRequest request = Get(server.Url("/"));
  request.headers = {{"Authorization", "Bearer token"},
                     {"X-Api-Key", "key"},
                     {"Cookie", "a=b"},
                     {"Accept", "text/plain"}};
  request.max_redirects = 3;
  ExpectError(Fetch(request), Code::kFailedPrecondition, Outcome::kNotDone);
  EXPECT_EQ(other.accepted(), 0);

  request.redirect_scope = HttpRedirectScope::kAnyHost;
  const auto answer = Fetch(request);
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->body, "other");
  const RawRequest seen = other.requests().at(0);
  for (const char* name : {"authorization", "x-api-key", "cookie"}) {
    EXPECT_THAT(seen.Values(name), IsEmpty()) << name;
  }
  EXPECT_EQ(seen.Value("accept"), "text/plain");
}

TEST_P(HttpClientTest, AnEndlessRedirectEnds) {
  RawHttpServer server(RedirectTo([] { return "/again"; }));
  HttpRequest request = Get(server.Url("/"));
  request.max_redirects = 5;
  ExpectError(Fetch(request), Code::kFailedPrecondition, Outcome::kNotDone);
  EXPECT_THAT(server.requests(), SizeIs(6));
}

TEST_P(HttpClientTest, ARedirectToAnotherProtocolOrNonsenseIsRefused) {
  for (const char* location : {"file:///etc/passwd", "ftp://127.0.0.1/", "http://", "http://a@b/",
                               "http://127.0.0.1:99999/", "gopher://127.0.0.1"}) {
    RawHttpServer server(RedirectTo([&] { return location; }));
    HttpRequest request = Get(server.Url("/"));
    request.max_redirects = 5;
    request.redirect_scope = HttpRedirectScope::kAnyHost;
    SCOPED_TRACE(location);
    ExpectError(Fetch(request), Code::kUnavailable, Outcome::kNotDone);
  }
}

// --- Addresses.

TEST_P(HttpClientTest, ANameWithSeveralAddressesIsTriedThrough) {
  // The server listens on one of the two addresses only.
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  for (int i = 0; i < 5; ++i) {
    MakeClient({});
    const auto answer = Fetch(Put("http://localhost:" + std::to_string(server.port()) + "/"));
    EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
  }
}

// Takes connections of the kernel's own accord until its queue is full; then it does not answer.
class BlackHole {
 public:
  BlackHole(const char* ip, int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    EXPECT_EQ(inet_pton(AF_INET, ip, &address.sin_addr), 1);
    for (int& descriptor : descriptors_) {
      descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    const auto* where = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(bind(descriptors_[0], where, sizeof(address)), 0);
    EXPECT_EQ(listen(descriptors_[0], 0), 0);
    for (std::size_t i = 1; i < descriptors_.size(); ++i) {
      (void)connect(descriptors_[i], where, sizeof(address));
    }
  }
  BlackHole(const BlackHole&) = delete;
  BlackHole& operator=(const BlackHole&) = delete;
  ~BlackHole() {
    for (const int descriptor : descriptors_) close(descriptor);
  }

 private:
  std::array<int, 4> descriptors_{};
};

TEST_P(HttpClientTest, AnAddressThatDoesNotAnswerGivesWayToTheNext) {
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  const std::string port = std::to_string(server.port());
  const BlackHole hole("127.0.0.2", server.port());
  MakeClient({.fixed_addresses = {"two.invalid:" + port + ":127.0.0.2,127.0.0.1"}});
  HttpRequest request = Put("http://two.invalid:" + port + "/");
  request.deadline = Duration::Seconds(2);
  const auto answer = Fetch(request);
  EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
}

TEST_P(HttpClientTest, AddressesThatRefuseAreTriedThroughAtOnce) {
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  const std::string port = std::to_string(server.port());
  std::string addresses;
  for (int i = 2; i < 10; ++i) addresses += "127.0.0." + std::to_string(i) + ",";
  MakeClient({.fixed_addresses = {"many.invalid:" + port + ":" + addresses + "127.0.0.1"}});
  // Waiting for libcurl's own timers would use it up.
  HttpRequest request = Put("http://many.invalid:" + port + "/");
  request.deadline = Duration::Seconds(10);
  const auto answer = Fetch(request);
  EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
}

TEST_P(HttpClientTest, ARequestThatNeverConnectedWasNotDone) {
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  const BlackHole hole("127.0.0.2", server.port());
  HttpRequest request = Put("http://127.0.0.2:" + std::to_string(server.port()) + "/");
  request.deadline = Duration::Milliseconds(50);
  ExpectError(Fetch(request), Code::kDeadlineExceeded, Outcome::kNotDone);
}

TEST_P(HttpClientTest, ALinkLocalAddressCanBeForbiddenHoweverItIsNamed) {
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  const std::string port = std::to_string(server.port());
  MakeClient({.fixed_addresses = {"one.invalid:" + port + ":169.254.169.254",
                                  "six.invalid:" + port + ":[fe80::1]",
                                  "two.invalid:" + port + ":169.254.169.254,127.0.0.1"}});
  for (const char* host : {"one.invalid", "six.invalid", "169.254.169.254"}) {
    HttpRequest request = Put("http://" + std::string(host) + ":" + port + "/");
    request.addresses = HttpAddresses::kNotLinkLocal;
    SCOPED_TRACE(host);
    ExpectError(Fetch(request), Code::kFailedPrecondition, Outcome::kNotDone);
  }
  HttpRequest request = Put("http://two.invalid:" + port + "/");
  request.addresses = HttpAddresses::kNotLinkLocal;
  const auto answer = Fetch(request);
  EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
}

TEST(LinkLocalTest, AddressesAreToldApart) {
  for (const char* ip : {"169.254.169.254", "169.254.0.0", "fe80::1", "febf::1", "fd00:ec2::254",
                         "::ffff:169.254.169.254", "", "nonsense"}) {
    EXPECT_TRUE(http::MayBeLinkLocal(ip)) << ip;
  }
  for (const char* ip : {"127.0.0.1", "169.253.1.1", "10.0.0.1", "::1", "fec0::1", "fd00:ec2::1",
                         "2001:db8::1", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(http::MayBeLinkLocal(ip)) << ip;
  }
}

TEST_P(HttpClientTest, AProxyIsUsedWhenGiven) {
  RawHttpServer proxy(AnswerAll(Answer(200, "from the proxy")));
  MakeClient({.proxy = proxy.Url("")});
  const auto answer = Fetch(Get("http://example.invalid/path"));
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->body, "from the proxy");
  EXPECT_EQ(proxy.requests().at(0).Target(), "http://example.invalid/path");
}

// --- Cancelling.

TEST_P(HttpClientTest, ACancelledRequestIsNotAnsweredAndItsConnectionIsClosed) {
  RawHttpServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.WaitForClose();
  });
  auto alive = std::make_shared<int>();
  Pending pending = client->Send(Get(server.Url("/")), [alive](const auto&) { FAIL(); });
  ASSERT_TRUE(RunUntil(home, [&] { return server.requests().size() == 1; }));
  pending.Cancel();
  EXPECT_EQ(alive.use_count(), 1) << "the callback is still there";
  EXPECT_TRUE(RunUntil(home, [&] { return server.open() == 0; }));
}

TEST_P(HttpClientTest, ACancelledRequestLeavesTheQueue) {
  MakeClient({.max_in_flight = 1, .max_waiting = 1});
  RawHttpServer server([](RawConnection& connection) {
    while (connection.ReadRequest()) {
      connection.WaitForGate();
      connection.Write(Answer(200, "a"));
    }
  });
  bool answered = false;
  const Pending running =
      client->Send(Get(server.Url("/1")), [&](const auto&) { answered = true; });
  Pending queued = client->Send(Get(server.Url("/2")), [](const auto&) { FAIL(); });
  queued.Cancel();
  bool second = false;
  const Pending after = client->Send(Get(server.Url("/3")), [&](const auto& answer) {
    EXPECT_TRUE(answer.has_value());
    second = true;
  });
  server.OpenGate();
  ASSERT_TRUE(RunUntil(home, [&] { return answered && second; }));
  EXPECT_THAT(server.requests(), SizeIs(2));
  EXPECT_EQ(server.requests().at(1).Target(), "/3");
}

TEST_P(HttpClientTest, ACallbackMayCancelOthersAndItself) {
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  std::vector<Pending> pending(10);
  int answers = 0;
  for (Pending& one : pending) {
    one = client->Send(Get(server.Url("/")), [&](const auto&) {
      ++answers;
      pending.clear();  // Also its own, and those whose answers are here already.
    });
  }
  ASSERT_TRUE(RunUntil(home, [&] { return answers > 0; }));
  ASSERT_TRUE(Fetch(Get(server.Url("/"))).has_value());
  EXPECT_EQ(answers, 1);
}

TEST_P(HttpClientTest, AnAnswerThatIsOnItsWayIsDroppedWhenCancelled) {
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  Pending pending = client->Send(Get(server.Url("/")), [](const auto&) { FAIL(); });
  if (GetParam() == Arrangement::kTwoLoops) {
    // Home does not turn, so the answer is posted and waits.
    RealLoop elsewhere;
    ASSERT_TRUE(RunUntil(elsewhere, [&] { return server.bytes_written() > 0; }));
  }
  pending.Cancel();
  ASSERT_TRUE(Fetch(Get(server.Url("/"))).has_value());
}

TEST_P(HttpClientTest, AStreamMayCancelItselfFromEachOfItsCallbacks) {
  RawHttpServer server(AnswerAll(Answer(200, std::string(kMebibyte, 'a'))));
  for (const char* where : {"head", "data", "end"}) {
    SCOPED_TRACE(where);
    Pending pending;
    bool cancelled = false;
    const auto cancel = [&](std::string_view here) {
      EXPECT_FALSE(cancelled) << "an event after the cancellation";
      if (here != where) return;
      pending.Cancel();
      cancelled = true;
    };
    pending = client->Stream(Get(server.Url("/")), {.head = [=](HttpResponse) { cancel("head"); },
                                                    .data = [=](std::string) { cancel("data"); },
                                                    .end = [=](Status) { cancel("end"); }});
    ASSERT_TRUE(RunUntil(home, [&] { return cancelled; }));
    ASSERT_TRUE(Fetch(Get(server.Url("/"))).has_value());
  }
}

TEST_P(HttpClientTest, ACallbackMaySendTheNextRequest) {
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  int answers = 0;
  Pending pending;
  std::function<void()> send = [&] {
    pending = client->Send(Get(server.Url("/")), [&](const auto&) {
      if (++answers < 50) send();
    });
  };
  send();
  ASSERT_TRUE(RunUntil(home, [&] { return answers == 50; }));
  EXPECT_EQ(server.accepted(), 1);
}

TEST_P(HttpClientTest, ADestroyedClientAnswersNobody) {
  RawHttpServer server([](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      if (request->Target() == "/wait") return connection.WaitForClose();
      connection.Write(Answer(200, std::string(kMebibyte, 'a')));
    }
  });
  MakeClient({.max_in_flight = 4});
  auto alive = std::make_shared<int>();
  std::vector<Pending> pending;
  for (int i = 0; i < 20; ++i) {
    pending.push_back(client->Send(Get(server.Url(i % 2 == 0 ? "/wait" : "/")),
                                   [alive](const auto&) { FAIL(); }));
  }
  StreamLog log;
  pending.push_back(client->Stream(Get(server.Url("/")), log.Events()));
  RealLoop elsewhere;
  if (GetParam() == Arrangement::kTwoLoops) {
    ASSERT_TRUE(RunUntil(elsewhere, [&] { return server.requests().size() >= 4; }));
  }
  client.reset();
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_TRUE(RunUntil(home, [&] { return server.open() == 0; })) << "connections stay open";
}

TEST_P(HttpClientTest, ACallbackMayDestroyTheClient) {
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  std::vector<Pending> pending;
  int answers = 0;
  for (int i = 0; i < 5; ++i) {
    pending.push_back(client->Send(Get(server.Url("/")), [&](const auto&) {
      ++answers;
      client.reset();
    }));
  }
  StreamLog log;
  ASSERT_TRUE(RunUntil(home, [&] { return answers > 0; }));
  MakeClient({});
  bool destroyed = false;
  pending.push_back(client->Stream(Get(server.Url("/")), {.head = {},
                                                          .data =
                                                              [&](std::string) {
                                                                client.reset();
                                                                destroyed = true;
                                                              },
                                                          .end = [](Status) { FAIL(); }}));
  ASSERT_TRUE(RunUntil(home, [&] { return destroyed; }));
  EXPECT_TRUE(RunUntil(home, [&] { return server.open() == 0; }));
  EXPECT_EQ(answers, 1);
}

// --- Without parameters: how the pieces come apart.

TEST(HttpClientTeardownTest, TheSocketsLoopMayEndBeforeTheClientDoes) {
  RawHttpServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.WaitForClose();
  });
  RealLoop home;
  RealLoop io;
  auto client = std::make_unique<CurlHttpClient>(CurlHttpClient::Deps{.io = io, .home = home});
  const Pending pending = client->Send(Get(server.Url("/")), [](const auto&) { FAIL(); });
  std::thread thread([&] { io.Run(); });
  ASSERT_TRUE(RunUntil(home, [&] { return server.requests().size() == 1; }));
  io.Stop();
  thread.join();
  client.reset();  // Its last task never runs; it is destroyed with the loop.
}

TEST(HttpClientTeardownTest, TheCallersLoopMayEndRightAfterTheClient) {
  RawHttpServer server(AnswerAll(Answer(200, "a")));
  LoopThread io;
  for (int i = 0; i < 50; ++i) {
    RealLoop home;
    CurlHttpClient client({.io = io.loop(), .home = home});
    const std::size_t before = server.bytes_written();
    std::vector<Pending> pending;
    for (int n = 0; n < 5; ++n) {
      pending.push_back(client.Send(Get(server.Url("/")), [](const auto&) { FAIL(); }));
    }
    RealLoop elsewhere;
    if (i % 2 == 0) {
      ASSERT_TRUE(RunUntil(elsewhere, [&] { return server.bytes_written() > before; }));
    }
  }
}

}  // namespace
}  // namespace nstance::test

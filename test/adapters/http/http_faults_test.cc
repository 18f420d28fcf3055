// Everything that a server can do wrong, one row each: the code and the outcome are asserted for a
// read and for a change, as an answer and as a stream.
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "test/adapters/http/http_fixture.h"

namespace nstance::test {
namespace {

struct Fault {
  // For messages of failing tests.
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

  std::string name = {};
  // After the request was read.
  std::function<void(RawConnection&)> act = {};
  Code code = Code::kUnavailable;
  // Some faults are none for a stream, which has no total length.
  std::optional<Code> stream_code = Code::kUnavailable;
};

std::function<void(RawConnection&)> Say(std::string bytes) {
  return [bytes = std::move(bytes)](RawConnection& connection) { connection.Write(bytes); };
}
// Without hanging up: the client has to notice by itself.
std::function<void(RawConnection&)> SayAndWait(std::string bytes) {
  return [bytes = std::move(bytes)](RawConnection& connection) {
    connection.Write(bytes);
    connection.WaitForClose();
  };
}
// Again and again until the client hangs up.
std::function<void(RawConnection&)> SayForever(std::string first, std::string again) {
  return [first = std::move(first), again = std::move(again)](RawConnection& connection) {
    std::string many;
    while (many.size() < 16'384) many += again;
    if (!connection.Write(first)) return;
    while (connection.Write(many)) {
    }
  };
}

std::string Repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

constexpr Code kTooMuch = Code::kResourceExhausted;

std::vector<Fault> Faults() {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::string two_mebibytes(2 * 1024 * 1024, 'a');
  return {
      {.name = "ClosesBeforeAnswering", .act = [](RawConnection&) {}},
      {.name = "ResetsBeforeAnswering", .act = [](RawConnection& c) { c.Reset(); }},
      {.name = "CutInTheStatusLine", .act = Say("HTTP/1.1 2")},
      {.name = "CutInTheHeaders", .act = Say(ok + "Content-Length: 5\r\nX-A")},
      {.name = "CutBeforeTheEmptyLine", .act = Say(ok + "Content-Length: 0\r\n")},
      {.name = "CutInTheBody", .act = Say(ok + "Content-Length: 10\r\n\r\nabc")},
      {.name = "CutInAChunk", .act = Say(ok + "Transfer-Encoding: chunked\r\n\r\nff\r\nabc")},
      {.name = "CutBetweenChunks",
       .act = Say(ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")},
      {.name = "ResetInTheBody",
       .act =
           [ok](RawConnection& c) {
             c.Write(ok + "Content-Length: 10\r\n\r\nabc");
             c.Reset();
           }},
      {.name = "Garbage", .act = Say("\x16\x03\x01 this is not HTTP\r\n\r\n")},
      {.name = "GarbageWithoutAnyEnd", .act = SayForever("", "garbage ")},
      {.name = "AnswersAsHttp09", .act = Say("<html>hello</html>")},
      {.name = "StatusOfFourDigits", .act = Say("HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n")},
      {.name = "StatusOfLetters", .act = Say("HTTP/1.1 abc\r\nContent-Length: 0\r\n\r\n")},
      {.name = "OtherProtocolVersion", .act = Say("HTTP/7.3 200 OK\r\nContent-Length: 0\r\n\r\n")},
      {.name = "OnlyAnInterimAnswer", .act = Say("HTTP/1.1 103 Early Hints\r\n\r\n")},
      {.name = "SwitchesProtocolsUnasked",
       .act = Say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nabc")},
      {.name = "TwoLengths",
       .act = SayAndWait(ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd")},
      {.name = "NegativeLength", .act = SayAndWait(ok + "Content-Length: -1\r\n\r\nabcd")},
      {.name = "HugeLength",
       .act = SayAndWait(ok + "Content-Length: 99999999999999999999999\r\n\r\nabcd")},
      {.name = "LengthThatIsNoNumber", .act = SayAndWait(ok + "Content-Length: 3 4\r\n\r\nabcd")},
      {.name = "MalformedChunk",
       .act = SayAndWait(ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n")},
      {.name = "FoldedHeader", .act = SayAndWait(ok + "X-A: a\r\n b\r\nContent-Length: 0\r\n\r\n")},
      {.name = "HeaderWithoutColon", .act = SayAndWait(ok + "X-A\r\nContent-Length: 0\r\n\r\n")},
      {.name = "HeaderWithABlankInItsName",
       .act = SayAndWait(ok + "Content-Length : 0\r\nContent-Length: 0\r\n\r\n")},
      {.name = "HeaderWithNul",
       .act = SayAndWait(ok + std::string("X-A: a\0b\r\n", 10) + "Content-Length: 0\r\n\r\n")},
      {.name = "HeaderWithBareReturn",
       .act = SayAndWait(ok + "X-A: a\rb\r\nContent-Length: 0\r\n\r\n")},
      {.name = "OneEndlessHeader",
       .act = SayForever(ok + "X-A: ", "a"),
       .code = kTooMuch,
       .stream_code = kTooMuch},
      {.name = "EndlessHeaders",
       .act = SayForever(ok, "X-A: abc\r\n"),
       .code = kTooMuch,
       .stream_code = kTooMuch},
      {.name = "FewButHugeHeaders",
       .act = SayForever(ok, "X-A: " + std::string(8'000, 'a') + "\r\n"),
       .code = kTooMuch,
       .stream_code = kTooMuch},
      {.name = "ThreeHundredSmallHeaders",
       .act = SayAndWait(ok + Repeated("X-A: abc\r\n", 300) + "Content-Length: 0\r\n\r\n"),
       .code = kTooMuch,
       .stream_code = kTooMuch},
      {.name = "EndlessInterimAnswers",
       .act = SayForever("", "HTTP/1.1 102 Processing\r\n\r\n"),
       .code = kTooMuch,
       .stream_code = kTooMuch},
      {.name = "EndlessTrailers",
       .act = SayForever(ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n", "X-A: abc\r\n"),
       .code = kTooMuch,
       .stream_code = kTooMuch},
      {.name = "BodyAboveTheLimit",
       .act = SayAndWait(Answer(200, two_mebibytes)),
       .code = kTooMuch,
       .stream_code = std::nullopt},
      {.name = "EndlessChunks",
       .act = SayForever(ok + "Transfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n"),
       .code = kTooMuch,
       .stream_code = std::nullopt},
      {.name = "EndlessBodyWithoutLength",
       .act = SayForever(ok + "\r\n", "abc"),
       .code = kTooMuch,
       .stream_code = std::nullopt},
      {.name = "NeverAnswers",
       .act = [](RawConnection& c) { c.WaitForClose(); },
       .code = Code::kDeadlineExceeded,
       .stream_code = Code::kDeadlineExceeded},
      {.name = "NeverEndsItsHeaders",
       .act = SayAndWait(ok + "X-A: a\r\n"),
       .code = Code::kDeadlineExceeded,
       .stream_code = Code::kDeadlineExceeded},
      {.name = "NeverEndsItsBody",
       .act = SayAndWait(ok + "Content-Length: 10\r\n\r\nabc"),
       .code = Code::kDeadlineExceeded,
       .stream_code = std::nullopt},
      {.name = "SlowBytes",
       .act =
           [](RawConnection& c) {
             // Never silent and never done.
             bool there = c.Write("HTTP/1.1 200 OK\r\nX-A: ");
             while (there && !c.HeardWithin(5)) there = c.Write("a");
           },
       .code = Code::kDeadlineExceeded,
       .stream_code = Code::kDeadlineExceeded},
  };
}

using Case = std::tuple<Arrangement, Fault>;

class HttpFaultTest : public testing::TestWithParam<Case>, public HttpHarness {
 protected:
  HttpFaultTest() : HttpHarness(std::get<Arrangement>(GetParam())) {}

  [[nodiscard]] static const Fault& fault() { return std::get<Fault>(GetParam()); }
  [[nodiscard]] static RawHttpServer::Script Script() {
    return [act = fault().act](RawConnection& connection) {
      if (connection.ReadRequest().has_value()) act(connection);
    };
  }
  // As short as it may be where it has to run out.
  [[nodiscard]] static HttpRequest WithDeadline(HttpRequest request) {
    if (fault().code == Code::kDeadlineExceeded) request.deadline = Duration::Milliseconds(100);
    return request;
  }
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const bool one = std::get<Arrangement>(info.param) == Arrangement::kOneLoop;
  return (one ? "OneLoop" : "TwoLoops") + std::get<Fault>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Faults, HttpFaultTest,
                         testing::Combine(testing::Values(Arrangement::kOneLoop,
                                                          Arrangement::kTwoLoops),
                                          testing::ValuesIn(Faults())),
                         CaseName);

TEST_P(HttpFaultTest, AReadFailsWithoutEffect) {
  RawHttpServer server(Script());
  ExpectError(Fetch(WithDeadline(Get(server.Url("/")))), fault().code, Outcome::kNotDone);
  EXPECT_TRUE(RunUntil(home, [&] { return server.open() == 0; })) << "the connection stays open";
}

TEST_P(HttpFaultTest, AChangeMayBeDone) {
  RawHttpServer server(Script());
  ExpectError(Fetch(WithDeadline(Put(server.Url("/")))), fault().code, Outcome::kMaybeDone);
  EXPECT_EQ(server.requests().size(), 1U);
  EXPECT_TRUE(RunUntil(home, [&] { return server.open() == 0; })) << "the connection stays open";
}

class HttpStreamFaultTest : public HttpFaultTest {};

std::vector<Fault> StreamFaults() {
  std::vector<Fault> faults = Faults();
  std::erase_if(faults, [](const Fault& fault) { return !fault.stream_code.has_value(); });
  return faults;
}

INSTANTIATE_TEST_SUITE_P(Faults, HttpStreamFaultTest,
                         testing::Combine(testing::Values(Arrangement::kOneLoop,
                                                          Arrangement::kTwoLoops),
                                          testing::ValuesIn(StreamFaults())),
                         CaseName);

TEST_P(HttpStreamFaultTest, AStreamEndsWithTheError) {
  RawHttpServer server(Script());
  const StreamLog log = FetchStream(WithDeadline(Get(server.Url("/"))));
  ASSERT_TRUE(log.end.has_value() && !log.end->has_value());
  EXPECT_EQ(CodeName(log.end->error().code), CodeName(*fault().stream_code))
      << log.end->error().ToString();
}

// --- Nothing was sent, so nothing was done.

class HttpUnreachableTest : public HttpClientFixture {};
INSTANTIATE_TEST_SUITE_P(Loops, HttpUnreachableTest,
                         testing::Values(Arrangement::kOneLoop, Arrangement::kTwoLoops),
                         ArrangementName);

TEST_P(HttpUnreachableTest, ARefusedConnectionIsNotDone) {
  RawHttpServer server(AnswerAll(Answer(200, "")));
  server.StopListening();
  ExpectError(Fetch(Get(server.Url("/"))), Code::kUnavailable, Outcome::kNotDone);
  ExpectError(Fetch(Put(server.Url("/"))), Code::kUnavailable, Outcome::kNotDone);
}

TEST_P(HttpUnreachableTest, ANameThatDoesNotResolveIsNotDone) {
  // Too long for a label, so that no name server is asked.
  const std::string url = "http://" + std::string(70, 'a') + ".invalid/";
  ExpectError(Fetch(Get(url)), Code::kUnavailable, Outcome::kNotDone);
  ExpectError(Fetch(Put(url)), Code::kUnavailable, Outcome::kNotDone);
}

TEST_P(HttpUnreachableTest, AServerThatSpeaksNoTlsIsNotDone) {
  RawHttpServer server([](RawConnection& connection) {
    connection.Write("HTTP/1.1 400 Bad Request\r\n\r\n");
    connection.WaitForClose();
  });
  const std::string url = "https" + server.Url("/").substr(4);
  ExpectError(Fetch(Get(url)), Code::kUnavailable, Outcome::kNotDone);
  ExpectError(Fetch(Put(url)), Code::kUnavailable, Outcome::kNotDone);
}

TEST_P(HttpUnreachableTest, AServerThatNeverFinishesItsHandshakeIsNotDone) {
  RawHttpServer server([](RawConnection& connection) { connection.WaitForClose(); });
  HttpRequest request = Put("https" + server.Url("/").substr(4));
  request.deadline = Duration::Milliseconds(50);
  ExpectError(Fetch(request), Code::kDeadlineExceeded, Outcome::kNotDone);
}

}  // namespace
}  // namespace nstance::test

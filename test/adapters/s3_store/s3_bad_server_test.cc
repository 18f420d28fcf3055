// The store against a real server that misbehaves: wrong bytes on the wire, redirects, lost
// answers. The rows BI-104 to BI-106 of the bad-input corpus that need a connection.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/s3_store/s3_store.h"
#include "storage/settled_put.h"
#include "test/support/aws_signature_check.h"
#include "test/support/loop_runner.h"
#include "test/support/raw_http_server.h"

namespace nstance::s3 {
namespace {

using test::Answer;
using test::AnswerAll;
using test::RawConnection;
using test::RawHttpServer;
using test::RawRequest;

constexpr std::string_view kSecret = "CANARY/secret+key";

ObjectKey Key(std::string_view text) { return ObjectKey::Parse(text).value(); }

class S3BadServerTest : public testing::Test {
 public:
  S3Store& Store(const RawHttpServer& server, Duration deadline = Duration::Seconds(20)) {
    store_ =
        S3Store::Make({.loop = loop, .http = http, .credentials = credentials, .prng = Prng(1)},
                      {.bucket = "bucket", .endpoint = server.Url(""), .deadline = deadline})
            .value();
    return *store_;
  }

  template <class T, class F>
  Result<T> Await(F ask) {
    std::optional<Result<T>> answer;
    const Pending pending = ask([&](Result<T> said) { answer = std::move(said); });
    if (!test::RunUntil(loop, [&] { return answer.has_value(); }))
      return Fail(Internal("no answer"));
    if (!*answer) {
      EXPECT_FALSE(answer->error().message.contains("CANARY")) << answer->error().message;
    }
    return *std::move(answer);
  }
  Result<Object> Get(S3Store& store) {
    return Await<Object>([&](auto done) { return store.Get(Key("a"), std::move(done)); });
  }
  Result<ObjectVersion> Put(S3Store& store, PutCondition condition = IfAbsent{}) {
    return Await<ObjectVersion>([&](auto done) {
      return store.Put(
          {.key = Key("odd(key)/+&='~!*.json"), .bytes = "bytes", .condition = condition},
          std::move(done));
    });
  }
  Result<ListPage> List(S3Store& store) {
    return Await<ListPage>([&](auto done) { return store.List({.prefix = "a"}, std::move(done)); });
  }

  static aws::AwsSettings Keys() {
    aws::AwsSettings settings;
    settings.access_key = "AKIA";
    settings.secret_key = kSecret;
    settings.session_token = "CANARY-session";
    return settings;
  }

  RealLoop loop;
  CurlHttpClient http{{.io = loop, .home = loop}};
  aws::AwsCredentials credentials{{.loop = loop, .http = http, .environment = {}}, Keys()};

 private:
  std::unique_ptr<S3Store> store_;
};

TEST_F(S3BadServerTest, EveryRequestIsSignedAsItIsSent) {
  RawHttpServer server([](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      const bool list = request->Target().contains("list-type");
      connection.Write(list ? Answer(200,
                                     "<ListBucketResult><IsTruncated>false</IsTruncated>"
                                     "</ListBucketResult>")
                            : Answer(200, "", "ETag: \"t\"\r\n"));
    }
  });
  S3Store& store = Store(server);
  store.set_conditional_delete(ConditionalDelete::kIfMatch);
  EXPECT_TRUE(Put(store));
  EXPECT_TRUE(Put(store, IfVersion{{.text = "t"}}));
  EXPECT_TRUE(Get(store));
  EXPECT_TRUE(List(store));
  EXPECT_TRUE(Await<ObjectHead>([&](auto done) { return store.Head(Key("a"), std::move(done)); }));
  EXPECT_TRUE(Await<void>([&](auto done) {
    return store.Delete({.key = Key("a"), .version = ObjectVersion{"t"}}, std::move(done));
  }));
  ASSERT_EQ(server.requests().size(), 6U);
  for (const RawRequest& request : server.requests()) {
    EXPECT_EQ(test::CheckAwsSignature(request, kSecret), "") << request.head;
  }
  EXPECT_EQ(server.requests()[0].Value("content-md5"), "SzpiGLs+OnMD6KFxpg/Pkg==");
  EXPECT_EQ(server.requests()[0].Target(), "/bucket/odd%28key%29/%2B%26%3D%27~%21%2A.json");
}

TEST_F(S3BadServerTest, BI105_AShortBodyIsAnError) {
  RawHttpServer server(
      AnswerAll("HTTP/1.1 200 OK\r\nETag: \"t\"\r\nContent-Length: 10\r\n\r\nshort"));
  const auto object = Get(Store(server, Duration::Seconds(2)));
  ASSERT_FALSE(object);
  EXPECT_NE(object.error().code, Code::kNotFound);
}

TEST_F(S3BadServerTest, BI105_ABodyThatEndsWithTheConnectionIsAnError) {
  RawHttpServer server([](RawConnection& connection) {
    if (connection.ReadRequest()) connection.Write("HTTP/1.1 200 OK\r\nETag: \"t\"\r\n\r\nhalf of");
  });
  const auto object = Get(Store(server));
  ASSERT_FALSE(object);
  EXPECT_EQ(object.error().code, Code::kUnavailable) << object.error().ToString();
}

TEST_F(S3BadServerTest, BI105_AnswersThatWereNotAskedForAreErrors) {
  for (const std::string& answer :
       {Answer(200, "zip", "ETag: \"t\"\r\nContent-Encoding: gzip\r\n"),
        Answer(206, "part", "ETag: \"t\"\r\nContent-Range: bytes 0-3/10\r\n"),
        std::string("HTTP/1.1 304 Not Modified\r\nETag: \"t\"\r\n\r\n"),
        Answer(200, "x", "ETag: W/\"t\"\r\n"), Answer(200, "x", "ETag: \"a\"b\"\r\n"),
        Answer(200, "x")}) {
    RawHttpServer server(AnswerAll(answer));
    const auto object = Get(Store(server));
    ASSERT_FALSE(object) << answer;
    EXPECT_EQ(object.error().code, Code::kUnavailable) << object.error().ToString();
  }
}

TEST_F(S3BadServerTest, BI105_AWrongTagLeadsToAConflictAndNeverToALostUpdate) {
  // The store tells a tag that it does not know itself: the next write under it is refused, and
  // read again, instead of overwriting something unseen.
  RawHttpServer server([](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      const bool matches = request->Value("if-match") == "\"real\"";
      connection.Write(request->Method() == "GET" ? Answer(200, "other", "ETag: \"wrong\"\r\n")
                       : matches                  ? Answer(200, "", "ETag: \"real\"\r\n")
                                                  : Answer(412, ""));
    }
  });
  S3Store& store = Store(server);
  const auto object = Get(store);
  ASSERT_TRUE(object) << object.error().ToString();
  const auto put = Put(store, IfVersion{object->version});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kAborted);
}

TEST_F(S3BadServerTest, BI105_CredentialsNeverFollowARedirect) {
  RawHttpServer other(AnswerAll(Answer(200, "stolen", "ETag: \"t\"\r\n")));
  for (const int status : {301, 302, 303, 307, 308}) {
    RawHttpServer server(
        AnswerAll(Answer(status, "", "Location: " + other.Url("/bucket/a") + "\r\n")));
    S3Store& store = Store(server);
    EXPECT_EQ(Get(store).error().code, Code::kUnavailable) << status;
    EXPECT_EQ(List(store).error().code, Code::kUnavailable) << status;
    const auto put = Put(store);
    ASSERT_FALSE(put) << status;
    EXPECT_EQ(put.error().code, Code::kUnavailable) << status;
    EXPECT_EQ(put.error().outcome, Outcome::kNotDone) << status;
  }
  EXPECT_EQ(other.accepted(), 0);
}

TEST_F(S3BadServerTest, BI104_ACutListingAnEntityBombAndAnErrorUnder200AreErrors) {
  std::string bomb = "<!DOCTYPE l [<!ENTITY a \"aaaaaaaaaa\">";
  for (char c = 'b'; c <= 'j'; ++c) {
    const char before = static_cast<char>(c - 1);
    bomb += fmt::format("<!ENTITY {} \"&{};&{};&{};&{};&{};&{};&{};&{};\">", c, before, before,
                        before, before, before, before, before, before);
  }
  bomb += "]><ListBucketResult><Name>&j;</Name><IsTruncated>false</IsTruncated></ListBucketResult>";
  for (const std::string& body :
       {std::string("<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key>"),
        bomb, std::string("<Error><Code>InternalError</Code></Error>"), std::string()}) {
    RawHttpServer server(AnswerAll(Answer(200, body)));
    const auto page = List(Store(server));
    ASSERT_FALSE(page) << body.substr(0, 80);
    EXPECT_EQ(page.error().code, Code::kUnavailable) << page.error().ToString();
  }
}

TEST_F(S3BadServerTest, BI104_AListingAboveTheLimitIsAnErrorBeforeItIsAllHere) {
  RawHttpServer server([](RawConnection& connection) {
    if (!connection.ReadRequest()) return;
    connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string chunk = fmt::format("{:x}\r\n{}\r\n", 65'536, std::string(65'536, ' '));
    while (connection.Write(chunk)) continue;
  });
  const auto page = List(Store(server));
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Code::kResourceExhausted) << page.error().ToString();
  EXPECT_LT(server.bytes_written(), std::size_t{64} * 1024 * 1024);
}

TEST_F(S3BadServerTest, AnObjectAboveTheLimitIsAnError) {
  RawHttpServer server(AnswerAll(
      Answer(200, std::string(ObjectStore::kMaxObjectBytes + 1, 'x'), "ETag: \"t\"\r\n")));
  EXPECT_EQ(Get(Store(server)).error().code, Code::kResourceExhausted);
}

// A server that keeps one object, and tells tags of writes in its own way.
class OneObject final {
 public:
  explicit OneObject(std::string put_headers)
      : put_headers_(std::move(put_headers)),
        server_([this](RawConnection& connection) { Serve(connection); }) {}
  [[nodiscard]] RawHttpServer& server() { return server_; }

 private:
  void Serve(RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      if (request->Method() == "PUT") {
        bytes_ = request->body;
        connection.Write(Answer(200, "", put_headers_));
      } else {
        connection.Write(Answer(200, bytes_, "ETag: \"opaque-2\"\r\n"));
      }
    }
  }

  std::string put_headers_;
  std::string bytes_;
  RawHttpServer server_;
};

TEST_F(S3BadServerTest, BI106_AWriteWithoutAUsableTagIsReadBackAndItsTagIsOpaque) {
  for (const std::string headers : {"", "ETag: W/\"weak\"\r\n", "ETag: \"0123-2\"\r\n"}) {
    OneObject object(headers);
    S3Store& store = Store(object.server());
    Prng jitter(1);
    std::optional<Result<ObjectVersion>> answer;
    SettledPut settled(
        {.loop = loop, .store = store, .jitter = jitter},
        {.put = {.key = Key("a"), .bytes = "with write id 1", .condition = IfAbsent{}},
         .deadline = loop.Now() + Duration::Seconds(10)},
        [&](Result<ObjectVersion> version) { answer = std::move(version); });
    settled.Start();
    ASSERT_TRUE(test::RunUntil(loop, [&] { return answer.has_value(); }));
    ASSERT_TRUE(*answer) << answer->error().ToString();
    EXPECT_EQ((*answer)->text, "opaque-2") << headers;
    EXPECT_EQ(object.server().requests().size(), 2U) << headers;
  }
}

TEST_F(S3BadServerTest, ALostAnswerToAWriteIsMaybeDoneAndIsNotRepeated) {
  RawHttpServer server([](RawConnection& connection) {
    if (connection.ReadRequest()) connection.Reset();
  });
  const auto put = Put(Store(server));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().outcome, Outcome::kMaybeDone) << put.error().ToString();
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(S3BadServerTest, ASilentServerEndsTheCallAtTheDeadline) {
  RawHttpServer server([](RawConnection& connection) {
    if (connection.ReadRequest()) connection.WaitForClose();
  });
  const auto put = Put(Store(server, Duration::Milliseconds(200)));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kDeadlineExceeded) << put.error().ToString();
  EXPECT_EQ(put.error().outcome, Outcome::kMaybeDone);
}

TEST_F(S3BadServerTest, WithNobodyListeningAWriteIsNotDone) {
  RawHttpServer server(AnswerAll(Answer(200, "")));
  server.StopListening();
  const auto put = Put(Store(server));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kUnavailable) << put.error().ToString();
  EXPECT_EQ(put.error().outcome, Outcome::kNotDone);
}

TEST_F(S3BadServerTest, AReadOutlivesAConnectionThatIsReset) {
  RawHttpServer server([](RawConnection& connection) {
    while (connection.ReadRequest()) {
      if (connection.number() < 2) return connection.Reset();
      connection.Write(
          Answer(200, "bytes", "ETag: \"t\"\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
    }
  });
  const auto object = Get(Store(server));
  ASSERT_TRUE(object) << object.error().ToString();
  EXPECT_EQ(object->bytes, "bytes");
  EXPECT_EQ(server.requests().size(), 3U);
}

}  // namespace
}  // namespace nstance::s3

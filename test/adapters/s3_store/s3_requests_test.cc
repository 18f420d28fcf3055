// What the store sends, in simulated time and without a network; and how often.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/s3_store/s3_store.h"
#include "sim/sim_loop.h"
#include "test/support/scripted_http.h"

namespace nstance::s3 {
namespace {

using test::HeaderOf;
using test::Reply;
using test::ScriptedHttp;

ObjectKey Key(std::string_view text) { return ObjectKey::Parse(text).value(); }

class S3RequestsTest : public testing::Test {
 public:
  S3RequestsTest() { Make({.bucket = "bucket", .region = "eu-west-1"}); }

  void Make(const S3Options& options) {
    store = S3Store::Make({.loop = loop, .http = http, .credentials = credentials, .prng = Prng(1)},
                          options)
                .value();
  }

  template <class T, class F>
  Result<T> Await(F ask) {
    std::optional<Result<T>> answer;
    const Pending pending = ask([&](Result<T> said) { answer = std::move(said); });
    EXPECT_FALSE(answer.has_value()) << "answered from inside the call";
    scheduler.RunUntilTrue([&] { return answer.has_value(); }, Duration::Minutes(1));
    return answer ? *std::move(answer) : Fail(Internal("no answer"));
  }
  Result<ObjectVersion> Put(PutCondition condition, std::string bytes = "bytes") {
    return Await<ObjectVersion>([&](auto done) {
      return store->Put({.key = Key("a+b%/c.json"), .bytes = bytes, .condition = condition},
                        std::move(done));
    });
  }
  Status Delete(std::optional<ObjectVersion> version) {
    return Await<void>([&](auto done) {
      return store->Delete({.key = Key("a"), .version = version}, std::move(done));
    });
  }
  Result<Object> Get() {
    return Await<Object>([&](auto done) { return store->Get(Key("a"), std::move(done)); });
  }
  Result<ListPage> List(ListRequest request) {
    return Await<ListPage>([&](auto done) { return store->List(request, std::move(done)); });
  }

  static aws::AwsSettings Keys() {
    aws::AwsSettings settings;
    settings.access_key = "AKIA";
    settings.secret_key = "secret";
    return settings;
  }

  sim::SimScheduler scheduler{1};
  sim::SimLoop loop{scheduler, Timestamp::FromUnix(1'700'000'000)};
  ScriptedHttp http{loop};
  aws::AwsCredentials credentials{{.loop = loop, .http = http, .environment = {}}, Keys()};
  std::unique_ptr<S3Store> store;
};

TEST_F(S3RequestsTest, AWriteCarriesItsConditionDigestAndType) {
  http.Answer(Reply(200, "", {{.name = "etag", .value = "\"new\""}}));
  EXPECT_EQ(Put(IfAbsent{})->text, "new");
  EXPECT_EQ(http.last().method, HttpMethod::kPut);
  EXPECT_EQ(http.last().url, "https://bucket.s3.eu-west-1.amazonaws.com/a%2Bb%25/c.json");
  EXPECT_EQ(HeaderOf(http.last(), "if-none-match"), "*");
  EXPECT_EQ(HeaderOf(http.last(), "if-match"), std::nullopt);
  EXPECT_EQ(HeaderOf(http.last(), "content-md5"), "SzpiGLs+OnMD6KFxpg/Pkg==");
  EXPECT_EQ(HeaderOf(http.last(), "content-type"), "application/json");
  EXPECT_EQ(http.last().body, "bytes");
  EXPECT_EQ(http.last().max_redirects, 0);
  ASSERT_TRUE(http.last().aws_signature.has_value());
  EXPECT_EQ(http.last().aws_signature->region, "eu-west-1");
  EXPECT_EQ(http.last().aws_signature->service, "s3");
  EXPECT_TRUE(Put(IfVersion{{.text = "old-2"}}));
  EXPECT_EQ(HeaderOf(http.last(), "if-match"), "\"old-2\"");
  EXPECT_EQ(HeaderOf(http.last(), "if-none-match"), std::nullopt);
}

TEST_F(S3RequestsTest, ARepairCarriesNoCondition) {
  http.Answer(Reply(200, "", {{.name = "etag", .value = "\"new\""}}));
  EXPECT_TRUE(Await<ObjectVersion>(
      [&](auto done) { return store->PutUnconditionally(Key("a"), "x", std::move(done)); }));
  EXPECT_EQ(HeaderOf(http.last(), "if-match"), std::nullopt);
  EXPECT_EQ(HeaderOf(http.last(), "if-none-match"), std::nullopt);
}

TEST_F(S3RequestsTest, AWriteIsSentOnce) {
  for (const int status : {500, 503, 429, 408}) {
    const std::size_t before = http.requests().size();
    http.Answer(Reply(status, ""));
    EXPECT_FALSE(Put(IfAbsent{}));
    scheduler.RunFor(Duration::Minutes(1));
    EXPECT_EQ(http.requests().size(), before + 1) << status;
  }
  const std::size_t before = http.requests().size();
  http.Answer(Fail(Unavailable("reset").MaybeDone()));
  EXPECT_EQ(Put(IfAbsent{}).error().outcome, Outcome::kMaybeDone);
  EXPECT_EQ(Delete({}).error().outcome, Outcome::kMaybeDone);
  EXPECT_EQ(http.requests().size(), before + 2);
}

TEST_F(S3RequestsTest, EveryAnswerWithADateTellsTheStoresTime) {
  std::vector<Timestamp> told;
  Pending watch = store->WatchTime([&](Timestamp time) { told.push_back(time); });
  const auto answer = [&](int status, std::string date) {
    http.Answer(
        Reply(status, "",
              {{.name = "etag", .value = "\"new\""}, {.name = "date", .value = std::move(date)}}));
  };
  answer(200, "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_TRUE(Put(IfAbsent{}));
  answer(412, "Sun, 06 Nov 1994 08:49:38 GMT");
  EXPECT_FALSE(Put(IfAbsent{}));
  answer(204, "Sun, 06 Nov 1994 08:49:39 GMT");
  EXPECT_TRUE(Delete({}));
  answer(200, "yesterday");
  EXPECT_TRUE(Put(IfAbsent{}));
  http.Answer(Fail(Unavailable("reset").MaybeDone()));
  EXPECT_FALSE(Put(IfAbsent{}));
  EXPECT_EQ(told, (std::vector{Timestamp::FromUnix(784'111'777), Timestamp::FromUnix(784'111'778),
                               Timestamp::FromUnix(784'111'779)}));
  watch.Cancel();
  answer(200, "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_TRUE(Put(IfAbsent{}));
  EXPECT_EQ(told.size(), 3U);
}

TEST_F(S3RequestsTest, AReadIsRepeatedInsideTheDeadline) {
  int asked = 0;
  http.Answer([&](const HttpRequest&) -> Result<HttpResponse> {
    if (++asked < 4) return Reply(503, "");
    return Reply(200, "x", {{.name = "etag", .value = "\"t\""}});
  });
  EXPECT_TRUE(Get());
  EXPECT_EQ(asked, 4);
  asked = -100;
  const Instant start = loop.Now();
  const auto failed = Get();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnavailable);
  EXPECT_EQ(asked, -96);
  EXPECT_LT(loop.Now() - start, Duration::Seconds(3));
}

TEST_F(S3RequestsTest, AConditionThatNoStoreKnowsIsNotSent) {
  for (const std::string version : {"", "a\"b", "a b", "*\r\nx: y"}) {
    const auto put = Put(IfVersion{{.text = version}});
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, Code::kInvalidArgument);
  }
  EXPECT_TRUE(http.requests().empty());
}

TEST_F(S3RequestsTest, ADeleteCarriesItsConditionOnlyWhereTheProbeSawItWork) {
  http.Answer(Reply(204, ""));
  const ObjectVersion version{.text = "t"};
  EXPECT_TRUE(Delete(version));
  EXPECT_EQ(HeaderOf(http.last(), "if-match"), std::nullopt);
  store->set_conditional_delete(ConditionalDelete::kIfMatch);
  EXPECT_TRUE(Delete(version));
  EXPECT_EQ(HeaderOf(http.last(), "if-match"), "\"t\"");
  EXPECT_TRUE(Delete({}));
  EXPECT_EQ(HeaderOf(http.last(), "if-match"), std::nullopt);
  EXPECT_FALSE(Delete(ObjectVersion{}));
}

TEST_F(S3RequestsTest, AListingGoesOnWithTheTokenOfTheStore) {
  int asked = 0;
  http.Answer([&](const HttpRequest&) {
    ++asked;
    return Reply(200,
                 "<ListBucketResult><IsTruncated>" + std::string(asked == 1 ? "true" : "false") +
                     "</IsTruncated><NextContinuationToken>1/+ =</NextContinuationToken>"
                     "<Contents><Key>p/" +
                     std::to_string(asked) + "</Key><Size>0</Size></Contents></ListBucketResult>");
  });
  const auto first = List({.prefix = "p/", .page_size = 5'000});
  ASSERT_TRUE(first) << first.error().ToString();
  EXPECT_EQ(http.last().url,
            "https://bucket.s3.eu-west-1.amazonaws.com/?list-type=2&max-keys=1000&prefix=p%2F");
  const auto second = List({.prefix = "p/", .page_token = first->next_page_token, .page_size = 1});
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_EQ(http.last().url,
            "https://bucket.s3.eu-west-1.amazonaws.com/?list-type=2&max-keys=1&prefix=p%2F"
            "&continuation-token=1%2F%2B%20%3D");
  EXPECT_EQ(second->next_page_token, "");
  EXPECT_EQ(List({.prefix = "p/", .page_token = "not ours"}).error().code, Code::kInvalidArgument);
}

TEST_F(S3RequestsTest, BI104_AHundredThousandKeysAreListedPageByPage) {
  int page = 0;
  http.Answer([&](const HttpRequest&) {
    std::string body = "<ListBucketResult>";
    for (int i = 0; i < 1'000; ++i) {
      body +=
          fmt::format("<Contents><Key>k/{:08}</Key><Size>1</Size></Contents>", (page * 1'000) + i);
    }
    ++page;
    body += fmt::format(
        "<IsTruncated>{}</IsTruncated><NextContinuationToken>{}</NextContinuationToken>"
        "</ListBucketResult>",
        page < 100, page);
    return Reply(200, std::move(body));
  });
  std::size_t keys = 0;
  ListRequest request{.prefix = "k/"};
  do {
    const auto listed = List(request);
    ASSERT_TRUE(listed) << listed.error().ToString();
    keys += listed->objects.size();
    request.page_token = listed->next_page_token;
  } while (!request.page_token.empty());
  EXPECT_EQ(keys, 100'000U);
}

TEST_F(S3RequestsTest, BI104_AnEndlessListingEndsInAnError) {
  // The same page for ever; another token for ever with no keys; the same keys under new tokens.
  int asked = 0;
  const std::vector<std::function<std::string()>> liars = {
      [] { return std::string("<NextContinuationToken>same</NextContinuationToken>"); },
      [&] { return fmt::format("<NextContinuationToken>{}</NextContinuationToken>", asked); },
      [&] {
        return fmt::format(
            "<NextContinuationToken>{}</NextContinuationToken>"
            "<Contents><Key>k</Key><Size>1</Size></Contents>",
            asked);
      }};
  for (std::size_t liar = 0; liar < liars.size(); ++liar) {
    http.Answer([&](const HttpRequest&) {
      ++asked;
      return Reply(200, "<ListBucketResult><IsTruncated>true</IsTruncated>" + liars[liar]() +
                            "</ListBucketResult>");
    });
    ListRequest request;
    int pages = 0;
    for (; pages < 100; ++pages) {
      const auto listed = List(request);
      if (!listed) {
        EXPECT_EQ(listed.error().code, Code::kUnavailable) << listed.error().ToString();
        break;
      }
      request.page_token = listed->next_page_token;
    }
    EXPECT_LT(pages, 20) << "liar " << liar;
  }
}

TEST_F(S3RequestsTest, BI104_KeysThatLeadElsewhereFailTheListing) {
  for (const std::string key : {"k/../x", "k/..", "..", "k/&#10;x", "k/&#13;", "j/x"}) {
    http.Answer(Reply(200, "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>" +
                               key + "</Key><Size>1</Size></Contents></ListBucketResult>"));
    const auto listed = List({.prefix = key == ".." ? "" : "k/"});
    ASSERT_FALSE(listed) << key;
    EXPECT_EQ(listed.error().code, Code::kUnavailable) << listed.error().ToString();
  }
}

TEST_F(S3RequestsTest, AFullQueueOfTheClientIsNotDone) {
  http.Answer(Fail(ResourceExhausted("queue")));
  const auto put = Put(IfAbsent{});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kUnavailable);
  EXPECT_EQ(put.error().outcome, Outcome::kNotDone);
}

}  // namespace
}  // namespace nstance::s3

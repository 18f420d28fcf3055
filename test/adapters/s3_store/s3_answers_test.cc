// What answers mean, row by row after the table of conditional writes: every situation that S3 or a
// store like it is known to produce.
#include "adapters/s3_store/s3_answers.h"

#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "test/support/scripted_http.h"

namespace nstance::s3 {
namespace {

using test::Reply;

const PutCondition kCreate = IfAbsent{};
const PutCondition kUpdate = IfVersion{{.text = "tag"}};

std::string ErrorBody(std::string_view code) {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{}</Code><Message>m</Message>"
      "<RequestId>r1</RequestId></Error>",
      code);
}

HttpResponse Tagged(std::string tag) {
  return Reply(200, "", {{.name = "etag", .value = std::move(tag)}});
}

TEST(S3TagTest, IsTheTextBetweenTheQuotes) {
  const auto parse = [](std::string text) { return ParseTag(&text); };
  EXPECT_EQ(parse("\"9b2cf535f27731c974343645a3985328\"")->text,
            "9b2cf535f27731c974343645a3985328");
  EXPECT_EQ(parse("\"abc-2\"")->text, "abc-2");
  EXPECT_EQ(parse("unquoted")->text, "unquoted");
  EXPECT_EQ(ParseTag(nullptr), std::nullopt);
  for (const std::string text : {"", "\"", "\"\"", "W/\"weak\"", "\"a\"b\"", "a b", "\"a\\b\"",
                                 "\"a\nb\"", "\"\xC3\xA4\""}) {
    EXPECT_EQ(parse(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse(std::string(257, 'a')), std::nullopt);
}

struct WriteRow {
  std::string name;
  int status;
  std::string code;
  const PutCondition* condition;
  Code result;
  Outcome outcome;
};

class S3WriteAnswerTest : public testing::TestWithParam<WriteRow> {};

TEST_P(S3WriteAnswerTest, HasItsNormalForm) {
  const WriteRow& row = GetParam();
  const std::string body = row.code.empty() ? "" : ErrorBody(row.code);
  const auto version = ParsePut(Reply(row.status, body), row.condition);
  ASSERT_FALSE(version);
  EXPECT_EQ(CodeName(version.error().code), CodeName(row.result)) << version.error().ToString();
  EXPECT_EQ(version.error().outcome, row.outcome) << version.error().ToString();
}

INSTANTIATE_TEST_SUITE_P(
    Rows, S3WriteAnswerTest,
    testing::Values(
        WriteRow{"CreateExists", 412, "PreconditionFailed", &kCreate, Code::kAborted,
                 Outcome::kNotDone},
        WriteRow{"CreateExistsElsewhere304", 304, "", &kCreate, Code::kAborted, Outcome::kNotDone},
        WriteRow{"CreateRivalInFlight", 409, "ConditionalRequestConflict", &kCreate, Code::kAborted,
                 Outcome::kNotDone},
        WriteRow{"UpdateDiffers", 412, "PreconditionFailed", &kUpdate, Code::kAborted,
                 Outcome::kNotDone},
        WriteRow{"UpdateMissing", 404, "NoSuchKey", &kUpdate, Code::kAborted, Outcome::kNotDone},
        WriteRow{"UpdateMissingWithoutWord", 404, "", &kUpdate, Code::kAborted, Outcome::kNotDone},
        WriteRow{"UpdateMissingBucket", 404, "NoSuchBucket", &kUpdate, Code::kFailedPrecondition,
                 Outcome::kNotDone},
        WriteRow{"CreateMissingBucket", 404, "NoSuchBucket", &kCreate, Code::kFailedPrecondition,
                 Outcome::kNotDone},
        WriteRow{"LostRace409", 409, "OperationAborted", &kUpdate, Code::kAborted,
                 Outcome::kNotDone},
        WriteRow{"LostRace500", 500, "InternalError", &kUpdate, Code::kUnavailable,
                 Outcome::kMaybeDone},
        WriteRow{"SlowDown", 503, "SlowDown", &kUpdate, Code::kUnavailable, Outcome::kNotDone},
        WriteRow{"SlowDownOfMinio", 503, "SlowDownWrite", &kUpdate, Code::kUnavailable,
                 Outcome::kNotDone},
        WriteRow{"Other503", 503, "ServiceUnavailable", &kUpdate, Code::kUnavailable,
                 Outcome::kMaybeDone},
        WriteRow{"Bare503", 503, "", &kUpdate, Code::kUnavailable, Outcome::kMaybeDone},
        WriteRow{"RateLimit", 429, "", &kCreate, Code::kUnavailable, Outcome::kNotDone},
        WriteRow{"Gateway", 502, "", &kCreate, Code::kUnavailable, Outcome::kMaybeDone},
        WriteRow{"NotImplemented", 501, "NotImplemented", &kCreate, Code::kUnavailable,
                 Outcome::kMaybeDone},
        WriteRow{"Denied", 403, "AccessDenied", &kCreate, Code::kPermissionDenied,
                 Outcome::kNotDone},
        WriteRow{"Unauthorized", 401, "", &kCreate, Code::kPermissionDenied, Outcome::kNotDone},
        WriteRow{"BadDigest", 400, "BadDigest", &kCreate, Code::kInvalidArgument,
                 Outcome::kNotDone},
        WriteRow{"Redirect", 307, "TemporaryRedirect", &kCreate, Code::kUnavailable,
                 Outcome::kNotDone},
        WriteRow{"OtherRegion", 301, "PermanentRedirect", &kUpdate, Code::kUnavailable,
                 Outcome::kNotDone},
        WriteRow{"ErrorUnder200", 200, "InternalError", &kCreate, Code::kUnavailable,
                 Outcome::kMaybeDone},
        WriteRow{"Accepted", 202, "", &kCreate, Code::kUnavailable, Outcome::kMaybeDone},
        WriteRow{"Partial", 206, "", &kCreate, Code::kUnavailable, Outcome::kMaybeDone}),
    [](const auto& row) { return row.param.name; });

TEST(S3PutTest, TellsTheVersionWhereTheAnswerDoes) {
  EXPECT_EQ(ParsePut(Tagged("\"tag\""), &kCreate)->text, "tag");
  EXPECT_EQ(ParsePut(Tagged("\"tag\""), nullptr)->text, "tag");
}

TEST(S3PutTest, BI106_NoTagAWeakTagAndATagOfPartsTellNoVersion) {
  for (const HttpResponse& answer :
       {Reply(200, ""), Tagged("W/\"tag\""), Tagged("\"abc-2\""), Tagged("\"\"")}) {
    const auto version = ParsePut(answer, &kCreate);
    ASSERT_TRUE(version) << version.error().ToString();
    EXPECT_EQ(version->text, "");
  }
}

TEST(S3GetTest, GivesBytesVersionAndTime) {
  const auto object = ParseGet(Reply(200, "bytes",
                                     {{.name = "etag", .value = "\"abc-2\""},
                                      {.name = "date", .value = "Sun, 06 Nov 1994 08:49:37 GMT"}}));
  ASSERT_TRUE(object) << object.error().ToString();
  EXPECT_EQ(object->bytes, "bytes");
  EXPECT_EQ(object->version.text, "abc-2");
  EXPECT_EQ(object->store_time, Timestamp::FromUnix(784'111'777));
}

TEST(S3GetTest, OnlyS3sOwnWordMeansThatAnObjectIsMissing) {
  EXPECT_EQ(ParseGet(Reply(404, ErrorBody("NoSuchKey"))).error().code, Code::kNotFound);
  EXPECT_EQ(ParseGet(Reply(404, ErrorBody("NoSuchBucket"))).error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(ParseGet(Reply(404, "<html>Not Found</html>")).error().code, Code::kUnavailable);
  EXPECT_EQ(ParseGet(Reply(404, "")).error().code, Code::kUnavailable);
}

TEST(S3GetTest, BI105_WhatWasNotAskedForIsAnError) {
  const std::vector<HttpHeader> tag = {{.name = "etag", .value = "\"t\""}};
  std::vector<HttpHeader> zipped = tag;
  zipped.push_back({.name = "content-encoding", .value = "gzip"});
  HttpResponse endless = Reply(200, "bytes", tag);
  endless.headers.pop_back();  // Its length.
  for (const HttpResponse& answer :
       {Reply(200, "zip", zipped), Reply(206, "part", tag), Reply(304, "", tag),
        Reply(301, "", tag), Reply(204, "", tag), Reply(200, "no tag"), endless,
        Reply(200, "bytes", {{.name = "etag", .value = "W/\"t\""}}),
        Reply(200, "bytes", {{.name = "etag", .value = "\"a\"b\""}})}) {
    const auto object = ParseGet(answer);
    ASSERT_FALSE(object) << answer.status << " " << answer.body;
    EXPECT_EQ(object.error().code, Code::kUnavailable) << object.error().ToString();
  }
}

TEST(S3HeadTest, GivesVersionAndSize) {
  HttpResponse answer{.status = 200,
                      .headers = {{.name = "etag", .value = "\"t\""},
                                  {.name = "content-length", .value = "18446744073709551615"}}};
  const auto head = ParseHead(answer);
  ASSERT_TRUE(head) << head.error().ToString();
  EXPECT_EQ(head->version.text, "t");
  EXPECT_EQ(head->size, 18446744073709551615U);
  EXPECT_EQ(ParseHead(Reply(404, "")).error().code, Code::kNotFound);
  EXPECT_EQ(ParseHead(Reply(403, "")).error().code, Code::kPermissionDenied);
  answer.headers.back().value = "-1";
  EXPECT_FALSE(ParseHead(answer));
}

TEST(S3DeleteTest, WhatIsGoneIsDeleted) {
  EXPECT_TRUE(ParseDelete(Reply(204, "")));
  EXPECT_TRUE(ParseDelete(Reply(200, "")));
  EXPECT_TRUE(ParseDelete(Reply(404, ErrorBody("NoSuchKey"))));
  EXPECT_EQ(ParseDelete(Reply(404, ErrorBody("NoSuchBucket"))).error().code,
            Code::kFailedPrecondition);
  EXPECT_FALSE(ParseDelete(Reply(404, "<html>")));
  EXPECT_EQ(ParseDelete(Reply(412, "")).error().code, Code::kAborted);
  EXPECT_EQ(ParseDelete(Reply(500, "")).error().outcome, Outcome::kMaybeDone);
  EXPECT_EQ(ParseDelete(Reply(503, ErrorBody("SlowDown"))).error().outcome, Outcome::kNotDone);
  EXPECT_FALSE(ParseDelete(Reply(200, ErrorBody("InternalError"))));
}

constexpr std::string_view kEntry =
    "<Contents><Key>a</Key><ETag>&quot;t&quot;</ETag><Size>3</Size></Contents>";

std::string Listing(std::string_view inside) {
  return fmt::format("<ListBucketResult>{}</ListBucketResult>", inside);
}

TEST(S3ListTest, ReadsAPage) {
  const auto page = ParseList(
      Reply(200, Listing(fmt::format("<KeyCount>1</KeyCount><IsTruncated>true</IsTruncated>"
                                     "<NextContinuationToken>n&amp;</NextContinuationToken>{}",
                                     kEntry))));
  ASSERT_TRUE(page) << page.error().ToString();
  ASSERT_EQ(page->entries.size(), 1U);
  EXPECT_EQ(page->entries[0].key, "a");
  EXPECT_EQ(page->entries[0].version.text, "t");
  EXPECT_EQ(page->entries[0].size, 3U);
  EXPECT_EQ(page->next_token, "n&");
  const auto last =
      ParseListing(Listing("<IsTruncated>false</IsTruncated><NextContinuationToken>x"
                           "</NextContinuationToken>"));
  ASSERT_TRUE(last) << last.error().ToString();
  EXPECT_EQ(last->next_token, "");
}

TEST(S3ListTest, BI104_ABrokenListingIsAnErrorAndNeverEmpty) {
  const std::string whole = Listing(fmt::format("<IsTruncated>false</IsTruncated>{}", kEntry));
  ASSERT_TRUE(ParseListing(whole));
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_FALSE(ParseListing(std::string_view(whole).substr(0, cut))) << cut;
  }
  for (const std::string& text :
       {std::string(), std::string("{}"), Listing(""), Listing("<IsTruncated/>"),
        Listing("<IsTruncated>true</IsTruncated>"), Listing("<IsTruncated>maybe</IsTruncated>"),
        ErrorBody("InternalError"), std::string("<html><body>login</body></html>"),
        Listing("<IsTruncated>false</IsTruncated><KeyCount>2</KeyCount>"),
        Listing("<IsTruncated>false</IsTruncated><Contents><Size>1</Size></Contents>"),
        Listing("<IsTruncated>false</IsTruncated><Contents><Key>a</Key></Contents>"),
        Listing("<IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>-1</Size></Contents>"),
        std::string("<!DOCTYPE a [<!ENTITY x \"y\">]>") +
            Listing("<IsTruncated>false</IsTruncated>")}) {
    const auto page = ParseListing(text);
    ASSERT_FALSE(page) << text;
    EXPECT_EQ(page.error().code, Code::kUnavailable) << page.error().ToString();
  }
  EXPECT_EQ(ParseList(Reply(404, ErrorBody("NoSuchBucket"))).error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(
      ParseList(Reply(200, whole, {{.name = "content-encoding", .value = "gzip"}})).error().code,
      Code::kUnavailable);
}

TEST(S3ErrorTest, MessagesTellCodeAndRequestButNotTheText) {
  const auto version =
      ParsePut(Reply(403,
                     "<Error><Code>SignatureDoesNotMatch</Code><Message>CANARY</Message>"
                     "<StringToSign>CANARY</StringToSign><RequestId>req-1</RequestId></Error>"),
               &kCreate);
  ASSERT_FALSE(version);
  EXPECT_EQ(version.error().message,
            "the store answered 403 \"SignatureDoesNotMatch\" (request \"req-1\")");
}

}  // namespace
}  // namespace nstance::s3

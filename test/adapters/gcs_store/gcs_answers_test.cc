// What answers mean, row by row after the table of conditional writes; and the URLs.
#include "adapters/gcs_store/gcs_answers.h"

#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/cloud_http/answer_check.h"
#include "adapters/gcs_store/gcs_address.h"
#include "test/support/scripted_http.h"

namespace nstance::gcs {
namespace {

using test::Reply;

const PutCondition kCreate = IfAbsent{};
const PutCondition kUpdate = IfVersion{{.text = "7"}};

std::string ErrorBody(std::string_view reason, std::string_view message = "m") {
  return fmt::format(
      R"({{"error":{{"code":400,"message":"{}","errors":[{{"reason":"{}","message":"{}"}}]}}}})",
      message, reason, message);
}

struct WriteRow {
  std::string name;
  int status;
  std::string body;
  const PutCondition* condition;
  Code result;
  Outcome outcome;
};

class GcsWriteAnswerTest : public testing::TestWithParam<WriteRow> {};

TEST_P(GcsWriteAnswerTest, HasItsNormalForm) {
  const WriteRow& row = GetParam();
  const auto version =
      ParsePut(Reply(row.status, row.body), {.md5_base64 = "m", .condition = row.condition});
  ASSERT_FALSE(version);
  EXPECT_EQ(CodeName(version.error().code), CodeName(row.result)) << version.error().ToString();
  EXPECT_EQ(version.error().outcome, row.outcome) << version.error().ToString();
}

INSTANTIATE_TEST_SUITE_P(
    Rows, GcsWriteAnswerTest,
    testing::Values(WriteRow{"CreateExists", 412, ErrorBody("conditionNotMet"), &kCreate,
                             Code::kAborted, Outcome::kNotDone},
                    WriteRow{"UpdateDiffers", 412, "", &kUpdate, Code::kAborted, Outcome::kNotDone},
                    WriteRow{"UpdateMissing", 404, ErrorBody("notFound"), &kUpdate, Code::kAborted,
                             Outcome::kNotDone},
                    WriteRow{"CreateMissingBucket", 404, ErrorBody("notFound"), &kCreate,
                             Code::kFailedPrecondition, Outcome::kNotDone},
                    WriteRow{"UpdateMissingBucket", 404,
                             ErrorBody("notFound", "The specified bucket does not exist."),
                             &kUpdate, Code::kFailedPrecondition, Outcome::kNotDone},
                    WriteRow{"RateLimit", 429, ErrorBody("rateLimitExceeded"), &kUpdate,
                             Code::kUnavailable, Outcome::kNotDone},
                    WriteRow{"RateLimitAs403", 403, ErrorBody("rateLimitExceeded"), &kUpdate,
                             Code::kUnavailable, Outcome::kNotDone},
                    WriteRow{"Denied", 403, ErrorBody("forbidden"), &kUpdate,
                             Code::kPermissionDenied, Outcome::kNotDone},
                    WriteRow{"TokenExpired", 401, ErrorBody("authError"), &kUpdate,
                             Code::kPermissionDenied, Outcome::kNotDone},
                    WriteRow{"Backend", 503, ErrorBody("backendError"), &kUpdate,
                             Code::kUnavailable, Outcome::kMaybeDone},
                    WriteRow{"Redirect", 308, "", &kCreate, Code::kUnavailable, Outcome::kNotDone},
                    WriteRow{"Malformed", 200, "<html>", &kCreate, Code::kUnavailable,
                             Outcome::kMaybeDone},
                    WriteRow{"ErrorUnder200", 200, ErrorBody("backendError"), &kCreate,
                             Code::kUnavailable, Outcome::kMaybeDone},
                    WriteRow{"OtherBytes", 200, R"({"generation":"7","md5Hash":"other"})", &kCreate,
                             Code::kUnavailable, Outcome::kMaybeDone}),
    [](const auto& row) { return row.param.name; });

TEST(GcsPutTest, TheVersionIsTheGeneration) {
  EXPECT_EQ(ParsePut(Reply(200, R"({"generation":"1700000000000001","md5Hash":"m"})"),
                     {.md5_base64 = "m", .condition = &kCreate})
                ->text,
            "1700000000000001");
}

TEST(GcsPutTest, BI106_WithoutAGenerationNoVersionIsTold) {
  for (const std::string body : {"{}", R"({"generation":"0"})", R"({"generation":7})",
                                 R"({"generation":"x"})", R"({"generation":"-1"})"}) {
    const auto version = ParsePut(Reply(200, body), {.md5_base64 = "m", .condition = &kCreate});
    ASSERT_TRUE(version) << version.error().ToString();
    EXPECT_EQ(version->text, "") << body;
  }
}

TEST(GcsGetTest, GivesBytesGenerationAndTime) {
  const auto object =
      ParseGet(Reply(200, "bytes",
                     {{.name = "x-goog-generation", .value = "7"},
                      {.name = "x-goog-hash", .value = "crc32c=AAAAAA=="},
                      {.name = "x-goog-hash", .value = "md5=" + cloud::Md5Base64("bytes")},
                      {.name = "date", .value = "Sun, 06 Nov 1994 08:49:37 GMT"}}));
  ASSERT_TRUE(object) << object.error().ToString();
  EXPECT_EQ(object->bytes, "bytes");
  EXPECT_EQ(object->version.text, "7");
  EXPECT_EQ(object->store_time, Timestamp::FromUnix(784'111'777));
}

TEST(GcsGetTest, BI105_WhatWasNotAskedForIsAnError) {
  const HttpHeader generation{.name = "x-goog-generation", .value = "7"};
  for (const HttpResponse& answer :
       {Reply(200, "x"), Reply(200, "x", {{.name = "x-goog-generation", .value = "x"}}),
        Reply(200, "x", {generation, {.name = "content-encoding", .value = "gzip"}}),
        Reply(200, "x", {generation, {.name = "x-goog-hash", .value = "crc32c=a,md5=wrong=="}}),
        Reply(206, "x", {generation}), Reply(304, "", {generation}), Reply(302, "", {generation}),
        Reply(404, "<!DOCTYPE html><title>Error 404</title>")}) {
    const auto object = ParseGet(answer);
    ASSERT_FALSE(object);
    EXPECT_EQ(object.error().code, Code::kUnavailable) << object.error().ToString();
  }
}

TEST(GcsGetTest, AMissingBucketIsNotAMissingObject) {
  EXPECT_EQ(ParseGet(Reply(404, "No such object: b/a")).error().code, Code::kNotFound);
  EXPECT_EQ(ParseGet(Reply(404, ErrorBody("notFound", "The specified bucket does not exist.")))
                .error()
                .code,
            Code::kFailedPrecondition);
}

TEST(GcsHeadTest, GivesGenerationAndSize) {
  const auto head = ParseHead(Reply(200, R"({"generation":"7","size":"12"})"));
  ASSERT_TRUE(head) << head.error().ToString();
  EXPECT_EQ(head->version.text, "7");
  EXPECT_EQ(head->size, 12U);
  EXPECT_EQ(ParseHead(Reply(404, ErrorBody("notFound"))).error().code, Code::kNotFound);
  EXPECT_FALSE(ParseHead(Reply(200, R"({"generation":"7"})")));
  EXPECT_FALSE(ParseHead(Reply(200, "")));
}

TEST(GcsDeleteTest, WhatIsGoneIsDeleted) {
  EXPECT_TRUE(ParseDelete(Reply(204, "")));
  EXPECT_TRUE(ParseDelete(Reply(404, ErrorBody("notFound"))));
  EXPECT_FALSE(
      ParseDelete(Reply(404, ErrorBody("notFound", "The specified bucket does not exist."))));
  EXPECT_FALSE(ParseDelete(Reply(404, "<html>")));
  EXPECT_EQ(ParseDelete(Reply(412, "")).error().code, Code::kAborted);
  EXPECT_EQ(ParseDelete(Reply(502, "")).error().outcome, Outcome::kMaybeDone);
}

TEST(GcsListTest, ReadsPages) {
  const auto page = ParseList(Reply(
      200, R"({"items":[{"name":"a/\u00e4","size":"3","generation":"9"}],"nextPageToken":"n"})"));
  ASSERT_TRUE(page) << page.error().ToString();
  ASSERT_EQ(page->entries.size(), 1U);
  EXPECT_EQ(page->entries[0].key, "a/\xC3\xA4");
  EXPECT_EQ(page->entries[0].size, 3U);
  EXPECT_EQ(page->entries[0].version.text, "9");
  EXPECT_EQ(page->next_token, "n");
  EXPECT_TRUE(ParseList(Reply(200, R"({"kind":"storage#objects"})")));
}

TEST(GcsListTest, BI104_ABrokenListingIsAnErrorAndNeverEmpty) {
  for (const std::string& body :
       {std::string(), std::string("[]"), std::string("<html>"), ErrorBody("backendError"),
        std::string(R"({"items":{}})"), std::string(R"({"items":[{"size":"1"}]})"),
        std::string(R"({"items":[{"name":"a"}]})"),
        std::string(R"({"items":[{"name":"a","size":"1"}])")}) {
    EXPECT_FALSE(ParseList(Reply(200, body))) << body;
  }
  EXPECT_FALSE(ParseList(Reply(404, ErrorBody("notFound"))));
}

TEST(GcsAddressTest, KeysAreOneSegment) {
  const auto address = GcsAddress::Make({.bucket = "bucket"});
  ASSERT_TRUE(address);
  const ObjectKey key = ObjectKey::Parse("a+b/%2F?#.json").value();
  EXPECT_EQ(
      address->MediaUrl(key),
      "https://storage.googleapis.com/storage/v1/b/bucket/o/a%2Bb%2F%252F%3F%23.json?alt=media");
  EXPECT_EQ(address->UploadUrl(key, "0"),
            "https://storage.googleapis.com/upload/storage/v1/b/bucket/o?uploadType=media"
            "&name=a%2Bb%2F%252F%3F%23.json&ifGenerationMatch=0");
  EXPECT_FALSE(address->UploadUrl(key, {}).contains("ifGenerationMatch"));
  EXPECT_TRUE(address->DeleteUrl(key, "7").ends_with(".json?ifGenerationMatch=7"));
}

TEST(GcsAddressTest, EmulatorsAreOnThisMachineOrSpeakHttps) {
  const cloud::Environment environment{
      .variable = [](const std::string& name) -> std::optional<std::string> {
        if (name == "STORAGE_EMULATOR_HOST") return "127.0.0.1:9023";
        return std::nullopt;
      },
      .read_file = {}};
  EXPECT_EQ(WithEnvironment({.bucket = "bucket"}, environment).endpoint, "http://127.0.0.1:9023");
  EXPECT_EQ(WithEnvironment({.bucket = "bucket", .endpoint = "https://x"}, environment).endpoint,
            "https://x");
  EXPECT_FALSE(GcsAddress::Make({.bucket = "bucket", .endpoint = "http://gcs.example"}));
  EXPECT_FALSE(GcsAddress::Make({.bucket = "a/b"}));
  EXPECT_FALSE(GcsAddress::Make({.bucket = ""}));
}

}  // namespace
}  // namespace nstance::gcs

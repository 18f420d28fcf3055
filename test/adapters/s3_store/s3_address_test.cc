// Options and the URLs that follow from them: tables.
#include "adapters/s3_store/s3_address.h"

#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace nstance::s3 {
namespace {

std::string UrlOf(const S3Options& options, const std::string& key = "a/b") {
  const auto address = S3Address::Make(options);
  if (!address) return address.error().message;
  return address->ObjectUrl(ObjectKey::Parse(key).value());
}

TEST(S3AddressTest, BucketsAreVirtualHostsOfAws) {
  EXPECT_EQ(UrlOf({.bucket = "my-bucket"}), "https://my-bucket.s3.us-east-1.amazonaws.com/a/b");
  EXPECT_EQ(UrlOf({.bucket = "my-bucket", .region = "eu-west-1"}),
            "https://my-bucket.s3.eu-west-1.amazonaws.com/a/b");
  EXPECT_EQ(UrlOf({.bucket = "my-bucket", .region = "cn-north-1"}),
            "https://my-bucket.s3.cn-north-1.amazonaws.com.cn/a/b");
}

TEST(S3AddressTest, PathStyleIsForOtherEndpointsAndBucketsWithDots) {
  EXPECT_EQ(UrlOf({.bucket = "my.bucket"}), "https://s3.us-east-1.amazonaws.com/my.bucket/a/b");
  EXPECT_EQ(UrlOf({.bucket = "bucket", .endpoint = "https://minio.example:9000/"}),
            "https://minio.example:9000/bucket/a/b");
  EXPECT_EQ(UrlOf({.bucket = "bucket", .addressing = Addressing::kPath}),
            "https://s3.us-east-1.amazonaws.com/bucket/a/b");
  EXPECT_EQ(UrlOf({.bucket = "bucket",
                   .endpoint = "https://s3.example:9000",
                   .addressing = Addressing::kVirtualHost}),
            "https://bucket.s3.example:9000/a/b");
}

TEST(S3AddressTest, SegmentsOfKeysAreEncodedOnce) {
  EXPECT_EQ(UrlOf({.bucket = "bucket", .endpoint = "http://127.0.0.1:1"}, "a+b/%2F/c?d#e&f=g'"),
            "http://127.0.0.1:1/bucket/a%2Bb/%252F/c%3Fd%23e%26f%3Dg%27");
}

TEST(S3AddressTest, RefusesWhatMakesNoAddress) {
  for (const std::string bucket :
       {"", "ab", "UPPER", "under_score", "-a-b", "a-b-", "a..b", "a/b", "bucket?", "a b"}) {
    EXPECT_FALSE(S3Address::Make({.bucket = bucket})) << bucket;
  }
  EXPECT_FALSE(S3Address::Make({.bucket = std::string(64, 'a')}));
  EXPECT_FALSE(S3Address::Make({.bucket = "bucket", .region = "eu west"}));
  EXPECT_FALSE(S3Address::Make({.bucket = "bucket", .region = "x.example/"}));
  EXPECT_FALSE(S3Address::Make({.bucket = "bucket", .endpoint = "minio.example"}));
  const auto plain = S3Address::Make({.bucket = "bucket", .endpoint = "http://minio.example"});
  ASSERT_FALSE(plain);
  EXPECT_TRUE(plain.error().message.contains("plain HTTP")) << plain.error().message;
}

TEST(S3OptionsTest, TheEnvironmentFillsWhatIsEmpty) {
  std::map<std::string, std::string> variables = {{"AWS_REGION", "eu-west-1"},
                                                  {"AWS_DEFAULT_REGION", "us-west-2"},
                                                  {"AWS_ENDPOINT_URL_S3", "https://s3.example"},
                                                  {"AWS_ENDPOINT_URL", "https://all.example"},
                                                  {"AWS_S3_USE_PATH_STYLE", "TRUE"}};
  const cloud::Environment environment{
      .variable = [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      .read_file = {}};
  const S3Options filled = WithEnvironment({.bucket = "bucket"}, environment);
  EXPECT_EQ(filled.region, "eu-west-1");
  EXPECT_EQ(filled.endpoint, "https://s3.example");
  EXPECT_EQ(filled.addressing, Addressing::kPath);
  const S3Options own = WithEnvironment(
      {.bucket = "bucket", .region = "own", .endpoint = "https://own.example"}, environment);
  EXPECT_EQ(own.region, "own");
  EXPECT_EQ(own.endpoint, "https://own.example");
  variables = {{"AWS_DEFAULT_REGION", "us-west-2"}, {"AWS_ENDPOINT_URL", "https://all.example"}};
  const S3Options defaults = WithEnvironment({.bucket = "bucket"}, environment);
  EXPECT_EQ(defaults.region, "us-west-2");
  EXPECT_EQ(defaults.endpoint, "https://all.example");
  EXPECT_EQ(defaults.addressing, Addressing::kAutomatic);
}

}  // namespace
}  // namespace nstance::s3

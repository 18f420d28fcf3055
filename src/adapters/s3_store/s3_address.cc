#include "adapters/s3_store/s3_address.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "adapters/cloud_http/endpoint.h"
#include "base/text.h"

namespace nstance::s3 {
namespace {

bool IsLowerAlphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }

Status CheckBucket(std::string_view bucket) {
  const bool characters = std::ranges::all_of(
      bucket, [](char c) { return IsLowerAlphanumeric(c) || c == '-' || c == '.'; });
  const bool ok = bucket.size() >= 3 && bucket.size() <= 63 && characters &&
                  IsLowerAlphanumeric(bucket.front()) && IsLowerAlphanumeric(bucket.back()) &&
                  !bucket.contains("..");
  if (ok) return {};
  return Fail(InvalidArgument(
      fmt::format("bucket {}: 3 to 63 lower-case letters, digits, dots and hyphens are allowed",
                  Quote(bucket))));
}

Status CheckRegion(std::string_view region) {
  const bool ok = region.size() <= 64 && std::ranges::all_of(region, [](char c) {
                    return IsLowerAlphanumeric(c) || (c >= 'A' && c <= 'Z') || c == '-';
                  });
  if (ok) return {};
  return Fail(InvalidArgument(fmt::format("{} is not the name of a region", Quote(region))));
}

std::string DefaultEndpoint(std::string_view region) {
  return fmt::format("https://s3.{}.{}", region,
                     region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com");
}

bool UsesPathStyle(const S3Options& options) {
  if (options.addressing != Addressing::kAutomatic) {
    return options.addressing == Addressing::kPath;
  }
  // The certificates of virtual hosts cover one label.
  return !options.endpoint.empty() || options.bucket.contains('.');
}

}  // namespace

S3Options WithEnvironment(S3Options options, const cloud::Environment& environment) {
  if (options.region.empty()) {
    options.region = environment.Get("AWS_REGION", environment.Get("AWS_DEFAULT_REGION"));
  }
  if (options.endpoint.empty()) {
    options.endpoint = environment.Get("AWS_ENDPOINT_URL_S3", environment.Get("AWS_ENDPOINT_URL"));
  }
  if (options.addressing == Addressing::kAutomatic && environment.IsTrue("AWS_S3_USE_PATH_STYLE")) {
    options.addressing = Addressing::kPath;
  }
  return options;
}

Result<S3Address> S3Address::Make(const S3Options& options) {
  RETURN_IF_ERROR(CheckBucket(options.bucket));
  RETURN_IF_ERROR(CheckRegion(options.region));
  const std::string region = options.region.empty() ? "us-east-1" : options.region;
  ASSIGN_OR_RETURN(
      const cloud::Endpoint endpoint,
      cloud::Endpoint::Parse(options.endpoint.empty() ? DefaultEndpoint(region) : options.endpoint,
                             cloud::PlainHttp::kLoopback));
  if (UsesPathStyle(options)) {
    return S3Address(fmt::format("{}/{}/", endpoint.Url(), options.bucket), region);
  }
  return S3Address(fmt::format("{}://{}.{}{}/", endpoint.scheme, options.bucket, endpoint.authority,
                               endpoint.path),
                   region);
}

std::string S3Address::ObjectUrl(const ObjectKey& key) const {
  return bucket_url_ + cloud::PercentEncodePath(key.text());
}

std::string S3Address::BucketUrl(const std::string& query) const {
  return bucket_url_ + "?" + query;
}

}  // namespace nstance::s3

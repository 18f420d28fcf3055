// S3Options, and the addresses of buckets and objects that follow from them.
#pragma once

#include <cstdint>
#include <string>

#include "adapters/cloud_http/environment.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/object_store.h"

namespace nstance::s3 {

enum class Addressing : std::uint8_t {
  kAutomatic,    // Path style with a custom endpoint or a bucket with dots, else virtual host.
  kPath,         // https://endpoint/bucket/key
  kVirtualHost,  // https://bucket.endpoint/key
};

// Whether deletes carry their condition. Some stores ignore it, or refuse it as unknown; the probe
// tells. Without it a delete is plain, which is safe because only tombstones are deleted.
enum class ConditionalDelete : std::uint8_t { kPlain, kIfMatch };

struct S3Options {
  std::string bucket = {};
  std::string region = {};    // Empty: "us-east-1".
  std::string endpoint = {};  // Empty: that of AWS in the region.
  Addressing addressing = Addressing::kAutomatic;
  ConditionalDelete conditional_delete = ConditionalDelete::kPlain;
  // Of one call of the port.
  Duration deadline = Duration::Seconds(3);
};

// The options with what was left empty taken from AWS_REGION (AWS_DEFAULT_REGION),
// AWS_ENDPOINT_URL_S3 (AWS_ENDPOINT_URL) and AWS_S3_USE_PATH_STYLE.
[[nodiscard]] S3Options WithEnvironment(S3Options options, const cloud::Environment& environment);

class S3Address final {
 public:
  // Refused with kInvalidArgument: a bucket name that AWS would not allow, a region that cannot be
  // signed with, an endpoint that is no URL, plain HTTP to another machine.
  [[nodiscard]] static Result<S3Address> Make(const S3Options& options);

  // Each segment of the key percent-encoded once, which is also what is signed.
  [[nodiscard]] std::string ObjectUrl(const ObjectKey& key) const;
  // The bucket itself, with parameters that are encoded already: "list-type=2&prefix=a".
  [[nodiscard]] std::string BucketUrl(const std::string& query) const;

  [[nodiscard]] const std::string& region() const { return region_; }

 private:
  S3Address(std::string bucket_url, std::string region)
      : bucket_url_(std::move(bucket_url)), region_(std::move(region)) {}

  std::string bucket_url_;  // With a slash at the end.
  std::string region_;
};

}  // namespace nstance::s3

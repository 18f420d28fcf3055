#include "adapters/gcs_store/gcs_address.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include "adapters/cloud_http/endpoint.h"
#include "base/text.h"

namespace nstance::gcs {
namespace {

constexpr std::string_view kGoogle = "https://storage.googleapis.com";

bool IsLowerAlphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }

Status CheckBucket(std::string_view bucket) {
  const bool characters = std::ranges::all_of(
      bucket, [](char c) { return IsLowerAlphanumeric(c) || c == '-' || c == '.' || c == '_'; });
  const bool ok = bucket.size() >= 3 && bucket.size() <= 222 && characters &&
                  IsLowerAlphanumeric(bucket.front()) && IsLowerAlphanumeric(bucket.back());
  if (ok) return {};
  return Fail(InvalidArgument(fmt::format(
      "bucket {}: 3 to 222 lower-case letters, digits, dots, hyphens and underscores are allowed",
      Quote(bucket))));
}

}  // namespace

GcsOptions WithEnvironment(GcsOptions options, const cloud::Environment& environment) {
  if (!options.endpoint.empty()) return options;
  options.endpoint = environment.Get("STORAGE_EMULATOR_HOST");
  if (!options.endpoint.empty() && !options.endpoint.contains("://")) {
    options.endpoint = "http://" + options.endpoint;
  }
  return options;
}

Result<GcsAddress> GcsAddress::Make(const GcsOptions& options) {
  RETURN_IF_ERROR(CheckBucket(options.bucket));
  ASSIGN_OR_RETURN(const cloud::Endpoint endpoint,
                   cloud::Endpoint::Parse(options.endpoint.empty() ? kGoogle : options.endpoint,
                                          cloud::PlainHttp::kLoopback));
  return GcsAddress(endpoint.Url(), options.bucket);
}

std::string GcsAddress::ObjectUrl(const ObjectKey& key) const {
  // The key is one segment of the path: its slashes are encoded too.
  return fmt::format("{}/storage/v1/b/{}/o/{}", base_, bucket_, cloud::PercentEncode(key.text()));
}

std::string GcsAddress::MediaUrl(const ObjectKey& key) const {
  return ObjectUrl(key) + "?alt=media";
}

std::string GcsAddress::MetadataUrl(const ObjectKey& key) const {
  return ObjectUrl(key) + "?fields=generation,size";
}

std::string GcsAddress::UploadUrl(const ObjectKey& key,
                                  const std::optional<std::string>& generation) const {
  std::string url = fmt::format("{}/upload/storage/v1/b/{}/o?uploadType=media&name={}", base_,
                                bucket_, cloud::PercentEncode(key.text()));
  if (generation) url += "&ifGenerationMatch=" + cloud::PercentEncode(*generation);
  return url;
}

std::string GcsAddress::DeleteUrl(const ObjectKey& key,
                                  const std::optional<std::string>& generation) const {
  if (!generation) return ObjectUrl(key);
  return ObjectUrl(key) + "?ifGenerationMatch=" + cloud::PercentEncode(*generation);
}

std::string GcsAddress::ListUrl(const std::string& query) const {
  return fmt::format("{}/storage/v1/b/{}/o?{}", base_, bucket_, query);
}

}  // namespace nstance::gcs

// GcsOptions, and the URLs of the JSON API that follow from them.
#pragma once

#include <optional>
#include <string>

#include "adapters/cloud_http/environment.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/object_store.h"

namespace nstance::gcs {

struct GcsOptions {
  std::string bucket = {};
  // Empty: Google's. One that is set is taken for an emulator: requests carry no credentials.
  std::string endpoint = {};
  // Of one call of the port.
  Duration deadline = Duration::Seconds(3);
};

// The options with an empty endpoint taken from STORAGE_EMULATOR_HOST, "host:port" or a URL.
[[nodiscard]] GcsOptions WithEnvironment(GcsOptions options, const cloud::Environment& environment);

class GcsAddress final {
 public:
  // Refused with kInvalidArgument: a bucket name that Google would not allow, an endpoint that is
  // no URL, plain HTTP to another machine.
  [[nodiscard]] static Result<GcsAddress> Make(const GcsOptions& options);

  // The bytes, the description and the upload of an object. `generation` is the condition: "0" is
  // "absent".
  [[nodiscard]] std::string MediaUrl(const ObjectKey& key) const;
  [[nodiscard]] std::string MetadataUrl(const ObjectKey& key) const;
  [[nodiscard]] std::string UploadUrl(const ObjectKey& key,
                                      const std::optional<std::string>& generation) const;
  [[nodiscard]] std::string DeleteUrl(const ObjectKey& key,
                                      const std::optional<std::string>& generation) const;
  // `query` is encoded already.
  [[nodiscard]] std::string ListUrl(const std::string& query) const;

 private:
  GcsAddress(std::string base, std::string bucket)
      : base_(std::move(base)), bucket_(std::move(bucket)) {}
  [[nodiscard]] std::string ObjectUrl(const ObjectKey& key) const;

  std::string base_;
  std::string bucket_;
};

}  // namespace nstance::gcs

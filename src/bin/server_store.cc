#include "bin/server_store.h"

#include <utility>

#include "adapters/aws_credentials/aws_credentials.h"
#include "adapters/cloud_http/environment.h"
#include "adapters/file_store/file_store.h"
#include "adapters/gcp_credentials/gcp_credentials.h"
#include "adapters/gcs_store/gcs_store.h"
#include "adapters/s3_store/s3_store.h"

namespace nstance {
namespace {

class FileParts final : public ServerStore {
 public:
  explicit FileParts(std::unique_ptr<FileStore> store) : store_(std::move(store)) {}
  [[nodiscard]] ObjectStore& store() override { return *store_; }

 private:
  std::unique_ptr<FileStore> store_;
};

class S3Parts final : public ServerStore {
 public:
  S3Parts(RealLoop& loop, HttpClient& http)
      : credentials_({.loop = loop, .http = http, .environment = cloud::Environment::OfProcess()}) {
  }
  [[nodiscard]] ObjectStore& store() override { return *store_; }
  aws::AwsCredentials credentials_;
  std::unique_ptr<s3::S3Store> store_;
};

class GcsParts final : public ServerStore {
 public:
  GcsParts(RealLoop& loop, HttpClient& http)
      : credentials_({.loop = loop, .http = http, .environment = cloud::Environment::OfProcess()},
                     {}) {}
  [[nodiscard]] ObjectStore& store() override { return *store_; }
  gcp::GcpCredentials credentials_;
  std::unique_ptr<gcs::GcsStore> store_;
};

}  // namespace

Result<std::unique_ptr<ServerStore>> OpenServerStore(const ServerCommandLine& line, RealLoop& loop,
                                                     HttpClient& http) {
  const cloud::Environment environment = cloud::Environment::OfProcess();
  if (line.storage == "file") {
    ASSIGN_OR_RETURN(std::unique_ptr<FileStore> store,
                     FileStore::Open(loop, {.directory = line.bucket}));
    return std::make_unique<FileParts>(std::move(store));
  }
  if (line.storage == "s3") {
    auto parts = std::make_unique<S3Parts>(loop, http);
    ASSIGN_OR_RETURN(
        parts->store_,
        s3::S3Store::Make(
            {.loop = loop, .http = http, .credentials = parts->credentials_, .prng = Prng(1)},
            s3::WithEnvironment({.bucket = line.bucket}, environment)));
    return parts;
  }
  auto parts = std::make_unique<GcsParts>(loop, http);
  ASSIGN_OR_RETURN(
      parts->store_,
      gcs::GcsStore::Make(
          {.loop = loop, .http = http, .credentials = parts->credentials_, .prng = Prng(1)},
          gcs::WithEnvironment({.bucket = line.bucket}, environment)));
  return parts;
}

}  // namespace nstance

#include "bin/open_store.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "adapters/aws_credentials/aws_credentials.h"
#include "adapters/cloud_http/environment.h"
#include "adapters/file_store/file_store.h"
#include "adapters/gcp_credentials/gcp_credentials.h"
#include "adapters/gcs_store/gcs_store.h"
#include "adapters/s3_store/s3_store.h"
#include "adapters/secure_random/system_random.h"
#include "storage/late_store.h"
#include "storage/prefixed_store.h"

namespace nstance {
namespace {

class FileParts final : public OpenedStore {
 public:
  FileParts(RealLoop& loop, const std::string& directory)
      : store_(loop, [this, &loop, directory]() -> Result<std::unique_ptr<ObjectStore>> {
          ASSIGN_OR_RETURN(std::unique_ptr<FileStore> opened,
                           FileStore::Open(loop, {.directory = directory, .deadline = deadline_}));
          opened_ = opened.get();
          return opened;
        }) {}
  [[nodiscard]] ObjectStore& store() override { return store_; }
  void SetDeadline(Duration deadline) override {
    deadline_ = deadline;
    if (opened_ != nullptr) opened_->set_deadline(deadline);
  }

 private:
  Duration deadline_ = Duration::Seconds(3);
  FileStore* opened_ = nullptr;  // Inside store_.
  LateStore store_;
};

// A bucket in a cloud, with the credentials that its store asks for.
template <class Credentials, class Store>
class CloudParts final : public OpenedStore {
 public:
  explicit CloudParts(std::unique_ptr<Credentials> credentials)
      : credentials_(std::move(credentials)) {}
  [[nodiscard]] Credentials& credentials() { return *credentials_; }
  void Hold(std::unique_ptr<Store> store) { store_ = std::move(store); }
  [[nodiscard]] ObjectStore& store() override { return *store_; }
  void SetDeadline(Duration deadline) override { store_->set_deadline(deadline); }

 private:
  std::unique_ptr<Credentials> credentials_;
  std::unique_ptr<Store> store_;  // Last: it uses the credentials.
};
using S3Parts = CloudParts<aws::AwsCredentials, s3::S3Store>;
using GcsParts = CloudParts<gcp::GcpCredentials, gcs::GcsStore>;

// Servers that wait together must not try again together.
Prng Jitter() {
  SystemRandom random;
  return Prng(std::bit_cast<std::uint64_t>(random.Array<sizeof(std::uint64_t)>()));
}

class PrefixedParts final : public OpenedStore {
 public:
  PrefixedParts(RealLoop& loop, std::unique_ptr<OpenedStore> whole, std::string prefix)
      : whole_(std::move(whole)), store_(loop, whole_->store(), std::move(prefix)) {}
  [[nodiscard]] ObjectStore& store() override { return store_; }
  void SetDeadline(Duration deadline) override { whole_->SetDeadline(deadline); }

 private:
  std::unique_ptr<OpenedStore> whole_;
  PrefixedStore store_;
};

Result<std::unique_ptr<OpenedStore>> OpenWhole(const StoreAddress& address, RealLoop& loop,
                                               HttpClient& http) {
  const cloud::Environment environment = cloud::Environment::OfProcess();
  if (address.kind == "file") return std::make_unique<FileParts>(loop, address.bucket);
  if (address.kind == "s3") {
    auto parts = std::make_unique<S3Parts>(std::make_unique<aws::AwsCredentials>(
        aws::AwsCredentials::Deps{.loop = loop, .http = http, .environment = environment}));
    ASSIGN_OR_RETURN(
        auto store,
        s3::S3Store::Make(
            {.loop = loop, .http = http, .credentials = parts->credentials(), .prng = Jitter()},
            s3::WithEnvironment(
                {.bucket = address.bucket, .region = address.region, .endpoint = address.endpoint},
                environment)));
    parts->Hold(std::move(store));
    return parts;
  }
  auto parts = std::make_unique<GcsParts>(std::make_unique<gcp::GcpCredentials>(
      gcp::GcpCredentials::Deps{.loop = loop, .http = http, .environment = environment},
      gcp::ReadGcpSettings(environment)));
  ASSIGN_OR_RETURN(
      auto store,
      gcs::GcsStore::Make(
          {.loop = loop, .http = http, .credentials = parts->credentials(), .prng = Jitter()},
          gcs::WithEnvironment({.bucket = address.bucket, .endpoint = address.endpoint},
                               environment)));
  parts->Hold(std::move(store));
  return parts;
}

}  // namespace

StoreAddress AddressOf(const config::Storage& storage) {
  return {.kind = std::string(config::Word(storage.provider)),
          .bucket = storage.bucket,
          .region = storage.region,
          .endpoint = storage.endpoint,
          .prefix = storage.prefix};
}

Result<std::unique_ptr<OpenedStore>> OpenStore(const StoreAddress& address, RealLoop& loop,
                                               HttpClient& http) {
  ASSIGN_OR_RETURN(std::string prefix, CheckStorePrefix(address.prefix));
  ASSIGN_OR_RETURN(std::unique_ptr<OpenedStore> whole, OpenWhole(address, loop, http));
  if (prefix.empty()) return whole;
  return std::make_unique<PrefixedParts>(loop, std::move(whole), std::move(prefix));
}

}  // namespace nstance

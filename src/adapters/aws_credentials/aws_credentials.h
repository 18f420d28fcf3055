// AwsCredentials: the access keys of this process, cached.
//
// Guarantees, each held by a test:
//   - the order of sources is that of aws_credential_fetch.h; once metadata has given keys, only
//     metadata gives the next ones
//   - new keys are fetched 5 minutes before the old ones expire, by one fetch at a time, while the
//     old ones are in use; a fetch that fails leaves them in use until they expire
//   - secret keys and session tokens live in crypto::Secret; neither they nor any token appears in
//     an error or a log line
//
// Lives on one loop, like everything that it is given.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "adapters/aws_credentials/aws_credential_fetch.h"
#include "adapters/aws_credentials/aws_settings.h"
#include "adapters/cloud_http/cached_credential.h"
#include "adapters/cloud_http/environment.h"
#include "ports/http.h"
#include "ports/loop.h"

namespace nstance::aws {

class AwsCredentials final {
 public:
  // All outlive this object.
  struct Deps {
    Loop& loop;
    HttpClient& http;
    cloud::Environment environment;
  };
  using Done = cloud::CachedCredential<AwsKeys>::Done;

  AwsCredentials(Deps deps, AwsSettings settings);
  // As the environment says.
  explicit AwsCredentials(const Deps& deps);

  // Answers later on the loop; the Pending does not outlive this object.
  [[nodiscard]] Pending Get(Done done) { return cache_.Get(std::move(done)); }

  // Where the present keys came from; empty before the first.
  [[nodiscard]] std::optional<AwsSource> source() const { return source_; }

 private:
  class Runner;
  [[nodiscard]] Pending Fetch(cloud::CachedCredential<AwsKeys>::Fetched done);

  Deps deps_;
  AwsSettings settings_;
  std::optional<AwsSource> source_;
  cloud::CachedCredential<AwsKeys> cache_;
};

}  // namespace nstance::aws

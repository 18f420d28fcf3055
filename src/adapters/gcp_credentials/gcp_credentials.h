// GcpCredentials: the access token of this process, cached.
//
// Guarantees, each held by a test:
//   - a key file that is named is used; an unusable one is an error and never leads to the metadata
//     server, or the process would act as somebody else
//   - a new token is fetched 5 minutes before the old one expires, by one fetch at a time, while
//     the old one is in use; a fetch that fails leaves it in use until it expires
//   - tokens and keys live in crypto::Secret and appear in no error and no log line
//
// Lives on one loop, like everything that it is given.
#pragma once

#include "adapters/cloud_http/cached_credential.h"
#include "adapters/cloud_http/environment.h"
#include "adapters/gcp_credentials/gcp_credential_fetch.h"
#include "ports/http.h"
#include "ports/loop.h"

namespace nstance::gcp {

[[nodiscard]] GcpSettings ReadGcpSettings(const cloud::Environment& environment);

class GcpCredentials final {
 public:
  // All outlive this object.
  struct Deps {
    Loop& loop;
    HttpClient& http;
    cloud::Environment environment;
  };
  using Done = cloud::CachedCredential<GcpToken>::Done;

  GcpCredentials(Deps deps, GcpSettings settings);

  // Answers later on the loop; the Pending does not outlive this object.
  [[nodiscard]] Pending Get(Done done) { return cache_.Get(std::move(done)); }

 private:
  class Runner;
  [[nodiscard]] Pending Fetch(cloud::CachedCredential<GcpToken>::Fetched done);

  Deps deps_;
  GcpSettings settings_;
  cloud::CachedCredential<GcpToken> cache_;
};

}  // namespace nstance::gcp

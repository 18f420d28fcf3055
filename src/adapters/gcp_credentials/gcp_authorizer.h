// Authorizers for Google's APIs.
#pragma once

#include "adapters/cloud_http/request_authorizer.h"
#include "adapters/gcp_credentials/gcp_credentials.h"
#include "ports/loop.h"

namespace nstance::gcp {

// Puts the token of GcpCredentials on each request.
class GcpAuthorizer final : public cloud::RequestAuthorizer {
 public:
  // `credentials` outlives the authorizer and everything it gives.
  explicit GcpAuthorizer(GcpCredentials& credentials) : credentials_(credentials) {}

  [[nodiscard]] Pending Authorize(HttpRequest request, Done done) override;

 private:
  GcpCredentials& credentials_;
};

// Leaves requests as they are: for emulators.
class NoAuthorizer final : public cloud::RequestAuthorizer {
 public:
  explicit NoAuthorizer(Loop& loop) : loop_(loop) {}

  [[nodiscard]] Pending Authorize(HttpRequest request, Done done) override;

 private:
  Loop& loop_;
};

}  // namespace nstance::gcp

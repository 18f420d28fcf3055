// AwsAuthorizer: signs the requests of one service in one region with AwsCredentials.
#pragma once

#include <string>

#include "adapters/aws_credentials/aws_credentials.h"
#include "adapters/cloud_http/request_authorizer.h"

namespace nstance::aws {

class AwsAuthorizer final : public cloud::RequestAuthorizer {
 public:
  // `credentials` outlives the authorizer and everything it gives.
  AwsAuthorizer(AwsCredentials& credentials, std::string region, std::string service)
      : credentials_(credentials), region_(std::move(region)), service_(std::move(service)) {}

  [[nodiscard]] Pending Authorize(HttpRequest request, Done done) override;

 private:
  AwsCredentials& credentials_;
  const std::string region_;
  const std::string service_;
};

}  // namespace nstance::aws

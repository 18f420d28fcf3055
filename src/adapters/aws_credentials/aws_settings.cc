#include "adapters/aws_credentials/aws_settings.h"

namespace nstance::aws {
namespace {

std::string SharedFile(const cloud::Environment& environment) {
  const std::string home = environment.Get("HOME");
  return environment.Get("AWS_SHARED_CREDENTIALS_FILE",
                         home.empty() ? "" : home + "/.aws/credentials");
}

std::string ContainerUrl(const cloud::Environment& environment) {
  const std::string relative = environment.Get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (!relative.empty()) return "http://169.254.170.2" + relative;
  return environment.Get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

}  // namespace

AwsSettings ReadAwsSettings(const cloud::Environment& environment) {
  return {
      .access_key = environment.Get("AWS_ACCESS_KEY_ID"),
      .secret_key = environment.Get("AWS_SECRET_ACCESS_KEY"),
      .session_token = environment.Get("AWS_SESSION_TOKEN"),
      .region = environment.Get("AWS_REGION", environment.Get("AWS_DEFAULT_REGION")),
      .web_identity_token_file = environment.Get("AWS_WEB_IDENTITY_TOKEN_FILE"),
      .role_arn = environment.Get("AWS_ROLE_ARN"),
      .role_session_name = environment.Get("AWS_ROLE_SESSION_NAME", "nstance"),
      .sts_endpoint = environment.Get("AWS_ENDPOINT_URL_STS"),
      .container_url = ContainerUrl(environment),
      .container_token = environment.Get("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
      .container_token_file = environment.Get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
      .metadata_enabled = !environment.IsTrue("AWS_EC2_METADATA_DISABLED"),
      .metadata_endpoint =
          environment.Get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254"),
      .shared_file = SharedFile(environment),
      .profile = environment.Get("AWS_PROFILE", "default"),
  };
}

}  // namespace nstance::aws

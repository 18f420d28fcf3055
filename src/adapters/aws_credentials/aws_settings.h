// AwsSettings: what the environment says about credentials, in the names of the vendor's own tools.
#pragma once

#include <optional>
#include <string>

#include "adapters/cloud_http/environment.h"
#include "crypto/secret.h"

namespace nstance::aws {

struct AwsSettings {
  std::string access_key;     // AWS_ACCESS_KEY_ID
  std::string secret_key;     // AWS_SECRET_ACCESS_KEY
  std::string session_token;  // AWS_SESSION_TOKEN

  std::string region;                   // AWS_REGION, AWS_DEFAULT_REGION; for STS.
  std::string web_identity_token_file;  // AWS_WEB_IDENTITY_TOKEN_FILE
  std::string role_arn;                 // AWS_ROLE_ARN
  std::string role_session_name;        // AWS_ROLE_SESSION_NAME, or "nstance"
  std::string sts_endpoint;             // AWS_ENDPOINT_URL_STS

  // AWS_CONTAINER_CREDENTIALS_RELATIVE_URI below the fixed address of the vendor, else
  // AWS_CONTAINER_CREDENTIALS_FULL_URI.
  std::string container_url;
  std::string container_token;       // AWS_CONTAINER_AUTHORIZATION_TOKEN
  std::string container_token_file;  // AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE

  bool metadata_enabled = true;   // AWS_EC2_METADATA_DISABLED is not "true".
  std::string metadata_endpoint;  // AWS_EC2_METADATA_SERVICE_ENDPOINT, or the fixed address.
  // Version 1 of the metadata service has no token, so any confused proxy on the machine can be
  // made to fetch keys from it. Only where somebody has decided so.
  bool metadata_v1_allowed = false;

  std::string shared_file;  // AWS_SHARED_CREDENTIALS_FILE, or ~/.aws/credentials
  std::string profile;      // AWS_PROFILE, or "default"
};

[[nodiscard]] AwsSettings ReadAwsSettings(const cloud::Environment& environment);

}  // namespace nstance::aws

// AwsKeys: what requests are signed with, and the readers of everything that holds such keys.
//
// The readers are total. Their errors never show what they read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "crypto/secret.h"

namespace nstance::aws {

struct AwsKeys {
  std::string access_key;
  crypto::Secret secret_key;
  crypto::Secret session_token;         // Empty: none.
  std::optional<Timestamp> expires_at;  // Empty: never.
};

// REQUIRES: text without secrets in `access_key`; empty `session_token` means none.
[[nodiscard]] AwsKeys MakeKeys(std::string_view access_key, std::string_view secret_key,
                               std::string_view session_token, std::optional<Timestamp> expires_at);

// The JSON document of container endpoints and instance metadata.
[[nodiscard]] Result<AwsKeys> ParseMetadataKeys(std::string_view json);
// The XML answer of AssumeRoleWithWebIdentity.
[[nodiscard]] Result<AwsKeys> ParseStsKeys(std::string_view xml);
// A profile of a shared credentials file. kNotFound when the file has no such profile.
[[nodiscard]] Result<AwsKeys> ParseSharedCredentials(std::string_view ini,
                                                     std::string_view profile);

// The error code in an XML answer of the query APIs ("ExpiredTokenException"); empty when there is
// none that can be read.
[[nodiscard]] std::string ParseQueryErrorCode(std::string_view xml);

}  // namespace nstance::aws

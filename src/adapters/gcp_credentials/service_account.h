// A service account's key file, and the assertion (RFC 7523) that is exchanged for an access token.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "crypto/secret.h"

namespace nstance::gcp {

struct ServiceAccount {
  std::string client_email;
  std::string private_key_id;
  std::string token_uri;
  crypto::Secret private_key;  // PEM.
};

// Total; errors never show what was read. Refused with kFailedPrecondition: other kinds of
// credential files, a missing member.
[[nodiscard]] Result<ServiceAccount> ParseServiceAccount(std::string_view json);

// The signed JWT: RS256, `iss` the account, `aud` its token_uri, valid from `now` for one hour.
// kFailedPrecondition when the private key is no RSA key of at least 2048 bits.
[[nodiscard]] Result<std::string> SignAssertion(const ServiceAccount& account,
                                                std::string_view scope, Timestamp now);

}  // namespace nstance::gcp

// How agents and operators join: RegistrationService.
// Wire form and rules: proto/nstance/v1, ports/api/README.md.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"

namespace nstance::api {

struct RegisterClientRequest {
  std::string registration_nonce_jwt = {};
  std::string public_key_pem = {};  // PEM `PUBLIC KEY` (SPKI), Ed25519 only.
  std::string private_ipv4 = {};
  std::string private_ipv6 = {};
  std::string hostname = {};
  std::string proof = {};  // The new key's signature over the token and itself.

  friend bool operator==(const RegisterClientRequest&, const RegisterClientRequest&) = default;
};

struct RegisterClientResponse {
  std::string client_certificate_pem = {};
  std::optional<Timestamp> expires_at = {};

  friend bool operator==(const RegisterClientResponse&, const RegisterClientResponse&) = default;
};

}  // namespace nstance::api

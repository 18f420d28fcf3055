// Messages that several services share.
// Wire form and rules: proto/nstance/v1, ports/api/README.md.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"

namespace nstance::api {

struct Empty {
  friend bool operator==(const Empty&, const Empty&) = default;
};

struct RenewCertificateRequest {
  std::string public_key_pem = {};  // PEM `PUBLIC KEY` (SPKI), Ed25519 only.

  friend bool operator==(const RenewCertificateRequest&, const RenewCertificateRequest&) = default;
};

struct RenewCertificateResponse {
  std::string client_certificate_pem = {};
  std::optional<Timestamp> expires_at = {};

  friend bool operator==(const RenewCertificateResponse&,
                         const RenewCertificateResponse&) = default;
};

}  // namespace nstance::api

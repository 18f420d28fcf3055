// What an agent's own certificate must say before it is kept: whose it is, for which key, how long.
//
// The certificate came over a connection whose server was verified, or from our own disk; that the
// authority's signature holds is for the server to judge. What is checked here keeps a wrong answer
// from replacing a good file.
#pragma once

#include <optional>
#include <string_view>

#include "base/puidv7.h"
#include "base/result.h"
#include "core/agent/renewal.h"
#include "crypto/certificate.h"
#include "crypto/ed25519.h"

namespace nstance::agent {

struct OwnCertificate {
  crypto::Certificate certificate;
  InstanceId instance;

  [[nodiscard]] Validity validity() const {
    return {.not_before = certificate.facts().not_before,
            .not_after = certificate.facts().not_after};
  }
};

struct OwnCertificateRules {
  const crypto::PublicKey& key;
  const std::optional<InstanceId>& instance;  // Empty: any.
};

// kFailedPrecondition with the reason: malformed, of another key, not an agent's, no or another
// instance id, a validity that ends before it begins.
[[nodiscard]] Result<OwnCertificate> ReadOwnCertificate(std::string_view pem,
                                                        const OwnCertificateRules& rules);

}  // namespace nstance::agent

// IdentitySwap: which steps are left of an exchange of the agent's key and certificate.
//
// A renewal puts a new pair in place by single atomic file operations. Whatever step a crash cut it
// short at, the files alone tell how to go on, and no step loses the only copy of anything:
//
//   1  write next.key                    the key asked for; kept for a lost answer
//   2  (RenewCertificate)
//   3  write next.crt                    from here on the exchange is finished, not undone
//   4  move next.key to identity.key     the old pair no longer fits, next.crt does
//   5  write identity.pub
//   6  move next.crt to identity.crt
//
// A next.crt that fits neither next.key nor identity.key is nobody's and is removed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crypto/ed25519.h"

namespace nstance::agent {

// The public keys that the files speak of; empty where a file is missing or unreadable.
struct IdentityKeys {
  std::optional<crypto::PublicKey> key = std::nullopt;               // identity.key
  std::optional<crypto::PublicKey> public_key = std::nullopt;        // identity.pub
  std::optional<crypto::PublicKey> next_key = std::nullopt;          // next.key
  std::optional<crypto::PublicKey> next_certificate = std::nullopt;  // next.crt
};

enum class SwapStep : std::uint8_t {
  kMoveKey,          // next.key becomes identity.key.
  kWritePublicKey,   // identity.pub is made from identity.key.
  kMoveCertificate,  // next.crt becomes identity.crt.
  kDropCertificate,  // next.crt is removed.
};

// In order; empty when nothing is left to do. `has_next_certificate`: the file exists, whether it
// can be read or not.
struct SwapFiles {
  IdentityKeys keys = {};
  bool has_next_certificate = false;
};
[[nodiscard]] std::vector<SwapStep> PlanSwap(const SwapFiles& files);

}  // namespace nstance::agent

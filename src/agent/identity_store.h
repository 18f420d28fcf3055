// IdentityStore: the agent's keys and certificates on disk, changed in steps that a crash may cut
// short anywhere (core/agent/identity_swap.h).
//
//   file            what
//   ca.crt          the cluster's roots; only read
//   nonce.jwt       the token to join with; read, removed after registration
//   identity.key    own private key, PKCS#8; identity.pub its public half
//   identity.crt    own certificate
//   next.key, .crt  of a renewal under way
//   config.hash     runtime hash in force
//
// Every method makes at most one change to the disk, except LoadIdentity(), which runs before
// anything is served.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/agent/identity_swap.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "crypto/ed25519.h"
#include "ports/agent_files.h"
#include "ports/secure_random.h"

namespace nstance::agent {

using PrivateKeyPtr = std::shared_ptr<const crypto::PrivateKey>;

class IdentityStore final {
 public:
  IdentityStore(AgentFiles& files, SecureRandom& random) : files_(files), random_(random) {}

  // The roots as ca.crt has them now. kFailedPrecondition when it is missing or no trust bundle.
  [[nodiscard]] Result<std::vector<crypto::Certificate>> ReadRoots();

  struct Loaded {
    PrivateKeyPtr key;
    std::optional<std::string> certificate_pem;  // Unchecked.
  };
  // Finishes an exchange that was cut short, then reads the pair, making what is missing. A key
  // that is missing or unreadable beside a certificate is kFailedPrecondition.
  [[nodiscard]] Result<Loaded> LoadIdentity();

  // Empty: there is none. Without blanks at its ends.
  [[nodiscard]] Result<std::optional<std::string>> ReadNonce();
  [[nodiscard]] Status RemoveNonce() { return files_.Remove(kNonce); }
  [[nodiscard]] Status WriteCertificate(std::string_view pem) {
    return files_.Replace(kCertificate, pem);
  }

  // Empty when there is no such file or it cannot be read.
  [[nodiscard]] std::string ConfigHash();
  // Leaves a hash that is there.
  [[nodiscard]] Status AddConfigHash(std::string_view hash);

  // The key of the renewal under way, made durable if there is none yet.
  [[nodiscard]] Result<PrivateKeyPtr> NextKey();
  [[nodiscard]] Status WriteNextCertificate(std::string_view pem) {
    return files_.Replace(kNextCertificate, pem);
  }
  // One step of the exchange. False: nothing was left to do.
  [[nodiscard]] Result<bool> SwapOne();

  [[nodiscard]] std::string PathOf(std::string_view name) const { return files_.PathOf(name); }

  static constexpr std::string_view kRoots = "ca.crt";
  static constexpr std::string_view kNonce = "nonce.jwt";
  static constexpr std::string_view kKey = "identity.key";
  static constexpr std::string_view kPublicKey = "identity.pub";
  static constexpr std::string_view kCertificate = "identity.crt";
  static constexpr std::string_view kNextKey = "next.key";
  static constexpr std::string_view kNextCertificate = "next.crt";
  static constexpr std::string_view kConfigHash = "config.hash";

 private:
  // Empty: no such file.
  [[nodiscard]] Result<std::optional<crypto::PrivateKey>> ReadKey(std::string_view name);
  [[nodiscard]] Result<SwapFiles> Look();
  [[nodiscard]] Status Make(SwapStep step, const SwapFiles& files);
  [[nodiscard]] Status WriteKey(std::string_view name, const crypto::PrivateKey& key);
  [[nodiscard]] crypto::PrivateKey NewKey();

  [[nodiscard]] Result<std::optional<crypto::PublicKey>> PublicHalf(std::string_view name);

  // Every step of an exchange reads the files anew, but what a text holds is found out once: making
  // a key of it costs as much as a signature.
  struct Known {
    crypto::Sha256Digest file = {};
    std::optional<crypto::PublicKey> key;  // Empty: it is none.
  };
  static constexpr std::size_t kMostKnown = 4;

  AgentFiles& files_;
  SecureRandom& random_;
  std::vector<Known> known_ = {};
};

}  // namespace nstance::agent

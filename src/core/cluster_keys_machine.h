// ClusterKeysMachine: reads the cluster's CA and token key, and creates what is missing if this
// program may. Sans I/O; storage/cluster_keys.h runs it.
//
// A round looks at `ca.crt`, then at the secret `ca.key`, then at `registration-nonce.key`.
//
//   found            | by the holder of the cluster lease     | by anybody else
//   -----------------+----------------------------------------+------------------------------------
//   both             | checked: the key must belong to the certificate, else fatal
//   neither          | key created, then the certificate      | wait
//   key only         | a certificate is signed with it        | wait
//   certificate only | fatal: "ca.crt exists but ca.key is missing"
//   no token key     | created                                | wait
//
// Every creation is create-only; whoever loses one reads what won. After a creation, won or lost or
// in doubt, the round begins anew: only what was read from the stores is ever used.
//
// Fatal verdicts are given only when a second round, 10 s later, comes to the same: one stale or
// damaged answer ends no process. Errors of the stores wait with back-off, for ever.
//
//   state     | event  | next      | command
//   ----------+--------+-----------+---------------------------------------------------------------
//   new       | Start  | ca.crt    | ReadCertificate
//   ca.crt    | answer | ca.key    | ReadSecret(ca.key); error: waiting
//   ca.key    | answer | token key | ReadSecret(token key)
//             |        | creating  | CreateSecret, CreateCertificate
//             |        | waiting   | Wait
//             |        | done      | Fail
//   token key | answer | done      | Finish; or as in the four lines above
//   creating  | answer | ca.crt    | ReadCertificate; an error other than "another stands": waiting
//   waiting   | woke   | ca.crt    | ReadCertificate
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "core/back_off.h"
#include "core/config/config.h"
#include "core/object_key.h"
#include "crypto/certificate.h"
#include "crypto/certificate_authority.h"
#include "crypto/ed25519.h"
#include "crypto/secret.h"

namespace nstance {

// What all servers of a cluster share. Immutable; `authority` signs with the first root.
struct ClusterIdentity {
  std::shared_ptr<const crypto::CertificateAuthority> authority = {};
  std::vector<crypto::Certificate> roots = {};  // 1 to 4, the one that signs first.
  std::string ca_pem = {};                      // `ca.crt` as it is stored: what agents are given.
  std::shared_ptr<const crypto::PrivateKey> nonce_key = {};
};
using ClusterIdentityRef = std::shared_ptr<const ClusterIdentity>;

class ClusterKeysMachine {
 public:
  struct ReadCertificate {};
  struct ReadSecret {
    ObjectKey name;
  };
  struct CreateSecret {
    ObjectKey name;
    crypto::Secret value;
  };
  struct CreateCertificate {
    std::string pem;
  };
  struct Wait {
    Duration length;
    Error reason;  // For `/readyz`.
  };
  struct Finish {
    ClusterIdentityRef identity;
  };
  struct Fail {
    Error why;
  };
  using Command = std::variant<ReadCertificate, ReadSecret, CreateSecret, CreateCertificate, Wait,
                               Finish, Fail>;

  struct Options {
    crypto::CaSubject subject = {};
    Duration ca_life = crypto::kDefaultCaLife;
    // How secrets are called in messages: the provider's prefix.
    std::string secret_prefix = {};
  };
  enum class Right : std::uint8_t { kReadOnly, kMayCreate };
  // What comes with every event.
  struct Input {
    Right right = Right::kReadOnly;
    Timestamp wall_now;
    // Where new keys come from.
    std::reference_wrapper<std::move_only_function<crypto::PrivateKey()>> new_key;
    std::reference_wrapper<Prng> jitter;
  };

  explicit ClusterKeysMachine(Options options) : options_(std::move(options)) {}

  [[nodiscard]] Command Start();
  // kNotFound: there is none. The text of `ca.crt`.
  [[nodiscard]] Command OnCertificate(Result<std::string> pem, const Input& input);
  [[nodiscard]] Command OnSecret(Result<crypto::Secret> value, const Input& input);
  // kAborted and kAlreadyExists: another one stands.
  [[nodiscard]] Command OnCreated(Status status, const Input& input);
  [[nodiscard]] Command OnWoke();

 private:
  enum class State : std::uint8_t {
    kNew,
    kCertificate,
    kCaKey,
    kNonceKey,
    kCreating,
    kWaiting,
    kDone,
  };

  [[nodiscard]] Command NewRound();
  [[nodiscard]] Command WaitBecause(Error reason, const Input& input);
  [[nodiscard]] Command Condemn(Error why, const Input& input);
  [[nodiscard]] Command OnMissing(const ObjectKey& name, const Input& input);
  [[nodiscard]] Command OnCaKey(crypto::PrivateKey key, const Input& input);
  [[nodiscard]] Command OnNonceKey(crypto::PrivateKey key);
  [[nodiscard]] Command CreateKey(const ObjectKey& name, const Input& input);
  [[nodiscard]] Command SelfSign(const crypto::PrivateKey& key, const Input& input);
  [[nodiscard]] Error Unusable(const ObjectKey& name, const Error& error) const;

  Options options_;
  State state_ = State::kNew;
  BackOff back_off_;
  std::optional<Error> suspicion_ = std::nullopt;  // Fatal verdict of the round before.
  // Of this round.
  std::optional<std::string> pem_ = std::nullopt;
  std::vector<crypto::Certificate> roots_;
  std::shared_ptr<const crypto::CertificateAuthority> authority_;
};

// Names, organization and life of the CA as the configuration has them.
[[nodiscard]] ClusterKeysMachine::Options ClusterKeysOptions(const config::Config& config);

[[nodiscard]] const ObjectKey& CaCertificateKey();  // ca.crt
[[nodiscard]] const ObjectKey& CaSecretName();      // ca.key
[[nodiscard]] const ObjectKey& NonceSecretName();   // registration-nonce.key

}  // namespace nstance

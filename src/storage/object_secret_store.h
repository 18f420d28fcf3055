// ObjectSecretStore: secrets as sealed objects below a prefix (`server.secrets.provider` =
// `object-storage`).
//
// Every value is sealed by crypto/envelope.h, bound to the cluster and to the object's full name,
// with a nonce from SecureRandom that is new for every write. There is no plain-text mode. A value
// that does not open is an error, never a fallback; the reason is in the message, for the log.
//
// Reading knows the current key and several old ones; writing uses the current one. Values in the
// legacy form are read while the options allow it, and each such read is counted in
// `secrets_legacy_reads_total`.
#pragma once

#include <string>

#include "base/metrics.h"
#include "base/name.h"
#include "base/prng.h"
#include "crypto/envelope.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/secret_store.h"
#include "ports/secure_random.h"

namespace nstance {

class ObjectSecretStore final : public SecretStore {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;
    SecureRandom& random;
    Prng& jitter;
    metrics::Registry& metrics;
  };
  struct Options {
    ClusterId cluster;
    std::string prefix = "secret/";
    crypto::KeyRing keys;
    crypto::EnvelopeForm written_form = crypto::EnvelopeForm::kV1;
    crypto::LegacyPolicy legacy = crypto::LegacyPolicy::kAllowed;
    // How long a lost answer of a write is followed up.
    Duration settle_limit = Duration::Seconds(10);
  };

  ObjectSecretStore(Deps deps, Options options);

  [[nodiscard]] Pending Get(const ObjectKey& name, Done<crypto::Secret> done) override;
  [[nodiscard]] Pending Create(const ObjectKey& name, crypto::Secret value,
                               Done<void> done) override;

 private:
  [[nodiscard]] Result<ObjectKey> FullName(const ObjectKey& name) const;
  [[nodiscard]] Result<crypto::Secret> Open(const ObjectKey& full, const Object& object);
  [[nodiscard]] Result<std::string> Seal(const ObjectKey& full, const crypto::Secret& value);

  Deps deps_;
  Options options_;
};

}  // namespace nstance

// SecretStore: where the cluster's secrets are kept: the CA key, the token key, and what
// administrators put there for files of kind `secret`.
//
// A name is an ObjectKey without the store's prefix (`ca.key`). Values are never logged, never part
// of an error, and live in crypto::Secret.
#pragma once

#include <functional>

#include "base/result.h"
#include "core/object_key.h"
#include "crypto/secret.h"
#include "ports/pending.h"

namespace nstance {

class SecretStore {
 public:
  SecretStore() = default;
  SecretStore(const SecretStore&) = delete;
  SecretStore& operator=(const SecretStore&) = delete;
  virtual ~SecretStore() = default;

  template <class T>
  using Done = std::move_only_function<void(Result<T>)>;

  // kNotFound only when the store positively has no such secret. A value that does not open
  // (damaged, sealed for another place, no such key) is kDataLoss or kFailedPrecondition: there is
  // no fallback.
  [[nodiscard]] virtual Pending Get(const ObjectKey& name, Done<crypto::Secret> done) = 0;

  // Create-only. kAlreadyExists when another value stands: read what won and go on. Any other error
  // has the outcome that is known; after kMaybeDone a Get tells.
  [[nodiscard]] virtual Pending Create(const ObjectKey& name, crypto::Secret value,
                                       Done<void> done) = 0;
};

}  // namespace nstance

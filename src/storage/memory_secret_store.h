// MemorySecretStore: secrets in this process only (`server.secrets.provider` = `memory`). For tests
// and throw-away clusters: a second server cannot share it, and a restart forgets everything.
#pragma once

#include <map>

#include "ports/loop.h"
#include "ports/secret_store.h"

namespace nstance {

class MemorySecretStore final : public SecretStore {
 public:
  explicit MemorySecretStore(Loop& loop) : loop_(loop) {}

  [[nodiscard]] Pending Get(const ObjectKey& name, Done<crypto::Secret> done) override;
  [[nodiscard]] Pending Create(const ObjectKey& name, crypto::Secret value,
                               Done<void> done) override;

 private:
  Loop& loop_;
  std::map<ObjectKey, crypto::Secret> secrets_;
};

}  // namespace nstance

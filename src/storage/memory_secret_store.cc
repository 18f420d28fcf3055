#include "storage/memory_secret_store.h"

#include <utility>

#include <fmt/core.h>

namespace nstance {

Pending MemorySecretStore::Get(const ObjectKey& name, Done<crypto::Secret> done) {
  return loop_.CallAt(loop_.Now(), [this, name, done = std::move(done)]() mutable {
    const auto at = secrets_.find(name);
    if (at == secrets_.end()) {
      done(Fail(NotFound(fmt::format("secret {}: not in memory", name.text()))));
    } else {
      done(crypto::Secret::CopyOf(at->second.Reveal()));
    }
  });
}

Pending MemorySecretStore::Create(const ObjectKey& name, crypto::Secret value, Done<void> done) {
  const bool added = secrets_.try_emplace(name, std::move(value)).second;
  return loop_.CallAt(loop_.Now(), [added, text = name.text(), done = std::move(done)]() mutable {
    if (added) return done({});
    done(Fail(AlreadyExists(fmt::format("secret {}: another value stands", text))));
  });
}

}  // namespace nstance

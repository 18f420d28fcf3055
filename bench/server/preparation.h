// Preparation: everything of a run before it is measured: the configuration is written, the server
// makes the instances of its groups by its own ways, and their tokens, operator tokens and the CA
// are put where the generator reads them. `ready` runs when all that is durable.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/metrics.h"
#include "base/prng.h"
#include "base/result.h"
#include "bench/server/bench_config.h"
#include "bench/server/counting_store.h"
#include "crypto/ed25519.h"
#include "ports/loop.h"
#include "ports/provider.h"
#include "ports/secure_random.h"
#include "storage/object_secret_store.h"

namespace nstance::bench {

// Not a secret: it seals the keys of a store that lives as long as a run.
inline constexpr std::string_view kBenchEncryptionKey = "0123456789abcdef0123456789abcdef";

class Preparation final {
 public:
  struct Deps {
    Loop& loop;
    CountingStore& store;
    SecureRandom& random;
    metrics::Registry& metrics;
  };
  struct Owner {
    std::move_only_function<void()> configured;  // The server may start.
    std::move_only_function<void()> ready;
    std::move_only_function<void(const Error&)> failed;
  };

  Preparation(Deps deps, const BenchFlags& flags, Owner owner);

  void Start();
  // A VM was made; its user data is the token.
  void Created(const ProviderCreate& request);
  // The server has become the acting leader.
  void Acting();

 private:
  void Look();
  void ReadKey(std::string ca);
  void WriteFiles(const std::string& ca, const crypto::PrivateKey& signer);
  [[nodiscard]] std::string OperatorTokens(const crypto::PrivateKey& signer) const;
  [[nodiscard]] Status Write(const std::string& name, const std::string& text) const;

  Deps deps_;
  BenchFlags flags_;
  Owner owner_;
  Prng jitter_{1};
  ObjectSecretStore secrets_;
  std::int64_t created_ = 0;
  std::string tokens_;
  bool over_ = false;
  Pending call_;
};

}  // namespace nstance::bench

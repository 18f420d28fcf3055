// StoreSession: the object store of one command, one call after the other.
//
// Every write is settled (storage/settled_put.h): its answer is true. Listings are complete or an
// error.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/storage/await.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/result.h"
#include "core/config/config.h"
#include "core/config/load.h"
#include "core/object_key.h"
#include "core/object_version.h"
#include "ports/key_source.h"
#include "ports/local_machine.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/secure_random.h"

namespace nstance::admin {

// What commands on the store are given.
struct StorageDeps {
  Loop& loop;
  Turns& turns;
  ObjectStore& store;
  SecureRandom& random;
  LocalMachine& machine;
  std::function<Result<std::unique_ptr<KeySource>>(const config::EncryptionKey&)> key_source;
  log::Logger log;
  // Tells a person at once what takes time; nothing with --quiet.
  std::function<void(std::string_view)> note;
  // Of the bucket behind `store`, which itself has our names.
  config::Layout layout = config::Layout::kNstance;
};

class StoreSession final {
 public:
  // Answers that get lost are followed up for so long.
  static constexpr Duration kSettleLimit = Duration::Seconds(10);
  // A listing with more objects is refused.
  static constexpr std::size_t kMaxListed = 200'000;

  explicit StoreSession(const StorageDeps& deps);

  [[nodiscard]] Result<Object> Get(const ObjectKey& key);
  [[nodiscard]] Result<std::vector<ObjectKey>> List(const std::string& prefix);
  // kAborted: another write stands.
  [[nodiscard]] Result<ObjectVersion> Put(PutRequest request);

  // Reads them all, several at a time, in any order. Objects that are gone are left out; `take`
  // is told of the others. The first error ends it.
  using Take = std::function<void(const ObjectKey& key, const Object& object)>;
  [[nodiscard]] Status GetAll(const std::vector<ObjectKey>& keys, const Take& take);

  [[nodiscard]] config::Layout layout() const { return deps_.layout; }
  [[nodiscard]] Prng& jitter() { return jitter_; }
  // 16 random bytes as text, new for every write.
  [[nodiscard]] std::string NewWriteId();

 private:
  const StorageDeps& deps_;
  Prng jitter_;
};

// The key of an object that we name ourselves.
[[nodiscard]] ObjectKey KnownKey(std::string_view text);

}  // namespace nstance::admin

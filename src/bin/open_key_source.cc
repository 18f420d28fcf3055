#include "bin/open_key_source.h"

#include "adapters/key_source/local_key_source.h"

namespace nstance {

Result<std::unique_ptr<KeySource>> OpenKeySource(Loop& loop, const config::EncryptionKey& key) {
  if (key.provider == config::KeyProvider::kEnv) {
    return std::make_unique<EnvironmentKeySource>(loop, key.source);
  }
  if (key.provider == config::KeyProvider::kFile) {
    return std::make_unique<FileKeySource>(loop, key.source);
  }
  return Fail(InvalidArgument("encryption_key: this build has env and file"));
}

}  // namespace nstance

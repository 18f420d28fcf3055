#include "bin/server_factories.h"

#include <utility>
#include <variant>

#include "adapters/key_source/local_key_source.h"
#include "adapters/provider_local/local_provider.h"
#include "storage/prefixed_store.h"

namespace nstance {

ServerFactories ServerFactoryParts::Factories() {
  return {
      .provider = [this](const config::Config& config) { return MakeProvider(config); },
      .key_source = [this](const config::EncryptionKey& key) { return MakeKeySource(key); },
      .cluster_store = [this](const config::Server& server) { return MakeClusterStore(server); }};
}

Result<std::unique_ptr<Provider>> ServerFactoryParts::MakeProvider(const config::Config& config) {
  const auto* local = std::get_if<config::LocalOptions>(&config.server.provider.options);
  if (local == nullptr) {
    return Fail(Error{.code = Code::kUnimplemented,
                      .message = "server.provider.kind: this build has `local`"});
  }
  ASSIGN_OR_RETURN(
      auto provider,
      LocalProvider::Open(loop_, {.local = *local,
                                  .cluster = config.server.cluster_id,
                                  .shard = shard_,
                                  .keeper_command = {"/proc/self/exe", "local-keeper"}}));
  return provider;
}

Result<std::unique_ptr<KeySource>> ServerFactoryParts::MakeKeySource(
    const config::EncryptionKey& key) {
  if (key.provider == config::KeyProvider::kEnv) {
    return std::make_unique<EnvironmentKeySource>(loop_, key.source);
  }
  if (key.provider == config::KeyProvider::kFile) {
    return std::make_unique<FileKeySource>(loop_, key.source);
  }
  return Fail(InvalidArgument("encryption_key: this build has env and file"));
}

Result<std::unique_ptr<ObjectStore>> ServerFactoryParts::MakeClusterStore(
    const config::Server& server) {
  ASSIGN_OR_RETURN(cluster_, OpenServerStore(AddressOf(*server.storage), loop_, http_));
  cluster_->SetDeadline(server.store_timeout);
  return std::make_unique<PrefixedStore>(loop_, cluster_->store(), std::string());
}

}  // namespace nstance

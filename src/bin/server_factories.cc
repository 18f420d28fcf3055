#include "bin/server_factories.h"

#include <utility>
#include <variant>

#include "adapters/provider_local/local_provider.h"
#include "bin/open_key_source.h"
#include "storage/prefixed_store.h"

namespace nstance {

StoreAddress AddressOf(const ServerCommandLine& line) {
  return {.kind = line.storage, .bucket = line.bucket};
}

ServerFactories ServerFactoryParts::Factories() {
  return {
      .provider = [this](const config::Config& config) { return MakeProvider(config); },
      .key_source = [this](const config::EncryptionKey& key) { return OpenKeySource(loop_, key); },
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

Result<std::unique_ptr<ObjectStore>> ServerFactoryParts::MakeClusterStore(
    const config::Server& server) {
  ASSIGN_OR_RETURN(cluster_, OpenStore(AddressOf(*server.storage), loop_, http_));
  cluster_->SetDeadline(server.store_timeout);
  return std::make_unique<PrefixedStore>(loop_, cluster_->store(), std::string());
}

}  // namespace nstance

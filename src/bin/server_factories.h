// What nstance-server makes from its configuration: provider, key sources, the cluster's store.
#pragma once

#include <memory>

#include "adapters/real_loop/real_loop.h"
#include "base/name.h"
#include "bin/open_store.h"
#include "ports/http.h"
#include "server/process/command_line.h"
#include "server/process/server_process.h"

namespace nstance {

// The bucket of the server's own store, as its flags name it; --prefix is the process's.
[[nodiscard]] StoreAddress AddressOf(const ServerCommandLine& line);

// Outlives the process that uses its factories; loop and client outlive it.
class ServerFactoryParts final {
 public:
  ServerFactoryParts(RealLoop& loop, HttpClient& http, ShardId shard)
      : loop_(loop), http_(http), shard_(std::move(shard)) {}

  [[nodiscard]] ServerFactories Factories();

 private:
  [[nodiscard]] Result<std::unique_ptr<Provider>> MakeProvider(const config::Config& config);
  [[nodiscard]] Result<std::unique_ptr<ObjectStore>> MakeClusterStore(const config::Server& server);

  RealLoop& loop_;
  HttpClient& http_;
  ShardId shard_;
  std::unique_ptr<OpenedStore> cluster_;
};

}  // namespace nstance

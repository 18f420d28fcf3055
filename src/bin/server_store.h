// The object store that nstance-server's flags name, with what it needs.
#pragma once

#include <memory>

#include "adapters/real_loop/real_loop.h"
#include "base/result.h"
#include "ports/http.h"
#include "ports/object_store.h"
#include "server/process/command_line.h"

namespace nstance {

// Holds the store and its credentials.
class ServerStore {
 public:
  ServerStore() = default;
  ServerStore(const ServerStore&) = delete;
  ServerStore& operator=(const ServerStore&) = delete;
  virtual ~ServerStore() = default;
  [[nodiscard]] virtual ObjectStore& store() = 0;
};

[[nodiscard]] Result<std::unique_ptr<ServerStore>> OpenServerStore(const ServerCommandLine& line,
                                                                   RealLoop& loop,
                                                                   HttpClient& http);

}  // namespace nstance

// The object stores that a program is told of: by flags, or by `server.storage`.
#pragma once

#include <memory>
#include <string>

#include "adapters/real_loop/real_loop.h"
#include "base/result.h"
#include "base/time.h"
#include "core/config/config.h"
#include "ports/http.h"
#include "ports/object_store.h"

namespace nstance {

struct StoreAddress {
  std::string kind = {};  // "file", "s3", "gcs".
  std::string bucket = {};
  std::string region = {};    // Empty: of the environment.
  std::string endpoint = {};  // Likewise.
  std::string prefix = {};
};
[[nodiscard]] StoreAddress AddressOf(const config::Storage& storage);

// Holds the store and its credentials.
class OpenedStore {
 public:
  OpenedStore() = default;
  OpenedStore(const OpenedStore&) = delete;
  OpenedStore& operator=(const OpenedStore&) = delete;
  virtual ~OpenedStore() = default;
  [[nodiscard]] virtual ObjectStore& store() = 0;
  // `server.store_timeout`, for calls that begin from now on.
  virtual void SetDeadline(Duration deadline) = 0;
};

// kInvalidArgument: the address is none. A folder that is not there yet is no error: its calls end
// with kUnavailable until it is.
[[nodiscard]] Result<std::unique_ptr<OpenedStore>> OpenStore(const StoreAddress& address,
                                                             RealLoop& loop, HttpClient& http);

}  // namespace nstance

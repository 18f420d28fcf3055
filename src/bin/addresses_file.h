// The file of --addresses-file: where this server listens, each time it becomes the leader.
//
//   {"health":"127.0.0.1:8990","election":"...","registration":"...","operator":"...",
//    "agent":"...","epoch":3}
//
// Replaced atomically, never removed. Blocks for one small write.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "ports/rpc.h"

namespace nstance {

class AddressesFile final {
 public:
  // An empty path: nothing is written.
  explicit AddressesFile(std::string path) : path_(std::move(path)) {}

  void SetHealth(RpcAddress health) { health_ = std::move(health); }
  void SetElection(RpcAddress election) { election_ = std::move(election); }
  [[nodiscard]] Status Write(std::int64_t epoch, const std::map<RpcPort, RpcAddress>& open) const;

 private:
  std::string path_;
  RpcAddress health_;
  RpcAddress election_;
};

}  // namespace nstance

// Join: one registration on a connection of its own, as a new machine makes it: fresh key, TLS
// handshake, token and proof, certificate checked against the key.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/name.h"
#include "base/result.h"
#include "bench/generator/token_file.h"
#include "ports/rpc.h"
#include "ports/secure_random.h"

namespace nstance::bench {

// What joiners need of the world.
struct JoinDeps {
  SecureRandom& random;
  RpcAddress registration;
  ClusterId cluster;
  std::vector<crypto::Certificate> roots;
};

class Join final {
 public:
  using Done = std::move_only_function<void(Result<RpcTls> identity)>;

  // `done` runs once and may destroy the Join. What it gets is ready to dial with.
  Join(const JoinDeps& deps, RpcDialer& dialer, crypto::Role role, const TokenLine& line,
       Done done);

 private:
  void OnState(RpcChannelState state, const Status& why);
  void Ask();
  void Finish(Result<RpcTls> identity);
  [[nodiscard]] Result<RpcTls> Material(const std::string& certificate) const;

  const JoinDeps& deps_;
  crypto::Role role_;
  std::string token_;
  Done done_;
  std::shared_ptr<const crypto::PrivateKey> key_;
  std::unique_ptr<RpcChannel> channel_;
  Pending call_;
};

}  // namespace nstance::bench
